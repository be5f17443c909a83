"""The folder of a demo: what is where in it, and whether it may be used."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from robusttc.data import Task, TaskSet, write_tasks
from robusttc.errors import StoreError, UsageError, quote
from robusttc.files import write_file

__all__ = ["DemoFolder"]

FORMAT = "robusttc demo"
NOTE = "demo.json"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """Where a demo puts things.

    Parameters
    ----------
    folder
        The folder.

    Examples
    --------
    >>> DemoFolder(Path("demo")).run.as_posix()
    'demo/run'
    """

    folder: Path

    @property
    def tasks(self) -> Path:
        """The planted tasks, one file each."""
        return self.folder / "tasks"

    @property
    def run(self) -> Path:
        """What `robusttc fit` makes of them."""
        return self.folder / "run"

    @property
    def new_task(self) -> Path:
        """The examples of a task that comes later."""
        return self.folder / "new-task.csv"

    @property
    def new_texts(self) -> Path:
        """Other rows of that task, to try it on."""
        return self.folder / "new-task-test.csv"

    def claim(self, *, n_tasks: int, seed: int) -> None:
        """Take a new or empty folder, or that of the same demo; a note in it says which demo it is.

        Raises
        ------
        UsageError
            If something else is there, or it cannot be written to.
        """
        note = self.folder / NOTE
        wanted = {"format": FORMAT, "n_tasks": n_tasks, "seed": seed}
        if note.is_file():
            refuse_other_demo(note, wanted)
            return
        if self.folder.is_dir():
            found = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
            if found:
                raise UsageError(
                    "the folder holds other files",
                    where=quote(str(self.folder)),
                    got=quote(found[0]),
                    todo="give a new or empty folder with --out",
                )
        put(note, json.dumps(wanted, indent=2) + "\n")

    def write(self, tasks: TaskSet, examples: Task, test: Task) -> None:
        """Write what is not there yet; files that somebody has changed stay as they are."""
        missing = [task for task in tasks if not (self.tasks / f"{task.name}.csv").exists()]
        write_tasks(TaskSet(missing), self.tasks)
        for path, task in ((self.new_task, examples), (self.new_texts, test)):
            if not path.exists():
                put(path, as_csv(task))


def refuse_other_demo(note: Path, wanted: dict[str, object]) -> None:
    """Refuse a folder whose note is of another demo."""
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found == wanted:
        return
    is_ours = isinstance(found, dict) and found.get("format") == FORMAT
    raise UsageError(
        "the folder holds another demo" if is_ours else "the folder holds other files",
        where=quote(str(note.parent)),
        got=f"--tasks {found.get('n_tasks')} --seed {found.get('seed')}" if is_ours else quote(note.name),
        expected=f"--tasks {wanted['n_tasks']} --seed {wanted['seed']}" if is_ours else None,
        todo="give another folder with --out",
    )


def as_csv(task: Task) -> str:
    """Write a task as CSV without splits."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["text", "label"])
    writer.writerows(zip(task.texts, task.labels.tolist(), strict=True))
    return stream.getvalue()


def put(path: Path, content: str) -> None:
    """Write a file; where that fails, it is the folder that was given that cannot be used."""
    try:
        write_file(path, content.encode())
    except StoreError as error:
        raise UsageError(error.what, where=error.where, got=error.got, todo=error.todo) from None
