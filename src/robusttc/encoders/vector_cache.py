"""Vectors that are computed once: kept on disk by model and text, for this run and all later ones.

A cache may be thrown away, so nothing that happens to it stops a run: a damaged file is put aside and begun
anew, and a disk that is full or cannot be written means no cache; both with a warning. What it never does is
give a wrong vector: every row carries a hash of its key and its numbers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.cache_folder import CACHE_VARIABLE, default_cache_folder
from robusttc.encoders.vector_store import DamagedStore, VectorStore
from robusttc.errors import DataWarning, UsageError, quote
from robusttc.files import create_folder, open_private, restrict

__all__ = ["VectorCache"]

DEFAULT_MAX_BYTES = 2 * 2**30
BLOCK_TEXTS = 4_096
KEY_BYTES = 16

STORE_FOLDER, STORE_FILE, DAMAGED_FOLDER = "store", "vectors.sqlite", "damaged"

DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Place(Enum):
    """Where a cache is, if no folder is given."""

    USER = "the user's cache folder"


class VectorCache:
    """Vectors by model and text; safe for several threads and processes at once.

    Parameters
    ----------
    folder
        Where the cache is kept. Left out, it is `default_cache_folder`; None keeps it in memory only.
    max_bytes
        How large it may become. Beyond that, what was not used for the longest time goes, in big steps.

    Raises
    ------
    UsageError
        If `max_bytes` is not a positive integer.

    Examples
    --------
    >>> cache = VectorCache.disabled()
    >>> lengths = lambda texts: [[len(text), 1.0] for text in texts]
    >>> cache.get_or_compute("my model", ["a", "bcd", "a"], lengths, 2).tolist()
    [[1.0, 1.0], [3.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | Place | None = Place.USER,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        if not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or max_bytes < 1:
            raise UsageError("max_bytes cannot be used", got=quote(max_bytes), expected="a positive integer")
        if isinstance(folder, Place):
            folder = default_cache_folder()
        self.folder = None if folder is None else Path(folder).expanduser()
        self.max_bytes = max_bytes
        self._store: VectorStore | None = None
        self._opened_by: int | None = None
        self._inode: int | None = None
        self._works = True
        self._lock = threading.RLock()

    @classmethod
    def disabled(cls) -> VectorCache:
        """Make a cache that keeps nothing on disk, only in memory."""
        return cls(None)

    def __reduce__(self) -> tuple[object, ...]:
        # A worker opens the file for itself.
        return remake_cache, (self.folder, self.max_bytes)

    def __repr__(self) -> str:
        return f"VectorCache({'memory only' if self.folder is None else repr(str(self.folder))})"

    def get_or_compute(
        self,
        fingerprint: str,
        texts: Sequence[str],
        compute: Callable[[list[str]], object],
        dimension: int,
        *,
        keep: bool = True,
    ) -> NDArray[np.float32]:
        """Give the vectors of texts, one a row, computing only those that are not there.

        Parameters
        ----------
        fingerprint
            The model that the vectors are of.
        texts
            The texts.
        compute
            Gives the vectors of a list of distinct texts. It is called for blocks of up to 4,096 texts of
            similar length, and each block is stored before the next one, so a killed run goes on from there.
        dimension
            The length of a vector.
        keep
            Whether the cache keeps what is computed. Without, nothing is written to it.

        Raises
        ------
        UsageError
            If `compute` gives an array of another shape.
        """
        place_of: dict[str, int] = {}
        rows = np.fromiter((place_of.setdefault(text, len(place_of)) for text in texts), np.intp, len(texts))
        distinct = list(place_of)
        keys = make_keys(fingerprint, dimension, distinct)
        vectors = np.empty((len(distinct), dimension), dtype=np.float32)
        found = self._read(keys, vectors, note_use=keep)
        # Encoders put texts of one length together, so neighbours in a block should be of similar length.
        missing = sorted(np.flatnonzero(~found).tolist(), key=lambda place: -len(distinct[place]))
        for start in range(0, len(missing), BLOCK_TEXTS):
            places = missing[start : start + BLOCK_TEXTS]
            block = np.array(compute([distinct[place] for place in places]), dtype=np.float32)
            if block.shape != (len(places), dimension):
                raise UsageError(
                    "the computed vectors have another shape",
                    got=quote(block.shape),
                    expected=quote((len(places), dimension)),
                )
            if keep:
                self._write([keys[place] for place in places], block)
            vectors[places] = block
        return vectors[rows]

    def find_missing(self, fingerprint: str, texts: Sequence[str], dimension: int) -> list[str]:
        """Give the distinct texts whose vectors are not there yet; nothing is read, and no file is made.

        Examples
        --------
        >>> cache = VectorCache.disabled()
        >>> vectors = cache.get_or_compute("my model", ["a"], lambda texts: [[1.0]], 1)
        >>> cache.find_missing("my model", ["b", "a", "b"], 1)
        ['b']
        """
        distinct = list(dict.fromkeys(texts))
        if not self._has_file():
            return distinct
        keys = make_keys(fingerprint, dimension, distinct)
        found = self._attempt(lambda store: store.contains(keys))
        return distinct if found is None else [distinct[place] for place in np.flatnonzero(~found)]

    def count_missing(self, fingerprint: str, texts: Sequence[str], dimension: int) -> int:
        """Count the distinct texts whose vectors are not there yet."""
        return len(self.find_missing(fingerprint, texts, dimension))

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            if self._store is not None and self._opened_by == os.getpid():
                self._store.close()
            self._store = None

    def _has_file(self) -> bool:
        return self.folder is None or inode_of(self.folder / STORE_FOLDER / STORE_FILE) is not None

    def _read(self, keys: list[bytes], vectors: NDArray[np.float32], *, note_use: bool) -> NDArray[np.bool_]:
        # To open the store would make the file.
        is_readable = note_use or self._has_file()
        found = (
            self._attempt(lambda store: store.read(keys, vectors, note_use=note_use)) if is_readable else None
        )
        return np.zeros(len(keys), dtype=np.bool_) if found is None else found

    def _write(self, keys: list[bytes], block: NDArray[np.float32]) -> None:
        computed = block.copy()

        def write(store: VectorStore) -> None:
            # A write that failed half-way may have copied what was there before it failed.
            block[...] = computed
            store.write(keys, block)

        if self._attempt(write) is None and not self._works:
            block[...] = computed

    def _attempt(self, work: Callable[[VectorStore], object]) -> NDArray[np.bool_] | None:
        """Do something with the store; on damage again with a new one, on other faults go without."""
        with self._lock:
            for _ in range(2):
                if not self._works:
                    break
                try:
                    result = work(self._open())
                except DamagedStore as error:
                    self._put_aside(str(error))
                except sqlite3.Error as error:
                    if is_damage(error):
                        self._put_aside(str(error))
                    else:
                        self._give_up(error)
                except OSError as error:
                    self._give_up(error)
                else:
                    return result if isinstance(result, np.ndarray) else None
            return None

    def _open(self) -> VectorStore:
        # A connection must not be carried over a fork.
        if self._store is None or self._opened_by != os.getpid():
            path = None
            if self.folder is not None:
                path = self.folder / STORE_FOLDER / STORE_FILE
                create_folder(path.parent)
                # What an earlier version made may be open to others.
                for place in (self.folder, path.parent, *path.parent.iterdir()):
                    restrict(place)
                # Noted before opening, so that damage found while opening has a file to go with.
                self._inode = inode_of(path)
                # A new one only: to close a file that SQLite has open would end its locks.
                with suppress(FileExistsError):
                    os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            self._store = VectorStore(path, max_bytes=self.max_bytes)
            self._opened_by = os.getpid()
            if path is not None:
                self._inode = inode_of(path)
        return self._store

    def _put_aside(self, reason: str) -> None:
        self.close()
        if self.folder is None:
            self._works = False
            return
        store = self.folder / STORE_FOLDER
        if inode_of(store / STORE_FILE) != self._inode:
            return  # another process has put it aside already, and this is its new file
        warnings.warn(
            f"{store / STORE_FILE}: the cache of vectors is damaged ({reason}); it was put aside as "
            f"{self.folder / DAMAGED_FOLDER} and is begun anew",
            DataWarning,
            stacklevel=5,
        )
        try:
            # One damaged store is kept, for a look; more would break the bound on the size.
            shutil.rmtree(self.folder / DAMAGED_FOLDER, ignore_errors=True)
            store.rename(self.folder / DAMAGED_FOLDER)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.close()
        self._works = False
        warnings.warn(
            f"{self.folder}: the cache of vectors cannot be used ({error}); going on without it. Set "
            f"{CACHE_VARIABLE} to a folder that can be written",
            DataWarning,
            stacklevel=5,
        )


def remake_cache(folder: Path | None, max_bytes: int) -> VectorCache:
    """Make a cache as it was in another process."""
    return VectorCache(folder, max_bytes=max_bytes)


def is_damage(error: sqlite3.Error) -> bool:
    """Tell a file that is no database, is malformed, or lacks our tables from a disk that cannot be used."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in DAMAGE_CODES or (code == sqlite3.SQLITE_ERROR and "no such" in str(error))


def inode_of(path: Path) -> int | None:
    """Give what tells one file from another of the same name, or None if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def make_keys(fingerprint: str, dimension: int, texts: Sequence[str]) -> list[bytes]:
    """Hash model and text to the key of a vector."""
    start = hashlib.blake2b(digest_size=KEY_BYTES, person=b"robusttc-vector")
    model = fingerprint.encode("utf-8", "surrogatepass")
    start.update(f"{len(model)}:{dimension}:".encode() + model)
    keys = []
    for text in texts:
        digest = start.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        keys.append(digest.digest())
    return keys
