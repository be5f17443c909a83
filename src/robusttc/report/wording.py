"""Numbers and names as they stand in sentences."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from robusttc.stats import Estimate

__all__ = [
    "WORTHWHILE",
    "command_place",
    "list_names",
    "say_name",
    "say_percent",
    "say_points",
]

MAX_NAME = 40
MAX_NAMES = 3
# Less than half a point is for sure where tasks are many, but nobody would notice it.
WORTHWHILE = 0.005


def say_percent(estimate: Estimate) -> str:
    """Say an accuracy in hundredths with its interval.

    >>> say_percent(Estimate(0.912, 0.9, 0.92, 40))
    '91.2 % [90.0, 92.0]'
    """
    return f"{hundredths(estimate.mean)} %{interval(estimate)}"


def say_points(estimate: Estimate, *, unit: str = " points") -> str:
    """Say a difference in hundredths with its interval.

    >>> say_points(Estimate(-0.012, -0.02, 0.001, 40)), say_points(Estimate(0.01, -math.inf, math.inf, 1))
    ('-1.2 points [-2.0, 0.1]', '1.0 points')
    """
    return f"{hundredths(estimate.mean)}{unit}{interval(estimate)}"


def interval(estimate: Estimate) -> str:
    """Say the ends of an interval, if there is one."""
    if not (math.isfinite(estimate.low) and math.isfinite(estimate.high)):
        return ""
    return f" [{hundredths(estimate.low)}, {hundredths(estimate.high)}]"


def hundredths(value: float) -> str:
    """Give a share in hundredths."""
    # Without the sum, a difference that rounds to zero could show as -0.0.
    return f"{round(100 * value, 1) + 0.0:.1f}"


def say_name(name: str) -> str:
    r"""Give a name as it can stand in a sentence: on one line, and not too long.

    >>> say_name("a\nb"), len(say_name("a" * 100))
    ('a b', 40)
    """
    shown = "".join(character if character.isprintable() else " " for character in name)
    shown = " ".join(shown.split())
    return shown if len(shown) <= MAX_NAME else shown[: MAX_NAME - 1] + "…"


def list_names(names: Sequence[str]) -> str:
    """Name the first few, and say how many more there are.

    >>> list_names(["a", "b"]), list_names(list("abcde"))
    ('a, b', 'a, b, c and 2 more')
    """
    shown = ", ".join(say_name(name) for name in names[:MAX_NAMES])
    return f"{shown} and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else shown


def command_place(folder: Path) -> Path:
    """Give a folder as it stands in commands: from here where it is below, else as it is.

    >>> str(command_place(Path.cwd() / "my run"))
    'my run'
    """
    try:
        short = os.path.relpath(folder)
    except ValueError:  # pragma: no cover - another drive
        return folder
    return folder if short.startswith(os.pardir) else Path(short)
