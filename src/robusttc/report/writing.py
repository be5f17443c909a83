"""The report of a run as a file: made from the run's folder, whole or not at all."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from robusttc.errors import StoreError, UsageError
from robusttc.progress import Progress
from robusttc.report.document import ReportDocument, make_document
from robusttc.report.page import write_page
from robusttc.run import Run

__all__ = ["REPORT", "ReportWritten", "write_report"]

# In the folder of the run. The manifest does not list it: it can be made again at any time.
REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class ReportWritten:
    """A report that is written.

    Attributes
    ----------
    path
        The page.
    n_bytes
        Its size.
    seconds
        How long it took.
    document
        What it says.
    """

    path: Path
    n_bytes: int
    seconds: float
    document: ReportDocument


def write_report(
    folder: str | os.PathLike[str],
    *,
    path: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ReportWritten:
    """Write the report of a finished run.

    Parameters
    ----------
    folder
        The run's folder. Nothing in it changes but the report.
    path
        The page; None takes ``report.html`` in the folder.
    progress
        Told how far it is.

    Raises
    ------
    StoreError
        If the run is not there, not finished or damaged, or the disk does not take the page.
    UsageError
        If the page cannot be written to the place that was given.
    """
    started = time.perf_counter()
    opened = Run(folder)
    place = opened.folder / REPORT if path is None else Path(path)
    document = make_document(opened, progress=progress)
    try:
        n_bytes = write_page(document, place)
    except StoreError as error:
        if path is None:
            raise
        # The run is whole: it is the place that was given that cannot be used.
        raise UsageError(error.what, where=error.where, got=error.got, todo=error.todo) from None
    return ReportWritten(place, n_bytes, time.perf_counter() - started, document)
