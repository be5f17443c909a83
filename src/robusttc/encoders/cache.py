"""Vectors that are computed once: kept on disk by model and text, for this run and all later ones.

The cache may be deleted at any time, so nothing that happens to it stops a run. A damaged file is renamed
away; where the disk cannot be written, vectors are held in memory until the process ends. Either is reported
once, by a warning.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import DataWarning, StoreError
from robusttc.files import create_folder, restrict, write_file
from robusttc.params import Integer, check_param

__all__ = ["VectorCache", "default_cache", "default_cache_folder", "load_or_compute"]

CACHE_VARIABLE = "ROBUSTTC_CACHE"
MAX_BYTES = 2 * 2**30
# Texts that are encoded and stored together: what a killed process loses at most.
BLOCK_TEXTS = 1_024
QUERY_KEYS = 500
PAGE_BYTES = 16_384  # a page of SQLite's usual size would be a quarter empty with rows of 384 floats
FULL_SHARE = 0.8  # what an eviction leaves, so that the next one is some time away
SETUP = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;  -- a killed process loses nothing committed, a power cut perhaps the last blocks
CREATE TABLE IF NOT EXISTS vectors (
    age INTEGER PRIMARY KEY, model BLOB NOT NULL, text BLOB NOT NULL, vector BLOB NOT NULL,
    UNIQUE (text, model)
);
"""

Floats = NDArray[np.float32]
Result = TypeVar("Result")


def default_cache_folder() -> Path:
    """Return the user's cache folder: ``$ROBUSTTC_CACHE/vectors``, or the platform's usual place.

    Examples
    --------
    >>> default_cache_folder().name
    'vectors'
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser() / "vectors"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "robusttc" / "vectors"


def default_cache() -> VectorCache:
    """Return the cache in the user's cache folder: one object per process, for all encoders."""
    # So what cannot be written is in memory for all stages of a run.
    return cache_in(default_cache_folder())


@cache
def cache_in(folder: Path) -> VectorCache:
    """Return the cache in a folder; a second call returns the same object."""
    return VectorCache(folder)


