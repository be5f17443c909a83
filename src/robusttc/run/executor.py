"""Who does the units of a run: processes of this machine, or a Ray cluster; the run sees no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Protocol

from robusttc.work.outcomes import Outcome
from robusttc.work.units import Handle, Unit

__all__ = ["Executor", "ExecutorName", "make_executor"]

ExecutorName = Literal["local", "ray"]


class Executor(Protocol):
    """Does units elsewhere, in any order, and may lose them: what is finished only the store knows.

    At most twice as many units as workers are to be under way, so that stopping takes no time.
    """

    @property
    def n_workers(self) -> int:
        """How many units are worked on at the same time."""

    def put(self, data: Any) -> Handle:
        """Hold data ready: it travels once, not with every unit."""

    def drop(self, handle: Handle) -> None:
        """Let go of data that no unit under way needs."""

    def submit(self, ticket: int, unit: Unit, data: Handle | None, time_limit: float) -> None:
        """Give out a unit.

        Parameters
        ----------
        ticket
            A number that no other unit under way has; the outcome bears it.
        unit
            The unit.
        data
            What `put` gave, or None.
        time_limit
            Seconds after which its worker is ended.
        """

    def wait(self, timeout: float) -> list[Outcome]:
        """Give all outcomes that are there, or wait for one at most so many seconds.

        A unit that raises, whose worker ends or that is over its time has an outcome like any other; an
        error is raised only if no unit can be done at all.
        """

    def close(self) -> None:
        """End all work within five seconds; units under way are lost."""


def make_executor(
    name: ExecutorName, *, n_workers: int | None = None, scratch: Path | None = None
) -> Executor:
    """Make an executor.

    Parameters
    ----------
    name
        ``"local"`` for processes, ``"ray"`` for the Ray cluster at the address in the environment variable
        ``RAY_ADDRESS``, or a Ray of our own on this machine.
    n_workers
        How many processes; None for one. With a Ray of our own None takes one a core, and a cluster decides
        for itself.
    scratch
        A folder that is there, for data that local processes share.

    Examples
    --------
    >>> executor = make_executor("local", n_workers=2)
    >>> executor.n_workers
    2
    >>> executor.close()
    """
    if name == "ray":
        from robusttc.run.ray_executor import RayExecutor

        return RayExecutor(n_workers=n_workers)
    from robusttc.work.process_executor import ProcessExecutor

    return ProcessExecutor(1 if n_workers is None else n_workers, scratch=scratch)
