"""Tasks that were added to a finished run with a handful of examples, each in a folder of its own."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from robusttc.errors import StoreError, quote
from robusttc.fewshot import FewShotModel
from robusttc.files import make_folder
from robusttc.run.places import ADAPTED

__all__ = ["AdaptedModels"]


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
