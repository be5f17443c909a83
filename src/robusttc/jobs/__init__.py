"""Jobs: run pieces of work in this process, in other processes or on Ray, with the same results."""

from __future__ import annotations

from robusttc.jobs.job import Job, Result, pack, unpack
from robusttc.jobs.runner import (
    Executor,
    FinishedJob,
    InProcessExecutor,
    JobStore,
    Runner,
    Shared,
    Stopped,
    make_executor,
)

__all__ = [
    "Executor",
    "FinishedJob",
    "InProcessExecutor",
    "Job",
    "JobStore",
    "Result",
    "Runner",
    "Shared",
    "Stopped",
    "make_executor",
    "pack",
    "unpack",
]
