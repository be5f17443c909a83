"""SetFit as a row of a few-shot table; it is no dependency of this project.

It is trained where it is installed, or its results are read that `benchmarks.setfit_run` wrote in an
environment of its own, if they are of the very same rows: ``benchmarks/results/setfit.json``.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import setfit_run
from robusttc import Task

__all__ = ["SetFitLearner", "SetFitTarget"]

KEPT = Path(__file__).parent.parent / "results" / "setfit.json"
# So many labels make so many pairs that one epoch takes hours; 500 steps are what it gets then.
MANY_LABELS = 100
FEW_STEPS = 500


class SetFitLearner:
    """Trains SetFit on each target, or finds what it reached there."""

    seed = setfit_run.SEED

    def __init__(self, kept: Path = KEPT) -> None:
        rows = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else []
        self.kept: dict[str, dict[str, Any]] = {row["given"]: row for row in rows}

    def adapt(self, task: Task) -> SetFitTarget:
        """Give the target; SetFit trains when texts to predict are there."""
        return SetFitTarget(task, self.kept)


@dataclass(frozen=True)
class SetFitTarget:
    """A target that SetFit is to be trained on."""

    task: Task
    kept: dict[str, dict[str, Any]]
    epochs: int = field(default=1)

    def predict(self, texts: list[str]) -> NDArray[np.object_]:
        """Train, and give the label of every text; where it was wrong, None, for only right ones count.

        Raises
        ------
        ModuleNotFoundError
            If SetFit is not installed and nothing was kept of these rows.
        """
        rows = self.task.rows("train")
        truth = self.task.labels[self.task.rows("test")]
        described = {
            "name": self.task.name,
            "train": {"texts": list(self.task.texts.take(rows)), "labels": self.task.labels[rows].tolist()},
            "test": {"texts": texts, "labels": truth.tolist()},
        }
        result = self.kept.get(setfit_run.hash_given(described))
        if result is None:
            result = self._train(described)
        right = np.asarray(result["right"], dtype=np.bool_)
        found = truth.copy()
        found[~right] = None
        return found

    def _train(self, described: dict[str, Any]) -> dict[str, Any]:
        if importlib.util.find_spec("setfit") is None:
            raise ModuleNotFoundError(
                "SetFit is not installed (benchmarks/setfit_run.py says how to run it apart)"
            )
        many = len(set(described["train"]["labels"])) > MANY_LABELS
        return setfit_run.run_one(
            described, epochs=self.epochs, batch_size=16, max_steps=FEW_STEPS if many else -1
        )
