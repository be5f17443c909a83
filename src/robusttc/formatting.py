"""Numbers in sentences, and commands for people to run."""

from __future__ import annotations

import math
import shlex
from pathlib import PurePath

__all__ = [
    "command_line",
    "count",
    "format_bytes",
    "format_duration",
    "format_interval",
    "format_number",
    "format_percent",
    "format_points",
    "format_seconds",
    "format_small",
    "shell_word",
]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun; `plural` where that is more than an s.

    >>> count(1, "task"), count(1200, "task"), count(2, "entry", "entries")
    ('1 task', '1,200 tasks', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def command_line(*words: str | PurePath | tuple[str, str]) -> str:
    r"""Return a command of robusttc so that a shell takes every word, path and option as it is.

    >>> command_line("predict", PurePath("my run"), ("--task", "it's `x`"), "TEXTS.txt")
    'robusttc predict \'my run\' --task \'it\'"\'"\'s `x`\' TEXTS.txt'
    >>> command_line("explain", PurePath("-run"), ("--task", "-x"))
    'robusttc explain ./-run --task=-x'
    """
    return " ".join(["robusttc", *(shell_word(word) for word in words)])


def shell_word(word: str | PurePath | tuple[str, str]) -> str:
    """Return a word of `command_line`."""
    if isinstance(word, tuple):
        option, value = word
        # A value that begins with a dash would be taken for another option, and so would a path.
        return f"{option}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"
    text = str(word)
    return shlex.quote(f"./{text}" if isinstance(word, PurePath) and text.startswith("-") else text)


def format_seconds(seconds: float) -> str:
    """Return a time with the precision of an estimate.

    >>> [format_seconds(value) for value in (0.2, 7.4, 33.0, 110.0, 1000.0, 20_000.0)]
    ['1 s', '7 s', '35 s', '110 s', '17 min', '5.6 h']
    """
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 117.5:
        return f"{5 * round(seconds / 5)} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def format_duration(seconds: float) -> str:
    """Return a time that was measured, to the second.

    >>> format_duration(7.4), format_duration(75), format_duration(3725)
    ('7 s', '1:15', '1:02:05')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_bytes(n_bytes: float) -> str:
    """Return a size with the precision of an estimate.

    >>> [format_bytes(size) for size in (740_000, 2_345_000, 644_000_000, 1_240_000_000)]
    ['740 kB', '2.3 MB', '640 MB', '1.2 GB']
    """
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:.0f} kB"
    if n_bytes < 1e7:
        return f"{n_bytes / 1e6:.1f} MB"
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{10 * round(n_bytes / 1e7)} MB"


def format_number(value: float, decimals: int = 2, *, signed: bool = False) -> str:
    """Return a number with so many decimals; zero has no sign.

    >>> format_number(0.831), format_number(-0.001), format_number(2, 1, signed=True)
    ('0.83', '0.00', '+2.0')
    """
    text = f"{value:{'+' if signed else ''}z,.{decimals}f}"
    return text[1:] if signed and not text.strip("+0.") else text


def format_small(value: float) -> str:
    """Return a number that may be tiny with two significant digits.

    >>> format_small(0.8331), format_small(9.64e-06)
    ('0.83', '9.6e-06')
    """
    return f"{value:.2g}"


def format_percent(share: float, decimals: int = 1) -> str:
    """Return a share in per cent.

    >>> format_percent(0.7119)
    '71.2 %'
    """
    return f"{format_number(100 * share, decimals)} %"


def format_points(difference: float) -> str:
    """Return a difference of two shares in points (hundredths) with its sign.

    >>> format_points(0.038), format_points(-0.0141), format_points(-0.0001)
    ('+3.8', '-1.4', '0.0')
    """
    return format_number(100 * difference, 1, signed=True)


def format_interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Return the ends of an interval of shares in hundredths; nothing where there is no interval.

    >>> format_interval(0.02, 0.059, signed=True), format_interval(-math.inf, math.inf)
    ('[+2.0, +5.9]', '')
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{', '.join(format_number(100 * end, 1, signed=signed) for end in (low, high))}]"
