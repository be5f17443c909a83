"""Texts that belong to none of a task's labels: a score from 0 to 1, learned across tasks.

The score is a logistic function of one number: the mean cosine of a text to the three nearest training texts
of the task. Its two coefficients are the same for all tasks, learned where texts of other clusters stand for
what does not belong; a task brings only its own training representations, so a few-shot task can be scored
as soon as it has examples.

`ScopeModel.threshold` turns a promised share of a task's own texts into a score. How near texts of a task are
to its examples differs from task to task, and is known by the examples themselves, each left out: how many
of their standard deviations a new text is farther away, is alike for all tasks, and its quantiles are those
of held-out texts.

On real bots one neighbour, label means, the Mahalanobis distance, the energy of the logits, the confidence
of the classifier, and all of them together were no better by more than a fifth of a point of AUROC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, StoreError, UsageError
from robusttc.models.layers import multiply_rows
from robusttc.params import Number, check_param

Floats = NDArray[np.floating]

N_NEIGHBOURS = 3
# On a feature of unit variance: it keeps the slope finite where the two classes are separable.
PENALTY = 1e-3
# The share of its own texts that a task rejects if nothing else is asked for.
REJECTED = 0.05
# The levels whose quantiles are kept.
LEVELS = np.linspace(0.0, 1.0, 201)
# The least standard deviation of cosines: a handful of examples can be equally near by chance.
LEAST_SPREAD = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class ScopeExample:
    """What one task contributes to the fit: held-out texts of its own, and texts from outside."""

    reference: Floats  # the task's training representations
    representation: Floats  # those of texts that were not trained on
    is_outside: NDArray[np.bool_]  # which of these come from outside


@dataclass(frozen=True, slots=True)
class ScopeModel:
    """The coefficients that all tasks share; the slope is negative, for near texts are in scope.

    Examples
    --------
    >>> model = ScopeModel(-8.0, 5.0)
    >>> texts = np.array([[2.0, 0.0], [-1.0, 0.0]])
    >>> model.score(np.array([[1.0, 0.0]] * 3), texts).round(3).tolist()
    [0.047, 1.0]
    """

    slope: float
    intercept: float
    distances: tuple[float, ...] = ()  # the quantiles of `LEVELS`, of a task's own texts from its examples

    def score(self, reference: Floats, representation: Floats) -> NDArray[np.float64]:
        """Return for each text how likely it is to belong to none of the task's labels, from 0 to 1.

        It is a probability where texts from outside are as frequent as the task's own.
        """
        from scipy.special import expit

        return np.asarray(expit(self.slope * nearest_cosines(reference, representation) + self.intercept))

    def threshold(self, reference: Floats, *, rejects: float = REJECTED) -> float:
        """Return the score above which so large a share of the task's own new texts is expected."""
        from scipy.special import expit

        check_param("rejects", rejects, Number(0, 1))
        mean, spread = describe_cosines(reference)
        cosine = mean - spread * float(np.interp(1 - rejects, LEVELS, self.distances))
        return float(expit(self.slope * cosine + self.intercept))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return it as arrays, for a model folder."""
        return {
            "slope": np.array([self.slope]),
            "intercept": np.array([self.intercept]),
            "distances": np.array(self.distances),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.floating]]) -> ScopeModel:
        """Rebuild it from what `arrays` returned."""
        for name, shape in (("slope", (1,)), ("intercept", (1,)), ("distances", LEVELS.shape)):
            array = arrays.get(name)
            if array is None or array.shape != shape or not np.isfinite(array).all():
                raise StoreError(
                    "the out-of-scope model is damaged",
                    where=name,
                    got="nothing" if array is None else f"shape {array.shape}",
                    expected=f"finite numbers of shape {shape}",
                )
        distances = tuple(arrays["distances"].tolist())
        return cls(float(arrays["slope"][0]), float(arrays["intercept"][0]), distances)


def fit_scope(examples: Sequence[ScopeExample]) -> ScopeModel:
    """Learn one model of what is out of scope from many tasks.

    Every task counts the same, and in each task its own texts count as much as those from outside. Examples
    that lack either are left out.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> outside = np.arange(40) >= 20
    >>> near = np.where(outside[:, None], generator.normal(size=(40, 8)), np.eye(8)[np.arange(40) % 8])
    >>> known = np.tile(np.eye(8), (3, 1))
    >>> score = fit_scope([ScopeExample(known, near, outside)]).score(known, near)
    >>> auroc(score[~outside], score[outside])
    1.0
    """
    features, targets, shares, distances = [], [], [], []
    for number, example in enumerate(examples):
        cosines = nearest_cosines(example.reference, example.representation)
        is_outside = np.asarray(example.is_outside)
        if is_outside.shape != (len(cosines),) or is_outside.dtype != np.bool_:
            raise UsageError(
                "is_outside does not fit the texts",
                where=f"example {number}",
                got=f"{is_outside.dtype} of shape {is_outside.shape}",
                expected=f"truths of shape ({len(cosines)},)",
            )
        n_outside = int(is_outside.sum())
        if 0 < n_outside < len(cosines):
            features.append(cosines)
            targets.append(is_outside)
            shares.append(np.where(is_outside, 0.5 / n_outside, 0.5 / (len(cosines) - n_outside)))
            mean, spread = describe_cosines(example.reference)
            own = (mean - cosines[~is_outside]) / spread
            # Every task has as many, so that all count the same.
            distances.append(np.quantile(own, LEVELS))
    if not features:
        raise DataError(
            "there is nothing to learn the scope from",
            got=f"{len(examples)} examples",
            expected="at least one task with held-out texts of its own and texts from outside",
        )
    weight = np.concatenate(shares) / len(shares)
    slope, intercept = fit_logistic(np.concatenate(features), np.concatenate(targets), weight)
    quantiles = np.quantile(np.concatenate(distances), LEVELS)
    return ScopeModel(slope, intercept, tuple(quantiles.tolist()))


def measure_scope(examples: Sequence[ScopeExample]) -> tuple[list[float], list[float]]:
    """Return of every task the AUROC, and the share of its own texts above the threshold for `REJECTED`.

    A task is scored by a model that was fitted to the other half of the tasks.
    """
    areas: list[float] = []
    rejected: list[float] = []
    for scored, fitted in ((examples[::2], examples[1::2]), (examples[1::2], examples[::2])):
        if scored and fitted:
            model = fit_scope(fitted)
            for example in scored:
                score = model.score(example.reference, example.representation)
                own = score[~example.is_outside]
                areas.append(auroc(own, score[example.is_outside]))
                rejected.append(float((own > model.threshold(example.reference)).mean()))
    return areas, rejected


def describe_cosines(reference: Floats) -> tuple[float, float]:
    """Return the mean and standard deviation of examples' cosines to the three nearest others.

    Of a single example nothing is known: it is as if it were far from all others.
    """
    known = to_unit_length(check_matrix("reference", reference))
    cosines = multiply_rows(known, known.T)
    np.fill_diagonal(cosines, -1.0)
    nearest = mean_of_highest(cosines, max(1, len(known) - 1))
    return float(nearest.mean()), max(float(nearest.std()), LEAST_SPREAD)


def mean_of_highest(cosines: NDArray[np.float32], n_others: int) -> NDArray[np.float64]:
    """Return the mean of the three highest numbers of every row, or of all where there are fewer."""
    nearest = np.sort(cosines, axis=1)[:, -min(N_NEIGHBOURS, n_others) :]
    return np.asarray(nearest.astype(np.float64).mean(axis=1))


def fit_logistic(
    feature: NDArray[np.float64], target: NDArray[np.bool_], weight: NDArray[np.float64]
) -> tuple[float, float]:
    """Return slope and intercept of a logistic regression on one feature, with weighted rows.

    Examples
    --------
    >>> truths = np.array([False, True, False, True])
    >>> slope, intercept = fit_logistic(np.array([0.0, 1.0, 2.0, 3.0]), truths, np.full(4, 0.25))
    >>> slope > 0, round(slope * 1.5 + intercept, 4)
    (True, 0.0)
    """
    from sklearn.linear_model import LogisticRegression

    centre = float(weight @ feature)
    spread = float(np.sqrt(weight @ (feature - centre) ** 2))
    spread = spread if spread > 1e-9 else 1.0
    model = LogisticRegression(C=1 / PENALTY, tol=1e-8, max_iter=1000)
    model.fit(((feature - centre) / spread)[:, None], target, sample_weight=weight)
    slope = float(model.coef_[0, 0]) / spread
    return slope, float(model.intercept_[0]) - slope * centre


def nearest_cosines(reference: Floats, representation: Floats) -> NDArray[np.float64]:
    """Return for every text the mean of its three highest cosines to the reference; a row depends on itself.

    Examples
    --------
    >>> nearest_cosines(np.eye(2), np.array([[3.0, 0.0], [0.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    known, new = check_matrix("reference", reference), check_matrix("representation", representation)
    if len(known) == 0 or known.shape[1] != new.shape[1]:
        raise UsageError(
            "the representations do not fit each other",
            got=f"reference {known.shape}, representation {new.shape}",
            expected="(rows from 1 up, dimensions) and (texts, dimensions)",
        )
    cosines = multiply_rows(to_unit_length(new), to_unit_length(known).T)
    return mean_of_highest(cosines, len(known))


def check_matrix(name: str, values: Floats) -> NDArray[np.float64]:
    """Return representations as a matrix of finite numbers."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise UsageError(f"the {name} is not a matrix", got=f"shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise DataError(f"the {name} has a number that is not finite")
    return matrix


def to_unit_length(matrix: NDArray[np.float64]) -> NDArray[np.float32]:
    """Scale rows to length 1; a row of zeros stays as it is."""
    # By the largest number first, or the squares of very small or large ones would be lost.
    largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    scaled = matrix / np.where(largest > 0.0, largest, 1.0)
    length = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return (scaled / np.where(length > 0.0, length, 1.0)).astype(np.float32)


def auroc(score_inside: ArrayLike, score_outside: ArrayLike) -> float:
    """Return the probability that a text from outside has a higher score than one of the task's own.

    Equal scores count half. 1 is perfect, 0.5 is chance.

    Examples
    --------
    >>> auroc([0.1, 0.4], [0.4, 0.9])
    0.875
    """
    from sklearn.metrics import roc_auc_score

    inside, outside = np.asarray(score_inside, float), np.asarray(score_outside, float)
    if inside.ndim != 1 or outside.ndim != 1 or not len(inside) or not len(outside):
        raise UsageError(
            "the scores cannot be compared",
            got=f"shapes {inside.shape} and {outside.shape}",
            expected="at least one score of each kind",
        )
    if not (np.isfinite(inside).all() and np.isfinite(outside).all()):
        raise DataError("a score is not finite")
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    return float(roc_auc_score(is_outside, np.concatenate([inside, outside])))
