"""How the page writes figures: accuracies in per cent, differences in points, times and sizes for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = [
    "MINUS",
    "NOTHING",
    "as_bytes",
    "as_count",
    "as_difference",
    "as_number",
    "as_percent",
    "as_points",
    "as_range",
    "as_seconds",
    "as_small",
    "number_of",
]

NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def number_of(values: Mapping[str, Any] | None, key: str) -> float | None:
    """Give a finite number from a document, or None where there is none.

    Examples
    --------
    >>> number_of({"gap": 0.5, "lam": True}, "gap"), number_of({"lam": True}, "lam"), number_of(None, "lam")
    (0.5, None, None)
    """
    value = values.get(key) if isinstance(values, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def as_number(value: float | None, digits: int = 2) -> str:
    """Write a number with so many digits after the point.

    Examples
    --------
    >>> as_number(0.831), as_number(-0.001), as_number(None), as_number(-2, 0)
    ('0.83', '0.00', '–', '−2')
    """
    # Without z, a very small negative number would be a negative zero.
    return NOTHING if value is None else f"{value:z,.{digits}f}".replace("-", MINUS)


def as_small(value: float | None) -> str:
    """Write a number that may be tiny with two digits that count.

    Examples
    --------
    >>> as_small(0.8331), as_small(9.64e-06)
    ('0.83', '9.6e−06')
    """
    return NOTHING if value is None else f"{value:.2g}".replace("-", MINUS)


def as_count(value: float | None) -> str:
    """Write a whole number.

    Examples
    --------
    >>> as_count(101388)
    '101,388'
    """
    return NOTHING if value is None else f"{round(value):,}".replace("-", MINUS)


def as_percent(value: float | None, digits: int = 1) -> str:
    """Write a share in per cent.

    Examples
    --------
    >>> as_percent(0.7119).split()
    ['71.2', '%']
    """
    return NOTHING if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%".replace("-", MINUS)


def as_points(value: float | None) -> str:
    """Write a difference of accuracies in points, with its sign.

    Examples
    --------
    >>> as_points(0.038), as_points(-0.0141), as_points(-0.0001)
    ('+3.8', '−1.4', '0.0')
    """
    if value is None:
        return NOTHING
    text = f"{100 * value:+.1f}".replace("-", MINUS)
    return text[1:] if text[1:] == "0.0" else text


def as_range(estimate: Mapping[str, Any] | None, *, signed: bool = False) -> str:
    """Write the 95 % interval of an estimate.

    Examples
    --------
    >>> as_range({"mean": 0.038, "low": 0.02, "high": 0.059}, signed=True)
    '[+2.0, +5.9]'
    >>> as_range({"mean": 0.7, "low": None, "high": None})
    ''
    """
    low, high = number_of(estimate, "low"), number_of(estimate, "high")
    if low is None or high is None:
        return ""
    if signed:
        return f"[{as_points(low)}, {as_points(high)}]"
    return f"[{100 * low:.1f}, {100 * high:.1f}]".replace("-", MINUS)


def as_difference(estimate: Mapping[str, Any] | None) -> str:
    """Write a difference in points with its interval.

    Examples
    --------
    >>> as_difference({"mean": 0.038, "low": 0.02, "high": 0.059})
    '+3.8 [+2.0, +5.9]'
    """
    return f"{as_points(number_of(estimate, 'mean'))} {as_range(estimate, signed=True)}".rstrip()


def as_seconds(value: float | None) -> str:
    """Write a time.

    Examples
    --------
    >>> as_seconds(0.42), as_seconds(12.3), as_seconds(139), as_seconds(8000), as_seconds(None)
    ('0.4 s', '12 s', '2:19 min', '2:13 h', '–')
    """
    if value is None:
        return NOTHING
    if value < 59.5:
        return f"{value:.0f} s" if value >= 9.95 else f"{value:.1f} s"
    unit, parts = ("min", round(value)) if value < 3600 else ("h", round(value / 60))
    return f"{parts // 60}:{parts % 60:02} {unit}"


def as_bytes(value: float | None) -> str:
    """Write a size.

    Examples
    --------
    >>> as_bytes(870_000_000), as_bytes(1_300_000_000), as_bytes(None)
    ('870 MB', '1.3 GB', '–')
    """
    if value is None:
        return NOTHING
    for unit, size in {"GB": 1e9, "MB": 1e6, "kB": 1e3}.items():
        if value >= size:
            return f"{value / size:.{1 if value < 10 * size else 0}f} {unit}"
    return f"{value:.0f} bytes"
