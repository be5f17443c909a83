"""The estimator on real sentence vectors: tuning is asked of the right tasks, and files round-trip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import FineTuningSettings, SentenceEncoder, fine_tune
from robusttc.models import name_as_text
from robusttc.multitask import ClusterMultiTask, MultiTaskSettings

QUICK = MultiTaskSettings(width=16, epochs=5, min_steps=20)
PLACES = {"a": "harbour", "b": "museum", "c": "station", "d": "garden"}


def make_tasks() -> TaskSet:
    asks = {
        "way": "how do i get to the {}",
        "hours": "when does the {} open",
        "price": "what does the {} cost",
    }
    ends = ["", " today", " on sunday", " please"]
    tasks = []
    for name, place in PLACES.items():
        texts = [ask.format(place) + end for ask in asks.values() for end in ends]
        labels = [label for label in asks for _ in ends]
        tasks.append(Task(name, texts, labels, ["train", "train", "train", "valid"] * 3))
    return TaskSet(tasks).keep_private(["d"])


def test_tuning_sees_only_tasks_that_may_share(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    tune = fine_tune

    def tune_briefly(encoder: SentenceEncoder, tasks: TaskSet, **options: Any) -> SentenceEncoder:
        asked.update(options, names=tasks.names)
        settings = FineTuningSettings(steps=2, trained_layers=1)
        return tune(encoder, tasks, settings=settings, **options)

    monkeypatch.setattr("robusttc.encoders.fine_tune", tune_briefly)
    model = ClusterMultiTask(tune="encoder", settings=QUICK, random_state=5, n_random=0)
    model.fit(make_tasks(), [0, 0, 1, 1])
    assert asked == {"names": ("a", "b", "c"), "seed": 5, "label_texts": name_as_text, "progress": None}
    # What is decided is decided on rows that the tuned encoder has not seen.
    assert {task.n_rows for task in model.negative_transfer_report().tasks} == {3}
    new = ["when does it open tomorrow", "how can i walk there", "is it expensive to go in"]
    assert model.predict("a", new).tolist() == ["hours", "way", "price"]
    model.save(tmp_path / "model")
    loaded = ClusterMultiTask.load(tmp_path / "model")
    for name in PLACES:
        assert np.array_equal(loaded.predict_proba(name, new), model.predict_proba(name, new))
        assert np.array_equal(loaded.scope_score(name, new), model.scope_score(name, new))
