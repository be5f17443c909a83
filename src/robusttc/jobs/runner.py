"""Run jobs: look up what is stored, run the rest on an executor, commit, retry, quarantine.

Only this process writes the store. A job counts once its result is committed: only then is the result passed
on and another job submitted in its place, so a killed process loses no more than the jobs in flight.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

from robusttc.errors import UsageError, WorkError, quote
from robusttc.jobs.job import Job, Outcome, Result, run_job, unpack
from robusttc.params import Integer, check_param
from robusttc.progress import Progress, report

__all__ = [
    "Executor",
    "InProcessExecutor",
    "JobStore",
    "Runner",
    "Shared",
    "Stopped",
    "make_executor",
]

TIME_LIMIT_SECONDS = 3600.0
# One that its worker is running, and one that waits for the worker.
JOBS_PER_WORKER = 2
# How often `stop` is polled.
WAIT_SECONDS = 0.1
# Results read at once: as bytes and as arrays they are in memory twice.
RESULTS_AT_ONCE = 64


class Stopped(BaseException):
    """The computation was asked to stop; everything finished is stored.

    Like KeyboardInterrupt it is not an `Exception`: nothing on the way may mistake it for a failure.
    """


class JobStore(Protocol):
    """Where results and failures are kept."""

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the packed results of those of the keys that are finished."""

    def commit(self, stage: str, done: Sequence[tuple[Outcome, Result]]) -> None:
        """Store finished jobs, all or none; on return they are there for good."""

    def failures(self, key: str) -> int:
        """Return how often a job has failed."""

    def record_failure(
        self, stage: str, key: str, error: str, tasks: Sequence[str], *, is_last: bool
    ) -> None:
        """Record a failure; after the last one the job is quarantined."""

    def quarantined_keys(self) -> Collection[str]:
        """Return the jobs that are left out."""

    def add_cost(self, stage: str, *, n_jobs: int, cpu_seconds: float, peak_bytes: int) -> None:
        """Record what jobs have cost whose results are not stored."""


