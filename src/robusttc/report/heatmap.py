"""A picture of a clustering: scores, what pairs say, and completed similarity, tasks ordered by cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import UsageError, quote

if TYPE_CHECKING:
    from robusttc.clustering import RobustTaskClustering
    from robusttc.transfer import TransferScores

__all__ = ["draw_heatmap"]

FORMATS = (".png", ".svg")
MAX_TASKS = 1_500  # more than the pixels of a panel; beyond it tasks are left out evenly
MAX_NAMES = 60


def draw_heatmap(scores: TransferScores, clustering: RobustTaskClustering, path: str | Path) -> Path:
    """Draw scores, what pairs say, and completed similarity side by side, tasks ordered by cluster.

    Parameters
    ----------
    scores
        The scores that were clustered.
    clustering
        The fitted estimator.
    path
        The picture: ``.png`` or ``.svg``.

    Raises
    ------
    UsageError
        If the file's ending is neither.
    """
    path = Path(path)
    check_format(path)
    # The object interface, without pyplot: no window system is asked for and no state is kept.
    from matplotlib.figure import Figure

    labels = clustering.labels_
    # Unassigned tasks, which have label -1, come last.
    order = np.lexsort((np.arange(len(labels)), np.where(labels < 0, labels.max(initial=0) + 1, labels)))
    shown = order if len(order) <= MAX_TASKS else order[np.linspace(0, len(order) - 1, MAX_TASKS).astype(int)]
    figure = Figure(figsize=(15, 5.6), layout="constrained")
    panels = figure.subplots(1, 3)
    draw_scores(panels[0], figure, scores, shown)
    draw_same_group(panels[1], figure, clustering, shown)
    draw_similarity(panels[2], figure, clustering, shown)
    names = [clustering.task_names_[task] for task in shown]
    for panel in panels:
        mark_clusters(panel, labels[shown])
        name_tasks(panel, names)
    left_out = f", {len(shown):,} of them shown" if len(shown) < len(order) else ""
    figure.suptitle(f"{len(order):,} tasks in {clustering.n_clusters_} clusters{left_out}")
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        figure.savefig(beside, dpi=110)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def check_format(path: Path) -> None:
    """Refuse a picture of another kind than PNG and SVG."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(
            "the plot cannot be of this kind",
            got=quote(path.name),
            expected=f"a file that ends in {' or '.join(FORMATS)}",
        )


def among(shown: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Give the place of every task in the picture; -1 for those left out."""
    place = np.full(n, -1, dtype=np.intp)
    place[shown] = np.arange(len(shown))
    return place


def draw_scores(panel: Any, figure: Any, scores: TransferScores, shown: NDArray[Any]) -> None:
    """Draw the measured scores, each in standard deviations of its column."""
    place = among(shown, len(scores.task_names))
    off = scores.source != scores.target
    source, target, score = scores.source[off], scores.target[off], scores.score[off]
    n = len(scores.task_names)
    count = np.maximum(np.bincount(target, minlength=n), 1)
    mean = np.bincount(target, weights=score, minlength=n) / count
    deviation = np.sqrt(np.bincount(target, weights=(score - mean[target]) ** 2, minlength=n) / count)
    usable = deviation[target] > 0
    keep = usable & (place[source] >= 0) & (place[target] >= 0)
    image = np.full((len(shown), len(shown)), np.nan)
    image[place[source[keep]], place[target[keep]]] = (score - mean[target])[keep] / deviation[target[keep]]
    picture = panel.imshow(image, cmap="PuOr_r", vmin=-2.5, vmax=2.5, interpolation="nearest")
    panel.set_title("Measured scores\n(standardised by target)")
    panel.set_ylabel("source task")
    panel.set_xlabel("target task")
    figure.colorbar(picture, ax=panel, shrink=0.75)


def draw_same_group(panel: Any, figure: Any, clustering: RobustTaskClustering, shown: NDArray[Any]) -> None:
    """Draw how probable it is that each measured pair belongs to one group."""
    pairs = clustering.pairs_
    place = among(shown, len(clustering.task_names_))
    image = np.full((len(shown), len(shown)), np.nan)
    first, second = place[pairs.first], place[pairs.second]
    keep = (first >= 0) & (second >= 0)
    image[first[keep], second[keep]] = image[second[keep], first[keep]] = pairs.same_group[keep]
    picture = panel.imshow(image, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    panel.set_title("Same group, by the pair's own scores\n(probability; white: not measured)")
    figure.colorbar(picture, ax=panel, shrink=0.75)


def draw_similarity(panel: Any, figure: Any, clustering: RobustTaskClustering, shown: NDArray[Any]) -> None:
    """Draw the completed similarity."""
    points = clustering.embedding_[shown]
    picture = panel.imshow(points @ points.T, cmap="viridis", vmin=-1, vmax=1, interpolation="nearest")
    panel.set_title("Completed similarity\n(cosine in the leading directions of X)")
    figure.colorbar(picture, ax=panel, shrink=0.75)


def mark_clusters(panel: Any, labels: NDArray[Any]) -> None:
    """Draw lines where one cluster ends and the next begins."""
    for border in np.flatnonzero(np.diff(labels)) + 0.5:
        panel.axhline(border, color="#d62728", linewidth=0.8)
        panel.axvline(border, color="#d62728", linewidth=0.8)


def name_tasks(panel: Any, names: list[str]) -> None:
    """Write the names of the tasks beside the panel where they can be read."""
    if len(names) > MAX_NAMES:
        panel.set_xticks([])
        panel.set_yticks([])
        return
    # A dollar sign would begin a formula.
    plain = [name.replace("$", r"\$")[:24] for name in names]
    panel.set_xticks(range(len(names)), plain, rotation=90, fontsize=6)
    panel.set_yticks(range(len(names)), plain, fontsize=6)
