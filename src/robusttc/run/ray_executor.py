"""Units on a Ray cluster: the same units, the same results. Ray may lose work; the store does not."""

from __future__ import annotations

import math
import os
import time
import uuid
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any

import numpy as np

from robusttc.errors import UsageError, quote
from robusttc.run import ray_address
from robusttc.run.ray_worker import do_nothing, do_unit
from robusttc.version import __version__
from robusttc.work.outcomes import Kind, Outcome
from robusttc.work.performing import describe_error, outcome_of
from robusttc.work.process_executor import check_workers
from robusttc.work.sharing import split
from robusttc.work.units import Handle, Unit

__all__ = ["RayExecutor"]

# How long the number of processors of a cluster is believed; nodes come and go.
RECOUNT_SECONDS = 5.0
# Starting the first worker takes a second; a cluster may have to start a node for it.
TRY_SECONDS = 300.0
# Ray puts whole tracebacks into its errors, with the reason last.
MAX_ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True, eq=False)
class InRay:
    """Data in Ray's object store."""

    number: str


@dataclass(frozen=True, slots=True, eq=False)
class UnderWay:
    """A unit that Ray has."""

    ticket: int
    started: float
    time_limit: float


class RayExecutor:
    """Does units as Ray tasks of one processor each.

    Ray is told to try nothing again: a unit whose worker or node is lost is reported as ``died``, and whoever
    gave it out decides. A unit over its time limit ends its own worker, and is reported as ``hung``.

    Parameters
    ----------
    address
        ``host:port`` of the head node of a cluster; None takes the environment variable ``RAY_ADDRESS``, or,
        without that, starts a Ray of our own on this machine, for other processes of this user alone. A
        Ray that the program has connected to already is used as it is.
    n_workers
        How many units a Ray of our own does at the same time; None for one a core. A cluster decides itself.

    Raises
    ------
    UsageError
        If Ray is not installed, or the address cannot or must not be used.
    """

    def __init__(self, address: str | None = None, *, n_workers: int | None = None) -> None:
        self.address = os.environ.get("RAY_ADDRESS") or None if address is None else address
        self.n_local = None if n_workers is None else check_workers(n_workers)
        if self.address is not None:
            ray_address.check_address(self.address)
        self._module: ModuleType | None = None
        self._is_ours = False
        self._is_closed = False
        self._task: Any = None
        self._shelf: dict[str, list[Any]] = {}
        self._under_way: dict[Any, UnderWay] = {}
        self._failed: list[Outcome] = []
        self._counted = (0.0, 1)

    @property
    def n_workers(self) -> int:
        """How many processors the cluster has now."""
        counted, number = self._counted
        if time.monotonic() - counted > RECOUNT_SECONDS:
            number = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            self._counted = time.monotonic(), number
        return number

    @property
    def _ray(self) -> ModuleType:
        """Ray, connected; at the first use, not before, because starting takes seconds."""
        if self._is_closed:
            raise UsageError("the connection to Ray has been closed", todo="make a new executor")
        if self._module is None:
            self._module = self._connect()
        return self._module

    def _connect(self) -> ModuleType:
        if self.address is None:
            ray_address.prepare_own_ray()
        else:
            ray_address.set_quiet()
        ray = ray_address.import_ray()
        if not ray.is_initialized():
            self._is_ours = True
            self._start(ray)
        self._task = ray.remote(do_unit).options(num_cpus=1, max_retries=0, retry_exceptions=False)
        try:
            ray_address.check_connected(ray.get_runtime_context().gcs_address)
            self._try_out(ray)
        except UsageError:
            self.close()
            raise
        return ray

    def _try_out(self, ray: ModuleType) -> None:
        """Do nothing on a node: better one error now than that every unit fails later for the same reason."""
        try:
            pickled = ray.cloudpickle.dumps((do_nothing, None))
            ray.get(self._task.remote(__version__, pickled, None, {}, math.inf), timeout=TRY_SECONDS)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise UsageError(
                "the nodes of the Ray cluster cannot do our work",
                got=describe_error(cause)[-MAX_ERROR_CHARACTERS:],
                todo="install the same versions of robusttc and Python on all nodes, "
                "and see that a processor is free",
            ) from error

    def _start(self, ray: ModuleType) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False}
        if self.address is None:
            number = self.n_local or os.cpu_count() or 1
            ray.init(
                address="local",
                num_cpus=number,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
            return
        ray_address.check_reachable(self.address)
        try:
            ray.init(address=self.address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(
                "the Ray cluster does not answer",
                where="RAY_ADDRESS",
                got=f"{quote(self.address)}: {describe_error(error)}",
                todo="see whether its nodes have the same versions of Ray and Python, and the same token",
            ) from error

    def put(self, data: Any) -> Handle:
        """Put data into Ray's object store; each worker process fetches it once."""
        head, blocks = split(data)
        arrays = [np.frombuffer(block, dtype=np.uint8) for block in blocks]
        # No two drivers of a cluster have the same numbers.
        handle = InRay(uuid.uuid4().hex)
        self._shelf[handle.number] = [self._ray.put((head, arrays))]
        return handle

    def drop(self, handle: Handle) -> None:
        """Let go of data that no unit under way needs."""
        self._shelf.pop(number_of(handle), None)

    def submit(self, ticket: int, unit: Unit, data: Handle | None, time_limit: float) -> None:
        """Give out a unit; see `robusttc.run.executor.Executor`."""
        number = None if data is None else number_of(data)
        ray = self._ray
        try:
            # Ray's own kind of pickle also takes functions of a script.
            pickled = ray.cloudpickle.dumps((unit.work, unit.argument))
        except Exception as error:  # whatever the argument's classes raise: the unit cannot be done
            message = f"the unit cannot be sent to a worker: {describe_error(error)}"
            self._failed.append(Outcome(ticket, "raised", error=message, exception=error))
            return
        reference = self._task.remote(__version__, pickled, number, dict(self._shelf), time_limit)
        self._under_way[reference] = UnderWay(ticket, time.monotonic(), time_limit)

    def wait(self, timeout: float) -> list[Outcome]:
        """Give all outcomes that are there, or wait for one at most so many seconds."""
        outcomes, self._failed = self._failed, []
        references = list(self._under_way)
        if not references:
            return outcomes
        ray = self._ray
        ray.wait(references, num_returns=1, timeout=0.0 if outcomes else timeout)
        ready, _ = ray.wait(references, num_returns=len(references), timeout=0.0)
        return outcomes + [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> Outcome:
        """Find out what became of a unit."""
        unit = self._under_way.pop(reference)
        exceptions = self._ray.exceptions
        try:
            return outcome_of(unit.ticket, self._ray.get(reference))
        except exceptions.RayTaskError as error:
            cause = error.cause
            # Raised outside the unit: data was lost, or this node cannot do our work.
            kind: Kind = "died" if isinstance(cause, exceptions.RayError) else "raised"
            return Outcome(unit.ticket, kind, error=describe_error(cause)[-MAX_ERROR_CHARACTERS:])
        except exceptions.RayError as error:
            seconds = time.monotonic() - unit.started
            if seconds >= unit.time_limit:
                message = f"not done after its time limit of {unit.time_limit:g} s"
                return Outcome(unit.ticket, "hung", error=message, seconds=seconds)
            message = f"the Ray worker was lost: {describe_error(error)}"
            return Outcome(unit.ticket, "died", error=message, seconds=seconds)

    def close(self) -> None:
        """End units under way, and the connection (and the Ray) if we have made it."""
        ray, self._module = self._module, None
        self._is_closed = True
        if ray is not None:
            for reference in self._under_way:
                ray.cancel(reference, force=True)
        self._under_way.clear()
        self._shelf.clear()
        if self._is_ours:
            self._is_ours = False
            ray_address.import_ray().shutdown()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def number_of(handle: Handle) -> str:
    """Refuse a handle of another executor."""
    if not isinstance(handle, InRay):
        raise UsageError(
            "the data was put elsewhere", got=quote(handle), expected="what `put` of the same gave"
        )
    return handle.number