class Executor(Protocol):
    """Runs jobs in any order, and may lose them: only the store knows what is finished."""

    @property
    def n_workers(self) -> int:
        """How many jobs run at the same time."""

    def share(self, data: Any) -> Any:
        """Send data to the workers, once for all jobs, and return a reference to it, which is not None."""

    def release(self, reference: Any) -> None:
        """Free shared data that no job in flight needs."""

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:
        """Queue a job; its worker is stopped after so many seconds of running."""

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that have arrived, or wait at most `timeout` seconds for one.

        An error is raised only if no job can be run at all.
        """

    def cancel(self) -> None:
        """Forget all jobs in flight, and stop the workers that run them."""

    def close(self) -> None:
        """Stop all workers; jobs in flight are lost."""


class InProcessExecutor:
    """Runs jobs one after the other in this process, when their outcomes are waited for.

    There is no isolation: a job that ends the process ends the computation, and time limits do not apply.
    """

    n_workers = 1

    def __init__(self) -> None:
        self._queue: deque[tuple[Job, Any]] = deque()

    def share(self, data: Any) -> Any:
        """Return the data itself, in a tuple."""
        return (data,)

    def release(self, reference: Any) -> None:
        """Nothing is held."""

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:  # noqa: ARG002
        """Queue a job."""
        self._queue.append((job, None if shared is None else shared[0]))

    def wait(self, timeout: float) -> list[Outcome]:
        """Run the next job, however long it takes; with a timeout of 0, none."""
        return [run_job(*self._queue.popleft())] if self._queue and timeout > 0 else []

    def cancel(self) -> None:
        """Forget all queued jobs."""
        self._queue.clear()

    close = cancel


def make_executor(name: Literal["local", "ray"], *, n_workers: int | None = None) -> Executor:
    """Return a new executor: ``local`` processes (one by default), or ``ray``.

    Ray is the cluster at the address in the environment variable ``RAY_ADDRESS``, which decides itself how
    many jobs run at a time, or a private Ray on this machine, by default with one job per core.
    """
    if name == "ray":
        from robusttc.jobs.ray import RayExecutor

        return RayExecutor(n_workers=n_workers)
    from robusttc.jobs.processes import ProcessExecutor

    return ProcessExecutor(1 if n_workers is None else n_workers)


@dataclass(slots=True, eq=False)
class Shared:
    """Data for many jobs; the executor gets it when the first job needs it (in a finished run, none does)."""

    data: Any
    executor: Executor
    reference: Any = None


class Runner:
    """Runs jobs on an executor, and keeps their results in a store.

    Parameters
    ----------
    executor
        Where jobs run; None for this process. Whoever made it closes it (or leaves the runner's `with`).
    store
        Finished jobs are looked up there and not run again, results are committed there, a job that fails
        `tries` times is quarantined there and the others go on. None keeps nothing: an error of a job is then
        raised as it is, and a lost worker costs another attempt.
    tries
        Attempts at a job; those before a restart count. Other jobs go first.
    time_limit
        Seconds of running after which a job's worker is stopped.
    stop
        Polled ten times a second; True stops the computation.

    Examples
    --------
    >>> def double(shared, number):
    ...     return Result({"answer": 2 * number + shared})
    >>> runner = Runner()
    >>> [result.values["answer"] for result in runner.run("demo", [Job("a", double, 3)], runner.share(1))]
    [7]
    """

    def __init__(
        self,
        executor: Executor | None = None,
        store: JobStore | None = None,
        *,
        tries: int = 3,
        time_limit: float = TIME_LIMIT_SECONDS,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        check_param("tries", tries, Integer(1))
        self.executor: Executor = InProcessExecutor() if executor is None else executor
        self.store = store
        self.tries = tries
        self.time_limit = time_limit
        self.stop = stop
        self._prefix = ""
        self._stage: str | None = None
        self._cost_stage: str | None = None

    def with_prefix(self, prefix: str, *, stage: str | None = None, cost_stage: str | None = None) -> Self:
        """Return a runner that stores results under other keys, on the same executor and store.

        What a job's key does not contain, the inputs of its stage, goes into the prefix: the same computation
        with other inputs must not find the old results.

        ``multitask/single/3`` becomes ``multitask/PREFIX/single/3``; `stage` takes the place of ``multitask``
        there, and `cost_stage` is what new jobs are counted under, where they are given.
        """
        renamed = copy.copy(self)
        renamed._prefix, renamed._stage, renamed._cost_stage = f"{prefix}/", stage, cost_stage
        return renamed

    def share(self, data: Any) -> Shared:
        """Make data available to many jobs: it is sent once, not with every job."""
        return Shared(data, self.executor)

    def release(self, shared: Shared) -> None:
        """Free shared data."""
        self._check_shared(shared)
        if shared.reference is not None:
            self.executor.release(shared.reference)
            shared.reference = None

    def run(
        self,
        stage: str,
        jobs: Sequence[Job],
        shared: Shared | None = None,
        *,
        on_result: Callable[[Job, Result], None] | None = None,
        progress: Progress | None = None,
        unit: str = "jobs",
    ) -> list[Result | None]:
        """Run jobs that do not depend on each other, in any order, and return their results in this order.

        Parameters
        ----------
        stage
            What they are a part of, for progress and costs.
        jobs
            The jobs; no two with the same key.
        shared
            What `share` returned; the functions of the jobs get the data itself.
        on_result
            Called in this process with every job and its result, as soon as it is committed or looked up.
        progress, unit
            Called with a `ProgressEvent` after every job, counted in these units.

        Returns
        -------
        list of Result or None
            None for a job that is quarantined.

        Raises
        ------
        WorkError
            Without a store: if a job has lost its worker in every attempt.
        Stopped
            If `stop` returned True; what is finished is stored.
        """
        if shared is not None:
            self._check_shared(shared)
        own_stage = self._stage or stage
        by_key = {}
        for job in jobs:
            key = job.key
            if self._prefix:
                key = f"{own_stage}/{self._prefix}{key.removeprefix(f'{stage}/')}"
            if key in by_key:
                raise UsageError("two jobs have the same key", got=quote(job.key))
            by_key[key] = job
        stage = self._cost_stage or own_stage

        def settle(key: str, result: Result | None) -> None:
            job = by_key[key]
            if result is not None and on_result is not None:
                on_result(job, result)
            batch.results[key] = result
            report(progress, stage, len(batch.results), len(jobs), unit, job.tasks[0] if job.tasks else "")

        batch = _Batch(self, stage, by_key, shared, settle)
        report(progress, stage, 0, len(jobs), unit)
        try:
            batch.look_up()
            while len(batch.results) < len(jobs):
                if self.stop():
                    batch.take(self.executor.wait(0.0))
                    raise Stopped
                batch.submit()
                batch.take(self.executor.wait(WAIT_SECONDS))
        except BaseException:
            self.executor.cancel()
            raise
        batch.record_cost()
        return [batch.results[key] for key in by_key]

    def _check_shared(self, shared: Shared) -> None:
        if shared.executor is not self.executor:
            expected = "what `share` of this runner returned"
            raise UsageError("the data was shared by another runner", expected=expected)

    def close(self) -> None:
        """Close the executor."""
        self.executor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True, eq=False)
class _Batch:
    """The jobs of one call by their keys in the store, and how far they are."""

    runner: Runner
    stage: str
    jobs: dict[str, Job]
    shared: Shared | None
    settle: Callable[[str, Result | None], None]  # takes the result of a job; None: it is quarantined
    results: dict[str, Result | None] = field(default_factory=dict)
    waiting: deque[str] = field(default_factory=deque)
    in_flight: set[str] = field(default_factory=set)
    failures: Counter[str] = field(default_factory=Counter)
    unstored: list[Outcome] = field(default_factory=list)  # of jobs whose results are not stored

    def look_up(self) -> None:
        """Settle the jobs that are finished or quarantined; the others wait."""
        store = self.runner.store
        if store is None:
            self.waiting.extend(self.jobs)
            return
        quarantined = set(store.quarantined_keys())
        keys = list(self.jobs)
        for begin in range(0, len(keys), RESULTS_AT_ONCE):
            some = keys[begin : begin + RESULTS_AT_ONCE]
            found = store.find([key for key in some if self.jobs[key].keep])
            for key in some:
                if key in found:
                    self.settle(key, unpack(found.pop(key), where=key))
                elif key in quarantined:
                    self.settle(key, None)
                else:
                    self.waiting.append(key)

    def submit(self) -> None:
        """Keep all workers busy, and no more than that in flight, so that stopping takes no time."""
        executor, shared = self.runner.executor, self.shared
        if shared is not None and shared.reference is None and self.waiting:
            shared.reference = executor.share(shared.data)
        room = JOBS_PER_WORKER * executor.n_workers - len(self.in_flight)
        for _ in range(min(room, len(self.waiting))):
            key = self.waiting.popleft()
            self.in_flight.add(key)
            job = replace(self.jobs[key], key=key)
            executor.submit(job, None if shared is None else shared.reference, self.runner.time_limit)

    def take(self, outcomes: list[Outcome]) -> None:
        """Commit the jobs that are done, all at once, and only then pass their results on."""
        self.in_flight.difference_update(outcome.key for outcome in outcomes)
        done = [(one, unpack(one.content, where=one.key)) for one in outcomes if one.content is not None]
        kept = [(outcome, result) for outcome, result in done if self.jobs[outcome.key].keep]
        if kept and self.runner.store is not None:
            self.runner.store.commit(self.stage, kept)
        self.unstored += [outcome for outcome, _ in done if not self.jobs[outcome.key].keep]
        for outcome, result in done:
            self.settle(outcome.key, result)
        for outcome in outcomes:
            if outcome.content is None:
                self.fail(outcome)

    def fail(self, outcome: Outcome) -> None:
        """Let a job be tried again after all others, or quarantine it."""
        key, job, store = outcome.key, self.jobs[outcome.key], self.runner.store
        self.waiting.append(key)
        if self.runner.stop():
            return  # the signal may have reached the workers, too: that they die of it is no failure
        self.failures[key] += 1
        if store is None:
            if outcome.kind == "raised" or self.failures[key] >= self.runner.tries:
                raise outcome.exception or WorkError(
                    "a job has failed",
                    where=f"job {key}",
                    got=outcome.error,
                    todo="if memory is short, use fewer workers" if outcome.kind == "died" else None,
                )
            return
        # The store could not tell when jobs that it does not keep succeed after all.
        n_failures = store.failures(key) + 1 if job.keep else self.failures[key]
        is_last = n_failures >= self.runner.tries
        store.record_failure(self.stage, key, outcome.error or outcome.kind, job.tasks, is_last=is_last)
        if is_last:
            self.waiting.remove(key)
            self.settle(key, None)

    def record_cost(self) -> None:
        """Record what jobs have cost whose results are not stored."""
        if self.unstored and self.runner.store is not None:
            self.runner.store.add_cost(
                self.stage,
                n_jobs=len(self.unstored),
                cpu_seconds=sum(outcome.cpu_seconds for outcome in self.unstored),
                peak_bytes=max(outcome.peak_bytes for outcome in self.unstored),
            )
