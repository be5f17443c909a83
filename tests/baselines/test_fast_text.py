from __future__ import annotations

import numpy as np
import pytest

from robusttc.baselines.fast_text import FastTextBaseline, bigram_shares, mean_vectors, number_pairs
from robusttc.data import Task, TaskSet, TokenArray, make_planted_tasks
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.softmax import fit_softmax
from robusttc.errors import UsageError

VECTORS = np.array([[0, 0], [1, 2], [3, 4], [5, 6]], dtype=np.float32)
WORDS = WordInputs(TokenArray([1, 2, 1, 2, 3], [0, 4, 4, 5]), VECTORS)


def test_features_are_means_of_words_and_of_bigrams() -> None:
    assert mean_vectors(WORDS).tolist() == [[2.0, 3.0], [0.0, 0.0], [5.0, 6.0]]
    items, pairs = number_pairs(WORDS)
    assert items.tolist() == [0, 0, 0]
    assert pairs.tolist() == [6, 9, 6]
    assert bigram_shares(WORDS, np.array([6])).toarray().ravel() == pytest.approx([2 / 3, 0, 0])
    # One that is not known counts among all, and has no place.
    assert bigram_shares(WORDS, np.array([6, 9, 11])).toarray()[0] == pytest.approx([2 / 3, 1 / 3, 0])
    assert bigram_shares(WORDS, np.zeros(0, dtype=np.int64)).shape == (3, 0)


@pytest.mark.parametrize("bigrams", [True, False])
def test_it_is_the_linear_classifier_on_these_features(bigrams: bool) -> None:
    task = make_planted_tasks(1, random_state=3).tasks
    only = next(iter(task))
    baseline = FastTextBaseline(C=3.0, bigrams=bigrams).fit(task)
    predictor = baseline.model_of(only.name).predictor
    words = baseline.model_of(only.name).reader.read(list(only.texts))
    rows = only.rows("train")
    known = predictor.known  # type: ignore[attr-defined]
    assert (len(known) > 0) == bigrams
    features = np.hstack([mean_vectors(words), bigram_shares(words, known).toarray()])
    codes = only.label_codes.astype(np.int64)
    reference = fit_softmax(
        features[rows], codes[rows], n_labels=len(only.label_names), C=3.0, balanced=True, tol=1e-8
    )
    expected = reference.probabilities(features)
    assert np.abs(baseline.predict_proba(only.name, list(only.texts)) - expected).max() < 0.02


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
    task = Task("a", ["?", "!"], ["x", "y"])
    vectors = np.zeros((4, 2), dtype=np.float32)
    inputs = WordInputs(TokenArray([1, 2], [0, 1, 2]), vectors)
    predictor = FastTextBaseline()._learn(task, inputs, np.array([0, 1]), 10.0, 0)
    assert np.allclose(predictor.probabilities(inputs), 0.5)


def test_vectors_of_texts_are_refused() -> None:
    tasks = TaskSet([Task("a", ["1", "2"], ["x", "y"])])
    with pytest.raises(UsageError, match="needs words"):
        FastTextBaseline(FeatureEncoder({"a": np.eye(2)})).fit(tasks)
