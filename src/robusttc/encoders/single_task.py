"""The best model of one task alone, and its file.

`train_single_task` trains a layer and a classifier together, and then fits a second classifier to convergence
on the representation, which is frozen by then. Both are linear, so the mean of their logits is again one
linear classifier, and that is the model's. The first one saw the labels as often as they occur, so it leans
to the frequent ones; where labels are to count alike, part of that is taken back: its logit of a label loses
`LEANING` times the logarithm of its share of the rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.encoders.encoder import PreparedTasks
from robusttc.encoders.inputs import FrozenInputs
from robusttc.encoders.layer import layer_from_parameters
from robusttc.encoders.model import TrainedModel
from robusttc.encoders.residual import ResidualLayer
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.softmax import fit_softmax
from robusttc.encoders.training import train_model
from robusttc.errors import DataError, RobustTCError, StoreError, UsageError, quote
from robusttc.random import numpy_generator

__all__ = ["HEAD_C", "load_model", "save_model", "train_single_task"]

# Both chosen on the validation rows of 175 intent tasks, one value for all tasks and both encoders: the mean
# of two classifiers beats each of them on convolutions, and is as good as the better one on sentence vectors.
HEAD_C = 3.0
LEANING = 0.5

FORMAT = "robusttc-model-1"
# One entry only: safetensors writes several in an order of its own, and equal models shall have equal files.
HEADER_KEY = "robusttc"


def train_single_task(
    task: Task,
    prepared: PreparedTasks,
    *,
    settings: TrainingSettings,
    seed: int,
    head_c: float | None = HEAD_C,
    balanced: bool = True,
    device: str = "cpu",
) -> TrainedModel:
    """Train the model of one task on its rows in ``train``.

    It depends on these rows, their frozen inputs, the settings and the seed, and not on any other task.

    Parameters
    ----------
    task
        The task.
    prepared
        The frozen inputs of at least its training rows.
    settings
        How to train.
    seed
        The seed of the run; draws come from the child seed of stage ``model`` and the task's name.
    head_c
        The inverse strength of the penalty of the classifier that is fitted to convergence (see
        `fit_softmax`); None leaves it out, so that the classifier is that of the last epoch.
        Deviation: the paper has the last epoch's alone. On small tasks of many labels the two together are
        better.
    balanced
        Whether every label counts alike; without `head_c` it has no effect.
    device
        ``cpu``, or what `robusttc.encoders.device.resolve_device` knows.

    Returns
    -------
    TrainedModel
        Its codes are those of ``task.label_names``; a label without a training row is never predicted.

    Raises
    ------
    DataError
        If the task has no training rows, or all of them have the same label.
    UsageError
        If its training rows were not prepared, or an option cannot be used.

    Examples
    --------
    >>> from robusttc.data import TaskSet
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> prepared = FeatureEncoder({"acme": np.eye(2)}).prepare(TaskSet([task]))
    >>> model = train_single_task(task, prepared, settings=TrainingSettings(width=8), seed=0)
    >>> [task.label_names[code] for code in model.predict_codes(prepared.inputs)]
    ['greet', 'leave']
    """
    rows = task.rows("train")
    codes = task.label_codes[rows].astype(np.int64)
    where = f"task {quote(task.name)}"
    if len(np.unique(codes)) < 2:
        raise DataError(
            "the task cannot be learned",
            where=where,
            got=f"{len(rows):,} training rows, all of label {quote(task.label_names[codes[0]])}"
            if len(rows)
            else "no training rows",
            expected="training rows of at least two labels",
            todo="add rows of another label, or leave the task out",
        )
    if (prepared.items_of(task.name, rows) < 0).any():
        raise UsageError(
            "the training rows of the task are not prepared",
            where=where,
            todo="prepare the split 'train' too",
        )
    inputs = prepared.inputs_of(task.name, rows)
    model = train_model(
        inputs,
        codes,
        n_labels=len(task.label_names),
        settings=settings,
        generator=numpy_generator(seed, "model", [task.name]),
        device=device,
    )
    return model if head_c is None else add_converged_head(model, inputs, codes, head_c, balanced)


def add_converged_head(
    model: TrainedModel, inputs: FrozenInputs, codes: NDArray[np.int64], head_c: float, balanced: bool
) -> TrainedModel:
    """Average the classifier of a model with one that is fitted to convergence on its representation."""
    n_labels = len(model.head_bias)
    fitted = fit_softmax(
        model.layer.represent(inputs), codes, n_labels=n_labels, C=float(head_c), balanced=balanced
    )
    weight = (model.head_weight + fitted.weight) / 2
    bias = (model.head_bias + fitted.bias) / 2
    if balanced:
        # A label without rows has no share, and is never predicted anyway.
        bias -= LEANING / 2 * np.log(np.bincount(codes, minlength=n_labels).clip(1) / len(codes))
    return dataclasses.replace(
        model, head_weight=weight.astype(np.float32), head_bias=bias.astype(np.float32)
    )


def save_model(model: TrainedModel, path: str | PathLike[str], *, settings: TrainingSettings) -> None:
    """Write a model and the settings it was trained with to a file of safetensors.

    A crash leaves either the old file or the new one, never half of it. Equal models give equal files.

    Raises
    ------
    UsageError
        If the model is not one that these settings make.
    StoreError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from robusttc.encoders.dense import DenseLayer
    >>> eye, zero = np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32)
    >>> model = TrainedModel(DenseLayer(eye, zero), eye, zero)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder, "acme.safetensors"), settings=TrainingSettings(width=2))
    ...     again, settings = load_model(Path(folder, "acme.safetensors"))
    >>> settings.width, bool((again.head_weight == eye).all())
    (2, True)
    """
    from safetensors.numpy import save

    path = Path(path)
    arrays = {f"layer.{name}": array for name, array in model.layer.parameters().items()}
    arrays |= {"head.weight": model.head_weight, "head.bias": model.head_bias}
    arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}
    activation = getattr(model.layer, "activation", settings.activation)
    fault = find_fault(arrays, settings)
    if fault is None and activation != settings.activation:
        fault = f"activation {activation} in the layer, {settings.activation} in the settings"
    if fault is not None:
        raise UsageError("the model does not fit the settings", where=str(path), got=fault)
    header = {
        "format": FORMAT,
        "settings": dataclasses.asdict(settings),
        "fingerprint": fingerprint_of(arrays, settings),
    }
    content = save(arrays, metadata={HEADER_KEY: json.dumps(header, sort_keys=True)})
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        raise StoreError("the model cannot be written", where=str(path), got=quote(str(error))) from error
    finally:
        beside.unlink(missing_ok=True)


def load_model(path: str | PathLike[str]) -> tuple[TrainedModel, TrainingSettings]:
    """Read what `save_model` wrote: the model, and the settings it was trained with.

    Raises
    ------
    StoreError
        If there is no such file, or it is not exactly what was written.
    """
    path = Path(path)
    try:
        header, arrays = read_file(path)
        settings = TrainingSettings(**header["settings"])
        fault = find_fault(arrays, settings)
        if fault is None and header["fingerprint"] != fingerprint_of(arrays, settings):
            fault = "numbers or settings that have changed since"
        if fault is not None:
            raise ValueError(fault)
    except Exception as error:  # whatever a damaged file brings about, the user needs the name of the file
        raise StoreError(
            "the file is not a model, or it is damaged",
            where=str(path),
            got=quote(str(error)),
            expected="a file that save_model wrote",
            todo="train the model anew",
        ) from error
    head_weight, head_bias = arrays.pop("head.weight"), arrays.pop("head.bias")
    parameters = {name.removeprefix("layer."): array for name, array in arrays.items()}
    return TrainedModel(
        layer_from_parameters(parameters, settings=settings), head_weight, head_bias
    ), settings


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    """Read the header and the arrays of a model's file."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        header = json.loads((file.metadata() or {}).get(HEADER_KEY, "{}"))
        if header.get("format") != FORMAT:
            raise ValueError(f"format {header.get('format')!r} instead of {FORMAT!r}")
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


