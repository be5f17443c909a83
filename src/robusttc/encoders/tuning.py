"""One setting of the training for all tasks, chosen by the mean accuracy on their validation rows.

Choosing for every task by its own few dozen validation rows would choose by chance; the mean over many tasks
does not. Deviation: the paper takes the accuracy on the union of all validation rows; we take the mean over
tasks, so that a few large tasks do not decide for many small ones.

The rule of choice compares settings on the same tasks, with the same seeds. Of all settings within one
standard error of the best (of the paired difference, over tasks) the first counts, and the first of all is
the one that was given as `base`. So the default stays unless another is better beyond what chance explains.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders.choosing import make_encoder
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.single_task import train_single_task
from robusttc.errors import DataError, UsageError, quote
from robusttc.progress import Progress, report
from robusttc.random import RandomState, numpy_generator, run_seed

__all__ = ["DENSE_GRID", "WORD_GRID", "Grid", "TunedSetting", "TuningResult", "tune"]

Grid = Mapping[str, Sequence[Any]] | Sequence[TrainingSettings]

WORD_GRID: Mapping[str, Sequence[Any]] = {
    "embeddings": ("frozen", "pretrained"),
    "window": (5, 3),
    "width": (200, 400),
    "learning_rate": (3e-3, 1e-3),
}
DENSE_GRID: Mapping[str, Sequence[Any]] = {
    "width": (200, 400),
    "learning_rate": (3e-3, 1e-3),
    "dropout": (0.5, 0.2),
}

# With fewer there is no standard error.
MIN_TASKS = 2


@dataclass(frozen=True, slots=True)
class TunedSetting:
    """How well one setting did.

    Attributes
    ----------
    settings
        The setting.
    mean_accuracy, standard_error
        Of the accuracy on validation rows, over tasks.
    n_tasks
        How many tasks there were.
    shortfall, shortfall_error
        How far the mean is below that of the best setting, and the standard error of this difference, paired
        by tasks. A setting may be chosen if the first is at most the second.
    """

    settings: TrainingSettings
    mean_accuracy: float
    standard_error: float
    n_tasks: int
    shortfall: float
    shortfall_error: float


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The chosen setting, and the table of all of them in the order in which they were preferred."""

    best: TrainingSettings
    table: tuple[TunedSetting, ...]


@dataclass(frozen=True, eq=False)
class TuningPlan:
    """What all units of work share."""

    tasks: TaskSet
    prepared: PreparedTasks
    candidates: tuple[TrainingSettings, ...]
    seed: int
    device: str


