"""The word encoder: tokens and vectors of every distinct text, and the content that names them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robusttc.data import SPLITS, Task, TaskSet, load_word_vectors, tokenize
from robusttc.encoders.cnn import CnnEncoder
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.layer import new_layer
from robusttc.encoders.piece_vectors import piece_word_vectors
from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import WordVectorsError
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
            item = prepared.items[task.name][row]
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
    item = prepared.items["b"][1]
    np.testing.assert_array_equal(
        words_of(prepared.inputs, item), piece_word_vectors(["<pad>", "<unk>", *tokenize("don't pay")])[2:]
    )


def test_other_tasks_and_test_rows_change_no_vector(vector_file: Path) -> None:
    encoder = CnnEncoder(vector_file)
    whole, part = encoder.prepare(TASKS), encoder.prepare(TASKS.subset(["b"]))
    assert isinstance(whole.inputs, WordInputs)
    assert isinstance(part.inputs, WordInputs)
    for row in range(2):
        assert words_of(whole.inputs, whole.items["b"][row]) == words_of(part.inputs, part.items["b"][row])


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
        ("words", 0, 4, "texts"),
        ("words", 4, 4, "texts"),
    ]
    assert capfd.readouterr() == ("", "")


def test_repr() -> None:
    assert repr(CnnEncoder()) == "CnnEncoder()"
    assert repr(CnnEncoder("glove.txt")) == "CnnEncoder('glove.txt')"


def test_fingerprint_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WordVectorsError, match="cannot be read; got No such file"):
        _ = CnnEncoder(tmp_path / "none.txt").fingerprint
