"""Clusters as the learners take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.models import check_clusters, cluster_members, random_clusters_like

TASKS = TaskSet(Task(name, ["hi"], ["x"]) for name in ["b", "a", "c"])


@pytest.mark.parametrize(
    "labels", [[2, 0, -1], np.array([2, 0, -1], np.int32), (2.0, 0.0, -1.0), {"a": 0, "c": -1, "b": 2}]
)
def test_clusters_are_given_in_the_order_of_the_tasks(labels: Any) -> None:
    groups = check_clusters(TASKS, labels)
    assert groups.dtype == np.int64
    assert groups.tolist() == [2, 0, -1]


def test_the_result_is_a_copy() -> None:
    labels = np.array([0, 1, 2])
    check_clusters(TASKS, labels)[0] = 5
    assert labels[0] == 0


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([0, 1], "not one cluster a task"),
        ([[0], [1], [2]], "not one cluster a task"),
        ([[0], [1, 2], [2]], "cannot be read"),
        (5, "not one cluster a task"),
        ([0, 1.5, 0], "task 'a': a cluster is not a whole number; got 1.5"),
        ([0, 1, float("nan")], "task 'c'"),
        ([0, 1, float("inf")], "task 'c'"),
        ([0, -2, 0], "task 'a'.*got -2"),
        (["0", "1", "1"], "task 'b'.*got '0'"),
        ([None, 1, 1], "task 'b'.*got None"),
        ([True, False, True], "not a whole number"),
        ([0, 2**63, 1], "task 'a'"),
    ],
)
def test_what_cannot_be_clusters_is_refused(labels: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        check_clusters(TASKS, labels)


def test_names_must_be_those_of_the_tasks() -> None:
    with pytest.raises(DataError, match="task 'c': a task has no cluster"):
        check_clusters(TASKS, {"a": 0, "b": 1})
    with pytest.raises(UnknownTaskError, match="'d'"):
        check_clusters(TASKS, {"a": 0, "b": 1, "c": 1, "d": 1})


def test_no_tasks_have_no_clusters() -> None:
    assert check_clusters(TaskSet([]), []).tolist() == []


@pytest.mark.parametrize("seed", range(5))
def test_random_clusters_have_the_same_sizes(seed: int) -> None:
    labels = np.array([0] * 10 + [3] * 5 + [1] + [-1] * 4)
    drawn = random_clusters_like(labels, seed)
    assert sorted(drawn.tolist()) == sorted(labels.tolist())
    assert (drawn[labels == -1] == -1).all()
    assert (drawn != labels).any()
    assert np.array_equal(drawn, random_clusters_like(labels, seed))
    assert not np.array_equal(drawn, random_clusters_like(labels, seed, draw=1))
    assert not np.array_equal(drawn, random_clusters_like(labels, seed + 100))


def test_every_place_gets_every_cluster_at_random() -> None:
    labels = [0, 0, 1, 2]
    first = [int(random_clusters_like(labels, 0, draw)[0]) for draw in range(400)]
    # Expected 200, 100, 100; three standard deviations are 30.
    assert np.bincount(first).tolist() == pytest.approx([200, 100, 100], abs=30)


def test_members() -> None:
    assert cluster_members(["x", "y", "z", "w"], np.array([7, -1, 2, 7])) == {2: ("z",), 7: ("x", "w")}
    assert cluster_members([], []) == {}
    with pytest.raises(UsageError, match="2 clusters for 1 tasks"):
        cluster_members(["x"], [0, 1])
