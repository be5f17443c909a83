"""How numbers are said in sentences."""

from __future__ import annotations

__all__ = ["count"]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Give a number with its noun; `plural` where that is more than an s.

    >>> count(1, "task"), count(1200, "task"), count(2, "entry", "entries")
    ('1 task', '1,200 tasks', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
