"""When the stages of a run were worked on: a span each time, since a run may be stopped and resumed."""

from __future__ import annotations

import time
from collections.abc import Iterable

from robusttc.errors import UsageError, quote
from robusttc.run.records import check_text
from robusttc.run.schema import SPANS
from robusttc.run.sealed import SealedTables

__all__ = ["Spans"]


class Spans:
    """The spans of time in which stages were worked on.

    How long a span is, is noted with every commit of its stage: a process that is killed cannot note it at
    the end.

    Parameters
    ----------
    sealed
        The small tables of the run.
    """

    def __init__(self, sealed: SealedTables) -> None:
        self._sealed = sealed
        # Of the stages that are worked on now: the number of the span, and the clock at its begin.
        self._open: dict[str, tuple[int, float]] = {}

    def begin(self, stage: str, n_units: int) -> None:
        """Begin a span; one of the same stage that is open ends."""
        check_text("stage", stage)
        if stage in self._open:
            self.end(stage)
        number = len(self._sealed.rows[SPANS.name]) + 1
        with self._sealed.transaction("stage"):
            self._sealed.put(SPANS, (number, stage, int(n_units), time.time(), 0.0, 0))
        self._open[stage] = (number, time.monotonic())

    def end(self, stage: str) -> None:
        """End the span of a stage."""
        if stage not in self._open:
            raise UsageError("the stage was not begun", got=quote(stage))
        with self._sealed.transaction("stage"):
            self.touch([stage], is_over=True)
        del self._open[stage]

    def touch(self, stages: Iterable[str], *, is_over: bool = False) -> None:
        """Note how long stages have been worked on, inside a transaction."""
        for stage in sorted(stages):
            if stage in self._open:
                number, begun = self._open[stage]
                n_units, started = self._sealed.rows[SPANS.name][number][2:4]
                row = (number, stage, n_units, started, time.monotonic() - begun, int(is_over))
                self._sealed.put(SPANS, row)
