"""Runs: a folder that remembers every finished job, and what answers for its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach

if TYPE_CHECKING:
    from robusttc.run.evaluation import Evaluation, TaskFigures
    from robusttc.run.run import Run, open_run
    from robusttc.run.settings import Execution, FitSettings

__all__ = ["Evaluation", "Execution", "FitSettings", "Run", "TaskFigures", "open_run"]

__getattr__ = attach(
    __name__,
    {
        "evaluation": ("Evaluation", "TaskFigures"),
        "run": ("Run", "open_run"),
        "settings": ("Execution", "FitSettings"),
    },
)
