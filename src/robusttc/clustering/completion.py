"""Completion of transfer scores: regularisation by cross-validation over pairs, then one certified solve.

The program is in `robusttc.clustering.problem`, its solvers in `robusttc.clustering.solvers`. Folds hold out
unordered pairs (both directions together), and every fold is standardised anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from robusttc.clustering.problem import (
    Factors,
    Floats,
    Numbers,
    Penalties,
    Problem,
    make_problem,
    number_pairs,
)
from robusttc.clustering.solvers import Solution, residuals, solve_smooth
from robusttc.clustering.spectral import MAX_DIRECTIONS, find_directions
from robusttc.clustering.standardise import Standardised, standardise
from robusttc.transfer import TransferScores

__all__ = ["Completion", "Fold", "Setting", "complete_scores", "fit_parts"]

# In units of the square root of the mean number of scores of a task.
TAUS = (1.7, 1.25, 0.9, 0.62, 0.43, 0.3, 0.2, 0.14)
REST_RATIOS = (1.3, 2.0)
ROW_PENALTIES = (1.5, 15.0)
FEATURE_SHARES = (0.3, 0.6)
DEBIASING = (0.0, 0.5, 1.0)
COLUMN_PENALTY = 10.0
FIRST_COLUMN_PENALTY = 2.5  # of the completion that the standardisation is adjusted by
LEAST_VARIANCE = 0.2  # of a standardised score around what that completion expects
ROUGH, ROUGH_ROUNDS = 3e-3, 5  # the gap that is enough to compare settings, and the rounds it may take
WORSE = 1.03  # a held-out loss so many times the lowest ends the path of debiased fits
WORSE_OF_MANY = 1.003  # with one fold, which has many pairs, losses are that exact
GAIN = 0.999  # a change of a setting has to lower the held-out loss to this share
CLEARLY = 5.0  # standard errors by which debiasing has to lower it
MAX_HELD_OUT = 100_000  # pairs of the only fold, or part
MAX_FEATURES = 48
N_PARTS = 3  # of the pairs, each of which judges the clusters of the others
ENOUGH_PAIRS = 200_000  # from here on one part of at most `MAX_HELD_OUT` judges


@dataclass(frozen=True)
class Setting:
    """What cross-validation chooses."""

    tau: float  # the penalty of X, in units of the square root of the mean number of scores of a task
    rest: float = np.inf  # the penalty of the asymmetric rest as a multiple of tau; infinity: there is none
    row: float = 5.0  # the ridge penalty of the row effects
    weighted: bool = False  # whether scores with a smaller standard error count more
    features: float = 0.0  # the share of task features in what is expected before any score: omega
    debias: float = 0.0  # how much of the shrinkage by the nuclear norms is undone in predictions, 0 to 1

    def penalties(self, problem: Problem, delta: float) -> Penalties:
        """Return the penalties of the program for a problem."""
        tau = self.tau * float(np.sqrt(problem.degree))
        return Penalties(tau, self.rest * tau, self.rest * tau, self.row, COLUMN_PENALTY, delta)

    def predictor(self, problem: Problem, factors: Factors, delta: float) -> Factors:
        """Return the factors of the tasks that predict: those of the optimum, debiased.

        A penalty t on a nuclear norm makes every size of a direction smaller by t n / d, with d scores a task
        (exactly so where all pairs are measured); `debias` of it is added to the directions that are left.
        """
        if self.debias > 0:
            pay, reach = self.penalties(problem, delta), self.debias * problem.n / problem.degree
            skew = stretch(factors.P, 0.5 * reach * pay.skew)
            factors = replace(
                factors,
                U=factors.U * stretch(factors.U, reach * pay.positive),
                V=factors.V * stretch(factors.V, reach * pay.negative),
                P=factors.P * skew,
                Q=factors.Q * skew,
            )
        return factors.expanded(problem)


# Near enough to the optimum to compare settings.
solve_roughly = partial(solve_smooth, tol=ROUGH, max_rounds=ROUGH_ROUNDS, certify=False)
FIRST = Setting(1.1)  # the completion that the standardisation is adjusted by
CLUSTERING = Setting(0.25, row=15.0)  # the completion whose leading directions are clustered


def stretch(part: Floats, added: float) -> Floats:
    """Return what to multiply orthogonal columns by, so that `added` is added to their squared lengths."""
    squares = np.sum(part**2, axis=0)
    return np.asarray(np.sqrt((squares + added) / np.maximum(squares, 1e-300)))


@dataclass(eq=False)
class Fold:
    """Scores without some pairs, the held-out ones, and what is fitted without them."""

    data: Standardised
    held_rows: Numbers
    held_columns: Numbers
    held_values: Floats
    factors: Factors = field(init=False)
    directions: Floats = field(init=False)

    def residuals(self) -> Floats:
        """Return the held-out scores less what the factors predict."""
        return np.asarray(self.held_values - self.factors.predict(self.held_rows, self.held_columns))

    def errors(self, delta: float) -> Floats:
        """Return the Huber loss of each held-out score."""
        left = self.residuals()
        clipped = np.clip(left, -delta, delta)
        return np.asarray(clipped * (left - 0.5 * clipped))


@dataclass(frozen=True, eq=False)
class Completion:
    """A certified completion of transfer scores."""

    data: Standardised
    problem: Problem
    solution: Solution
    setting: Setting
    errors: dict[Setting, float]  # the mean held-out loss of each setting that was tried
    directions: Floats  # in which tasks are clustered: see `cluster_directions`
    folds: list[Fold]  # with the factors and directions of the chosen setting
    delta: float
    basis: Floats | None  # the leading components of the task features

    @property
    def factors(self) -> Factors:
        """The factors of the tasks that predict: see `Setting.predictor`."""
        return self.setting.predictor(self.problem, self.solution.factors, self.delta)

    @property
    def residuals(self) -> Floats:
        """What the optimum leaves of the standardised scores, in the order of the problem's entries."""
        return residuals(self.problem, self.solution.factors)

    @property
    def explained(self) -> float:
        """The share of the variance of held-out scores that is predicted; NaN without folds."""
        if not self.folds:
            return float("nan")
        left = np.concatenate([fold.residuals() for fold in self.folds])
        held = np.concatenate([fold.held_values for fold in self.folds])
        return 1.0 - float(np.mean(left**2)) / max(float(np.var(held)), 1e-12)


