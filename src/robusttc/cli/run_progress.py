"""How far a run is: a live table of its stages on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from robusttc.cli.console import error_console, without_controls
from robusttc.progress import Progress, ProgressEvent

__all__ = ["STAGES", "Watch", "show_stages"]

STAGES = ("encode", "transfer", "cluster", "multitask", "fewshot", "evaluate")
SECONDS_BETWEEN_LINES = 10.0
REFRESHES_A_SECOND = 4
# Before this, a rate says nothing.
FEWEST_SECONDS = 2.0
Clock = Callable[[], float]


@dataclass(slots=True)
class StageState:
    """What is known of one stage."""

    begun: float
    step_begun: float
    first_done: int
    event: ProgressEvent
    ended: float | None = None


class Watch:
    """Keeps what the events told of every stage, and when.

    Parameters
    ----------
    clock
        Gives the seconds.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.begun = clock()
        self.stages: dict[str, StageState] = {}

    def take(self, event: ProgressEvent) -> StageState:
        """Take one event; a new stage ends the one before it."""
        now = self.clock()
        state = self.stages.get(event.stage)
        if state is None:
            self.end(now)
            state = self.stages[event.stage] = StageState(now, now, event.done, event)
        elif (state.event.unit, state.event.total) != (
            event.unit,
            event.total,
        ) or event.done < state.event.done:
            # Another step of the same stage, with a pace of its own.
            state.step_begun, state.first_done = now, event.done
        state.event = event
        return state

    def end(self, now: float | None = None) -> None:
        """Note that all stages so far have ended."""
        for state in self.stages.values():
            if state.ended is None:
                state.ended = self.clock() if now is None else now

    def rate(self, state: StageState) -> float | None:
        """Give the units a second of the present step, those found finished not counted."""
        seconds = self.clock() - state.step_begun
        n_new = state.event.done - state.first_done
        return n_new / seconds if seconds >= FEWEST_SECONDS and n_new > 0 else None


@contextmanager
def show_stages(
    *, console: Console | None = None, quiet: bool = False, clock: Clock = time.monotonic
) -> Iterator[Progress | None]:
    """Show the stages of a run as they go.

    Parameters
    ----------
    console
        Where; None takes standard error.
    quiet
        Whether to show nothing at all.
    clock
        Gives the seconds.

    Examples
    --------
    >>> import io
    >>> shown = io.StringIO()
    >>> with show_stages(console=Console(file=shown), clock=lambda: 0.0) as progress:
    ...     progress(ProgressEvent("transfer", 0, 0, ""))
    >>> shown.getvalue().splitlines()
    ['transfer …', 'transfer: done in 0 s']
    """
    if quiet:
        yield None
        return
    console = error_console() if console is None else console
    watch = Watch(clock)
    if not console.is_terminal:
        lines = Lines(console, watch)
        yield lines.take
        lines.end()
        return
    with Live(
        get_renderable=lambda: draw(watch),
        console=console,
        refresh_per_second=REFRESHES_A_SECOND,
        transient=False,
    ):
        yield watch_only(watch)
        watch.end()


def watch_only(watch: Watch) -> Progress:
    """Give a callback that only takes notes; what is shown is drawn from them by the clock."""

    def take(event: ProgressEvent) -> None:
        watch.take(event)

    return take


class Lines:
    """A line when a stage begins and ends, and one now and then in between."""

    def __init__(self, console: Console, watch: Watch) -> None:
        self.console = console
        self.watch = watch
        self.last_line = watch.begun
        self.told: set[str] = set()

    def take(self, event: ProgressEvent) -> None:
        """Take one event, and say something if it is time."""
        is_new = event.stage not in self.watch.stages
        state = self.watch.take(event)
        self.tell_ended()
        now = self.watch.clock()
        if is_new or now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            self.say(describe(self.watch, state))

    def end(self) -> None:
        """Say that the last stage has ended."""
        self.watch.end()
        self.tell_ended()

    def tell_ended(self) -> None:
        """Say which stages have ended since."""
        for stage, state in self.watch.stages.items():
            if state.ended is not None and stage not in self.told:
                self.told.add(stage)
                self.say(f"{stage}: done in {say_time(state.ended - state.begun)}")

    def say(self, line: str) -> None:
        """Print one line."""
        self.console.print(without_controls(line), markup=False, soft_wrap=True)


def describe(watch: Watch, state: StageState) -> str:
    """Say in one line how far a stage is."""
    event = state.event
    if not event.total:
        return f"{event.stage} …"
    line = f"{event.stage}: {event.done:,} of {event.total:,} {event.unit}"
    rate = watch.rate(state)
    if rate is not None:
        line += f", {say_rate(rate)}, {say_time((event.total - event.done) / rate)} left"
    return line


def draw(watch: Watch) -> Group:
    """Draw the table of stages, and what the process needs."""
    from robusttc.formatting import format_bytes
    from robusttc.transfer import process_memory

    table = Table(box=None, pad_edge=False, show_header=False)
    for stage in dict.fromkeys((*STAGES, *watch.stages)):
        state = watch.stages.get(stage)
        if state is None:
            table.add_row(Text(stage, style="dim"), "", "", "")
            continue
        event = state.event
        if state.ended is not None:
            table.add_row(stage, Text("done", style="green"), "", say_time(state.ended - state.begun))
            continue
        bar = ProgressBar(total=max(event.total, 1), completed=event.done, width=24)
        count = Text(without_controls(f"{event.done:,}/{event.total:,} {event.unit}") if event.total else "")
        rate = watch.rate(state)
        pace = say_time(watch.clock() - state.begun)
        if rate is not None:
            pace += f", {say_rate(rate)}, {say_time((event.total - event.done) / rate)} left"
        table.add_row(Text(stage, style="bold"), bar, count, pace)
    foot = f"{say_time(watch.clock() - watch.begun)}, {format_bytes(process_memory())} in this process"
    return Group(table, Text(foot, style="dim"))


def say_rate(rate: float) -> str:
    """Give units a second, or a minute where they are slow."""
    return f"{rate:,.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min"


def say_time(seconds: float) -> str:
    """Give a time to the second.

    >>> say_time(7.4), say_time(75), say_time(3725)
    ('7 s', '1:15', '1:02:05')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
