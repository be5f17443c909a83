from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from direction_tasks import accuracy_on, direction_tasks, encoder_of

from robusttc.baselines import (
    FineTunedHolisticBaseline,
    HolisticBaseline,
    MatchingNetworkBaseline,
    NearestNeighbourBaseline,
    TaskMixtureBaseline,
)
from robusttc.baselines.few_shot import prune_weights
from robusttc.data import Task, TaskSet, make_planted_tasks
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.fewshot import default_settings, few_shot_rows, make_few_shot
from robusttc.models import TrainingSettings
from robusttc.multitask import MultiTaskSettings

QUICK = TrainingSettings(width=24, epochs=10, min_steps=100)
JOINT = MultiTaskSettings(width=24, activation="relu", epochs=15, dropout=0.2)
Make = Callable[..., Any]


def make_tuned(encoder: Any, **options: Any) -> FineTunedHolisticBaseline:
    return FineTunedHolisticBaseline(encoder, settings=JOINT, **options)


def make_mixture(encoder: Any, **options: Any) -> TaskMixtureBaseline:
    return TaskMixtureBaseline(encoder, settings=QUICK, **options)


every_baseline = pytest.mark.parametrize(
    "make", [make_tuned, make_mixture, MatchingNetworkBaseline], ids=["tuned", "mixture", "matching"]
)


def few(task: Task, *, per_label: int = 2) -> Task:
    """Put training rows aside save a few of each label; all rows stay, so that the vectors fit."""
    kept = set(few_shot_rows(task, per_label=per_label, extra=0).tolist())
    splits = [
        "aside" if split == "train" and row not in kept else split for row, split in enumerate(task.splits)
    ]
    return task.with_splits(splits, other_splits=["aside"])


@every_baseline
@pytest.mark.parametrize("seed", range(3))
def test_sources_teach_what_to_look_at(make: Make, seed: int) -> None:
    tasks, vectors = direction_tasks(seed, n_tasks=16, n_telling=5, n_idle=25, n_rows=160, idle_noise=1.2)
    sources, targets = tasks.subset(tasks.names[:10]), tasks.subset(tasks.names[10:])
    baseline = make(encoder_of(vectors)).fit(sources)
    assert baseline.source_names_ == sources.names
    plain = NearestNeighbourBaseline(encoder_of(vectors))
    ours, theirs = (
        np.mean([accuracy_on("test", learner.adapt(few(task)), task, vectors) for task in targets])
        for learner in (baseline, plain)
    )
    assert ours > theirs + 0.03


@every_baseline
def test_probabilities_are_those_of_the_text_alone(make: Make) -> None:
    tasks, vectors = direction_tasks(1, n_tasks=5)
    baseline = make(encoder_of(vectors)).fit(tasks.subset(tasks.names[:4]))
    model = baseline.adapt(tasks["task 4"])
    queries = vectors["task 4"][:6]
    shares = model.predict_proba(queries)
    assert shares.shape == (6, 4)
    assert np.allclose(shares.sum(axis=1), 1)
    assert model.label_names == tasks["task 4"].label_names
    assert all((model.predict_proba(queries[[row]])[0] == shares[row]).all() for row in range(6))


@every_baseline
def test_private_tasks_teach_nothing(make: Make) -> None:
    tasks, vectors = direction_tasks(2, n_tasks=5)
    sources = tasks.subset(tasks.names[:4])
    with_private = sources.keep_private(["task 0"])
    first = make(encoder_of(vectors)).fit(with_private)
    second = make(encoder_of(vectors)).fit(sources.subset(tasks.names[1:4]))
    assert first.source_names_ == second.source_names_
    queries = vectors["task 4"][:5]
    found = [baseline.adapt(tasks["task 4"]).predict_proba(queries) for baseline in (first, second)]
    assert (found[0] == found[1]).all()
    with pytest.raises(DataError, match="no source task"):
        make(encoder_of(vectors)).fit(sources.keep_private(sources.names))


