"""How frequent labels are: it counts where it proves to pay, and nowhere else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.multitask.label_power import POWERS, choose_power, log_shares, tilt
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.run.later.joins import join_all
from robusttc.work.units import Here

QUICK = MultiTaskSettings(width=16, epochs=10, min_steps=1)
WORDS = ["lamp", "chair", "book", "phone", "shirt", "cup", "ball", "desk", "film", "song"]


@given(some.lists(some.integers(0, 3), min_size=1, max_size=30))
def test_shares_are_shares(codes: list[int]) -> None:
    shares = np.exp(log_shares(np.array(codes), 4))
    assert shares.sum() == pytest.approx(1)
    counts = np.bincount(codes, minlength=4)
    assert (np.argsort(counts, kind="stable") == np.argsort(shares, kind="stable")).all()


@given(some.integers(0, 10_000))
def test_tilting_forth_and_back_changes_nothing(seed: int) -> None:
    generator = np.random.default_rng(seed)
    table = generator.dirichlet(np.ones(3), size=5)
    offsets = generator.normal(size=(5, 3))
    np.testing.assert_allclose(tilt(tilt(table, offsets), -offsets), table, atol=1e-9)
    assert tilt(table, offsets).sum(axis=1) == pytest.approx(1)


def make_tables(
    seed: int, share: float, n_tasks: int = 30
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Give what a model that sees both labels alike says of rows of which such a share has the first."""
    generator = np.random.default_rng(seed)
    tables, shares, codes = {}, {}, {}
    for number in range(n_tasks):
        right = (generator.random(80) > share).astype(np.int64)
        evidence = generator.normal(size=80) + np.where(right == 0, 0.7, -0.7)
        first = 1 / (1 + np.exp(-1.4 * evidence))  # what Bayes says where both are as frequent
        tables[f"{number}"] = np.stack([first, 1 - first], axis=1)
        others = (generator.random(160) > share).astype(np.int64)  # the rows that models were trained on
        shares[f"{number}"] = np.tile(log_shares(others, 2), (80, 1))
        codes[f"{number}"] = right
    return tables, shares, codes


@pytest.mark.parametrize("seed", range(3))
def test_power_is_the_best_one_where_it_pays(seed: int) -> None:
    tables, shares, codes = make_tables(seed, 0.9)
    power = choose_power(tables, shares, codes)

    def accuracy(value: float) -> float:
        answers = {name: np.log(table) + value * shares[name] for name, table in tables.items()}
        return float(np.mean([(answers[name].argmax(axis=1) == codes[name]).mean() for name in codes]))

    assert accuracy(power) == max(accuracy(value) for value in (0.0, *POWERS))
    assert power > 0


@pytest.mark.parametrize("seed", range(5))
def test_power_is_zero_where_nothing_is_proved(seed: int) -> None:
    assert choose_power(*make_tables(seed, 0.5)) == 0
    assert choose_power({}, {}, {}) == 0


def make_reviews(number: int, n_rows: int = 80) -> Task:
    """Nine of ten are good; of most texts nobody can tell."""
    generator = np.random.default_rng(number)
    texts, labels = [], []
    for row in range(n_rows):
        is_bad = bool(generator.random() < 0.12)
        word, other = generator.choice(WORDS, size=2)
        mood = ("broken, I want my money back" if is_bad else "wonderful") if row % 4 == 0 else "as described"
        texts.append(f"{word} and {other}, number {row} of {number}: {mood}")
        labels.append("bad" if is_bad else "good")
    splits = ["train"] * (n_rows // 2) + ["valid"] * 10 + ["test"] * (n_rows - n_rows // 2 - 10)
    return Task(f"shop {number:02d}", texts, labels, splits)


@cache
def fit_reviews() -> tuple[ClusterMultiTask, TaskSet]:
    tasks = TaskSet(make_reviews(number) for number in range(12))
    return ClusterMultiTask(settings=QUICK, clusters="never").fit(tasks), tasks


def share_of_bad(model: ClusterMultiTask, task: Task) -> float:
    texts = list(task.texts_at(task.rows("test")))
    return float((model.predict(task.name, texts) == "bad").mean())


def test_skewed_tasks_are_served_with_how_frequent_labels_are() -> None:
    model, tasks = fit_reviews()
    assert model.label_power_ > 0
    found = [share_of_bad(model, task) for task in tasks]
    assert np.mean(found) < 0.2
    fitted = model._need()
    for task in tasks:
        expected = model.label_power_ * log_shares(task.label_codes[task.rows("train")].astype(np.int64), 2)
        assert fitted.serving.tasks[task.name].offsets == pytest.approx(expected.tolist())
        # What held-out rows are judged by is what serves.
        assert len(fitted.right[task.name]["served"])


def test_files_keep_it(tmp_path: Path) -> None:
    model, tasks = fit_reviews()
    model.save(tmp_path / "model")
    again = ClusterMultiTask.load(tmp_path / "model")
    assert again.label_power_ == model.label_power_
    task = next(iter(tasks))
    texts = list(task.texts)
    assert (again.predict_proba(task.name, texts) == model.predict_proba(task.name, texts)).all()


def test_a_task_that_joins_later_has_it_too() -> None:
    model, _ = fit_reviews()
    later = make_reviews(30)
    private = Task("private", later.texts, later.labels.tolist(), later.splits.tolist(), may_share=False)
    joined = join_all(
        TaskSet([later, private]),
        {later.name: 0, "private": -1},
        model._need(),
        SentenceEncoder(),
        n_folds=3,
        workshop=Here(),
    )
    offsets = joined[later.name].later.task.offsets
    expected = model.label_power_ * log_shares(later.label_codes[later.rows("train")].astype(np.int64), 2)
    assert offsets == pytest.approx(expected.tolist())
    # Its own model was not judged so.
    assert joined["private"].later.task.offsets == ()


def test_even_tasks_are_left_alone() -> None:
    planted = make_planted_vectors(16, 1, seed=0)
    model = ClusterMultiTask(FeatureEncoder(planted.features), settings=QUICK).fit(planted.tasks)
    assert model.label_power_ == 0
    assert all(task.offsets == () for task in model._need().serving.tasks.values())
