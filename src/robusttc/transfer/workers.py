"""Units of work in several processes, each with one thread of linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

from threadpoolctl import threadpool_limits

from robusttc.errors import UsageError, quote

if TYPE_CHECKING:
    from robusttc.transfer.plan import TransferPlan

__all__ = ["check_workers", "run_units"]

Result = TypeVar("Result")

# Units that wait for a worker: enough to keep it busy, few enough that stopping takes no time.
WAITING_UNITS_A_WORKER = 2

# The plan of this worker process: sent once, not with every unit.
_plan_here: TransferPlan | None = None


def check_workers(n_workers: int) -> int:
    """Refuse a number of workers that cannot be used."""
    if not isinstance(n_workers, int) or isinstance(n_workers, bool) or n_workers < 1:
        raise UsageError("n_workers cannot be used", got=quote(n_workers), expected="an integer from 1 up")
    return n_workers


def run_units(
    unit: Callable[[TransferPlan, int], Result],
    plan: TransferPlan,
    numbers: Sequence[int],
    *,
    n_workers: int = 1,
) -> Iterator[Result]:
    """Do one unit of work for each number, and give the results as they are done, in any order.

    Parameters
    ----------
    unit
        A function of a module (so that another process finds it) of the plan and a number.
    plan
        What all units share.
    numbers
        The numbers of the units.
    n_workers
        1 works here; more start so many processes.
    """
    if n_workers == 1 or len(numbers) < 2:
        with threadpool_limits(limits=1):
            for number in numbers:
                yield unit(plan, number)
        return
    # Spawned, not forked: a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(
        n_workers, mp_context=get_context("spawn"), initializer=start_worker, initargs=(plan,)
    )
    try:
        left = iter(numbers)
        running: set[Future[Result]] = set()
        for number in left:
            running.add(pool.submit(do_unit, unit, number))
            if len(running) < n_workers * WAITING_UNITS_A_WORKER:
                continue
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def start_worker(plan: TransferPlan) -> None:
    """Keep the plan."""
    global _plan_here
    _plan_here = plan


def do_unit(unit: Callable[[Any, int], Any], number: int) -> Any:
    """Do one unit in a worker process, with one thread of linear algebra: more get in each other's way."""
    # Not once at the start: a library that is loaded with the first unit would keep all its threads.
    with threadpool_limits(limits=1):
        return unit(_plan_here, number)
