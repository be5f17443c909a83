"""One bar for many trainings: events of single models become a count of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from robusttc.progress import Progress, ProgressEvent

__all__ = ["count_models", "one_bar"]


def count_models(
    labels: Mapping[str, int] | None, *, strategy: str, clusters: str, n_folds: int | None, n_random: int
) -> int:
    """Give how many shared and cluster models a fit trains at the most.

    Examples
    --------
    >>> labels = {"a": 0, "b": 0, "c": 1, "d": 1}
    >>> count_models(labels, strategy="blend", clusters="auto", n_folds=3, n_random=2)
    30
    >>> count_models(labels, strategy="paper", clusters="auto", n_folds=3, n_random=2)
    2
    """
    sizes = Counter(number for number in (labels or {}).values() if number >= 0)
    n_clusters = sum(size > 1 for size in sizes.values())
    if strategy == "paper":
        return max(1, n_clusters)
    if clusters == "never":
        n_clusters = 0
    # In each fold: the shared model, clusters from both starts, and random ones; then those that serve.
    return (n_folds or 1) * (1 + n_clusters * (2 + n_random)) + 1 + n_clusters


def one_bar(progress: Progress | None, n_models: int) -> Progress | None:
    """Let events about epochs through as a count of models that are done; all others as they are.

    Examples
    --------
    >>> tell = one_bar(print, 5)
    >>> tell(ProgressEvent("shared model", 3, 3, "epochs"))
    ProgressEvent(stage='models', done=1, total=5, unit='models', detail='shared model')
    """
    if progress is None:
        return None
    n_done = 0

    def tell(event: ProgressEvent) -> None:
        nonlocal n_done
        if event.unit != "epochs":
            progress(event)
            return
        n_done += event.done == event.total
        progress(ProgressEvent("models", min(n_done, n_models), n_models, "models", event.stage))

    return tell
