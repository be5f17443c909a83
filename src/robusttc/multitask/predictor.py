"""What predicts: the models of all tasks, how they are blended, and the out-of-scope score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, Encoder, FrozenInputs, load_encoder
from robusttc.errors import UnknownTaskError, UsageError
from robusttc.models import (
    HEAD_C,
    ConvolutionLayer,
    ScopeModel,
    TrainedModel,
    TrainingSettings,
    add_converged_head,
    apply_temperature,
    fit_softmax,
    layer_from_parameters,
    multiply_rows,
    to_half,
    train_model,
)
from robusttc.multitask.blending import COMPONENTS, OWN_ONLY, BlendWeights, SeenTexts, blend_rows
from robusttc.multitask.joint_training import SharedModel, TaskRows, wide_softmax
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.random import numpy_generator

Floats = NDArray[np.float32]
Probabilities = NDArray[np.float64]

# How far the regression of a single task converges: fewer steps than by default, and the same accuracy.
OWN_TOL = 1e-3


class LinearModel:
    """Softmax regression on the frozen vectors themselves.

    Examples
    --------
    >>> model = LinearModel(np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32))
    >>> model.probabilities(DenseInputs(np.eye(2, dtype=np.float32))).round(2).tolist()
    [[0.73, 0.27], [0.27, 0.73]]
    """

    def __init__(self, weight: NDArray[Any], bias: NDArray[Any]) -> None:
        self.weight = np.ascontiguousarray(to_half(weight))
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)

    def probabilities(self, inputs: FrozenInputs) -> Probabilities:
        """Return the probability of every label for every item."""
        if not isinstance(inputs, DenseInputs) or inputs.dimension != len(self.weight):
            raise UsageError(
                "the inputs do not fit the model",
                got=repr(inputs),
                expected=f"vectors of {len(self.weight)} numbers",
            )
        return wide_softmax(multiply_rows(inputs.matrix, self.weight) + self.bias)


# On vectors, or on words.
SingleTaskModel = LinearModel | TrainedModel
# Or (strategy "paper") trained like the model of a cluster.
OwnModel = SingleTaskModel | SharedModel


def fit_own(
    inputs: FrozenInputs, task: TaskRows, *, settings: MultiTaskSettings, seed: int, stage: str
) -> SingleTaskModel:
    """Fit the model of one task alone, on its training rows; nothing else has an influence.

    On vectors it is class-balanced softmax regression, converged; on words a convolution of its own (see
    `robusttc.models.training`).

    Examples
    --------
    >>> inputs = DenseInputs(np.eye(2, dtype=np.float32))
    >>> task = TaskRows("a", 2, np.array([0, 1]), np.array([1, 0]))
    >>> model = fit_own(inputs, task, settings=MultiTaskSettings(), seed=0, stage="own")
    >>> model.probabilities(inputs).argmax(axis=1).tolist()
    [1, 0]
    """
    own = inputs.take(task.items)
    if isinstance(own, DenseInputs):
        fitted = fit_softmax(
            own.matrix, task.codes, n_labels=task.n_labels, C=settings.own_c, balanced=True, tol=OWN_TOL
        )
        return LinearModel(fitted.weight, fitted.bias)
    model = train_model(
        own,
        task.codes,
        n_labels=task.n_labels,
        settings=TrainingSettings(width=settings.width, window=settings.window),
        generator=numpy_generator(seed, stage, [task.name]),
    )
    return add_converged_head(model, own, task.codes, HEAD_C, True)


def uniform_model(inputs: FrozenInputs, n_labels: int) -> SingleTaskModel:
    """Return a model to which all labels are equally probable, for a task whose own could not be trained."""
    bias = np.zeros(n_labels, dtype=np.float32)
    if isinstance(inputs, DenseInputs):
        return LinearModel(np.zeros((inputs.dimension, n_labels)), bias)
    layer = ConvolutionLayer(np.zeros((1, 1, inputs.dimension), np.float32), np.zeros(1, np.float32))
    return TrainedModel(layer, np.zeros((1, n_labels), dtype=np.float32), bias)


def own_probabilities(model: OwnModel, name: str, inputs: FrozenInputs) -> Probabilities:
    """Return the probabilities of a single-task model."""
    if isinstance(model, SharedModel):
        return model.probabilities(name, inputs)
    return np.asarray(model.probabilities(inputs), dtype=np.float64)


def describe_own(model: OwnModel) -> dict[str, Any]:
    """Return what a file needs to rebuild a single-task model."""
    if isinstance(model, SharedModel):
        return model.describe()
    if isinstance(model, LinearModel):
        return {"weight": model.weight, "bias": model.bias}
    return {"layer": model.layer.parameters(), "weight": model.head_weight, "bias": model.head_bias}


def own_from(content: Mapping[str, Any]) -> OwnModel:
    """Rebuild a single-task model from what `describe_own` returned."""
    if "names" in content:
        return SharedModel.from_description(content)
    if "layer" not in content:
        return LinearModel(content["weight"], content["bias"])
    layer = layer_from_parameters(content["layer"], settings=TrainingSettings())
    return TrainedModel(layer, content["weight"], content["bias"])


@dataclass(frozen=True, slots=True)
class ServedTask:
    """What is known of a task."""

    name: str
    label_names: tuple[str, ...]  # in the order of probabilities
    label_shares: tuple[float, ...]  # how frequent each is among the training rows
    cluster: int  # -1 for none
    may_share: bool
    weights: BlendWeights = OWN_ONLY
    temperature: float = 1.0

    @property
    def shares(self) -> bool:
        """Whether a model of several tasks serves it."""
        return self.weights.uses("shared") or self.weights.uses("cluster")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ServedTask:
        """Rebuild it from its fields as JSON has them."""
        lists = {key: tuple(values[key]) for key in ("label_names", "label_shares")}
        return cls(**{**values, **lists, "weights": BlendWeights.from_dict(values["weights"])})


@dataclass(slots=True)
class Predictor:
    """All models that predictions are made of."""

    tasks: dict[str, ServedTask]
    reader: Encoder  # how new texts become inputs
    private_readers: Mapping[str, Encoder] = field(
        default_factory=dict
    )  # where words have numbers of their own
    own: dict[str, OwnModel] = field(default_factory=dict)
    shared: SharedModel | None = None
    clusters: dict[int, SharedModel] = field(default_factory=dict)  # those that serve
    seen: SeenTexts | None = None  # None if inputs are no texts
    scope: ScopeModel | None = None
    references: dict[str, NDArray[np.float16]] = field(default_factory=dict)  # training rows, for the scope

    def find(self, name: str) -> ServedTask:
        """Return what is known of a task; an error if there is no such task."""
        if not isinstance(name, str) or name not in self.tasks:
            raise UnknownTaskError(name, tuple(self.tasks))
        return self.tasks[name]

    def read(self, name: str, texts: Any) -> tuple[FrozenInputs, NDArray[np.bool_] | None]:
        """Turn texts for a task into inputs of its models, and find those that are seen in another task."""
        # An iterator can be read only once.
        asked: Any = texts if isinstance(texts, Sequence | np.ndarray) else list(texts)
        inputs = self.private_readers.get(self.find(name).name, self.reader).read(asked)
        return inputs, self.find_seen(name, asked)

    def find_seen(self, name: str, texts: Sequence[str]) -> NDArray[np.bool_] | None:
        """Return which texts are seen in another task; None if that makes no difference to the task."""
        task = self.find(name)
        if self.seen is None or not task.may_share or task.weights.novel == task.weights.seen:
            return None
        return self.seen.find(name, texts)

    def component(self, kind: str, name: str, inputs: FrozenInputs) -> Probabilities | None:
        """Return the probabilities of one component of a task's blend; None where the task does not have it.

        A task in no cluster, or in one without a model, has its own model in the place of the cluster's, if
        there are cluster models at all.
        """
        task = self.find(name)
        if kind == "prior":
            return np.tile(task.label_shares, (len(inputs), 1))
        if kind == "shared" and task.may_share and self.shared is not None:
            return self.shared.probabilities(name, inputs)
        if kind == "cluster" and task.may_share and task.cluster in self.clusters:
            return self.clusters[task.cluster].probabilities(name, inputs)
        has_stand_in = kind == "own" or (kind == "cluster" and task.may_share and bool(self.clusters))
        if has_stand_in and name in self.own:
            return own_probabilities(self.own[name], name, inputs)
        return None

    def raw_probabilities(
        self, name: str, inputs: FrozenInputs, seen: NDArray[np.bool_] | None = None
    ) -> Probabilities:
        """Return the blend of a task's models, before temperature scaling; see `read`."""
        task = self.find(name)
        if len(inputs) == 0:
            return np.zeros((0, len(task.label_names)))
        tables = {}
        for kind in COMPONENTS:
            if task.weights.uses(kind):
                table = self.component(kind, name, inputs)
                # Where no cluster has a model that could be trained, the task's own takes its place.
                tables[kind] = own_probabilities(self.own[name], name, inputs) if table is None else table
        return blend_rows(tables, task.weights, seen)

    def probabilities(
        self, name: str, inputs: FrozenInputs, seen: NDArray[np.bool_] | None = None
    ) -> Probabilities:
        """Return the probability of every label of a task for every item; see `read`."""
        return apply_temperature(self.raw_probabilities(name, inputs, seen), self.find(name).temperature)

    def represent(self, name: str, inputs: FrozenInputs) -> Floats:
        """Return what the out-of-scope score compares: the vectors, or of words a layer's representation."""
        if isinstance(inputs, DenseInputs):
            return inputs.matrix
        task = self.find(name)
        models = [self.shared, self.clusters.get(task.cluster)] if task.may_share else []
        for model in (*models, self.own.get(name)):
            if isinstance(model, TrainedModel) or (isinstance(model, SharedModel) and name in model):
                return model.layer.represent(inputs)
        raise UsageError("the task has no model of words", got=name)  # pragma: no cover

    def scope_score(self, name: str, inputs: FrozenInputs) -> Probabilities:
        """Return for every item how likely it is to belong to none of the task's labels."""
        return self._find_scope(name).score(self.references[name], self.represent(name, inputs))

    def scope_threshold(self, name: str, *, rejects: float) -> float:
        """Return the score above which such a share of the task's own texts is expected."""
        return self._find_scope(name).threshold(self.references[name], rejects=rejects)

    def _find_scope(self, name: str) -> ScopeModel:
        self.find(name)
        if self.scope is None:
            raise UsageError(
                "there is no out-of-scope score",
                expected="at least two tasks that may share and have held-out rows",
                todo="give the tasks more rows a label, or rows in the split 'valid', and fit again",
            )
        return self.scope

    def without(self, names: Iterable[str]) -> Predictor:
        """Return the same models without the parts that are some tasks' own."""
        gone, parts = set(names), ("tasks", "private_readers", "own", "references")
        left: dict[str, Any] = {
            part: {name: one for name, one in getattr(self, part).items() if name not in gone}
            for part in parts
        }
        return replace(self, **left)

    def describe(self) -> dict[str, Any]:
        """Return what a file needs to rebuild it: values for JSON, and arrays."""
        seen = None
        if self.seen is not None:
            # Signed: not every format of arrays has unsigned 64-bit numbers.
            keys = self.seen.keys.view(np.int64)
            seen = {"names": self.seen.names, "keys": keys, "owners": self.seen.owners}
        return {
            "tasks": [asdict(task) for task in self.tasks.values()],
            "reader": self.reader.describe(),
            "private_readers": {name: reader.describe() for name, reader in self.private_readers.items()},
            "own": {name: describe_own(model) for name, model in self.own.items()},
            "shared": None if self.shared is None else self.shared.describe(),
            "clusters": {str(number): model.describe() for number, model in self.clusters.items()},
            "seen": seen,
            "scope": None if self.scope is None else self.scope.arrays(),
            "references": self.references,
        }

    @classmethod
    def from_description(cls, content: Mapping[str, Any], *, device: str = "cpu") -> Predictor:
        """Rebuild it from what `describe` returned."""
        shared, seen, scope = content["shared"], content["seen"], content["scope"]
        readers = content["private_readers"].items()
        clusters = content["clusters"].items()
        if seen is not None:
            seen = SeenTexts(tuple(seen["names"]), seen["keys"].view(np.uint64), seen["owners"])
        return cls(
            {one["name"]: ServedTask.from_dict(one) for one in content["tasks"]},
            load_encoder(*content["reader"], device=device),
            {name: load_encoder(*described, device=device) for name, described in readers},
            {name: own_from(own) for name, own in content["own"].items()},
            None if shared is None else SharedModel.from_description(shared),
            {int(number): SharedModel.from_description(described) for number, described in clusters},
            seen,
            None if scope is None else ScopeModel.from_arrays(scope),
            dict(content["references"]),
        )
