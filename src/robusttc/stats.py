"""Means over tasks with their 95 % intervals.

A task is the unit: rows of one task are alike, so an interval over rows would be far too narrow for a
statement about tasks like these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import DataError, UsageError, quote
from robusttc.random import numpy_generator

__all__ = ["Estimate", "difference_interval", "mean_interval", "share_interval"]

NORMAL_QUANTILE = 1.959963984540054  # of 97.5 %
DRAWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval, over `n` tasks (or rows, for a share of rows).

    With fewer than two values nothing is known about the spread: `low` and `high` are then -inf and inf.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON, which has no infinities: those become None."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Estimate:
        """Return the estimate that `to_dict` was called on; a DataError names what cannot be read."""
        found: dict[str, Any] = {"mean": math.nan, "low": -math.inf, "high": math.inf, "n": None}
        for name, missing in found.items():
            value = values.get(name, "nothing")
            value = missing if value is None else value
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise DataError(
                    "an estimate cannot be read", where=name, got=quote(value), expected="a number"
                )
            found[name] = value
        return cls(float(found["mean"]), float(found["low"]), float(found["high"]), int(found["n"]))


def mean_interval(values: ArrayLike, *, seed: int = 0, n_draws: int = 2000) -> Estimate:
    """Return the mean over tasks and its 95 % interval, by the bootstrap over tasks.

    The interval is that of the percentiles, moved outward by ``sqrt(n / (n - 1))``: the bootstrap's own
    variance is too small by that factor, which matters for a handful of tasks. The values are sorted first,
    so the order of the tasks changes nothing.

    Parameters
    ----------
    values
        One value a task.
    seed
        Of the draws.
    n_draws
        How many sets of tasks are drawn.

    Examples
    --------
    >>> estimate = mean_interval([0.1, 0.2, 0.3, 0.2, 0.1, 0.3] * 5)
    >>> round(estimate.mean, 3), estimate.low < 0.2 < estimate.high, estimate.n
    (0.2, True, 30)
    """
    numbers = check_values("a value", values)
    if not isinstance(n_draws, int) or n_draws < 100:
        raise UsageError("n_draws cannot be used", got=quote(n_draws), expected="an integer from 100 up")
    n_values = len(numbers)
    mean = float(numbers.mean())
    if n_values < 2:
        return Estimate(mean, -math.inf, math.inf, n_values)
    ordered = np.sort(numbers)
    generator = numpy_generator(seed, "bootstrap over tasks")
    means = np.empty(n_draws)
    for start in range(0, n_draws, DRAWS_AT_ONCE):
        drawn = generator.integers(n_values, size=(min(DRAWS_AT_ONCE, n_draws - start), n_values))
        means[start : start + len(drawn)] = ordered[drawn].mean(axis=1)
    widen = math.sqrt(n_values / (n_values - 1))
    low, high = (mean + widen * (float(end) - mean) for end in np.percentile(means, [2.5, 97.5]))
    return Estimate(mean, low, high, n_values)


def difference_interval(
    first: ArrayLike, second: ArrayLike, *, seed: int = 0, n_draws: int = 2000
) -> Estimate:
    """Return the mean of ``first - second`` over tasks and its interval, the tasks being paired.

    >>> difference_interval([0.9, 0.8, 0.7], [0.8, 0.7, 0.6]).above_zero
    True
    """
    one, other = check_values("a first value", first), check_values("a second value", second)
    if len(one) != len(other):
        raise UsageError(
            "the values are not of the same tasks",
            got=f"{len(one):,} first and {len(other):,} second values",
            expected="one pair of values a task",
        )
    return mean_interval(one - other, seed=seed, n_draws=n_draws)


def share_interval(n_right: int, n: int) -> Estimate:
    """Return a share of rows and its 95 % interval by Wilson's formula, which holds for few rows too.

    >>> share = share_interval(8, 10)
    >>> round(share.low, 3), share.mean, round(share.high, 3)
    (0.49, 0.8, 0.943)
    >>> share_interval(0, 0)
    Estimate(mean=nan, low=0.0, high=1.0, n=0)
    """
    if not 0 <= n_right <= n:
        raise UsageError("a share cannot be made", got=f"{n_right} of {n}", expected="0 <= n_right <= n")
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    share, square = n_right / n, NORMAL_QUANTILE**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = NORMAL_QUANTILE * math.sqrt(share * (1 - share) / n + square / (4 * n**2)) / (1 + square / n)
    # At 0 and 1 the ends meet the share, up to rounding.
    return Estimate(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)), n)


def check_values(what: str, values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    """Return the values as an array; refuse what is not one finite number a task."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) == 0:
        raise DataError(
            "there are no values to take a mean of" if numbers.size == 0 else f"{what} is not a number",
            got=f"an array of shape {numbers.shape}",
            expected="one number a task",
        )
    finite = np.isfinite(numbers)
    if not finite.all():
        place = int(np.flatnonzero(~finite)[0])
        raise DataError(f"{what} is not finite", where=f"place {place}", got=str(numbers[place]))
    return numbers
