"""Units of work here and in other processes: results, errors, stopping, threads."""

from __future__ import annotations

import multiprocessing
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - a worker loads it with its first unit, not before
from threadpoolctl import threadpool_info

from robusttc.encoders.inputs import DenseInputs
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.transfer.pairs import PairList
from robusttc.transfer.plan import TransferPlan
from robusttc.transfer.settings import TransferSettings
from robusttc.transfer.workers import check_workers, run_units

PLAN = TransferPlan(
    rows=(),
    inputs=DenseInputs(np.ones((1, 1), dtype=np.float32)),
    pairs=PairList([], []),
    settings=TransferSettings(),
    same_labels=False,
    seed=7,
)


def square(plan: TransferPlan, number: int) -> tuple[int, int, int]:
    return number**2, plan.seed, os.getpid()


def fail(_plan: TransferPlan, number: int) -> int:
    if number == 2:
        raise DataError("the unit failed", where="task 'x'", got="nothing", todo="try again")
    if number == 3:
        raise UnknownTaskError("aab", ("aaa", "b"))
    return number


def leave_a_mark(folder: Path, _plan: TransferPlan, number: int) -> int:
    (folder / str(number)).touch()
    time.sleep(0.02)
    return number


def count_threads(_plan: TransferPlan, _number: int) -> list[int]:
    info = cast("list[dict[str, Any]]", threadpool_info())
    return [int(each["num_threads"]) for each in info]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_every_unit_is_done_once_with_the_plan(n_workers: int) -> None:
    results = list(run_units(square, PLAN, range(9), n_workers=n_workers))
    assert sorted(result[0] for result in results) == [number**2 for number in range(9)]
    assert {result[1] for result in results} == {7}
    own = {result[2] for result in results}
    assert (own == {os.getpid()}) is (n_workers == 1)


@pytest.mark.parametrize("n_workers", [1, 4])
@pytest.mark.parametrize("numbers", [[], [3]])
def test_few_units_are_done_here(n_workers: int, numbers: list[int]) -> None:
    results = list(run_units(square, PLAN, numbers, n_workers=n_workers))
    assert results == [(number**2, 7, os.getpid()) for number in numbers]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_an_error_reaches_the_caller_as_it_was(n_workers: int) -> None:
    with pytest.raises(DataError) as caught:
        list(run_units(fail, PLAN, [0, 2, 4, 5], n_workers=n_workers))
    assert type(caught.value) is DataError
    assert str(caught.value) == "task 'x': the unit failed; got nothing. Try again"
    with pytest.raises(UnknownTaskError, match="aaa"):
        list(run_units(fail, PLAN, [0, 3], n_workers=n_workers))
    assert not multiprocessing.active_children()


def test_leaving_early_stops_the_pool(tmp_path: Path) -> None:
    units = run_units(partial(leave_a_mark, tmp_path), PLAN, range(200), n_workers=2)
    next(units)
    units.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
    done = len(list(tmp_path.iterdir()))
    assert done < 50
    time.sleep(0.1)
    assert len(list(tmp_path.iterdir())) == done


@pytest.mark.parametrize("n_workers", [1, 2])
def test_one_thread_of_linear_algebra(n_workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for threads in run_units(count_threads, PLAN, range(2), n_workers=n_workers):
        assert set(threads) == {1}


@pytest.mark.parametrize("n_workers", [0, -1, True, 2.0, "2", None])
def test_numbers_of_workers_that_cannot_be_used(n_workers: Any) -> None:
    with pytest.raises(UsageError, match=r"n_workers cannot be used; got .*; expected an integer from 1 up"):
        check_workers(n_workers)


def test_numbers_of_workers_that_can() -> None:
    assert check_workers(1) == 1
    assert check_workers(64) == 64
