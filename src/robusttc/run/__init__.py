"""Runs: a folder of immutable versions that remembers unfinished work, and what answers for its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach

if TYPE_CHECKING:
    from robusttc.run.evaluation import KINDS, Evaluation, TaskFigures
    from robusttc.run.fit import FitResult, fit_run
    from robusttc.run.folder import BusyError, RunFolder
    from robusttc.run.inputs import estimate_learning, sort_tasks
    from robusttc.run.outputs import AddedTask, ClusterRow, Similarity
    from robusttc.run.predict import Prediction, TaskPredictor
    from robusttc.run.run import Run, open_run
    from robusttc.run.settings import Execution, FitSettings
    from robusttc.run.version import Change

__all__ = [
    "KINDS",
    "AddedTask",
    "BusyError",
    "Change",
    "ClusterRow",
    "Evaluation",
    "Execution",
    "FitResult",
    "FitSettings",
    "Prediction",
    "Run",
    "RunFolder",
    "Similarity",
    "TaskFigures",
    "TaskPredictor",
    "estimate_learning",
    "fit_run",
    "open_run",
    "sort_tasks",
]

__getattr__ = attach(
    __name__,
    {
        "evaluation": ("KINDS", "Evaluation", "TaskFigures"),
        "fit": ("FitResult", "fit_run"),
        "folder": ("BusyError", "RunFolder"),
        "inputs": ("estimate_learning", "sort_tasks"),
        "outputs": ("AddedTask", "ClusterRow", "Similarity"),
        "predict": ("Prediction", "TaskPredictor"),
        "run": ("Run", "open_run"),
        "settings": ("Execution", "FitSettings"),
        "version": ("Change",),
    },
)
