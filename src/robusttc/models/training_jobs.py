"""The jobs of one training: shared inputs are sent to the workers once, progress is one count."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

from robusttc.data import Task
from robusttc.errors import DoubtWarning, WorkError, quote
from robusttc.jobs import Job, Result, Runner, Shared
from robusttc.progress import Progress, ProgressEvent, report
from robusttc.random import child_seed

# Which rows the models that serve are trained on, see `refit_splits`.
Refit = Literal["auto", "train", "valid", "all"]
REFIT_SPLITS = {"train": ("train",), "valid": ("train", "valid"), "all": ("train", "valid", "test")}
# So many tasks are named in a warning.
MAX_NAMED = 5


class TrainingJobs:
    """Runs the jobs of one training and reports their progress as one count.

    Without a runner they run in this process. `total` is how many jobs there will be at most, and may grow;
    `finish` reports that all are done.

    Examples
    --------
    >>> def add(inputs, number):
    ...     return Result({"sum": inputs + number})
    >>> with TrainingJobs("demo") as jobs:
    ...     jobs.set_inputs(40)
    ...     jobs.run([Job("demo/2", add, 2)])[0].values
    {'sum': 42}
    """

    def __init__(
        self,
        stage: str,
        runner: Runner | None = None,
        *,
        progress: Progress | None = None,
        total: int = 0,
        unit: str = "models",
    ) -> None:
        self.stage, self.runner = stage, runner or Runner()
        self.progress, self.total, self.unit = progress, total, unit
        self._n_done = 0
        self._inputs: Any = None
        self._shared: Shared | None = None

    def set_inputs(self, inputs: Any) -> None:
        """Set what the next jobs all see; it is sent when the first of them runs."""
        if inputs is not self._inputs:
            self.close()
            self._inputs = inputs

    def run(self, jobs: Sequence[Job]) -> list[Result | None]:
        """Run jobs; see `robusttc.jobs.Runner.run`."""
        if not jobs:
            return []
        if self._shared is None:
            self._shared = self.runner.share(self._inputs)
        before = self._n_done
        self._n_done += len(jobs)

        def tell(event: ProgressEvent) -> None:
            # A job that failed is run again in parts: the last ones may be more than were counted.
            done = min(before + event.done, self.total)
            report(self.progress, self.stage, done, self.total, self.unit, event.detail)

        progress = None if self.progress is None else tell
        return self.runner.run(self.stage, jobs, self._shared, progress=progress, unit=self.unit)

    def finish(self) -> None:
        """Report that all jobs are done."""
        report(self.progress, self.stage, self.total, self.total, self.unit)

    def close(self) -> None:
        """Release the shared inputs."""
        if self._shared is not None:
            self.runner.release(self._shared)
        self._shared = self._inputs = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refit_splits(task: Task, refit: Refit) -> tuple[str, ...]:
    """Return the splits of a task that the models which serve are trained on.

    ``auto``: all where the splits were drawn when the task was read, else ``train`` and ``valid``.

    Examples
    --------
    >>> refit_splits(Task("acme", ["hi"], ["greet"]), "auto")
    ('train', 'valid')
    """
    if refit == "auto":
        refit = "all" if task.splits_drawn else "valid"
    return REFIT_SPLITS[refit]


def name_tasks(names: Sequence[str]) -> str:
    """Return a short name of some tasks that no others have, for the keys of jobs.

    Examples
    --------
    >>> name_tasks(["acme"]), name_tasks(["a", "b"])
    ('task acme', 'tasks 2 02184ac6fda6a635')
    """
    if len(names) == 1:
        return f"task {names[0]}"
    return f"tasks {len(names)} {child_seed(0, 'unit', names):016x}"


def require_result(what: str, job: Job, result: Result | None) -> Result:
    """Return the result of a job without which training cannot go on."""
    if result is None:
        raise WorkError(
            f"{what} could not be trained",
            where=f"unit {job.key}",
            got=f"failure in every try, with {len(job.tasks):,} tasks",
            todo="look at the error of the unit; leave out the task that it is about, or try again",
        )
    return result


def warn_about_tasks(what: str, names: Iterable[str]) -> None:
    """Warn about something that could not be done for some tasks, if there are any."""
    listed = sorted(set(names))
    if not listed:
        return
    more = f" and {len(listed) - MAX_NAMED:,} more" if len(listed) > MAX_NAMED else ""
    shown = ", ".join(quote(name) for name in listed[:MAX_NAMED])
    warnings.warn(f"{what}: {shown}{more}", DoubtWarning, stacklevel=3)
