"""How a long command is stopped: the first signal asks, the second one does not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from robusttc.cli.console import error_console
from robusttc.errors import RobustTCError

__all__ = ["RunStoppedError", "stop_on_signals"]

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Work that does not look at the flag is cut short after this: what is finished is on disk all the same.
PATIENCE_SECONDS = 8.0


class RunStoppedError(RobustTCError):
    """A run was stopped before it was finished."""

    exit_code = INTERRUPTED

    def __init__(self, folder: Path) -> None:
        super().__init__(
            "stopped",
            where=str(folder),
            todo="all finished work is kept: run the same command again to go on",
        )


@contextmanager
def stop_on_signals(
    *, quiet: bool = False, patience: float = PATIENCE_SECONDS, end: Callable[[int], None] = os._exit
) -> Iterator[Callable[[], bool]]:
    """Give what tells whether SIGINT or SIGTERM came.

    After the first one, work has some seconds to notice; after these, and at once after the second signal,
    the process ends.

    Parameters
    ----------
    quiet
        Whether to say nothing.
    patience
        How many seconds work has.
    end
        Ends the process with a code.
    """
    stopped = threading.Event()
    timer = threading.Timer(patience, end, (INTERRUPTED,))
    timer.daemon = True

    def announce() -> None:
        error_console().print("Stopping: what is finished is kept …", markup=False)

    # A signal may come while the main thread prints or imports: a handler that printed would break into that.
    speaker = threading.Thread(target=announce, daemon=True)

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stopped.is_set():
            end(INTERRUPTED)
            return
        stopped.set()
        timer.start()
        if not quiet:
            speaker.start()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stopped.is_set
    finally:
        timer.cancel()
        if speaker.is_alive():
            speaker.join(timeout=1.0)
        for number, handler in before.items():
            signal.signal(number, handler)
