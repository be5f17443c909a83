"""What a step of fine-tuning sees, and the settings it is drawn by."""

from __future__ import annotations

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders.fine_tuning_batches import collect_texts, draw_batch, task_shares
from robusttc.encoders.fine_tuning_settings import FineTuningSettings
from robusttc.errors import DataError, UsageError


def numbered(name: str, n_labels: int, n_texts: int) -> Task:
    texts = [f"{name} {label} {number}" for label in range(n_labels) for number in range(n_texts)]
    return Task(name, texts, [text.split()[1] for text in texts])


def test_what_is_usable() -> None:
    tasks = TaskSet(
        [
            Task(
                "b",
                ["one", "two", "both", "both", "three", "four", "three", "alone", "seen later"],
                ["x", "x", "x", "y", "y", "y", "y", "z", "x"],
                ["train"] * 8 + ["valid"],
            ),
            Task("single", ["one", "two"], ["x", "x"]),
            numbered("a", 2, 2),
        ]
    )
    found = collect_texts(tasks)
    assert [task.task for task in found] == ["a", "b"]
    assert found[1].texts == (("one", "two"), ("three", "four"))
    assert found[1].names == (None, None)
    named = collect_texts(tasks, lambda label: None if label == "y" else f"label {label}")
    assert named[1].names == ("label x", None, "label z")
    assert named[1].texts[2] == ("alone",)
    assert named[1].n_texts == 5


def test_tasks_that_are_not_shared_are_passed_over() -> None:
    tasks = TaskSet([numbered("a", 3, 3), numbered("b", 3, 3)]).keep_private(["a"])
    assert [task.task for task in collect_texts(tasks)] == ["b"]
    with pytest.raises(DataError, match="no task has anything to fine-tune on"):
        collect_texts(tasks.keep_private(["a", "b"]))


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_has_some_labels_of_one_task(seed: int) -> None:
    tasks = collect_texts(TaskSet([numbered("a", 30, 9), numbered("b", 3, 2)]), lambda label: f"name {label}")
    settings = FineTuningSettings()
    shares = task_shares(tasks, power=0)
    seen = set()
    for step in range(12):
        batch = draw_batch(tasks, shares, step=step, settings=settings, seed=seed)
        again = draw_batch(tasks, shares, step=step, settings=settings, seed=seed)
        assert batch.texts == again.texts
        seen.add(batch.texts)
        of_label: dict[int, list[str]] = {}
        for text, code in zip(batch.texts, batch.codes.tolist(), strict=True):
            of_label.setdefault(code, []).append(text)
        assert len(of_label) == (14 if batch.task == "a" else 3)
        for texts in of_label.values():
            assert len(set(texts)) == len(texts) == (5 if batch.task == "a" else 3)
            label = texts[-1].removeprefix("name ")
            assert all(text.startswith(f"{batch.task} {label} ") for text in texts[:-1])
    assert len(seen) > 6


def test_shares_of_tasks() -> None:
    tasks = collect_texts(TaskSet([numbered("a", 2, 50), numbered("b", 2, 2), numbered("c", 2, 2)]))
    np.testing.assert_allclose(task_shares(tasks, power=0), [1 / 3] * 3)
    np.testing.assert_allclose(task_shares(tasks, power=1), np.array([100, 4, 4]) / 108)
    np.testing.assert_allclose(task_shares(tasks, power=0.5), np.array([10, 2, 2]) / 14)
    np.testing.assert_allclose(task_shares(tasks, power=0.5, groups=[7, 2, 2]), [0.5, 0.25, 0.25])


def test_the_step_size_rises_and_falls() -> None:
    settings = FineTuningSettings(steps=100, learning_rate=1.0, warm_up=0.2)
    rates = [settings.rate_at(step) for step in range(100)]
    assert np.argmax(rates) in (19, 20)
    assert max(rates) == 1.0
    assert (np.diff(rates[:20]) > 0).all()
    assert (np.diff(rates[20:]) < 0).all()
    assert min(rates) > 0
    assert FineTuningSettings(warm_up=0, learning_rate=1.0).rate_at(0) == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("steps", 1.5),
        ("texts_a_label", 1),
        ("labels_a_batch", True),
        ("rank", 0),
        ("temperature", 0),
        ("learning_rate", -1),
        ("learning_rate", float("nan")),
        ("warm_up", 1),
        ("task_power", "much"),
    ],
)
def test_settings_that_cannot_be_used(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be used"):
        FineTuningSettings().replace(**{name: value})
