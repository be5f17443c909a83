"""How a run is shown."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from robusttc.cli.adapt import show_adapted
from robusttc.cli.console import percent
from robusttc.cli.run_view import show_run
from robusttc.data import Task
from robusttc.run import Evaluation
from robusttc.stats import Estimate


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (None, ""),
        (Estimate(-0.0001, -0.02, 0.03, 4), "+0.0 [-2.0, +3.0]"),
        (Estimate(0.5, float("-inf"), float("inf"), 1), "+50.0 [?, ?]"),
    ],
)
def test_percent(estimate: Estimate | None, expected: str) -> None:
    assert percent(estimate, sign="+") == expected


def test_an_added_task_is_shown_with_its_clusters() -> None:
    def show(**facts: Any) -> str:
        values = {
            "name": "new",
            "label_names": ("x", "y"),
            "support_accuracy_": 0.5,
            "weights_": {0: 0.25, 2: 0.75},
            "out_of_cluster_": False,
            "nearest_tasks_": (),
        }
        shown = io.StringIO()
        task = Task("new", ["a", "b"], ["x", "y"])
        model: Any = SimpleNamespace(**{**values, **facts})
        opened: Any = SimpleNamespace(fewshot=SimpleNamespace(clusters_serve_=True))
        show_adapted(Console(file=shown, width=80), model, task, opened, Path("run"))
        return shown.getvalue()

    text = show()
    assert "50% of them are predicted right" in text
    assert "Clusters that it mixes: 2 (75%), 0 (25%)." in text
    assert "adapt again with --replace" in text
    assert "Most like it" not in text
    text = show(support_accuracy_=float("nan"), weights_={}, out_of_cluster_=True)
    assert "How well is not known" in text
    assert "Clusters that it mixes" not in text
    assert "a model of its own serves" in text
    assert "--replace" not in text


def test_what_went_wrong_is_shown() -> None:
    shown = io.StringIO()
    unit = {"stage": "transfer", "key": "transfer/a", "error": "poi\x1bson", "tasks": ["a"]}
    summary: dict[str, Any] = {
        "tasks": {"n": 3, "n_learned": 2, "n_private": 0, "n_rows": 30},
        "clusters": None,
        "transfer": None,
        "multitask": {"verdict": None},
        "fewshot": None,
        "doubts": ["It is doubtful."],
        "quarantined": [{**unit, "key": f"transfer/{number}"} for number in range(7)],
        "costs": [],
    }
    run: Any = SimpleNamespace(summary=summary, evaluation=Evaluation.of([]))
    show_run(Console(file=shown, width=80), Path("run"), run)
    text = shown.getvalue()
    for words in (
        "No clusters: ",
        "No task has test rows to tell by.",
        "Doubtful: It is doubtful.",
        "Left out: 7 units of work (--retry tries again):",
        "  transfer/0: poi\\x1bson",
        "  … and 2 more in summary.json",
        "In run/current: models/, clusters.csv, summary.json.",
    ):
        assert words in text
    assert "robusttc adapt" not in text
