"""The overlap scores against loops, and against scikit-learn's tf-idf."""

from __future__ import annotations

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.errors import DataError
from robusttc.transfer import normalise_text, text_overlap

WORDS = ["pay", "Pay!", "bill", "my", "the", "rain", "Über", "7", "?", "hello", "good-bye", "thanks"]


def random_tasks(seed: int, n_tasks: int = 6) -> TaskSet:
    generator = np.random.default_rng(seed)

    def text() -> str:
        return " ".join(generator.choice(WORDS, size=generator.integers(1, 3)))

    def task(number: int) -> Task:
        n_rows = int(generator.integers(5, 25))
        labels = [f"l{label}" for label in generator.integers(3, size=n_rows)]
        splits = ["train", *generator.choice(["train", "valid", "test"], size=n_rows - 1)]
        return Task(f"t{number}", [text() for _ in range(n_rows)], labels, [str(split) for split in splits])

    return TaskSet(task(number) for number in range(n_tasks))


def texts_of(task: Task, splits: tuple[str, ...]) -> list[str]:
    return [text for text, split in zip(task.texts, task.splits, strict=True) if split in splits]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_text_overlap_equals_a_loop(seed: int) -> None:
    tasks = random_tasks(seed)
    splits = ("train", "valid")
    found = text_overlap(tasks)
    for i, source in enumerate(tasks):
        known = {normalise_text(text) for text in texts_of(source, splits)}
        for j, target in enumerate(tasks):
            rows = [normalise_text(text) in known for text in texts_of(target, splits)]
            assert found[i, j] == pytest.approx(np.mean(rows))
    assert (np.diag(found) == 1).all()


def test_the_order_of_tasks_is_the_order_of_rows() -> None:
    tasks = random_tasks(4)
    order = [3, 0, 5, 1, 4, 2]
    moved = tasks.subset([tasks.names[i] for i in order])
    np.testing.assert_allclose(text_overlap(moved), text_overlap(tasks)[np.ix_(order, order)], atol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pay, NOW!!", "pay now"),
        ("a_b", "a b"),
        ("  Über 7 ", "über 7"),
        (" ... ", "..."),
        ("你好。", "你好"),
    ],
)
def test_normalise_text(text: str, expected: str) -> None:
    assert normalise_text(text) == expected


def test_a_task_without_rows_is_refused() -> None:
    tasks = TaskSet([Task("a", ["hi"], ["x"]), Task("b", ["hi"], ["x"], ["test"])])
    with pytest.raises(DataError, match="'b': a task has no row"):
        text_overlap(tasks)
