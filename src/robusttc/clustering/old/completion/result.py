"""What a solver returns, and what completion returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from robusttc.clustering.old.completion.problem import Floats

__all__ = ["CompletionResult", "LambdaWindow", "Solution", "Step"]


@dataclass(frozen=True)
class Step:
    """One round of a solver.

    Attributes
    ----------
    objective
        The objective of Eq. 2 at the X of this round.
    gap
        The best certified relative gap so far.
    unscaled_gap
        The relative gap if the dual kept its norm constraint; cheap, and not a proof.
    norm
        The bound on the dual's spectral norm, where this round computed one.
    rank
        The number of eigenvalues of X, or of columns of its factors.
    n_passes
        How many passes of the solver's main loop were taken until now.
    """

    objective: float
    gap: float
    unscaled_gap: float
    norm: float | None
    rank: int
    n_passes: int


@dataclass(frozen=True)
class Solution:
    """An answer of a solver with its proof: X by its eigenvalues and eigenvectors, and the dual Q."""

    eigenvalues: Floats
    eigenvectors: Floats
    Q: Floats
    objective: float
    dual: float
    norm: float
    norm_beyond: float = 0.0  # the norm of Q beyond the range of X, as it was seen
    history: tuple[Step, ...] = ()
    converged: bool = False

    @property
    def gap(self) -> float:
        """The relative gap between the objective and the lower bound; 0 for an objective of 0."""
        if self.objective <= 0:
            return 0.0
        return max(self.objective - self.dual, 0.0) / self.objective

    def joined(self, other: Solution | None) -> Solution:
        """Take the X of the one with the lower objective, and the proof of the one that proves more.

        Any X and any dual go together; those of one round need not be the best of both.
        """
        if other is None:
            return self
        lower = self if self.objective <= other.objective else other
        proof = self if self.dual >= other.dual else other
        return replace(
            proof,
            eigenvalues=lower.eigenvalues,
            eigenvectors=lower.eigenvectors,
            objective=lower.objective,
        )

    def finished(self, history: tuple[Step, ...], tol: float) -> Solution:
        """Give the same answer with the way that led to it."""
        return replace(self, history=history, converged=self.gap <= tol)


@dataclass(frozen=True)
class LambdaWindow:
    """The values of lambda with which clusters can be recovered and proven.

    Attributes
    ----------
    low
        Below this, the smallest cluster's agreeing entries cannot carry it, and it vanishes from X.
    high
        Above this, noise enters X.
    high_is_measured
        Whether `high` was read off the dual of a solve, or predicted from the rate of wrong entries.
    flip_rate
        The estimated rate of wrong entries.
    smallest_cluster
        The size of the smallest cluster of the first clustering.
    """

    low: float
    high: float
    high_is_measured: bool
    flip_rate: float
    smallest_cluster: int

    @property
    def is_empty(self) -> bool:
        """Whether no lambda will do."""
        return not self.low < self.high


@dataclass(frozen=True)
class CompletionResult:
    """A completed similarity matrix, with the proof of how good it is.

    Attributes
    ----------
    eigenvectors, eigenvalues
        X as factors: ``eigenvectors @ diag(eigenvalues) @ eigenvectors.T``; `dense` multiplies them out.
    E
        The errors Y - X on the observed entries whose multiplier is at its bound; sparse. Elsewhere the
        optimum has no error, and what X still lacks there is part of the gap.
    lam
        The weight of the errors that was used.
    weights
        The factors of `lam` for errors on ones and on zeros.
    objective
        ||X||_* plus the weighted errors.
    gap
        The relative duality gap: the objective is at most this much above the optimum, certified by `dual`.
    dual
        The sparse Q of the proof, scaled so that it keeps its constraints: |Q_ij| <= weight_ij, ||Q||_2 <= 1.
        ``(objective - <dual, Y>) / objective`` is `gap`.
    dual_norm
        The bound on the spectral norm of the dual before it was scaled.
    converged
        Whether `gap` reached the tolerance.
    method
        ``dense``, ``factored`` or ``spectral`` (no lambda would do, and X is that of the spectral
        clustering).
    window
        The lambda window, where a first clustering was made.
    history
        The rounds of the solver.
    message
        What to know about this answer, in a sentence.
    """

    eigenvectors: Floats
    eigenvalues: Floats
    E: sparse.csr_array
    lam: float
    weights: tuple[float, float]
    objective: float
    gap: float
    dual: sparse.csr_array
    dual_norm: float
    converged: bool
    method: str
    window: LambdaWindow | None
    history: tuple[Step, ...] = field(repr=False)
    message: str = ""

    @property
    def n(self) -> int:
        """The number of tasks."""
        return int(self.eigenvectors.shape[0])

    @property
    def rank(self) -> int:
        """The rank of X."""
        return len(self.eigenvalues)

    @property
    def n_iter(self) -> int:
        """How many rounds the solver took."""
        return len(self.history)

    def dense(self) -> Floats:
        """Multiply X out: an n x n array."""
        X = (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T
        return np.asarray((X + X.T) / 2)
