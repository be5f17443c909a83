"""What is kept of a training for predictions, and the predictions themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, Encoder, FrozenInputs
from robusttc.errors import UnknownTaskError
from robusttc.models import ScopeModel, TrainedModel, apply_temperature
from robusttc.multitask.components import COMPONENTS, OwnModel, Shared
from robusttc.multitask.familiar import FamiliarTexts
from robusttc.multitask.label_power import tilt
from robusttc.multitask.weighing import Weights, weigh

__all__ = ["CLUSTER_ONLY", "OWN_ONLY", "ServedTask", "Serving"]

Floats = NDArray[np.float32]
Probabilities = NDArray[np.float64]

OWN_ONLY = Weights((1.0, 0.0, 0.0), (1.0, 0.0, 0.0))
CLUSTER_ONLY = Weights((0.0, 0.0, 1.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class ServedTask:
    """What is known of a task.

    Attributes
    ----------
    name
        Its name.
    label_names
        Its labels, in the order of probabilities.
    cluster
        Its cluster; -1 for none.
    may_share
        Whether it takes part in models of several tasks.
    weights
        How much ``own``, ``shared`` and ``cluster`` model count for it.
    temperature
        What its probabilities are softened with.
    offsets
        What is added to the log-probability of each label, for how frequent it is; none where nothing is.
    """

    name: str
    label_names: tuple[str, ...]
    cluster: int
    may_share: bool
    weights: Weights
    temperature: float = 1.0
    offsets: tuple[float, ...] = ()


@dataclass(slots=True)
class Serving:
    """All models that predictions are made of.

    Attributes
    ----------
    tasks
        The tasks, by name, in order.
    reader
        How new texts become inputs.
    private_readers
        The same for tasks that may not share, where words have numbers of their own there.
    own
        The own models of tasks, as far as they serve.
    alone
        Models that were trained like those of a cluster, for one task only.
    shared
        The model of all tasks, if it serves.
    clusters
        The models of clusters, if they serve.
    familiar
        Which texts several tasks have; None if inputs are no texts.
    scope, references
        The out-of-scope model, and the training representations of every task.
    """

    tasks: dict[str, ServedTask]
    reader: Encoder
    private_readers: Mapping[str, Encoder] = field(default_factory=dict)
    own: dict[str, OwnModel] = field(default_factory=dict)
    alone: dict[str, Shared] = field(default_factory=dict)
    shared: Shared | None = None
    clusters: dict[int, Shared] = field(default_factory=dict)
    familiar: FamiliarTexts | None = None
    scope: ScopeModel | None = None
    references: dict[str, Floats] = field(default_factory=dict)

    def find(self, name: str) -> ServedTask:
        """Give what is known of a task.

        Raises
        ------
        UnknownTaskError
            If there is no such task; the message names the nearest one.
        """
        if not isinstance(name, str) or name not in self.tasks:
            raise UnknownTaskError(name, tuple(self.tasks))
        return self.tasks[name]

    def read(self, name: str, texts: Any) -> FrozenInputs:
        """Turn texts for a task into inputs of its models."""
        return self.private_readers.get(self.find(name).name, self.reader).read(texts)

    def find_familiar(self, name: str, texts: Any) -> NDArray[np.bool_] | None:
        """Tell which texts other tasks have too; None if that makes no difference to the task."""
        task = self.find(name)
        if self.familiar is None or not task.may_share or task.weights.new == task.weights.familiar:
            return None
        return self.familiar.find(name, texts)

    def raw_probabilities(
        self, name: str, inputs: FrozenInputs, familiar: NDArray[np.bool_] | None = None
    ) -> Probabilities:
        """Blend what the task's models say, before its temperature.

        Parameters
        ----------
        name
            The task.
        inputs
            The items.
        familiar
            What `find_familiar` says of their texts.
        """
        task = self.find(name)
        if len(inputs) == 0:
            return np.zeros((0, len(task.label_names)))
        new, known = task.weights.new, task.weights.familiar
        used = [place for place in range(len(COMPONENTS)) if new[place] > 0 or known[place] > 0]
        tables = [self.ask(COMPONENTS[place], task, inputs) for place in used]
        weights = Weights(tuple(new[place] for place in used), tuple(known[place] for place in used))
        blended = weigh(tables, weights, familiar)
        return tilt(blended, np.array(task.offsets)) if task.offsets else blended

    def ask(self, kind: str, task: ServedTask, inputs: FrozenInputs) -> Probabilities:
        """Give the probabilities of one model of a task."""
        if kind == "shared":
            assert self.shared is not None  # noqa: S101 - it has a weight, so it was kept
            return self.shared.probabilities(task.name, inputs)
        if kind == "cluster" and task.cluster in self.clusters and task.may_share:
            return self.clusters[task.cluster].probabilities(task.name, inputs)
        if task.name in self.alone:
            return self.alone[task.name].probabilities(task.name, inputs)
        # A cluster of one task: its model is the task's own.
        return np.asarray(self.own[task.name].probabilities(inputs), dtype=np.float64)

    def probabilities(
        self, name: str, inputs: FrozenInputs, familiar: NDArray[np.bool_] | None = None
    ) -> Probabilities:
        """Give the probability of every label of a task for every item; see `raw_probabilities`."""
        return apply_temperature(self.raw_probabilities(name, inputs, familiar), self.find(name).temperature)

    def represent(self, name: str, inputs: FrozenInputs) -> Floats:
        """Give what the out-of-scope score compares: the vectors themselves, or of words a representation."""
        if isinstance(inputs, DenseInputs):
            return inputs.matrix
        task = self.find(name)
        if task.may_share:
            shared = self.shared or self.clusters.get(task.cluster)
            if shared is not None and task.name in shared.copies[0]:
                return shared.copies[0].layer.represent(inputs)
        if task.name in self.alone:
            return self.alone[task.name].copies[0].layer.represent(inputs)
        own = self.own[task.name]
        assert isinstance(own, TrainedModel)  # noqa: S101 - words have convolutions
        return own.layer.represent(inputs)

    def scope_score(self, name: str, inputs: FrozenInputs, probabilities: Probabilities) -> Probabilities:
        """Give for every item how likely it is to belong to none of the task's labels.

        Parameters
        ----------
        name, inputs
            As in `probabilities`.
        probabilities
            What that gave.
        """
        assert self.scope is not None  # noqa: S101 - the estimator has asked
        del probabilities
        return self.scope.score(self.references[name], self.represent(name, inputs))
