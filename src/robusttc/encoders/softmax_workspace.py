"""Memory that one fit after the other uses again: fresh memory costs a quarter of a large fit."""

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workspace"]

Floats = NDArray[np.float32]

# Arrays begin at multiples of a cache line.
ALIGNMENT = 16
# No more than this is kept when nothing is being fitted.
MAX_KEPT_BYTES = 64 * 2**20


class Workspace(threading.local):
    """Arrays for one fit at a time, one workspace a thread.

    Examples
    --------
    >>> first, second = Workspace().arrays((2, 3), (5,))
    >>> first.shape, second.shape
    ((2, 3), (5,))
    """

    def __init__(self) -> None:
        self._kept = np.empty(0, dtype=np.float32)

    def arrays(self, *shapes: tuple[int, ...]) -> list[Floats]:
        """Give arrays with anything in them; they are valid until the next call in the same thread."""
        sizes = [math.prod(shape) for shape in shapes]
        starts = np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]).tolist()
        block = self._kept
        if len(block) < starts[-1]:
            block = np.empty(starts[-1], dtype=np.float32)
            if block.nbytes <= MAX_KEPT_BYTES:
                self._kept = block
        return [
            block[start : start + size].reshape(shape)
            for start, size, shape in zip(starts[:-1], sizes, shapes, strict=True)
        ]
