"""Vectors computed by jobs: all that are missing, each once, found by those who need them later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, FeatureEncoder, PairedEncoder, VectorCache, base, encode_with
from robusttc.errors import DataError
from robusttc.jobs import Job, Result, Runner, Shared
from robusttc.progress import ProgressEvent

TEXTS = [f"text {'x' * (number % 7)} {number}" for number in range(23)]


class Characters(Encoder):
    """The vector of a text is made of its characters."""

    def __init__(self, cache: VectorCache, fingerprint: str = "characters") -> None:
        self.cache = cache
        self.identity = fingerprint
        self.encoded: list[str] = []

    @property
    def fingerprint(self) -> str:
        return self.identity

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += texts
        return np.array([[len(text), sum(map(ord, text))] for text in texts], dtype=np.float32)


class Backwards(Runner):
    """Runs jobs in this process, the last one first; counts jobs that go together."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def run(
        self, stage: str, jobs: Sequence[Job], shared: Shared | None = None, **options: Any
    ) -> list[Result | None]:
        self.steps.append(len(jobs))
        assert not any(job.keep for job in jobs)
        return super().run(stage, jobs[::-1], shared, **options)


def test_missing_vectors_are_computed_once_and_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "JOB_TEXTS", 4)
    monkeypatch.setattr(base, "STEP_JOBS", 3)
    encoder = Characters(VectorCache(tmp_path))
    tasks = TaskSet([Task("a", TEXTS, ["x", "y"] * 11 + ["x"])])
    encoder.prepare(TaskSet([tasks["a"].take(np.arange(3))]))
    events: list[ProgressEvent] = []
    runner = Backwards()
    assert encode_with(runner, encoder, [*TEXTS, *TEXTS], progress=events.append) == 20
    assert runner.steps == [3, 2]
    assert sorted(encoder.encoded) == sorted(TEXTS)
    assert [event.done for event in events] == [3, 7, 11, 15, 19, 23]
    assert {(event.stage, event.total, event.unit) for event in events} == {("encode", 23, "texts")}
    own = encoder.prepare(tasks).inputs_of("a", np.arange(23))
    assert len(encoder.encoded) == 23
    expected = Characters(VectorCache.disabled()).prepare(tasks).inputs_of("a", np.arange(23))
    assert np.array_equal(own.matrix, expected.matrix)  # type: ignore[union-attr]
    assert encode_with(runner, encoder, TEXTS) == 0


def test_both_of_a_pair_are_encoded_and_others_have_nothing_to_do() -> None:
    first, second = (Characters(VectorCache.in_memory(), name) for name in ("one", "two"))
    events: list[ProgressEvent] = []
    pair = PairedEncoder(first, second)
    assert encode_with(Backwards(), pair, iter(TEXTS), progress=events.append) == 46
    assert [(event.done, event.total) for event in events] == [(0, 46), (23, 46), (23, 46), (46, 46)]
    assert len(first.encoded) == len(second.encoded) == 23
    assert encode_with(Backwards(), FeatureEncoder({}), TEXTS) == 0
    assert encode_with(Backwards(), Characters(VectorCache.disabled()), TEXTS) == 0


def test_another_encoder_on_a_worker_is_refused() -> None:
    encoder = Characters(VectorCache.in_memory())
    with pytest.raises(DataError, match=r"not the one that the run began with.*'characters'.*'other'"):
        base.encode_job((encoder, "other"), ["a"])
