"""The models of tasks that were added to a finished run, each in a folder of its own."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from robusttc.files import explain_disk_errors, make_folder
from robusttc.multitask import AddedTask, ClusterMultiTask, load_added, save_added, serve_added
from robusttc.run.places import ADDED_MODELS, MULTITASK

__all__ = ["AddedModels"]


class AddedModels:
    """The models of added tasks. A name may be anything: folders are named by its hash.

    Each has only what is the task's own; the layers below are those of the run's models, which it names.

    Parameters
    ----------
    run
        The run's folder.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self.folder = run / ADDED_MODELS

    def place(self, name: str) -> Path:
        """Give the folder of a task."""
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:32]

    @property
    def base(self) -> str:
        """What the models of the run are known by."""
        path = self.run / MULTITASK / "manifest.json"
        with explain_disk_errors("the models of the run cannot be read", path):
            return hashlib.sha256(path.read_bytes()).hexdigest()

    def save(self, later: AddedTask) -> None:
        """Keep a task, in the place of one of the same name."""
        make_folder(self.folder)
        save_added(later, self.place(later.task.name), base=self.base)

    def read(self, name: str, *, device: str = "cpu") -> AddedTask:
        """Read what is the task's own.

        Raises
        ------
        StoreError
            If it is damaged, or belongs to other models than those of the run.
        """
        return load_added(self.place(name), base=self.base, device=device)

    def load(self, name: str, multitask: ClusterMultiTask) -> ClusterMultiTask:
        """Give a model that knows this one task, on top of that of the run.

        Raises
        ------
        StoreError
            As `read`.
        """
        added = self.read(name, device=multitask.device)
        return multitask.with_predictor(serve_added(multitask.predictor_, added))

    def move_to_base(self, names: Iterable[str]) -> None:
        """Let tasks belong to the run's models as they are now, whose layers are the same as before."""
        for name in names:
            self.save(load_added(self.place(name), base=None))

    def remove(self, names: Iterable[str]) -> None:
        """Remove tasks; those that are not there are gone already."""
        for name in names:
            place = self.place(name)
            # Hidden ones beside it are what killed writers left.
            for path in [place, *self.folder.glob(f".{place.name}.*")]:
                shutil.rmtree(path, ignore_errors=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()
