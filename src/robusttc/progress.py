"""How far a long computation is: small events for a callback, and one default bar that draws them.

The library reports events; a command, a service or the default bar shows them. The bar is drawn to the error
output, and only where somebody watches: in a terminal or in a notebook.
"""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from robusttc.errors import UsageError, quote

__all__ = [
    "Progress",
    "ProgressBar",
    "ProgressEvent",
    "ProgressOption",
    "at_most_every",
    "no_default_bar",
    "report",
    "resolve_progress",
]

# A stage that takes less needs no bar.
DELAY_SECONDS = 0.5
REDRAW_SECONDS = 0.1
BAR_CHARACTERS = 24


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
    """Draws events as one line per stage, for instance ``transfer ━━━━━━━━──── 120 of 180 tasks, 0:09 left``.

    Of several bars, one inside another, only one is drawn at a time.
    """

    # The bar whose line is not finished.
    _drawing: weakref.ref[ProgressBar] | None = None

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self._stage: str | None = None
        self._started = self._drawn = 0.0
        self._first = 0
        self._length = 0

    def __call__(self, event: ProgressEvent) -> None:
        """Draw an event, unless the stage is short or the last one was drawn a moment ago."""
        now = self.clock()
        if event.stage != self._stage:
            self.finish_line()
            self._stage, self._first = event.stage, event.done
            self._started, self._drawn = now, -REDRAW_SECONDS
        is_last = event.done >= event.total
        is_due = now - self._drawn >= REDRAW_SECONDS and now - self._started >= DELAY_SECONDS
        if not (is_due or (is_last and self._length)):
            return
        other = ProgressBar._drawing() if ProgressBar._drawing is not None else None
        if other is not None and other is not self:
            return
        ProgressBar._drawing = weakref.ref(self)
        self._draw(self._line(event, now - self._started))
        self._drawn = now
        if is_last:
            self.finish_line()
            self._stage = None

    def finish_line(self) -> None:
        """Leave the line as it is, and go to the next one."""
        if self._length:
            self._write("\n")
            self._length = 0
            ProgressBar._drawing = None

    def _line(self, event: ProgressEvent, seconds: float) -> str:
        share = min(event.done / event.total, 1.0) if event.total else 1.0
        full = round(BAR_CHARACTERS * share)
        bar = "━" * full + "─" * (BAR_CHARACTERS - full)
        text = f"{event.stage} {bar} {event.done:,} of {event.total:,} {event.unit}"
        n_new = event.done - self._first
        if event.done >= event.total:
            return f"{text}, {_minutes(seconds)}"
        return f"{text}, {_minutes(seconds / n_new * (event.total - event.done))} left" if n_new > 0 else text

    def _draw(self, line: str) -> None:
        columns = shutil.get_terminal_size().columns
        shown = line if len(line) < columns else f"{line[: max(columns - 2, 1)]}…"
        # Spaces over what was longer.
        self._write(f"\r{shown}{' ' * (self._length - len(shown))}")
        self._length = len(shown)

    def _write(self, text: str) -> None:
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = text.translate({ord("━"): "#", ord("─"): "-", ord("…"): "."})
            text = text.encode(encoding, "replace").decode(encoding)
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal is gone, which is no reason to stop computing
            self._length = 0


def _minutes(seconds: float) -> str:
    """Return a time as minutes and seconds, or with hours.

    >>> _minutes(75), _minutes(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
