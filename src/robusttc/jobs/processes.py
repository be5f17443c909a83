"""Jobs in several processes of this machine.

Every worker has a pipe of its own, and a job is sent to a worker that is idle. So a worker that dies, or is
killed after its time limit, costs one job, and it is always known which.

Large shared arrays are written once to a file without a name, which ends with this process however it ends.
All workers map it copy-on-write: the memory is shared, arrays are writable (numba compiles read-only ones as
another type), and no worker sees what another writes.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import IO, Any, Self

from robusttc.errors import UsageError
from robusttc.files import explain_disk_errors
from robusttc.jobs.job import Job, Outcome, join_buffers, limit_environment, run_pickled, split_buffers
from robusttc.params import Integer, check_param

__all__ = ["ProcessExecutor"]

# A worker that is not ready by then never will be; importing takes a second or two on a busy machine.
START_SECONDS = 120.0
# Workers that end in a row before they are ready: the next one would, too.
MAX_BAD_STARTS = 3
# How long a worker may take to end by itself.
STOP_SECONDS = 3.0
# How often workers are looked at that may be gone or over their time limit.
POLL_SECONDS = 0.1
# Arrays begin at such addresses, as if they had been allocated.
ALIGNMENT = 64
# From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1

SPAWN = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang


class _SharedFile:
    """Shared data on the side of the driver: large arrays in a file, the rest as a pickle in memory."""

    def __init__(self, data: Any) -> None:
        self.head, buffers = split_buffers(data)
        # Begin and length of each array in the file.
        self.spans: list[tuple[int, int]] = []
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            for block in buffers:
                self.file.seek(-self.file.tell() % ALIGNMENT, os.SEEK_CUR)
                self.spans.append((self.file.tell(), block.nbytes))
                self.file.write(block)
            self.file.flush()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: buffered bytes cannot be written
            self.file.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """A job in flight, and the number of the shared data that it needs."""

    key: str
    pickled: bytes
    shared: int | None
    time_limit: float


class _Worker:
    """A process: first it starts, then it is idle or has an order."""

    def __init__(self) -> None:
        self.is_ready = False
        self.order: _Order | None = None
        self.since = time.monotonic()
        # The number of the shared data that it has.
        self.shared: int | None = None
        self.connection, other_end = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_work, args=(other_end, os.getpid()), daemon=True)
        with other_end, _interrupts_blocked():
            self.process.start()

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.order is None

    def send(self, order: _Order, shared: dict[int, _SharedFile]) -> None:
        """Send a job to the idle worker, and the shared data if it does not have it."""
        self.order, self.since = order, time.monotonic()
        if order.shared is None or order.shared == self.shared:
            self.connection.send((order.key, order.pickled, order.shared, None))
            return
        new = shared[order.shared]
        self.connection.send((order.key, order.pickled, order.shared, (new.head, new.spans)))
        send_handle(self.connection, new.file.fileno(), self.process.pid)
        self.shared = order.shared

    def ask_to_end(self) -> None:
        """Let an idle worker end by itself, cleaning up (semaphores of libraries); kill another one."""
        if self.is_idle:
            with contextlib.suppress(OSError):  # it is gone
                self.connection.send(None)
        else:
            self.process.kill()

    def end(self, seconds: float = 0.0) -> int:
        """Wait so long for the process to end by itself, then kill it; return its exit code."""
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.connection.close()
        return self.process.exitcode or 0


class ProcessExecutor:
    """Runs jobs in processes of this machine.

    Workers are started when there is work. One that dies is replaced; the job that it was running ends as
    ``died``, or as ``timeout`` if it exceeded its time limit. All workers end with this process, however it
    ends.

    Parameters
    ----------
    n_workers
        How many processes run at the same time.

    Examples
    --------
    >>> with ProcessExecutor(2) as executor:
    ...     executor.n_workers
    2
    """

    def __init__(self, n_workers: int) -> None:
        check_param("n_workers", n_workers, Integer(1))
        self.n_workers = n_workers
        self._workers: list[_Worker] = []
        self._numbers = count()
        self._shared: dict[int, _SharedFile] = {}
        self._backlog: deque[_Order] = deque()
        self._outcomes: list[Outcome] = []
        self._n_bad_starts = 0
        # Also when nobody closes it: at the end of the program.
        self._finalizer = weakref.finalize(self, _end_all, self._workers, self._shared)

    def share(self, data: Any) -> int:
        """Write data once for all workers; a StoreError is raised if the disk is full."""
        self._check_open()
        number = next(self._numbers)
        what = "data for the workers cannot be written to the folder for temporary files (TMPDIR)"
        with explain_disk_errors(what, tempfile.gettempdir()):
            self._shared[number] = _SharedFile(data)
        return number

    def release(self, reference: int) -> None:
        """Free shared data; workers unmap it when they get other data."""
        if reference in self._shared:
            self._shared.pop(reference).close()

    def submit(self, job: Job, shared: int | None, time_limit: float) -> None:
        """Queue a job; see `robusttc.jobs.runner.Executor`."""
        self._check_open()
        self._backlog.append(_Order(job.key, pickle.dumps(job, protocol=5), shared, time_limit))

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that have arrived; a UsageError is raised if no worker can be started."""
        deadline = time.monotonic() + timeout
        while True:
            self._dispatch()
            seconds = 0.0 if self._outcomes else min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))
            ready = wait([worker.connection for worker in self._workers], seconds)
            for worker in list(self._workers):
                if worker.connection in ready:
                    self._receive(worker)
                else:
                    self._check(worker)
            if self._outcomes or time.monotonic() >= deadline:
                self._dispatch()
                outcomes, self._outcomes = self._outcomes, []
                return outcomes

    def cancel(self) -> None:
        """Forget all jobs; workers that are running one are killed, and replaced when there is work."""
        self._backlog.clear()
        self._outcomes.clear()
        busy = [worker for worker in self._workers if not worker.is_idle]
        for worker in busy:
            self._workers.remove(worker)
            worker.end()

    def close(self) -> None:
        """Stop all workers and free shared data; jobs in flight are lost."""
        self._backlog.clear()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise UsageError("the workers have been closed", todo="create a new executor")

    def _dispatch(self) -> None:
        """Send jobs to idle workers, and start workers as far as there are jobs for them."""
        for worker in list(self._workers):
            if self._backlog and worker.is_idle:
                order = self._backlog.popleft()
                try:
                    worker.send(order, self._shared)
                except OSError:  # it died while it was idle
                    self._backlog.appendleft(order)
                    self._workers.remove(worker)
                    worker.end()
        n_starting = sum(not worker.is_ready for worker in self._workers)
        for _ in range(min(len(self._backlog) - n_starting, self.n_workers - len(self._workers))):
            self._workers.append(_Worker())

    def _receive(self, worker: _Worker) -> None:
        """Take what a worker has sent: that it is ready, or how its job ended."""
        try:
            outcome: Outcome | None = worker.connection.recv()
        except (EOFError, OSError):
            self._lose(worker)
            return
        worker.order = None
        if outcome is None:
            worker.is_ready, self._n_bad_starts = True, 0
        else:
            self._outcomes.append(outcome)

    def _check(self, worker: _Worker) -> None:
        """Find a worker that takes too long, or is gone while a child of it holds its pipe open."""
        limit = START_SECONDS if not worker.is_ready else worker.order.time_limit if worker.order else None
        if limit is not None and time.monotonic() - worker.since > limit:
            self._lose(worker, limit)
        elif not worker.process.is_alive() and not worker.connection.poll():
            self._lose(worker)

    def _lose(self, worker: _Worker, limit: float | None = None) -> None:
        """Give up a worker that is gone, or has exceeded a time limit, and report its job."""
        self._workers.remove(worker)
        seconds = time.monotonic() - worker.since
        code = worker.end(STOP_SECONDS if limit is None else 0.0)
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        if worker.order is not None and limit is not None:
            error = f"not done after its time limit of {limit:g} s"
            self._outcomes.append(Outcome(worker.order.key, "timeout", error=error, seconds=seconds))
        elif worker.order is not None:
            error = f"the worker process {how}"
            self._outcomes.append(Outcome(worker.order.key, "died", error=error, seconds=seconds))
        elif not worker.is_ready:
            self._count_bad_start(how if limit is None else f"was not ready after {limit:g} s")

    def _count_bad_start(self, how: str) -> None:
        self._n_bad_starts += 1
        if self._n_bad_starts >= MAX_BAD_STARTS:
            raise UsageError(
                "worker processes cannot be started",
                got=f"{self._n_bad_starts} in a row, the last of which {how}",
                todo="in a script, start the work below `if __name__ == '__main__':`; "
                "otherwise look at what they wrote to the error output, or work without workers",
            )


