"""When measuring in rounds may stop, tried on sets of which all pairs are measured.

    python -m benchmarks.stop_rule [--sets diverse,bots175] [--draws 2]

A row is what is known after a round. Explained: the share of the variance (within targets) of the scores of
this round that the rounds before it explain; gain: how much of it is owed to the last of them. Rank
correlation: predicted and measured scores of all pairs that are not measured yet, targets standardised.
Similarity: the correlation of the completed similarities of all pairs of tasks with those from all scores.
ARI: clusters against those from all scores, with the number of clusters found, and with that of all scores.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score

from benchmarks.completion import ScoredSet, load_scored
from benchmarks.report import print_table
from robusttc import DoubtWarning, RobustTaskClustering, TransferScores
from robusttc.clustering import StopRule, cut
from robusttc.clustering.standardise import standardise
from robusttc.transfer import choose_pairs, round_sizes

HEADER = [
    "set, seed",
    "measured",
    "explained",
    "gain",
    "rank correlation",
    "similarity",
    "clusters",
    "ARI",
    "ARI, same number",
    "",
]
Mask = NDArray[np.bool_]


def draw_rounds(data: ScoredSet, seed: int) -> Iterator[tuple[TransferScores, TransferScores, Mask]]:
    """Give the scores of each round, all scores so far, and which they are."""
    n = data.scores.n_tasks
    before = np.zeros((n, n), dtype=np.bool_)
    for size in round_sizes(n):
        so_far = np.zeros((n, n), dtype=np.bool_)
        so_far[choose_pairs(data.scores.task_names, size, random_state=seed).entries()] = True
        yield data.restricted(so_far & ~before), data.restricted(so_far), so_far
        before = so_far


def correlate_unmeasured(scores: TransferScores, measured: Mask, groups: RobustTaskClustering) -> str:
    """Return the rank correlation of predicted and measured scores of the pairs that were left out."""
    rest = ~measured[scores.source, scores.target]
    if not rest.any():
        return ""
    source, target = scores.source[rest], scores.target[rest]
    unit = standardise(scores)
    expected = groups.predict_transfer().scores[source, target]
    predicted, truth = unit.apply(target, expected), unit.apply(target, scores.score[rest])
    known = np.isfinite(predicted) & np.isfinite(truth)
    return f"{spearmanr(predicted[known], truth[known]).statistic:.3f}"


def similarities(groups: RobustTaskClustering) -> NDArray[np.float64]:
    """Return the completed similarities of all pairs of tasks."""
    upper = np.triu_indices(len(groups.embedding_), 1)
    return np.asarray((groups.embedding_ @ groups.embedding_.T)[upper])


def simulate(data: ScoredSet, whole: RobustTaskClustering, seed: int) -> Iterator[list[str]]:
    """Give a row a round."""
    rule, silent = StopRule(), StopRule(min_gain=-np.inf)
    rounds: list[TransferScores] = []
    stopped = False
    for latest, so_far, measured in draw_rounds(data, seed):
        rounds.append(latest)
        silent(rounds)
        found = [f"{silent.explained[-1]:.3f}", f"{silent.gains[-1]:+.3f}"] if silent.gains else ["", ""]
        here = not stopped and rule(rounds)
        stopped |= here
        groups = RobustTaskClustering(random_state=0).fit(so_far)
        same = np.zeros(len(groups.labels_)) if groups.tree_ is None else cut(groups.tree_, whole.n_clusters_)
        yield [
            f"{data.name}, {seed}",
            f"{len(so_far) / len(data.scores):.0%}",
            *found,
            correlate_unmeasured(data.scores, measured, groups),
            f"{np.corrcoef(similarities(groups), similarities(whole))[0, 1]:.3f}",
            str(groups.n_clusters_),
            f"{adjusted_rand_score(whole.labels_, groups.labels_):.2f}",
            f"{adjusted_rand_score(whole.labels_, same):.2f}",
            "stops" if here else "",
        ]


def main() -> None:
    """Print a table for all sets and draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default="diverse,bots175")
    parser.add_argument("--draws", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DoubtWarning)
    rows: list[list[str]] = []
    for name in options.sets.split(","):
        data = load_scored(name)
        whole = RobustTaskClustering(random_state=0).fit(data.scores)
        for seed in range(options.draws):
            rows += simulate(data, whole, seed)
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
