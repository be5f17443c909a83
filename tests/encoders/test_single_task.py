"""The model of one task: as good as probes of its own features, the same every time, and whole on disk."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifier

from robusttc.data import Task, TaskSet, TokenArray
from robusttc.encoders.encoder import PreparedTasks
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.model import TrainedModel
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.single_task import LEANING, load_model, save_model, train_single_task
from robusttc.encoders.softmax import fit_softmax
from robusttc.errors import DataError, StoreError, UnknownTaskError, UsageError

SETTINGS = TrainingSettings(width=16, epochs=20, min_steps=40)


def make_task(seed: int, *, n_rows: int = 200, name: str = "acme") -> tuple[Task, PreparedTasks]:
    """Make a task with three labels of unlike frequency, each with a direction of its own, and noise."""
    generator = np.random.default_rng(seed)
    codes = generator.choice(3, n_rows, p=[0.7, 0.2, 0.1])
    codes[:3] = [0, 1, 2]
    matrix = generator.normal(size=(n_rows, 8))
    matrix[np.arange(n_rows), codes] += 2.5
    splits = ["train"] * (n_rows // 2) + ["test"] * (n_rows - n_rows // 2)
    texts = [f"text {row}" for row in range(n_rows)]
    task = Task(name, texts, [f"label {code}" for code in codes], splits)
    return task, FeatureEncoder({name: matrix}).prepare(TaskSet([task]))


def word_task() -> tuple[Task, PreparedTasks]:
    """Make a task of words: the label is that of the first word."""
    texts = ["yes please", "no thanks", "yes", "no"]
    task = Task("words", texts, ["yes", "no", "yes", "no"])
    vectors = np.zeros((5, 3), dtype=np.float32)
    vectors[1:] = np.random.default_rng(0).normal(size=(4, 3))
    tokens = TokenArray([1, 3, 2, 4, 1, 2], [0, 2, 4, 5, 6])
    return task, PreparedTasks(WordInputs(tokens, vectors), {"words": np.arange(4)})


def accuracy(predicted: NDArray[Any], task: Task, rows: NDArray[np.intp]) -> float:
    return float((predicted == task.label_codes[rows]).mean())


def arrays_of(model: TrainedModel) -> dict[str, NDArray[np.float32]]:
    return {**model.layer.parameters(), "head": model.head_weight, "head_bias": model.head_bias}


def test_it_is_as_good_as_a_ridge_probe_on_its_own_features() -> None:
    ours, ridges = [], []
    for seed in range(5):
        task, prepared = make_task(seed)
        model = train_single_task(task, prepared, settings=SETTINGS, seed=seed)
        train, test = (
            model.layer.represent(prepared.inputs_of(task.name, task.rows(split)))
            for split in ("train", "test")
        )
        probe = RidgeClassifier(class_weight="balanced").fit(train, task.label_codes[task.rows("train")])
        ridges.append(accuracy(probe.predict(test), task, task.rows("test")))
        held_out = prepared.inputs_of(task.name, task.rows("test"))
        ours.append(accuracy(model.predict_codes(held_out), task, task.rows("test")))
    assert np.mean(ours) >= np.mean(ridges)
    assert np.mean(ours) > 0.85


@pytest.mark.parametrize("balanced", [False, True])
def test_the_logits_are_the_mean_of_both_classifiers(balanced: bool) -> None:
    task, prepared = make_task(0)
    rows = task.rows("train")
    inputs, codes = prepared.inputs_of(task.name, rows), task.label_codes[rows]
    last = train_single_task(task, prepared, settings=SETTINGS, seed=0, head_c=None)
    model = train_single_task(task, prepared, settings=SETTINGS, seed=0, head_c=2, balanced=balanced)
    features = last.layer.represent(inputs)
    fitted = fit_softmax(features, codes, n_labels=3, C=2.0, balanced=balanced)
    expected = (last.logits(inputs) + fitted.logits(features)) / 2
    if balanced:
        expected = expected - LEANING / 2 * np.log(np.bincount(codes) / len(codes))
    np.testing.assert_allclose(model.logits(inputs), expected, atol=1e-4)


def test_it_depends_on_the_task_and_the_seed_alone() -> None:
    task, prepared = make_task(0)
    other, _ = make_task(1, name="other")
    both = FeatureEncoder(
        {"other": np.ones((len(other), 8)), "acme": prepared.inputs.matrix}  # type: ignore[union-attr]
    ).prepare(TaskSet([other, task]))
    first = arrays_of(train_single_task(task, prepared, settings=SETTINGS, seed=3))
    again = arrays_of(train_single_task(task, both, settings=SETTINGS, seed=3))
    another = arrays_of(train_single_task(task, prepared, settings=SETTINGS, seed=4))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["weight"], another["weight"])


def test_a_label_without_training_rows_is_never_predicted() -> None:
    task = Task("a", ["x", "y", "z"], ["1", "2", "3"], ["train", "train", "test"])
    prepared = FeatureEncoder({"a": np.eye(3)}).prepare(TaskSet([task]))
    model = train_single_task(task, prepared, settings=SETTINGS, seed=0)
    assert model.predict_codes(prepared.inputs)[2] != 2
    assert np.isfinite(model.probabilities(prepared.inputs)).all()


@pytest.mark.parametrize(
    ("labels", "splits", "message"),
    [
        (["x", "x", "y"], ["train", "train", "valid"], "task 'lonely'.*2 training rows, all of label 'x'"),
        (["x", "y", "y"], ["test", "test", "valid"], "task 'lonely'.*no training rows"),
    ],
)
def test_a_task_that_cannot_be_learned_is_named(labels: list[str], splits: list[str], message: str) -> None:
    task = Task("lonely", ["a", "b", "c"], labels, splits)
    prepared = FeatureEncoder({"lonely": np.eye(3)}).prepare(TaskSet([task]))
    with pytest.raises(DataError, match=message):
        train_single_task(task, prepared, settings=SETTINGS, seed=0)


def test_rows_that_are_not_prepared_are_refused() -> None:
    task, prepared = make_task(0)
    none = PreparedTasks(prepared.inputs, {"acme": np.full(len(task), -1)})
    with pytest.raises(UsageError, match=r"task 'acme'.*not prepared"):
        train_single_task(task, none, settings=SETTINGS, seed=0)
    with pytest.raises(UnknownTaskError):
        train_single_task(task, PreparedTasks(prepared.inputs, {}), settings=SETTINGS, seed=0)
    with pytest.raises(UsageError, match="C cannot be used"):
        train_single_task(task, prepared, settings=SETTINGS, seed=0, head_c=0)


@pytest.mark.parametrize("kind", ["dense", "linear", "frozen", "pretrained"])
def test_a_saved_model_comes_back_bit_for_bit(kind: Any, tmp_path: Path) -> None:
    task, prepared = make_task(0) if kind in ("dense", "linear") else word_task()
    settings = TrainingSettings(width=6, window=3, epochs=2, min_steps=0)
    if kind == "linear":
        settings = settings.replace(activation="linear")
    elif kind != "dense":
        settings = settings.replace(embeddings=kind)
    model = train_single_task(task, prepared, settings=settings, seed=0)
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"an old file")
    save_model(model, path, settings=settings)
    first = path.read_bytes()
    again, found = load_model(path)
    assert found == settings
    assert np.array_equal(again.logits(prepared.inputs), model.logits(prepared.inputs))
    assert all(np.array_equal(value, arrays_of(again)[name]) for name, value in arrays_of(model).items())
    save_model(again, path, settings=found)
    assert path.read_bytes() == first
    assert os.listdir(tmp_path) == ["model.safetensors"]  # noqa: PTH208 - also what is hidden


def test_a_model_of_other_settings_is_not_saved(tmp_path: Path) -> None:
    task, prepared = make_task(0)
    model = train_single_task(task, prepared, settings=SETTINGS, seed=0)
    for wrong in (SETTINGS.replace(width=8), SETTINGS.replace(activation="linear")):
        with pytest.raises(UsageError, match="does not fit the settings"):
            save_model(model, tmp_path / "model", settings=wrong)
    model.head_bias[0] = np.nan
    with pytest.raises(UsageError, match="not finite"):
        save_model(model, tmp_path / "model", settings=SETTINGS)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    task, prepared = make_task(0)
    model = train_single_task(task, prepared, settings=SETTINGS, seed=0)
    with pytest.raises(StoreError, match="nowhere"):
        save_model(model, tmp_path / "nowhere" / "model", settings=SETTINGS)


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    task, prepared = make_task(0, n_rows=40)
    settings = TrainingSettings(width=3, epochs=1, min_steps=0)
    path = tmp_path / "model.safetensors"
    save_model(train_single_task(task, prepared, settings=settings, seed=0), path, settings=settings)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    damaged = [b"", whole[:-1], whole[:50], whole + b"x", b"x" * 100]
    for place in generator.choice(len(whole), 60, replace=False).tolist():
        flipped = bytes([whole[place] ^ 1 << int(generator.integers(8))])
        damaged += [whole[:place] + flipped + whole[place + 1 :]]
    messages = []
    for content in damaged:
        path.write_bytes(content)
        try:
            model, found = load_model(path)
        except StoreError as error:
            messages.append(str(error))
        else:
            # Not all of the header's white space means something.
            assert found == settings
            assert np.isfinite(model.logits(prepared.inputs)).all()
    assert len(messages) >= len(damaged) - 2
    assert all("model.safetensors" in message for message in messages)
    path.unlink()
    with pytest.raises(StoreError, match=r"model\.safetensors"):
        load_model(path)
    with pytest.raises(StoreError):
        load_model(tmp_path)


@pytest.mark.parametrize("change", ["format", "settings", "width", "unknown", "shape"])
def test_a_header_that_does_not_fit_is_refused(change: str, tmp_path: Path) -> None:
    task, prepared = make_task(0, n_rows=40)
    settings = TrainingSettings(width=3, epochs=1, min_steps=0)
    path = tmp_path / "model"
    save_model(train_single_task(task, prepared, settings=settings, seed=0), path, settings=settings)
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    own = json.loads(header["__metadata__"]["robusttc"])
    if change == "format":
        own["format"] = "robusttc-model-0"
    elif change == "settings":
        own["settings"] = "none"
    elif change == "unknown":
        own["settings"]["depth"] = 3
    elif change == "width":
        own["settings"]["width"] = 4
    else:
        header["layer.weight"]["shape"] = header["layer.weight"]["shape"][::-1]
    header["__metadata__"]["robusttc"] = json.dumps(own)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length :])
    with pytest.raises(StoreError, match="not a model"):
        load_model(path)
