"""What serves: with what weights models are averaged, where clusters start, and whether they pay.

Everything is decided on out-of-fold predictions of all tasks together. A task's own rows are too few to
choose for itself: that loses against no choice at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.models import Verdict, make_verdict, random_clusters_like
from robusttc.multitask.label_power import choose_power, tilt
from robusttc.multitask.out_of_fold import ClusterModels, OutOfFold, Table, Wanted
from robusttc.multitask.weighing import Weights, learn, mix
from robusttc.stats import Estimate, difference_interval, mean_interval

__all__ = ["Choice", "accuracies", "choose", "has_clusters"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What was decided, and on what.

    Attributes
    ----------
    weights
        The weight of each component, own, shared and cluster; 0 for what does not serve.
    start
        ``shared`` or ``scratch``: where the models of clusters begin; ``none`` without clusters.
    clusters_serve
        Whether clusters have a weight.
    verdict
        Whether they pay.
    label_power
        How much it counts how frequent a label is, see `robusttc.multitask.label_power`.
    components
        The mean accuracy of each component alone and of each blend, and differences of them, over tasks.
    right
        For every task, and for ``own``, ``shared``, ``cluster`` and ``served``, which of its held-out rows
        are predicted right. Without clusters, ``cluster`` is not there.
    served
        The held-out probabilities of the blend that serves, by task.
    codes
        The labels of these rows.
    """

    weights: Weights
    start: str
    clusters_serve: bool
    verdict: Verdict
    label_power: float
    components: dict[str, Estimate]
    right: dict[str, dict[str, NDArray[np.bool_]]]
    served: Table
    codes: dict[str, Numbers]


def has_clusters(labels: Mapping[str, int] | None) -> bool:
    """Tell whether there are clusters to tell apart: not one of all tasks, nor all of one task.

    Examples
    --------
    >>> has_clusters({"a": 0, "b": 0, "c": 1}), has_clusters({"a": 0, "b": 0}), has_clusters({"a": 0, "b": 1})
    (True, False, False)
    """
    if labels is None:
        return False
    numbers = [number for number in labels.values() if number >= 0]
    sizes = [numbers.count(number) for number in set(numbers)]
    return any(1 < size < len(labels) for size in sizes)


