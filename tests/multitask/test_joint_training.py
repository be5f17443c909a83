"""Joint training of one layer and many classifiers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_vectors import make_planted_vectors

from robusttc.encoders import DenseInputs
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.models import head_gradients
from robusttc.multitask import (
    PAPER,
    MultiTaskSettings,
    SharedModel,
    TaskRows,
    default_settings,
    prepare_tasks,
    train_jointly,
)
from robusttc.multitask.joint_training import label_groups
from robusttc.random import numpy_generator

QUICK = MultiTaskSettings(
    width=32,
    dropout=0.2,
    epochs=30,
    min_steps=1,
    learning_rate=3e-3,
    head_rate=5.0,
    head_c=0.0,
    share_labels=False,
)


def planted_parts(seed: int = 0, n_tasks: int = 6) -> tuple[DenseInputs, list[TaskRows]]:
    planted = make_planted_vectors(n_tasks, 1, seed=seed)
    data = prepare_tasks(planted.tasks, planted.encoder, None)
    inputs = data.inputs_of("task-00")
    assert isinstance(inputs, DenseInputs)
    return inputs, [data.rows(task.name, task.rows("train"), valid=True) for task in planted.tasks]


def same_model(first: SharedModel, second: SharedModel) -> bool:
    mine, theirs = first.layer.parameters(), second.layer.parameters()
    return (
        first.names == second.names
        and np.array_equal(first.weight, second.weight)
        and np.array_equal(first.bias, second.bias)
        and all(np.array_equal(mine[name], theirs[name]) for name in mine)
    )


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_finite_differences(seed: int) -> None:
    generator = np.random.default_rng(seed)
    representation = generator.normal(size=(7, 4)).astype(np.float32)
    weight = generator.normal(size=(9, 4)).astype(np.float32)
    bias = generator.normal(size=9).astype(np.float32)
    row_starts, starts, ends = np.array([0, 3, 7]), np.array([2, 6]), np.array([5, 8])
    codes = np.array([0, 2, 1, 1, 0, 1, 0])

    def loss(x: NDArray[np.float64], w: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        total = 0.0
        for task in range(2):
            for row in range(row_starts[task], row_starts[task + 1]):
                logits = x[row] @ w[starts[task] : ends[task]].T + b[starts[task] : ends[task]]
                logs = logits - np.log(np.exp(logits).sum())
                total -= logs[codes[row]]
        return total / 7

    value, gradient, labels, weight_gradient, bias_gradient = head_gradients(
        representation, row_starts, starts, ends, codes, weight, bias
    )
    assert labels.tolist() == [2, 3, 4, 6, 7]
    exact = [array.astype(float) for array in (representation, weight, bias)]
    assert value == pytest.approx(loss(*exact), abs=1e-5)
    whole_weight, whole_bias = np.zeros((9, 4)), np.zeros(9)
    whole_weight[labels], whole_bias[labels] = weight_gradient, bias_gradient
    expected: list[NDArray[np.floating]] = [gradient, whole_weight, whole_bias]
    for number, found in enumerate(expected):
        for place in np.ndindex(exact[number].shape):
            up, down = ([array.copy() for array in exact] for _ in range(2))
            up[number][place] += 1e-5
            down[number][place] -= 1e-5
            assert found[place] == pytest.approx((loss(*up) - loss(*down)) / 2e-5, abs=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_learns_and_the_order_of_tasks_does_not_matter(seed: int) -> None:
    inputs, parts = planted_parts(seed)
    model = train_jointly(inputs, parts, settings=QUICK, generator=numpy_generator(seed, "x"))
    again = train_jointly(inputs, parts[::-1], settings=QUICK, generator=numpy_generator(seed, "x"))
    other = train_jointly(inputs, parts, settings=QUICK, generator=numpy_generator(seed + 1, "x"))
    assert same_model(model, again)
    assert not same_model(model, other)
    for part in parts:
        right = model.probabilities(part.name, inputs.take(part.items)).argmax(axis=1) == part.codes
        assert right.mean() > 0.9


def test_probabilities_of_an_item_depend_on_it_alone() -> None:
    inputs, parts = planted_parts()
    settings = QUICK.replace(head_c=3.0)
    model = train_jointly(inputs, parts, settings=settings, generator=numpy_generator(0, "x"))
    whole = model.probabilities("task-01", inputs)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0)
    for rows in ([5], [7, 8, 9], [100, 3]):
        assert np.array_equal(model.probabilities("task-01", inputs.take(rows)), whole[rows])


def test_converged_classifiers_are_averaged_in() -> None:
    inputs, parts = planted_parts()
    plain = train_jointly(inputs, parts, settings=QUICK, generator=numpy_generator(0, "x"))
    both = train_jointly(inputs, parts, settings=QUICK.replace(head_c=3.0), generator=numpy_generator(0, "x"))
    assert same_model(plain, both)
    assert both.converged is not None
    own = both.labels_of("task-02")
    logits = 1.5 * (both.layer.represent(inputs) @ both.converged[0][own].T + both.converged[1][own])
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = (plain.probabilities("task-02", inputs) + shares / shares.sum(axis=1, keepdims=True)) / 2
    np.testing.assert_allclose(both.probabilities("task-02", inputs), expected, atol=1e-5)


def test_early_stopping_keeps_the_best_epoch() -> None:
    inputs, parts = planted_parts(2)
    settings = QUICK.replace(epochs=12, min_steps=1, decay=False)
    accuracies = []
    for epochs in range(1, 13):
        model = train_jointly(
            inputs, parts, settings=settings.replace(epochs=epochs), generator=numpy_generator(0, "x")
        )
        right = [
            (
                model.probabilities(part.name, inputs.take(part.valid_items)).argmax(axis=1)
                == part.valid_codes
            ).mean()
            for part in parts
        ]
        accuracies.append(float(np.mean(right)))
    stopped = train_jointly(
        inputs, parts, settings=settings, generator=numpy_generator(0, "x"), stop_early=True
    )
    best = int(np.argmax(accuracies)) + 1
    assert stopped.n_epochs == best
    expected = train_jointly(
        inputs, parts, settings=settings.replace(epochs=best), generator=numpy_generator(0, "x")
    )
    assert same_model(stopped, expected)


def test_without_validation_rows_all_epochs_are_trained() -> None:
    inputs, parts = planted_parts()
    bare = [TaskRows(part.name, part.n_labels, part.items, part.codes) for part in parts]
    settings = QUICK.replace(epochs=4, min_steps=1)
    stopped = train_jointly(
        inputs, bare, settings=settings, generator=numpy_generator(0, "x"), stop_early=True
    )
    plain = train_jointly(inputs, parts, settings=settings, generator=numpy_generator(0, "x"))
    assert stopped.n_epochs == 4
    assert same_model(stopped, plain)


def test_tasks_without_rows_are_refused() -> None:
    inputs, parts = planted_parts()
    empty = TaskRows("empty", 2, np.zeros(0, np.int64), np.zeros(0, np.int64))
    with pytest.raises(DataError, match="'empty'"):
        train_jointly(inputs, [*parts, empty], settings=QUICK, generator=numpy_generator(0, "x"))
    with pytest.raises(DataError, match="no tasks"):
        train_jointly(inputs, [], settings=QUICK, generator=numpy_generator(0, "x"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("epochs", 1.5),
        ("epochs", True),
        ("dropout", 1.0),
        ("learning_rate", 0),
        ("balance", -1),
        ("power", float("nan")),
        ("decay", "no"),
        ("head_c", -1),
        ("activation", "residul"),
        ("embeddings", "glove"),
    ],
)
def test_settings_that_cannot_be_used(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        MultiTaskSettings().replace(**{name: value})


def test_few_small_tasks_get_more_epochs() -> None:
    settings = MultiTaskSettings(epochs=10, min_steps=100)
    assert settings.count_epochs(50) == 10
    assert settings.count_epochs(3) == 34
    inputs, _ = planted_parts()
    assert default_settings(inputs).activation == "residual"
    assert PAPER.share_labels is False
    # The paper's step size for all weights, labels and tasks as they come, and no second classifier.
    paper = PAPER
    assert (paper.learning_rate, paper.head_rate, paper.decay) == (1e-3, 1.0, False)
    assert (paper.balance, paper.power, paper.head_c) == (0.0, 1.0, 0.0)
    assert PAPER.fingerprint != default_settings(inputs).fingerprint


def test_namesakes_learn_from_each_other() -> None:
    # Of each task only half of the labels have many rows; namesakes in the other task have the rest.
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(6, 12))
    names = tuple(f"label_{number}" for number in range(6))
    sizes = {"a": [30, 30, 30, 1, 1, 1], "b": [1, 1, 1, 30, 30, 30]}
    blocks, parts, start = [], [], 0
    for name, own in sizes.items():
        codes = np.repeat(np.arange(6), own)
        blocks.append(centres[codes] + 0.9 * generator.normal(size=(len(codes), 12)))
        parts.append(TaskRows(name, 6, np.arange(start, start + len(codes)), codes, label_names=names))
        start += len(codes)
    inputs = DenseInputs(np.concatenate(blocks).astype(np.float32))
    asked_codes = np.repeat(np.arange(3, 6), 40)
    asked = DenseInputs((centres[asked_codes] + 0.9 * generator.normal(size=(120, 12))).astype(np.float32))
    accuracy = {}
    for share in (False, True):
        settings = MultiTaskSettings(width=16, epochs=5, min_steps=150, head_c=0.0, share_labels=share)
        model = train_jointly(inputs, parts, settings=settings, generator=numpy_generator(0, "x"))
        accuracy[share] = (model.probabilities("a", asked).argmax(axis=1) == asked_codes).mean()
    assert accuracy[True] > accuracy[False] + 0.05


def test_label_names_are_compared_by_their_words() -> None:
    groups = label_groups(["order_status", "orderStatus", "1", "-1", "ORDER status", "2"])
    assert groups[0] == groups[1] == groups[4]
    assert len(set(groups.tolist())) == 4


def test_a_task_that_the_model_does_not_know_is_named() -> None:
    inputs, parts = planted_parts()
    model = train_jointly(inputs, parts[:2], settings=QUICK, generator=numpy_generator(0, "x"))
    with pytest.raises(UnknownTaskError, match="task-0"):
        model.probabilities("task-05", inputs)
