"""The choice of one setting for all tasks: the planted best wins, ties go to the default."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.tuning import DENSE_GRID, WORD_GRID, compare, make_candidates, tune
from robusttc.errors import DataError, RobustTCError, UsageError
from robusttc.progress import ProgressEvent

BASE = TrainingSettings(width=6, epochs=10, min_steps=20)
# So small that the layer stays at its random start.
USELESS, USEFUL = 1e-9, 0.03


def make_tasks(n_tasks: int = 4, n_rows: int = 90) -> tuple[TaskSet, FeatureEncoder]:
    """Make tasks whose labels differ in one of 30 directions, which a narrow layer must be trained to see."""
    tasks, features = [], {}
    for number in range(n_tasks):
        generator = np.random.default_rng(number)
        codes = np.arange(n_rows) % 2
        matrix = generator.normal(size=(n_rows, 30))
        matrix[:, number] += np.where(codes == 0, -3, 3)
        splits = ["train"] * (n_rows * 2 // 3) + ["valid"] * (n_rows - n_rows * 2 // 3)
        texts = [f"{number} {row}" for row in range(n_rows)]
        tasks.append(Task(f"task{number}", texts, [f"label{code}" for code in codes], splits))
        features[f"task{number}"] = matrix
    return TaskSet(tasks), FeatureEncoder(features)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("first", [USEFUL, USELESS])
def test_a_useless_learning_rate_loses_whatever_the_default(first: float, seed: int) -> None:
    tasks, encoder = make_tasks()
    base = TrainingSettings(
        width=1, learning_rate=first, activation="linear", dropout=0.0, epochs=10, min_steps=50
    )
    grid = {"learning_rate": [USELESS, USEFUL]}
    result = tune(tasks, encoder=encoder, grid=grid, base=base, random_state=seed)
    assert result.best.learning_rate == USEFUL
    found = {row.settings.learning_rate: row.mean_accuracy for row in result.table}
    assert found[USEFUL] > 0.9
    assert found[USELESS] < 0.85


def test_the_default_stays_unless_beaten_beyond_one_standard_error() -> None:
    candidates = [BASE, BASE.replace(width=7), BASE.replace(width=8)]

    def choose(*rows: list[float]) -> int:
        table = compare(candidates, np.array(rows))
        return next(place for place, row in enumerate(table) if row.shortfall <= row.shortfall_error)

    assert choose([0.5] * 4, [0.5] * 4, [0.5] * 4) == 0
    # Better by 0.05, but that of one task alone, so the error is as large.
    assert choose([0.5, 0.5, 0.5, 0.5], [0.7, 0.5, 0.5, 0.5], [0.5] * 4) == 0
    # Better by little, but everywhere.
    assert choose([0.5, 0.6, 0.7, 0.8], [0.51, 0.61, 0.71, 0.81], [0.1] * 4) == 1
    # The second is not clearly worse than the third, which is clearly better than the first.
    assert choose([0.1] * 4, [0.5, 0.5, 0.6, 0.6], [0.5, 0.5, 0.6, 0.61]) == 1
    assert choose([0.1] * 4, [0.5, 0.5, 0.6, 0.6], [0.6, 0.61, 0.7, 0.7]) == 2


def test_the_table_is_right() -> None:
    accuracies = np.array([[0.2, 0.4, 0.9], [0.3, 0.5, 0.8]])
    first, second = compare([BASE, BASE.replace(width=7)], accuracies)
    assert first.mean_accuracy == pytest.approx(0.5)
    assert first.standard_error == pytest.approx(np.std([0.2, 0.4, 0.9], ddof=1) / 3**0.5)
    assert first.shortfall == pytest.approx(0.1 / 3)
    assert first.shortfall_error == pytest.approx(np.std([0.1, 0.1, -0.1], ddof=1) / 3**0.5)
    assert (second.shortfall, second.shortfall_error, second.n_tasks) == (0, 0, 3)


def test_workers_and_order_of_tasks_change_nothing() -> None:
    tasks, encoder = make_tasks()
    grid = {"width": (6, 3)}
    options: dict[str, Any] = {"encoder": encoder, "grid": grid, "base": BASE, "max_tasks": 3}
    here = tune(tasks, **options)
    turned = tune(tasks.subset(tasks.names[::-1]), **options)
    elsewhere = tune(tasks, **options, n_workers=2)
    assert here == turned == elsewhere
    assert {row.n_tasks for row in here.table} == {3}


def test_unusable_tasks_are_left_out_and_test_rows_are_not_looked_at() -> None:
    tasks, encoder = make_tasks(3)
    assert isinstance(encoder.features, dict)
    extra = (
        Task("no valid", ["a", "b"], ["x", "y"]),
        Task("one label", ["a", "b"], ["x"] * 2, ["train", "valid"]),
    )
    features = {**encoder.features, "no valid": np.eye(2), "one label": np.eye(2)}
    more = tune(TaskSet([*tasks, *extra]), encoder=FeatureEncoder(features), grid=[], base=BASE)
    assert more == tune(tasks, encoder=encoder, grid=[], base=BASE)
    asked = []

    class Watching(FeatureEncoder):
        def prepare(self, tasks: TaskSet, *, splits: Any = None, progress: Any = None) -> Any:
            asked.append(tuple(splits))
            return super().prepare(tasks, splits=splits, progress=progress)

    tune(tasks, encoder=Watching(encoder.features), grid=[], base=BASE)
    assert asked == [("train", "valid")]


def test_progress_counts_every_model() -> None:
    tasks, encoder = make_tasks(2)
    events: list[ProgressEvent] = []
    tune(tasks, encoder=encoder, grid={"width": [6, 3]}, base=BASE, progress=events.append)
    tuning = [event for event in events if event.stage == "tuning"]
    assert [(event.done, event.total) for event in tuning] == [(done, 4) for done in range(5)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"grid": {"widht": [1]}}, UsageError, "Did you mean 'width'"),
        ({"grid": {"width": [0]}}, UsageError, "width cannot be used"),
        ({"grid": {"width": []}}, UsageError, "cannot be tried"),
        ({"grid": {"embeddings": "frozen"}}, UsageError, "cannot be tried"),
        ({"grid": [{"width": 3}]}, UsageError, "no setting"),
        ({"max_tasks": 1}, UsageError, "max_tasks"),
        ({"n_workers": 0}, UsageError, "n_workers"),
        ({"random_state": -1}, UsageError, "random_state"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[RobustTCError], message: str) -> None:
    tasks, encoder = make_tasks(2)
    with pytest.raises(error, match=message):
        tune(tasks, encoder=encoder, **options)


def test_one_task_is_too_few() -> None:
    tasks, encoder = make_tasks(1)
    with pytest.raises(DataError, match="too few tasks"):
        tune(tasks, encoder=encoder)


def test_default_grids_begin_with_the_default_settings() -> None:
    for grid, size in ((WORD_GRID, 16), (DENSE_GRID, 8)):
        candidates = make_candidates(grid, TrainingSettings())
        assert candidates[0] == TrainingSettings()
        assert len(candidates) == size
