"""How the inner loops of this package are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba as nb

__all__ = ["compiled"]

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(function: Kernel) -> Kernel:
    """Compile once a machine; kept beside the package, or in the user's cache where that is read-only.

    Without fast mathematics: sums are made in the order in which they are written, so that a number does not
    depend on how a loop was cut into vectors. Dividing by zero gives infinity, as in NumPy: the check for it
    would keep loops from being cut into vectors at all.

    Examples
    --------
    >>> @compiled
    ... def add(first: int, second: int) -> int:
    ...     return first + second
    >>> add(1, 2)
    3
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        result: Any = nb.njit(cache=True, **options)(function)
    except RuntimeError:  # neither place can be written: compile in every process
        result = nb.njit(**options)(function)
    return cast(Kernel, result)
