"""How many models there are to train, for who wants to know how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

__all__ = ["count_models"]


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
