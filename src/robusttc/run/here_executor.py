"""Units of a run done in this very process: a handful of them are done sooner than a worker has started."""

from __future__ import annotations

from collections import deque
from typing import Any

from robusttc.work.outcomes import Outcome
from robusttc.work.performing import outcome_of, perform
from robusttc.work.units import Handle, InPlace, Unit

__all__ = ["HereExecutor"]


class HereExecutor:
    """Does units one after the other when their outcomes are waited for.

    An error of a unit is its own, as elsewhere. What a process of its own would add, it has not: a unit that
    ends the process ends the run, which goes on when it is started again; and nobody looks at the time.

    Examples
    --------
    >>> from robusttc.work.packing import unpack
    >>> from robusttc.work.units import Payload
    >>> def double(data, number):
    ...     return Payload({"answer": 2 * number})
    >>> executor = HereExecutor()
    >>> executor.submit(0, Unit("a", double, 3), None, 1.0)
    >>> unpack(executor.wait(0.0)[0].content).values
    {'answer': 6}
    """

    n_workers = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Unit, Any]] = deque()

    def put(self, data: Any) -> Handle:
        """Keep the data where it is."""
        return InPlace(data)

    def drop(self, handle: Handle) -> None:
        """Nothing is held."""

    def submit(self, ticket: int, unit: Unit, data: Handle | None, time_limit: float) -> None:
        """Take a unit."""
        del time_limit
        self._waiting.append((ticket, unit, data.data if isinstance(data, InPlace) else None))

    def wait(self, timeout: float) -> list[Outcome]:
        """Do the next unit, however long it takes."""
        del timeout
        if not self._waiting:
            return []
        ticket, unit, data = self._waiting.popleft()
        return [outcome_of(ticket, perform(unit.work, unit.argument, data))]

    def close(self) -> None:
        """Forget what is waiting."""
        self._waiting.clear()
