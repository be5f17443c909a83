"""What measuring will cost: the counts, what needs no estimate, and the sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet, make_planted_tasks
from robusttc.encoders import (
    Encoder,
    FeatureEncoder,
    MultilingualEncoder,
    PairedEncoder,
    SentenceEncoder,
    VectorCache,
    distinct_texts,
)
from robusttc.errors import DataError, UsageError
from robusttc.models import TrainingSettings
from robusttc.transfer import CostEstimate, TransferSettings, estimate_cost, measure_transfer


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
    assert cost.n_texts_to_encode == len(texts)
    SentenceEncoder(cache=cache).encode_cached(texts[:100])
    again = estimate_cost(tasks, encoder=SentenceEncoder(cache=cache))
    assert again.n_texts_to_encode == len(texts) - 100
    assert again.seconds_frozen < cost.seconds_frozen


def test_both_encoders_of_a_pair_count_and_no_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robusttc.encoders.sentence.load_model", None)
    monkeypatch.setattr("robusttc.encoders.multilingual.load_model", None)
    tasks = make_tasks(4, n_rows=120)
    first = SentenceEncoder(cache=VectorCache.in_memory(), device="cpu")
    second = MultilingualEncoder(cache=VectorCache.in_memory())
    both = estimate_cost(tasks, encoder=PairedEncoder(first, second))
    assert both.n_texts_to_encode == both.n_texts
    assert both.encoder == "sentence+multilingual"
    alone = [estimate_cost(tasks, encoder=encoder).seconds_frozen for encoder in (first, second)]
    assert 0 < alone[1] < alone[0]  # a fifth of the size


def test_a_model_of_unknown_size_is_timed() -> None:
    class TextLength(Encoder):
        name, fingerprint, n_encoded = "length", "length", 0

        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            self.n_encoded += len(texts)
            return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    tasks = make_tasks(4, n_rows=120)
    encoder = TextLength()
    encoder.cache = VectorCache.in_memory()
    cost = estimate_cost(tasks, encoder=encoder)
    assert 0 < encoder.n_encoded < cost.n_texts
    # What was encoded is kept, and need not be encoded again.
    assert cost.n_texts_to_encode == cost.n_texts - encoder.n_encoded


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
