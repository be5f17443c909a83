"""A workshop of several processes that keeps nothing: an error of a unit is an error of the caller."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from robusttc.errors import RobustTCError
from robusttc.progress import Progress, report
from robusttc.work.outcomes import Outcome
from robusttc.work.packing import unpack
from robusttc.work.process_executor import ProcessExecutor
from robusttc.work.units import Handle, Payload, Unit

__all__ = ["ProcessExecutor", "Processes"]

# Units under way for each worker: one that it does, and one that waits for it.
UNITS_A_WORKER = 2
# Only so that waiting can be interrupted on every system.
WAIT_SECONDS = 1.0


class Processes:
    """Does units in several processes of this machine; an error of a unit is raised as it is.

    Parameters
    ----------
    n_workers
        How many processes work at the same time, each with one thread.
    scratch
        A folder for shared data; None takes that of the system for temporary files.

    Examples
    --------
    >>> with Processes(2) as workshop:
    ...     workshop.do("demo", [])
    []
    """

    def __init__(self, n_workers: int, *, scratch: Path | None = None) -> None:
        self.executor = ProcessExecutor(n_workers, scratch=scratch)
        # Never the same number twice: an outcome of a unit that was given up must not pass for another's.
        self._tickets = itertools.count()

    def put(self, data: Any) -> Handle:
        """Write the data once, for all workers."""
        return self.executor.put(data)

    def drop(self, handle: Handle) -> None:
        """Remove the data."""
        self.executor.drop(handle)

    def do(
        self,
        stage: str,
        units: Sequence[Unit],
        data: Handle | None = None,
        *,
        when_done: Callable[[Unit, Payload], None] | None = None,
        progress: Progress | None = None,
        noun: str = "units",
    ) -> list[Payload | None]:
        """Do the units in any order; see `robusttc.work.units.Workshop`.

        Raises
        ------
        RobustTCError
            If a worker ended, for instance because memory was short.
        """
        results: list[Payload | None] = [None] * len(units)
        waiting = iter(range(len(units)))
        under_way: dict[int, int] = {}
        n_done = 0
        report(progress, stage, 0, len(units), noun)
        try:
            while n_done < len(units):
                for index in itertools.islice(waiting, self._room(under_way)):
                    ticket = next(self._tickets)
                    under_way[ticket] = index
                    self.executor.submit(ticket, units[index], data, math.inf)
                for outcome in self.executor.wait(WAIT_SECONDS):
                    if outcome.ticket not in under_way:
                        continue
                    index = under_way.pop(outcome.ticket)
                    unit, payload = units[index], payload_of(outcome, units[index])
                    if when_done is not None:
                        when_done(unit, payload)
                    results[index] = payload
                    n_done += 1
                    report(progress, stage, n_done, len(units), noun, unit.tasks[0] if unit.tasks else "")
        except BaseException:
            self.executor.cancel()
            raise
        return results

    def _room(self, under_way: dict[int, int]) -> int:
        return max(0, UNITS_A_WORKER * self.executor.n_workers - len(under_way))

    def close(self) -> None:
        """End all workers."""
        self.executor.close()

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def payload_of(outcome: Outcome, unit: Unit) -> Payload:
    """Give the result of a unit, or raise its error."""
    if outcome.content is not None:
        return unpack(outcome.content, where=unit.key)
    if outcome.exception is not None:
        raise outcome.exception
    raise RobustTCError(
        "a piece of work could not be done",
        where=unit.key,
        got=outcome.error,
        todo="if memory is short, use fewer workers" if outcome.kind == "died" else None,
    )
