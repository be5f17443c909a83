"""One SQLite file of vectors by key: checked row by row, bounded, shared between processes.

The file has a folder of its own, so that a damaged file and the log beside it are put aside by one renaming.
Rows that were written together form a block. What was used last is noted by block, not by row: noting it by
row would rewrite the whole file with every look-up.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["DamagedStore", "VectorStore"]

SCHEMA_VERSION = 1
# Ten rows of 384 numbers fill a page of this size nearly to the end; the usual one would be a quarter empty.
PAGE_BYTES = 16_384
CHECK_BYTES = 8
ROW_OVERHEAD_BYTES = 64
KEYS_AT_ONCE = 500
BUSY_TIMEOUT_S = 30.0

# After an eviction, so that the next one is some time away.
FULL_SHARE = 0.8

SCHEMA = (
    "CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, data BLOB NOT NULL)",
    "CREATE TABLE blocks (first_id INTEGER PRIMARY KEY, last_id INTEGER NOT NULL, used_ns INTEGER NOT NULL)",
)


class DamagedStore(Exception):  # noqa: N818 - a message between these two modules, not an error of the user's
    """The file is not what was written to it."""


def check_of(key: bytes, vector: bytes | memoryview) -> bytes:
    """Hash key and vector: what a row carries in front of its vector."""
    digest = hashlib.blake2b(key, digest_size=CHECK_BYTES)
    digest.update(vector)
    return digest.digest()


class VectorStore:
    """Vectors by key in one SQLite file, or in memory.

    Parameters
    ----------
    path
        The file; its folder must exist. None keeps the vectors in memory.
    max_bytes
        How large the file may become; the log beside it comes on top, by about one block.

    Raises
    ------
    sqlite3.Error
        If the file cannot be opened or written.
    DamagedStore
        If it is not a store.
    """

    def __init__(self, path: Path | None, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._database = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._open()
        except BaseException:
            self._database.close()
            raise

    def _open(self) -> None:
        # The first two only count for a file that is still empty.
        self._database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        self._database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._database.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing committed; a power cut may lose the last blocks, never the file.
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(f"PRAGMA journal_size_limit = {2**24}")
        with self._transaction():
            version = self._number("PRAGMA user_version")
            if version not in (0, SCHEMA_VERSION):
                raise DamagedStore(f"version {version} instead of {SCHEMA_VERSION}")
            if version == 0:
                for statement in SCHEMA:
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Immediate: a transaction that begins by reading can lose its place to another process.
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # On a full disk SQLite has rolled back by itself.
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _number(self, query: str) -> int:
        return int(self._database.execute(query).fetchone()[0])

    @property
    def size_bytes(self) -> int:
        """The bytes in use, free pages within the file not counted."""
        pages = self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")
        return pages * self._number("PRAGMA page_size")

    def __len__(self) -> int:
        return self._number("SELECT count(*) FROM vectors")

    def read(
        self, keys: Sequence[bytes], into: NDArray[np.float32], *, note_use: bool = True
    ) -> NDArray[np.bool_]:
        """Copy the vectors of the keys that are there to the rows of `into`, and tell which they are.

        With `note_use`, their blocks count as used now.

        Raises
        ------
        DamagedStore
            If a row is not what was written.
        """
        found, ids = self._read_rows(keys, into)
        if ids and note_use:
            self._note_use(ids)
        return found

    def contains(self, keys: Sequence[bytes]) -> NDArray[np.bool_]:
        """Tell which keys are there, without reading their vectors."""
        place_of = {key: place for place, key in enumerate(keys)}
        found = np.zeros(len(keys), dtype=np.bool_)
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"SELECT key FROM vectors WHERE key IN ({marks})"  # noqa: S608 - only marks
            found[[place_of[key] for (key,) in self._database.execute(query, some)]] = True
        return found

    def _read_rows(
        self, keys: Sequence[bytes], into: NDArray[np.float32]
    ) -> tuple[NDArray[np.bool_], list[int]]:
        found = np.zeros(len(keys), dtype=np.bool_)
        place_of = {key: place for place, key in enumerate(keys)}
        n_bytes = CHECK_BYTES + into.shape[1] * 4
        ids: list[int] = []
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"SELECT id, key, data FROM vectors WHERE key IN ({marks})"  # noqa: S608 - only marks
            rows = self._database.execute(query, some).fetchall()
            for row_id, key, data in rows:
                sound = (
                    len(data) == n_bytes
                    and check_of(key, memoryview(data)[CHECK_BYTES:]) == data[:CHECK_BYTES]
                )
                if not sound:
                    raise DamagedStore(f"row {row_id} has changed")
            places = [place_of[key] for _, key, _ in rows]
            block = np.frombuffer(b"".join(data for _, _, data in rows), dtype="<f4").reshape(
                -1, n_bytes // 4
            )
            into[places] = block[:, CHECK_BYTES // 4 :]
            found[places] = True
            ids += [row_id for row_id, _, _ in rows]
        return found, ids

    def _note_use(self, ids: Iterable[int]) -> None:
        first_ids = [
            row[0] for row in self._database.execute("SELECT first_id FROM blocks ORDER BY first_id")
        ]
        used = {bisect_right(first_ids, row_id) - 1 for row_id in ids} - {-1}
        now = time.time_ns()
        with self._transaction():
            self._database.executemany(
                "UPDATE blocks SET used_ns = ? WHERE first_id = ?",
                [(now, first_ids[block]) for block in used],
            )

    def write(self, keys: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Add a block in one transaction; the vectors of keys that are there by now are copied to `vectors`.

        So of two processes that encoded the same text, both go on with what the first one stored.
        """
        # Half as much again for the ends of pages that no row fits into.
        n_bytes = len(keys) * (vectors.shape[1] * 4 + ROW_OVERHEAD_BYTES) * 3 // 2
        if n_bytes > FULL_SHARE * self.max_bytes:
            return
        with self._transaction():
            there, _ = self._read_rows(keys, vectors)
            evicted = self._make_room(n_bytes)
            self._insert([key for key, old in zip(keys, there, strict=True) if not old], vectors[~there])
        if evicted:
            # Both only take time, so the transaction is closed first.
            self._database.execute("PRAGMA incremental_vacuum").fetchall()
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _insert(self, keys: list[bytes], vectors: NDArray[np.float32]) -> None:
        if not keys:
            return
        first_id = self._number("SELECT coalesce(max(last_id), 0) + 1 FROM blocks")
        rows = np.ascontiguousarray(vectors, dtype="<f4")
        self._database.executemany(
            "INSERT INTO vectors (id, key, data) VALUES (?, ?, ?)",
            (
                (first_id + place, key, check_of(key, data := rows[place].tobytes()) + data)
                for place, key in enumerate(keys)
            ),
        )
        self._database.execute(
            "INSERT INTO blocks VALUES (?, ?, ?)", (first_id, first_id + len(keys) - 1, time.time_ns())
        )

    def _make_room(self, n_bytes: int) -> bool:
        """Remove the blocks that were not used for the longest time, if the new one does not fit."""
        if self.size_bytes + n_bytes <= self.max_bytes:
            return False
        blocks = self._database.execute(
            "SELECT first_id, last_id FROM blocks ORDER BY used_ns, first_id"
        ).fetchall()
        for first_id, last_id in blocks:
            self._database.execute("DELETE FROM vectors WHERE id BETWEEN ? AND ?", (first_id, last_id))
            self._database.execute("DELETE FROM blocks WHERE first_id = ?", (first_id,))
            if self.size_bytes + n_bytes <= FULL_SHARE * self.max_bytes:
                break
        return True
