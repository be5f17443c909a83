from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from robusttc import ClusterFewShot, ClusterMultiTask
from robusttc.baselines import AsapBaseline
from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import DataError, UsageError

Vectors = dict[str, NDArray[np.float32]]


def linear_tasks(
    seed: int, *, n_groups: int = 2, n_each: int = 4, n_rows: int = 60, dimension: int = 12
) -> tuple[TaskSet, Vectors, NDArray[np.int64]]:
    """Tasks of the same two labels; those of a group share the direction that tells them apart."""
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(n_groups, dimension))
    groups = generator.permutation(np.repeat(np.arange(n_groups), n_each))
    tasks, vectors = [], {}
    for number, group in enumerate(groups):
        rows = generator.normal(size=(n_rows, dimension))
        scores = rows @ directions[group] + 0.3 * generator.normal(size=n_rows)
        labels = np.where(scores > np.median(scores[: n_rows // 3]), "good", "bad").tolist()
        splits = ["train"] * (n_rows // 3) + ["valid"] * (n_rows // 3)
        splits += ["test"] * (n_rows - len(splits))
        name = f"task {number}"
        tasks.append(Task(name, [f"row {row}" for row in range(n_rows)], labels, splits))
        vectors[name] = rows.astype(np.float32)
    return TaskSet(tasks), vectors, groups


def mean_accuracy(baseline: AsapBaseline, tasks: TaskSet, vectors: Vectors) -> float:
    found = []
    for task in tasks:
        rows = task.rows("test")
        found.append((baseline.predict(task.name, vectors[task.name][rows]) == task.labels[rows]).mean())
    return float(np.mean(found))


@pytest.mark.parametrize("seed", range(4))
def test_planted_clusters_are_found_and_help(seed: int) -> None:
    tasks, vectors, groups = linear_tasks(seed)
    encoder = FeatureEncoder(vectors)
    asap = AsapBaseline(2, encoder=encoder).fit(tasks)
    assert asap.converged_
    assert adjusted_rand_score(groups, asap.labels_) == 1.0
    # As many clusters as tasks: every task is drawn to nothing but its own rows.
    alone = AsapBaseline(len(tasks), encoder=encoder, within=10.0).fit(tasks)
    assert mean_accuracy(asap, tasks, vectors) > mean_accuracy(alone, tasks, vectors) + 0.02


def test_the_order_of_tasks_changes_nothing() -> None:
    tasks, vectors, _ = linear_tasks(5)
    encoder = FeatureEncoder(vectors)
    first = AsapBaseline(2, encoder=encoder, penalty=0.01).fit(tasks)
    order = np.random.default_rng(0).permutation(len(tasks))
    second = AsapBaseline(2, encoder=encoder, penalty=0.01).fit(
        tasks.subset([tasks.names[place] for place in order])
    )
    assert (second.relation_ == first.relation_[np.ix_(order, order)]).all()
    assert adjusted_rand_score(first.labels_[order], second.labels_) == 1.0
    queries = vectors["task 0"][:5]
    assert (first.predict_proba("task 0", queries) == second.predict_proba("task 0", queries)).all()


def test_a_private_task_reaches_no_other() -> None:
    tasks, vectors, _ = linear_tasks(1)
    tasks = tasks.keep_private(["task 3"])
    changed = TaskSet(
        Task(task.name, task.texts, task.labels[::-1].tolist(), task.splits.tolist(), may_share=False)
        if task.name == "task 3"
        else task
        for task in tasks
    )
    other = vectors | {"task 3": vectors["task 3"][::-1] * 2}
    first = AsapBaseline(2, encoder=FeatureEncoder(vectors)).fit(tasks)
    second = AsapBaseline(2, encoder=FeatureEncoder(other)).fit(changed)
    assert first.tuning_ == second.tuning_
    assert (first.relation_ == second.relation_).all()
    assert first.relation_.shape == (7, 7)
    for name in tasks.shareable().names:
        queries = vectors[name][:5]
        assert (first.predict_proba(name, queries) == second.predict_proba(name, queries)).all()
    assert (first.labels_ == first.labels_[3]).sum() == 1
    rows = tasks["task 3"].rows("test")
    found = first.predict("task 3", vectors["task 3"][rows])
    assert (found == tasks["task 3"].labels[rows]).mean() > 0.6


def test_rows_alone_and_among_others() -> None:
    tasks, vectors, _ = linear_tasks(2)
    asap = AsapBaseline(2, encoder=FeatureEncoder(vectors), penalty=0.01).fit(tasks)
    queries = vectors["task 1"][:6]
    shares = asap.predict_proba("task 1", queries)
    assert shares.shape == (6, 2)
    assert np.allclose(shares.sum(axis=1), 1)
    assert all((asap.predict_proba("task 1", queries[[row]])[0] == shares[row]).all() for row in range(6))
    assert asap.label_names("task 1") == ("bad", "good")


def test_without_validation_rows_the_default_penalty_counts() -> None:
    tasks, vectors, groups = linear_tasks(0)
    tasks = TaskSet(
        task.with_splits(["train" if split == "valid" else split for split in task.splits]) for task in tasks
    )
    asap = AsapBaseline(2, encoder=FeatureEncoder(vectors)).fit(tasks)
    assert (asap.value_, asap.tuning_) == (0.003, {})
    assert adjusted_rand_score(groups, asap.labels_) == 1.0


def test_its_clusters_feed_multi_task_and_few_shot_learning() -> None:
    tasks, vectors, groups = linear_tasks(0)
    encoder = FeatureEncoder(vectors)
    labels = AsapBaseline(2, encoder=encoder).fit(tasks).labels_
    assert adjusted_rand_score(groups, labels) == 1.0
    several = ClusterMultiTask(encoder, strategy="paper").fit(tasks, labels)
    sources = tasks.subset(tasks.names[:-1])
    few = ClusterFewShot(encoder, strategy="paper", threshold=0.0).fit(sources, labels[:-1])
    target = tasks["task 7"]
    rows = target.rows("test")
    for found in (
        several.predict("task 7", vectors["task 7"][rows]),
        few.adapt(target).predict(vectors["task 7"][rows]),
    ):
        assert (found == target.labels[rows]).mean() > 0.7


def test_different_label_sets_are_refused() -> None:
    tasks = TaskSet([Task("a", ["1", "2"], ["x", "y"]), Task("b", ["1", "2"], ["x", "z"])])
    with pytest.raises(UsageError, match="identical label sets"):
        AsapBaseline(2).fit(tasks)


def test_bad_input_is_refused() -> None:
    tasks = TaskSet([Task("a", ["1", "2"], ["x", "y"])])
    with pytest.raises(DataError, match="no task"):
        AsapBaseline().fit(tasks.keep_private(["a"]))
    with pytest.raises(DataError, match="no training rows"):
        AsapBaseline().fit(TaskSet([Task("a", ["1", "2"], ["x", "y"], ["test", "test"])]))
    for wrong in ({"n_clusters": 0}, {"n_clusters": 1.5}, {"penalty": -1}, {"within": float("nan")}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            AsapBaseline(**wrong).fit(tasks)
    with pytest.raises(UsageError, match="one vector a text"):
        AsapBaseline(encoder="cnn").fit(tasks)
    with pytest.raises(UsageError, match="not fitted"):
        AsapBaseline().predict("a", ["1"])
