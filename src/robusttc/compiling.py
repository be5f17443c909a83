"""How the inner loops of this package are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba as nb

__all__ = ["compiled", "compiled_freely"]

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
    return compile_once(function, {"nogil": True, "error_model": "numpy"})


def compiled_freely(function: Kernel) -> Kernel:
    """Compile like `compiled`, but sums may be reordered, which lets them use vector instructions.

    The order is fixed when the code is compiled: equal inputs give equal results on one machine.
    """
    return compile_once(function, {"nogil": True, "fastmath": {"contract", "reassoc", "arcp"}})


def compile_once(function: Kernel, options: dict[str, Any]) -> Kernel:
    """Compile with a cache on disk; where neither place can be written, in every process."""
    try:
        result: Any = nb.njit(cache=True, **options)(function)
    except RuntimeError:
        result = nb.njit(**options)(function)
    return cast(Kernel, result)
