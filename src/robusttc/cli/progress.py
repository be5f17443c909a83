"""How far a long command is, and how it is stopped.

On a terminal there is a table of the stages, drawn by the clock. Elsewhere there is a line when a stage
begins and ends, and one every few seconds in between, also while nothing is reported.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from robusttc.cli.console import error_console, say, without_controls
from robusttc.errors import RobustTCError
from robusttc.formatting import format_duration
from robusttc.progress import Progress, ProgressEvent

__all__ = ["FIT_STAGES", "RunStoppedError", "show_progress", "stop_on_signals"]

FIT_STAGES = ("encode", "transfer", "cluster", "multitask", "fewshot", "evaluate")
SECONDS_BETWEEN_LINES = 3.0
FEWEST_SECONDS = 2.0  # before this, a rate says nothing
REFRESHES_A_SECOND = 4
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Work that does not look at the flag is cut short after this: what is finished is on disk all the same.
PATIENCE_SECONDS = 8.0
Clock = Callable[[], float]


@dataclass(slots=True)
class Stage:
    """The last event of a stage, and when the stage and its present step began."""

    event: ProgressEvent
    begun: float
    step_begun: float
    first_done: int
    ended: float | None = None

    def take(self, event: ProgressEvent, now: float) -> None:
        """Take an event; another unit or total is another step, with a pace of its own."""
        before = self.event
        if (event.unit, event.total) != (before.unit, before.total) or event.done < before.done:
            self.step_begun, self.first_done = now, event.done
        self.event = event

    def count(self) -> str:
        """Return how many units are done."""
        event = self.event
        return without_controls(f"{event.done:,} of {event.total:,} {event.unit}") if event.total else ""

    def pace(self, now: float) -> str:
        """Return the time passed, the rate and the time left; units found finished do not count as speed."""
        passed, seconds = format_duration(now - self.begun), now - self.step_begun
        n_new = self.event.done - self.first_done
        if seconds < FEWEST_SECONDS or n_new <= 0:
            return passed
        rate = n_new / seconds
        per = f"{rate:,.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min"
        return f"{passed}, {per}, {format_duration((self.event.total - self.event.done) / rate)} left"


class Stages:
    """The stages so far, in their order."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.begun = clock()
        self.found: dict[str, Stage] = {}

    def take(self, event: ProgressEvent) -> None:
        """Take an event; a new stage ends the one before it."""
        now = self.clock()
        if event.stage in self.found:
            self.found[event.stage].take(event, now)
        else:
            self.end()
            self.found[event.stage] = Stage(event, now, now, event.done)

    def end(self) -> None:
        """End all stages so far."""
        for stage in self.found.values():
            if stage.ended is None:
                stage.ended = self.clock()


@contextmanager
def show_progress(
    *,
    stages: Sequence[str] = (),
    console: Console | None = None,
    quiet: bool = False,
    clock: Clock = time.monotonic,
    seconds_between_lines: float = SECONDS_BETWEEN_LINES,
) -> Iterator[Progress | None]:
    """Show events as they come.

    Parameters
    ----------
    stages
        The stages that will come, shown from the start.
    console
        Where; None stands for standard error.
    quiet
        Whether to show nothing at all; then there is no callback either.
    clock
        Returns seconds.
    seconds_between_lines
        How long there is silence at the most, off a terminal.
    """
    if quiet:
        yield None
        return
    console = error_console() if console is None else console
    seen = Stages(clock)
    if console.is_terminal:
        live = Live(
            get_renderable=lambda: draw(seen, stages),
            console=console,
            refresh_per_second=REFRESHES_A_SECOND,
        )
        with live:
            yield seen.take
            seen.end()
        return
    lines = Lines(console, seen, seconds_between_lines)
    try:
        yield lines.take
    finally:
        lines.close()


def draw(seen: Stages, stages: Sequence[str]) -> Table:
    """Draw a row for every stage."""
    table = Table(box=None, pad_edge=False, show_header=False)
    now = seen.clock()
    for name in dict.fromkeys((*stages, *seen.found)):
        stage = seen.found.get(name)
        shown = without_controls(name)
        if stage is None:
            table.add_row(Text(shown, style="dim"), "", "", "")
        elif stage.ended is not None:
            table.add_row(
                Text(shown), Text("done", style="green"), "", format_duration(stage.ended - stage.begun)
            )
        else:
            bar = ProgressBar(total=max(stage.event.total, 1), completed=stage.event.done, width=24)
            table.add_row(Text(shown, style="bold"), bar, Text(stage.count()), stage.pace(now))
    return table


class Lines:
    """Prints how far the stages are as plain lines, from a thread where no event comes."""

    def __init__(self, console: Console, seen: Stages, seconds: float) -> None:
        self.console = console
        self.seen = seen
        self.seconds = seconds
        self.last_line = seen.begun
        self._printed_ends: set[str] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def take(self, event: ProgressEvent) -> None:
        """Take an event, and print a line if it is time."""
        with self._lock:
            is_new = event.stage not in self.seen.found
            self.seen.take(event)
            self._print_ends()
            self._print(event.stage, always=is_new)

    def close(self) -> None:
        """Print that the last stage has ended."""
        self._closed.set()
        self._ticker.join()
        self.seen.end()
        self._print_ends()

    def _tick(self) -> None:
        while not self._closed.wait(self.seconds):
            with self._lock:
                for name, stage in self.seen.found.items():
                    if stage.ended is None:
                        self._print(name)

    def _print(self, name: str, *, always: bool = False) -> None:
        now, stage = self.seen.clock(), self.seen.found[name]
        if always or now - self.last_line >= self.seconds:
            self.last_line = now
            parts = [part for part in (stage.count(), "" if always else stage.pace(now)) if part]
            say(self.console, f"{name}: {', '.join(parts)}" if parts else f"{name} …")

    def _print_ends(self) -> None:
        for name, stage in self.seen.found.items():
            if stage.ended is not None and name not in self._printed_ends:
                self._printed_ends.add(name)
                say(self.console, f"{name}: done in {format_duration(stage.ended - stage.begun)}")


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
    """Yield a function that returns whether SIGINT or SIGTERM came.

    After the first signal, work has `patience` seconds to notice; after these, and at once after the second
    signal, `end` ends the process with its code.
    """
    stopped = threading.Event()
    timer = threading.Timer(patience, end, (INTERRUPTED,))
    timer.daemon = True

    def announce() -> None:
        error_console().print("Stopping: what is finished is kept …", markup=False)

    # A signal may come while the main thread prints or imports: a handler that printed would break into that.
    announcer = threading.Thread(target=announce, daemon=True)

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stopped.is_set():
            end(INTERRUPTED)
            return
        stopped.set()
        timer.start()
        if not quiet:
            announcer.start()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stopped.is_set
    finally:
        timer.cancel()
        if announcer.is_alive():
            announcer.join(timeout=1.0)
        for number, handler in before.items():
            signal.signal(number, handler)
