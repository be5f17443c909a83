"""What runs on a Ray node: one unit of work, with shared data that is fetched once a process."""

from __future__ import annotations

import faulthandler
import math
import os
import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.errors import UsageError
from robusttc.version import __version__
from robusttc.work.performing import Report, failed, perform, pin_environment
from robusttc.work.sharing import join
from robusttc.work.units import Payload

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["do_nothing", "do_unit", "use_shelf"]

# Shared data of this process by number; only what the last unit said is still needed.
_shelf: dict[str, Any] = {}


def do_unit(
    version: str,
    pickled: bytes,
    number: str | None,
    shelf: dict[str, list[Any]],
    time_limit: float,
) -> Report:
    """Do a unit in a Ray worker.

    Parameters
    ----------
    version
        The version of this package where the unit comes from.
    pickled
        The function and the argument of the unit. Ray itself carries pickles, and whoever reaches it can run
        code; hence `robusttc.run.ray_address`.
    number
        The data that it needs, or None.
    shelf
        References to all data that is still needed, each in a list: Ray would fetch a bare one before it is
        known whether this process has it already.
    time_limit
        Seconds after which this process ends itself.

    Raises
    ------
    UsageError
        If this node has another version of the package: its results might differ.
    """
    if version != __version__:
        raise UsageError(
            "this Ray node has another version of robusttc",
            got=__version__,
            expected=version,
            todo="install the same version on all nodes",
        )
    pin_environment()
    with ended_after(time_limit):
        try:
            work, argument = pickle.loads(pickled)  # noqa: S301 - see above
            data = None if number is None else use_shelf(number, shelf)
        except Exception as error:  # whatever the modules of the unit raise when they are imported
            if is_of_ray(error):  # data that was lost on the way is no fault of the unit
                raise
            return failed(error)
        return perform(work, argument, data)


def is_of_ray(error: Exception) -> bool:
    """Tell whether Ray has failed, and not the unit."""
    from ray.exceptions import RayError

    return isinstance(error, RayError)


def do_nothing(data: Any, argument: Any) -> Payload:
    """Give an empty result: a unit to see whether units can be done at all."""
    del data, argument
    return Payload()


def use_shelf(number: str, shelf: dict[str, list[Any]]) -> Any:
    """Give shared data, fetched if this process has not got it, and forget what is not needed any more."""
    for old in _shelf.keys() - shelf.keys():
        del _shelf[old]
    if number not in _shelf:
        import ray

        head, blocks = ray.get(shelf[number][0])
        # Copies, once a process: those of Ray are read-only, which compiled loops take for another type.
        _shelf[number] = join(head, [np.array(block).data for block in blocks])
    return _shelf[number]


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process if the block takes longer; also inside a computation that lets no other thread run."""
    if seconds == math.inf:
        yield
        return
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - not a path but a place without one
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