def complete_scores(
    scores: TransferScores,
    *,
    method: str = "auto",
    features: Floats | None = None,
    delta: float = 1.0,
    tol: float = 1e-5,
    setting: Setting | None = None,
    seed: int = 0,
) -> Completion:
    """Choose the regularisation by cross-validation, and complete the scores.

    Parameters
    ----------
    scores
        The transfer scores.
    method
        See `standardise`.
    features
        n x m features of the tasks, or None.
    delta
        The Huber threshold, in standard deviations of the scores of a target; infinity: squared loss.
    tol
        The relative duality gap to reach.
    setting
        The setting, if it is not to be chosen.
    seed
        The seed of the folds.
    """
    data = standardise_whole(scores, method)
    basis = None if features is None else leading_features(features)
    errors: dict[Setting, float] = {}
    folds: list[Fold] = []
    if setting is None:
        folds = [fold for fold in make_folds(scores, data, seed) if len(fold.held_values)]
        setting = Setting(0.6)
        if folds:
            setting, errors = choose_setting(folds, basis, delta)
    problem = problem_of(data, basis, setting)
    solution = solve_smooth(problem, setting.penalties(problem, delta), tol=tol, seed=seed)
    directions = cluster_directions(problem, setting, solution.factors, delta)
    return Completion(data, problem, solution, setting, errors, directions, folds, delta, basis)


def standardise_whole(scores: TransferScores, method: str, places: Numbers | None = None) -> Standardised:
    """Standardise by what the scores of a target over all sources are expected to be, measured or not."""
    data = standardise(scores, method=method, places=places)
    if data.method != "standard" or not len(data.values):
        return data
    found = complete_first(data)
    # Mean and variance of X_ij + a_i over the sources i other than j.
    others = data.n - 1
    left, right = np.column_stack([found.U, found.a]), np.column_stack([found.U, np.ones(data.n)])
    own = np.einsum("ij,ij->i", left, right)
    mean = (right @ left.sum(axis=0) - own) / others
    square = (np.einsum("ij,ij->i", right @ (left.T @ left), right) - own**2) / others
    expected = np.einsum("ij,ij->i", left[data.rows], right[data.columns]) - mean[data.columns]
    # What is expected is shrunk; a target whose values go with it as those of all do keeps its scale.
    share = float(data.values @ expected) / max(float(expected @ expected), 1e-12)
    variance = np.maximum(1.0 - share * (square - mean**2), LEAST_VARIANCE)
    return data.adjusted(scores, expected, variance)


def complete_first(data: Standardised) -> Factors:
    """Return the factors of the completion that the standardisation is adjusted by."""
    problem = problem_of(data, None, FIRST)
    penalties = replace(FIRST.penalties(problem, 1.0), column=FIRST_COLUMN_PENALTY)
    return solve_roughly(problem, penalties).factors


