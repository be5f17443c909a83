"""Few-shot learning with a sentence model that is fine-tuned on the sources: the model as it came stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import (
    DEFAULT_ENCODER,
    DenseInputs,
    FineTuningSettings,
    PairedEncoder,
    SentenceEncoder,
    fine_tune,
    make_encoder,
)
from robusttc.fewshot import ClusterFewShot, default_settings
from robusttc.fewshot.settings import find_tuning

NEW_TEXTS = ["when does it open tomorrow", "how can i walk there", "is it expensive to go in"]


def make_task(name: str, place: str) -> Task:
    asks = {
        "way": "how do i get to the {}",
        "hours": "when does the {} open",
        "price": "what does the {} cost",
    }
    ends = ["", " today", " on sunday", " please"]
    texts = [ask.format(place) + end for ask in asks.values() for end in ends]
    return Task(name, texts, [label for label in asks for _ in ends])


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> TaskSet:
    """Give sources, and see to it that tuning takes two steps."""
    tune = fine_tune

    def tune_briefly(encoder: SentenceEncoder, tasks: TaskSet, **options: Any) -> SentenceEncoder:
        settings = FineTuningSettings(steps=2, trained_layers=1)
        return tune(encoder, tasks, settings=settings, **options)

    monkeypatch.setattr("robusttc.encoders.fine_tune", tune_briefly)
    places = {"a": "harbour", "b": "museum", "c": "station"}
    return TaskSet(make_task(name, place) for name, place in places.items())


def test_the_model_as_it_came_stands_beside_the_tuned_one(sources: TaskSet, tmp_path: Path) -> None:
    learner = ClusterFewShot(tune="encoder", random_state=5).fit(sources)
    reader = learner.metrics_.reader
    assert isinstance(reader, PairedEncoder)
    vectors = np.asarray(reader.encode(NEW_TEXTS))
    plain = make_encoder(DEFAULT_ENCODER, device="cpu").read(NEW_TEXTS)
    assert isinstance(plain, DenseInputs)
    width = plain.dimension
    assert np.array_equal(vectors[:, :width], plain.matrix)
    # Two steps change the sentence model, which comes first, but little.
    tuned = vectors[:, width:]
    assert 0 < np.abs(tuned - vectors[:, : tuned.shape[1]]).max() < 0.5
    assert learner.settings_ == default_settings("blend", words=False, tuned="paired")
    model = learner.adapt(make_task("new", "garden").take([0, 4, 8]))
    assert model.predict(NEW_TEXTS).tolist() == ["hours", "way", "price"]
    learner.save(tmp_path / "learner")
    loaded = ClusterFewShot.load(tmp_path / "learner").adapt(make_task("new", "garden").take([0, 4, 8]))
    assert np.array_equal(loaded.predict_proba(NEW_TEXTS), model.predict_proba(NEW_TEXTS))


def test_the_papers_way_has_the_tuned_model_alone(sources: TaskSet) -> None:
    learner = ClusterFewShot(strategy="paper", tune="encoder").fit(sources)
    assert isinstance(learner.metrics_.reader, SentenceEncoder)


def test_tuning_is_told_from_the_encoder(sources: TaskSet) -> None:
    plain = SentenceEncoder(device="cpu")
    tuned = fine_tune(plain, sources, seed=0, settings=FineTuningSettings(steps=2, trained_layers=1))
    assert [find_tuning(one) for one in (plain, tuned)] == [None, "alone"]
    assert find_tuning(PairedEncoder(plain, tuned)) == "paired"
    assert find_tuning(PairedEncoder(plain, plain)) is None
