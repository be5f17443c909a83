"""What training sees, and what serves before it has models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders import Encoder, FeatureEncoder, PreparedTasks, WordEncoder
from robusttc.multitask.familiar import FamiliarTexts
from robusttc.multitask.joint import TaskPart
from robusttc.multitask.serving import OWN_ONLY, ServedTask, Serving
from robusttc.multitask.task_rows import make_parts
from robusttc.progress import Progress

__all__ = ["TrainingData", "new_serving", "prepare_tasks"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """All that training sees.

    Attributes
    ----------
    tasks
        The tasks that may share.
    prepared, parts
        Their frozen inputs and rows; None and empty if there is no such task.
    private
        Each task that may not share, prepared on its own, so that nothing of it reaches the others: not even
        its words.
    labels
        The cluster of every task that may share, by name; None for no clusters.
    familiar
        Which training texts several tasks have; None if inputs are no texts.
    """

    tasks: TaskSet
    prepared: PreparedTasks | None
    parts: dict[str, TaskPart]
    private: dict[str, tuple[PreparedTasks, TaskPart]] = field(default_factory=dict)
    labels: dict[str, int] | None = None
    familiar: FamiliarTexts | None = None

    def round_of(self, name: str) -> tuple[PreparedTasks, TaskPart]:
        """Give the frozen inputs and the rows of a task, whether it shares or not."""
        if name in self.private:
            return self.private[name]
        assert self.prepared is not None  # noqa: S101 - the task was prepared one way or the other
        return self.prepared, self.parts[name]

    def valid_familiar(self, name: str) -> NDArray[np.bool_] | None:
        """Tell which rows in ``valid`` of a task have texts that other tasks have too."""
        if self.familiar is None:
            return None
        task = self.tasks[name]
        return self.familiar.find(name, task.texts_at(task.rows("valid")))


def prepare_tasks(
    tasks: TaskSet, encoder: Encoder, labels: Mapping[str, int] | None, *, progress: Progress | None = None
) -> TrainingData:
    """Compute the frozen inputs: of the tasks that may share together, of each other one alone.

    All rows are prepared, those of other splits too: that tells their words their vectors, which a reader of
    words needs to know them later. Training looks at ``train`` and ``valid`` only.
    """
    shareable = tasks.shareable()
    prepared = encoder.prepare(shareable, progress=progress) if len(shareable) else None
    parts = {} if prepared is None else make_parts(shareable, prepared)
    private = {}
    for task in tasks:
        if not task.may_share:
            alone = TaskSet([task])
            own = encoder.prepare(alone, progress=progress)
            private[task.name] = (own, make_parts(alone, own)[task.name])
    kept = None if labels is None else {name: labels[name] for name in shareable.names}
    # Ready-made vectors stand for texts that nobody will give when predictions are asked for.
    has_texts = len(shareable) > 0 and not isinstance(encoder, FeatureEncoder)
    familiar = FamiliarTexts.of(shareable) if has_texts else None
    return TrainingData(shareable, prepared, parts, private, kept, familiar)


def new_serving(tasks: TaskSet, data: TrainingData, encoder: Encoder) -> Serving:
    """Make what serves, with readers and without models."""
    served = {
        task.name: ServedTask(
            task.name,
            task.label_names,
            (data.labels[task.name] if data.labels is not None else 0) if task.may_share else -1,
            task.may_share,
            OWN_ONLY,
        )
        for task in tasks
    }
    private = {name: encoder.for_new_texts(prepared) for name, (prepared, _) in data.private.items()}
    reader = next(iter(private.values())) if data.prepared is None else encoder.for_new_texts(data.prepared)
    # Only words have numbers that depend on the texts; any other reader serves all tasks alike.
    words = {name: own for name, own in private.items() if isinstance(own, WordEncoder)}
    return Serving(served, reader, words, familiar=data.familiar)
