"""Texts that belong to none of a task's labels: a score from 0 to 1, learned across tasks.

Two things are looked at: how near the text is to the training texts of the task (the mean cosine to the three
nearest), and how sure the classifier is. A logistic model puts them together. Its few coefficients are the
same for all tasks, learned where texts of other clusters stand for what does not belong; a task brings only
its own training representations, so a few-shot task is served as it comes.

On real bots the neighbours do nearly all of the work. One neighbour, label means, the Mahalanobis distance,
the energy of the logits, and all of them together were no better by more than a fifth of a point of AUROC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, StoreError, UsageError, quote
from robusttc.learning.logistic import fit_logistic, squash
from robusttc.models import multiply_rows

__all__ = ["ScopeExample", "ScopeModel", "auroc", "fit_scope"]

Floats = NDArray[np.floating]

N_FEATURES = 2
CONFIDENCE_MARGIN = 1e-6
N_NEIGHBOURS = 3


@dataclass(frozen=True, slots=True, eq=False)
class ScopeExample:
    """What one task gives for learning: held-out texts of its own, and texts from outside.

    Parameters
    ----------
    reference
        The task's training representations, of shape (rows, dimensions).
    representation
        Those of texts that were not trained on.
    confidence
        The probability of the most probable label for each of these.
    is_outside
        For each of these, whether it comes from outside the task.
    """

    reference: Floats
    representation: Floats
    confidence: Floats
    is_outside: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ScopeModel:
    """The coefficients that all tasks share; see `fit_scope`.

    Parameters
    ----------
    coefficients
        Of the mean cosine to the three nearest training texts, and of the log-odds of the confidence.
    intercept
        The constant.

    Examples
    --------
    >>> model = ScopeModel((-8.0, -0.5), 5.0)
    >>> texts = np.array([[2.0, 0.0], [-1.0, 0.0]])
    >>> model.score(np.array([[1.0, 0.0]] * 3), texts, np.array([0.9, 0.6])).round(3).tolist()
    [0.016, 1.0]
    """

    coefficients: tuple[float, ...]
    intercept: float

    def score(self, reference: Floats, representation: Floats, confidence: ArrayLike) -> NDArray[np.float64]:
        """Give for each text how likely it is to belong to none of the task's labels, from 0 to 1.

        It is a probability where texts from outside are as frequent as the task's own.

        Parameters
        ----------
        reference
            The task's training representations, of shape (rows, dimensions).
        representation
            Those of the texts to judge.
        confidence
            The probability of the most probable label of each.

        Raises
        ------
        UsageError
            If the shapes do not fit, or the task has no training representations.
        DataError
            If a number is not finite, or a confidence is not a probability.
        """
        features = make_features(reference, representation, confidence)
        # Term by term: a matrix product may round a row differently in another company.
        total = np.full(len(features), self.intercept)
        for column, coefficient in enumerate(self.coefficients):
            total += coefficient * features[:, column]
        return squash(total)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Give it as arrays, for a model folder."""
        return {"coefficients": np.array(self.coefficients), "intercept": np.array([self.intercept])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.floating]]) -> ScopeModel:
        """Make it from what `arrays` gave.

        Raises
        ------
        StoreError
            If an array is missing or of another shape, or a number is not finite.
        """
        for name, shape in {"coefficients": (N_FEATURES,), "intercept": (1,)}.items():
            array = arrays.get(name)
            if array is None or array.shape != shape or not np.isfinite(array).all():
                raise StoreError(
                    "the out-of-scope model is damaged",
                    where=name,
                    got="nothing" if array is None else f"shape {array.shape}",
                    expected=f"finite numbers of shape {shape}",
                )
        values = (float(value) for value in arrays["coefficients"])
        return cls(tuple(values), float(arrays["intercept"][0]))


