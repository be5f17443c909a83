"""Placing tasks with few observations, and confidence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from robusttc.clustering.old.assignment import (
    cluster_evidence,
    count_observed,
    find_confidence,
    place_by_scores,
    place_tasks,
)
from robusttc.clustering.old.completion.problem import Problem, make_problem
from robusttc.clustering.old.grouping import number_clusters, renumber
from robusttc.clustering.old.start import Labels, estimate_rates
from robusttc.scores import TransferScores


def block_problem(
    labels: ArrayLike, *, hidden: ArrayLike = (), wrong: list[tuple[int, int]] | None = None
) -> Problem:
    """All pairs observed, some of them wrongly, but none of the hidden tasks."""
    labels = np.asarray(labels)
    Y = (labels[:, None] == labels).astype(float)
    for i, j in wrong or []:
        Y[i, j] = Y[j, i] = 1 - Y[i, j]
    observed = np.ones_like(Y)
    for task in np.asarray(hidden, dtype=int):
        observed[task] = observed[:, task] = 0
        observed[task, task] = 1
    return make_problem(Y, observed)


def no_scores(n: int) -> TransferScores:
    return TransferScores([f"t{i}" for i in range(n)], source=[], target=[], score=[])


def as_labels(labels: ArrayLike) -> Labels:
    return np.asarray(labels, dtype=np.intp)


def test_observed_partners_are_counted_without_the_diagonal() -> None:
    assert count_observed(block_problem([0, 0, 1, 1], hidden=[3])).tolist() == [2, 2, 2, 0]


def test_evidence_is_the_log_likelihood_ratio() -> None:
    labels = as_labels([0, 0, 0, 1, 1, 1])
    problem = block_problem(labels, wrong=[(0, 3)])
    rates = estimate_rates(problem, labels)
    evidence = cluster_evidence(problem, labels)
    one = np.log(rates.inside / rates.outside)
    zero = np.log((1 - rates.inside) / (1 - rates.outside))
    np.testing.assert_allclose(evidence[0], [2 * one, one + 2 * zero])
    np.testing.assert_allclose(evidence[5], [3 * zero, 2 * one])


def test_confidence_is_the_posterior() -> None:
    labels = as_labels([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    problem = block_problem(labels, wrong=[(0, 1), (0, 4), (0, 5)])
    evidence = cluster_evidence(problem, labels)
    posterior = np.exp(evidence) / np.exp(evidence).sum(axis=1, keepdims=True)
    confidence = find_confidence(problem, labels)
    np.testing.assert_allclose(confidence, posterior[np.arange(12), labels])
    assert confidence.argmin() == 0
    assert (confidence[1:] > 0.9).all()


def test_confidence_stays_within_bounds() -> None:
    labels = as_labels(np.repeat([0, 1], 200))
    problem = block_problem(labels)
    swapped = labels.copy()
    swapped[0] = 1  # evidence of hundreds of nats against it
    confidence = find_confidence(problem, swapped)
    assert 0 < confidence[0] < 1e-100
    assert ((confidence > 0) & (confidence <= 1)).all()
    swapped[:3] = -1
    assert find_confidence(problem, swapped)[:3].tolist() == [0, 0, 0]
    assert not find_confidence(problem, as_labels(np.full(400, -1))).any()
    # With one cluster there is no other.
    assert (find_confidence(problem, np.zeros(400, dtype=np.intp)) == 1).all()


def test_a_task_without_entries_has_the_confidence_of_chance() -> None:
    labels = as_labels([0, 0, 0, 1, 1, 1, 1])
    assert find_confidence(block_problem(labels, hidden=[6]), labels)[6] == pytest.approx(0.5)


def test_observed_entries_place_a_task() -> None:
    truth = as_labels([0, 0, 0, 0, 1, 1, 1, 1, 1])
    problem = block_problem(truth)
    waiting = truth.copy()
    waiting[8] = -1
    placed = place_tasks(no_scores(9), problem, waiting)
    assert placed.tolist() == truth.tolist()
    assert waiting[8] == -1, "the labels given are not changed"


def test_entries_against_every_cluster_place_nowhere() -> None:
    problem = block_problem([0, 0, 0, 0, 1, 1, 1, 1, 2])
    waiting = as_labels([0, 0, 0, 0, 1, 1, 1, 1, -1])
    assert place_tasks(no_scores(9), problem, waiting)[8] == -1


@pytest.mark.parametrize(("entries", "expected"), [(1.0, 0), (0.0, -1)])
def test_a_lone_cluster_takes_only_what_its_ones_speak_for(entries: float, expected: int) -> None:
    Y = np.ones((8, 8))
    Y[7, :7] = Y[:7, 7] = entries
    waiting = as_labels([0, 0, 0, 0, 0, 0, 0, -1])
    assert place_tasks(no_scores(8), make_problem(Y, np.ones((8, 8))), waiting)[7] == expected


def test_nothing_to_place_or_nowhere_to_place_it() -> None:
    problem = block_problem([0, 0, 1])
    for labels in ([0, 0, 1], [-1, -1, -1]):
        assert place_tasks(no_scores(3), problem, as_labels(labels)).tolist() == labels


def scores_with_newcomer(Z: ArrayLike, *, both: bool = True) -> TransferScores:
    """Tasks 0-3 and 4-7 of two clusters, and task 8 with these scores from and to the eight."""
    generator = np.random.default_rng(0)
    S = np.kron(np.eye(2), np.full((4, 4), 1.0)) + generator.normal(0, 0.1, (8, 8))
    matrix = np.full((9, 9), np.nan)
    matrix[:8, :8] = S
    matrix[:8, 8] = Z
    if both:
        matrix[8, :8] = Z
    return TransferScores.from_matrix(matrix, [f"t{i}" for i in range(9)])


WITH_NEWCOMER = [0, 0, 0, 0, 1, 1, 1, 1, -1]


@pytest.mark.parametrize("both", [True, False])
def test_scores_place_a_task_without_entries(both: bool) -> None:
    problem = block_problem([0, 0, 0, 0, 1, 1, 1, 1, 1], hidden=[8])
    scores = scores_with_newcomer([0.1, 0.0, 0.2, 0.1, 0.9, 1.0, 0.8, 1.1], both=both)
    assert place_tasks(scores, problem, as_labels(WITH_NEWCOMER))[8] == 1


@pytest.mark.parametrize(
    "Z",
    [
        [0.4, 0.9, 0.1, 0.6, 0.5, 0.2, 0.9, 0.5],  # no clear lead
        [0.5] * 8,  # no spread in its column
        [np.nan] * 8,
        [1.0] + [np.nan] * 7,  # too little to know an error
        [np.nan, np.nan, np.nan, 1.0, 0.1, np.nan, np.nan, np.nan],
    ],
)
def test_scores_without_a_clear_lead_place_nowhere(Z: list[float]) -> None:
    waiting = as_labels(WITH_NEWCOMER)
    assert place_by_scores(scores_with_newcomer(Z, both=False), waiting, np.array([8])).tolist() == [-1]


def test_a_cluster_measured_alone_must_beat_the_average() -> None:
    waiting = as_labels(WITH_NEWCOMER)
    for measured, expected in [
        ([1.0, 0.9, 1.1, 1.0], 1),
        ([0.0, 0.1, -0.1, 0.0], -1),
        ([1.0, 0.0, 0.9, 0.1], -1),
    ]:
        to_others = np.array([np.nan] * 4 + measured)
        matrix = scores_with_newcomer([np.nan] * 8).to_matrix()
        matrix[8, :8] = to_others
        scores = TransferScores.from_matrix(matrix, [f"t{i}" for i in range(9)])
        assert place_by_scores(scores, waiting, np.array([8])).tolist() == [expected]


def test_clusters_are_numbered_by_size_and_then_by_their_first_task() -> None:
    labels = as_labels([2, 0, 0, 3, 3, 1, -1, 3, 2])
    order = np.arange(9)
    assert renumber(labels, number_clusters(labels, order)).tolist() == [1, 2, 2, 0, 0, 3, -1, 0, 1]
    backwards = order[::-1]
    assert renumber(labels, number_clusters(labels, backwards)).tolist() == [1, 2, 2, 0, 0, 3, -1, 0, 1]
    labels = as_labels([0, 0, 1, 1])
    assert renumber(labels, number_clusters(labels, np.array([2, 3, 0, 1]))).tolist() == [1, 1, 0, 0]
    assert renumber(as_labels([-1, -1]), number_clusters(as_labels([-1, -1]), np.arange(2))).tolist() == [
        -1,
        -1,
    ]
