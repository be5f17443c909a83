"""A clustering as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from robusttc.cli.inspection_view import say

__all__ = ["show_clustering"]

MAX_NAMES = 8


def show_clustering(console: Console, estimator: Any, written: Sequence[str]) -> None:
    """Print the clusters, how sure they are, and what to do next."""
    for number, names in estimator.clusters_.items():
        shown = ", ".join(names[:MAX_NAMES])
        more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
        say(console, f"cluster {number} ({len(names):,} tasks): {shown}{more}")
    alone = [name for name, label in zip(estimator.task_names_, estimator.labels_, strict=True) if label < 0]
    if alone:
        more = f" and {len(alone) - MAX_NAMES:,} more" if len(alone) > MAX_NAMES else ""
        say(console, f"no cluster ({len(alone):,} tasks): {', '.join(alone[:MAX_NAMES])}{more}")
    say(console, f"\nNumber of clusters: {estimator.n_clusters_} ({estimator.n_clusters_reason_}).")
    diagnosis, certificate = estimator.diagnosis_, estimator.certificate_
    say(console, diagnosis.sentence)
    if certificate.n_components:
        window = certificate.window
        limits = "" if window is None else f", window {window.low:.3g} to {window.high:.3g}"
        proof = f"Certified gap {certificate.gap:.1e} at lambda {certificate.lam:.3g}{limits}"
        say(console, f"{proof} ({certificate.method}).")
    if certificate.message:
        say(console, certificate.message[0].upper() + certificate.message[1:] + ".")
    for advice in diagnosis.advice:
        say(console, f"  • {advice}")
    say(console, f"\nWritten: {', '.join(written)}")
