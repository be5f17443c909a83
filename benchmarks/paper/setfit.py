"""SetFit as a row of a few-shot table; it is no dependency of this project.

It is trained where it is installed, or its results are read that `benchmarks.setfit_run` wrote in an
environment of its own, if they are of the very same rows: ``benchmarks/results/setfit.json``. The tasks for
that come from here:

    python -m benchmarks.paper.setfit amazon-fsl tasks.json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import setfit_run
from benchmarks.paper.sets import load_amazon, load_intents, make_support
from robusttc import Task

__all__ = ["SetFitLearner", "SetFitTarget"]

KEPT = Path(__file__).parent.parent / "results" / "setfit.json"
# So many labels make so many pairs that one epoch takes hours; 500 steps are what it gets then.
MANY_LABELS = 100
FEW_STEPS = 500
LOADERS = {"amazon-fsl": load_amazon, "intents-fsl": load_intents}


def describe(task: Task) -> dict[str, Any]:
    """Give a few-shot task as `benchmarks.setfit_run` reads it."""
    parts = {part: task.rows(part) for part in ("train", "test")}
    return {"name": task.name} | {
        part: {"texts": list(task.texts_at(rows)), "labels": task.labels[rows].tolist()}
        for part, rows in parts.items()
    }


class SetFitLearner:
    """Trains SetFit on each target, or finds what it reached there.

    With `C`, SetFit's head gives way to a balanced regression with this C on the vectors that it trained.
    """

    seed = setfit_run.SEED

    def __init__(self, kept: Path = KEPT, *, C: float | None = None) -> None:
        rows = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else []
        self.kept: dict[str, dict[str, Any]] = {
            row["given"]: row for row in rows if C is None or "right_of_head" in row
        }
        self.C = C

    def adapt(self, task: Task) -> SetFitTarget:
        """Give the target; SetFit trains when texts to predict are there."""
        return SetFitTarget(task, self.kept, self.C)


@dataclass(frozen=True)
class SetFitTarget:
    """A target that SetFit is to be trained on."""

    task: Task
    kept: dict[str, dict[str, Any]]
    C: float | None = None
    epochs: int = 1

    def predict(self, texts: list[str]) -> NDArray[np.object_]:
        """Train, and give the label of every text; where it was wrong, None, for only right ones count.

        Raises
        ------
        ModuleNotFoundError
            If SetFit is not installed and nothing was kept of these rows.
        """
        truth = self.task.labels[self.task.rows("test")]
        described = describe(self.task)
        assert described["test"]["texts"] == texts
        result = self.kept.get(setfit_run.hash_given(described))
        if result is None:
            result = self._train(described)
        of_head = result["right"] if self.C is None else result["right_of_head"][setfit_run.name_head(self.C)]
        right = np.asarray(of_head, dtype=np.bool_)
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


def main(arguments: list[str] | None = None) -> None:
    """Write the targets of a few-shot table for `benchmarks.setfit_run`, the fewest that the table has."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("table", choices=sorted(LOADERS))
    parser.add_argument("path", type=Path)
    given = parser.parse_args(arguments)
    data = LOADERS[given.table](quick=False)
    names = min(data.new_targets.values(), key=len)
    written = [describe(make_support(data, name, 0)) for name in names]
    given.path.write_text(json.dumps(written), encoding="utf-8")


if __name__ == "__main__":
    main()
