"""What measuring will cost: the sums against brute force, and estimates against what then happens."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from robusttc.data import Task, TaskSet, make_planted_tasks
from robusttc.encoders import (
    DenseInputs,
    FeatureEncoder,
    PreparedTasks,
    SentenceEncoder,
    VectorCache,
    distinct_texts,
)
from robusttc.errors import DataError, UsageError
from robusttc.models import TrainingSettings
from robusttc.transfer.calibration import (
    UnitRates,
    choose_strata,
    fit_rates,
    shorten,
    size_of_texts,
    time_of,
    training_size,
)
from robusttc.transfer.cost import CostEstimate, estimate_cost, seconds_of_models, seconds_of_pairs
from robusttc.transfer.frozen_cost import take_runs
from robusttc.transfer.measure import measure_transfer
from robusttc.transfer.pairs import choose_pairs
from robusttc.transfer.plan import TransferPlan, make_plan
from robusttc.transfer.settings import TransferSettings


def make_tasks(n_tasks: int = 6, *, seed: int = 0, n_rows: int = 30) -> TaskSet:
    generator = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(200)]
    tasks = []
    for number in range(n_tasks):
        n = n_rows + 5 * number
        texts = [" ".join(generator.choice(words, generator.integers(1, 12))) for _ in range(n)]
        labels = [f"label {row % (2 + number % 3)}" for row in range(n)]
        splits = ["valid" if row % 5 == 4 else "test" if row % 7 == 6 else "train" for row in range(n)]
        tasks.append(Task(f"task {number}", texts, labels, splits))
    return TaskSet(tasks)


def make_features(tasks: TaskSet, dimension: int = 16) -> FeatureEncoder:
    generator = np.random.default_rng(0)
    return FeatureEncoder({task.name: generator.normal(size=(len(task), dimension)) for task in tasks})


@pytest.mark.parametrize("seed", range(5))
def test_rates_are_found_and_never_negative(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.uniform(1, 100, size=(12, 3)) * [1, 1e3, 1e6]
    truth = np.array([1e-3, 0.0, 1e-9])
    assert fit_rates(sizes, sizes @ truth) == pytest.approx(truth, rel=1e-6, abs=1e-15)
    noisy = fit_rates(sizes, np.abs(generator.normal(size=12)))
    assert (noisy >= 0).all()
    assert fit_rates(sizes, np.zeros(12)).max() == 0
    # One piece of work that seemed to take no time must not make all others free.
    seconds = sizes @ truth
    seconds[0] = 0
    assert (sizes @ fit_rates(sizes, seconds)).sum() > 0.5 * seconds.sum()


@pytest.mark.parametrize("n_tasks", [1, 2, 5, 12, 13, 14, 15, 17, 40, 500])
def test_strata_are_distinct_and_ordered_by_size(n_tasks: int) -> None:
    n_rows = np.random.default_rng(n_tasks).integers(5, 2_000, n_tasks)
    strata = choose_strata(n_rows.tolist())
    chosen = [number for stratum in strata for number in stratum]
    assert len(set(chosen)) == len(chosen) == min(n_tasks, 12)
    assert np.all(np.diff(n_rows[chosen]) >= 0)


def test_shortened_task_keeps_labels_and_drops_test_rows() -> None:
    task = make_tasks(1, n_rows=300)["task 0"]
    assert shorten(task, 1_000) is task
    short = shorten(task, 40)
    assert 40 <= len(short) <= 40 + len(task.label_names)
    assert short.label_names == task.label_names
    assert not len(short.rows("test"))
    assert len(short.rows("valid"))
    originals = list(zip(task.texts, task.labels, task.splits, strict=True))
    assert all(row in originals for row in zip(short.texts, short.labels, short.splits, strict=True))


def test_size_and_runs_of_texts() -> None:
    size = size_of_texts(["A b", "b", "c  a"])
    assert (size.n_texts, size.n_characters, size.n_words) == (3, 8, 3)
    ordered = [f"{number:03}" for number in range(100)]
    taken = take_runs(ordered, 20)
    assert len(set(taken)) == len(taken) == 20
    assert taken == sorted(taken)
    assert np.diff([int(text) for text in taken]).max() > 15  # from all over
    assert take_runs(ordered, 1_000) == ordered


def test_training_size_counts_steps() -> None:
    settings = TrainingSettings(epochs=10, min_steps=0, batch_size=32)
    assert training_size(100, 700, 3, settings).tolist() == [40, 7_000, 3_000]
    # 200 steps at least, in whole epochs of one step.
    assert training_size(10, 70, 2, settings.replace(min_steps=200)).tolist() == [200, 14_000, 4_000]


def test_time_of_is_the_mean() -> None:
    assert 0.01 <= time_of(lambda: time.sleep(0.01)) < 0.1


def make_test_plan(tasks: TaskSet, pairs: int | str, kind: str) -> tuple[TransferPlan, list[str]]:
    texts, items = distinct_texts(tasks, ("train", "valid"))
    prepared = PreparedTasks(DenseInputs(np.zeros((len(texts), 1), dtype=np.float32)), items)
    chosen = choose_pairs(tasks.names, "all" if pairs == "all" else int(pairs))
    return make_plan(tasks, prepared, chosen, settings=TransferSettings(kind=kind), seed=0), texts


@pytest.mark.parametrize("pairs", ["all", 8])
@pytest.mark.parametrize("kind", ["log_likelihood", "accuracy"])
def test_sums_are_those_over_all_units(pairs: int | str, kind: str) -> None:
    tasks = make_tasks(8)
    plan, texts = make_test_plan(tasks, pairs, kind)
    rates = UnitRates(
        training=np.array([1e-3, 1e-6, 1e-7]),
        source=np.array([1e-2, 1e-5]),
        encoding=np.array([1e-6, 1e-4]),
        pair=np.array([1e-4, 1e-6, 1e-7]),
    )
    models = scoring = 0.0
    for source, rows in enumerate(plan.rows):
        models += 1e-2 + 1e-5 * len(rows.items)
        if kind == "accuracy":
            train = rows.items[: rows.n_train]
            epochs = plan.settings.training.count_epochs(len(train))
            models += 1e-3 * epochs * -(-len(train) // 32) + 1e-6 * epochs * sum(len(texts[i]) for i in train)
            models += 1e-7 * epochs * len(train) * rows.n_labels
        needed = {text for target in plan.targets[source] for text in plan.rows[target].items.tolist()}
        read = [texts[i] for i in needed] if len(needed) <= len(texts) / 2 else texts
        words = {word for text in read for word in text.split()}
        scoring += 1e-6 * sum(map(len, read)) + 1e-4 * len(words)
        for target in plan.targets[source]:
            n = len(plan.rows[target].items)
            scoring += 1e-4 + 1e-6 * n + 1e-7 * n * plan.rows[target].n_labels
    assert seconds_of_models(plan, rates, texts) == pytest.approx(models)
    assert seconds_of_pairs(plan, rates, texts) == pytest.approx(scoring)


@pytest.mark.parametrize("kind", ["log_likelihood", "accuracy"])
def test_estimate_is_near_what_happens(kind: str) -> None:
    tasks = make_tasks(30, n_rows=60)
    encoder = make_features(tasks, 64)
    ratios = []
    for _ in range(4):  # a busy machine may spoil one of them
        cost = estimate_cost(tasks, encoder=encoder, kind=kind)
        start = time.perf_counter()
        scores = measure_transfer(tasks, encoder=encoder, kind=kind)
        ratios.append(cost.seconds / (time.perf_counter() - start))
        assert cost.n_scores == len(scores) == 870
        assert cost.n_tasks == 30
        if 0.5 < ratios[-1] < 2:
            return
    pytest.fail(f"estimated over actual seconds: {ratios}")


def test_counts_follow_pairs_and_scores_measured_before() -> None:
    tasks = make_tasks(6)
    encoder = make_features(tasks)
    cost = estimate_cost(tasks, encoder=encoder, pairs=12, n_workers=2)
    assert cost.n_scores == 12
    assert cost.n_texts == len(distinct_texts(tasks, ("train", "valid"))[0])
    assert cost.n_texts_to_encode == 0
    assert min(cost.seconds_frozen, cost.seconds_models, cost.seconds_pairs) > 0
    assert cost.memory_bytes > 10**7
    measured = measure_transfer(tasks, encoder=encoder, pairs=12)
    assert estimate_cost(tasks, encoder=encoder, pairs="all", measured=measured).n_scores == 18
    rest = estimate_cost(tasks, encoder=encoder, pairs=12, measured=measured)
    assert (rest.n_scores, rest.seconds) == (0, 0.0)
    assert "there already" in rest.describe()


def test_overlap_is_estimated_without_an_encoder() -> None:
    cost = estimate_cost(make_tasks(6), kind="overlap")
    assert cost.n_scores == 30
    assert 0 < cost.seconds < 10


def test_words_are_estimated() -> None:
    tasks = make_planted_tasks(n_tasks=12, random_state=0).tasks
    training = TrainingSettings(epochs=2, min_steps=0, width=20)
    cost = estimate_cost(tasks, encoder="cnn", settings=TransferSettings(training=training))
    assert cost.encoder == "cnn"
    assert cost.n_scores == 132
    assert 0 < cost.seconds < 60


def test_sentences_in_the_cache_are_not_counted(tmp_path: Path) -> None:
    tasks = make_tasks(4, n_rows=120)
    cache = VectorCache(tmp_path)
    cost = estimate_cost(tasks, encoder=SentenceEncoder(cache=cache))
    texts = distinct_texts(tasks, ("train", "valid"))[0]
    left = cache.find_missing(SentenceEncoder().fingerprint, texts)
    # What the calibration encoded is kept, and need not be encoded again.
    assert cost.n_texts_to_encode == len(left) < len(texts)
    again = estimate_cost(tasks.subset(["task 0", "task 1"]), encoder=SentenceEncoder(cache=cache))
    assert again.n_texts_to_encode <= cost.n_texts_to_encode


def test_what_cannot_be_measured_is_an_error() -> None:
    tasks = make_tasks(3)
    with pytest.raises(DataError, match="two tasks"):
        estimate_cost(tasks.subset(["task 0"]))
    dull = Task("dull", ["a", "b"], ["x", "x"])
    with pytest.raises(DataError, match="dull"):
        estimate_cost(TaskSet([*tasks, dull]), encoder=make_features(tasks))
    with pytest.raises(UsageError, match="workers"):
        estimate_cost(tasks, n_workers=0)
    with pytest.raises(UsageError, match="no such encoder"):
        estimate_cost(tasks, encoder="sentnce")


def make_cost(**changes: float) -> CostEstimate:
    values = {
        "n_tasks": 175,
        "n_scores": 30_450,
        "n_texts": 80_000,
        "n_texts_to_encode": 80_000,
        "seconds_frozen": 95.0,
        "seconds_models": 3.0,
        "seconds_pairs": 9.0,
        "memory_bytes": 1_240_000_000,
        "calibration_seconds": 4.0,
    }
    return CostEstimate(encoder="sentence", **(values | changes))  # type: ignore[arg-type]


def test_description() -> None:
    assert make_cost().describe() == (
        "Measuring transfer: all 30,450 scores, about 105 s (95 s of it sentence vectors, which are kept), "
        "1.2 GB of memory."
    )
    trained = make_cost(n_scores=400, n_texts_to_encode=0, seconds_frozen=1.0, seconds_models=4_000.0)
    assert trained.describe() == (
        "Measuring transfer: 400 scores, about 67 min (67 min of it training), 1.2 GB of memory."
    )
    quick = make_cost(n_texts_to_encode=0, seconds_frozen=0.1, seconds_models=0.1, seconds_pairs=0.1)
    assert quick.describe() == "Measuring transfer: all 30,450 scores, about 1 s, 1.2 GB of memory."
