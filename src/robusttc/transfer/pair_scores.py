"""The scores of one source on its targets: the job that measuring transfer consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import DataError
from robusttc.jobs import Result
from robusttc.models import fit_softmax, multiply_rows
from robusttc.transfer.leave_one_out import leave_one_out_brier, leave_one_out_log_likelihood
from robusttc.transfer.plan import TaskRows, TransferPlan
from robusttc.transfer.scores import TransferScores
from robusttc.transfer.source_encoder import SourceEncoder, train_source

__all__ = ["SourceScores", "collect_scores", "measure_source", "score_rows_of", "score_source"]

# With more than this share of all inputs needed, all are encoded: cheaper than copying the needed ones.
SHARE_FOR_ALL = 0.5
MAX_ERROR_CHARACTERS = 200
# How exactly the classifiers of kind "accuracy" are solved: a closer solution predicts no better.
CLASSIFIER_TOLERANCE = 1e-2
COLUMNS = ("score", "standard_error", "first_half", "second_half", "n_examples")

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SourceScores:
    """The scores of one source, one row per target.

    Attributes
    ----------
    source
        The name of the source.
    targets
        The names of the targets.
    score, standard_error, first_half, second_half, n_examples
        As in `TransferScores`.
    failed
        The targets that could not be scored, each with its error; they are not among `targets`.
    """

    source: str
    targets: tuple[str, ...]
    score: Floats
    standard_error: Floats
    first_half: Floats
    second_half: Floats
    n_examples: Numbers
    failed: tuple[tuple[str, str], ...] = ()


def measure_source(plan: TransferPlan, job: tuple[int, Numbers]) -> Result:
    """Run a job: train the encoder of one source, and score it on its targets."""
    source, targets = job
    scores = score_source(plan, source, train_source(plan, source), targets)
    values = {
        "source": scores.source,
        "targets": list(scores.targets),
        "failed": [list(pair) for pair in scores.failed],
    }
    return Result(values, {name: getattr(scores, name) for name in COLUMNS})


def score_rows_of(payload: Result) -> SourceScores:
    """Return the scores that a job returned.

    Examples
    --------
    >>> values = {"source": "a", "targets": ["b"], "failed": []}
    >>> columns = ("score", "standard_error", "first_half", "second_half", "n_examples")
    >>> rows = score_rows_of(Result(values, {name: np.ones(1) for name in columns}))
    >>> rows.source, rows.targets, rows.score.tolist()
    ('a', ('b',), [1.0])
    """
    values: Any = payload.values
    failed = tuple((name, error) for name, error in values["failed"])
    arrays: Any = {name: payload.arrays[name] for name in COLUMNS}
    return SourceScores(values["source"], tuple(values["targets"]), **arrays, failed=failed)


def collect_scores(task_names: Sequence[str], parts: Sequence[SourceScores], *, kind: str) -> TransferScores:
    """Return the scores of all sources, given in any order."""
    number_of = {name: number for number, name in enumerate(task_names)}
    ends = [(number_of[part.source], number_of[target]) for part in parts for target in part.targets]
    source, target = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS
    }
    return TransferScores(task_names, source=source, target=target, **columns, kind=kind)


def score_source(plan: TransferPlan, source: int, encoder: SourceEncoder, targets: Numbers) -> SourceScores:
    """Score the encoder of one source on targets; a score depends on source and target alone.

    A target that raises an error is left out and named: it must not prevent the other scores.
    """
    place_of, features = encode_targets(plan, encoder, targets)
    scored: list[tuple[float, ...]] = []
    names: list[str] = []
    failed: list[tuple[str, str]] = []
    for target in targets:
        rows = plan.rows[target]
        try:
            numbers = score_pair(plan, encoder, rows, features[place_of[rows.items]])
            if not np.isfinite(numbers).all():
                raise DataError("the score is not finite", got=", ".join(f"{number:g}" for number in numbers))
        except Exception as error:
            failed.append((rows.name, f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]))
        else:
            scored.append(numbers)
            names.append(rows.name)
    columns = dict(zip(COLUMNS, np.array(scored).reshape(-1, len(COLUMNS)).T, strict=True))
    n_examples = columns.pop("n_examples").astype(np.int64)
    name = plan.rows[source].name
    return SourceScores(name, tuple(names), **columns, n_examples=n_examples, failed=tuple(failed))


def encode_targets(plan: TransferPlan, encoder: SourceEncoder, targets: Numbers) -> tuple[Numbers, Features]:
    """Encode every text of the targets once; return the position of each input, and the features."""
    n_inputs = len(plan.inputs)
    is_needed = np.zeros(n_inputs, dtype=np.bool_)
    for target in targets:
        is_needed[plan.rows[target].items] = True
    needed = np.flatnonzero(is_needed)
    if len(needed) > SHARE_FOR_ALL * n_inputs:
        return np.arange(n_inputs), encoder.represent(plan.inputs)
    place_of = np.full(n_inputs, -1, dtype=np.int64)
    place_of[needed] = np.arange(len(needed))
    return place_of, encoder.represent(plan.inputs.take(needed))


def score_pair(
    plan: TransferPlan, encoder: SourceEncoder, rows: TaskRows, features: Features
) -> tuple[float, ...]:
    """Return score, standard error, the scores of two halves, and the number of rows."""
    if plan.settings.kind == "accuracy":
        values, order = find_correct(plan, encoder, rows, features)
    else:
        rule = leave_one_out_brier if plan.settings.kind == "brier" else leave_one_out_log_likelihood
        values, order = rule(features, rows.codes, rows.n_labels, plan.settings.ridge), rows.order
    n = len(values)
    middle = max(1, n // 2)
    halves = order[:middle], order[middle:] if n > 1 else order  # a single row is both halves
    first, second = (float(values[half].mean()) for half in halves)
    return float(values.mean()), float(values.std() / np.sqrt(n)), first, second, n


def find_correct(
    plan: TransferPlan, encoder: SourceEncoder, rows: TaskRows, features: Features
) -> tuple[Floats, Numbers]:
    """Return for each evaluation row whether its prediction is correct (0 or 1), and an order of these rows.

    Identical label sets: the source's own classifier on train. Else: a classifier trained on train, evaluated
    on valid (section 3.1 of the paper), solved as far as its predictions need.
    """
    n_train = rows.n_train
    if encoder.classifier is not None:
        head = encoder.classifier
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
