"""The matrices of the report, and what is read off them, against the same computed slowly."""

from __future__ import annotations

import numpy as np
import pytest
from report_facts import make_facts, make_figures, make_scores, make_similarity

from robusttc.report.cluster_entries import Blocks, describe_clusters, measure_blocks
from robusttc.report.document import find_space
from robusttc.report.matrices import find_boundaries, make_layers
from robusttc.report.neighbours import find_nearest, find_representatives, measured_both_ways
from robusttc.report.task_space import TaskSpace, make_space, order_tasks
from robusttc.run import AddedTask

SEEDS = range(4)


def random_space(seed: int, *, density: float = 0.6) -> tuple[TaskSpace, dict[str, int]]:
    """Twenty tasks in three clusters and none, in no order."""
    random = np.random.default_rng(seed)
    partition = {f"task {number}": int(random.integers(-1, 3)) for number in random.permutation(20)}
    scores = make_scores(partition, density=density, seed=seed)
    assert scores is not None
    similarity = make_similarity(partition, scores)
    names = order_tasks(partition, {name: float(random.random()) for name in partition})
    return make_space(names, partition, scores, similarity), partition


@pytest.mark.parametrize("seed", SEEDS)
def test_matrices_are_those_of_the_run_in_another_order(seed: int) -> None:
    space, partition = random_space(seed)
    scores = make_scores(partition, density=0.6, seed=seed)
    assert scores is not None
    similarity = make_similarity(partition, scores)
    place = [scores.task_names.index(name) for name in space.names]
    raw = scores.to_matrix()[np.ix_(place, place)]
    layers = make_layers(space)
    assert layers is not None
    found = np.full(raw.shape, np.nan)
    entries = layers.raw.tocoo()
    found[entries.row, entries.col] = entries.data
    np.testing.assert_array_equal(found, raw)
    outliers = similarity.outliers.toarray()[np.ix_(place, place)]
    np.testing.assert_array_equal(layers.errors.toarray(), outliers)
    posterior = similarity.same_group.toarray()[np.ix_(place, place)]
    told = layers.verdicts.tocoo()
    np.testing.assert_allclose(told.data, 2 * posterior[told.row, told.col] - 1)
    # A stored zero is something that was measured, and stays.
    assert told.nnz == similarity.same_group.nnz
    np.testing.assert_allclose(layers.completed, similarity.dense()[np.ix_(place, place)], atol=1e-6)
    assert layers.completed.dtype == np.float32
    assert [partition[layers.task_names[at]] for at in layers.boundaries] == list(layers.clusters)
    assert layers.clusters == (0, 1, 2, -1)


def test_tasks_are_ordered_by_cluster_and_by_how_sure_that_is() -> None:
    partition = {"a": 2, "b": 0, "c": -1, "d": 2, "e": 0}
    assert order_tasks(partition, {"a": 0.3, "d": 0.9, "e": 0.4, "b": 0.4}) == ("b", "e", "d", "a", "c")
    assert find_boundaries([]) == ()
    assert find_boundaries([-1, -1]) == (0,)


def test_an_added_task_is_where_its_cluster_is() -> None:
    partition = {"a": 0, "b": 0, "c": 1, "d": 1, "new": 1, "odd": -1}
    added = {
        name: AddedTask(name, 2, label, 0.8, label < 0, None, make_figures(name, label), 4, True)
        for name, label in (("new", 1), ("odd", -1))
    }
    facts = make_facts(partition, added=added)
    space = find_space(facts, order_tasks(partition, {}))
    assert space is not None
    assert space.names == ("a", "b", "c", "d", "new", "odd")
    X = space.similarity(slice(None))
    np.testing.assert_allclose(X[4], [0, 0, 1, 1, 1, 0], atol=1e-9)
    np.testing.assert_allclose(X[5], np.zeros(6), atol=1e-9)
    assert [name for name, _ in find_nearest(space)["new"][:2]] == ["c", "d"]


def test_private_tasks_are_in_no_matrix() -> None:
    partition = {"a": 0, "b": 0, "c": 1, "d": 1, "secret": -1}
    space = find_space(make_facts(partition, private=["secret"]), order_tasks(partition, {}))
    assert space is not None
    assert "secret" not in space.names


