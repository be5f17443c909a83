"""A worker process: waits for units on a pipe, does them one after the other, and ends with its parent.

Units come pickled from the parent, over a pipe that nobody else can reach. This module
loads nothing heavy: the environment that holds libraries to one thread has to be set before they are loaded.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from importlib import import_module
from multiprocessing import connection, parent_process
from typing import Any

from robusttc.work.performing import Report, failed, perform, pin_environment, pin_threads
from robusttc.work.sharing import SharedData, open_shared

__all__ = ["READY", "Give", "Take", "serve_units"]

# What a worker says when it waits for its first unit.
READY = "ready"

# Number of the data and how to find it; None instead of that: forget the data.
Give = tuple[int, SharedData | None]
# Ticket, the pickled function and argument, and the number of the data.
Take = tuple[int, bytes, int | None]

# Loaded before the first unit comes: it should not count as that unit's time.
EVERY_UNIT_NEEDS = ("robusttc.work.packing", "safetensors.numpy")

# From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1


def serve_units(pipe: connection.Connection[Any, Any], parent: int) -> None:
    """Do what comes over the pipe, until it is closed.

    A message is a pair: data to take or forget (`Give`), then perhaps a unit (`Take`). The answer to a unit
    is its ticket and a `Report`.

    Parameters
    ----------
    pipe
        The worker's end.
    parent
        The process number of the parent.
    """
    # Whether to stop is for the parent to say; a keyboard's interrupt reaches all processes at once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    pin_environment()
    for name in EVERY_UNIT_NEEDS:
        import_module(name)
    pin_threads()
    shelf: dict[int, Any] = {}
    pipe.send(READY)
    while True:
        try:
            gifts, unit = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        if unit is None:
            take_gifts(shelf, gifts)
            continue
        pipe.send((unit[0], answer(shelf, gifts, unit)))


def take_gifts(shelf: dict[int, Any], gifts: list[Give]) -> None:
    """Take or forget shared data."""
    for number, shared in gifts:
        if shared is None:
            shelf.pop(number, None)
        else:
            shelf[number] = open_shared(shared)


def answer(shelf: dict[int, Any], gifts: list[Give], unit: Take) -> Report:
    """Do a unit; whatever goes wrong is in the report."""
    try:
        take_gifts(shelf, gifts)
        work, argument = pickle.loads(unit[1])  # noqa: S301 - from the parent, over its own pipe
        data = None if unit[2] is None else shelf[unit[2]]
    except Exception as error:  # whatever the modules of the unit raise when they are imported
        return failed(error)
    return perform(work, argument, data)


def end_with_parent(parent: int) -> None:
    """See to it that this process does not outlive its parent, however that one ends."""
    if sys.platform == "linux":
        import ctypes

        # At once, even inside a long computation that lets no other thread run.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)
    threading.Thread(target=wait_for_end, daemon=True, name="robusttc-parent").start()


def wait_for_end() -> None:
    """End this process when its parent has ended; for systems without the above."""
    started_by = parent_process()
    if started_by is not None:
        connection.wait([started_by.sentinel])
        os._exit(1)
