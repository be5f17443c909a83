"""Jobs: run pieces of work in this process, in other processes or on Ray, with the same results."""

from __future__ import annotations

from robusttc.jobs.job import Job, Outcome, Result, one_thread, pack, peak_memory, unpack
from robusttc.jobs.runner import (
    Executor,
    InProcessExecutor,
    JobStore,
    Runner,
    Shared,
    Stopped,
    make_executor,
)

__all__ = [
    "Executor",
    "InProcessExecutor",
    "Job",
    "JobStore",
    "Outcome",
    "Result",
    "Runner",
    "Shared",
    "Stopped",
    "make_executor",
    "one_thread",
    "pack",
    "peak_memory",
    "unpack",
]
