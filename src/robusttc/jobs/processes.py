"""Jobs in several processes of this machine, each with one thread of linear algebra.

Every worker is a pebble pool of one process. In a pool of several, the processes share a pipe and its locks:
one that is killed while it holds a lock stalls the others, and it is not always known whose job is lost.

Large shared arrays are written once to a file that all workers map copy-on-write: the memory is shared,
arrays are writable (numba compiles read-only ones as another type), and no worker sees what another writes.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import mmap
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import IO, Any, Self

from pebble import ProcessExpired, ProcessPool

from robusttc.errors import StoreError, UsageError
from robusttc.jobs.job import (
    Job,
    Outcome,
    decode_outcome,
    encode_outcome,
    failed,
    join_buffers,
    limit_environment,
    limit_threads,
    run_job,
    split_buffers,
)
from robusttc.params import Integer, check_param

__all__ = ["ProcessExecutor", "SharedFile"]

# A worker that is not ready by then never will be; importing takes a second or two on a busy machine.
START_SECONDS = 120.0
# Workers that end in a row before they are ready: the next one would, too.
MAX_BAD_STARTS = 3
# How long a worker may be gone before its job counts as lost, unless pebble reports it first.
GRACE_SECONDS = 1.0
# How long idle workers may take to clean up.
STOP_SECONDS = 3.0
PREFIX = "robusttc-shared-"
# Arrays begin at such addresses, as if they had been allocated.
ALIGNMENT = 64
# From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class SharedRef:
    """Where shared data is: a file, and begin and length of the pickled head and of each array in it."""

    path: str
    spans: tuple[tuple[int, int], ...]

    def open(self) -> Any:
        """Read the data; large arrays are views of the mapped file."""
        with Path(self.path).open("rb") as file:
            memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        head, *buffers = [memory[begin : begin + size] for begin, size in self.spans]
        return join_buffers(bytes(head), buffers)


class SharedFile:
    """A file of shared data, locked so that `remove_stale` of other processes keeps it.

    Raises
    ------
    StoreError
        If the file cannot be written.
    """

    def __init__(self, data: Any, folder: Path) -> None:
        head, buffers = split_buffers(data)
        self._file: IO[bytes] | None = None
        path = str(folder)
        spans = []
        try:
            self._file, path = _create_locked(folder)
            for block in [memoryview(head), *buffers]:
                self._file.seek(-self._file.tell() % ALIGNMENT, os.SEEK_CUR)
                spans.append((self._file.tell(), block.nbytes))
                self._file.write(block)
            self._file.flush()
        except OSError as error:
            self.ref = SharedRef(path, ())
            self.remove()
            raise StoreError(
                "data for the workers cannot be written",
                where=path,
                got=error.strerror or str(error),
                todo="free space there, or choose another folder by the environment variable TMPDIR",
            ) from error
        self.ref = SharedRef(path, tuple(spans))

    def remove(self) -> None:
        """Remove the file; processes that have mapped it keep what they see."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk: buffered bytes cannot be written
                self._file.close()
            self._file = None
            Path(self.ref.path).unlink(missing_ok=True)


def _create_locked(folder: Path) -> tuple[IO[bytes], str]:
    while True:
        number, path = tempfile.mkstemp(prefix=PREFIX, suffix=".bin", dir=folder)
        file = os.fdopen(number, "w+b")
        # Another process may have removed it as stale before it was locked.
        if _try_lock(file) and Path(path).exists():
            return file, path
        file.close()


def _try_lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed, or return False because another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_stale(folder: Path) -> int:
    """Remove the files of killed processes from a folder, and return their number."""
    n_removed = 0
    for path in folder.glob(f"{PREFIX}*.bin"):
        # Files of other users cannot be opened; those of living processes are locked.
        with contextlib.suppress(OSError), path.open("r+b") as file:
            if _try_lock(file):
                path.unlink()
                n_removed += 1
    return n_removed