def tune(
    tasks: TaskSet,
    *,
    encoder: str | Encoder,
    grid: Grid | None = None,
    base: TrainingSettings | None = None,
    random_state: RandomState = 0,
    max_tasks: int = 40,
    n_workers: int = 1,
    device: str = "cpu",
    progress: Progress | None = None,
) -> TuningResult:
    """Choose one setting for all tasks; see the module for the rule. Test rows are not looked at.

    Parameters
    ----------
    tasks
        The tasks. Those without validation rows, or with fewer than two labels in ``train``, are left out.
    encoder
        ``sentence``, ``cnn``, or an encoder.
    grid
        What to try: the values of each setting by its name, of which all combinations are tried; or the
        settings themselves. None takes `WORD_GRID` or `DENSE_GRID`, by the kind of the encoder. The order is
        that of preference, so put what is cheaper first.
    base
        What the grid changes, and what is preferred to all of it; None takes the default settings.
    random_state
        The seed of the choice of tasks and of all models.
    max_tasks
        How many tasks are drawn, if there are more.
    n_workers
        1 works here; more start so many processes. The result is the same.
    device
        Where models are trained.
    progress
        Is told after every model.

    Raises
    ------
    UsageError
        If a setting or an option cannot be used.
    DataError
        If fewer than two tasks can be used.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> rows = (["hi", "bye"] * 3, ["greet", "leave"] * 3, ["train"] * 4 + ["valid"] * 2)
    >>> tasks = TaskSet([Task("a", *rows), Task("b", *rows)])
    >>> encoder = FeatureEncoder({name: np.tile(np.eye(2), (3, 1)) for name in tasks.names})
    >>> result = tune(tasks, encoder=encoder, grid={"width": [8, 4]}, base=TrainingSettings(width=8))
    >>> result.best.width, [row.mean_accuracy for row in result.table]
    (8, [1.0, 1.0])
    """
    for name, value, smallest in (("max_tasks", max_tasks, MIN_TASKS), ("n_workers", n_workers, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            raise UsageError(
                f"{name} cannot be used", got=quote(value), expected=f"an integer from {smallest} up"
            )
    seed = run_seed(random_state)
    base = TrainingSettings() if base is None else base
    if grid is not None:
        make_candidates(grid, base)  # refused before the frozen part is computed
    chosen = choose_tasks(tasks, max_tasks=max_tasks, seed=seed)
    prepared = make_encoder(encoder).prepare(chosen, splits=("train", "valid"), progress=progress)
    if grid is None:
        grid = WORD_GRID if isinstance(prepared.inputs, WordInputs) else DENSE_GRID
    plan = TuningPlan(chosen, prepared, make_candidates(grid, base), seed, device)
    accuracies = np.zeros((len(plan.candidates), len(chosen)))
    report(progress, "tuning", 0, accuracies.size, "models")
    for done, (number, accuracy) in enumerate(measure_all(plan, accuracies.size, n_workers), start=1):
        accuracies.flat[number] = accuracy
        report(progress, "tuning", done, accuracies.size, "models", chosen.names[number % len(chosen)])
    table = compare(plan.candidates, accuracies)
    best = next(row.settings for row in table if row.shortfall <= row.shortfall_error)
    return TuningResult(best, table)


def make_candidates(grid: Grid, base: TrainingSettings) -> tuple[TrainingSettings, ...]:
    """Give all settings to try, each once, the base first."""
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            base.replace(**{name: getattr(base, name, None)})  # refuses an unknown name
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise UsageError(
                    "the values of a setting cannot be tried",
                    where=f"grid, {quote(name)}",
                    got=quote(values),
                    expected="a list of at least one value",
                )
        changes = (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
        return tuple(dict.fromkeys([base, *(base.replace(**change) for change in changes)]))
    for settings in grid:
        if not isinstance(settings, TrainingSettings):
            raise UsageError("this is no setting", got=quote(settings), expected="TrainingSettings")
    return tuple(dict.fromkeys([base, *grid]))


def choose_tasks(tasks: TaskSet, *, max_tasks: int, seed: int) -> TaskSet:
    """Draw tasks that can be trained and validated; which ones does not depend on the order of the tasks."""
    usable = sorted(
        task.name
        for task in tasks
        if len(task.rows("valid")) and len(np.unique(task.label_codes[task.rows("train")])) > 1
    )
    if len(usable) < MIN_TASKS:
        raise DataError(
            "there are too few tasks to compare settings on",
            got=f"{len(usable)} of {len(tasks)} tasks with validation rows and two labels in 'train'",
            expected=f"at least {MIN_TASKS}",
        )
    if len(usable) > max_tasks:
        generator = numpy_generator(seed, "tuning tasks")
        usable = sorted(usable[place] for place in generator.permutation(len(usable))[:max_tasks])
    return tasks.subset(usable)


def measure_all(plan: TuningPlan, n_units: int, n_workers: int) -> Iterator[tuple[int, float]]:
    """Give the number and the accuracy of every unit of work, as they are done."""
    if n_workers == 1:
        with threadpool_limits(limits=1):
            for number in range(n_units):
                yield number, measure_one(plan, number)
        return
    # Spawned, not forked: a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(
        n_workers, mp_context=get_context("spawn"), initializer=start_worker, initargs=(plan,)
    )
    try:
        futures = {pool.submit(measure_here, number): number for number in range(n_units)}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


# The plan of this worker process: sent once, not with every unit.
_plan_here: list[TuningPlan] = []


def start_worker(plan: TuningPlan) -> None:
    """Keep the plan, and pin the linear algebra to one thread."""
    _plan_here[:] = [plan]
    threadpool_limits(limits=1)


def measure_here(number: int) -> float:
    """Do one unit in a worker process."""
    return measure_one(_plan_here[0], number)


def measure_one(plan: TuningPlan, number: int) -> float:
    """Train one task with one setting, and give the accuracy on its validation rows."""
    candidate, place = divmod(number, len(plan.tasks))
    task: Task = plan.tasks[plan.tasks.names[place]]
    # The seed is the same for all settings: the comparison is paired.
    model = train_single_task(
        task, plan.prepared, settings=plan.candidates[candidate], seed=plan.seed, device=plan.device
    )
    rows = task.rows("valid")
    predicted = model.predict_codes(plan.prepared.inputs_of(task.name, rows))
    return float((predicted == task.label_codes[rows]).mean())


def compare(
    candidates: Sequence[TrainingSettings], accuracies: NDArray[np.float64]
) -> tuple[TunedSetting, ...]:
    """Make the table, from accuracies of shape (settings, tasks)."""
    n_tasks = accuracies.shape[1]
    means = accuracies.mean(axis=1)
    differences = accuracies[means.argmax()] - accuracies

    def errors(values: NDArray[np.float64]) -> list[float]:
        return (values.std(axis=1, ddof=1) / np.sqrt(n_tasks)).tolist()  # type: ignore[no-any-return]

    columns = (means.tolist(), errors(accuracies), differences.mean(axis=1).tolist(), errors(differences))
    return tuple(
        TunedSetting(settings, mean, error, n_tasks, shortfall, shortfall_error)
        for settings, mean, error, shortfall, shortfall_error in zip(candidates, *columns, strict=True)
    )