@every_baseline
def test_texts_are_read_as_words(make: Make) -> None:
    tasks = make_planted_tasks(5, 1, rows=(80, 120), labels=(2, 4), random_state=1).tasks
    sources, target = tasks.subset(tasks.names[:4]), tasks[tasks.names[4]]
    options: dict[str, Any] = {}
    if make is MatchingNetworkBaseline:
        settings = default_settings("paper", words=True)
        options["settings"] = settings.replace(metric=settings.metric.replace(steps=10))
    model = make("cnn", **options).fit(sources).adapt(make_few_shot(target))
    rows = target.rows("test")
    found = model.predict(list(target.texts_at(rows)))
    assert set(found) <= set(target.label_names)
    assert model.predict_proba(["words that nobody has heard of", ""]).shape == (2, len(model.label_names))


@every_baseline
def test_bad_use_is_refused(make: Make) -> None:
    tasks, vectors = direction_tasks(0)
    baseline = make(encoder_of(vectors))
    with pytest.raises(UsageError, match="not fitted"):
        baseline.adapt(tasks["task 0"])
    baseline.fit(tasks)
    one_label = Task("task 0", ["a", "b"], ["x", "x"])
    with pytest.raises(DataError, match="all of label 'x'"):
        make(encoder_of({"task 0": np.eye(2)})).fit(TaskSet([one_label]))


@pytest.mark.parametrize("seed", range(2))
def test_identical_labels_are_predicted_by_the_models_themselves(seed: int) -> None:
    tasks, vectors = direction_tasks(seed, n_tasks=4, n_labels=2, same_labels=True)
    # The last task is the first one again: its model serves, and those of others do not.
    vectors["task 3"] = vectors["task 0"]
    baseline = TaskMixtureBaseline(encoder_of(vectors), settings=QUICK).fit(tasks.subset(tasks.names[:3]))
    model = baseline.adapt(few(tasks["task 3"], per_label=8))
    assert accuracy_on("test", model, tasks["task 3"], vectors) >= 0.9
    mixture: Any = model.predictor
    components, weights = mixture.args
    assert components[int(weights.argmax())] == baseline.source_models_["task 0"].probabilities


def test_small_weights_are_left_out() -> None:
    places, shares = prune_weights(np.full(300, 1 / 300))
    assert len(places) == 297
    assert shares.sum() == pytest.approx(1)
    assert prune_weights(np.array([1.0]))[0].tolist() == [0]


def test_holistic_learns_all_tasks_or_the_targets_alone() -> None:
    tasks, vectors = direction_tasks(0, n_tasks=4)
    holistic = HolisticBaseline(encoder_of(vectors), settings=JOINT).fit(tasks)
    for task in tasks:
        assert accuracy_on("test", holistic, task, vectors, by_name=True) >= 0.75
    targets = tasks.names[1:3]
    only = HolisticBaseline(encoder_of(vectors), settings=JOINT, targets=targets).fit(tasks)
    direct = HolisticBaseline(encoder_of(vectors), settings=JOINT).fit(tasks.subset(targets))
    assert only.task_names_ == targets
    queries = vectors["task 1"][:5]
    assert (only.predict_proba("task 1", queries) == direct.predict_proba("task 1", queries)).all()
    assert (only.predict_proba("task 1", queries) != holistic.predict_proba("task 1", queries)).any()
    with pytest.raises(UnknownTaskError):
        only.predict("task 0", queries)
    with pytest.raises(UnknownTaskError):
        HolisticBaseline(encoder_of(vectors), targets=["task 9"]).fit(tasks)
    with pytest.raises(UsageError, match="single string"):
        HolisticBaseline(encoder_of(vectors), targets="task 1").fit(tasks)


def test_a_penalty_that_is_none_is_refused() -> None:
    tasks, vectors = direction_tasks(0)
    with pytest.raises(UsageError, match="C cannot be used"):
        FineTunedHolisticBaseline(encoder_of(vectors), settings=JOINT, C=0).fit(tasks)


def test_a_holistic_baseline_that_is_not_fitted_says_so() -> None:
    with pytest.raises(UsageError, match="not fitted"):
        HolisticBaseline().predict("task 0", ["a"])
