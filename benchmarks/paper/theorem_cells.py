"""One place of the phase diagram: planted clusters, what is made of them, and what the certificate says."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.paper.figure_table import Measured
from benchmarks.planted import Planted, plant
from robusttc import DoubtWarning, RobustTaskClustering, TransferScores

__all__ = ["FIGURES", "Cell", "judge_draw", "measure_cell"]

FIGURES = ("x_exact", "x_rounds", "clusters_exact")
EXACT, ROUNDS = 0.01, 0.5


@dataclass(frozen=True)
class Cell:
    """One place of the phase diagram; `multiple` is m / (n log^2 n)."""

    n: int
    k: int
    flips: float
    multiple: float

    @property
    def entries(self) -> int:
        """The number m of observed entries: both directions of every pair."""
        return 2 * round(self.multiple * self.n * math.log(self.n) ** 2 / 2)

    @property
    def is_possible(self) -> bool:
        """Whether there are so many entries."""
        return self.entries <= self.n * (self.n - 1)

    @property
    def line(self) -> str:
        """What the cell has in common with those of other n and m."""
        return f"k = {self.k}, {self.flips:.0%} wrong"


def as_scores(data: Planted) -> TransferScores:
    """Give the entries as scores that the rule ``any`` turns back into the same entries."""
    entries = data.Y.tocoo()
    kept = entries.row != entries.col
    names = [f"task-{number:04d}" for number in range(len(data.labels))]
    return TransferScores(names, source=entries.row[kept], target=entries.col[kept], score=entries.data[kept])


def judge_draw(cell: Cell, draw: int) -> dict[str, Any]:
    """Cluster one draw, and compare with what was planted."""
    data = plant(cell.n, cell.k, cell.entries / cell.n, cell.flips, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        model = RobustTaskClustering(rule="any", random_state=draw).fit(as_scores(data))
    truth = (data.labels[:, None] == data.labels).astype(np.float64)
    # A certificate covers the assigned tasks that X separates.
    covered = model.labels_ >= 0
    covered[list(model.diagnosis_.not_separated)] = False
    is_listed = model.diagnosis_.n_not_separated == len(model.diagnosis_.not_separated)
    off = float(np.abs(model.similarity_.dense() - truth).max())
    is_optimum = "spectral" not in model.certificate_.method and model.certificate_.converged
    return {
        "x_exact": is_optimum and off <= EXACT,
        "x_rounds": is_optimum and off < ROUNDS,
        # A task without a cluster is not where it was planted.
        "clusters_exact": bool((model.labels_ >= 0).all())
        and adjusted_rand_score(data.labels, model.labels_) == 1.0,
        "covered_exact": is_listed
        and adjusted_rand_score(data.labels[covered], model.labels_[covered]) == 1.0,
        "agreement": float(adjusted_rand_score(data.labels, model.labels_)),
        "verdict": model.diagnosis_.verdict,
        "window_empty": "spectral" in model.certificate_.method,
    }


def measure_cell(cell: Cell, draws: int) -> Measured:
    """Give the figures of a cell.

    Examples
    --------
    >>> found = measure_cell(Cell(n=50, k=2, flips=0.0, multiple=3.0), draws=1).figures
    >>> found["x_exact"], found["certified_right"], found["certified_wrong"]
    (1.0, 1.0, 0.0)
    """
    drawn = [judge_draw(cell, draw) for draw in range(draws)]

    def share(chosen: Sequence[bool]) -> float:
        return float(np.mean(chosen))

    certified = [one for one in drawn if one["verdict"] == "certified"]
    likely = [one for one in drawn if one["verdict"] == "likely"]
    figures: dict[str, float | None] = {name: share([one[name] for one in drawn]) for name in FIGURES}
    shares = {
        "certified_right": [one["clusters_exact"] for one in certified],
        "certified_not_all": [one["covered_exact"] and not one["clusters_exact"] for one in certified],
        "certified_wrong": [not one["covered_exact"] for one in certified],
        "likely_right": [one["clusters_exact"] for one in likely],
        "likely_wrong": [not one["clusters_exact"] for one in likely],
    }
    figures |= {name: sum(own) / draws for name, own in shares.items()}
    figures["not_certified"] = 1.0 - len(certified) / draws
    figures["mean_agreement"] = float(np.mean([one["agreement"] for one in drawn]))
    figures["least_agreement_certified"] = min((one["agreement"] for one in certified), default=None)
    figures["window_empty"] = share([one["window_empty"] for one in drawn])
    figures["n"], figures["multiple"], figures["draws"] = cell.n, cell.multiple, draws
    figures["entries"] = cell.entries
    figures["share_observed"] = cell.entries / (cell.n * (cell.n - 1))
    return Measured(figures=figures, settings={**asdict(cell), "draws": draws, "rule": "any"})
