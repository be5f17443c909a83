"""Which rows an epoch of joint training sees."""

from __future__ import annotations

import numpy as np
import pytest

from robusttc.multitask.joint_training import draw_rows, expected_counts, make_steps


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_drawn_as_often_as_expected(seed: int) -> None:
    generator = np.random.default_rng(seed)
    counts = generator.uniform(0, 3, 40)
    drawn = [np.bincount(draw_rows(counts, generator), minlength=40) for _ in range(2000)]
    for times in drawn[:50]:
        assert (times >= np.floor(counts)).all()
        assert (times <= np.ceil(counts)).all()
    np.testing.assert_allclose(np.mean(drawn, axis=0), counts, atol=0.06)


def test_labels_are_evened_out() -> None:
    codes = np.array([0] * 90 + [1] * 9 + [2])
    sums = {
        balance: np.bincount(codes, weights=expected_counts(codes, balance=balance, power=0.5, cap=1000))
        for balance in (0.0, 0.5, 1.0)
    }
    np.testing.assert_allclose(sums[0.0], [90, 9, 1])
    np.testing.assert_allclose(sums[1.0], [100 / 3] * 3)
    assert sums[0.0][2] < sums[0.5][2] < sums[1.0][2]


def test_big_tasks_are_held_back() -> None:
    totals = [
        expected_counts(np.zeros(n_rows, dtype=np.int64), balance=1.0, power=0.5, cap=100).sum()
        for n_rows in (50, 100, 400, 10_000)
    ]
    np.testing.assert_allclose(totals, [50, 100, 200, 1000])


def test_steps_deal_out_all_rows_once() -> None:
    generator = np.random.default_rng(0)
    drawn = [generator.integers(0, 50, size) for size in (3, 16, 40, 1)]
    seen: dict[int, list[int]] = {task: [] for task in range(4)}
    for tasks, rows in make_steps(drawn, rows_a_task=8, tasks_a_step=3, generator=generator):
        assert len(tasks) == len(rows) <= 3
        assert (np.diff(tasks) > 0).all()
        for task, own in zip(tasks, rows, strict=True):
            seen[int(task)] += own.tolist()
    for task, whole in enumerate(drawn):
        assert sorted(seen[task]) == sorted(whole.tolist())
