"""New texts after training: readers, and the way to disk and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet, Vocabulary, make_planted_tasks
from robusttc.encoders.cnn import CnnEncoder
from robusttc.encoders.encoder import Encoder, PreparedTasks, distinct_texts
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.inputs import DenseInputs, WordInputs
from robusttc.encoders.reading import (
    EncoderReader,
    PairedReader,
    Reader,
    VectorReader,
    WordReader,
    reader_from,
    reader_of,
)
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.encoders.vector_cache import VectorCache
from robusttc.errors import DataError, StoreError, UsageError
from robusttc.progress import Progress

TASKS = TaskSet(
    [
        Task("a", ["Where is my parcel?", "Hello there", "hello"], ["x", "y", "y"]),
        Task("b", ["hello there, you", "  spaces  "], ["x", "z"]),
    ]
)


def through_json(reader: Reader) -> Reader:
    settings, arrays = reader.describe()
    return reader_from(json.loads(json.dumps(settings)), {name: a.copy() for name, a in arrays.items()})


def write_vectors(folder: Path) -> Path:
    words = sorted({word for word in Vocabulary.build(TASKS).words if not word.startswith("<")})
    lines = [f"{word} {number}.5 {number + 1} -1" for number, word in enumerate(words)]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n")
    return folder / "vectors.txt"


@pytest.fixture
def words(tmp_path: Path) -> tuple[Reader, PreparedTasks]:
    encoder = CnnEncoder(write_vectors(tmp_path))
    prepared = encoder.prepare(TASKS)
    return reader_of(encoder, prepared), prepared


def test_words_are_read_as_in_training(words: tuple[Reader, PreparedTasks]) -> None:
    reader, prepared = words
    assert isinstance(reader, WordReader)
    for task in TASKS:
        inputs = reader.read(list(task.texts))
        trained = prepared.inputs_of(task.name, np.arange(len(task)))
        assert isinstance(trained, WordInputs)
        assert inputs.tokens.ids.tolist() == trained.tokens.ids.tolist()
        assert inputs.tokens.offsets.tolist() == trained.tokens.offsets.tolist()
        assert np.array_equal(inputs.vectors, trained.vectors)


def test_other_words_are_unknown(words: tuple[Reader, PreparedTasks]) -> None:
    inputs = words[0].read(["HELLO zebra", "", " \t"])
    assert isinstance(inputs, WordInputs)
    vocabulary = words[1].vocabulary
    assert vocabulary is not None
    assert [row.tolist() for row in inputs.tokens] == [[vocabulary.id_of("hello"), 1], [], []]


def test_a_text_alone_is_the_text_in_company(words: tuple[Reader, PreparedTasks]) -> None:
    texts = ["hello there", "zebra parcel", "", "my my my"]
    whole = words[0].read(texts)
    assert isinstance(whole, WordInputs)
    for row, text in enumerate(texts):
        alone = words[0].read([text])
        assert isinstance(alone, WordInputs)
        assert alone.tokens.ids.tolist() == whole.tokens[row].tolist()


def test_words_go_to_disk_and_back(words: tuple[Reader, PreparedTasks]) -> None:
    again = through_json(words[0])
    texts = ["hello zebra", "Where is it?"]
    one, other = words[0].read(texts), again.read(texts)
    assert isinstance(one, WordInputs)
    assert isinstance(other, WordInputs)
    assert one.tokens.ids.tolist() == other.tokens.ids.tolist()
    assert one.vectors.tobytes() == other.vectors.tobytes()
    assert repr(again) == repr(words[0])


def test_the_order_of_tasks_does_not_change_the_words() -> None:
    tasks = make_planted_tasks(n_tasks=6, random_state=0).tasks
    turned = TaskSet(list(tasks)[::-1])
    encoder = CnnEncoder()
    first = reader_of(encoder, encoder.prepare(tasks)).describe()
    second = reader_of(encoder, encoder.prepare(turned)).describe()
    assert first[0] == second[0]
    assert np.array_equal(first[1]["vectors"], second[1]["vectors"])


def test_vectors_are_read_as_they_are() -> None:
    encoder = FeatureEncoder({"a": np.ones((3, 4)), "b": np.zeros((2, 4))})
    reader = reader_of(encoder, encoder.prepare(TASKS))
    matrix = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    for made in (reader, through_json(reader)):
        inputs = made.read(matrix)
        assert isinstance(inputs, DenseInputs)
        assert inputs.matrix.tobytes() == matrix.tobytes()
        one = made.read(matrix[2:3].tolist())
        assert isinstance(one, DenseInputs)
        assert one.matrix.tobytes() == matrix[2].tobytes()
        assert len(made.read([])) == 0
        assert repr(made) == "VectorReader(dimension 4)"


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (["hello"], UsageError, r"cannot read texts.*shape \(rows, 4\).*Give the vectors"),
        ("hello", UsageError, "cannot read texts"),
        (np.array(["hello"]), UsageError, "cannot read texts"),
        ([None], UsageError, "cannot read texts"),
        ([[1.0, 2.0]], DataError, r"shape \(1, 2\)"),
        ([1.0, 2.0, 3.0, 4.0], DataError, r"shape \(4,\)"),
        ([[1.0, 2.0], [1.0]], DataError, "cannot be used"),
        ([[1.0, 2.0, 3.0, float("nan")]], DataError, "not finite"),
        ([[1.0, 2.0, 3.0, 1e300]], DataError, "not finite"),
    ],
)
def test_what_is_no_vector_is_refused(given: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        VectorReader(4).read(given)


class LengthEncoder:
    """An encoder of somebody's own: a text's length, and a one."""

    name = "length"
    fingerprint = "length"

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        del progress
        texts, items = distinct_texts(tasks, splits)
        matrix = np.array([[len(text), 1.0] for text in texts], dtype=np.float32).reshape(len(texts), 2)
        return PreparedTasks(DenseInputs(matrix), items)


def test_an_encoder_of_ones_own_reads_but_is_not_saved() -> None:
    encoder: Encoder = LengthEncoder()
    reader = reader_of(encoder, encoder.prepare(TASKS))
    inputs = reader.read(["abc", "", " ", "abc", "z"])
    assert isinstance(inputs, DenseInputs)
    assert inputs.matrix[:, 0].tolist() == [3, 0, 1, 3, 1]
    assert len(reader.read([])) == 0
    with pytest.raises(UsageError, match="encoder of your own cannot be saved; got LengthEncoder"):
        reader.describe()


def test_words_without_a_vocabulary_are_refused() -> None:
    prepared = CnnEncoder().prepare(TASKS)
    with pytest.raises(UsageError, match="without the words"):
        reader_of(CnnEncoder(), PreparedTasks(prepared.inputs, prepared.items))
    with pytest.raises(UsageError, match="3 vectors for 2 words"):
        WordReader(Vocabulary(("<pad>", "<unk>")), np.zeros((3, 2), np.float32))


def chars() -> Iterator[str]:
    yield "a"
    yield "b"


@pytest.mark.parametrize(
    ("texts", "error", "match"),
    [
        ("hello", UsageError, "these are no texts"),
        (b"hello", UsageError, "these are no texts"),
        (3, UsageError, "these are no texts"),
        (["a", 3], DataError, "row 1.*not a string; got 3"),
        (["a", None], DataError, "row 1"),
        (["a", "\ud800"], DataError, "row 1.*surrogate"),
    ],
)
def test_what_is_no_text_is_refused(texts: Any, error: Any, match: str) -> None:
    for reader in (WordReader(Vocabulary(("<pad>", "<unk>")), np.zeros((2, 2), np.float32)),):
        with pytest.raises(error, match=match):
            reader.read(texts)
    with pytest.raises(error, match=match):
        EncoderReader(LengthEncoder()).read(texts)


def test_any_iterable_of_texts_is_read() -> None:
    assert len(EncoderReader(LengthEncoder()).read(chars())) == 2  # type: ignore[arg-type]
    assert len(EncoderReader(LengthEncoder()).read(np.array(["a", "b"], dtype=object))) == 2  # type: ignore[arg-type]
    assert len(EncoderReader(LengthEncoder()).read(TASKS["a"].texts)) == 3


VECTORS = np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(
    ("settings", "arrays"),
    [
        ({}, {}),
        ({"kind": "pickle"}, {}),
        ({"kind": "vectors"}, {}),
        ({"kind": "vectors", "dimension": True}, {}),
        ({"kind": "vectors", "dimension": 0}, {}),
        ({"kind": "words", "words": ["<pad>", "<unk>"], "lower": True}, {}),
        ({"kind": "words", "words": ["<pad>", 3], "lower": True}, {"vectors": VECTORS}),
        ({"kind": "words", "words": ["<pad>", "<unk>"], "lower": 1}, {"vectors": VECTORS}),
        ({"kind": "words", "words": ["<pad>", "<unk>", "a"], "lower": True}, {"vectors": VECTORS}),
        ({"kind": "words", "words": ["<pad>", "<unk>"], "lower": True}, {"vectors": VECTORS + 1}),
        ({"kind": "words", "words": ["<pad>", "<unk>"], "lower": True}, {"vectors": VECTORS.astype("f8")}),
        ({"kind": "sentence", "model": None}, {}),
        ({"kind": "sentence", "model": 3, "fingerprint": "x"}, {}),
    ],
)
def test_damaged_descriptions_are_refused(settings: Any, arrays: Any) -> None:
    with pytest.raises(StoreError):
        reader_from(settings, arrays)


def test_sentences_are_read_by_the_same_model_or_not_at_all() -> None:
    encoder = SentenceEncoder(cache=VectorCache.disabled())
    prepared = encoder.prepare(TASKS)
    reader = reader_of(encoder, prepared)
    texts = list(TASKS["a"].texts)
    inputs = reader.read(texts)
    assert isinstance(inputs, DenseInputs)
    assert isinstance(prepared.inputs, DenseInputs)
    trained = prepared.inputs.take(prepared.items["a"])
    assert inputs.matrix == pytest.approx(trained.matrix, abs=1e-6)
    for row, text in enumerate(texts):
        alone = reader.read([text])
        assert isinstance(alone, DenseInputs)
        assert alone.matrix[0] == pytest.approx(inputs.matrix[row], abs=1e-6)
    assert len(reader.read([])) == 0
    assert len(reader.read(["", " "])) == 2

    settings, arrays = reader.describe()
    assert (settings["kind"], settings["model"], settings["fingerprint"]) == (
        "sentence",
        None,
        encoder.fingerprint,
    )
    again = reader_from(json.loads(json.dumps(settings)), arrays)
    assert isinstance(again, EncoderReader)
    read_again = again.read(texts)
    assert isinstance(read_again, DenseInputs)
    assert read_again.matrix == pytest.approx(inputs.matrix, abs=1e-6)
    with pytest.raises(StoreError, match="the default model: the sentence model is not the one"):
        reader_from({**settings, "fingerprint": "0" * 64}, {})


def test_a_changed_model_goes_to_disk_and_back() -> None:
    name = "encoder.layer.5.output.dense.bias"
    changes = {name: np.random.default_rng(0).normal(size=384).astype(np.float32)}
    encoder = SentenceEncoder(changes=changes, cache=VectorCache.disabled())
    reader = EncoderReader(encoder)
    settings, arrays = reader.describe()
    assert settings["changed"] is True
    assert arrays[name].tobytes() == changes[name].tobytes()
    texts = ["Where is my parcel?"]
    again = reader_from(json.loads(json.dumps(settings)), arrays)
    one, other, plain = reader.read(texts), again.read(texts), EncoderReader(SentenceEncoder()).read(texts)
    assert isinstance(one, DenseInputs)
    assert isinstance(other, DenseInputs)
    assert isinstance(plain, DenseInputs)
    assert other.matrix == pytest.approx(one.matrix, abs=1e-6)
    assert np.abs(plain.matrix - one.matrix).max() > 0.01
    # Other weights, weights of another model, and none at all.
    for wrong in ({name: changes[name] + 1}, {"nowhere": changes[name]}, {}):
        with pytest.raises(StoreError, match="not the one that this was trained with"):
            reader_from(settings, wrong)


def test_two_encoders_side_by_side_are_read_and_described() -> None:
    first, second = VectorReader(2), VectorReader(2)
    pair = PairedReader(first, second)
    settings, arrays = pair.describe()
    again = reader_from(settings, arrays)
    assert isinstance(again, PairedReader)
    rows = np.arange(6.0).reshape(3, 2)
    assert again.read(rows).matrix.tolist() == pair.read(rows).matrix.tolist()
    assert again.read(rows).matrix.shape == (3, 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "paired", "first": {"kind": "vectors", "dimension": 2}},
        {"kind": "paired", "first": 3, "second": 4},
        {"kind": "paired", "first": {"kind": "paired"}, "second": {"kind": "paired"}},
    ],
)
def test_a_damaged_pair_of_readers_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match="damaged"):
        reader_from(settings, {})
