"""Matrices as small PNG pictures, the axes of small plots of intervals, and a clustering as a picture file.

The page colours its matrices itself: PNG of 8-bit grey, in which level 0 is what is not there. That is the
smallest form of a matrix of 1,500 tasks that a browser reads by itself, and serves light and dark alike.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.errors import UsageError, quote

if TYPE_CHECKING:
    from robusttc.clustering import RobustTaskClustering
    from robusttc.transfer import TransferScores

__all__ = ["Picture", "check_format", "draw_heatmap", "draw_matrix", "find_axis", "place_on"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
N_LEVELS = 254  # steps from the lowest value, which is level 1, to the highest
COMPRESSION = 6  # the highest takes ten times as long for a tenth less
DENSE = 0.3  # of a symmetric matrix half is written
PLAIN, UP = 0, 2  # the filters of PNG that are used: the value itself, and the difference to the row above

STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
MAX_STEPS = 8
MARGIN = 4.0  # room at both ends of an axis for the shapes, in per cent

FORMATS = (".png", ".svg")
MAX_TASKS = 1_500  # more than the pixels of a panel; beyond it tasks are left out evenly
MAX_NAMES = 60

Matrix = NDArray[Any] | sparse.csr_array
Axis = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Picture:
    """A matrix as a picture.

    Attributes
    ----------
    png
        The file. Level 0 is an entry that is not there; level v is ``low + (v - 1) / 254 * (high - low)``.
    low, high
        The lowest and the highest value.
    is_symmetric
        Whether the picture has the lower half alone, its diagonal included: the other is the same.
    """

    png: bytes
    low: float
    high: float
    is_symmetric: bool


def draw_matrix(matrix: Matrix) -> Picture:
    """Draw a square matrix.

    Parameters
    ----------
    matrix
        A sparse matrix, of which the stored entries are there, also zeros; or a dense one, of which NaN are
        not.

    Examples
    --------
    >>> picture = draw_matrix(np.array([[1.0, np.nan], [np.nan, 0.0]]))
    >>> picture.png[1:4], picture.low, picture.high, picture.is_symmetric
    (b'PNG', 0.0, 1.0, True)
    """
    rows: NDArray[Any]
    columns: NDArray[Any]
    if sparse.issparse(matrix):
        entries = matrix.tocoo()
        is_there = np.isfinite(entries.data)
        rows, columns, values = entries.row[is_there], entries.col[is_there], entries.data[is_there]
    else:
        values = np.asarray(matrix)
        rows, columns = np.nonzero(np.isfinite(values))
        values = values[rows, columns]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    levels = np.zeros(matrix.shape, dtype=np.uint8)
    if len(values):
        step = (high - low) / N_LEVELS or 1.0
        levels[rows, columns] = 1 + np.rint((values - low) / step).astype(np.uint8)
    is_symmetric = bool((levels == levels.T).all())
    return Picture(write_png(np.tril(levels) if is_symmetric else levels), low, high, is_symmetric)


def write_png(levels: NDArray[np.uint8]) -> bytes:
    """Return levels of grey as a PNG file."""
    height, width = levels.shape
    # Rows of a cluster are alike where all is known, and not at all where a few entries are.
    kind = UP if np.count_nonzero(levels) > DENSE * levels.size else PLAIN
    above = np.vstack([np.zeros((1, width), dtype=np.uint8), levels[:-1]])
    rows = np.hstack([np.full((height, 1), kind, dtype=np.uint8), levels - above if kind == UP else levels])
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), COMPRESSION)), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


def find_axis(estimates: Iterable[Mapping[str, Any] | None], *, around: float | None = None) -> Axis:
    """Return round ends of an axis for estimates with their intervals, and for the value `around`.

    >>> find_axis([{"mean": 0.71, "low": 0.65, "high": 0.77}, None])
    (0.64, 0.78)
    """
    found = [] if around is None else [around]
    for estimate in estimates:
        ends = [] if estimate is None else [estimate[key] for key in ("mean", "low", "high")]
        found += [end for end in ends if end is not None]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    step = next((step for step in STEPS if (high - low) / step <= MAX_STEPS), STEPS[-1])
    begin, end = step * (low // step), step * -(-high // step)
    return round(begin, 4), round(end if end > begin else begin + step, 4)


def place_on(axis: Axis, value: float) -> str:
    """Return a place on an axis in per cent of the width.

    >>> place_on((0.0, 1.0), 0.5)
    '50.00%'
    """
    share = (min(max(value, axis[0]), axis[1]) - axis[0]) / (axis[1] - axis[0])
    return f"{MARGIN + (100 - 2 * MARGIN) * share:.2f}%"


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
    """Return the place of every task in the picture; -1 for those left out."""
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
