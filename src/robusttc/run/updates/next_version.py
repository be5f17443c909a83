"""The next version of a run: who writes it, what it would change, and what it must not break.

A change works beside the version that answers, in one file of finished jobs. Killed, the same command goes on
from there, or ``--give-up`` drops the file: nobody has seen anything of it. Before a version is published,
its predictions are compared with those of the one before: a prediction that differs is a *flip*. Models that
stay the same objects have none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, make_encoder
from robusttc.errors import StoreError, UsageError, VersionRefusedError, quote
from robusttc.formatting import count
from robusttc.progress import Progress
from robusttc.run.evaluation import Evaluation, TaskFigures
from robusttc.run.fit import FitContext, make_runner, stop_in
from robusttc.run.folder import FolderWriter
from robusttc.run.outputs import ClusterRow
from robusttc.run.predict import TaskPredictor
from robusttc.run.run import Run
from robusttc.run.settings import Execution, FitSettings, make_settings
from robusttc.run.store import JobStore
from robusttc.run.task_files import hash_name, pack_task, read_examples, unpack_task
from robusttc.run.version import Change, Version

__all__ = [
    "Flip",
    "Judgement",
    "Limits",
    "PendingChangeError",
    "Update",
    "count_clusters",
    "give_up",
    "judge_version",
    "list_names",
    "must_pass_file",
    "read_must_pass",
    "refuse_pending",
    "with_figures",
]

CHANGE = "change"  # the fact of the job store that says which change is under way
VERBS = {"add": "adding", "remove": "removing"}
REQUIRED = "must_pass"
MAX_LISTED = 10


class PendingChangeError(UsageError):
    """A change of the run was begun and is not finished."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A text that the next version labels otherwise than the one before."""

    task: str
    text: str
    label: str  # the right one
    before: str | None  # what was predicted; None where the task was not there
    after: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What the next version must not break.

    Attributes
    ----------
    max_flips
        How many predictions on held-out rows may differ from those of the version before; None for all.
    must_pass
        Examples that must be predicted right. They stay with the run, so later versions must pass them too;
        those of a task take the place of the ones that it had.
    """

    max_flips: int | None = None
    must_pass: TaskSet = field(default_factory=lambda: TaskSet(()))

    def __post_init__(self) -> None:
        most = self.max_flips
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
            raise UsageError("max_flips cannot be used", got=quote(most), expected="an integer from 0 up")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the next version changes: flips on held-out rows, and the examples that it passes."""

    flips: tuple[Flip, ...] = ()
    must_pass: TaskSet = field(default_factory=lambda: TaskSet(()))

    @property
    def n_flips(self) -> dict[str, int]:
        """The number of flips per task."""
        names = [flip.task for flip in self.flips]
        return {name: names.count(name) for name in sorted(set(names))}


class Update:
    """A change of a run that is under way: `begin` makes one."""

    def __init__(self, writer: FolderWriter, run: Run) -> None:
        self.writer, self.run = writer, run
        self.doubts: list[str] = []

    @classmethod
    @contextmanager
    def begin(cls, folder: str | os.PathLike[str]) -> Iterator[Update]:
        """Yield a change of a run; until the block ends nobody else can change it."""
        with FolderWriter(folder) as writer:
            yield cls(writer, Run(folder))

    @property
    def store(self) -> JobStore:
        """The finished jobs of the change."""
        return self.writer.jobs()

    @property
    def number(self) -> int:
        """The number of the version that is made."""
        return self.writer.next_number

    @property
    def settings(self) -> FitSettings:
        """The settings of the fit."""
        return settings_of(self.run)

    def claim(self, kind: str, tasks: Mapping[str, str]) -> None:
        """Note which change this is; refuse it where another one is under way."""
        wanted = {"kind": kind, "tasks": dict(tasks)}
        refuse_pending(self.writer, wanted)
        self.store.set_fact(CHANGE, wanted)

    @contextmanager
    def working(
        self, execution: Execution | None, progress: Progress | None, stop: Callable[[], bool]
    ) -> Iterator[FitContext]:
        """Yield what stages need; their results are kept, and what was doubtful is noted."""
        with make_runner(self.store, execution or Execution(), stop=stop) as runner:
            yield FitContext(self.store, runner, self.settings, stop_in(progress, stop), self.doubts)

    def encoder(self) -> Encoder:
        """Return the encoder of the run, as it was then."""
        settings = self.settings
        encoder = make_encoder(
            settings.encoder, vectors=settings.vectors, model=settings.model, device=settings.device
        )
        then = self.run.version.identity["settings"].get("encoder_files")
        if then is not None and encoder.fingerprint != then:
            raise StoreError(
                "the encoder is not the one that the run was made with",
                where=quote(str(settings.model or settings.vectors or "the default one")),
                got=f"fingerprint {encoder.fingerprint[:12]}",
                expected=f"fingerprint {then[:12]}",
                todo="bring back its files",
            )
        return encoder

    def identity(self, new: Mapping[str, str], *, gone: Iterable[str] = ()) -> dict[str, Any]:
        """Return what the next version is a run of: with some tasks more, and without some."""
        before = self.run.version.identity
        left_out = set(gone)
        tasks = {name: value for name, value in before["tasks"].items() if name not in left_out}
        private = [name for name in before["settings"].get("private", ()) if name not in left_out]
        return {
            **before,
            "settings": {**before["settings"], "private": private},
            "tasks": {**tasks, **new},
        }

    def save_folder(self, name: str, save: Callable[[Path], object]) -> Path:
        """Have a folder of the next version written anew, and return it."""
        folder = self.writer.staging / name
        shutil.rmtree(folder, ignore_errors=True)
        save(folder)
        return folder

    def publish(
        self, change: Change, judgement: Judgement, identity: Mapping[str, Any], **erasure: Any
    ) -> Version:
        """Publish what was written; `erasure` is what `FolderWriter.publish` erases of older versions."""
        for task in judgement.must_pass:
            self.writer.write(must_pass_file(task.name), pack_task(task))
        costs = self.store.costs()
        done = replace(
            change,
            seconds=sum(cost.wall_seconds for cost in costs),
            flips=judgement.n_flips,
            details={**change.details, "costs": [asdict(cost) for cost in costs]},
        )
        libraries = self.run.version.libraries
        return self.writer.publish(done, identity=identity, libraries=libraries, **erasure)