def cluster_directions(problem: Problem, setting: Setting, coordinates: Factors, delta: float) -> Floats:
    """Return the directions of X in which tasks are clustered, longest first.

    Where debiasing is chosen, groups stand out and X has hardly more directions than groups. Else the penalty
    that predicts best is a compromise with noise, which may leave fewer directions than there are groups: X
    is taken at a lower penalty, of which the leading directions are used alone.
    """
    if setting.debias > 0:
        return find_directions(problem.expand(coordinates.U))
    penalties = replace(CLUSTERING, features=setting.features).penalties(problem, delta)
    found = solve_roughly(problem, penalties, max_rank=MAX_DIRECTIONS).factors
    return find_directions(problem.expand(found.U))


def problem_of(data: Standardised, features: Floats | None, setting: Setting) -> Problem:
    """Return the program of standardised scores."""
    basis, share = None, setting.features
    if features is not None and share > 0:
        identity = sparse.eye_array(data.n) * np.sqrt(1 - share)
        basis = sparse.csr_array(sparse.hstack([identity, np.sqrt(share) * sparse.csr_array(features)]))
    weights = data.weights if setting.weighted else None
    return make_problem(data.n, data.rows, data.columns, data.values, weights, basis)


def leading_features(features: Floats) -> Floats:
    """Return the principal components of task features, of mean squared length 1."""
    centred = features - features.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = left[:, :MAX_FEATURES] * sizes[:MAX_FEATURES]
    return np.asarray(points / max(float(np.sqrt(np.mean(np.sum(points**2, axis=1)))), 1e-12))


def count_folds(n_pairs: int) -> int:
    """Return how many folds so many pairs are worth: few pairs cannot spare many, many need no averaging."""
    return 10 if n_pairs < 600 else 5 if n_pairs < 5_000 else 3 if n_pairs < 40_000 else 1


