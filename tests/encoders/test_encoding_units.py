"""Sentence vectors computed in units: all that are missing, each once, found by those who ask later."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import encoding_units
from robusttc.encoders.encoding_units import Recipe, encode_with, find_model
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.paired import PairedEncoder
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.encoders.sentence_model import SentenceModel
from robusttc.encoders.vector_cache import VectorCache
from robusttc.errors import DataError
from robusttc.progress import ProgressEvent
from robusttc.work.packing import pack, unpack
from robusttc.work.units import Here, Payload, Unit

TEXTS = [f"text {'x' * (number % 7)} {number}" for number in range(23)]


class Lengths:
    """Stands for a sentence model: the vector of a text is made of its characters."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str], **_: Any) -> Any:
        self.asked += texts
        return np.array([[len(text), sum(map(ord, text))] for text in texts], dtype=np.float32)


def make_encoder(cache: VectorCache, fingerprint: str = "lengths") -> tuple[SentenceEncoder, Lengths]:
    encoder, lengths = SentenceEncoder(cache=cache), Lengths()
    encoder._loaded = SentenceModel(Path("model"), fingerprint, 2, "cpu", lengths, None, fingerprint)
    return encoder, lengths


class Packed(Here):
    """Works here, but results are bytes on the way; counts units that go together."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def do(self, stage: str, units: Sequence[Unit], data: Any = None, **options: Any) -> Any:
        self.steps.append(len(units))
        assert not any(unit.keep for unit in units)
        tell: Callable[[Unit, Payload], None] = options.pop("when_done")
        return super().do(
            stage,
            units[::-1],
            data,
            when_done=lambda unit, payload: tell(unit, unpack(pack(payload))),
            **options,
        )


def test_missing_vectors_are_computed_once_and_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding_units, "TEXTS_A_UNIT", 4)
    monkeypatch.setattr(encoding_units, "UNITS_A_STEP", 3)
    encoder, lengths = make_encoder(VectorCache(tmp_path))
    tasks = TaskSet([Task("a", TEXTS, ["x", "y"] * 11 + ["x"])])
    encoder.prepare(TaskSet([tasks["a"].take(np.arange(3))]))
    events: list[ProgressEvent] = []
    workshop = Packed()
    assert encode_with(workshop, encoder, [*TEXTS, *TEXTS], progress=events.append) == 20
    assert workshop.steps == [3, 2]
    assert sorted(lengths.asked) == sorted(TEXTS)
    assert [event.done for event in events] == [3, 7, 11, 15, 19, 23]
    assert {(event.stage, event.total, event.unit) for event in events} == {("encode", 23, "texts")}
    prepared = encoder.prepare(tasks)
    assert len(lengths.asked) == 23
    expected, _ = make_encoder(VectorCache.disabled())
    own = prepared.inputs_of("a", np.arange(23))
    assert np.array_equal(own.matrix, expected.prepare(tasks).inputs_of("a", np.arange(23)).matrix)  # type: ignore[union-attr]
    assert encode_with(workshop, encoder, TEXTS) == 0
    assert not encoding_units._models_here


def test_a_pair_has_both_encoded_and_others_have_nothing_to_do() -> None:
    (first, asked), (second, asked_second) = (
        make_encoder(VectorCache.disabled(), fingerprint) for fingerprint in ("one", "two")
    )
    assert encode_with(Packed(), PairedEncoder(first, second), iter(TEXTS)) == 46
    assert len(asked.asked) == len(asked_second.asked) == 23
    assert encode_with(Packed(), FeatureEncoder({}), TEXTS) == 0


def test_a_process_loads_the_model_once_and_only_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, _ = make_encoder(VectorCache.disabled())
    loaded: list[object] = []

    def load(own: SentenceEncoder) -> SentenceModel:
        loaded.append(own.model)
        return encoder._loaded  # type: ignore[return-value]

    monkeypatch.setattr(SentenceEncoder, "_load", load)
    monkeypatch.setattr(encoding_units, "_models_here", {})
    recipe = Recipe("somewhere", None, "cpu", "lengths")
    assert find_model(recipe) is find_model(recipe)
    assert loaded == ["somewhere"]
    with pytest.raises(DataError, match=r"not the one that the run began with.*'lengths'.*'other'"):
        find_model(dataclasses.replace(recipe, fingerprint="other"))
