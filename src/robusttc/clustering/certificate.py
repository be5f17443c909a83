"""Proven bounds on the ends of a spectrum, from which the duality gap of a completion follows.

The dual of the program (`robusttc.clustering.problem`), over G on the measured entries with |G| <= w delta::

    maximise  <G, W> - sum G^2 / (2 w) - ||G 1||^2 / (2 rho_a) - ||G' 1||^2 / (2 rho_b)
    subject to  lambda_max(sym G) <= tau,  lambda_max(-sym G) <= tau_n,  ||skew G||_2 <= tau_k

(for the absolute loss <G, W> alone with |G| <= w). Any feasible G bounds the optimum from below; a G that
violates a spectral constraint is scaled down, so all that has to be proven is a bound on an eigenvalue. A
Lanczos value is a lower bound, so it is either raised by a bound on its error or checked by Cholesky.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackError, eigsh

from robusttc.clustering.problem import Floats

__all__ = ["Spectrum", "bound_largest", "exact_largest"]

# The Lanczos bound fails for one in ten thousand million random starts.
FAILURE_PROBABILITY = 1e-10
MAX_DENSE = 300  # up to here a full eigendecomposition is cheaper than Lanczos
MAX_CHOLESKY = 3_000


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The upper end of a symmetric matrix's spectrum: a proven bound, and the largest eigenpairs found."""

    upper: float
    values: Floats
    vectors: Floats


def exact_largest(matrix: sparse.csr_array) -> float:
    """Return the largest eigenvalue by a dense solver: the independent check of `bound_largest`."""
    return float(np.linalg.eigvalsh(matrix.toarray())[-1])


def bound_largest(
    matrix: sparse.csr_array, limit: float, *, n_pairs: int, slack: float, generator: np.random.Generator
) -> Spectrum:
    """Bound the largest eigenvalue of a sparse symmetric matrix from above.

    Parameters
    ----------
    matrix
        The sparse symmetric matrix.
    limit
        The eigenvalue that matters: a bound below it is as good as the limit itself.
    n_pairs
        How many of the largest eigenpairs to look for; those above the limit are missing directions.
    slack
        The relative excess over the largest eigenvalue that the bound may have.
    generator
        Draws the random starts.
    """
    n = matrix.shape[0]
    if not np.any(matrix.data):
        return Spectrum(0.0, np.zeros(1), np.zeros((n, 1)))
    n_pairs = min(n_pairs, n - 1)
    if n <= MAX_DENSE or n_pairs < 1:
        values, vectors = np.linalg.eigh(matrix.toarray())
        rounding = 1e-13 * float(np.abs(values).max(initial=0.0))
        return Spectrum(float(values[-1]) + rounding, values[::-1], vectors[:, ::-1])
    start = generator.standard_normal(n)
    try:
        values, vectors = eigsh(
            matrix, k=n_pairs, which="LA", tol=1e-7, v0=start, ncv=min(n, 2 * n_pairs + 20)
        )
    except ArpackError:  # many eigenvalues at one place: a few of them, roughly, will do
        values, vectors = eigsh(matrix, k=min(n_pairs, 8), which="LA", tol=1e-4, ncv=min(n, 80))
    order = np.argsort(-values)
    values, vectors = values[order], vectors[:, order]
    wanted = max(limit, float(values[0])) * (1 + slack)
    if n <= MAX_CHOLESKY:
        upper = wanted if is_below(matrix, wanted) else np.inf
    else:
        upper = lanczos_bound(matrix, np.linalg.qr(vectors)[0], wanted, generator)
    return Spectrum(upper, values, vectors)


def is_below(matrix: sparse.csr_array, limit: float) -> bool:
    """Return whether the largest eigenvalue is below a limit: limit I - matrix has a Cholesky factor."""
    shifted = -matrix.toarray()
    shifted[np.diag_indices(len(shifted))] += limit
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


def lanczos_bound(
    matrix: sparse.csr_array,
    basis: Floats,
    wanted: float,
    generator: np.random.Generator,
    *,
    max_steps: int = 400,
) -> float:
    """Bound the largest eigenvalue with the help of a subspace that holds the leading eigenvectors.

    With A the part on the subspace, C that on its complement and B the coupling,
    lambda_max <= (a + c)/2 + sqrt(((a - c)/2)^2 + ||B||^2), a and c the largest eigenvalues of A and C. Only
    c needs Lanczos: after m steps from a random start it is short of the truth by at most eps times the
    spread of the spectrum, but for a probability of 1.648 sqrt(n) exp(-sqrt(eps) (2m - 1)) (SIAM Journal on
    Matrix Analysis and Applications 13, 1992, page 1094).
    """
    product = matrix @ basis
    inner = basis.T @ product
    coupling = product - basis @ inner
    a = float(np.linalg.eigvalsh((inner + inner.T) / 2)[-1])
    b_squared = float(np.linalg.eigvalsh(coupling.T @ coupling)[-1])

    def joined(c: float) -> float:
        return ((a + c) / 2 + float(np.sqrt(((a - c) / 2) ** 2 + b_squared))) * (1 + 1e-12)

    n = matrix.shape[0]
    dimension = n - basis.shape[1]
    vectors = np.empty((max_steps, n))
    diagonal, beside = np.empty(max_steps), np.empty(max_steps)
    vector = project(generator.standard_normal(n), basis)
    vector /= np.linalg.norm(vector)
    upper = np.inf
    for step in range(max_steps):
        vectors[step] = vector
        product = project(matrix @ vector, basis)
        diagonal[step] = vector @ product
        seen = vectors[: step + 1]
        for _ in range(2):  # once leaves rounding errors that grow
            product -= seen.T @ (seen @ product)
        beside[step] = np.linalg.norm(product)
        if step % 20 == 19 or step == max_steps - 1:
            ritz = eigh_tridiagonal(diagonal[: step + 1], beside[:step], eigvals_only=True)
            eps = (np.log(1.648 * np.sqrt(dimension) / FAILURE_PROBABILITY) / (2 * step + 1)) ** 2
            if eps < 0.5:
                # The spread is itself seen short at both ends by the same share.
                upper = joined(float(ritz[-1] + eps * (ritz[-1] - ritz[0]) / (1 - 2 * eps)))
                if upper <= wanted:
                    break
        if beside[step] < 1e-14 * abs(a):  # the Krylov space of a random start closed: it has seen everything
            ritz = eigh_tridiagonal(diagonal[: step + 1], beside[:step], eigvals_only=True)
            return joined(float(ritz[-1]))
        vector = product / beside[step]
    return upper


def project(vector: Floats, basis: Floats) -> Floats:
    """Return the part of a vector that is orthogonal to the basis."""
    return vector - basis @ (basis.T @ vector)
