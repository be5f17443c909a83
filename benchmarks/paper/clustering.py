"""The clustering itself: what completion, kinds of score, the filter and the share of pairs do to clusters.

``python -m benchmarks.paper.clustering [--quick] [--only WAY|GROUP ...] [--sets SET ...] [--seeds N]
[--out FILE]``

Groups of ways, on bots175, diverse and clients1491 (and planted tasks in the quick setting):

* ``method``: robust clustering (the default) beside the paper's Algorithm 1 (``strategy="paper"``, up to 500
  tasks), spectral clustering of raw S and of S standardised by target less the mean of each source, k-means
  on rows of S, text centroids (k-means of the mean sentence vectors of tasks) and random clusters of the same
  sizes; all with the number of clusters that the robust way found, and with given ones;
* ``scores``: kinds of score; ``accuracy`` is the paper's;
* ``filter``: the rules ``both`` and ``any`` of Eq. 1, with Algorithm 1;
* ``pairs``: 1 to 100 % of all pairs, robust and raw;
* ``learned``: the paper's multi-task models on the clusters of each method, accuracy on test rows (bots175
  and diverse, three seeds at the most): what clusters are for. No choice is made by it;
* ``differences``: robust less each other method, paired over tasks, with 95 % intervals: contrast, and where
  models were learned accuracy on all and on novel texts;
* ``stability``: the mean adjusted Rand index between the clusters of two seeds. The seed draws the pairs,
  and starts k-means; with all pairs measured only the latter is left, save for ``accuracy``, whose layers it
  trains.

What the figures are is said in `benchmarks.paper.clustering_ways`. clients1491 has 4.5 % of its pairs
measured, as in the paper, unless it says otherwise. CPU seconds are those of the calling process: what
workers measure is not in them. By an estimate from timed pieces the full setting takes 90 to 100 minutes of
CPU, shared by two cores where scores are measured; sets may be run beside each other into one file
(``--sets``, ``--workers 1``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks.paper.clustering_learning import learn_on_clusters, learned_differences
from benchmarks.paper.clustering_sets import SETS, ClusteringSet, load_clustering_set
from benchmarks.paper.clustering_ways import DEFAULT, METHODS, Ablation, Comparison, agreement, as_singletons
from benchmarks.paper.figure_table import FigureTable, Measured, Options, parse_options
from benchmarks.paper.table import Way
from robusttc.stats import difference_interval
from robusttc.transfer import estimate_cost

__all__ = ["ablations", "main"]

TABLE = "clustering"
MAX_PAPER_TASKS = 500  # where Algorithm 1 takes minutes; beyond, it is too slow for a table of many rows
BLIND = ("texts", "random")
KINDS = ("log_likelihood", "brier", "accuracy", "overlap")
PERCENTS = {False: (1, 2, 5, 10, 20, 50, 100), True: (10, 50, 100)}
N_SEEDS = {False: 5, True: 2}
# Of kinds of score that each seed measures anew: minutes a set.
SLOW_SEEDS = {"bots175": 3, "diverse": 3, "clients1491": 1, "planted": 2}
LEARNED_SETS = {False: ("bots175", "diverse"), True: ("bots175",)}
LEARNED_SEEDS = {False: 3, True: 1}


def ablations(data: ClusteringSet, *, quick: bool) -> list[Ablation]:
    """Give all ways to cluster a set, those first that need the fewest scores."""
    numbers: list[int | None] = [None, *(one for one in data.given if one < len(data.tasks))]
    found = []

    def add(way: str, group: str, *, base: Ablation, counts: Sequence[int | None]) -> None:
        for number in counts:
            name = way if number is None else f"{way}, K = {number}"
            found.append(replace(base, way=name, group=group, n_clusters=number))

    plain = Ablation(way="", group="")
    paper = replace(plain, method="paper")
    is_small = len(data.tasks) <= MAX_PAPER_TASKS
    for method, name in METHODS.items():
        if method != "paper" or is_small:
            add(name, "method", base=replace(plain, method=method), counts=numbers)
    for rule in ("both", "any") if is_small else ():
        add(f"rule {rule}", "filter", base=replace(paper, rule=rule), counts=numbers[:2])
    for kind in KINDS:
        add(f"scores: {kind}", "scores", base=replace(plain, kind=kind), counts=numbers[:2])
    if is_small:
        own = replace(paper, kind="accuracy")
        add("scores: accuracy, Algorithm 1 (the paper's)", "scores", base=own, counts=numbers[:2])
    percents = [percent for percent in PERCENTS[quick] if data.can_measure(percent)]
    for percent, method in product(percents, ("robust", "raw")):
        base = replace(plain, method=method, percent=percent)
        add(f"{METHODS[method]}, {percent} % of pairs", "pairs", base=base, counts=numbers[:2])
    return found


def judge(compared: Comparison, one: Ablation, seed: int) -> Measured:
    """Cluster one way with one seed, and give its figures."""
    found = compared.cluster(one, seed)
    sizes = np.bincount(found.labels[found.labels >= 0])
    halves = compared.halves(one, seed)
    figures = {
        **agreement(found.labels, compared.data.truth),
        "contrast": None if halves is None else float(halves[0].mean()),
        # Text centroids and random clusters look at no scores.
        "ari_of_halves": None if halves is None or one.method in BLIND else halves[1],
        "n_clusters": found.n_clusters,
        "n_without_cluster": int(np.count_nonzero(found.labels < 0)),
        "share_of_largest": float(sizes.max(initial=0) / len(found.labels)),
    }
    extra = dict(found.said)
    if one.method not in BLIND:
        extra["n_scores"] = len(compared.scores(one, seed))
    return Measured(figures=figures, settings=one.settings(), extra=extra)


def seeds_of(one: Ablation, data: ClusteringSet, n_seeds: int) -> range:
    """Give the seeds that a way is run with: fewer where every seed is measured anew."""
    is_slow = one.kind == "accuracy" or (one.kind != DEFAULT and data.base_percent < 100)
    return range(min(n_seeds, SLOW_SEEDS[data.name]) if is_slow else n_seeds)


def measure_set(table: FigureTable, data: ClusteringSet, options: Options) -> None:
    """Make all records of one set that are not there yet."""
    compared = Comparison(data)
    n_seeds = options.seeds or N_SEEDS[options.quick]
    chosen = ablations(data, quick=options.quick)
    if data.name != "planted":
        cost = estimate_cost(data.tasks, encoder=data.encoder, pairs=data.count(100))
        print(f"{data.name}: all pairs with the default score would take {cost.seconds:.0f} s", flush=True)
    for one in chosen:
        way = Way(way=one.way, group=one.group, encoder=encoder_of(data))
        if not options.wants(way):
            continue
        if one.group == "pairs" and table.lacks(way, seed=n_seeds - 1, targets=[data.name]):
            data.scores(one.kind, 100, 0)  # all pairs once, from which shares are taken
        for seed in seeds_of(one, data, n_seeds):
            table.make(way, partial(judge, compared, one, seed), seed=seed, targets=data.name)
        own_seeds = seeds_of(one, data, n_seeds)
        if len(own_seeds) > 1:
            table.make(
                Way(way=f"stability of {one.way}", group="stability", encoder=way.encoder),
                partial(judge_stability, compared, one, own_seeds),
                seed=0,
                targets=f"{data.name}, {len(own_seeds)} seeds",
            )
    methods = [one for one in chosen if one.group == "method" and one.n_clusters is None]
    if data.name in LEARNED_SETS[options.quick] and is_wanted(options, "learned"):
        n_learned = min(n_seeds, LEARNED_SEEDS[options.quick])
        learn_on_clusters(table, compared, methods, n_seeds=n_learned)
        learned_differences(table, data.name, n_seeds=n_learned)
    if is_wanted(options, "differences"):
        measure_differences(table, compared, methods, n_seeds)


def encoder_of(data: ClusteringSet) -> str:
    """Name the encoder of a set."""
    return "features" if data.name == "planted" else "sentence"


def is_wanted(options: Options, group: str) -> bool:
    """Tell whether a whole group is asked for."""
    return not options.only or group in options.only


def judge_stability(compared: Comparison, one: Ablation, seeds: Sequence[int]) -> Measured:
    """Compare the clusters of all pairs of seeds."""
    labels = [as_singletons(compared.cluster(one, seed).labels) for seed in seeds]
    indices = [float(adjusted_rand_score(*pair)) for pair in combinations(labels, 2)]
    figures = {"ari_of_seeds": float(np.mean(indices)), "lowest": min(indices), "n_seeds": len(seeds)}
    return Measured(figures=figures, settings=one.settings())


def measure_differences(
    table: FigureTable, compared: Comparison, methods: Sequence[Ablation], n_seeds: int
) -> None:
    """Compare the contrast of robust clusters with that of each other method, paired over tasks."""

    def contrast(one: Ablation) -> NDArray[np.float64]:
        found = [compared.halves(one, seed) for seed in range(n_seeds)]
        return np.asarray(np.mean([halves[0] for halves in found if halves is not None], axis=0))

    for one in methods[1:]:

        def work(one: Ablation = one) -> Measured:
            first, second = contrast(methods[0]), contrast(one)
            difference = difference_interval(first, second)
            figures = {"mean": difference.mean, "low": difference.low, "high": difference.high}
            wins, losses = int((first > second).sum()), int((first < second).sum())
            return Measured(figures={**figures, "n": difference.n, "wins": wins, "losses": losses})

        table.make(
            Way(
                way=f"contrast: robust less {METHODS[one.method]}",
                group="differences",
                encoder=encoder_of(compared.data),
            ),
            work,
            seed=0,
            targets=f"{compared.data.name}, {n_seeds} seeds",
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the table."""
    options = parse_options(str(__doc__), table=TABLE, sets=SETS, arguments=arguments)
    names = [name for name in options.sets if options.quick or name != "planted"]
    loaded = {
        name: load_clustering_set(name, quick=options.quick, n_workers=options.workers) for name in names
    }
    table = FigureTable(options.out, TABLE, "quick" if options.quick else "full")
    table.describe_sets({name: one.tasks for name, one in loaded.items()})
    for name in names:
        measure_set(table, loaded.pop(name), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
