"""Jobs in several processes of this machine.

Every worker has a socket of its own, and a job is sent to a worker that is idle. So a worker that dies, or is
killed after its time limit, costs one job, and it is always known which. The driver never waits for a worker:
one that is frozen while it sends or receives is killed, too.

Large shared arrays are written once to a file without a name, which ends with this process however it ends.
All workers map it copy-on-write: the memory is shared, arrays are writable (numba compiles read-only ones as
another type), and no worker sees what another writes.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import cache
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import IO, Any, Literal, NamedTuple

from robusttc.errors import UsageError
from robusttc.files import explain_disk_errors
from robusttc.jobs.job import Job, Outcome, limit_environment, run_pickled
from robusttc.params import Integer, check_param

__all__ = ["ProcessExecutor"]

# A worker that is not ready by then never will be; importing takes a second or two on a busy machine.
START_SECONDS = 120.0
MAX_BAD_STARTS = 3  # workers in a row that end before they are ready: the next one would, too
SEND_SECONDS = 60.0  # an idle worker reads at once; large data takes a while on a busy machine
STOP_SECONDS = 3.0  # for a worker to end by itself
POLL_SECONDS = 0.1  # how often workers are looked at that may be gone or over their time limit
RECEIVED_BYTES = 1 << 20  # at once
LENGTH_BYTES = 8  # of the length before a message
READY = "ready"
MIN_SHARED_BYTES = (
    4096  # smaller arrays stay in the pickle: a place in the file would cost more than it saves
)
ALIGNMENT = 64  # arrays begin at such addresses, as if they had been allocated
PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>

SPAWN = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang


class _SharedFile:
    """Shared data on the side of the driver: large arrays in a file, the rest as a pickle in memory."""

    def __init__(self, data: Any) -> None:
        self.spans: list[tuple[int, int]] = []  # begin and length of each array in the file
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self.head = pickle.dumps(data, protocol=5, buffer_callback=self._stays_in_pickle)
            self.file.flush()
        except BaseException:
            self.close()
            raise

    def _stays_in_pickle(self, buffer: pickle.PickleBuffer) -> bool:
        block = buffer.raw()
        if block.nbytes >= MIN_SHARED_BYTES:
            self.file.seek(-self.file.tell() % ALIGNMENT, os.SEEK_CUR)
            self.spans.append((self.file.tell(), block.nbytes))
            self.file.write(block)
        return block.nbytes < MIN_SHARED_BYTES

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: buffered bytes cannot be written
            self.file.close()


class _Order(NamedTuple):
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
        self.shared: int | None = None  # the number of the shared data that it has
        self.received = bytearray()  # of a message that has not arrived completely
        self.socket, other_end = socket.socketpair()
        self.socket.settimeout(SEND_SECONDS)
        self.process = SPAWN.Process(target=_work, args=(other_end, os.getpid()), daemon=True)
        # Workers ignore Ctrl-C, but only once they run; the tracker unblocks it when it is started itself.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with other_end:
                self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.order is None

    def send(self, order: _Order, shared: dict[int, _SharedFile]) -> None:
        """Send a job to the idle worker, and the shared data if it does not have it."""
        self.order, self.since = order, time.monotonic()
        new = None if order.shared in (None, self.shared) else shared[order.shared]
        _send(self.socket, (order[:3], new and (new.head, new.spans)))
        if new is not None:
            socket.send_fds(self.socket, [b"f"], [new.file.fileno()])
            self.shared = order.shared

    def receive(self) -> Any:
        """Return the message that is complete now, or None; a ConnectionError if the worker is gone."""
        part = self.socket.recv(RECEIVED_BYTES)
        if not part:
            raise ConnectionError
        self.received += part
        length = int.from_bytes(self.received[:LENGTH_BYTES], "big")
        if len(self.received) < LENGTH_BYTES + length:
            return None
        content, self.received = self.received, bytearray()
        return pickle.loads(memoryview(content)[LENGTH_BYTES:])  # noqa: S301 - of our own process

    def end(self, seconds: float = 0.0) -> int:
        """Wait so long for the process to end by itself, then kill it; return its exit code."""
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.socket.close()
        return self.process.exitcode or 0


class ProcessExecutor:
    """Runs jobs in processes of this machine.

    Workers are started when there is work. One that dies is replaced; the job that it was running ends as
    ``died``, or as ``timeout`` if it exceeded its time limit. All workers end with this process, however it
    ends.
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
            # Before waiting: what a worker sent before it died is there afterwards.
            alive = {worker: worker.process.is_alive() for worker in self._workers}
            ready = wait([worker.socket for worker in alive], seconds)
            for worker, is_alive in alive.items():
                self._check(worker, is_readable=worker.socket in ready, is_alive=is_alive)
            if self._outcomes or time.monotonic() >= deadline:
                self._dispatch()
                outcomes, self._outcomes = self._outcomes, []
                return outcomes

    def cancel(self) -> None:
        """Forget all jobs; workers that are running one are killed, and replaced when there is work."""
        self._backlog.clear()
        self._outcomes.clear()
        for worker in [worker for worker in self._workers if not worker.is_idle]:
            self._workers.remove(worker)
            worker.end()

    def close(self) -> None:
        """Stop all workers and free shared data; jobs in flight are lost."""
        self._backlog.clear()
        self._finalizer()

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
                except OSError:  # it died, or was frozen, while it was idle
                    self._backlog.appendleft(order)
                    self._workers.remove(worker)
                    worker.end()
        n_starting = sum(not worker.is_ready for worker in self._workers)
        for _ in range(min(len(self._backlog) - n_starting, self.n_workers - len(self._workers))):
            self._workers.append(_Worker())

    def _check(self, worker: _Worker, *, is_readable: bool, is_alive: bool) -> None:
        """Take what a worker has sent: that it is ready, or how its job ended; find one that is lost."""
        try:
            message = worker.receive() if is_readable else None
        except OSError:
            self._lose(worker)
            return
        if message == READY:
            worker.is_ready, self._n_bad_starts = True, 0
        elif message is not None:
            worker.order = None
            self._outcomes.append(message)
        elif not is_readable and not is_alive:
            self._lose(worker)  # a child of it holds its socket open
        else:
            order = worker.order
            limit = START_SECONDS if not worker.is_ready else math.inf if order is None else order.time_limit
            if time.monotonic() - worker.since > limit:
                self._lose(worker, limit)

    def _lose(self, worker: _Worker, limit: float | None = None) -> None:
        """Give up a worker that is gone, or has exceeded a time limit, and report its job."""
        self._workers.remove(worker)
        seconds = time.monotonic() - worker.since
        code = worker.end(STOP_SECONDS if limit is None else 0.0)
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        if worker.order is not None:
            kind: Literal["timeout", "died"] = "died" if limit is None else "timeout"
            error = f"the worker process {how}"
            if limit is not None:
                error = f"not done after its time limit of {limit:g} s"
            self._outcomes.append(Outcome(worker.order.key, kind, error=error, seconds=seconds))
        elif not worker.is_ready:
            self._n_bad_starts += 1
            if self._n_bad_starts >= MAX_BAD_STARTS:
                last = how if limit is None else f"was not ready after {limit:g} s"
                raise UsageError(
                    "worker processes cannot be started",
                    got=f"{self._n_bad_starts} in a row, the last of which {last}",
                    todo="in a script, start the work below `if __name__ == '__main__':`; "
                    "otherwise look at what they wrote to the error output, or work without workers",
                )


