"""From completed components to labels of the whole set: spectral clustering, the last step, the numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from robusttc.clustering.old.components import TINY_COMPONENT, CompletedComponent, restrict_problem
from robusttc.clustering.old.spectral import cluster_factors
from robusttc.clustering.old.start import Labels, refine_labels

__all__ = ["cluster_tasks", "number_clusters", "refine_parts", "renumber"]


def cluster_tasks(
    parts: list[CompletedComponent],
    order: NDArray[np.intp],
    active: NDArray[np.bool_],
    n_clusters: int | None,
    seed: int,
) -> Labels:
    """Cluster the active tasks spectrally by the completed similarity; the others have label -1.

    Without a given number every component is clustered on its own; with one, all of them together. Without
    a given number, a component in which no two active tasks were found similar has no cluster; and one of
    three tasks, too few to count nats, has the groups that its ones make.
    """
    n = len(order)
    labels: Labels = np.full(n, -1, dtype=np.intp)
    if n_clusters == 1:
        return np.zeros(n, dtype=np.intp)
    if n_clusters == n:
        labels[order] = np.arange(n)
        return labels
    chosen = [np.flatnonzero(active[part.members]) for part in parts]
    if n_clusters is None:
        n_before = 0
        for part, rows in zip(parts, chosen, strict=True):
            own = cluster_component(part, rows, seed)
            labels[part.members[rows]] = np.where(own >= 0, own + n_before, -1)
            n_before += int(own.max(initial=-1)) + 1
        return labels
    members = [part.members[rows] for part, rows in zip(parts, chosen, strict=True)]
    n_active = sum(len(rows) for rows in chosen)
    if n_active:
        factors = [part.factors() for part in parts]
        blocks = [vectors[rows] for (vectors, _), rows in zip(factors, chosen, strict=True)]
        vectors = sparse.block_diag(blocks, format="csr").toarray() if len(blocks) > 1 else blocks[0]
        values = np.concatenate([values for _, values in factors])
        k = min(n_clusters, n_active)
        labels[np.concatenate(members)] = cluster_factors(vectors, values, k, seed=seed)
    return labels


def cluster_component(part: CompletedComponent, rows: NDArray[np.intp], seed: int) -> Labels:
    """Cluster these rows of a component into as many clusters as were found in it; see `cluster_tasks`."""
    problem = restrict_problem(part.problem, rows)
    is_one = ~problem.on_diagonal & (problem.Y >= 0.5)
    if not is_one.any():
        return np.full(len(rows), -1, dtype=np.intp)
    if len(part.members) <= TINY_COMPONENT:
        ones = problem.matrix(is_one.astype(np.float64))
        ones.eliminate_zeros()  # they would connect
        _, group = connected_components(ones, directed=False)
        # Of three tasks there is only one group of two or more.
        alone = np.bincount(group)[group] == 1
        return np.where(alone, -1, 0).astype(np.intp)
    vectors, values = part.factors()
    k = len(np.unique(part.wanted.labels[rows]))
    return cluster_factors(vectors[rows], values, k, seed=seed)


def refine_parts(parts: list[CompletedComponent], labels: Labels) -> Labels:
    """Move tasks to the cluster that their entries speak for, within their component.

    Across components there are no entries, and no evidence would look better than evidence against.
    """
    labels = labels.copy()
    for part in parts:
        rows = np.flatnonzero(labels[part.members] >= 0)
        if len(rows):
            used, compact = np.unique(labels[part.members[rows]], return_inverse=True)
            refined = refine_labels(restrict_problem(part.problem, rows), compact.astype(np.intp))
            labels[part.members[rows]] = used[refined]
    return labels


def renumber(labels: Labels, numbers: Labels) -> Labels:
    """Give each cluster its number; -1 stays."""
    # The last entry is what -1 picks.
    return np.append(numbers, -1)[labels]


def number_clusters(labels: Labels, order: NDArray[np.intp]) -> Labels:
    """Give the new number of each cluster: the largest is 0, and of equal ones that with the earlier task.

    Parameters
    ----------
    labels
        Labels from 0 up, each used, or -1.
    order
        All task numbers, in the order that decides ties.
    """
    ordered = labels[order]
    used, first = np.unique(ordered, return_index=True)
    first = first[used >= 0]
    sizes = np.bincount(ordered[ordered >= 0])
    ranking = np.lexsort((first, -sizes))
    numbers: Labels = np.empty(len(sizes), dtype=np.intp)
    numbers[ranking] = np.arange(len(sizes))
    return numbers
