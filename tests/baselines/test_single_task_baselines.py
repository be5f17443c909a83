from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from direction_tasks import accuracy_on, direction_tasks, encoder_of
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from robusttc.baselines import (
    FastTextBaseline,
    LogisticRegressionBaseline,
    NearestNeighbourBaseline,
    PrototypeBaseline,
    SingleTaskBaseline,
)
from robusttc.data import Task, TaskSet
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.fewshot import few_shot_rows
from robusttc.models import TrainingSettings

QUICK = TrainingSettings(width=16, epochs=10, min_steps=60)
Make = Callable[..., Any]


def make_single(encoder: Any, **options: Any) -> SingleTaskBaseline:
    return SingleTaskBaseline(encoder, settings=QUICK, **options)


ON_VECTORS: list[Make] = [
    LogisticRegressionBaseline,
    NearestNeighbourBaseline,
    PrototypeBaseline,
    make_single,
]
every_baseline = pytest.mark.parametrize("make", ON_VECTORS, ids=["lr", "neighbours", "prototypes", "single"])


@every_baseline
@pytest.mark.parametrize("seed", range(3))
def test_planted_labels_are_found_in_both_manners(make: Make, seed: int) -> None:
    tasks, vectors = direction_tasks(seed)
    baseline = make(encoder_of(vectors)).fit(tasks)
    for task in tasks:
        assert accuracy_on("test", baseline, task, vectors, by_name=True) >= 0.8
        adapted = make(encoder_of(vectors)).adapt(keep_few(task))
        assert accuracy_on("test", adapted, task, vectors) >= 0.75


def keep_few(task: Task) -> Task:
    few = keep_rows(task, few_shot_rows(task, per_label=3, extra=4))
    assert 12 <= len(few.rows("train")) < len(task.rows("train"))
    return few


def keep_rows(task: Task, rows: NDArray[np.intp]) -> Task:
    """Put the other training rows aside; all rows stay, so that the vectors fit."""
    kept = set(rows.tolist())
    splits = [
        "aside" if split == "train" and row not in kept else split for row, split in enumerate(task.splits)
    ]
    return task.with_splits(splits, other_splits=["aside"])


@every_baseline
def test_probabilities_and_labels_agree(make: Make) -> None:
    tasks, vectors = direction_tasks(0)
    baseline = make(encoder_of(vectors)).fit(tasks)
    name = tasks.names[1]
    queries = vectors[name][:7]
    shares = baseline.predict_proba(name, queries)
    assert shares.dtype == np.float64
    assert shares.shape == (7, 4)
    assert np.allclose(shares.sum(axis=1), 1)
    assert (shares >= 0).all()
    names = np.array(baseline.label_names(name), dtype=object)
    assert (names[shares.argmax(axis=1)] == baseline.predict(name, queries)).all()
    assert baseline.label_names(name) == tasks[name].label_names
    # A row alone has what it has among others, bit for bit.
    for row in range(7):
        assert (baseline.predict_proba(name, queries[row : row + 1])[0] == shares[row]).all()
    assert baseline.predict(name, queries[:0]).tolist() == []


@every_baseline
def test_the_order_of_tasks_changes_nothing(make: Make) -> None:
    tasks, vectors = direction_tasks(1)
    first = make(encoder_of(vectors)).fit(tasks)
    second = make(encoder_of(vectors)).fit(tasks.subset(tasks.names[::-1]))
    assert first.value_ == second.value_
    assert second.task_names_ == tasks.names[::-1]
    for name in tasks.names:
        queries = vectors[name][:5]
        assert (first.predict_proba(name, queries) == second.predict_proba(name, queries)).all()


