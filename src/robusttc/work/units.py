"""The unit of work, and who does it.

A long computation is cut into units: functions of a module with small arguments, whose results are numbers
and plain values. Who calls the computation decides where units are done (here, in other processes, on other
machines) and whether their results are kept; the computation does not know. A unit's result depends on its
argument and the shared data alone, so doing it again gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.progress import Progress, report

__all__ = ["HERE", "Handle", "Here", "Payload", "Unit", "Workshop"]


@dataclass(frozen=True, slots=True, eq=False)
class Payload:
    """What a unit gives: values that JSON can hold, and arrays of numbers.

    Attributes
    ----------
    values
        Plain values; keys are strings.
    arrays
        Arrays by name, of any shape.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One piece of work.

    Attributes
    ----------
    key
        Its name, that of no other unit of the computation: ``"transfer/acme"``. The same piece of work has
        the same key every time.
    work
        A function of a module (so that another process finds it) of the shared data and the argument.
    argument
        What this unit is about; small, because it travels with the unit.
    tasks
        The tasks that it is about, for messages and for leaving out a task that cannot be worked on.
    keep
        Whether the result is to be remembered; False for what the caller stores in a place of its own.
    """

    key: str
    work: Callable[[Any, Any], Payload]
    argument: Any = None
    tasks: tuple[str, ...] = ()
    keep: bool = True


class Handle(Protocol):
    """Shared data that a workshop holds ready for its units."""


class Workshop(Protocol):
    """Who does units of work."""

    def put(self, data: Any) -> Handle:
        """Hold data ready that many units need: it travels once, not with every unit."""

    def drop(self, handle: Handle) -> None:
        """Let go of data that is not needed any more."""

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
        """Do units that do not need each other, in any order, and give their results in the order of units.

        Parameters
        ----------
        stage
            What they are a part of, for people and for the books.
        units
            The units.
        data
            What `put` gave; units get the data itself.
        when_done
            Called here, in this process, with every unit and its result, as soon as it is done.
        progress, noun
            Told after every unit, in these units.

        Returns
        -------
        list of Payload or None
            None for a unit that was tried several times in vain and is left out.
        """


@dataclass(frozen=True, slots=True, eq=False)
class InPlace:
    """Data that is in this process already."""

    data: Any


class Here:
    """Does units one after the other in this process; an error of a unit is raised as it is.

    Examples
    --------
    >>> def double(data, number):
    ...     return Payload({"answer": 2 * number + data})
    >>> here = Here()
    >>> [done.values["answer"] for done in here.do("demo", [Unit("a", double, 3)], here.put(1))]
    [7]
    """

    def put(self, data: Any) -> Handle:
        """Keep the data where it is."""
        return InPlace(data)

    def drop(self, handle: Handle) -> None:
        """Nothing is held."""

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
        """Do the units in their order, with one thread of linear algebra as everywhere."""
        shared = data.data if isinstance(data, InPlace) else None
        results: list[Payload | None] = []
        report(progress, stage, 0, len(units), noun)
        with threadpool_limits(limits=1):
            for unit in units:
                payload = unit.work(shared, unit.argument)
                if when_done is not None:
                    when_done(unit, payload)
                results.append(payload)
                report(progress, stage, len(results), len(units), noun, unit.tasks[0] if unit.tasks else "")
        return results


HERE = Here()
