"""One bar for a training that goes on in several steps: units of all steps are counted as one."""

from __future__ import annotations

from robusttc.progress import Progress, ProgressEvent, report

__all__ = ["OneBar"]


class OneBar:
    """Makes one count of the counts of several steps.

    Parameters
    ----------
    progress
        Who is told; None for nobody.
    stage, noun
        What of.
    total
        How many units there will be at the most; fewer are no harm, `finish` tells that all is done.

    Examples
    --------
    >>> bar = OneBar(print, "multitask", 5, "models")
    >>> bar.step(2)(ProgressEvent("multitask", 1, 2, "models"))
    ProgressEvent(stage='multitask', done=1, total=5, unit='models', detail='')
    >>> bar.step(3)(ProgressEvent("multitask", 1, 3, "models"))
    ProgressEvent(stage='multitask', done=3, total=5, unit='models', detail='')
    >>> bar.finish()
    ProgressEvent(stage='multitask', done=5, total=5, unit='models', detail='')
    """

    def __init__(self, progress: Progress | None, stage: str, total: int, noun: str) -> None:
        self.progress, self.stage, self.total, self.noun = progress, stage, total, noun
        self._n_done = 0

    def step(self, n_units: int) -> Progress | None:
        """Begin a step of so many units; give who is to be told of them."""
        before = self._n_done
        self._n_done += n_units
        if self.progress is None:
            return None
        progress = self.progress

        def tell(event: ProgressEvent) -> None:
            # A unit that failed is cut up and done again: the last ones may be more than were counted.
            done = min(before + event.done, self.total)
            progress(ProgressEvent(self.stage, done, self.total, self.noun, event.detail))

        return tell

    def finish(self) -> None:
        """Tell that all is done."""
        report(self.progress, self.stage, self.total, self.total, self.noun)
