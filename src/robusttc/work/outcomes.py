"""What became of a unit that was given to a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Kind", "Outcome"]

Kind = Literal["done", "raised", "died", "hung"]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of a unit.

    Attributes
    ----------
    ticket
        The number under which the unit was submitted.
    kind
        ``done``; ``raised`` an error; ``died``: its worker was gone before it was done; ``hung``: it was
        over its time limit, and its worker was ended.
    content
        The packed result (see `robusttc.work.packing`) of a unit that is done, else None.
    error
        One line for people, of a unit that is not done, else None.
    exception
        The error itself where the unit raised one that can travel, else None.
    seconds, cpu_seconds
        What the unit took, where it is known.
    peak_bytes
        The largest memory of the worker up to now, shared data included; 0 where it is not known.
    """

    ticket: int
    kind: Kind
    content: bytes | None = None
    error: str | None = None
    exception: BaseException | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
