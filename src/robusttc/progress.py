"""How far a long piece of work is: small events for a callback that the caller gives.

The library itself is silent: the command line draws the events, the service counts them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "ProgressEvent", "at_most_every", "report"]


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """`done` of `total` units of a stage are done; `detail` says what was done last, where that helps."""

    stage: str
    done: int
    total: int
    unit: str
    detail: str = ""


Progress = Callable[[ProgressEvent], None]


def report(progress: Progress | None, stage: str, done: int, total: int, unit: str, detail: str = "") -> None:
    """Tell the callback, if there is one; the rest is as in the event, in its order.

    >>> report(print, "transfer", 2, 10, "tasks")
    ProgressEvent(stage='transfer', done=2, total=10, unit='tasks', detail='')
    """
    if progress is not None:
        progress(ProgressEvent(stage, done, total, unit, detail))


def at_most_every(
    progress: Progress, seconds: float, *, clock: Callable[[], float] = time.monotonic
) -> Progress:
    """Let an event through at most every so many seconds, and always the first and the last of a stage."""
    last: tuple[str, float] | None = None

    def throttled(event: ProgressEvent) -> None:
        nonlocal last
        now = clock()
        is_due = last is None or last[0] != event.stage or now - last[1] >= seconds
        if is_due or event.done == event.total:
            last = event.stage, now
            progress(event)

    return throttled
