"""Texts that other tasks have too.

Tasks of one trade share sentences ("hello", "yes please"). On such a text a model of many tasks has seen the
answer, on any other it has not, so the two deserve different weights when models are averaged. A text is
*familiar* to a task if another task has it among its training texts, up to case and punctuation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.transfer import normalise_text

__all__ = ["FamiliarTexts"]

# The owner of a text that two or more tasks have.
SEVERAL = -1


@dataclass(frozen=True, slots=True, eq=False)
class FamiliarTexts:
    """The training texts of many tasks as numbers, and whose they are; the texts themselves are not kept.

    Attributes
    ----------
    names
        The tasks, sorted.
    keys
        A 64-bit hash of every distinct text, ascending.
    owners
        The place in `names` of the only task that has it, or -1 for several.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["Hi!", "my card"], ["x", "y"]), Task("b", ["hi", "my trip"], ["x", "y"])])
    >>> familiar = FamiliarTexts.of(tasks)
    >>> familiar.find("a", ["HI", "my card", "my trip"]).tolist()
    [True, False, True]
    """

    names: tuple[str, ...]
    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]

    @classmethod
    def of(cls, tasks: TaskSet, *, splits: Sequence[str] = ("train",)) -> FamiliarTexts:
        """Look at the texts of some splits of all tasks."""
        names = tuple(sorted(tasks.names))
        owner_of: dict[int, int] = {}
        for place, name in enumerate(names):
            task = tasks[name]
            for key in set(hash_texts(task.texts_at(task.rows(*splits)))):
                owner_of[key] = place if key not in owner_of else SEVERAL
        keys = np.array(sorted(owner_of), dtype=np.uint64)
        owners = np.array([owner_of[int(key)] for key in keys], dtype=np.int32)
        return cls(names, keys, owners)

    def find(self, name: str, texts: Iterable[str]) -> NDArray[np.bool_]:
        """Tell of every text whether a task other than the named one has it."""
        asked = np.array(hash_texts(texts), dtype=np.uint64)
        if len(self.keys) == 0 or len(asked) == 0:
            return np.zeros(len(asked), dtype=np.bool_)
        places = np.searchsorted(self.keys, asked).clip(max=len(self.keys) - 1)
        own = self.names.index(name) if name in self.names else len(self.names)
        return np.asarray((self.keys[places] == asked) & (self.owners[places] != own))

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Give what a file needs to make it again: values for JSON, and arrays."""
        # Signed: not every format of arrays has unsigned 64-bit numbers.
        return {"names": list(self.names)}, {"keys": self.keys.view(np.int64), "owners": self.owners}

    @classmethod
    def from_description(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> FamiliarTexts:
        """Make it again from what `describe` gave."""
        return cls(tuple(settings["names"]), arrays["keys"].view(np.uint64), arrays["owners"])


def hash_texts(texts: Iterable[str]) -> list[int]:
    """Give a number for every text, the same for texts that differ in case and punctuation only."""
    return [
        int.from_bytes(hashlib.blake2b(normalise_text(text).encode(), digest_size=8).digest(), "little")
        for text in texts
    ]
