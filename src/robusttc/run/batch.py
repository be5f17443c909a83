"""The units of one call to a run's workshop, and what became of them so far."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from robusttc.errors import UsageError, quote
from robusttc.progress import Progress, report
from robusttc.work.outcomes import Outcome
from robusttc.work.units import Handle, Payload, Unit

__all__ = ["Batch", "LaterPut", "as_later", "check_keys", "in_chunks", "only_done"]


@dataclass(slots=True, eq=False)
class LaterPut:
    """Data that goes to the executor when the first unit needs it; in a finished run, none does."""

    data: Any
    handle: Handle | None = None


@dataclass(slots=True, eq=False)
class Batch:
    """The units of one call, and what became of them."""

    stage: str
    units: Sequence[Unit]
    data: Handle | None
    when_done: Callable[[Unit, Payload], None] | None
    progress: Progress | None
    noun: str
    results: list[Payload | None]
    n_settled: int = 0
    waiting: deque[int] = field(default_factory=deque)
    under_way: dict[int, int] = field(default_factory=dict)
    # Of units whose results the caller keeps: how many, and what they cost.
    n_not_kept: int = 0
    cpu_not_kept: float = 0.0
    peak_not_kept: int = 0

    def note_cost(self, outcome: Outcome) -> None:
        """Note what a unit cost whose result the store does not get."""
        self.n_not_kept += 1
        self.cpu_not_kept += outcome.cpu_seconds
        self.peak_not_kept = max(self.peak_not_kept, outcome.peak_bytes)

    def settle(self, index: int, payload: Payload | None) -> None:
        """Note the result of a unit (None: it is left out), and tell of it."""
        unit = self.units[index]
        if payload is not None and self.when_done is not None:
            self.when_done(unit, payload)
        self.results[index] = payload
        self.n_settled += 1
        self.tell(unit.tasks[0] if unit.tasks else "")

    def tell(self, detail: str = "") -> None:
        """Report how many units are settled."""
        report(self.progress, self.stage, self.n_settled, len(self.units), self.noun, detail)


def only_done(outcomes: list[Outcome]) -> list[Outcome]:
    """Leave out units that failed."""
    return [outcome for outcome in outcomes if outcome.kind == "done"]


def check_keys(units: Sequence[Unit]) -> None:
    """Refuse units that the store could not tell apart."""
    counted = Counter(unit.key for unit in units)
    for key, times in counted.items():
        if times > 1:
            raise UsageError("two units of work have the same key", got=quote(key))


def as_later(handle: Handle) -> LaterPut:
    """Refuse a handle of another workshop."""
    if not isinstance(handle, LaterPut):
        raise UsageError(
            "the data was put elsewhere", got=quote(handle), expected="what `put` of the same gave"
        )
    return handle


def in_chunks(indices: range, size: int) -> Iterator[range]:
    """Cut a range."""
    for begin in range(0, len(indices), size):
        yield indices[begin : begin + size]
