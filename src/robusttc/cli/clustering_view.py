"""A clustering as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from robusttc.cli.inspection_view import say
from robusttc.formatting import count

if TYPE_CHECKING:
    from robusttc.transfer import TransferScores

__all__ = ["find_sources_only", "show_clustering"]

MAX_NAMES = 12
DOUBTFUL = 0.5


def show_clustering(console: Console, estimator: Any, scores: TransferScores, written: Sequence[str]) -> None:
    """Print the clusters, the verdict, the certificate, and what to do next."""
    for number, names in estimator.clusters_.items():
        say(console, f"cluster {number} ({count(len(names), 'task')}): {list_some(names)}")
    alone = [name for name, label in zip(estimator.task_names_, estimator.labels_, strict=True) if label < 0]
    if alone:
        say(console, f"no cluster ({count(len(alone), 'task')}, too few measured pairs): {list_some(alone)}")
    one_way = find_sources_only(scores)
    if one_way:
        say(
            console,
            f"Sources only ({count(len(one_way), 'task')}): {list_some(one_way)}. No score has one of them "
            "as its target: they are clustered by how well they serve the others alone.",
        )
    say(console, f"\nNumber of clusters: {estimator.n_clusters_} ({estimator.n_clusters_reason_}).")
    doubtful = [
        name
        for name, label, confidence in zip(
            estimator.task_names_, estimator.labels_, estimator.confidence_, strict=True
        )
        if label >= 0 and confidence < DOUBTFUL
    ]
    if doubtful:
        say(console, f"Doubtful: {list_some(doubtful)} (the measured pairs fit another cluster better).")
    say(console, f"Verdict: {estimator.verdict_.sentence}")
    for advice in estimator.verdict_.advice:
        say(console, f"  • {advice}")
    say(console, f"Certificate: {estimator.certificate_.sentence}")
    say(console, f"\nWritten: {', '.join(written)}")


def list_some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = len(names) if len(names) <= MAX_NAMES + 1 else MAX_NAMES
    more = f" and {len(names) - shown:,} more" if shown < len(names) else ""
    return ", ".join(names[:shown]) + more


def find_sources_only(scores: TransferScores) -> tuple[str, ...]:
    """Return the tasks that are sources of scores and never a target, where others are both."""
    off = scores.off_diagonal
    sources, targets = set(scores.source[off].tolist()), set(scores.target[off].tolist())
    return tuple(scores.task_names[task] for task in sorted(sources - targets)) if sources & targets else ()
