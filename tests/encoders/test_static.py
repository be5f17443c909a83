"""The static encoder: distilled once, kept, and near to what the sentence model says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_model import write_tiny_model

from robusttc.encoders import SentenceEncoder, StaticEncoder, static
from robusttc.errors import DataWarning, UsageError


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ROBUSTTC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(static, "_tables", {})
    return tmp_path / "cache"


def test_a_table_is_distilled_once_and_kept(
    tiny_folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = StaticEncoder(tiny_folder, dimension=16, device="cpu").encode(["hello there", "bye"])
    assert first.shape == (2, 16)
    assert first.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    (path,) = own_cache.rglob("*.safetensors")
    assert path.stat().st_mode & 0o077 == 0

    def never(*_: object) -> None:
        raise AssertionError("it is distilled again")

    with monkeypatch.context() as patch:
        patch.setattr(static, "distil", never)
        patch.setattr(static, "_tables", {})
        again = StaticEncoder(tiny_folder, dimension=16, device="cpu").encode(["hello there", "bye"])
    np.testing.assert_array_equal(first, again)
    # A damaged file is replaced.
    path.write_bytes(path.read_bytes()[:1000])
    monkeypatch.setattr(static, "_tables", {})
    np.testing.assert_allclose(
        StaticEncoder(tiny_folder, dimension=16, device="cpu").encode(["bye"]), first[1:], atol=1e-5
    )


def test_a_vector_is_the_weighted_mean_of_its_tokens(tiny_folder: Path) -> None:
    encoder = StaticEncoder(tiny_folder, dimension=8, device="cpu")
    table = encoder.load()
    tokenizer = SentenceEncoder(tiny_folder, device="cpu").load().tokenizer
    for text in ("where is my parcel", "unaffable!", "hello"):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        expected = table[ids].mean(axis=0)
        np.testing.assert_allclose(
            encoder.encode(["other", text])[1], expected / np.linalg.norm(expected), atol=1e-5
        )
    # Frequent tokens come first in the vocabulary, and count less.
    norms = np.linalg.norm(table, axis=1)
    assert norms[2_000:3_000].mean() < norms[20_000:].mean()
    assert not table[tokenizer.all_special_ids].any()


def test_texts_without_tokens_and_very_long_ones(tiny_folder: Path) -> None:
    encoder = StaticEncoder(tiny_folder, dimension=8, device="cpu")
    vectors = encoder.encode(["", " ", "hello", "word " * 50_000, ""])
    assert np.isfinite(vectors).all()
    assert not vectors[[0, 1, 4]].any()
    np.testing.assert_allclose(vectors[3], encoder.encode(["word"])[0], atol=1e-4)
    assert len(encoder.read([])) == 0


def test_identity(tiny_folder: Path) -> None:
    prints = {StaticEncoder(tiny_folder, dimension=size).fingerprint for size in (8, 16)}
    assert len({*prints, SentenceEncoder(tiny_folder).fingerprint}) == 3
    with pytest.raises(UsageError, match="dimension cannot be used; got 0"):
        StaticEncoder(dimension=0)
    with pytest.raises(UsageError, match=r"larger than that of the sentence model.*from 1 to 32"):
        StaticEncoder(tiny_folder, dimension=33, device="cpu").load()


def test_a_table_that_cannot_be_kept(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ROBUSTTC_CACHE", str(tmp_path / "file"))
    encoder = StaticEncoder(tiny_folder, dimension=4, device="cpu")
    with pytest.warns(DataWarning, match="cannot be kept"):
        encoder.encode(["a"])
    encoder.encode(["a"])  # it is in memory
