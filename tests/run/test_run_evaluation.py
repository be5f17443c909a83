"""What the figures of test rows say, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from robusttc.data import Task
from robusttc.run.evaluation import Evaluation, TaskFigures, judge
from robusttc.stats import Estimate, mean_interval, share_interval


def figures(
    name: str, own: int, served: int, n_rows: int = 40, *, shared: int | None = 30, cluster: int | None = None
) -> TaskFigures:
    """A task of which so many rows are right; those that one model gets right, the better one does too."""
    gain = np.zeros(n_rows)
    gain[: abs(served - own)] = np.sign(served - own)
    return TaskFigures(
        name,
        0,
        n_rows,
        share_interval(own, n_rows),
        None if shared is None else share_interval(shared, n_rows),
        None if cluster is None else share_interval(cluster, n_rows),
        share_interval(served, n_rows),
        mean_interval(gain),
    )


def test_tasks_gain_or_are_harmed_by_their_interval_alone() -> None:
    assert figures("a", 20, 32).state == "gains"
    assert figures("a", 32, 20).state == "harmed"
    assert figures("a", 30, 31).state == "no difference"
    assert TaskFigures("a", -1, 0, None, None, None, None, None).state == "no test rows"
    assert TaskFigures("a", -1, 3, None, None, None, share_interval(2, 3), None).state == "not compared"


def test_means_are_over_the_tasks_that_have_all_kinds() -> None:
    tasks = [
        figures("a", 20, 30, cluster=28),
        figures("b", 24, 34, cluster=30),
        figures("private", 10, 10, shared=None),
        TaskFigures("empty", -1, 0, None, None, None, None, None),
    ]
    evaluation = Evaluation.of(tasks)
    assert list(evaluation.means) == ["own", "shared", "cluster", "served"]
    assert evaluation.means["own"].mean == pytest.approx((20 + 24) / 80)
    assert evaluation.means["served"].mean == pytest.approx((30 + 34) / 80)
    assert evaluation.means["own"].n == 2
    assert evaluation.gains["served"].mean == pytest.approx(10 / 40)
    assert evaluation.sentence.startswith("On test rows sharing helps 2 of 3 tasks for sure and harms 0")


def test_a_kind_that_no_task_has_has_no_mean() -> None:
    evaluation = Evaluation.of([figures("a", 20, 30, shared=None), figures("b", 20, 30, shared=None)])
    assert list(evaluation.means) == ["own", "served"]
    assert list(evaluation.gains) == ["served"]


def test_without_test_rows_nothing_is_said() -> None:
    evaluation = Evaluation.of([TaskFigures("a", -1, 0, None, None, None, None, None)])
    assert evaluation.means == {}
    assert evaluation.sentence == "No task has test rows to tell by."


def test_the_document_is_json_and_comes_back() -> None:
    one_row = TaskFigures(
        "b", 1, 1, share_interval(1, 1), None, None, share_interval(1, 1), mean_interval([0.0])
    )
    assert one_row.gain == Estimate(0.0, -np.inf, np.inf, 1)
    evaluation = Evaluation.of([figures("a", 20, 30, cluster=25), one_row])
    document = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    again = Evaluation.from_dict(document)
    assert again.tasks == evaluation.tasks
    assert dict(again.means) == dict(evaluation.means)
    assert [task["state"] for task in document["tasks"]] == ["gains", "no difference"]


def judge_by_hand(seen: np.ndarray | None = None) -> TaskFigures:
    """Six test rows: what serves is right on four of them, the own model on two."""
    task = Task("a", [f"text {row}" for row in range(8)], list("xyxxxyyz"), ["train"] * 2 + ["test"] * 6)
    x, y, _ = (task.label_names.index(label) for label in "xyz")
    served, own = [x, x, y, y, y, y], [x, y, y, y, x, x]
    predicted = {"served": np.array(served, np.int32), "own": np.array(own, np.int32)}
    return judge(task, 3, task.rows("test"), predicted, seen)


def test_novel_texts_and_those_seen_elsewhere_are_told_apart() -> None:
    found = judge_by_hand(np.array([True, False, False, False, True, False]))
    assert found.served == share_interval(4, 6)
    assert (found.novel["served"], found.novel["own"]) == (share_interval(2, 4), share_interval(1, 4))
    assert (found.seen["served"], found.seen["own"]) == (share_interval(2, 2), share_interval(1, 2))
    assert found.novel["gain"].mean == 0.25
    alone = judge_by_hand()
    assert alone.seen == {}
    assert alone.novel["served"] == share_interval(4, 6)
    means = Evaluation.of([figures("b", 20, 30, shared=None)] * 2 + [found])
    assert means.novel == {}, "a share of four rows says nothing"


def test_macro_f1_and_confusions_are_those_of_the_rows() -> None:
    found = judge_by_hand()
    # x: 2 right of 3, 2 predicted; y: 2 of 2, 4 predicted; z: none of 1.
    assert found.macro_f1["served"] == pytest.approx((2 * 2 / 5 + 2 * 2 / 6 + 0) / 3)
    assert found.confusion == (("x", "y", 1, 3), ("z", "y", 1, 1))
    document = json.loads(json.dumps(Evaluation.of([found]).to_dict(), allow_nan=False))
    again = Evaluation.from_dict(document)
    assert again.tasks == (found,)
    assert again.macro_f1["served"].mean == found.macro_f1["served"]
