"""Two encoders side by side: the vectors of both, concatenated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders.base import Arrays, Encoder, require_vectors
from robusttc.encoders.inputs import DenseInputs, FrozenInputs, PreparedTasks
from robusttc.progress import Progress

__all__ = ["PairedEncoder"]


class PairedEncoder(Encoder):
    """The vectors of a first and a second encoder, concatenated.

    Two encoders that were trained on different data complement each other; so do a sentence model that was
    fine-tuned on the tasks and the same model before that, which has forgotten nothing.

    Parameters
    ----------
    first, second
        Encoders that return one vector per text.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> tasks = TaskSet([Task("a", ["first", "second"], ["x", "y"])])
    >>> encoder = PairedEncoder(FeatureEncoder({"a": np.eye(2)}), FeatureEncoder({"a": np.ones((2, 1))}))
    >>> encoder.prepare(tasks).inputs.matrix.tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    """

    def __init__(self, first: Encoder, second: Encoder) -> None:
        self.first, self.second = first, second
        self.name = f"{first.name}+{second.name}"

    @property
    def fingerprint(self) -> str:
        """The fingerprints of both."""
        both = f"robusttc-paired-1 {self.first.fingerprint} {self.second.fingerprint}"
        return hashlib.sha256(both.encode()).hexdigest()

    @property
    def parts(self) -> tuple[Encoder, ...]:
        """The two, or the parts that they themselves have."""
        return (*self.first.parts, *self.second.parts)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of both, concatenated."""
        return np.hstack([self.first._vectors(texts), self.second._vectors(texts)])

    def encode_cached(
        self, texts: Sequence[str], *, keep: bool = True, progress: Progress | None = None
    ) -> DenseInputs:
        """Encode texts with both; each looks into its own cache."""
        return self._join(*(part.encode_cached(texts, keep=keep, progress=progress) for part in self._both()))

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Encode the rows of all tasks with both."""
        first, second = (part.prepare(tasks, splits=splits, progress=progress) for part in self._both())
        # The two may number texts differently: an entry of the result is a pair of their indices.
        names = list(first.text_index)
        pairs = np.stack(
            [np.concatenate([part.text_index[name] for name in names]) for part in (first, second)], axis=1
        )
        is_encoded = (pairs >= 0).all(axis=1)
        distinct, index = np.unique(pairs[is_encoded], axis=0, return_inverse=True)
        rows = np.full(len(pairs), -1, dtype=np.int64)
        rows[is_encoded] = index.ravel()
        ends = np.cumsum([len(first.text_index[name]) for name in names])
        inputs = self._join(first.inputs.take(distinct[:, 0]), second.inputs.take(distinct[:, 1]))
        return PreparedTasks(inputs, dict(zip(names, np.split(rows, ends[:-1]), strict=True)))

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return the descriptions of both."""
        settings: dict[str, Any] = {"encoder": "paired"}
        arrays: Arrays = {}
        for place, encoder in zip(("first", "second"), self._both(), strict=True):
            settings[place], own = encoder.describe()
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
        return settings, arrays

    def _both(self) -> tuple[Encoder, Encoder]:
        return self.first, self.second

    def _join(self, first: FrozenInputs, second: FrozenInputs) -> DenseInputs:
        matrices = require_vectors(self.first, first), require_vectors(self.second, second)
        return DenseInputs(np.hstack(matrices))

    def __repr__(self) -> str:
        return f"PairedEncoder({self.first!r}, {self.second!r})"
