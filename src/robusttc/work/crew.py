"""The worker processes as their parent sees them: started, given units, watched, replaced.

All of this runs in one thread of the parent (see `robusttc.work.processes`), so that a worker that is done
gets its next unit at once, whatever the rest of the parent is doing.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any

from robusttc.errors import UsageError
from robusttc.work.outcomes import Kind, Outcome
from robusttc.work.performing import outcome_of
from robusttc.work.process_worker import READY, Give, serve_units
from robusttc.work.sharing import SharedData

__all__ = ["Crew", "Job"]

# A worker that is not ready by then never will be; importing takes a second or two on a busy machine.
START_SECONDS = 120.0
# How often to see whether workers are still there, apart from what their pipes say.
LOOK_SECONDS = 1.0
# So many workers in a row that end before they are ready: the next one would, too.
MAX_BAD_STARTS = 3
# So long idle workers may take to leave; they have nothing to lose.
SECONDS_TO_LEAVE = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A unit on its way: the pickled function and argument, the number of its data, its time limit."""

    ticket: int
    pickled: bytes
    data: int | None
    time_limit: float


@dataclass(slots=True, eq=False)
class Worker:
    """One process, what it has been told, and what it is at."""

    process: SpawnProcess
    pipe: connection.Connection[Any, Any]
    deadline: float
    is_ready: bool = False
    job: Job | None = None
    started: float = 0.0
    # Numbers of the data that it knows.
    knows: set[int] = field(default_factory=set)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a unit."""
        return self.is_ready and self.job is None


class Crew:
    """Up to `n_workers` worker processes and the units that wait for them.

    Parameters
    ----------
    n_workers
        How many processes there are at most; they are started when there is work.
    tell
        Called with every outcome.
    """

    def __init__(self, n_workers: int, tell: Callable[[Outcome], None]) -> None:
        self.n_workers = n_workers
        self.tell = tell
        self.workers: list[Worker] = []
        self.backlog: deque[Job] = deque()
        self.data: dict[int, SharedData] = {}
        self.n_bad_starts = 0
        self.context = get_context("spawn")  # a fork of a process with threads may hang

    def look(self, others: list[Any]) -> None:
        """Give out units, then wait until a worker or one of `others` has something to say, and listen."""
        self.give_out()
        waited_for: list[Any] = list(others)
        for worker in self.workers:
            waited_for += [worker.pipe, worker.process.sentinel]
        ready = set(connection.wait(waited_for, self.seconds_left()))
        for worker in list(self.workers):
            # A child of the worker may hold both open, so we ask as well whether it has ended.
            has_news = worker.pipe in ready or worker.process.sentinel in ready
            if has_news or worker.process.exitcode is not None:
                self.listen(worker)
            elif time.monotonic() >= worker.deadline:
                self.end_late(worker)

    def seconds_left(self) -> float | None:
        """Give the time until the next worker is late or all are looked at, or None while nothing is done."""
        if all(worker.is_idle for worker in self.workers):
            return None
        first = min(worker.deadline for worker in self.workers)
        return min(LOOK_SECONDS, max(0.0, first - time.monotonic()))

    def give_out(self) -> None:
        """Start workers as far as there is work for them, and give units to those that wait."""
        n_busy = sum(worker.job is not None for worker in self.workers)
        while len(self.workers) < min(self.n_workers, n_busy + len(self.backlog)):
            self.start()
        for worker in list(self.workers):
            if worker.is_idle and self.backlog:
                self.give(worker, self.backlog.popleft())

    def start(self) -> None:
        """Start a worker."""
        ours, theirs = self.context.Pipe()
        process = self.context.Process(
            target=serve_units, args=(theirs, os.getpid()), daemon=True, name="robusttc-worker"
        )
        block_interrupts()
        process.start()
        # With our copy open, we would never hear that theirs is gone.
        theirs.close()
        self.workers.append(Worker(process, ours, time.monotonic() + START_SECONDS))

    def give(self, worker: Worker, job: Job) -> None:
        """Send a unit, and what it needs to know for it, to a worker that waits."""
        gifts: list[Give] = list(self.news(worker))
        if job.data is not None and job.data not in worker.knows:
            gifts.append((job.data, self.data[job.data]))
            worker.knows.add(job.data)
        worker.job = job
        worker.started = time.monotonic()
        worker.deadline = worker.started + job.time_limit
        try:
            worker.pipe.send((gifts, (job.ticket, job.pickled, job.data)))
        except OSError:
            self.lose(worker)

    def news(self, worker: Worker) -> Iterator[Give]:
        """Give the data that a worker still knows and nobody needs."""
        for number in sorted(worker.knows - self.data.keys()):
            worker.knows.discard(number)
            yield number, None

    def drop(self, number: int) -> None:
        """Let workers forget data: those that wait now, the others with their next unit."""
        self.data.pop(number, None)
        for worker in list(self.workers):
            if worker.is_idle and number in worker.knows:
                try:
                    worker.pipe.send((list(self.news(worker)), None))
                except OSError:
                    self.lose(worker)

    def listen(self, worker: Worker) -> None:
        """Take what a worker says, or notice that it has ended."""
        try:
            # A process that has ended without closing the pipe (a child of it holds it) says nothing.
            message = worker.pipe.recv() if worker.pipe.poll() else None
        except (EOFError, OSError):
            message = None
        if message is None:
            self.lose(worker)
            return
        worker.deadline = math.inf
        if message == READY:
            worker.is_ready = True
            self.n_bad_starts = 0
            return
        ticket, report = message
        worker.job = None
        self.tell(outcome_of(ticket, report))
        if self.backlog:  # before the other workers are listened to
            self.give(worker, self.backlog.popleft())

    def lose(self, worker: Worker) -> None:
        """Report the unit of a worker that has ended."""
        self.dismiss(worker)
        code = worker.process.exitcode
        how = f"ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        if not worker.is_ready:
            self.count_bad_start(how)
        self.tell_loss(worker, "died", f"the worker process {how}")

    def end_late(self, worker: Worker) -> None:
        """End a worker that is over its time."""
        self.dismiss(worker)
        if not worker.is_ready:
            self.count_bad_start(f"were not ready after {START_SECONDS:g} s")
        limit = worker.job.time_limit if worker.job is not None else 0.0
        self.tell_loss(worker, "hung", f"not done after its time limit of {limit:g} s")

    def tell_loss(self, worker: Worker, kind: Kind, error: str) -> None:
        """Tell of a unit that was not done."""
        if worker.job is not None:
            seconds = time.monotonic() - worker.started
            self.tell(Outcome(worker.job.ticket, kind, error=error, seconds=seconds))

    def count_bad_start(self, how: str) -> None:
        """Give up where workers cannot be started at all.

        Raises
        ------
        UsageError
            If several in a row ended before they were ready.
        """
        self.n_bad_starts += 1
        if self.n_bad_starts >= MAX_BAD_STARTS:
            raise UsageError(
                "worker processes cannot be started",
                got=f"{self.n_bad_starts} in a row that {how}",
                todo="in a script, start the work below `if __name__ == '__main__':`; "
                "else look at what they wrote to the error output, or work without workers",
            )

    def dismiss(self, worker: Worker) -> None:
        """End a process and forget it."""
        self.workers.remove(worker)
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()

    def cancel(self) -> None:
        """Forget all units: those that wait, and those under way with their workers."""
        self.backlog.clear()
        for worker in [worker for worker in self.workers if worker.job is not None]:
            self.dismiss(worker)

    def disband(self) -> None:
        """End all workers."""
        # An idle one ends by itself when its pipe is closed, and puts away what its libraries made: of one
        # that is killed, Python would complain at the end that semaphores are left.
        deadline = time.monotonic() + SECONDS_TO_LEAVE
        for worker in self.workers:
            if worker.is_idle:
                worker.pipe.close()
            else:
                worker.process.kill()
        for worker in list(self.workers):
            worker.process.join(max(deadline - time.monotonic(), 0.0))
            self.dismiss(worker)


def block_interrupts() -> None:
    """Keep interrupts from the keyboard from this thread, and from processes that it starts.

    A worker refuses them itself, but only once it runs. Only for a thread that gets no signals anyway.
    """
    if sys.platform != "win32":
        # Starting this process, which comes before the first worker, would let them in again.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
