"""One shared layer with one softmax classifier a task, trained together on the rows of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.errors import DataError, quote
from robusttc.models import Layer, fit_softmax, new_head, new_layer
from robusttc.multitask.joint_steps import TaskPart, Trainer
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.shared_model import SharedModel
from robusttc.progress import Progress, report

__all__ = ["TaskPart", "train_jointly"]

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


def train_jointly(
    inputs: FrozenInputs,
    parts: Sequence[TaskPart],
    *,
    settings: MultiTaskSettings,
    generator: np.random.Generator,
    start: SharedModel | None = None,
    stop_early: bool = False,
    progress: Progress | None = None,
    stage: str = "shared model",
) -> SharedModel:
    """Train a shared layer and the classifiers of all tasks.

    The loss of a step is the mean cross-entropy of its rows, see `robusttc.multitask.sampling` for which
    these are; the optimiser is Adam, for classifiers and word vectors only with what a step touches. The
    order of tasks has no influence: they are taken in the order of their names.

    Parameters
    ----------
    inputs
        The frozen inputs that the items of all tasks belong to.
    parts
        The tasks.
    settings
        How to train.
    generator
        Where all random draws come from.
    start
        A model that knows all these tasks, to start from; None starts from scratch.
    stop_early
        Whether to keep the epoch with the highest mean validation accuracy over the tasks that have
        validation rows (of equal ones the first). If no task has any, all epochs are trained.
    progress, stage
        Who is told how far it is, and under what name.

    Raises
    ------
    DataError
        If there are no tasks, or one has no rows.

    Examples
    --------
    >>> from robusttc.encoders import DenseInputs
    >>> from robusttc.random import numpy_generator
    >>> inputs = DenseInputs(np.eye(4, dtype=np.float32))
    >>> parts = [TaskPart(name, 2, np.arange(4), np.array([0, 0, 1, 1])) for name in "ab"]
    >>> model = train_jointly(
    ...     inputs, parts, settings=MultiTaskSettings(width=8, epochs=200), generator=numpy_generator(0, "x")
    ... )
    >>> model.probabilities("b", inputs).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    parts = sorted(parts, key=lambda part: part.name)
    check_parts(parts)
    names = [part.name for part in parts]
    ends = np.cumsum([part.n_labels for part in parts])
    starts = ends - [part.n_labels for part in parts]
    if start is None:
        layer: Layer = new_layer(inputs, settings=settings.layer_settings(), generator=generator)
        made = [new_head(layer.width, part.n_labels, generator)[0].T for part in parts]
        weight = np.ascontiguousarray(np.concatenate(made))
        if settings.share_labels:
            # Small, so that what namesakes share has no random differences to undo.
            weight *= np.float32(0.1)
        bias = np.zeros(int(ends[-1]), dtype=np.float32)
    else:
        layer = start.layer.clone()
        weight = np.concatenate([start.head(name)[0] for name in names])
        bias = np.concatenate([start.head(name)[1] for name in names])
    model = SharedModel(layer, names, starts, ends, weight, bias)
    has_valid = any(len(part.valid_items) for part in parts)
    trainer = Trainer(inputs, parts, model, settings, generator, start is not None)
    n_epochs = trainer.n_epochs
    best, best_accuracy = model, -1.0
    report(progress, stage, 0, n_epochs, "epochs")
    for epoch in range(n_epochs):
        trainer.train_epoch()
        if stop_early and has_valid:
            accuracy = mean_valid_accuracy(inputs, parts, model)
            if accuracy > best_accuracy:
                best, best_accuracy = model.copy(n_epochs=epoch + 1), accuracy
        report(progress, stage, epoch + 1, n_epochs, "epochs")
    if stop_early and has_valid:
        return best
    if settings.head_c > 0:
        model.converged = converge_heads(inputs, parts, model, settings.head_c)
    return model.copy(n_epochs=n_epochs)


def converge_heads(
    inputs: FrozenInputs, parts: Sequence[TaskPart], model: SharedModel, head_c: float
) -> tuple[Floats, Floats]:
    """Fit class-balanced classifiers to convergence on the representation as it is now.

    In joint training a small task's classifier is moved by a handful of its rows at a time, under dropout,
    and is far from the best one for its own rows when the layer is ready; but it has learned from namesakes.
    So both serve. A task with rows of one label only keeps the trained one.
    """
    weights, biases = model.weight.copy(), model.bias.copy()
    for part in parts:
        if len(np.unique(part.codes)) < 2:
            continue
        representation = model.layer.represent(inputs.take(part.items))
        fitted = fit_softmax(representation, part.codes, n_labels=part.n_labels, C=head_c, balanced=True)
        own = model.labels_of(part.name)
        weights[own] = fitted.weight.T
        biases[own] = fitted.bias
    return weights, biases


def check_parts(parts: Sequence[TaskPart]) -> None:
    """Refuse tasks that nothing can be learned from."""
    if not parts:
        raise DataError("there are no tasks to train on", expected="at least one task")
    for part in parts:
        if len(part.items) == 0 or len(part.items) != len(part.codes):
            raise DataError(
                "the task cannot be learned",
                where=f"task {quote(part.name)}",
                got=f"{len(part.items):,} training rows with {len(part.codes):,} labels",
                expected="at least one training row, and one label for each",
            )


def mean_valid_accuracy(inputs: FrozenInputs, parts: Sequence[TaskPart], model: SharedModel) -> float:
    """Give the mean over the tasks that have validation rows of the share of them predicted right."""
    accuracies: Mapping[str, float] = {
        part.name: float(
            (model.logits(part.name, inputs.take(part.valid_items)).argmax(axis=1) == part.valid_codes).mean()
        )
        for part in parts
        if len(part.valid_items)
    }
    return float(np.mean(list(accuracies.values())))
