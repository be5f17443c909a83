"""Which tasks are worse off with others than alone, by rows that no model was trained on, and by whom.

The sources of negative transfer are found by a cheap estimate. The model in question is trained for half of
its epochs without some held-out rows of the task. There the gradient of the task's held-out loss is compared
with that of each other task's training loss, both for the shared layer. A step that serves the other task
lowers the task's loss by about their product: the cosine of the two says how much the other's training works
for the task or, if negative, against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders import Encoder, FrozenInputs
from robusttc.errors import UsageError
from robusttc.models import RowGradients, head_gradients
from robusttc.multitask.joint_training import SharedModel, TaskRows, train_jointly
from robusttc.multitask.predictor import Predictor
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.training import prepare_tasks
from robusttc.multitask.validation import deal_folds
from robusttc.progress import Progress, report
from robusttc.random import numpy_generator
from robusttc.stats import Estimate, mean_interval, share_interval

# A loss that is no smaller than this, in accuracy, is worth a look even where chance may have made it.
DOUBTFUL_LOSS = 0.01
# Sources are looked for of so many tasks, the worst ones.
MAX_TASKS = 10
# Rows of a task that a gradient is taken of.
MAX_ROWS = 512
N_FOLDS = 3

Right = Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class TransferSource:
    """A task that works against another: the cosine of the two gradients with its sign turned."""

    name: str
    blame: float


@dataclass(frozen=True, slots=True)
class TaskTransfer:
    """What sharing does to one task, on its held-out rows: accuracies with Wilson's interval, and the gain.

    Of 40 tasks that nothing hurts, one is expected to look hurt.
    """

    name: str
    cluster: int
    n_rows: int
    own: Estimate
    shared: Estimate | None  # None for what was not trained
    in_cluster: Estimate | None
    served: Estimate
    gain: Estimate  # the paired difference of what serves and the own model, over rows
    is_hurt: bool  # that interval is below zero
    is_doubtful: bool  # the task seems to lose at least one point, but chance may have done it
    sources: tuple[TransferSource, ...] = ()  # the worst first; empty where they were not looked for


@dataclass(frozen=True, slots=True)
class NegativeTransferReport:
    """What sharing does to every task that shares: one entry per task, and all in one sentence."""

    tasks: tuple[TaskTransfer, ...]
    sentence: str

    @property
    def hurt(self) -> tuple[str, ...]:
        """The tasks that sharing hurts, the worst first."""
        return tuple(task.name for task in by_gain(self.tasks) if task.is_hurt)

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The tasks that sharing may hurt, the worst first."""
        return tuple(task.name for task in by_gain(self.tasks) if task.is_doubtful)

    def to_dict(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        estimates = ("own", "shared", "in_cluster", "served", "gain")
        entries = []
        for task in self.tasks:
            found = {name: getattr(task, name) for name in estimates}
            values = {name: None if one is None else one.to_dict() for name, one in found.items()}
            entries.append({**asdict(task), **values})
        kinds = {"hurt": list(self.hurt), "doubtful": list(self.doubtful)}
        return {"tasks": entries, **kinds, "sentence": self.sentence}


def by_gain(tasks: Iterable[TaskTransfer]) -> list[TaskTransfer]:
    """Sort tasks, the greatest loss first."""
    return sorted(tasks, key=lambda task: (task.gain.mean, task.name))


def report_negative_transfer(
    predictor: Predictor,
    held_out: Mapping[str, Right],
    tasks: TaskSet | None,
    *,
    settings: MultiTaskSettings,
    seed: int,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> NegativeTransferReport:
    """Compare what serves with each task's own model; given the tasks, look for sources where it loses."""
    if not held_out:
        raise UsageError(
            "there are no held-out predictions to tell negative transfer by",
            got=f"{len(predictor.tasks):,} tasks",
            expected="strategy 'blend', and at least two tasks that may share",
        )
    found = [judge_sharing(predictor, name, held_out[name]) for name in sorted(held_out)]
    if tasks is not None:
        worst = by_gain(found)
        asked = [task.name for task in worst if task.is_hurt]
        asked = (asked or [task.name for task in worst if task.is_doubtful])[:MAX_TASKS]
        sources = find_sources(
            predictor, tasks, asked, settings=settings, seed=seed, encoder=encoder, progress=progress
        )
        found = [replace(task, sources=sources.get(task.name, ())) for task in found]
    n_hurt, n_doubtful = (sum(getattr(task, what) for task in found) for what in ("is_hurt", "is_doubtful"))
    n_better = sum(task.gain.above_zero for task in found)
    sentence = (
        f"Of {len(found):,} tasks sharing helps {n_better:,} and hurts {n_hurt:,} for sure (95 % intervals); "
        f"{n_doubtful:,} more seem to lose at least a point, which may be chance."
    )
    return NegativeTransferReport(tuple(found), sentence)


def judge_sharing(predictor: Predictor, name: str, right: Right) -> TaskTransfer:
    """Compare the models of one task by which held-out rows each predicts right."""
    estimates = {kind: share_interval(int(hits.sum()), len(hits)) for kind, hits in right.items()}
    gain = mean_interval(right["served"].astype(np.float64) - right["own"].astype(np.float64))
    return TaskTransfer(
        name,
        predictor.find(name).cluster,
        len(right["own"]),
        estimates["own"],
        estimates.get("shared"),
        estimates.get("cluster"),
        estimates["served"],
        gain,
        gain.below_zero,
        not gain.below_zero and gain.mean <= -DOUBTFUL_LOSS,
    )


def sharing_with(predictor: Predictor, name: str) -> tuple[str, ...]:
    """Return the tasks that a task shares its model with: its cluster if clusters serve, else all."""
    task = predictor.find(name)
    sharing = [other for other in predictor.tasks.values() if other.may_share and other.name != name]
    if task.weights.uses("cluster"):
        sharing = [other for other in sharing if other.cluster == task.cluster]
    return tuple(sorted(other.name for other in sharing))


def find_sources(
    predictor: Predictor,
    tasks: TaskSet,
    names: Sequence[str],
    *,
    settings: MultiTaskSettings,
    seed: int,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> dict[str, tuple[TransferSource, ...]]:
    """Return for each task the others whose gradients are against it, the worst first.

    `tasks` must hold the tasks that each of these shares its model with; `encoder` encodes them, that of the
    predictor by default.
    """
    # Where training ends gradients are small, and where it begins they are all alike.
    epochs, min_steps = max(1, settings.epochs // 2), max(1, settings.min_steps // 2)
    short = settings.replace(epochs=epochs, min_steps=min_steps, head_c=0.0)
    groups = {name: tuple(sorted([name, *sharing_with(predictor, name)])) for name in names}
    used = tasks.subset(sorted({name for group in groups.values() for name in group}))
    data = prepare_tasks(used, encoder or predictor.reader, None)
    folds = {task.name: deal_folds(task, N_FOLDS, seed) for task in used}
    train = {
        task.name: data.rows(task.name, task.rows("train")[folds[task.name][task.rows("train")] != 0])
        for task in used
    }
    models: dict[tuple[str, ...], SharedModel] = {}
    found = {}
    for done, (name, group) in enumerate(groups.items(), start=1):
        inputs = data.inputs_of(name)
        if group not in models:  # one model without the first fold serves all tasks of a cluster
            generator = numpy_generator(seed, "culprits, copy 0", group)
            rows = [train[other] for other in group]
            models[group] = train_jointly(inputs, rows, settings=short, generator=generator)
        model = models[group]
        own = layer_gradient(model, inputs, data.rows(name, np.flatnonzero(folds[name] == 0)))
        blames = {}
        for other in group:
            gradient = layer_gradient(model, inputs, train[other])
            length = float(np.linalg.norm(own) * np.linalg.norm(gradient))
            blames[other] = -float(own @ gradient) / length if length > 0 and other != name else 0.0
        worst = sorted((other for other in blames if blames[other] > 0), key=lambda one: (-blames[one], one))
        found[name] = tuple(TransferSource(other, blames[other]) for other in worst)
        report(progress, "negative transfer", done, len(groups), "tasks")
    return found


def layer_gradient(model: SharedModel, inputs: FrozenInputs, rows: TaskRows) -> NDArray[np.float64]:
    """Return the gradient of a task's mean loss for the layer, as one long vector."""
    items, codes = rows.items[:MAX_ROWS], rows.codes[:MAX_ROWS]
    parameters = model.layer.parameters()
    if len(items) == 0:
        return np.zeros(sum(array.size for array in parameters.values()))
    own = model.labels_of(rows.name)
    _, gradient, *_ = head_gradients(
        model.layer.forward(inputs, items),
        np.array([0, len(items)]),
        np.array([0]),
        np.array([rows.n_labels]),
        codes,
        model.weight[own].astype(np.float32),
        model.bias[own],
    )
    whole = []
    for name, found in sorted(model.layer.backward(gradient).items()):
        dense = np.zeros(parameters[name].shape)
        if isinstance(found, RowGradients):  # rows that were not touched have none
            dense[found.rows] = found.values
        else:
            dense[:] = found
        whole.append(dense.reshape(-1))
    return np.concatenate(whole)