def fit_scope(examples: Sequence[ScopeExample]) -> ScopeModel:
    """Learn one model of what is out of scope from many tasks.

    It is a logistic regression with the features of `ScopeModel`. Every task counts alike, and in each task
    its own texts count as much as those from outside.

    Parameters
    ----------
    examples
        One a task; those that lack own texts or texts from outside are left out.

    Raises
    ------
    UsageError
        If the shapes do not fit.
    DataError
        If no task has both kinds of text, or a number cannot be used.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> outside = np.arange(40) >= 20
    >>> near = np.where(outside[:, None], generator.normal(size=(40, 8)), np.eye(8)[np.arange(40) % 8])
    >>> model = fit_scope([ScopeExample(np.eye(8), near, np.where(outside, 0.5, 0.9), outside)])
    >>> score = model.score(np.eye(8), near, np.where(outside, 0.5, 0.9))
    >>> auroc(score[~outside], score[outside])
    1.0
    """
    features, targets, shares = [], [], []
    for number, example in enumerate(examples):
        table = make_features(example.reference, example.representation, example.confidence)
        is_outside = np.asarray(example.is_outside)
        if is_outside.shape != (len(table),) or is_outside.dtype != np.bool_:
            raise UsageError(
                "is_outside does not fit the texts",
                where=f"example {number}",
                got=f"{is_outside.dtype} of shape {is_outside.shape}",
                expected=f"truths of shape ({len(table)},)",
            )
        n_outside = int(is_outside.sum())
        if 0 < n_outside < len(table):
            features.append(table)
            targets.append(is_outside.astype(np.float64))
            shares.append(np.where(is_outside, 0.5 / n_outside, 0.5 / (len(table) - n_outside)))
    if not features:
        raise DataError(
            "there is nothing to learn the scope from",
            got=f"{len(examples)} examples",
            expected="at least one task with held-out texts of its own and texts from outside",
        )
    weight = np.concatenate(shares) / len(shares)
    slopes, intercept = fit_logistic(np.concatenate(features), np.concatenate(targets), weight)
    return ScopeModel(tuple(float(slope) for slope in slopes), intercept)


def make_features(reference: Floats, representation: Floats, confidence: ArrayLike) -> NDArray[np.float64]:
    """Give the mean of the highest cosines to the reference, and the log-odds of the confidence."""
    known, new = check_matrix("reference", reference), check_matrix("representation", representation)
    sure = np.asarray(confidence, dtype=np.float64)
    if len(known) == 0 or known.shape[1] != new.shape[1] or sure.shape != (len(new),):
        raise UsageError(
            "the parts of the out-of-scope score do not fit",
            got=f"reference {known.shape}, representation {new.shape}, confidence {sure.shape}",
            expected="(rows from 1 up, dimensions), (texts, dimensions), (texts,)",
        )
    # Sums of probabilities may be above 1 by rounding.
    if not ((sure >= 0.0) & (sure <= 1.0 + 1e-6)).all():
        raise DataError(
            "a confidence is not a probability", got=quote([float(sure.min()), float(sure.max())])
        )
    cosines = multiply_rows(normalise(new), normalise(known).T)
    n_neighbours = min(N_NEIGHBOURS, len(known))
    nearest = np.sort(cosines, axis=1)[:, -n_neighbours:].astype(np.float64).mean(axis=1)
    clipped = np.clip(sure, CONFIDENCE_MARGIN, 1 - CONFIDENCE_MARGIN)
    return np.column_stack([nearest, np.log(clipped / (1 - clipped))])


def check_matrix(name: str, values: Floats) -> NDArray[np.float64]:
    """Give representations as a matrix of finite numbers."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise UsageError(f"the {name} is not a matrix", got=f"shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise DataError(f"the {name} has a number that is not finite")
    return matrix


def normalise(matrix: NDArray[np.float64]) -> NDArray[np.float32]:
    """Bring rows to length 1; a row of zeros stays as it is, like nothing."""
    # By the largest number first, or the squares of very small or large ones would be lost.
    largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    scaled = matrix / np.where(largest > 0.0, largest, 1.0)
    length = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return (scaled / np.where(length > 0.0, length, 1.0)).astype(np.float32)


def auroc(score_inside: ArrayLike, score_outside: ArrayLike) -> float:
    """Give the probability that a text from outside has a higher score than one of the task's own.

    Equal scores count half. 1 is perfect, 0.5 is chance.

    Examples
    --------
    >>> auroc([0.1, 0.4], [0.4, 0.9])
    0.875
    """
    inside, outside = np.sort(np.asarray(score_inside, float)), np.asarray(score_outside, float)
    if inside.ndim != 1 or outside.ndim != 1 or not len(inside) or not len(outside):
        raise UsageError(
            "the scores cannot be compared",
            got=f"shapes {inside.shape} and {outside.shape}",
            expected="at least one score of each kind",
        )
    if not (np.isfinite(inside).all() and np.isfinite(outside).all()):
        raise DataError("a score is not finite")
    below = np.searchsorted(inside, outside, side="left") + np.searchsorted(inside, outside, side="right")
    return float(below.mean() / (2 * len(inside)))
