"""Measuring cut into units: one a source and round, which trains its model and scores it on its targets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import DoubtWarning, WorkError, quote
from robusttc.jobs import Job, Result
from robusttc.transfer.blocks import ScoreBlock, score_block
from robusttc.transfer.pairs import PairList
from robusttc.transfer.plan import TransferPlan
from robusttc.transfer.sources import train_source

__all__ = ["STAGE", "SourceScores", "check_measured", "read_blocks", "score_rows_of", "source_units"]

STAGE = "transfer"

# So many tasks and errors are named in a warning; the results name all of them.
MAX_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class SourceScores:
    """The scores of one source by the names of tasks, one row a target.

    Attributes
    ----------
    source
        The name of the source.
    targets
        The names of the targets.
    score, n_examples, standard_error, first_half, second_half
        As in `robusttc.transfer.blocks.ScoreBlock`; without standard errors, None.
    failed
        The targets that could not be scored, each with its error.
    """

    source: str
    targets: tuple[str, ...]
    score: NDArray[np.float64]
    n_examples: NDArray[np.int64]
    standard_error: NDArray[np.float64] | None
    first_half: NDArray[np.float64]
    second_half: NDArray[np.float64]
    failed: tuple[tuple[str, str], ...]


def source_units(plan: TransferPlan, pairs: PairList, *, round_number: int | None = None) -> list[Job]:
    """Return one unit a source of these pairs; the shared data is the plan.

    The number of the round is in the keys: a source has other targets in every round.
    """
    place = STAGE if round_number is None else f"{STAGE}/round {round_number}"
    return [
        Job(f"{place}/{plan.rows[source].name}", measure_unit, (source, targets), (plan.rows[source].name,))
        for source, targets in enumerate(replace(plan, pairs=pairs).targets)
        if len(targets)
    ]


def measure_unit(plan: TransferPlan, pairs: tuple[int, NDArray[np.int64]]) -> Result:
    """Do a unit: train the model of one source, and score it on its targets."""
    source, targets = pairs
    block = score_block(plan, source, train_source(plan, source), targets)
    names = plan.task_names
    values = {
        "source": names[source],
        "targets": [names[target] for target in block.target],
        "failed": [[names[target], error] for target, error in block.failed],
    }
    arrays = {
        "score": block.score,
        "standard_error": block.standard_error,
        "first_half": block.first_half,
        "second_half": block.second_half,
        "n_examples": block.n_examples,
    }
    return Result(values, arrays)


def score_rows_of(payload: Result) -> SourceScores:
    """Give the scores that a unit of this stage gave.

    Examples
    --------
    >>> values = {"source": "a", "targets": ["b"], "failed": []}
    >>> columns = ("score", "standard_error", "first_half", "second_half", "n_examples")
    >>> rows = score_rows_of(Result(values, {name: np.ones(1) for name in columns}))
    >>> rows.source, rows.targets, rows.score.tolist()
    ('a', ('b',), [1.0])
    """
    values: Mapping[str, Any] = payload.values
    arrays: Mapping[str, NDArray[Any]] = payload.arrays
    return SourceScores(
        values["source"],
        tuple(values["targets"]),
        arrays["score"],
        arrays["n_examples"],
        None if np.isnan(arrays["standard_error"]).any() else arrays["standard_error"],
        arrays["first_half"],
        arrays["second_half"],
        tuple((name, error) for name, error in values["failed"]),
    )


def read_blocks(
    plan: TransferPlan, units: Sequence[Job], payloads: Sequence[Result | None]
) -> tuple[list[ScoreBlock], list[str]]:
    """Return the scores that units gave, and what is missing with the reason."""
    number_of = {name: number for number, name in enumerate(plan.task_names)}
    blocks: list[ScoreBlock] = []
    missing: list[str] = []
    for unit, payload in zip(units, payloads, strict=True):
        if payload is None:
            missing.append(f"all scores of source {quote(unit.tasks[0])}")
            continue
        rows = score_rows_of(payload)
        missing += [f"{quote(rows.source)} on {quote(name)} ({error})" for name, error in rows.failed]
        target = np.array([number_of[name] for name in rows.targets], dtype=np.int64)
        arrays = payload.arrays
        blocks.append(
            ScoreBlock(
                number_of[rows.source],
                target,
                rows.score,
                arrays["standard_error"],
                rows.first_half,
                rows.second_half,
                rows.n_examples,
            )
        )
    return blocks, missing


def check_measured(blocks: Sequence[ScoreBlock], missing: Sequence[str]) -> None:
    """Report missing scores.

    Warns
    -----
    DoubtWarning
        If scores are missing: a pair raised an error, or a source could not be worked on.

    Raises
    ------
    WorkError
        If there is not a single score.
    """
    if missing:
        warn_of_missing(list(dict.fromkeys(missing)))
    if not any(len(block.target) for block in blocks):
        raise WorkError(
            "no score could be measured",
            got=missing[0] if missing else "no pairs",
            todo="see the errors of the units",
        )


def warn_of_missing(missing: Sequence[str]) -> None:
    """Say which scores are not there."""
    more = f"; and {len(missing) - MAX_NAMED:,} more" if len(missing) > MAX_NAMED else ""
    warnings.warn(
        f"some scores could not be measured and are left out: {'; '.join(missing[:MAX_NAMED])}{more}",
        DoubtWarning,
        stacklevel=5,
    )