def choose(
    rows: OutOfFold, labels: Mapping[str, int] | None, *, clusters: str, n_random: int, seed: int
) -> Choice:
    """Train the models of all folds, and decide.

    Parameters
    ----------
    rows
        The folds.
    labels
        The cluster of every task, by name.
    clusters
        ``auto`` lets clusters serve if the verdict says that they help, ``always`` and ``never`` do as they
        say (``never`` does not even train them).
    n_random
        How many draws of random clusters are measured.
    seed
        The seed of the run.
    """
    codes = {name: rows.held[name].codes for name in rows.names}
    if labels is None or not has_clusters(labels) or clusters == "never":
        labels = None
    wanted: list[Wanted] = ["own", "shared"]
    if labels is not None:
        wanted.append(ClusterModels(labels, from_shared=False))
    own, shared, *scratch = rows.predict(*wanted)
    tables = {"own": own, "shared": shared}
    without = [own, shared]
    plain_weights = learn(without, codes, rows.familiar)
    plain = mix(without, plain_weights, rows.familiar)
    chosen = Weights((*plain_weights.new, 0.0), (*plain_weights.familiar, 0.0))
    shared_accuracy = accuracies(plain, codes)
    if not codes:  # no task has two rows of a label: there is nothing to hold out, and nothing to decide on
        verdict = make_verdict("multitask", cluster=None, shared=shared_accuracy, seed=seed)
        return Choice(chosen, "none", False, verdict, 0.0, {}, {}, {}, {})
    estimates = {
        "own": mean_interval(accuracies(tables["own"], codes), seed=seed),
        "shared": mean_interval(accuracies(tables["shared"], codes), seed=seed),
        "blend without clusters": mean_interval(shared_accuracy, seed=seed),
    }
    if labels is None:
        verdict = make_verdict("multitask", cluster=None, shared=shared_accuracy, seed=seed)
        power, served = count_labels(rows, plain, codes, seed)
        right = find_right({**tables, "served": served}, codes)
        return Choice(chosen, "none", False, verdict, power, estimates, right, served, codes)
    starts = {"scratch": scratch[0], "shared": rows.predict(ClusterModels(labels, from_shared=True))[0]}
    start = choose_start(rows, starts, without, codes)
    cluster_table = starts[start]
    tables["cluster"] = cluster_table
    both = [*without, cluster_table]
    cluster_weights = learn(both, codes, rows.familiar)
    with_clusters = mix(both, cluster_weights, rows.familiar)
    draws = [draw_clusters(labels, seed, draw) for draw in range(n_random)]
    random = [
        accuracies(mix(drawn, learn(drawn, codes, rows.familiar), rows.familiar), codes)
        for table in rows.predict(*(ClusterModels(one, from_shared=start == "shared") for one in draws))
        for drawn in [[*without, table]]
    ]
    cluster_accuracy = accuracies(with_clusters, codes)
    verdict = make_verdict(
        "multitask",
        cluster=cluster_accuracy,
        shared=shared_accuracy,
        random=np.array(random) if random else None,
        seed=seed,
    )
    alone = accuracies(cluster_table, codes)
    estimates |= {
        "cluster": mean_interval(alone, seed=seed),
        "blend with clusters": mean_interval(cluster_accuracy, seed=seed),
        "cluster over shared": difference_interval(alone, accuracies(tables["shared"], codes), seed=seed),
        "cluster over own": difference_interval(alone, accuracies(tables["own"], codes), seed=seed),
    }
    serve = clusters == "always" or verdict.clusters_help
    if serve:
        chosen = cluster_weights
    power, served = count_labels(rows, with_clusters if serve else plain, codes, seed)
    right = find_right({**tables, "served": served}, codes)
    return Choice(chosen, start, serve, verdict, power, estimates, right, served, codes)


def count_labels(
    rows: OutOfFold, served: Table, codes: Mapping[str, Numbers], seed: int
) -> tuple[float, Table]:
    """Decide how much it counts how frequent labels are, and give the probabilities that follow."""
    shares = rows.log_shares()
    power = choose_power(served, shares, codes, seed=seed)
    if power == 0:
        return power, served
    return power, {name: tilt(table, power * shares[name]) for name, table in served.items()}


def choose_start(
    rows: OutOfFold, starts: Mapping[str, Table], without: Sequence[Table], codes: Mapping[str, Numbers]
) -> str:
    """Give the start of cluster models whose blend has the lower log-loss."""
    losses: dict[str, float] = {}
    for start, table in starts.items():
        both = [*without, table]
        losses[start] = log_loss(mix(both, learn(both, codes, rows.familiar), rows.familiar), codes)
    return min(losses, key=lambda start: losses[start])


def draw_clusters(labels: Mapping[str, int], seed: int, draw: int) -> dict[str, int]:
    """Draw random clusters of the same sizes."""
    names = sorted(labels)
    drawn = random_clusters_like([labels[name] for name in names], seed, draw)
    return dict(zip(names, drawn.tolist(), strict=True))


def accuracies(table: Table, codes: Mapping[str, Numbers]) -> NDArray[np.float64]:
    """Give the accuracy of every task, in the order of their names."""
    return np.array([float((table[name].argmax(axis=1) == codes[name]).mean()) for name in sorted(codes)])


def log_loss(table: Table, codes: Mapping[str, Numbers]) -> float:
    """Give the mean over tasks of the mean log-loss, with no probability below one in a million."""
    losses = [
        -np.log(np.maximum(table[name][np.arange(len(right)), right], 1e-6)).mean()
        for name, right in codes.items()
    ]
    return float(np.mean(losses)) if losses else 0.0


def find_right(
    tables: Mapping[str, Table], codes: Mapping[str, Numbers]
) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Tell for every task and kind of model which held-out rows are predicted right."""
    return {
        name: {kind: table[name].argmax(axis=1) == right for kind, table in tables.items()}
        for name, right in codes.items()
    }
