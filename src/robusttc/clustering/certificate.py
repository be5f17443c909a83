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

from robusttc.clustering.problem import Floats

__all__ = ["Spectrum", "bound_largest"]

# The Lanczos bound fails for one in ten thousand million random starts.
FAILURE_PROBABILITY = 1e-10
MAX_DENSE = 300  # up to here a full eigendecomposition is cheaper than Lanczos
MAX_CHOLESKY = 3_000
CHECK_EVERY = 20  # Lanczos steps
ROUGH_STEPS = 40
MAX_STEPS = 400
MAX_RESTARTS = 2
NEAR = 0.97  # eigenvalues above this share of the limit are returned with their vectors


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The upper end of a symmetric matrix's spectrum.

    `upper` bounds the largest eigenvalue: proven, unless only an estimate was asked for. `values` and
    `vectors` are roughly the largest eigenvalues on the complement of the given basis, largest first: those
    above the limit belong to directions that the basis lacks.
    """

    upper: float
    values: Floats
    vectors: Floats


def bound_largest(
    matrix: sparse.csr_array,
    limit: float,
    basis: Floats,
    *,
    slack: float,
    generator: np.random.Generator,
    estimate: bool = False,
) -> Spectrum:
    """Bound the largest eigenvalue of a sparse symmetric matrix from above.

    A bound below `limit` is as good as the limit itself; above it, the bound may exceed the eigenvalue by a
    share of `slack`. `basis` has orthonormal columns that should hold the eigenvectors at the limit, but any
    basis gives a valid bound. With `estimate` a few Lanczos steps are enough, and nothing is proven.
    """
    n = matrix.shape[0]
    if not np.any(matrix.data):
        return Spectrum(0.0, np.zeros(0), np.zeros((n, 0)))
    if n <= MAX_DENSE or basis.shape[1] >= n - 1:
        return decompose(matrix, basis)
    found = run_lanczos(matrix, limit, basis, slack, generator, estimate)
    for _ in range(MAX_RESTARTS):
        is_missing = bool(np.any(found.values > limit * (1 + slack)))
        is_proven = found.upper <= limit * (1 + slack)
        if estimate or is_proven or is_missing or not len(found.values) or n <= MAX_CHOLESKY:
            break
        # What is near the limit belongs into the basis: the rest is then well below it.
        basis = np.linalg.qr(np.hstack([basis, found.vectors]))[0]
        found = run_lanczos(matrix, limit, basis, slack, generator, estimate)
    if estimate or is_proven or n > MAX_CHOLESKY:
        return found
    basis = np.linalg.qr(np.hstack([basis, found.vectors]))[0]
    wanted = float(np.linalg.eigvalsh(basis.T @ (matrix @ basis)).max(initial=limit)) * (1 + slack)
    is_smaller = wanted < found.upper and is_below(matrix, wanted)
    return Spectrum(wanted, found.values, found.vectors) if is_smaller else found


def decompose(matrix: sparse.csr_array, basis: Floats) -> Spectrum:
    """Return the exact spectrum, and that of the complement of a basis."""
    whole = matrix.toarray()
    sizes = np.linalg.eigvalsh(whole)
    rounding = 1e-13 * float(np.abs(sizes).max(initial=0.0))
    outside = whole - basis @ (basis.T @ whole)
    outside -= (outside @ basis) @ basis.T
    values, vectors = np.linalg.eigh((outside + outside.T) / 2)
    return Spectrum(float(sizes[-1]) + rounding, values[::-1], vectors[:, ::-1])


def is_below(matrix: sparse.csr_array, limit: float) -> bool:
    """Return whether the largest eigenvalue is below a limit: limit I - matrix has a Cholesky factor."""
    shifted = -matrix.toarray()
    shifted[np.diag_indices(len(shifted))] += limit
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


def run_lanczos(
    matrix: sparse.csr_array,
    limit: float,
    basis: Floats,
    slack: float,
    generator: np.random.Generator,
    estimate: bool,
) -> Spectrum:
    """Bound the largest eigenvalue by Lanczos steps on the complement of a basis.

    With Ritz values a_i on the basis, b_i the norms of their residuals and c the largest eigenvalue on the
    complement, lambda_max is at most that of the arrow matrix of a_i and c on the diagonal and b_i beside c.
    Only c needs Lanczos: after m steps from a random start it is short of the truth by at most eps times the
    spread of the spectrum, but for a probability of 1.648 sqrt(n) exp(-sqrt(eps) (2m - 1)) (SIAM Journal on
    Matrix Analysis and Applications 13, 1992, page 1094).
    """
    n, rank = basis.shape
    product = matrix @ basis
    ritz, rotation = np.linalg.eigh(basis.T @ product)
    arrow = np.diag(np.append(ritz, 0.0))
    arrow[-1, :-1] = arrow[:-1, -1] = np.linalg.norm(product @ rotation - basis @ (rotation * ritz), axis=0)

    def joined(c: float) -> float:
        if not np.isfinite(c):
            return np.inf
        arrow[-1, -1] = c
        return float(np.linalg.eigvalsh(arrow)[-1]) * (1 + 1e-12)

    max_steps = min(ROUGH_STEPS if estimate else MAX_STEPS, n - rank)
    vectors = np.empty((max_steps, n))
    diagonal, beside = np.empty(max_steps), np.empty(max_steps)
    vector = project(generator.standard_normal((n,)), basis)
    vectors[0] = vector / np.linalg.norm(vector)
    for step in range(max_steps):
        product = project(matrix @ vectors[step], basis)
        diagonal[step] = vectors[step] @ product
        seen = vectors[: step + 1]
        product -= diagonal[step] * vectors[step]
        product -= seen.T @ (seen @ product)
        beside[step] = np.linalg.norm(product)
        is_closed = beside[step] < 1e-13 * abs(limit)
        is_last = is_closed or step == max_steps - 1
        if is_last or step % CHECK_EVERY == CHECK_EVERY - 1:
            values, combined = eigh_tridiagonal(diagonal[: step + 1], beside[:step])
            eps = 0.0 if is_closed else lanczos_error(n - rank, step + 1)
            # The spread is itself seen short at both ends by the same share.
            c = values[-1] + eps * (values[-1] - values[0]) / (1 - 2 * eps) if eps < 0.5 else np.inf
            upper = joined(float(values[-1] if estimate else c))
            # Directions above the limit are enough once they are roughly known: the next round proves.
            residual = beside[step] * abs(combined[-1, -1])
            is_found = values[-1] - limit > 10 * max(residual, slack * limit)
            is_proven = upper <= limit * (1 + slack)
            # No more steps can prove it if what is known already, or is so near, is too much.
            is_stuck = eps < 0.05 and joined(max(values[-1], NEAR * limit)) > limit * (1 + slack)
            if is_last or (not estimate and (is_proven or is_found or is_stuck)):
                break
        vectors[step + 1] = product / beside[step]
    leading = combined[:, values > NEAR * limit][:, ::-1]
    kept = np.asarray(values[::-1][: leading.shape[1]], dtype=np.float64)
    return Spectrum(upper, kept, vectors[: len(values)].T @ leading)


def lanczos_error(dimension: int, n_steps: int) -> float:
    """Return the largest relative error after some steps, but for the failure probability."""
    return float((np.log(1.648 * np.sqrt(dimension) / FAILURE_PROBABILITY) / (2 * n_steps - 1)) ** 2)


def project(vector: Floats, basis: Floats) -> Floats:
    """Return the part of a vector that is orthogonal to the basis."""
    return vector - basis @ (basis.T @ vector)
