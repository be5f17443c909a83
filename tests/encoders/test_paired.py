"""Two encoders side by side: each row has the vectors of its own text, however the two number texts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import CnnEncoder, DenseInputs, Encoder, FeatureEncoder, PairedEncoder, load_encoder
from robusttc.errors import UsageError


class LengthEncoder(Encoder):
    """The length of a text."""

    name = "length"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def rows_of(encoder: Encoder, tasks: TaskSet, name: str, rows: Sequence[int]) -> list[list[float]]:
    inputs = encoder.prepare(tasks).inputs_of(name, np.array(rows))
    assert isinstance(inputs, DenseInputs)
    found: list[list[float]] = inputs.matrix.tolist()
    return found


def test_rows_are_paired_though_the_two_number_texts_differently() -> None:
    # The texts are in another order than their sorted order; ready-made vectors go by rows.
    task = Task("a", ["zzzz", "yy", "x"], ["u", "v", "u"])
    ready = FeatureEncoder({"a": [[4.0], [2.0], [1.0]]})
    for encoder in (PairedEncoder(LengthEncoder(), ready), PairedEncoder(ready, LengthEncoder())):
        assert rows_of(encoder, TaskSet([task]), "a", [0, 1, 2]) == [[4, 4], [2, 2], [1, 1]]


def test_a_repeated_text_keeps_the_vector_of_its_row() -> None:
    tasks = TaskSet(
        [Task("a", ["yes", "no", "yes"], ["u", "v", "u"]), Task("b", ["no", "maybe"], ["u", "v"])]
    )
    ready = FeatureEncoder({"a": [[10.0], [20.0], [30.0]], "b": [[40.0], [50.0]]})
    encoder = PairedEncoder(LengthEncoder(), ready)
    assert rows_of(encoder, tasks, "a", [0, 1, 2]) == [[3, 10], [2, 20], [3, 30]]
    assert rows_of(encoder, tasks, "b", [0, 1]) == [[2, 40], [5, 50]]


def test_rows_of_other_splits_are_left_out() -> None:
    task = Task("a", ["zzzz", "yy", "x"], ["u", "v", "u"], ["train", "test", "train"])
    ready = FeatureEncoder({"a": [[4.0], [2.0], [1.0]]})
    prepared = PairedEncoder(LengthEncoder(), ready).prepare(TaskSet([task]), splits=("train",))
    assert prepared.text_index["a"][1] == -1
    inputs = prepared.inputs_of("a", np.array([0, 2]))
    assert isinstance(inputs, DenseInputs)
    assert inputs.matrix.tolist() == [[4, 4], [1, 1]]


def test_encode_and_read_concatenate() -> None:
    pair = PairedEncoder(LengthEncoder(), LengthEncoder())
    assert pair.name == "length+length"
    assert pair.encode(["abc"]).tolist() == [[3, 3]]
    read = pair.read(["a", ""])
    assert isinstance(read, DenseInputs)
    assert read.matrix.tolist() == [[1, 1], [0, 0]]
    assert pair.read([]).take([]).dimension == 2
    assert pair.fingerprint != pair.first.fingerprint


def test_it_goes_to_disk_and_back() -> None:
    pair = PairedEncoder(FeatureEncoder({}, dimension=2), FeatureEncoder({}, dimension=1))
    settings, arrays = pair.describe()
    again = load_encoder(json.loads(json.dumps(settings)), arrays)
    assert repr(again) == repr(pair)


def test_word_numbers_cannot_be_paired() -> None:
    with pytest.raises(UsageError, match="does not return one vector per text; got CnnEncoder"):
        PairedEncoder(LengthEncoder(), CnnEncoder()).read(["a"])
