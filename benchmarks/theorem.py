"""The quantities of the paper's theorem: when Eq. 2 can return exactly the matrix of the clusters.

They are for studying Eq. 2 (``strategy="paper"``); the estimator does not use them. Symbols: X = U Sigma U'
is the n x n matrix of k clusters (1 within a cluster, 0 between clusters), Y its observed entries, some of
them wrong, and E the errors. A planted model has k clusters of equal size, `partners` observed partners of
each task, drawn uniformly (d), and a share `flip_rate` of wrong pairs (tau). A matrix Y is given as
`robusttc.clustering.filter_scores` returns it: entries that are not stored are unobserved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

from robusttc.clustering.problem import Floats, Labels
from robusttc.errors import DataError
from robusttc.params import Integer, Number, check_param

__all__ = [
    "Incoherence",
    "cluster_basis",
    "error_incoherence",
    "incoherence",
    "lambda_window",
    "meets_conditions",
    "partners_needed",
    "signal_to_noise",
    "theorem_interval",
]

CLEAR_SIGNAL = 6.0  # planted clusters were recovered without an error from ratios of 5 to 6 on
KEEP_CLEAR = 0.8  # noise was seen to enter X at 0.7 to 0.9 of the predicted upper end of the window
ERROR_SIZE = 1e-3
MAX_DENSE = 500


@dataclass(frozen=True)
class Incoherence:
    """The coherences of X, n x n and of rank k.

    mu_0 is ``sqrt(n/k) max_i ||U_i||``, mu_1 is ``n/sqrt(k) max_ij |(U U')_ij|``; both are at least 1. xi(X),
    the largest entry of a matrix of norm 1 in the tangent space at X, lies between xi_low and xi_high:
    ``max_i ||U_i||`` and twice that, at most 1.
    """

    n: int
    rank: int
    mu_0: float
    mu_1: float
    xi_low: float
    xi_high: float

    @property
    def n_entries(self) -> float:
        """The correct entries that condition 3 asks for if its constant C is 1."""
        return max(self.mu_0, self.mu_1) ** 4 * self.n * float(np.log(self.n)) ** 2


def cluster_basis(labels: ArrayLike) -> Floats:
    """Return U of the matrix of the clusters: n x k with orthonormal columns."""
    _, number, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    return np.asarray(np.eye(len(sizes))[number] / np.sqrt(sizes))


def incoherence(U: Floats) -> Incoherence:
    """Return the coherences of X from its eigenvectors, n x k with orthonormal columns.

    The largest entry of U U' lies on its diagonal, so mu_1 = sqrt(k) mu_0^2. If X has negative eigenvalues,
    this mu_1 is an upper bound.

    >>> incoherence(cluster_basis([0, 0, 0, 0, 0, 1])).xi_high  # a cluster of one task
    1.0
    """
    if U.ndim != 2 or not U.size or not np.allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-6):
        raise DataError("U cannot be used", got=f"shape {U.shape}", expected="n x k with orthonormal columns")
    n, k = U.shape
    largest = min(float(np.linalg.norm(U, axis=1).max()), 1.0)
    mu_0 = float(np.sqrt(n / k)) * largest
    return Incoherence(n, k, mu_0, float(np.sqrt(k)) * mu_0**2, largest, min(2 * largest, 1.0))


def error_incoherence(errors: sparse.csr_array | Floats) -> float:
    """Return mu(E) of a symmetric E: the largest norm of a matrix with entries up to 1 where E is not zero.

    That is the norm of the 0/1 matrix of these places, since no other such matrix has a larger one. Entries
    of E up to 0.001 count as zero: they are what a solver left over.
    """
    pattern = sparse.csr_array(errors, copy=True)
    pattern.data = (np.abs(pattern.data) > ERROR_SIZE).astype(np.float64)
    pattern.eliminate_zeros()
    if abs(pattern - pattern.T).nnz:
        raise DataError("errors cannot be used", got="an asymmetric pattern", expected="a symmetric matrix")
    if pattern.nnz == 0:
        return 0.0
    if pattern.shape[0] <= MAX_DENSE:
        return float(np.linalg.eigvalsh(pattern.toarray())[-1])
    # The leading eigenvector is non-negative, so a start of ones is not orthogonal to it.
    v0 = np.ones(pattern.shape[0])
    return float(eigsh(pattern, k=1, which="LA", v0=v0, return_eigenvectors=False)[0])


def theorem_interval(xi: float, mu: float, rank: int) -> tuple[float, float] | None:
    """Return the interval for lambda of conditions 1 and 2; None where there is none.

    With z = mu(E) xi(X), condition 1 is z <= 1/(4k + 5), and the interval is not empty if and only if also
    1 - (7k + 9) z + (10k^2 + 21k + 8) z^2 > 0. Deviation: the paper has 5(k + 1) in the place of 7k + 9 and
    concludes that condition 1 suffices; at z = 1/(4k + 5) the upper end is 0.

    >>> theorem_interval(0.1, 0.0, 2)  # without errors there is no upper end
    (0.1, inf)
    """
    z, k = mu * xi, rank
    if z > 1 / (4 * k + 5):
        return None
    low = (xi - (2 * k - 1) * z * xi) / (1 - 2 * (k + 1) * z)
    high = (1 - (4 * k + 5) * z) / ((k + 2) * mu) if mu > 0 else float("inf")
    return (low, high) if low < high else None


def lambda_window(Y: sparse.csr_array, labels: ArrayLike) -> tuple[float, float]:
    """Return the predicted window of lambda in which X of Eq. 2 has these clusters as its blocks.

    A block survives if its entries can carry it: lambda (ones - zeros) >= 1, where ones and zeros are those
    of a task within its cluster, its diagonal entry included, averaged over the cluster. Noise stays out of X
    while 2 lambda sqrt(d tau / (1 - tau)) < 1. The window is empty if low > high; in practice noise enters
    from 0.7 to 0.9 of `high` on.

    >>> lambda_window(sparse.csr_array(np.ones((4, 4))), [0, 0, 0, 0])
    (0.25, inf)
    """
    rows, columns, values, clusters = observed_entries(Y, labels)
    same = clusters[rows] == clusters[columns]
    push = np.bincount(clusters[rows[same]], weights=2 * values[same] - 1, minlength=clusters.max() + 1)
    weakest = float((push / np.bincount(clusters)).min())
    low = 1 / weakest if weakest > 0 else float("inf")
    apart = rows != columns
    n_wrong = float(np.abs(values - same)[apart].sum())
    n_right = int(np.count_nonzero(apart)) - n_wrong
    if n_wrong == 0:
        return low, float("inf")
    partners = (n_wrong + n_right) / len(clusters)
    return low, float(np.sqrt(n_right / n_wrong / partners)) / 2


def meets_conditions(Y: sparse.csr_array, labels: ArrayLike, lam: float) -> NDArray[np.bool_]:
    """Return which tasks meet necessary conditions for X of Eq. 2 to be the matrix of the clusters.

    If that matrix is the optimum, there is a dual Q that sums, in the row of each task, to 1 over its own
    cluster and to 0 over every other. |Q_ij| is at most lambda, and Q_ij is lambda sign(E_ij) where an entry
    is wrong. So lambda (ones - zeros) >= 1 must hold in the task's own cluster, its diagonal entry included,
    and in every other cluster with a one there must be more zeros than ones (equality would leave the optimum
    not unique).

    >>> meets_conditions(sparse.csr_array(np.ones((4, 4))), [0, 0, 0, 0], 0.3).tolist()
    [True, True, True, True]
    """
    rows, columns, values, clusters = observed_entries(Y, labels)
    n, k = len(clusters), int(clusters.max()) + 1
    place = rows * k + clusters[columns]
    ones = np.bincount(place, weights=values, minlength=n * k).reshape(n, k)
    zeros = np.bincount(place, weights=1 - values, minlength=n * k).reshape(n, k)
    own = np.arange(n), clusters
    is_carried = lam * (ones - zeros)[own] >= 1 - 1e-9
    is_apart = (ones == 0) | (ones < zeros)
    is_apart[own] = True
    return np.asarray(is_carried & is_apart.all(axis=1))


def signal_to_noise(n_clusters: int, partners: float, flip_rate: float) -> float:
    """Return the Kesten-Stigum ratio of planted clusters: (a - b)^2 / (k (a + (k - 1) b)).

    Here a = d (1 - tau) and b = d tau. Spectral methods find nothing below 1; in experiments with 500 tasks
    they placed every task correctly from 5 to 6 on.

    >>> round(signal_to_noise(5, 15, 0.05), 2)
    2.11
    """
    check_param("n_clusters", n_clusters, Integer(2))
    check_param("flip_rate", flip_rate, Number(0, 0.5, excludes=("high",)))
    a, b = partners * (1 - flip_rate), partners * flip_rate
    return (a - b) ** 2 / (n_clusters * (a + (n_clusters - 1) * b))


def partners_needed(n_tasks: int, n_clusters: int, flip_rate: float) -> float:
    """Return how many observed partners of a task the recovery of planted clusters needs.

    It is the largest of three numbers, and may exceed `n_tasks`: (k / (1 - 2 tau))^2 tau / (1 - tau) / 0.16,
    from which on the lower end of the window of lambda is below 0.8 of its upper end; that with which
    `signal_to_noise` is 6; and k log n, with which every task meets every cluster.

    >>> round(partners_needed(1491, 5, 0.1)), round(partners_needed(1491, 40, 0.1))
    (61, 1800)
    """
    for_signal = CLEAR_SIGNAL / signal_to_noise(n_clusters, 1.0, flip_rate)
    odds = flip_rate / (1 - flip_rate)
    for_window = (n_clusters / (1 - 2 * flip_rate)) ** 2 * odds / (KEEP_CLEAR / 2) ** 2
    return max(for_window, for_signal, n_clusters * float(np.log(n_tasks)))


def observed_entries(Y: sparse.csr_array, labels: ArrayLike) -> tuple[Labels, Labels, Floats, Labels]:
    """Return rows, columns and values of the stored entries, and clusters numbered from 0."""
    given = np.asarray(labels)
    if given.ndim != 1 or Y.shape != (len(given), len(given)) or not len(given):
        got = f"shapes {Y.shape} and {given.shape}"
        raise DataError("Y and labels do not fit", got=got, expected="n x n and n")
    clusters = np.unique(given, return_inverse=True)[1].astype(np.int64)
    entries = Y.tocoo()
    return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data, clusters
