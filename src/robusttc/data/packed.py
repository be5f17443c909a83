"""A column of strings in one block of memory.

A Python string costs about 50 bytes beyond its characters, and a list of strings 8 more a row. For hundreds
of thousands of short texts that is more than the texts themselves; here a row costs its UTF-8 bytes plus 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["PackedStrings"]


class PackedStrings(Sequence[str]):
    """An immutable sequence of strings, stored as one UTF-8 buffer and the offsets of its rows.

    Parameters
    ----------
    buffer
        The UTF-8 bytes of all rows, one after the other.
    offsets
        Where each row begins, and at the end where the last one stops: one number more than there are rows.

    Examples
    --------
    >>> words = PackedStrings.pack(["one", "zwölf", ""])
    >>> words[1], len(words), list(words.take([2, 0]))
    ('zwölf', 3, ['', 'one'])
    """

    __slots__ = ("_buffer", "_offsets")

    def __init__(self, buffer: bytes, offsets: ArrayLike) -> None:
        self._buffer = buffer
        self._offsets = np.array(offsets, dtype=np.int64)
        self._offsets.flags.writeable = False

    @classmethod
    def pack(cls, strings: Iterable[str]) -> PackedStrings:
        """Copy strings into a block; a string that is not Unicode text is a `UnicodeEncodeError`."""
        if isinstance(strings, PackedStrings):
            return strings
        encoded = [string.encode("utf-8") for string in strings]
        return cls(b"".join(encoded), np.cumsum([0, *map(len, encoded)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> PackedStrings: ...
    def __getitem__(self, index: int | slice) -> str | PackedStrings:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        n_rows = len(self)
        row = index + n_rows if index < 0 else index
        if not 0 <= row < n_rows:
            raise IndexError(f"row {index} of {n_rows}")
        return self._buffer[self._offsets[row] : self._offsets[row + 1]].decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        return (encoded.decode("utf-8") for encoded in self.iterate_bytes())

    def iterate_bytes(self) -> Iterator[bytes]:
        """Go through the rows as UTF-8 bytes, which spares decoding where only equality matters."""
        buffer = self._buffer
        offsets = self._offsets.tolist()
        return (buffer[start:end] for start, end in pairwise(offsets))

    def take(self, rows: ArrayLike) -> PackedStrings:
        """Copy the given rows, in the given order, into a block of their own."""
        chosen = np.asarray(rows, dtype=np.intp)
        starts, ends = self._offsets[:-1][chosen].tolist(), self._offsets[1:][chosen].tolist()
        pieces = [self._buffer[start:end] for start, end in zip(starts, ends, strict=True)]
        return PackedStrings(b"".join(pieces), np.cumsum([0, *map(len, pieces)], dtype=np.int64))

    @property
    def buffer(self) -> bytes:
        """The UTF-8 bytes of all rows."""
        return self._buffer

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each row begins and the last one stops (read-only)."""
        return self._offsets

    @property
    def size_bytes(self) -> int:
        """The memory that the column takes."""
        return len(self._buffer) + self._offsets.nbytes

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, PackedStrings):
            return NotImplemented
        return self._buffer == other._buffer and np.array_equal(self._offsets, other._offsets)

    def __hash__(self) -> int:
        return hash((self._buffer, self._offsets.tobytes()))

    def __repr__(self) -> str:
        return f"PackedStrings({len(self):,} strings, {self.size_bytes:,} bytes)"
