"""Where a training hands out its units: material that many of them need is laid out once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Self

from robusttc.errors import DoubtWarning, WorkError, quote
from robusttc.jobs import Job, Result, Runner, Shared
from robusttc.learning.one_bar import OneBar
from robusttc.random import child_seed

__all__ = ["Bench", "name_tasks", "need", "warn_of_tasks"]

# So many tasks are named in a warning.
MAX_NAMED = 5


class Bench:
    """Hands the units of one training to a runner.

    Parameters
    ----------
    stage
        What they are a part of.
    runner
        Who does them; None does them here.
    bar
        Who is told how far it is.

    Examples
    --------
    >>> def add(material, number):
    ...     return Result({"sum": material + number})
    >>> with Bench("demo") as bench:
    ...     bench.lay_out(40)
    ...     bench.do([Job("demo/2", add, 2)])[0].values
    {'sum': 42}
    """

    def __init__(self, stage: str, runner: Runner | None = None, bar: OneBar | None = None) -> None:
        self.stage = stage
        self.runner = runner or Runner()
        self.bar = bar or OneBar(None, stage, 0, "models")
        self._material: Any = None
        self._handle: Shared | None = None

    def lay_out(self, material: Any) -> None:
        """Take other material for the units to come; it travels when the first of them does."""
        if material is not self._material:
            self.close()
            self._material = material

    def do(self, units: Sequence[Job]) -> list[Result | None]:
        """Let units be done; see `robusttc.jobs.Runner.run`."""
        if not units:
            return []
        if self._handle is None:
            self._handle = self.runner.share(self._material)
        progress = self.bar.step(len(units))
        return self.runner.run(self.stage, units, self._handle, progress=progress, unit=self.bar.noun)

    def close(self) -> None:
        """Let go of the material."""
        if self._handle is not None:
            self.runner.release(self._handle)
        self._handle = self._material = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def name_tasks(names: Sequence[str]) -> str:
    """Give some tasks a short name that no others have, for the keys of units.

    Examples
    --------
    >>> name_tasks(["acme"]), name_tasks(["a", "b"])
    ('task acme', 'tasks 2 02184ac6fda6a635')
    """
    if len(names) == 1:
        return f"task {names[0]}"
    return f"tasks {len(names)} {child_seed(0, 'unit', names):016x}"


def need(what: str, unit: Job, payload: Result | None) -> Result:
    """Give the result of a unit without which nothing goes on.

    Raises
    ------
    WorkError
        If there is none.
    """
    if payload is None:
        raise WorkError(
            f"{what} could not be trained",
            where=f"unit {unit.key}",
            got=f"failure in every try, with {len(unit.tasks):,} tasks",
            todo="look at the error of the unit; leave out the task that it is about, or try again",
        )
    return payload


def warn_of_tasks(what: str, names: Iterable[str]) -> None:
    """Say what could not be done for some tasks, if there are any."""
    listed = sorted(set(names))
    if not listed:
        return
    more = f" and {len(listed) - MAX_NAMED:,} more" if len(listed) > MAX_NAMED else ""
    shown = ", ".join(quote(name) for name in listed[:MAX_NAMED])
    warnings.warn(f"{what}: {shown}{more}", DoubtWarning, stacklevel=3)