def _end_all(workers: list[_Worker], shared: dict[int, _SharedFile]) -> None:
    for worker in workers:
        worker.ask_to_end()
    for worker in workers:
        worker.end(STOP_SECONDS)
    workers.clear()
    for file in shared.values():
        file.close()
    shared.clear()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C from a process that is started in the block; it ignores it, but only once it runs."""
    # It unblocks them when it is started, so it comes first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, parent: int) -> None:
    """Run jobs in a worker until it is told to end, or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the driver to decide
    limit_environment()
    if sys.platform == "linux":
        # At once, also inside a long computation; elsewhere when it is idle or has a result to send.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            return
    # What every job needs should not count as the time of the first one.
    import safetensors.numpy  # noqa: F401

    # Functions that return the shared data of a job: none, or the latest by its number.
    shared: dict[int | None, Callable[[], Any]] = {None: lambda: None}
    with contextlib.suppress(EOFError, ConnectionError):
        connection.send(None)
        while (message := connection.recv()) is not None:
            key, pickled, number, content = message
            if content is not None:
                shared = {None: shared[None], number: _map_shared(connection, *content)}
            connection.send(run_pickled(key, pickled, shared[number]))


def _map_shared(connection: Connection, head: bytes, spans: list[tuple[int, int]]) -> Callable[[], Any]:
    """Map the file that comes over the connection; the data is restored when the first job needs it."""
    handle = recv_handle(connection)
    try:
        memory = memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_COPY) if spans else b"")
    finally:
        os.close(handle)
    return cache(lambda: join_buffers(head, [memory[begin : begin + size] for begin, size in spans]))
