"""Tasks that were added to a finished run with a handful of examples, each in a folder of its own."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from robusttc.data.loading import advise, find_sources, read_source
from robusttc.data.options import ReadOptions
from robusttc.data.problems import Problems
from robusttc.data.rows import NO_SPLIT, TaskRows
from robusttc.data.task import Task
from robusttc.errors import DataError, StoreError, TaskFilesError, quote
from robusttc.fewshot.model import FewShotModel
from robusttc.files import make_folder
from robusttc.run.places import ADAPTED

__all__ = ["AdaptedModels", "read_examples"]


class AdaptedModels:
    """The added tasks of a run. A name may be anything: folders are named by its hash.

    Parameters
    ----------
    run
        The run's folder.
    """

    def __init__(self, run: Path) -> None:
        self.folder = run / ADAPTED

    def place(self, name: str) -> Path:
        """Give the folder of a task."""
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:32]

    def has(self, name: str) -> bool:
        """Tell whether there is such a task."""
        return self.place(name).is_dir()

    def names(self) -> list[str]:
        """Give the names of all added tasks; a damaged one has none here, and says so when it is loaded."""
        found = []
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            if path.is_dir() and not path.name.startswith("."):
                try:
                    found.append(FewShotModel.load(path).name)
                except StoreError:
                    continue
        return sorted(found)

    def save(self, model: FewShotModel) -> None:
        """Keep a model, in the place of one of the same name."""
        make_folder(self.folder)
        model.save(self.place(model.name))

    def remove(self, names: Iterable[str]) -> None:
        """Remove tasks; those that are not there are gone already."""
        for name in names:
            shutil.rmtree(self.place(name), ignore_errors=True)

    def load(self, name: str, *, device: str = "cpu") -> FewShotModel:
        """Read the model of a task.

        Raises
        ------
        StoreError
            If it is damaged, or of another name.
        """
        place = self.place(name)
        model = FewShotModel.load(place, device=device)
        if model.name != name:
            raise StoreError(
                "the model is of another task",
                where=repr(str(place)),
                got=quote(model.name),
                expected=quote(name),
            )
        return model


def read_examples(path: Path, name: str, options: ReadOptions | None = None) -> Task:
    """Read the examples of one new task. Without a column of splits, all of them are for training.

    Parameters
    ----------
    path
        A file in one of the formats of task files.
    name
        The name of the new task, whatever the file is called.
    options
        How the file is read.

    Raises
    ------
    TaskFilesError
        If anything is wrong with the file; it lists every problem with its place.
    DataError
        If there is no such file, or it has several tasks.
    """
    options = options or ReadOptions(allow_incomplete=True)
    problems = Problems()
    collected: dict[str, TaskRows] = {}
    with problems.catching(str(path)):
        if path.is_dir():
            raise DataError("a folder where a file was meant", where=quote(str(path)), expected="one file")
        sources, _ = find_sources(path, problems)
        for source, file_format in sources:
            read_source(source, file_format, options, problems, collected)
    if len(collected) > 1:
        raise DataError(
            "the file has several tasks",
            where=str(path),
            got=", ".join(quote(task) for task in list(collected)[:3]),
            expected="the examples of one task",
        )
    rows = next(iter(collected.values()), None)
    has_splits = rows is not None and any(code != NO_SPLIT for code in rows.split_codes)
    task = None if rows is None else rows.finish(options, problems)
    if problems.n_all or task is None:
        raise TaskFilesError(problems.first, problems.n_all, todo=advise(problems))
    splits = task.splits.tolist() if has_splits else None
    return Task(name, task.texts, task.labels.tolist(), splits)