@pytest.mark.parametrize("seed", SEEDS)
def test_nearest_tasks_are_those_of_a_plain_sort(seed: int) -> None:
    space, _ = random_space(seed)
    X = space.similarity(slice(None))
    measured = np.full(X.shape, np.nan)
    entries = space.measured.tocoo()
    measured[entries.row, entries.col] = entries.data
    for place, name in enumerate(space.names):

        def rank(other: int, place: int = place) -> tuple[float, float]:
            known = [
                value for value in (measured[place, other], measured[other, place]) if np.isfinite(value)
            ]
            return -round(float(X[place, other]), 3), -float(np.clip(np.mean(known), -4, 4)) if known else 0.0

        others = sorted((other for other in range(len(X)) if other != place), key=rank)
        found = find_nearest(space)[name]
        assert [other for other, _ in found] == [space.names[other] for other in others[:5]]
        assert [value for _, value in found] == pytest.approx([X[place, other] for other in others[:5]])


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_are_means_over_pairs_of_tasks(seed: int) -> None:
    space, _ = random_space(seed, density=0.3)
    blocks = Blocks(space)
    X = space.similarity(slice(None))
    measured, verdicts = space.measured.tocoo(), space.verdicts.toarray()
    for row, first in enumerate(blocks.numbers):
        for column, second in enumerate(blocks.numbers):
            pairs = [
                (i, j)
                for i in np.flatnonzero(space.labels == first)
                for j in np.flatnonzero(space.labels == second)
                if i != j
            ]
            # A task that is alone in its cluster is compared with itself.
            expected = [X[pair] for pair in pairs] or [X[i, i] for i in np.flatnonzero(space.labels == first)]
            assert blocks.completed[row, column] == pytest.approx(np.mean(expected))
            values = [
                value
                for i, j, value in zip(measured.row, measured.col, measured.data, strict=True)
                if (i, j) in pairs
            ]
            assert blocks.observed[row, column] == len(values)
            if values:
                assert blocks.measured[row, column] == pytest.approx(np.mean(values))
            half = 2 if first == second else 1
            assert blocks.similar[row, column] == sum(verdicts[pair] > 0 for pair in pairs) / half
            assert blocks.different[row, column] == sum(verdicts[pair] < 0 for pair in pairs) / half


def test_clusters_are_described_by_their_own_tasks() -> None:
    # Cluster 1 is gone: its last task was removed.
    partition = {"a": 0, "b": 0, "c": 2, "d": 2, "alone": 5}
    facts = make_facts(partition, confidence={"a": 0.5, "b": 0.7, "c": 1.0, "d": 0.8, "alone": 0.2})
    names = order_tasks(partition, facts.confidence)
    space = find_space(facts, names)
    first, second, last = describe_clusters(facts, names, space)
    assert [first["number"], second["number"], last["number"]] == [0, 2, 5]
    assert [names[place] for place in first["tasks"]] == ["b", "a"]
    assert first["confidence"] == pytest.approx(0.6)
    assert (first["within"], first["between"]) == pytest.approx((1.0, 0.0))
    assert last["within"] is None
    assert last["size"] == 1
    assert set(second["representatives"]) == {"c", "d"}
    assert first["gain"]["mean"] == pytest.approx(0.1)
    assert first["accuracy"]["own"]["n"] == 2
    assert last["accuracy"]["own"]["low"] is None
    assert first["labels"] == [["label_0", 2], ["label_1", 2]]
    assert measure_blocks(space)["clusters"] == [0, 2, 5]


def test_the_most_typical_task_stands_for_its_cluster() -> None:
    space, _ = random_space(0)
    members = np.flatnonzero(space.labels == 0)
    factor = space.points.copy()
    factor[members[-1]] *= 1.5
    changed = TaskSpace(
        space.names,
        space.labels,
        factor,
        *(getattr(space, name) for name in ("measured", "raw", "verdicts", "errors")),
    )
    found = find_representatives(changed, members, measured_both_ways(changed))
    assert found[0] == space.names[members[-1]]
    assert len(found) == 3


def test_nothing_is_drawn_without_clusters() -> None:
    facts = make_facts({"a": -1, "b": -1}, has_clusters=False)
    assert find_space(facts, ("a", "b")) is None
    assert make_layers(None) is None
    assert measure_blocks(None)["n"] == 0