def pending_change(writer: FolderWriter) -> dict[str, Any] | None:
    """Return the change that was begun and is not finished."""
    if not writer.jobs_path(writer.next_number).exists():
        return None
    found: dict[str, Any] | None = writer.jobs().fact(CHANGE)
    return found


def refuse_pending(writer: FolderWriter, wanted: Mapping[str, Any] | None = None) -> None:
    """Refuse to change a run while another change than the wanted one is begun and not finished."""
    found, where = pending_change(writer), repr(str(writer.path))
    if found is not None and found != wanted:
        raise PendingChangeError(
            "another change of the run is under way",
            where=where,
            got=f"{VERBS[found['kind']]} {list_names(found['tasks'])}",
            todo=f"repeat that command to finish it, or drop it with: robusttc {found['kind']} RUN --give-up",
        )
    if writer.jobs_path(writer.next_number).exists() and writer.jobs().fact("identity") is not None:
        raise PendingChangeError(
            "a fit is being tried again", where=where, todo="finish it first: repeat the fit with --retry"
        )


def give_up(folder: str | os.PathLike[str]) -> tuple[str, tuple[str, ...]]:
    """Drop a change that is not finished: the run is as it was before.

    Returns
    -------
    tuple
        The kind of the change, and the names of its tasks.

    Raises
    ------
    UsageError
        If none is under way.
    StoreError
        If another process works on the run.
    """
    with FolderWriter(folder) as writer:
        found = pending_change(writer)
        if found is None:
            where = repr(str(writer.path))
            raise UsageError("no change is under way", where=where, expected="one that was stopped")
        writer.give_up()
    return found["kind"], tuple(sorted(found["tasks"]))


def settings_of(run: Run) -> FitSettings:
    """Return the settings of a run; one of another version of robusttc may have others."""
    try:
        settings: FitSettings = make_settings(FitSettings, run.summary["configuration"])
    except UsageError as error:
        raise StoreError(
            "the settings of the run cannot be used",
            where=repr(str(run.folder)),
            got=str(error),
            todo="use the robusttc that made the run",
        ) from error
    return settings


def must_pass_file(name: str) -> str:
    """Return the path of the must-pass examples of a task in a version."""
    return f"{REQUIRED}/{hash_name(name)}.parquet"


def read_must_pass(version: Version) -> TaskSet:
    """Return the must-pass examples of all tasks that have some."""
    names = version.names(REQUIRED)
    return TaskSet(unpack_task(version.read(name), version.path(name)) for name in names)