@every_baseline
def test_a_private_task_changes_nothing_for_the_others(make: Make) -> None:
    tasks, vectors = direction_tasks(2)
    hidden = tasks.names[0]
    other, _ = direction_tasks(9)
    tasks = tasks.keep_private([hidden])
    changed = TaskSet([other[hidden].with_sharing(False), *(task for task in tasks if task.name != hidden)])
    changed_vectors = vectors | {hidden: vectors[hidden][::-1] * 3}
    first = make(encoder_of(vectors)).fit(tasks)
    second = make(encoder_of(changed_vectors)).fit(changed)
    assert first.value_ == second.value_
    assert first.tuning_ == second.tuning_
    for name in tasks.names[1:]:
        queries = vectors[name][:5]
        assert (first.predict_proba(name, queries) == second.predict_proba(name, queries)).all()
    assert accuracy_on("test", first, tasks[hidden], vectors, by_name=True) >= 0.75


@every_baseline
def test_bad_use_is_refused(make: Make) -> None:
    tasks, vectors = direction_tasks(0)
    baseline = make(encoder_of(vectors))
    with pytest.raises(UsageError, match="not fitted"):
        baseline.predict("task 0", vectors["task 0"])
    baseline.fit(tasks)
    with pytest.raises(UnknownTaskError, match="task 0"):
        baseline.predict("tas 0", vectors["task 0"])
    with pytest.raises(UnknownTaskError):
        baseline.label_names(3)
    one_label = Task("task 0", ["a", "b"], ["x", "x"])
    with pytest.raises(DataError, match="all of label 'x'"):
        make(encoder_of({"task 0": np.eye(2)})).adapt(one_label)
    nothing = Task("task 0", ["a", "b"], ["x", "y"], ["test", "test"])
    with pytest.raises(DataError, match="no training rows"):
        make(encoder_of({"task 0": np.eye(2)})).fit(TaskSet([nothing]))


@pytest.mark.parametrize(
    ("make", "name", "wrong"),
    [
        (LogisticRegressionBaseline, "C", 0),
        (LogisticRegressionBaseline, "C", "high"),
        (NearestNeighbourBaseline, "n_neighbours", 2.5),
        (PrototypeBaseline, "scale", "auto"),
        (FastTextBaseline, "C", float("inf")),
        (FastTextBaseline, "bigrams", 2),
        (SingleTaskBaseline, "settings", {"width": 3}),
    ],
)
def test_parameters_are_checked_at_fit(make: Make, name: str, wrong: object) -> None:
    tasks, vectors = direction_tasks(0)
    baseline = make(encoder_of(vectors), **{name: wrong})
    assert baseline.get_params()[name] is wrong
    with pytest.raises(UsageError, match=name):
        baseline.fit(tasks)


@pytest.mark.parametrize("make", ON_VECTORS[:3])
def test_words_are_refused_where_vectors_are_needed(make: Make) -> None:
    task = Task("a", ["hello you", "see you"], ["x", "y"])
    with pytest.raises(UsageError, match="one vector a text"):
        make("cnn").adapt(task)


@pytest.mark.parametrize("seed", range(3))
def test_logistic_regression_is_that_of_scikit_learn(seed: int) -> None:
    tasks, vectors = direction_tasks(seed, noise=1.5)
    baseline = LogisticRegressionBaseline(encoder_of(vectors), C=0.3).fit(tasks)
    for task in tasks:
        rows = task.rows("train")
        reference = LogisticRegression(C=0.3, class_weight="balanced", tol=1e-8, max_iter=5000)
        reference.fit(vectors[task.name][rows].astype(np.float64), task.labels[rows].astype(str))
        expected = reference.predict_proba(vectors[task.name])
        assert np.abs(baseline.predict_proba(task.name, vectors[task.name]) - expected).max() < 0.02


def test_the_value_of_the_best_mean_is_chosen() -> None:
    tasks, vectors = direction_tasks(3, noise=2.0, n_rows=120)
    baseline = LogisticRegressionBaseline(encoder_of(vectors)).fit(tasks)
    assert len(baseline.tuning_) == 7
    for C, mean in baseline.tuning_.items():
        alone = LogisticRegressionBaseline(encoder_of(vectors), C=C).fit(tasks)
        assert alone.tuning_ == {}
        own = np.mean([accuracy_on("valid", alone, task, vectors, by_name=True) for task in tasks])
        assert own == pytest.approx(mean)
    assert baseline.tuning_[baseline.value_] == max(baseline.tuning_.values())