def load_or_compute(kind: str, key: str, compute: Callable[[], dict[str, Floats]]) -> dict[str, Floats]:
    """Return arrays that take long to compute: from the user's cache folder, or computed now and kept there.

    A damaged file is replaced; where it cannot be written, a warning says so.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file, save

    path = default_cache_folder().parent / kind / f"{key}.safetensors"
    with suppress(OSError, SafetensorError):
        return load_file(path)
    arrays = compute()
    try:
        write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    except StoreError as error:
        warnings.warn(
            f"{path}: the file cannot be kept ({error.got}), so the next process computes it again. Set "
            f"{CACHE_VARIABLE} to a folder that can be written",
            DataWarning,
            stacklevel=4,
        )
    return arrays


class VectorCache:
    """Vectors by model and text, safe for several threads and processes.

    Parameters
    ----------
    folder
        Where the file is; None holds vectors in memory.
    max_bytes
        The largest size, from 1 up. Beyond it, the oldest vectors are deleted.

    Examples
    --------
    >>> cache = VectorCache.in_memory()
    >>> def lengths(texts):
    ...     return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)
    >>> cache.get_or_compute("my model", ["a", "bcd", "a"], lengths).tolist()
    [[1.0, 1.0], [3.0, 1.0], [1.0, 1.0]]
    >>> cache.find_missing("my model", ["a", "b"])
    ['b']
    """

    def __init__(self, folder: str | os.PathLike[str] | None, *, max_bytes: int = MAX_BYTES) -> None:
        check_param("max_bytes", max_bytes, Integer(1))
        self.folder = None if folder is None else Path(folder).expanduser()
        self.max_bytes = int(max_bytes)
        self.keeps = True
        self._connection: tuple[int, sqlite3.Connection] | None = None  # with the process that opened it
        self._lock = threading.RLock()

    @classmethod
    def in_memory(cls) -> VectorCache:
        """Return a cache that writes nothing to disk."""
        return cls(None)

    @classmethod
    def disabled(cls) -> VectorCache:
        """Return a cache that keeps nothing: every vector is computed each time it is needed."""
        made = cls(None)
        made.keeps = False
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "max_bytes": self.max_bytes, "keeps": self.keeps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Another process opens the file for itself.
        self.__init__(state["folder"], max_bytes=state["max_bytes"])  # type: ignore[misc]
        self.keeps = state["keeps"]

    def __repr__(self) -> str:
        where = repr(str(self.folder)) if self.folder else "in memory" if self.keeps else "disabled"
        return f"VectorCache({where})"

    def get_or_compute(
        self,
        fingerprint: str,
        texts: Sequence[str],
        compute: Callable[[list[str]], Floats],
        *,
        keep: bool = True,
        advance: Callable[[int], None] | None = None,
    ) -> Floats:
        """Return the vectors of texts, one per row; only those that are missing are computed.

        `compute` returns the vectors of distinct texts of similar length. Each block is stored before the
        next one is computed, so a killed run resumes there; without `keep`, nothing is written. `advance` is
        called with the number of distinct texts done, before every block.
        """
        found = self._read(fingerprint, texts)
        # Encoders batch texts of one length, so neighbours in a block should be of similar length.
        missing = sorted((text for text in dict.fromkeys(texts) if text not in found), key=len, reverse=True)
        n_found = len(found)
        for start in range(0, len(missing), BLOCK_TEXTS):
            if advance is not None:
                advance(n_found + start)
            block = missing[start : start + BLOCK_TEXTS]
            vectors = compute(block)
            if keep:
                self.put(fingerprint, block, vectors)
            found.update(zip(block, vectors, strict=True))
        return np.array([found[text] for text in texts], dtype=np.float32)

    def find_missing(self, fingerprint: str, texts: Sequence[str]) -> list[str]:
        """Return the distinct texts that have no vector yet; no file is created."""
        text_of = {hash_of("text", text): text for text in texts}

        def read(database: sqlite3.Connection) -> set[bytes]:
            return {key for (key,) in select_rows(database, "text", fingerprint, list(text_of))}

        found = self._use_file(read) or set()
        return [text for key, text in text_of.items() if key not in found]

    def put(self, fingerprint: str, texts: Sequence[str], vectors: Floats) -> None:
        """Keep the vectors of texts; those that are there already stay as they are."""
        model = hash_of("model", fingerprint)
        blobs = [row.tobytes() for row in np.asarray(vectors, dtype="<f4")]
        rows = [(model, hash_of("text", text), blob) for text, blob in zip(texts, blobs, strict=True)]

        def write(database: sqlite3.Connection) -> None:
            insert = "INSERT OR IGNORE INTO vectors (model, text, vector) VALUES (?, ?, ?)"
            database.executemany(insert, rows)
            delete_oldest(database, self.max_bytes)

        self._use_file(write, may_create=True)

    def erase(self, texts: Sequence[str]) -> None:
        """Delete the vectors of texts, of all models.

        Examples
        --------
        >>> cache = VectorCache.in_memory()
        >>> cache.put("my model", ["a", "b"], np.eye(2, dtype=np.float32))
        >>> cache.erase(["a"])
        >>> cache.find_missing("my model", ["a", "b"])
        ['a']
        """
        hashes = {hash_of("text", text) for text in texts}

        def delete(database: sqlite3.Connection) -> None:
            database.execute("PRAGMA secure_delete = ON")  # overwrites the numbers
            database.executemany("DELETE FROM vectors WHERE text = ?", [(key,) for key in hashes])
            database.commit()
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        self._use_file(delete)

    def close(self) -> None:
        """Close the file; the next call opens it again. What is in memory is forgotten."""
        with self._lock:
            if self._connection is not None and self._connection[0] == os.getpid():
                self._connection[1].close()
            self._connection = None

    def _read(self, fingerprint: str, texts: Sequence[str]) -> dict[str, Floats]:
        text_of = {hash_of("text", text): text for text in texts}

        def read(database: sqlite3.Connection) -> dict[str, Floats]:
            rows = select_rows(database, "text, vector", fingerprint, list(text_of))
            if not rows:
                return {}
            numbers = np.frombuffer(b"".join(blob for _, blob in rows), dtype="<f4")
            if len({len(blob) for _, blob in rows}) > 1 or not np.isfinite(numbers).all():
                raise sqlite3.DatabaseError("vectors differ in length, or a number is not finite")
            found = (text_of[key] for key, _ in rows)
            return dict(zip(found, numbers.reshape(len(rows), -1), strict=True))

        return self._use_file(read) or {}

    def _use_file(
        self, work: Callable[[sqlite3.Connection], Result], *, may_create: bool = False
    ) -> Result | None:
        """Do one transaction: on damage again with a new file, on other errors again in memory."""
        with self._lock:
            for _ in range(3):  # at worst the file is damaged, and then a new one cannot be written
                is_there = self.folder is None or file_in(self.folder).exists()
                if not self.keeps or not (is_there or may_create):
                    break
                try:
                    with self._open() as database:  # commits at the end
                        return work(database)
                except (sqlite3.Error, OSError, ValueError) as error:
                    self.close()
                    if self.folder is None:
                        raise
                    self._give_up(self.folder, error)
            return None

    def _open(self) -> sqlite3.Connection:
        # A connection must not be used after a fork.
        if self._connection is not None and self._connection[0] == os.getpid():
            return self._connection[1]
        path = Path(":memory:") if self.folder is None else file_in(self.folder)
        if self.folder is not None:
            create_folder(path.parent)
            path.touch(0o600)  # the log gets the permissions of the file
            for existing in (self.folder, path.parent, *path.parent.iterdir()):
                restrict(existing)
        database = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
        self._connection = os.getpid(), database
        database.executescript(SETUP)
        return database

    def _give_up(self, folder: Path, error: Exception) -> None:
        """Rename a damaged file away, so that a new one is started; go on in memory if the disk fails."""
        damaged = folder / "damaged"
        what = f"is damaged ({error}); it was renamed to {damaged}, and a new one is started"
        try:
            if not is_damage(error):
                raise error
            shutil.rmtree(damaged, ignore_errors=True)  # one is kept, for a look; more would take disk space
            file_in(folder).parent.rename(damaged)
        except (sqlite3.Error, OSError) as failure:
            self.folder = None
            what = (
                f"cannot be used ({failure}); vectors are held in memory until this process ends. Set "
                f"{CACHE_VARIABLE} to a folder that can be written"
            )
        warnings.warn(f"{folder}: the cache of vectors {what}", DataWarning, stacklevel=5)


def file_in(folder: Path) -> Path:
    """Return the path of the file; it has a folder of its own, so its log is renamed with it."""
    return folder / "store" / "vectors.sqlite"


def hash_of(kind: str, value: str) -> bytes:
    """Hash a fingerprint or a text; texts themselves are not in the file."""
    content = value.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16, person=f"robusttc-{kind}".encode()).digest()


def select_rows(database: sqlite3.Connection, columns: str, fingerprint: str, keys: list[bytes]) -> list[Any]:
    """Return columns of the rows of a model whose texts have these keys."""
    model, rows = hash_of("model", fingerprint), []
    for start in range(0, len(keys), QUERY_KEYS):
        some = keys[start : start + QUERY_KEYS]
        marks = ",".join("?" * len(some))
        query = f"SELECT {columns} FROM vectors WHERE model = ? AND text IN ({marks})"  # noqa: S608
        rows += database.execute(query, [model, *some]).fetchall()
    return rows


def is_damage(error: Exception) -> bool:
    """Tell a file that is not a sound database of ours from a disk that cannot be used."""
    return type(error) in (sqlite3.DatabaseError, ValueError) or "no such" in str(error)


def delete_oldest(database: sqlite3.Connection, max_bytes: int) -> None:
    """Delete the oldest vectors if the pages in use are more than the file may have."""
    pages, free = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
    )
    share = FULL_SHARE * max_bytes / ((pages - free) * PAGE_BYTES)
    if share < FULL_SHARE:
        database.execute(
            "DELETE FROM vectors WHERE age IN (SELECT age FROM vectors ORDER BY age LIMIT "
            "(SELECT CAST(count(*) * ? AS INTEGER) + 1 FROM vectors))",
            (1 - share,),
        )