def judge_version(
    run: Run, after: Mapping[str, TaskPredictor], limits: Limits, *, gone: Iterable[str] = ()
) -> Judgement:
    """Compare the predictions of the next version with those of the one that answers.

    Parameters
    ----------
    run
        The version that answers.
    after
        What predicts in the next version, for the tasks whose models are new.
    limits
        What it must not break.
    gone
        Tasks that the next version does not have.

    Raises
    ------
    UsageError
        If there are must-pass examples of a task that the next version does not have.
    VersionRefusedError
        If the next version breaks a limit; it lists the first examples.
    """
    flips = [
        flip for name in sorted(after) if name in run.task_names for flip in find_flips(run, after, name)
    ]
    names = {*run.task_names, *after} - set(gone)
    kept = [task for task in read_must_pass(run.version) if task.name in names - set(limits.must_pass.names)]
    unknown = [name for name in limits.must_pass.names if name not in names]
    if unknown:
        raise UsageError(
            "there are must-pass examples of tasks that the run does not have", got=list_names(unknown)
        )
    failed: list[Flip] = []
    for task in (*kept, *limits.must_pass):
        # Examples that were there have passed before; a model that is the same passes them again.
        if task.name in after or task.name in limits.must_pass:
            predictor = after[task.name] if task.name in after else run.predictor(task.name)
            labels = predictor.predict(list(task.texts)).labels
            failed += [
                Flip(task.name, text, label, None, found)
                for text, label, found in zip(task.texts, task.labels.tolist(), labels.tolist(), strict=True)
                if found != label
            ]
    refuse(failed, flips, limits.max_flips)
    return Judgement(tuple(flips), TaskSet([*kept, *limits.must_pass]))


def find_flips(run: Run, after: Mapping[str, TaskPredictor], name: str) -> list[Flip]:
    """Return the held-out texts of a task that are labelled otherwise than before.

    Where the task is damaged, nothing was predicted before: a new version of it mends that.
    """
    try:
        task = read_examples(run.version, name) if name in run.adapted_names else run.rows_of(name)
        run.predictor(name)
    except StoreError:
        return []
    rows = held_out_rows(task)
    texts = list(task.texts_at(rows))
    if not texts:
        return []
    labels = task.labels[rows].tolist()
    before, now = run.predictor(name).predict(texts).labels, after[name].predict(texts).labels
    return [
        Flip(name, text, label, old, new)
        for text, label, old, new in zip(texts, labels, before.tolist(), now.tolist(), strict=True)
        if old != new
    ]


def held_out_rows(task: Task) -> NDArray[np.intp]:
    """Return the rows in ``test``, or ``valid`` without such; of a task with neither, all."""
    found = (task.rows("test"), task.rows("valid"), np.arange(len(task)))
    return next(rows for rows in found if len(rows) or rows is found[-1])


def refuse(failed: Sequence[Flip], flips: Sequence[Flip], max_flips: int | None) -> None:
    """Refuse a version that breaks something, and list what."""
    if failed:
        what = f"{count(len(failed), 'must-pass example')} would be predicted wrong"
        lines = [f"{quote(one.after)} in place of {quote(one.label)}" for one in failed]
        broken, option = failed, "--must-pass"
    elif max_flips is not None and len(flips) > max_flips:
        what = f"{count(len(flips), 'prediction')} on held-out rows would change, where {max_flips:,} may"
        lines = [f"{quote(one.before)} before, {quote(one.after)} now ({quote(one.label)})" for one in flips]
        broken, option = flips, "--max-flips"
    else:
        return
    shown = [
        f"  {quote(one.task)}: {quote(one.text)}: {line}"
        for one, line in zip(broken[:MAX_LISTED], lines, strict=False)
    ]
    if len(broken) > MAX_LISTED:
        shown.append(f"  … and {len(broken) - MAX_LISTED:,} more")
    shown.append(
        f"What to do: repeat the command with another {option}, or drop the change with --give-up; the work "
        "so far is kept"
    )
    raise VersionRefusedError("\n".join([f"the next version is not published: {what}:", *shown]))


def with_figures(
    evaluation: Evaluation, figures: Iterable[TaskFigures], *, without: Iterable[str] = ()
) -> dict[str, Any]:
    """Return an evaluation with more tasks, and without some, as values for JSON."""
    new = list(figures)
    gone = {*without, *(one.task for one in new)}
    return Evaluation.of([*(one for one in evaluation.tasks if one.task not in gone), *new]).to_dict()


def count_clusters(summary: Mapping[str, Any], rows: Iterable[ClusterRow]) -> dict[str, Any] | None:
    """Return what a summary says of clusters with the numbers of tasks up to date."""
    found: dict[str, Any] | None = summary["clusters"]
    if found is None:
        return None
    numbers = [row.cluster for row in rows if row.confidence is not None]  # of those that were looked at
    # A cluster whose last task has gone keeps its number, and has no tasks.
    n_numbers = max([len(found["sizes"]), *(number + 1 for number in numbers)])
    sizes = [numbers.count(number) for number in range(n_numbers)]
    return {**found, "sizes": sizes, "n": sum(size > 0 for size in sizes), "n_without": numbers.count(-1)}


def list_names(names: Iterable[str], *, most: int = 5) -> str:
    """Return some names, sorted.

    >>> list_names(["b", "a"])
    "'a', 'b'"
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - most:,} more" if len(ordered) > most else ""
    return ", ".join(quote(name) for name in ordered[:most]) + more
