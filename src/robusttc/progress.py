"""How far a long computation is: small events for a callback, and one default bar that draws them.

The library reports events; a command, a service or the default bar shows them. The bar is drawn to the error
output, and only where somebody watches: in a terminal or in a notebook.
"""

from __future__ import annotations

import multiprocessing
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from robusttc.errors import UsageError, quote

__all__ = [
    "Progress",
    "ProgressBar",
    "ProgressEvent",
    "ProgressOption",
    "no_default_bar",
    "report",
    "resolve_progress",
]

# A stage that takes less needs no bar.
DELAY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """`done` of `total` units of a stage are done; `detail` says what was done last, where that helps."""

    stage: str
    done: int
    total: int
    unit: str
    detail: str = ""


Progress = Callable[[ProgressEvent], None]
# What a public function takes: the default bar, nothing, or a callback.
ProgressOption = bool | Progress | None

_is_bar_allowed = True


def report(progress: Progress | None, stage: str, done: int, total: int, unit: str, detail: str = "") -> None:
    """Call the callback, if there is one; the rest is as in the event, in its order.

    >>> report(print, "transfer", 2, 10, "tasks")
    ProgressEvent(stage='transfer', done=2, total=10, unit='tasks', detail='')
    """
    if progress is not None:
        progress(ProgressEvent(stage, done, total, unit, detail))


def resolve_progress(progress: ProgressOption) -> Progress | None:
    """Return the callback for the parameter `progress` of a public function.

    True stands for the default bar, in a terminal or a notebook and nowhere else, False and None for nothing.

    >>> resolve_progress(print) is print, resolve_progress(False)
    (True, None)
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        # Worker processes have the same error output.
        is_main = multiprocessing.parent_process() is None
        return ProgressBar(sys.stderr) if _is_bar_allowed and is_main and is_watched(sys.stderr) else None
    if not callable(progress):
        raise UsageError(
            "progress cannot be used",
            got=quote(progress),
            expected="True, False, or a function of a ProgressEvent",
        )
    return progress


@contextmanager
def no_default_bar() -> Iterator[None]:
    """Draw no default bar inside the block: for a command that shows progress itself."""
    global _is_bar_allowed
    before, _is_bar_allowed = _is_bar_allowed, False
    try:
        yield
    finally:
        _is_bar_allowed = before


def is_watched(stream: TextIO | None) -> bool:
    """Return whether somebody sees at once what is written: in a terminal or in a notebook."""
    if stream is None or stream.closed:
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return stream.isatty() or getattr(shell, "kernel", None) is not None


class ProgressBar:
    """Draws events as one bar of tqdm per stage.

    Of several bars, one inside another, only the outer one is drawn.
    """

    _open: weakref.ref[ProgressBar] | None = None

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._stage: str | None = None
        self._bar: Any = None

    def __call__(self, event: ProgressEvent) -> None:
        """Draw an event, unless the stage is short or the last one was drawn a moment ago."""
        if event.stage != self._stage:
            self.close()
            self._start(event)
        self._bar.total = event.total
        self._bar.update(event.done - self._bar.n)
        if event.done >= event.total:
            self.close()

    def close(self) -> None:
        """Leave the line as it is, and go to the next one."""
        if self._bar is not None:
            if not self._bar.disable:
                ProgressBar._open = None
            self._bar.close()
            self._stage = self._bar = None

    def _start(self, event: ProgressEvent) -> None:
        from tqdm import tqdm

        class Bar(tqdm):  # type: ignore[misc]
            monitor_interval = 0  # no thread: every update looks at the clock

        other = ProgressBar._open() if ProgressBar._open is not None else None
        self._stage = event.stage
        self._bar = Bar(
            desc=event.stage,
            total=event.total,
            initial=event.done,
            unit=f" {event.unit}",
            file=self.stream,
            delay=DELAY_SECONDS,
            miniters=1,
            dynamic_ncols=True,
            disable=other is not None,
        )
        if other is None:
            ProgressBar._open = weakref.ref(self)