def test_without_validation_rows_the_default_counts() -> None:
    tasks, vectors = direction_tasks(3)
    tasks = TaskSet(
        task.with_splits(
            ["aside" if split == "valid" else split for split in task.splits], other_splits=["aside"]
        )
        for task in tasks
    )
    baseline = LogisticRegressionBaseline(encoder_of(vectors)).fit(tasks)
    assert (baseline.value_, baseline.tuning_) == (30.0, {})


def test_few_shot_tuning_is_done_on_few_rows() -> None:
    tasks, vectors = direction_tasks(0, n_rows=200, noise=2.0)
    baseline = NearestNeighbourBaseline(encoder_of(vectors), few_shot=True, random_state=3).fit(tasks)
    assert list(baseline.tuning_) == [1, 3, 5, 10, 20]
    for number, mean in baseline.tuning_.items():
        plain = NearestNeighbourBaseline(encoder_of(vectors), n_neighbours=number)
        cut = [keep_rows(task, few_shot_rows(task, random_state=3)) for task in tasks]
        assert all(len(task.rows("train")) == 24 for task in cut)
        found = [accuracy_on("valid", plain.adapt(task), task, vectors) for task in cut]
        assert mean == pytest.approx(np.mean(found))
    # The sources are there for the choice alone.
    assert baseline.task_names_ == ()


def test_what_fit_chose_serves_new_tasks() -> None:
    tasks, vectors = direction_tasks(5, noise=2.0, n_rows=120)
    baseline = NearestNeighbourBaseline(encoder_of(vectors), n_neighbours="auto").fit(tasks)
    assert baseline.value_ > 1
    queries = vectors["task 2"][:9]
    adapted = baseline.adapt(tasks["task 2"]).predict_proba(queries)
    assert (adapted == baseline.predict_proba("task 2", queries)).all()
    given = NearestNeighbourBaseline(encoder_of(vectors), n_neighbours=baseline.value_)
    assert (given.adapt(tasks["task 2"]).predict_proba(queries) == adapted).all()


def test_a_label_without_training_rows_is_never_predicted() -> None:
    task = Task("a", ["1", "2", "3"], ["x", "y", "z"], ["train", "train", "test"])
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], dtype=np.float32)
    for make in ON_VECTORS:
        shares = make(encoder_of({"a": vectors})).adapt(task).predict_proba(vectors)
        assert shares.shape == (3, 3)
        assert (shares[:, 2] == 0).all()


def test_labels_that_look_like_numbers_stay_strings() -> None:
    task = Task("a", ["1", "2"], ["007", "7"])
    for make in ON_VECTORS:
        found = make(encoder_of({"a": np.eye(2)})).adapt(task).predict(np.eye(2))
        assert found.tolist() == ["007", "7"]


def test_neighbours_vote_by_their_nearness() -> None:
    task = Task("a", ["1", "2", "3"], ["x", "y", "y"])
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]], dtype=np.float32)
    baseline = NearestNeighbourBaseline(encoder_of({"a": vectors}), n_neighbours=3)
    shares = baseline.adapt(task).predict_proba(vectors[:1])[0]
    cosines = np.array([1.0, 0.0, 0.1 / np.sqrt(1.01)])
    votes = np.exp((cosines - 1) / 0.1)
    assert shares == pytest.approx([votes[0] / votes.sum(), votes[1:].sum() / votes.sum()], abs=1e-6)


def test_single_task_models_have_the_default_settings() -> None:
    tasks, vectors = direction_tasks(0, n_tasks=1)
    default, given = (
        SingleTaskBaseline(encoder_of(vectors), settings=settings).fit(tasks)
        for settings in (None, TrainingSettings())
    )
    queries = vectors["task 0"][:5]
    assert (default.predict_proba("task 0", queries) == given.predict_proba("task 0", queries)).all()
