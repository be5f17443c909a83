"""What a worker does with one unit: the same in a process of ours and on a Ray node.

Errors travel pickled: from a worker to the process that started it, over its own pipe, and no further.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robusttc.errors import RobustTCError
from robusttc.work.outcomes import Outcome

__all__ = [
    "Report",
    "describe_error",
    "failed",
    "outcome_of",
    "perform",
    "pin_environment",
    "pin_threads",
    "revive",
]

# Read by the libraries when they are loaded.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# How many modules were loaded when threads were last pinned; looking at all libraries takes 2 ms.
_n_modules_pinned = 0


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What a worker tells of one unit: either `content`, or `error` and perhaps the pickled `exception`."""

    content: bytes | None
    error: str | None = None
    exception: bytes | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


def perform(work: Callable[[Any, Any], Any], argument: Any, data: Any) -> Report:
    """Do a unit with one thread, and give its packed result or its error."""
    from robusttc.work.packing import pack

    pin_threads()
    start, cpu_start = time.perf_counter(), time.process_time()
    try:
        report = Report(pack(work(data, argument)))
    except (Exception, SystemExit) as error:
        report = failed(error)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return replace(report, seconds=seconds, cpu_seconds=cpu_seconds, peak_bytes=peak_memory())


def failed(error: BaseException) -> Report:
    """Report an error, itself and in words: some errors cannot be pickled."""
    words = describe_error(error)
    # A traceback does not travel; a note does.
    error.add_note(f"In a worker:\n{''.join(traceback.format_exception(error))}")
    try:
        return Report(None, words, pickle.dumps(error))
    except Exception:  # whatever the classes of foreign errors raise
        return Report(None, words)


def revive(pickled: bytes | None) -> BaseException | None:
    """Make the error of a worker again, or give None where that cannot be done."""
    if pickled is None:
        return None
    try:
        error = pickle.loads(pickled)  # noqa: S301 - from a worker that this process has started
    except Exception:  # whatever the constructors of foreign errors raise
        return None
    return error if isinstance(error, BaseException) else None


def outcome_of(ticket: int, report: Report) -> Outcome:
    """Put what a worker has reported into an outcome."""
    return Outcome(
        ticket,
        "raised" if report.content is None else "done",
        content=report.content,
        error=report.error,
        exception=revive(report.exception),
        seconds=report.seconds,
        cpu_seconds=report.cpu_seconds,
        peak_bytes=report.peak_bytes,
    )


def describe_error(error: BaseException) -> str:
    """Put an error on one line, with the place of those that we did not foresee.

    Examples
    --------
    >>> describe_error(ValueError("not so"))
    'ValueError: not so'
    """
    text = " ".join(str(error).split())
    if isinstance(error, RobustTCError):
        return text
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return named
    last = frames[-1]
    return f"{named} ({Path(last.filename).name}:{last.lineno}, in {last.name})"


def pin_environment() -> None:
    """Let libraries of linear algebra that are loaded from now on start with one thread."""
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"


def pin_threads() -> None:
    """Hold all loaded libraries of linear algebra to one thread, for good.

    The number of threads decides in which order sums are rounded: one thread gives the same bits everywhere.
    """
    global _n_modules_pinned
    from threadpoolctl import threadpool_limits

    if len(sys.modules) == _n_modules_pinned:
        return
    threadpool_limits(limits=1)
    torch = sys.modules.get("torch")
    # A module that is being imported has no functions yet.
    if torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(1)
    _n_modules_pinned = len(sys.modules)


def peak_memory() -> int:
    """Give the largest memory that this process has used, in bytes, or 0 where the system does not say."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