def _end_all(workers: list[_Worker], shared: dict[int, _SharedFile]) -> None:
    for worker in workers:
        if worker.is_idle:
            with contextlib.suppress(OSError):  # it is gone
                _send(worker.socket, None)  # it ends by itself and cleans up (semaphores of libraries)
        else:
            worker.process.kill()
    for worker in workers:
        worker.end(STOP_SECONDS)
    workers.clear()
    for file in shared.values():
        file.close()
    shared.clear()


def _send(connection: socket.socket, message: Any) -> None:
    content = pickle.dumps(message, protocol=5)
    connection.sendall(len(content).to_bytes(LENGTH_BYTES, "big") + content)


def _receive(connection: socket.socket) -> Any:
    """Wait for a message, in a worker; None if the other end is closed."""
    length = connection.recv(LENGTH_BYTES, socket.MSG_WAITALL)
    content = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    return pickle.loads(content) if content else None  # noqa: S301 - from the process that started this one


def _work(connection: socket.socket, parent: int) -> None:
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
    with contextlib.suppress(ConnectionError):
        _send(connection, READY)
        while (message := _receive(connection)) is not None:
            (key, pickled, number), content = message
            if content is not None:
                shared = {None: shared[None], number: _map_shared(connection, *content)}
            _send(connection, run_pickled(key, pickled, shared[number]))


def _map_shared(connection: socket.socket, head: bytes, spans: list[tuple[int, int]]) -> Callable[[], Any]:
    """Map the file that comes over the connection; the data is restored when the first job needs it."""
    _, (handle,), _, _ = socket.recv_fds(connection, 1, 1)
    try:
        memory = memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_COPY) if spans else b"")
    finally:
        os.close(handle)
    blocks = [memory[begin : begin + size] for begin, size in spans]
    return cache(lambda: pickle.loads(head, buffers=blocks))  # noqa: S301 - as in `_receive`
