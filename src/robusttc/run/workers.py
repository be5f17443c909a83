"""The runner of a run: its executor, and its store as the runner sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from robusttc.jobs import Outcome, Result, Runner, make_executor
from robusttc.run.records import FinishedUnit
from robusttc.run.score_rows import COLUMNS, ScoreRows
from robusttc.run.settings import Execution
from robusttc.run.store import RunStore
from robusttc.transfer import STAGE

__all__ = ["StoredJobs", "as_score_rows", "make_runner", "scores_of"]


@contextmanager
def make_runner(store: RunStore, execution: Execution, *, stop: Callable[[], bool]) -> Iterator[Runner]:
    """Yield a runner that keeps results in the store; its workers end with the block."""
    # Unless a number was asked for, Ray decides how much it does at a time.
    is_given = execution.executor == "local" or "workers" in execution.model_fields_set
    n_workers = execution.workers if is_given else None
    with Runner(
        make_executor(execution.executor, n_workers=n_workers), StoredJobs(store), stop=stop
    ) as runner:
        yield runner


def scores_of(key: str, result: Result) -> ScoreRows | None:
    """Return the scores in the result of a job, for the table of scores."""
    return as_score_rows(result) if key.startswith(f"{STAGE}/") else None


@dataclass(frozen=True, slots=True)
class StoredJobs:
    """The store of a run as a `robusttc.jobs.JobStore`; `scores` finds the transfer scores in a result."""

    store: RunStore
    scores: Callable[[str, Result], ScoreRows | None] = scores_of

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the packed results of those of the keys that are finished."""
        return self.store.find(keys)

    def commit(self, stage: str, done: Sequence[tuple[Outcome, Result]]) -> None:
        """Store finished jobs in one transaction."""
        self.store.finish_many(
            [
                FinishedUnit(
                    stage=stage,
                    key=outcome.key,
                    content=outcome.content or b"",
                    scores=self.scores(outcome.key, result),
                    seconds=outcome.seconds,
                    cpu_seconds=outcome.cpu_seconds,
                    peak_bytes=outcome.peak_bytes,
                    attempts=self.store.failures(outcome.key) + 1,
                )
                for outcome, result in done
            ]
        )

    def failures(self, key: str) -> int:
        """Return how often a job has failed."""
        return self.store.failures(key)

    def record_failure(
        self, stage: str, key: str, error: str, tasks: Sequence[str], *, is_last: bool
    ) -> None:
        """Record a failure; after the last one the job is quarantined."""
        record = self.store.quarantine if is_last else self.store.record_failure
        record(stage, key, error, tasks)

    def quarantined_keys(self) -> Collection[str]:
        """Return the jobs that are left out."""
        return {unit.key for unit in self.store.quarantined()}

    def add_cost(self, stage: str, *, n_jobs: int, cpu_seconds: float, peak_bytes: int) -> None:
        """Record what jobs have cost whose results are not stored."""
        self.store.add_cost(stage, units=n_jobs, cpu_seconds=cpu_seconds, peak_bytes=peak_bytes)


def as_score_rows(result: Result) -> ScoreRows:
    """Return the scores in the result of a job that measured a source, as the store takes them."""
    columns: Any = {name: result.arrays[name] for name in COLUMNS}
    return ScoreRows(result.values["source"], result.values["targets"], **columns)