def find_fault(arrays: dict[str, NDArray[np.float32]], settings: TrainingSettings) -> str | None:
    """Say in what the arrays are not a model of these settings; None if they are one."""
    for name, array in sorted(arrays.items()):
        if array.dtype != np.float32:
            return f"{name} of type {array.dtype}"
        if not np.isfinite(array).all():
            return f"a number in {name} that is not finite"
    shapes = {name: array.shape for name, array in arrays.items()}
    head = shapes.pop("head.weight", ()), shapes.pop("head.bias", ())
    own = {name.removeprefix("layer."): arrays[name] for name in shapes if name.startswith("layer.")}
    try:
        layer = layer_from_parameters(own, settings=settings)
    except RobustTCError as error:
        return str(error)
    if len(own) != len(shapes):
        return f"arrays {', '.join(sorted(shapes))}"
    is_head = len(head[1]) == 1 and head[1][0] >= 2 and head[0] == (layer.width, *head[1])
    # Of a residual layer the settings say the hidden width; its representation is as wide as its input.
    own_width = layer.hidden if isinstance(layer, ResidualLayer) else layer.width
    if own_width != settings.width or not is_head:
        return f"a layer of width {layer.width}, a classifier of shapes {head[0]} and {head[1]}"
    trains_vectors = settings.embeddings != "frozen"
    if "filters" in own and (len(own["filters"]) != settings.window or ("vectors" in own) != trains_vectors):
        return f"window {len(own['filters'])}, {'with' if 'vectors' in own else 'without'} word vectors"
    return None


def fingerprint_of(arrays: dict[str, NDArray[np.float32]], settings: TrainingSettings) -> str:
    """Give the SHA-256 of the settings and all numbers."""
    digest = hashlib.sha256(settings.fingerprint.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{len(name)}:{name}:{array.shape}".encode())
        digest.update(array.astype("<f4").tobytes())
    return digest.hexdigest()
