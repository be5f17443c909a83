"""How far the observed entries bear clusters out: rates, signal to noise, partners needed, blocking tasks.

All of it from the sparse entries and the factors of X; nothing here is n x n. Tasks with label -1 are in no
cluster, and their entries are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

from robusttc.clustering.old.completion.problem import Floats, Problem
from robusttc.clustering.old.completion.result import CompletionResult, LambdaWindow
from robusttc.clustering.old.start import Labels, Rates

__all__ = [
    "BlockedTasks",
    "ClusterCounts",
    "Signal",
    "count_clusters",
    "find_blocked",
    "partners_needed",
    "signal_to_noise",
    "similarity_margins",
]

MAX_DENSE_CLUSTERS = 500
MAX_BLOCK = 4_000_000  # entries of the largest dense array
KEEP_CLEAR = 0.8  # noise enters below the predicted upper end of the window
CLEAR_SIGNAL = 6.0  # planted clusters were certified from ratios of 5 to 9 on
WIDTH = 1.1  # a measured window can be used from about this ratio of its ends on


@dataclass(frozen=True)
class ClusterCounts:
    """The observed pairs by the clusters of their tasks.

    Attributes
    ----------
    clusters
        The label of each cluster, ascending.
    sizes
        The number of tasks of each cluster.
    members
        The 0/1 matrix of tasks x clusters; the row of an unassigned task is empty.
    seen, ones
        The observed entries off the diagonal, and the sum of Y over them, for each two clusters; k x k,
        symmetric, every pair within a cluster counted twice.
    rates
        The rates of ones within and between clusters; half a count is added to each, which keeps them off 0
        and 1.
    """

    clusters: Labels
    sizes: NDArray[np.intp]
    members: sparse.csr_array
    seen: sparse.csr_array
    ones: sparse.csr_array
    rates: Rates

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return len(self.clusters)

    @property
    def smallest(self) -> int | None:
        """The size of the smallest cluster of more than one task."""
        several = self.sizes[self.sizes > 1]
        return int(several.min()) if len(several) else None

    @property
    def n_correct(self) -> float:
        """The number of observed pairs that agree with the clusters."""
        inside = float(self.ones.trace())
        return (inside + float(self.seen.sum() - self.seen.trace()) - float(self.ones.sum()) + inside) / 2


def count_clusters(problem: Problem, labels: Labels) -> ClusterCounts:
    """Count the observed pairs by the clusters of their tasks."""
    assigned = labels >= 0
    clusters, numbers = np.unique(labels[assigned], return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(assigned)])
    members = sparse.csr_array(
        (np.ones(len(numbers)), numbers.astype(np.int32), indptr), shape=(problem.n, len(clusters))
    )
    off_diagonal = (~problem.on_diagonal).astype(np.float64)
    seen = sparse.csr_array(members.T @ (problem.matrix(off_diagonal) @ members))
    ones = sparse.csr_array(members.T @ (problem.matrix(off_diagonal * problem.Y) @ members))
    n_inside, ones_inside = float(seen.trace()) / 2, float(ones.trace()) / 2
    n_outside, ones_outside = float(seen.sum()) / 2 - n_inside, float(ones.sum()) / 2 - ones_inside
    rates = Rates(
        inside=(ones_inside + 0.5) / (n_inside + 1),
        outside=(ones_outside + 0.5) / (n_outside + 1),
        n_inside=round(n_inside),
        n_outside=round(n_outside),
    )
    sizes = np.bincount(numbers, minlength=len(clusters))
    return ClusterCounts(clusters, sizes, members, seen, ones, rates)


@dataclass(frozen=True)
class Signal:
    """Kesten-Stigum ratios: how far the differences between clusters stand above the noise.

    Attributes
    ----------
    mean
        Of all differences together; None if there are none to see.
    clearest, faintest
        Of the clearest and of the faintest; also None with more than `MAX_DENSE_CLUSTERS` clusters.
    """

    mean: float | None = None
    clearest: float | None = None
    faintest: float | None = None


def signal_to_noise(counts: ClusterCounts) -> Signal:
    r"""Give the signal-to-noise ratio of the clusters.

    Let M_cd be the number of ones that a task of cluster c is expected to have among the tasks of cluster d:
    its observed partners there, times the rate of ones (inside for c = d, else outside). With the eigenvalues
    :math:`m_1 \ge m_2 \ge \dots \ge m_K` of M the ratio is :math:`m^2 / m_1`, where m is :math:`m_2` for the
    clearest difference, :math:`m_K` for the faintest and the mean of :math:`m_2, \dots, m_K` for all of them.
    For K equal clusters, a = d p_in and b = d p_out all three are
    :math:`(a - b)^2 / (K (a + (K - 1) b))`, which must exceed 1 for a spectral method on the ones alone.

    The mean is what clusters are judged by: in labels that were fitted to noise the clearest difference
    stands out by chance. Clusters of one task are left out if there are two others.
    """
    rates = counts.rates
    used = counts.sizes > 1
    if np.count_nonzero(used) < 2:
        used = np.ones_like(used)
    sizes = counts.sizes[used]
    k = len(sizes)
    if k < 2 or rates.n_inside == 0 or rates.n_outside == 0:
        return Signal()
    if rates.inside <= rates.outside:  # the clusters are upside down
        return Signal(0.0, 0.0, 0.0)
    seen = counts.seen[used][:, used]
    expected = rates.outside * seen + (rates.inside - rates.outside) * sparse.diags_array(seen.diagonal())
    root = sparse.diags_array(1 / np.sqrt(sizes))
    symmetric = sparse.csr_array(root @ expected @ root)  # similar to M
    if k <= MAX_DENSE_CLUSTERS:
        values = np.linalg.eigvalsh(symmetric.toarray())
    else:
        values = eigsh(symmetric, k=1, which="LA", tol=1e-6, v0=np.ones(k), return_eigenvectors=False)
    largest = float(values[-1])  # above 0, since there are pairs within clusters and no rate is 0

    def ratio(value: float) -> float:
        return max(value, 0.0) ** 2 / largest

    mean = ratio((float(symmetric.trace()) - largest) / (k - 1))
    if k > MAX_DENSE_CLUSTERS:
        return Signal(mean)
    return Signal(mean, ratio(float(values[-2])), ratio(float(values[0])))


def partners_needed(
    problem: Problem, counts: ClusterCounts, weights: tuple[float, float], window: LambdaWindow
) -> float | None:
    """Give how many observed partners a task needs for a window that is not empty; None if none will do.

    With d partners a task, a rate tau of wrong entries and a share s of all tasks in the smallest cluster,
    that cluster needs lambda >= 1/(d s push) with push = w_1 p_in - w_0 (1 - p_in), and noise stays out up to
    1/(2 w sqrt(d tau/(1 - tau))), in practice up to 0.8 of that. Both leave room if d is at least
    (w/(s push))^2 tau/(1 - tau) / 0.16. Also a task must meet each cluster: d >= log(n)/s. Where the upper
    end of the window was measured, it counts too: low/high falls as 1/sqrt(d). And the signal-to-noise ratio,
    which grows as d, should reach `CLEAR_SIGNAL`.
    """
    n, d = problem.n, problem.mean_degree
    if counts.smallest is None:
        return None
    rates = counts.rates
    push = weights[0] * rates.inside - weights[1] * (1 - rates.inside)
    if push <= 0 or rates.n_inside == 0 or rates.flip_rate >= 0.5:
        return None
    share = counts.smallest / n
    odds = rates.flip_rate / (1 - rates.flip_rate)
    for_window = (max(weights) / (share * push)) ** 2 * odds / (KEEP_CLEAR / 2) ** 2
    if window.high_is_measured and np.isfinite(window.low):
        for_window = max(for_window, d * (WIDTH * window.low / window.high) ** 2)
    signal = signal_to_noise(counts).mean
    for_signal = CLEAR_SIGNAL * d / signal if signal else 0.0
    return float(max(for_window, for_signal, np.log(n) / share))


@dataclass(frozen=True)
class BlockedTasks:
    """Tasks whose entries keep X from being exactly the 0/1 matrix of the clusters; the worst first.

    Attributes
    ----------
    tasks
        Their numbers.
    severity
        By how much the worst of a task's conditions is missed, in units of the 1 that a row of the dual must
        reach.
    cluster
        The cluster (its place in `ClusterCounts.clusters`) of that condition.
    is_own
        Whether that is the task's own cluster.
    """

    tasks: NDArray[np.intp]
    severity: Floats
    cluster: NDArray[np.intp]
    is_own: NDArray[np.bool_]


def find_blocked(problem: Problem, labels: Labels, counts: ClusterCounts, lam: float) -> BlockedTasks:
    """Find the tasks for which the optimality of the cluster matrix fails for certain.

    If the cluster matrix is optimal, its dual Q sums, in the row of each task, to 1 over the task's own
    cluster and to 0 over every other. Q is lambda times the sign of the error where an entry contradicts the
    clusters, and at most lambda in size elsewhere. So the task's own cluster needs lambda (agreeing -
    contradicting) >= 1, its diagonal entry included, and in every other cluster the entries that contradict
    must be fewer than those that agree (with as many, nothing is left to spare). The own condition is not
    asked of clusters of one task.
    """
    rows, numbers = problem.rows, np.full(problem.n, -1, dtype=np.intp)
    assigned = labels >= 0
    numbers[assigned] = np.searchsorted(counts.clusters, labels[assigned])
    same = (numbers[rows] == numbers[problem.indices]) & (numbers[rows] >= 0)
    weight = lam * problem.factor

    pull = np.where(same, np.where(problem.Y >= 1.0, weight, -weight), 0.0)
    push = np.bincount(rows, weights=pull, minlength=problem.n)
    alone = np.ones(problem.n, dtype=np.bool_)
    alone[assigned] = counts.sizes[numbers[assigned]] == 1
    own_shortfall = np.where(alone, 0.0, np.maximum(1.0 - push, 0.0))
    own_shortfall[own_shortfall < 1e-9] = 0.0

    # A sum that cancels is dropped by a sparse product; so contradictions count a trifle more, and a tie is
    # positive.
    surplus = np.where(problem.Y > 0.0, weight * (1 + 1e-9), -weight)
    outside = sparse.csr_array(problem.matrix(np.where(same, 0.0, surplus)) @ counts.members)
    outside.data[outside.data <= 0] = 0.0
    outside.eliminate_zeros()
    worst, cluster = largest_in_rows(outside)
    worst[~assigned] = 0.0

    severity = np.maximum(own_shortfall, worst)
    blocked = np.flatnonzero((own_shortfall > 0) | (worst > 0))
    blocked = blocked[np.argsort(-severity[blocked], kind="stable")]
    is_own = own_shortfall[blocked] >= worst[blocked]
    return BlockedTasks(
        blocked, severity[blocked], np.where(is_own, numbers[blocked], cluster[blocked]), is_own
    )


def largest_in_rows(matrix: sparse.csr_array) -> tuple[Floats, NDArray[np.intp]]:
    """Give the largest entry of each row of a non-negative matrix, and its column; 0, 0 for an empty row."""
    n = matrix.shape[0]
    largest, column = np.zeros(n), np.zeros(n, dtype=np.intp)
    filled = np.flatnonzero(np.diff(matrix.indptr))
    if len(filled):
        largest[filled] = np.maximum.reduceat(matrix.data, matrix.indptr[filled])
        rows = np.repeat(np.arange(n), np.diff(matrix.indptr))
        at_largest = np.flatnonzero(matrix.data == largest[rows])
        column[rows[at_largest[::-1]]] = matrix.indices[at_largest[::-1]]
    return largest, column


def similarity_margins(completion: CompletionResult, counts: ClusterCounts, labels: Labels) -> Floats:
    """Give, for each assigned task, how much more similar it is in X to its own cluster than to any other.

    That is the mean of X over the tasks of its cluster minus the largest such mean over another cluster.
    A task is not counted as similar to itself, unless it is alone in its cluster. Without another cluster
    the latter is 0.
    """
    assigned = np.flatnonzero(labels >= 0)
    k = counts.n_clusters
    if completion.rank == 0 or k == 0:
        return np.zeros(len(assigned))
    V, values = completion.eigenvectors, completion.eigenvalues
    of_clusters = np.asarray((counts.members.T @ V) * values).T / counts.sizes  # rank x k
    margins = np.empty(len(assigned))
    step = max(MAX_BLOCK // k, 1)
    for begin in range(0, len(assigned), step):
        tasks = assigned[begin : begin + step]
        similarity = V[tasks] @ of_clusters
        own = (np.arange(len(tasks)), np.searchsorted(counts.clusters, labels[tasks]))
        size = counts.sizes[own[1]]
        itself = np.einsum("ij,j,ij->i", V[tasks], values, V[tasks])
        to_own = np.where(size > 1, (similarity[own] * size - itself) / np.maximum(size - 1, 1), itself)
        similarity[own] = -np.inf
        to_other = similarity.max(axis=1) if k > 1 else np.zeros(len(tasks))
        margins[begin : begin + step] = to_own - to_other
    return margins
