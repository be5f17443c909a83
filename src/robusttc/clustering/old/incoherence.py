"""What the recovery theorem asks of X and E, as far as it can be computed.

Symbols, as in the theorem: X = U Sigma U^T has rank k; E holds the errors.

* ``mu_0 = sqrt(n/k) max_i ||U_i||`` and ``mu_1 = n/sqrt(k) max_ij |(U sgn(Sigma) U^T)_ij|``: the coherences.
  The largest entry of a positive semidefinite matrix lies on its diagonal, so ``mu_1 = sqrt(k) mu_0^2`` if X
  has no negative eigenvalue; else this is an upper bound.
* ``xi(X)``: the largest entry of a matrix of norm 1 in the tangent space at X. With ``inc = max_i ||U_i||``
  it lies between inc and 2 inc (shown in the work that the theorem cites), and no entry of a matrix exceeds
  its norm, so it is at most 1.
* ``mu(E)``: the largest norm of a matrix with entries up to 1 where E has errors. No such matrix has a larger
  norm than the one with 1 at all of these places (Perron and Frobenius), so mu(E) is the norm of that 0/1
  matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from robusttc.clustering.old.completion.problem import Floats
from robusttc.clustering.old.completion.result import CompletionResult

__all__ = ["ERROR_SIZE", "Incoherence", "bound_incoherence", "error_pattern", "theorem_interval"]

# An entry of E counts as an error from here on. At gaps of 1e-5 the count is nearly the same for 1e-4 and
# 1e-2: what is smaller is what the solver left over.
ERROR_SIZE = 1e-3
POWER_STEPS = 60


@dataclass(frozen=True)
class Incoherence:
    """The quantities of the theorem.

    Attributes
    ----------
    rank
        The rank k of X.
    mu_0, mu_1
        The coherences of X.
    xi_low, xi_high
        Bounds on xi(X).
    mu_low, mu_high
        Bounds on mu(E).
    limit
        1/(4k + 5), which mu(E) xi(X) must not exceed by condition 1.
    condition_1
        ``holds`` or ``fails`` if the bounds decide it, else ``open``.
    lambda_low, lambda_high
        The interval of condition 2 at the upper bounds of mu and xi; None where it is empty (which condition
        1 does not rule out), None above if there is no error at all.
    n_entries
        ``max(mu_0, mu_1)^4 n log^2 n``: the correct entries that condition 3 asks for, if its constant were
        1.
    """

    rank: int
    mu_0: float
    mu_1: float
    xi_low: float
    xi_high: float
    mu_low: float
    mu_high: float
    limit: float
    condition_1: Literal["holds", "fails", "open"]
    lambda_low: float | None
    lambda_high: float | None
    n_entries: float


def bound_incoherence(completion: CompletionResult) -> Incoherence | None:
    """Bound what the theorem is about; None if X is zero."""
    n, k = completion.n, completion.rank
    if k == 0:
        return None
    row_norms = np.sqrt(np.einsum("ij,ij->i", completion.eigenvectors, completion.eigenvectors))
    largest = min(float(row_norms.max()), 1.0)
    mu_0 = float(np.sqrt(n / k)) * largest
    mu_1 = float(np.sqrt(k)) * mu_0**2
    xi_low, xi_high = largest, min(2 * largest, 1.0)
    mu_low, mu_high = bound_pattern_norm(error_pattern(completion))
    limit = 1 / (4 * k + 5)
    condition_1: Literal["holds", "fails", "open"] = "open"
    if mu_high * xi_high <= limit:
        condition_1 = "holds"
    elif mu_low * xi_low > limit:
        condition_1 = "fails"
    low, high = theorem_interval(xi_high, mu_high, k) if condition_1 == "holds" else (None, None)
    n_entries = max(mu_0, mu_1) ** 4 * n * float(np.log(n)) ** 2
    return Incoherence(
        k, mu_0, mu_1, xi_low, xi_high, mu_low, mu_high, limit, condition_1, low, high, n_entries
    )


def error_pattern(completion: CompletionResult) -> sparse.csr_array:
    """Give the 0/1 matrix of the places where E is an error, not what the solver left over."""
    E = completion.E
    pattern = sparse.csr_array(
        ((np.abs(E.data) > ERROR_SIZE).astype(np.float64), E.indices, E.indptr), E.shape
    )
    pattern = pattern.copy()
    pattern.eliminate_zeros()
    return pattern


def bound_pattern_norm(pattern: sparse.csr_array) -> tuple[float, float]:
    """Bound the norm of a symmetric 0/1 matrix from below and above, by power iteration.

    For any vector x > 0 the norm of a non-negative symmetric A lies between x'Ax / x'x and max_i (Ax)_i /
    x_i; with x = 1 the latter is the largest number of errors in a row.
    """
    if pattern.nnz == 0:
        return 0.0, 0.0
    vector: Floats = np.ones(pattern.shape[0])
    low, high = 0.0, np.inf
    for _ in range(POWER_STEPS):
        product: Floats = pattern @ vector
        low = max(low, float(vector @ product) / float(vector @ vector))
        high = min(high, float((product / vector).max()))
        # Half of the vector stays, so that it is positive in the next round too.
        vector = product + vector * (low / 2)
        vector /= vector.max()
        vector = np.maximum(vector, 1e-100)
    return min(low, high), high


def theorem_interval(xi: float, mu: float, k: int) -> tuple[float | None, float | None]:
    """Give the interval for lambda of condition 2; (None, None) if it is empty.

    With z = mu xi it is not empty if and only if 1 - (7k + 9) z + (10k^2 + 21k + 8) z^2 > 0. (The paper has
    5(k + 1) in place of 7k + 9, and concludes that condition 1 suffices. It does not: at z = 1/(4k + 5) the
    upper end is 0.)
    """
    z = mu * xi
    low = (xi - (2 * k - 1) * mu * xi**2) / (1 - 2 * (k + 1) * z)
    if mu == 0:
        return low, None
    high = (1 - (4 * k + 5) * z) / ((k + 2) * mu)
    return (low, high) if low < high else (None, None)
