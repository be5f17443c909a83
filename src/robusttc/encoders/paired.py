"""Two sentence encoders side by side: the vectors of both, one behind the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from robusttc.data import TaskSet
from robusttc.encoders.encoder import Encoder, PreparedTasks
from robusttc.encoders.inputs import DenseInputs
from robusttc.errors import UsageError, quote
from robusttc.progress import Progress

__all__ = ["PairedEncoder"]


class PairedEncoder:
    """The vectors of a first and a second encoder, one behind the other.

    A sentence model that was fine-tuned on many tasks knows their labels, and has forgotten a little of the
    rest; the model as it came has not. Models that see both can weigh them.

    Parameters
    ----------
    first, second
        Encoders that give one vector a text.

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
        self.name = first.name

    @property
    def fingerprint(self) -> str:
        """The content of both."""
        both = f"robusttc-paired-1 {self.first.fingerprint} {self.second.fingerprint}"
        return hashlib.sha256(both.encode()).hexdigest()

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Let both prepare the texts.

        Raises
        ------
        UsageError
            If one of them gives something else than vectors.
        """
        first = self.first.prepare(tasks, splits=splits, progress=progress)
        second = self.second.prepare(tasks, splits=splits, progress=progress)
        if not isinstance(first.inputs, DenseInputs) or not isinstance(second.inputs, DenseInputs):
            raise UsageError(
                "only encoders that give one vector a text can be paired",
                got=f"{quote(self.first)} and {quote(self.second)}",
            )
        return PreparedTasks(DenseInputs(np.hstack([first.inputs.matrix, second.inputs.matrix])), first.items)

    def __repr__(self) -> str:
        return f"PairedEncoder({self.first!r}, {self.second!r})"