class _Context(SpawnContext):
    """Starts processes (by spawn: a fork of a process with threads may hang) and knows the latest one."""

    latest: SpawnProcess | None = None

    def Process(self, **arguments: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Return a new process."""
        self.latest = SpawnProcess(**arguments)
        return self.latest


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """A job in flight."""

    ticket: int
    pickled: bytes
    shared: SharedRef | None
    time_limit: float


class _Worker:
    """A pool of one process, for as long as the process lives: first it starts, then it is idle or busy."""

    def __init__(self) -> None:
        self.context = _Context()
        self.pool = ProcessPool(1, initializer=_prepare_worker, initargs=(os.getpid(),), context=self.context)
        # Once it is ready; pebble starts another one when this one is gone.
        self.process: SpawnProcess | None = None
        self.future: Future[Any] | None = None
        self.order: _Order | None = None
        self.since = time.monotonic()
        self.gone_since = math.inf

    @property
    def is_ready(self) -> bool:
        return self.process is not None

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.future is None

    def stop(self) -> None:
        """Begin to end the process: an idle one cleans up (semaphores of libraries), others are killed."""
        self.pool.stop()  # type: ignore[no-untyped-call]
        if self.process is not None and self.is_idle:
            self.process.terminate()
        else:
            self.kill()

    def join(self) -> None:
        """Wait until it has ended; before pebble closes its pipe, which would cut the cleaning up short."""
        if self.process is not None:
            self.process.join(STOP_SECONDS)
        # With a limit: threads of a pool that an interrupt has left in disorder might never end.
        ending = threading.Thread(target=self.pool.join, daemon=True)
        ending.start()
        ending.join(STOP_SECONDS)
        self.kill()
        for process in (self.process, self.context.latest):
            if process is not None:
                with contextlib.suppress(ValueError):  # closed already
                    process.close()

    def kill(self) -> None:
        # Pebble may have started another process since this one was killed.
        for process in (self.process, self.context.latest):
            with contextlib.suppress(ValueError):  # closed already
                if process is not None and process.pid is not None:
                    process.kill()


@dataclass(slots=True, eq=False)
class _State:
    """What is cleaned up when the executor is closed or forgotten."""

    workers: list[_Worker] = field(default_factory=list)
    files: dict[SharedRef, SharedFile] = field(default_factory=dict)

    def close(self) -> None:
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
        for file in self.files.values():
            file.remove()
        self.files.clear()


class ProcessExecutor:
    """Runs jobs in processes of this machine.

    Workers are started when there is work. One that dies is replaced; the job that it was running ends as
    ``died``, or as ``timeout`` if it exceeded its time limit. All workers end with this process, however it
    ends.

    Parameters
    ----------
    n_workers
        How many processes run at the same time.
    scratch
        A folder for shared data; None takes that of the system for temporary files. What killed processes
        have left there is removed.

    Examples
    --------
    >>> with ProcessExecutor(2) as executor:
    ...     executor.n_workers
    2
    """

    def __init__(self, n_workers: int, *, scratch: Path | None = None) -> None:
        check_param("n_workers", n_workers, Integer(1))
        self.n_workers = n_workers
        self.scratch = Path(tempfile.gettempdir()) if scratch is None else scratch
        remove_stale(self.scratch)
        self._state = _State()
        # Held for short times only, never while threads of a pool are joined: they take it, too.
        self._lock = threading.RLock()
        self._backlog: deque[_Order] = deque()
        # Jobs in flight; those that are cancelled are not among them.
        self._orders: set[_Order] = set()
        # What pebble's threads report: a packed outcome, or why a worker is lost.
        self._events: queue.SimpleQueue[tuple[_Worker, _Order | None, bytes | BaseException]]
        self._events = queue.SimpleQueue()
        self._outcomes: list[Outcome] = []
        self._n_bad_starts = 0
        # Also when nobody closes it: at the end of the program.
        self._finalizer = weakref.finalize(self, self._state.close)

    def share(self, data: object) -> SharedRef:
        """Write data once for all workers."""
        self._check_open()
        file = SharedFile(data, self.scratch)
        with self._lock:
            self._state.files[file.ref] = file
        return file.ref

    def release(self, reference: SharedRef) -> None:
        """Remove shared data; workers unmap it with their next job."""
        with self._lock:
            file = self._state.files.pop(reference, None)
        if file is not None:
            file.remove()

    def submit(self, ticket: int, job: Job, shared: SharedRef | None, time_limit: float) -> None:
        """Queue a job; see `robusttc.jobs.runner.Executor`."""
        self._check_open()
        try:
            pickled = pickle.dumps((job.function, job.argument), protocol=5)
        except Exception as error:  # whatever the argument's classes raise: the job cannot be run
            self._outcomes.append(failed(ticket, error, prefix="the job cannot be sent to a worker: "))
            return
        order = _Order(ticket, pickled, shared, time_limit)
        with self._lock:
            self._orders.add(order)
            self._backlog.append(order)
            self._dispatch()

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that have arrived, or wait at most `timeout` seconds for one.

        Raises
        ------
        UsageError
            If workers cannot be started.
        """
        deadline = time.monotonic() + timeout
        while True:
            self._take_events(0.0 if self._outcomes else max(0.0, deadline - time.monotonic()))
            self._check_workers()
            with self._lock:
                self._dispatch()
            if self._outcomes or time.monotonic() >= deadline:
                outcomes, self._outcomes = self._outcomes, []
                return outcomes

    def cancel(self) -> None:
        """Forget all jobs; workers that are running one are killed, and replaced when there is work."""
        with self._lock:
            self._backlog.clear()
            self._orders.clear()
            self._outcomes.clear()
            for worker in self._state.workers:
                if worker.order is not None:
                    worker.kill()

    def close(self) -> None:
        """Stop all workers and remove shared data; jobs in flight are lost."""
        with self._lock:
            self._backlog.clear()
            self._orders.clear()
        self._finalizer()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise UsageError("the workers have been closed", todo="create a new executor")

    def _dispatch(self) -> None:
        """Send jobs to idle workers, and start workers as far as there are jobs for them."""
        workers = self._state.workers
        for worker in workers:
            if self._backlog and worker.is_idle:
                self._send_job(worker)
        n_starting = sum(not worker.is_ready for worker in workers)
        for _ in range(min(len(self._backlog) - n_starting, self.n_workers - len(workers))):
            worker = _Worker()
            workers.append(worker)
            with _interrupts_blocked():
                # What goes wrong before this is done is no failure of a job.
                self._schedule(worker, _load_modules, (), None)

    def _send_job(self, worker: _Worker) -> None:
        worker.order = order = self._backlog.popleft()
        paths = tuple(ref.path for ref in self._state.files)
        limit = None if order.time_limit == math.inf else order.time_limit
        try:
            self._schedule(worker, _run_in_worker, (order.ticket, order.pickled, order.shared, paths), limit)
        except RuntimeError as error:  # it died while it was idle
            worker.order, worker.future = None, Future()
            self._backlog.appendleft(order)
            self._events.put((worker, None, error))

    def _schedule(
        self, worker: _Worker, function: Any, arguments: tuple[Any, ...], limit: float | None
    ) -> None:
        worker.since = time.monotonic()
        worker.future = worker.pool.schedule(function, args=arguments, timeout=limit)
        worker.future.add_done_callback(partial(self._on_done, worker))

    def _on_done(self, worker: _Worker, future: Future[Any]) -> None:
        """Take the outcome of a worker and send it the next job at once; called by a thread of pebble."""
        with self._lock:
            order, error = worker.order, future.exception()
            if error is not None:
                self._events.put((worker, order, error))
                return
            worker.order = worker.future = None
            if order is None:
                worker.process, self._n_bad_starts = worker.context.latest, 0
            else:
                self._events.put((worker, order, future.result()))
            if self._backlog:
                self._send_job(worker)

    def _take_events(self, timeout: float) -> None:
        with contextlib.suppress(queue.Empty):
            event = self._events.get(timeout=timeout) if timeout > 0 else self._events.get_nowait()
            while True:
                self._take_event(*event)
                event = self._events.get_nowait()

    def _take_event(self, worker: _Worker, order: _Order | None, found: bytes | BaseException) -> None:
        if isinstance(found, BaseException):
            self._lose(worker, order, found)
        elif order in self._orders:
            self._orders.discard(order)
            self._outcomes.append(decode_outcome(found))

    def _check_workers(self) -> None:
        """Find workers that are gone or never come, which pebble does not report."""
        now = time.monotonic()
        for worker in list(self._state.workers):
            if not worker.is_ready and now - worker.since > START_SECONDS:
                self._lose(worker, None, TimeoutError(f"was not ready after {START_SECONDS:g} s"))
            elif worker.order is not None and worker.process is not None and not worker.process.is_alive():
                # For instance one that has ended with code 0, or before pebble knew what it was running.
                worker.gone_since = min(worker.gone_since, now)
                if now - worker.gone_since > GRACE_SECONDS:
                    self._lose(worker, worker.order, BrokenProcessPool())

    def _lose(self, worker: _Worker, order: _Order | None, error: BaseException) -> None:
        """Give up a worker, and report the job that it was running."""
        with self._lock:
            if worker not in self._state.workers:
                return
            self._state.workers.remove(worker)
        how = _describe_end(worker, error)
        # Its pipe may hold half a message, so the pool goes with the process.
        worker.stop()
        worker.join()
        if order in self._orders and order is not None:
            self._orders.discard(order)
            seconds = time.monotonic() - worker.since
            if isinstance(error, TimeoutError):
                message = f"not done after its time limit of {order.time_limit:g} s"
                self._outcomes.append(Outcome(order.ticket, "timeout", error=message, seconds=seconds))
            else:
                message = f"the worker process {how}"
                self._outcomes.append(Outcome(order.ticket, "died", error=message, seconds=seconds))
        elif not worker.is_ready:
            self._count_bad_start(how)

    def _count_bad_start(self, how: str) -> None:
        self._n_bad_starts += 1
        if self._n_bad_starts >= MAX_BAD_STARTS:
            raise UsageError(
                "worker processes cannot be started",
                got=f"{self._n_bad_starts} in a row, the last of which {how}",
                todo="in a script, start the work below `if __name__ == '__main__':`; "
                "otherwise look at what they wrote to the error output, or work without workers",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _describe_end(worker: _Worker, error: BaseException) -> str:
    """Describe why a worker is lost."""
    process = worker.process or worker.context.latest
    code = None if process is None else process.exitcode
    if isinstance(error, ProcessExpired):
        code = error.exitcode
    elif not isinstance(error, BrokenProcessPool):
        return str(error) or type(error).__name__
    return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C from processes and threads that are started in the block: it is for the driver to decide.

    A worker ignores it, but only once it runs.
    """
    # It unblocks them when it is started, so it comes first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In a worker: shared data by file, opened once.
_opened: dict[str, Any] = {}


def _prepare_worker(parent: int) -> None:
    """Make this process end with its parent, and load libraries with one thread."""
    limit_environment()
    if sys.platform == "linux":
        # At once, also inside a long computation; elsewhere when it is idle or has a result to send.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)


def _load_modules() -> None:
    """Load what every job needs: it should not count as the time of the first one."""
    import safetensors.numpy  # noqa: F401

    limit_threads()


def _run_in_worker(ticket: int, pickled: bytes, shared: SharedRef | None, paths: tuple[str, ...]) -> bytes:
    """Run a job and return its packed outcome; `paths` are the files that are still needed."""
    for path in _opened.keys() - set(paths):
        del _opened[path]
    try:
        function, argument = pickle.loads(pickled)  # noqa: S301 - from the parent, over its own pipe
        if shared is not None and shared.path not in _opened:
            _opened[shared.path] = shared.open()
    except Exception as error:  # whatever the modules of the job raise when they are imported
        return encode_outcome(failed(ticket, error))
    limit_threads()
    data = None if shared is None else _opened[shared.path]
    return encode_outcome(run_job(ticket, function, argument, data))
