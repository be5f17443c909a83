"""Units in several processes of this machine, each with one thread of linear algebra."""

from __future__ import annotations

import pickle
import queue
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType

from robusttc.errors import UsageError, quote
from robusttc.work.crew import Crew, Job
from robusttc.work.outcomes import Outcome
from robusttc.work.performing import describe_error
from robusttc.work.sharing import SharedFile, remove_left_over, share
from robusttc.work.units import Handle, Unit

__all__ = ["ProcessExecutor", "check_workers"]

# The thread of the crew ends when it has killed and joined the workers, which takes milliseconds.
CLOSE_SECONDS = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Shelved:
    """Data that the workers find under this number."""

    number: int


def check_workers(n_workers: int) -> int:
    """Refuse a number of workers that cannot be used."""
    if not isinstance(n_workers, int) or isinstance(n_workers, bool) or n_workers < 1:
        raise UsageError("n_workers cannot be used", got=quote(n_workers), expected="an integer from 1 up")
    return n_workers


class Foreman(threading.Thread):
    """The thread that leads the crew; others leave it orders, and find outcomes."""

    def __init__(self, n_workers: int) -> None:
        super().__init__(name="robusttc-foreman", daemon=True)
        self.outcomes: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self.crew = Crew(n_workers, self.outcomes.put)
        self.orders: deque[Callable[[], None] | None] = deque()
        self.ears, self.bell = Pipe(duplex=False)
        self.files: dict[int, SharedFile] = {}

    def order(self, what: Callable[[], None] | None) -> None:
        """Have something done by the thread; None ends it."""
        self.orders.append(what)
        self.bell.send_bytes(b"!")

    def run(self) -> None:
        """Lead the crew until told to end."""
        try:
            while self.follow_orders():
                self.crew.look([self.ears])
        except BaseException as error:  # told to whoever waits, in `ProcessExecutor.wait`
            self.outcomes.put(error)
        finally:
            self.crew.disband()

    def follow_orders(self) -> bool:
        """Do what was ordered; False for the order to end."""
        while self.ears.poll():
            self.ears.recv_bytes()
        while self.orders:
            what = self.orders.popleft()
            if what is None:
                return False
            what()
        return True

    def stop(self) -> None:
        """End the workers and remove the shared files."""
        if self.is_alive():
            self.order(None)
            self.join(CLOSE_SECONDS)
        for file in self.files.values():
            file.remove()
        self.files.clear()


class ProcessExecutor:
    """Does units in processes of this machine.

    Workers are started when there is work. One that ends is replaced; the unit that it was at is reported as
    ``died``, or as ``hung`` if it was over its time limit and was ended for that. All of them end with this
    process, however it ends.

    Parameters
    ----------
    n_workers
        How many processes work at the same time.
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
        self.n_workers = check_workers(n_workers)
        self.scratch = Path(tempfile.gettempdir()) if scratch is None else scratch
        remove_left_over(self.scratch)
        self._n_put = 0
        self._is_closed = False
        self._foreman = Foreman(n_workers)
        self._foreman.start()
        # Also when nobody closes it: at the end of the program, before workers are waited for.
        self._finalize = Finalize(self, Foreman.stop, args=(self._foreman,), exitpriority=100)

    def put(self, data: object) -> Handle:
        """Write data once for all workers; see `robusttc.work.sharing`."""
        self._check_open()
        file = share(data, self.scratch)
        self._n_put += 1
        handle = Shelved(self._n_put)
        self._foreman.files[handle.number] = file
        crew = self._foreman.crew
        self._foreman.order(lambda: crew.data.update({handle.number: file.data}))
        return handle

    def drop(self, handle: Handle) -> None:
        """Remove data that no unit under way needs."""
        number = shelf_number(handle)
        file = self._foreman.files.pop(number, None)
        if file is not None:
            crew = self._foreman.crew
            self._foreman.order(lambda: crew.drop(number))
            file.remove()

    def submit(self, ticket: int, unit: Unit, data: Handle | None, time_limit: float) -> None:
        """Give out a unit; its outcome will bear the ticket.

        Parameters
        ----------
        ticket
            A number that no other unit under way has.
        unit
            The unit.
        data
            What `put` gave.
        time_limit
            Seconds after which the worker is ended.
        """
        self._check_open()
        try:
            pickled = pickle.dumps((unit.work, unit.argument), protocol=5)
        except Exception as error:  # whatever the argument's classes raise: the unit cannot be done
            message = f"the unit cannot be sent to a worker: {describe_error(error)}"
            self._foreman.outcomes.put(Outcome(ticket, "raised", error=message, exception=error))
            return
        job = Job(ticket, pickled, None if data is None else shelf_number(data), time_limit)
        crew = self._foreman.crew
        self._foreman.order(lambda: crew.backlog.append(job))

    def wait(self, timeout: float) -> list[Outcome]:
        """Give all outcomes that are there, or wait for one at most so many seconds."""
        outcomes: list[Outcome] = []
        try:
            outcomes.append(self._next(timeout))
            while True:
                outcomes.append(self._next(0.0))
        except queue.Empty:
            return outcomes

    def _next(self, timeout: float) -> Outcome:
        found = self._foreman.outcomes.get(timeout > 0, timeout if timeout > 0 else None)
        if isinstance(found, BaseException):
            self.close()
            raise found
        return found

    def cancel(self) -> None:
        """Forget all units; workers that are at one are ended and replaced when there is work again."""
        self._foreman.order(self._foreman.crew.cancel)

    def close(self) -> None:
        """End all workers and remove shared data; units under way are lost."""
        self._is_closed = True
        self._finalize()

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("the workers have been closed", todo="make a new executor")

    def __enter__(self) -> ProcessExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def shelf_number(handle: Handle) -> int:
    """Give the number of shared data.

    Raises
    ------
    UsageError
        If another workshop has made the handle.
    """
    if not isinstance(handle, Shelved):
        raise UsageError(
            "the data was put elsewhere", got=quote(handle), expected="what `put` of the same gave"
        )
    return handle.number
