"""The unit of work "a block of pairs": one source's scores on all of its targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import DataError
from robusttc.models import fit_softmax, multiply_rows
from robusttc.scores import TransferScores
from robusttc.transfer.leave_one_out import leave_one_out_brier, leave_one_out_log_likelihood
from robusttc.transfer.logme import logme
from robusttc.transfer.plan import TaskRows, TransferPlan
from robusttc.transfer.sources import SourceModel

__all__ = ["ScoreBlock", "collect_scores", "score_block"]

Floats = NDArray[np.float64]
Features = NDArray[np.float32]

# With more than this share of all inputs needed, all are encoded: cheaper than copying the needed ones.
SHARE_FOR_ALL = 0.5
MAX_ERROR_CHARACTERS = 200
# How exactly the classifiers of kind "accuracy" are solved: a closer solution predicts no better.
CLASSIFIER_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    """The scores of one source, one row a target.

    Attributes
    ----------
    source
        The number of the source.
    target
        The numbers of the targets.
    score, standard_error, first_half, second_half
        The scores; the standard error is NaN where the kind has none.
    n_examples
        How many rows each score is about.
    failed
        The numbers of targets that could not be scored, each with its error; they are not in `target`.
    """

    source: int
    target: NDArray[np.int64]
    score: Floats
    standard_error: Floats
    first_half: Floats
    second_half: Floats
    n_examples: NDArray[np.int64]
    failed: tuple[tuple[int, str], ...] = ()


def score_block(
    plan: TransferPlan, source: int, model: SourceModel, targets: NDArray[np.int64] | None = None
) -> ScoreBlock:
    """Score one source on its targets; every score depends on source and target alone.

    A target that raises an error is left out and named: it must not take the other scores with it.

    Parameters
    ----------
    plan
        The plan.
    source
        The number of the source.
    model
        Its model.
    targets
        The targets; None takes all that the plan has for this source.
    """
    chosen = plan.targets[source] if targets is None else targets
    numbers = np.empty((5, len(chosen)))
    is_there = np.ones(len(chosen), dtype=np.bool_)
    failed: list[tuple[int, str]] = []
    if len(chosen):
        place_of, features = encode_targets(plan, model, chosen)
        for place, target in enumerate(chosen):
            rows = plan.rows[target]
            try:
                scored = score_pair(plan, model, rows, features[place_of[rows.items]])
                check_finite(scored)
            except Exception as caught:
                is_there[place] = False
                failed.append((int(target), f"{type(caught).__name__}: {caught}"[:MAX_ERROR_CHARACTERS]))
            else:
                numbers[:, place] = scored
    score, error, first, second, n_examples = numbers[:, is_there]
    target_numbers = chosen[is_there]
    n_rows = n_examples.astype(np.int64)
    return ScoreBlock(source, target_numbers, score, error, first, second, n_rows, tuple(failed))


def check_finite(scored: tuple[float, float, float, float, int]) -> None:
    """Refuse a score that is no number; the standard error may be none."""
    score, _, first, second, _ = scored
    if not np.isfinite([score, first, second]).all():
        raise DataError("the score is not finite", got=f"{score:g}, by halves {first:g} and {second:g}")


def encode_targets(
    plan: TransferPlan, model: SourceModel, targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Features]:
    """Encode every text of the targets once; gives the place of each input among the results."""
    n_inputs = len(plan.inputs)
    is_needed = np.zeros(n_inputs, dtype=np.bool_)
    for target in targets:
        is_needed[plan.rows[target].items] = True
    needed = np.flatnonzero(is_needed)
    if len(needed) > SHARE_FOR_ALL * n_inputs:
        return np.arange(n_inputs), model.represent(plan.inputs)
    place_of = np.full(n_inputs, -1, dtype=np.int64)
    place_of[needed] = np.arange(len(needed))
    return place_of, model.represent(plan.inputs.take(needed))


def score_pair(
    plan: TransferPlan, model: SourceModel, rows: TaskRows, features: Features
) -> tuple[float, float, float, float, int]:
    """Give score, standard error, the scores of two halves, and the number of rows."""
    settings = plan.settings
    first: float | None
    second: float | None
    if settings.kind == "logme":
        if not features.shape[1]:
            features = np.zeros((len(features), 1), dtype=np.float32)  # a source that tells nothing
        first, second = (score_logme(features[half], rows.codes[half]) for half in halve(rows.order))
        whole = logme(features, rows.codes, rows.n_labels)
        if first is None or second is None:
            # One label has no score: so few rows have no two halves, and the whole stands for both.
            first = second = whole
        return whole, np.nan, first, second, len(features)
    if settings.kind == "accuracy":
        rights, order = judge_rows(plan, model, rows, features)
    else:
        rule = leave_one_out_brier if settings.kind == "brier" else leave_one_out_log_likelihood
        rights, order = rule(features, rows.codes, rows.n_labels, settings.ridge), rows.order
    n = len(rights)
    first, second = (float(rights[half].mean()) for half in halve(order))
    return float(rights.mean()), float(rights.std() / np.sqrt(n)), first, second, n


def score_logme(features: Features, codes: NDArray[np.int64]) -> float | None:
    """Give the LogME score of some rows; None where they have one label alone."""
    n_labels = int(codes.max()) + 1
    return logme(features, codes, n_labels) if (codes != codes[0]).any() else None


def judge_rows(
    plan: TransferPlan, model: SourceModel, rows: TaskRows, features: Features
) -> tuple[Floats, NDArray[np.int64]]:
    """Tell for each evaluation row whether it is predicted right, 0 or 1; and give an order of these rows.

    Identical label sets: the source's own classifier on train. Else: a classifier trained on train, judged
    on valid (section 3.1 of the paper), solved as far as its predictions need.
    """
    n_train = rows.n_train
    if model.classifier is not None:
        head = model.classifier
        logits = multiply_rows(features[:n_train], head.head_weight) + head.head_bias
        predicted, truth = logits.argmax(axis=1), rows.codes[:n_train]
        order = rows.order[rows.order < n_train]
    else:
        fitted = fit_softmax(
            features[:n_train],
            rows.codes[:n_train],
            n_labels=rows.n_labels,
            C=plan.settings.classifier_c,
            tol=CLASSIFIER_TOLERANCE,
        )
        predicted, truth = fitted.predict_codes(features[n_train:]), rows.codes[n_train:]
        order = rows.order[rows.order >= n_train] - n_train
    return (predicted == truth).astype(np.float64), order


def halve(order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut an order in two; a single row is both halves."""
    middle = max(1, len(order) // 2)
    return order[:middle], order[middle:] if len(order) > 1 else order


def collect_scores(task_names: Sequence[str], blocks: Sequence[ScoreBlock], *, kind: str) -> TransferScores:
    """Put the blocks together, in any order."""
    errors = np.concatenate([block.standard_error for block in blocks])
    return TransferScores(
        task_names,
        source=np.concatenate([np.full(len(block.target), block.source) for block in blocks]),
        target=np.concatenate([block.target for block in blocks]),
        score=np.concatenate([block.score for block in blocks]),
        n_examples=np.concatenate([block.n_examples for block in blocks]),
        standard_error=None if np.isnan(errors).any() else errors,
        first_half=np.concatenate([block.first_half for block in blocks]),
        second_half=np.concatenate([block.second_half for block in blocks]),
        kind=kind,
    )
