"""The proof of how good an answer is: the dual value, and a safe bound on a spectral norm.

The dual of Eq. 2 is  maximise <Q, Y>  over symmetric Q on the observed entries with |Q_ij| <= weight_ij and
||Q||_2 <= 1.  Any such Q bounds the optimum from below, so the gap between an objective value and <Q, Y>
bounds how far that value is from the best. A Q that breaks a constraint is scaled down until it keeps it. Q
is sparse, so anyone can check the proof: see `exact_norm`.

The norm is bounded by Lanczos, which is cheap as long as Q is well below 1 beyond the range of X. Where it is
not, two Cholesky factorisations of dense matrices prove the same, up to as many tasks as they are affordable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from robusttc.clustering.old.completion.problem import Floats, Problem

__all__ = [
    "MAX_EXACT_TASKS",
    "NormBound",
    "bound_norm",
    "dual_scale",
    "dual_value",
    "exact_norm",
    "is_norm_below",
]

# The bound holds for all but one in ten thousand million random starts of Lanczos.
FAILURE_PROBABILITY = 1e-10
STEPS_A_CHECK = 20
MAX_EXACT_TASKS = 6_000


@dataclass(frozen=True)
class NormBound:
    """What is known of a spectral norm.

    Attributes
    ----------
    upper
        The norm is at most this, but for twice `FAILURE_PROBABILITY`.
    estimate
        The norm is at least this.
    beyond
        The part of `estimate` that was seen beyond the given subspace.
    rising, falling
        Vectors beyond the given subspace along which the matrix exceeds 1, and -1: n x m each.
    """

    upper: float
    estimate: float
    beyond: float
    rising: Floats
    falling: Floats


def dual_scale(problem: Problem, lam: float, Q: Floats, norm: float) -> float:
    """Give what Q must be divided by to keep its constraints, given a bound on its spectral norm."""
    return max(1.0, norm, float(np.max(np.abs(Q) / (lam * problem.factor), initial=0.0)))


def dual_value(problem: Problem, lam: float, Q: Floats, norm: float) -> float:
    """Give the lower bound on the optimum that Q proves, given a bound on its spectral norm."""
    return float(Q @ problem.Y) / dual_scale(problem, lam, Q, norm)


def exact_norm(Q: sparse.csr_array) -> float:
    """Give the spectral norm of a sparse symmetric matrix by a dense eigenvalue solver (moderate n only)."""
    return float(np.abs(np.linalg.eigvalsh(Q.toarray())).max())


def is_norm_below(Q: sparse.csr_array, limit: float) -> bool:
    """Say whether ||Q||_2 is below a limit: whether limit I - Q and limit I + Q have Cholesky factors."""
    matrix = Q.toarray()
    diagonal = np.diag_indices(len(matrix))
    for sign in (1.0, -1.0):
        shifted = -sign * matrix
        shifted[diagonal] += limit
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            return False
    return True


def bound_norm(
    Q: sparse.csr_array,
    basis: Floats,
    generator: np.random.Generator,
    *,
    good_enough: float = 1.0,
    max_steps: int = 600,
) -> NormBound:
    """Bound ||Q||_2 from above, with the help of a subspace in which Q is known to be large.

    Near the optimum Q has the eigenvalue 1 many times, on the range of X, and plain Lanczos would take for
    ever to separate them. So Q is split into its part A on the subspace, its part C on the complement and the
    coupling B between them. Then  lambda_max(Q) <= (a + c)/2 + sqrt(((a - c)/2)^2 + ||B||^2)  with a and c
    the largest eigenvalues of A and C, and only c, which is well below 1, needs Lanczos. A Lanczos value is a
    lower estimate; after m steps from a random start it is short of the truth by at most eps times the spread
    of the spectrum, but for a probability of 1.648 sqrt(n) exp(-sqrt(eps) (2m - 1))  (SIAM Journal
    on Matrix Analysis and Applications 13, 1992, page 1094), and it is inflated by that.

    Parameters
    ----------
    Q
        The sparse symmetric matrix.
    basis
        n x r with orthonormal columns; r may be 0.
    generator
        Where the random start comes from.
    good_enough
        Lanczos stops when the bound on the complement is at most this.
    max_steps
        Lanczos stops after so many products with Q at the latest.
    """
    product = Q @ basis
    inner = basis.T @ product
    coupling = product - basis @ inner
    inner_values = np.linalg.eigvalsh((inner + inner.T) / 2) if basis.shape[1] else np.zeros(1)
    b_squared = float(np.linalg.eigvalsh(coupling.T @ coupling)[-1]) if basis.shape[1] else 0.0
    outer = lanczos(Q, basis, generator, good_enough, max_steps)

    highest = join(float(inner_values[-1]), outer.high, b_squared)
    lowest = join(-float(inner_values[0]), -outer.low, b_squared)
    seen = max(
        abs(float(inner_values[-1])), abs(float(inner_values[0])), abs(outer.seen_high), abs(outer.seen_low)
    )
    # Rounding in the sums above is far below this.
    upper = max(highest, lowest) * (1 + 1e-12)
    beyond = max(outer.seen_high, -outer.seen_low)
    return NormBound(upper, seen, beyond, outer.rising, outer.falling)


def join(a: float, c: float, b_squared: float) -> float:
    """Bound the largest eigenvalue of a symmetric 2 x 2 block matrix by those of its parts."""
    return (a + c) / 2 + float(np.sqrt(((a - c) / 2) ** 2 + max(b_squared, 0.0)))


@dataclass(frozen=True)
class Extremes:
    """Both ends of a spectrum: what was seen, and bounds that hold but for `FAILURE_PROBABILITY`."""

    seen_high: float
    seen_low: float
    high: float
    low: float
    rising: Floats
    falling: Floats


def lanczos(
    Q: sparse.csr_array, basis: Floats, generator: np.random.Generator, good_enough: float, max_steps: int
) -> Extremes:
    """Find both ends of the spectrum of Q on the complement of the basis, with full orthogonalisation."""
    n, r = basis.shape
    dimension = n - r
    if dimension <= 0:
        return Extremes(0.0, 0.0, 0.0, 0.0, np.zeros((n, 0)), np.zeros((n, 0)))
    steps = min(max_steps, dimension)
    vectors = np.empty((steps, n))
    diagonal, beside = np.empty(steps), np.empty(steps)
    vector = project(generator.standard_normal(size=(n,)), basis)
    vector /= np.linalg.norm(vector)
    done = 0
    exhausted = False
    while True:
        vectors[done] = vector
        product = project(np.atleast_1d(Q @ vector), basis)
        diagonal[done] = vector @ product
        done += 1
        # Twice, since once leaves rounding errors that grow.
        for _ in range(2):
            product -= vectors[:done].T @ (vectors[:done] @ product)
        beside[done - 1] = np.linalg.norm(product)
        exhausted = done == steps == dimension or beside[done - 1] < 1e-12
        if exhausted or done == steps or done % STEPS_A_CHECK == 0:
            values, small = tridiagonal_eigen(diagonal[:done], beside[: done - 1])
            # A Krylov space that closed early holds the whole truth about its start, which was random.
            slack = 0.0 if exhausted else lanczos_slack(done, dimension, values[-1] - values[0])
            if exhausted or done == steps or (values[-1] + slack <= good_enough >= slack - values[0]):
                break
        vector = project(product / beside[done - 1], basis)
    rising = vectors[:done].T @ small[:, values > 1]
    falling = vectors[:done].T @ small[:, values < -1]
    return Extremes(
        float(values[-1]),
        float(values[0]),
        float(values[-1] + slack),
        float(values[0] - slack),
        rising,
        falling,
    )


def project(vector: Floats, basis: Floats) -> Floats:
    """Take the part of a vector that is orthogonal to the basis."""
    return vector - basis @ (basis.T @ vector)


def tridiagonal_eigen(diagonal: Floats, beside: Floats) -> tuple[Floats, Floats]:
    """Give eigenvalues, ascending, and eigenvectors of a symmetric tridiagonal matrix."""
    from scipy.linalg import eigh_tridiagonal

    if len(diagonal) == 1:
        return diagonal.copy(), np.ones((1, 1))
    values, vectors = eigh_tridiagonal(diagonal, beside)
    return np.asarray(values, dtype=np.float64), np.asarray(vectors, dtype=np.float64)


def lanczos_slack(steps: int, dimension: int, spread: float) -> float:
    """Give how far, at most, the ends of a spectrum lie beyond what Lanczos has seen of them."""
    root = np.log(1.648 * np.sqrt(dimension) / FAILURE_PROBABILITY) / (2 * steps - 1)
    share = float(root**2)
    if share >= 0.5:
        return float("inf")
    # The spread is itself seen short at both ends, by the same share.
    return share * spread / (1 - 2 * share)
