"""Rows of word numbers in one block of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import UsageError

__all__ = ["TokenArray"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenArray:
    """Rows of word numbers, one after the other in one block of memory; immutable.

    A row may have length 0: a text of nothing but white space has no tokens.

    Parameters
    ----------
    ids
        The numbers of all rows.
    offsets
        Where each row begins, and at the end where the last one stops: one number more than there are rows.

    Raises
    ------
    UsageError
        If the offsets do not cut `ids` into rows.

    Examples
    --------
    >>> rows = TokenArray([5, 6, 7], [0, 2, 2, 3])
    >>> len(rows), rows[0].tolist(), rows.lengths.tolist(), rows.take([2, 0]).ids.tolist()
    (3, [5, 6], [2, 0, 1], [7, 5, 6])
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __init__(self, ids: ArrayLike, offsets: ArrayLike) -> None:
        # Views, so that making the rows read-only does not lock the caller's own array.
        ids = np.asarray(ids, dtype=np.int32).view()
        offsets = np.asarray(offsets, dtype=np.int64).view()
        is_cut = (
            ids.ndim == offsets.ndim == 1
            and len(offsets) > 0
            and offsets[0] == 0
            and offsets[-1] == len(ids)
            and bool((np.diff(offsets) >= 0).all())
        )
        if not is_cut:
            raise UsageError(
                "the offsets do not cut the ids into rows",
                got=f"{offsets.size:,} offsets for {ids.size:,} ids",
                expected="ascending offsets from 0 to the number of ids",
            )
        ids.flags.writeable = False
        offsets.flags.writeable = False
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "offsets", offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> NDArray[np.int32]: ...
    @overload
    def __getitem__(self, index: slice) -> TokenArray: ...
    def __getitem__(self, index: int | slice) -> NDArray[np.int32] | TokenArray:
        n_rows = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(n_rows)
            if step != 1:
                return self.take(np.arange(start, stop, step))
            # Neighbours share the memory of the whole.
            offsets = self.offsets[start : max(start, stop) + 1]
            return TokenArray(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])
        row = index + n_rows if index < 0 else index
        if not 0 <= row < n_rows:
            raise IndexError(f"row {index} of {n_rows}")
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of every row."""
        return np.diff(self.offsets)

    def take(self, rows: ArrayLike) -> TokenArray:
        """Copy the given rows, in the given order, into a block of their own."""
        chosen = np.asarray(rows, dtype=np.intp)
        starts = self.offsets[:-1][chosen]
        lengths = self.offsets[1:][chosen] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        # A token's old position is its new one, shifted by as much as its row is.
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return TokenArray(self.ids[positions], offsets)

    def __repr__(self) -> str:
        return f"TokenArray({len(self):,} rows, {len(self.ids):,} tokens)"
