from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from robusttc.baselines import FastTextBaseline
from robusttc.baselines.single_task import bigrams_of, fast_text_features
from robusttc.data import Task, TaskSet, TokenArray, make_planted_tasks
from robusttc.encoders import CnnEncoder, FeatureEncoder, WordInputs
from robusttc.errors import UsageError
from robusttc.models import fit_softmax

VECTORS = np.array([[0, 0], [1, 2], [3, 4], [5, 6]], dtype=np.float32)
WORDS = WordInputs(TokenArray([1, 2, 1, 2, 3], [0, 4, 4, 5]), VECTORS)


def test_features_are_means_of_words_and_of_bigrams() -> None:
    means = [[2.0, 3.0], [0.0, 0.0], [5.0, 6.0]]
    assert fast_text_features(WORDS, np.zeros(0, dtype=np.int64)).toarray().tolist() == means
    items, bigrams = bigrams_of(WORDS)
    assert items.tolist() == [0, 0, 0]
    assert bigrams.tolist() == [6, 9, 6]
    assert fast_text_features(WORDS, np.array([6])).toarray()[:, 2] == pytest.approx([2 / 3, 0, 0])
    # One that is not known counts among all, and has no column.
    assert fast_text_features(WORDS, np.array([6, 9, 11])).toarray()[0, 2:] == pytest.approx(
        [2 / 3, 1 / 3, 0]
    )


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("bigrams", [True, False])
@pytest.mark.parametrize("C", [0.1, 3.0, 1000.0])
@pytest.mark.parametrize("n_labels", [2, 5])
def test_it_is_the_linear_classifier_on_these_features(
    n_labels: int, C: float, bigrams: bool, balanced: bool
) -> None:
    tasks = make_planted_tasks(1, rows=(80, 120), labels=(n_labels, n_labels), random_state=3).tasks
    task = next(iter(tasks))
    baseline = FastTextBaseline(C=C, bigrams=bigrams, balanced=balanced).fit(tasks)
    words = baseline.model_of(task.name).reader.read(list(task.texts))
    rows, codes = task.rows("train"), task.label_codes.astype(np.int64)
    known = np.unique(bigrams_of(words.take(rows))[1]) if bigrams else np.zeros(0, dtype=np.int64)
    features = fast_text_features(words, known).toarray()
    reference = fit_softmax(
        features[rows], codes[rows], n_labels=n_labels, C=C, balanced=balanced, tol=1e-8, max_iter=5000
    )
    expected = reference.probabilities(features)
    assert np.abs(baseline.predict_proba(task.name, list(task.texts)) - expected).max() < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_planted_tasks_are_learned(seed: int) -> None:
    tasks = make_planted_tasks(3, rows=(150, 250), labels=(2, 5), random_state=seed).tasks
    baseline = FastTextBaseline().fit(tasks)
    gains = []
    for task in tasks:
        rows = task.rows("test")
        found = baseline.predict(task.name, list(task.texts_at(rows)))
        most_frequent = np.bincount(task.label_codes[rows]).max() / len(rows)
        gains.append((found == task.labels[rows]).mean() - most_frequent)
    assert np.mean(gains) > 0.1


def test_bigrams_tell_apart_what_words_cannot() -> None:
    # The same words in either order, and the label is the order.
    texts = ["red then blue", "blue then red"] * 4
    task = Task("a", texts, ["first", "second"] * 4)
    known = FastTextBaseline(C=100.0).adapt(task)
    assert known.predict(texts[:2]).tolist() == ["first", "second"]
    blind = FastTextBaseline(C=100.0, bigrams=False).adapt(task).predict_proba(texts[:2])
    assert np.allclose(blind, 0.5, atol=1e-3)


def test_a_text_alone_has_what_it_has_among_others() -> None:
    task = Task("a", ["hello you", "see you later", "hello again"], ["x", "y", "x"])
    model = FastTextBaseline().adapt(task)
    texts = ["hello there you", "", "you later you later", "unheard"]
    together = model.predict_proba(texts)
    assert all(
        (model.predict_proba([text])[0] == row).all() for text, row in zip(texts, together, strict=True)
    )
    assert model.predict_proba([]).shape == (0, 2)


def test_rows_without_any_vector_do_not_break_it() -> None:
    class NoVectors(CnnEncoder):
        def encode(self, texts: Sequence[str]) -> WordInputs:
            words = super().encode(texts)
            return WordInputs(words.tokens, np.zeros_like(words.vectors), words.vocabulary)

    model = FastTextBaseline(NoVectors()).adapt(Task("a", ["?", "!"], ["x", "y"]))
    assert np.allclose(model.predict_proba(["?", "!", "."]), 0.5)


def test_a_label_without_training_rows_is_never_predicted() -> None:
    splits = ["train", "train", "test", "train"]
    task = Task("a", ["one", "two", "three", "four"], ["x", "y", "z", "w"], splits)
    for n_rows in (2, 4):
        model = FastTextBaseline().adapt(
            task.with_splits([*splits[:n_rows], *["aside"] * (4 - n_rows)], other_splits=["aside"])
        )
        assert (model.predict_proba(["one", "three"])[:, model.label_names.index("z")] == 0).all()


def test_vectors_of_texts_are_refused() -> None:
    tasks = TaskSet([Task("a", ["1", "2"], ["x", "y"])])
    with pytest.raises(UsageError, match="needs words"):
        FastTextBaseline(FeatureEncoder({"a": np.eye(2)})).fit(tasks)
