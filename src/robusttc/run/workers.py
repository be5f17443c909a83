"""Who does the units of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from robusttc.run.configuration import Execution
from robusttc.run.executor import make_executor
from robusttc.run.score_rows import ScoreRows
from robusttc.run.store import RunStore
from robusttc.run.workshop import StoredWorkshop
from robusttc.transfer import STAGE, SourceScores, score_rows_of
from robusttc.work.units import Payload, Unit

__all__ = ["as_score_rows", "make_workshop", "scores_of"]


@contextmanager
def make_workshop(
    store: RunStore, execution: Execution, *, stop: Callable[[], bool]
) -> Iterator[StoredWorkshop]:
    """Give a workshop that keeps results in the store; its workers end with the block."""
    # Unless a number was asked for, Ray decides how much it does at a time.
    is_given = execution.executor == "local" or "workers" in execution.model_fields_set
    n_workers = execution.workers if is_given else None
    executor = make_executor(execution.executor, n_workers=n_workers)
    try:
        yield StoredWorkshop(store, executor, stop=stop, score_rows=scores_of)
    finally:
        executor.close()


def scores_of(unit: Unit, payload: Payload) -> ScoreRows | None:
    """Give the scores in the result of a unit, for the table of scores."""
    if not unit.key.startswith(f"{STAGE}/"):
        return None
    return as_score_rows(score_rows_of(payload))


def as_score_rows(rows: SourceScores) -> ScoreRows:
    """Give the scores of a source as the store takes them."""
    return ScoreRows(
        rows.source,
        rows.targets,
        rows.score,
        rows.n_examples,
        rows.standard_error,
        rows.first_half,
        rows.second_half,
    )
