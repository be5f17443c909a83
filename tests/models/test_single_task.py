"""The model of one task: as good as probes of its own features, and the same every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifier

from robusttc.data import Task, TaskSet
from robusttc.encoders import PreparedTasks
from robusttc.encoders.features import FeatureEncoder
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.models import TrainedModel, TrainingSettings, fit_softmax, train_single_task
from robusttc.models.training import PRIOR_CORRECTION

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
        expected = expected - PRIOR_CORRECTION / 2 * np.log(np.bincount(codes) / len(codes))
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
