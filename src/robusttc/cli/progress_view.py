"""Progress of long work as bars on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from robusttc.cli.console import error_console, without_controls
from robusttc.progress import Progress, ProgressEvent, at_most_every

__all__ = ["show_progress"]

SECONDS_BETWEEN_EVENTS = 0.1


@contextmanager
def show_progress(console: Console | None = None) -> Iterator[Progress]:
    """Draw events as one bar a stage: count, time passed, time left. Off a terminal, it is a line a stage.

    Parameters
    ----------
    console
        Where to draw; None takes standard error.

    Examples
    --------
    >>> import io
    >>> shown = io.StringIO()
    >>> with show_progress(Console(file=shown)) as progress:
    ...     progress(ProgressEvent("transfer", 2, 2, "tasks"))
    >>> shown.getvalue().strip()
    'transfer: 2 tasks'
    """
    console = error_console() if console is None else console
    if not console.is_terminal:
        yield line_a_stage(console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console) as bars:
        bar_of: dict[str, TaskID] = {}

        def draw(event: ProgressEvent) -> None:
            stage = without_controls(event.stage)
            if stage not in bar_of:
                bar_of[stage] = bars.add_task(stage, total=event.total, unit=event.unit)
            bars.update(bar_of[stage], completed=event.done, total=event.total)

        yield at_most_every(draw, SECONDS_BETWEEN_EVENTS)


def line_a_stage(console: Console) -> Progress:
    """Print a line when a stage begins."""
    begun: set[str] = set()

    def tell(event: ProgressEvent) -> None:
        if event.stage not in begun:
            begun.add(event.stage)
            line = f"{event.stage}: {event.total:,} {event.unit}"
            console.print(without_controls(line), markup=False, soft_wrap=True)

    return tell