def make_folds(
    scores: TransferScores, data: Standardised, seed: int, *, n_folds: int | None = None
) -> list[Fold]:
    """Hold out unordered pairs in turn, and standardise what is left anew."""
    pairs, pair = number_pairs(data.rows, data.columns, data.n)
    if len(pairs) < 10:
        return []
    n_folds = n_folds or count_folds(len(pairs))
    n_shares = n_folds if n_folds > 1 else max(10, len(pairs) // MAX_HELD_OUT)
    fold_of = (np.argsort(np.random.default_rng(seed).permutation(len(pairs))) % n_shares)[pair].astype(
        np.int32
    )
    del pairs, pair  # as large as the scores
    folds = []
    for number in range(n_folds):
        held = fold_of == number
        trained = standardise_whole(scores, data.method, data.places[~held])
        values = trained.apply(data.columns[held], scores.score[data.places[held]])
        known = np.isfinite(values)
        folds.append(Fold(trained, data.rows[held][known], data.columns[held][known], values[known]))
    return folds


def fit_parts(scores: TransferScores, completion: Completion, seed: int) -> list[Fold]:
    """Hold out a third of the pairs in turn, and find the directions of the others as those of the whole."""
    setting, delta = completion.setting, completion.delta
    is_enough = len(completion.data.values) >= 2 * ENOUGH_PAIRS
    parts = make_folds(scores, completion.data, seed + 1, n_folds=1 if is_enough else N_PARTS)
    for part in parts:
        problem = problem_of(part.data, completion.basis, setting)
        found = solve_roughly(problem, setting.penalties(problem, delta)).factors
        part.directions = cluster_directions(problem, setting, found, delta)
    return parts


class Search:
    """Settings compared by the held-out loss of the same folds."""

    def __init__(self, folds: list[Fold], features: Floats | None, delta: float) -> None:
        self.folds = folds
        self.features = features
        self.delta = delta
        self.errors: dict[Setting, float] = {}
        self.worse = WORSE_OF_MANY if len(folds) == 1 else WORSE
        self._losses: dict[Setting, Floats] = {}
        self._fits: dict[Setting, list[Factors]] = {}
        self._problems: dict[tuple[bool, float], list[Problem]] = {}

    def problems(self, setting: Setting) -> list[Problem]:
        """Return the programs of the folds."""
        key = setting.weighted, setting.features
        if key not in self._problems:
            self._problems[key] = [problem_of(fold.data, self.features, setting) for fold in self.folds]
        return self._problems[key]

    def attempt(self, setting: Setting, *, start: Setting | None = None) -> bool:
        """Fit all folds, from the factors of another setting if one is named; return whether it may be best.

        Debiasing changes predictions only, so one fit serves all of its values. The lower a penalty, the more
        directions of noise it lets in, and the longer a fit takes. They join a few at a time; where there is
        one fold, which has many pairs, a fit is given up as soon as they are seen to predict worse.
        """
        setting = replace(setting, debias=0.0)
        starts = [None] * len(self.folds) if start is None else self._fits[replace(start, debias=0.0)]

        def give_up(factors: Factors) -> bool:
            return self._is_hopeless(self._held_out_losses(setting, [factors]))

        watch = give_up if start is not None and len(self.folds) == 1 else None
        fits = [
            solve_roughly(problem, setting.penalties(problem, self.delta), start=warm, give_up=watch).factors
            for problem, warm in zip(self.problems(setting), starts, strict=True)
        ]
        losses = self._held_out_losses(setting, fits)
        if self.errors and self._is_hopeless(losses):
            return False
        self._fits[setting] = fits
        for tried, loss in losses.items():
            self.errors[tried], self._losses[tried] = float(loss.mean()), loss
        return True

    def _held_out_losses(self, setting: Setting, fits: list[Factors]) -> dict[Setting, Floats]:
        """Return the loss of each held-out score, for all values of debiasing."""
        found = {}
        for tried in (replace(setting, debias=debias) for debias in DEBIASING):
            losses = []
            for fold, problem, fit in zip(self.folds, self.problems(setting), fits, strict=True):
                fold.factors = tried.predictor(problem, fit, self.delta)
                losses.append(fold.errors(self.delta))
            found[tried] = np.concatenate(losses)
        return found

    def _is_hopeless(self, losses: dict[Setting, Floats]) -> bool:
        """Return whether debiased fits are clearly better than plain ones, but not these of one setting."""
        best = self.lowest(debiased=True)
        plain, *debiased = losses.values()
        plain = min(self._losses[self.lowest(debiased=False)], plain, key=np.mean)
        error = min(float(loss.mean()) for loss in debiased)
        return error > self.worse * self.errors[best] and is_clear(plain - self._losses[best])

    def lowest(self, *, debiased: bool) -> Setting:
        """Return the setting with the lowest held-out loss, with or without debiasing."""
        settings = [setting for setting in self.errors if (setting.debias > 0) == debiased]
        return min(settings, key=lambda setting: self.errors[setting])

    def choose_debiasing(self) -> Setting:
        """Return the best debiased setting if it is clearly better than the best plain one, else that."""
        plain, debiased = self.lowest(debiased=False), self.lowest(debiased=True)
        return debiased if is_clear(self._losses[plain] - self._losses[debiased]) else plain

    def is_gain(self, changed: Setting, chosen: Setting) -> bool:
        """Return whether a change of a setting pays."""
        return self.errors[changed] < GAIN * self.errors[chosen]

    def fit_folds(self, setting: Setting) -> None:
        """Give the folds the factors and the directions of a setting."""
        fits = self._fits[replace(setting, debias=0.0)]
        for fold, problem, fit in zip(self.folds, self.problems(setting), fits, strict=True):
            fold.factors = setting.predictor(problem, fit, self.delta)
            fold.directions = cluster_directions(problem, setting, fit, self.delta)


def is_clear(gain: Floats) -> bool:
    """Return whether a gain in the loss of held-out scores is far above its standard error."""
    return bool(gain.mean() > CLEARLY * gain.std() / np.sqrt(max(len(gain), 1)))


def choose_setting(
    folds: list[Fold], features: Floats | None, delta: float
) -> tuple[Setting, dict[Setting, float]]:
    """Choose by held-out loss: tau along a path, then the other penalties one at a time."""
    search = Search(folds, features, delta)
    chosen = follow_path(search)
    alternatives: list[dict[str, Any]] = [{"rest": ratio} for ratio in REST_RATIOS]
    alternatives += [{"row": row} for row in ROW_PENALTIES]
    if any(np.ptp(fold.data.weights) > 0 for fold in folds if len(fold.data.weights)):
        alternatives.append({"weighted": True})
    is_empty = False
    for change in alternatives:
        if is_empty and "rest" in change:
            continue  # what is empty at a low penalty is empty at a higher one
        changed = replace(chosen, **change)
        if not search.attempt(changed, start=chosen):
            continue
        is_empty = abs(search.errors[changed] - search.errors[chosen]) <= 1e-9
        if search.is_gain(changed, chosen):
            chosen = changed
    for share in FEATURE_SHARES if features is not None else ():
        for factor in (1.0, 1.5):
            changed = replace(chosen, features=share, tau=factor * chosen.tau)
            if search.attempt(changed) and search.is_gain(changed, chosen):
                chosen = changed
    search.fit_folds(chosen)
    return chosen, search.errors


def follow_path(search: Search) -> Setting:
    """Try lower and lower values of tau, each from the one before, until they predict worse."""
    before: Setting | None = None
    n_worse = 0
    for tau in TAUS:
        if not search.attempt(Setting(tau), start=before):
            break
        before = Setting(tau)
        n_worse = 0 if search.lowest(debiased=False) == before else n_worse + 1
        if n_worse == 2:
            break
    return search.choose_debiasing()
