"""Jobs on a Ray cluster: the same jobs, the same results. Ray may lose work; the store does not.

Whoever reaches the ports of a Ray cluster runs code on it. So a cluster is used only on the loopback
interface of this machine, or with token authentication. A private Ray, started here, has both: it listens on
the loopback interface alone, and its token is known to this process and its children alone.
"""

from __future__ import annotations

import faulthandler
import importlib
import ipaddress
import os
import pickle
import secrets
import socket
import time
from contextlib import suppress
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from robusttc.errors import UsageError, quote
from robusttc.jobs.job import Job, Outcome, describe_error, limit_environment, run_pickled
from robusttc.params import Integer, Nothing, check_param
from robusttc.version import __version__

__all__ = ["RayExecutor", "check_address", "import_ray", "is_loopback", "prepare_environment", "run_on_node"]

# Starting the first worker takes a second; a cluster may have to start a node for it.
TRY_SECONDS = 300.0
CONNECT_SECONDS = 5.0
MAX_SECONDS = 1e6  # of a job without a time limit
MAX_ERROR_CHARACTERS = 500  # Ray puts whole tracebacks into its errors, with the reason last
AUTO = "auto"  # the address by which Ray finds a cluster itself; where that is, is known afterwards
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray prints every lost worker to the standard output, which belongs to the commands.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # It would hide graphics cards from a job that asks for none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class RayExecutor:
    """Runs jobs as Ray tasks of one processor each.

    Ray retries nothing: a job whose worker or node is lost ends as ``died``, and the runner decides. A job
    over its time limit ends its own worker, and ends as ``timeout``. `address` is ``host:port`` of the head
    node of a cluster; None takes the environment variable ``RAY_ADDRESS``, or else starts a private Ray on
    this machine with `n_workers` jobs at a time (None: one per core). A Ray that the program has connected to
    is used as it is.
    """

    def __init__(self, address: str | None = None, *, n_workers: int | None = None) -> None:
        check_param("n_workers", n_workers, Integer(1), Nothing())
        self.address = os.environ.get("RAY_ADDRESS") or None if address is None else address
        self.n_private = n_workers
        if self.address is not None:
            check_address(self.address)
        self._module: ModuleType | None = None
        self._is_ours = self._is_closed = False
        self._task: Any = None
        # Key, start and time limit of the jobs that Ray has.
        self._in_flight: dict[Any, tuple[str, float, float]] = {}

    @property
    def n_workers(self) -> int:
        """How many processors the cluster has now; nodes come and go."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def share(self, data: Any) -> list[Any]:
        """Put data into Ray's object store, pickled: Ray's own arrays are read-only."""
        # In a list: Ray would fetch a bare reference before it is known whether a worker has the data.
        return [self._ray.put(pickle.dumps(data, protocol=5))]

    def release(self, reference: list[Any]) -> None:
        """Free shared data: Ray does, once nobody has the reference."""
        reference.clear()

    def submit(self, job: Job, shared: list[Any] | None, time_limit: float) -> None:
        """Queue a job; see `robusttc.jobs.runner.Executor`."""
        # Ray's own pickle also takes functions of a script.
        pickled = self._ray.cloudpickle.dumps(job)
        reference = self._task.remote(__version__, job.key, pickled, shared, time_limit)
        self._in_flight[reference] = (job.key, time.monotonic(), time_limit)

    def wait(self, timeout: float) -> list[Outcome]:
        """Return the outcomes that have arrived, or wait at most `timeout` seconds for one."""
        references = list(self._in_flight)
        if not references:
            return []
        self._ray.wait(references, num_returns=1, timeout=timeout)
        ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0.0)
        return [self._outcome(reference) for reference in ready]

    def cancel(self) -> None:
        """Forget all jobs, and stop the workers that run them."""
        if self._module is not None:
            for reference in self._in_flight:
                self._module.cancel(reference, force=True)
        self._in_flight.clear()

    def close(self) -> None:
        """Stop jobs in flight, and the connection (and the private Ray) if it was made here."""
        self.cancel()
        self._is_closed = True
        self._module = None
        if self._is_ours:
            self._is_ours = False
            import_ray().shutdown()

    @property
    def _ray(self) -> ModuleType:
        """Ray, connected at the first use and not before, because starting takes seconds."""
        if self._is_closed:
            raise UsageError("the connection to Ray has been closed", todo="create a new executor")
        if self._module is None:
            self._module = self._connect()
        return self._module

    def _connect(self) -> ModuleType:
        prepare_environment(is_private=self.address is None)
        ray = import_ray()
        if not ray.is_initialized():
            self._is_ours = True
            self._start(ray)
        self._task = ray.remote(run_on_node).options(num_cpus=1, max_retries=0, retry_exceptions=False)
        try:
            check_address(ray.get_runtime_context().gcs_address)
            # Not even a job: better one error now than that every job fails later for the same reason.
            ray.get(self._task.remote(__version__, "", b"", None, TRY_SECONDS), timeout=TRY_SECONDS)
        except ray.exceptions.RayError as error:
            self.close()
            raise UsageError(
                "the nodes of the Ray cluster cannot run our jobs",
                got=describe_error(getattr(error, "cause", None) or error)[-MAX_ERROR_CHARACTERS:],
                todo="install the same versions of robusttc and Python on all nodes, "
                "and check that a processor is free",
            ) from error
        except UsageError:
            self.close()
            raise
        return ray

    def _start(self, ray: ModuleType) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False}
        if self.address is None:
            n_workers = self.n_private or os.cpu_count() or 1
            loopback = {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
            ray.init(address="local", num_cpus=n_workers, **loopback, **quiet)
            return
        try:
            if self.address != AUTO:  # in seconds; Ray itself would try for minutes
                socket.create_connection(_split_address(self.address), timeout=CONNECT_SECONDS).close()
            ray.init(address=self.address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(
                "the Ray cluster does not answer",
                where="RAY_ADDRESS",
                got=f"{quote(self.address)}: {describe_error(error)}",
                todo="check that it was started with `ray start --head`, with the same versions of Ray and "
                "Python and the same token, or unset RAY_ADDRESS to use this machine alone",
            ) from error

    def _outcome(self, reference: Any) -> Outcome:
        """Return how a job ended."""
        key, started, time_limit = self._in_flight.pop(reference)
        exceptions = self._ray.exceptions
        seconds = time.monotonic() - started
        try:
            outcome: Outcome = self._ray.get(reference)
            return outcome
        except exceptions.RayTaskError as error:
            # Raised outside the job: data was lost, or this node cannot run our jobs.
            is_lost = isinstance(error.cause, exceptions.RayError)
            message = describe_error(error.cause)[-MAX_ERROR_CHARACTERS:]
            return Outcome(key, "died" if is_lost else "raised", error=message)
        except exceptions.RayError as error:
            if seconds >= time_limit:
                message = f"not done after its time limit of {time_limit:g} s"
                return Outcome(key, "timeout", error=message, seconds=seconds)
            message = f"the Ray worker was lost: {describe_error(error)}"
            return Outcome(key, "died", error=message, seconds=seconds)


def run_on_node(
    version: str, key: str, pickled: bytes, reference: list[Any] | None, time_limit: float
) -> Outcome:
    """Run a job in a Ray worker; a node with another version of the package is refused.

    The job is pickled: Ray itself transports pickles, and whoever reaches it can run code, hence
    `check_address`.
    """
    if version != __version__:
        raise UsageError(
            "this Ray node has another version of robusttc",
            got=__version__,
            expected=version,
            todo="install the same version on all nodes",
        )
    limit_environment()
    with open(os.devnull, "w") as devnull:  # noqa: PTH123 - not a path
        # Ends this process also inside a computation that lets no thread run.
        faulthandler.dump_traceback_later(min(time_limit, MAX_SECONDS), exit=True, file=devnull)
        try:
            # Outside the job: data that was lost on the way is no fault of it.
            shared = None if reference is None else _fetch(reference[0])
            return run_pickled(key, pickled, lambda: shared)
        finally:
            faulthandler.cancel_dump_traceback_later()


# On a node: the shared data of the last job that needed any, by its number in Ray.
_fetched: dict[str, Any] = {}


def _fetch(reference: Any) -> Any:
    number = reference.hex()
    if number not in _fetched:
        import ray

        data = pickle.loads(ray.get(reference))  # noqa: S301 - from the driver, see `run_on_node`
        _fetched.clear()
        _fetched[number] = data
    return _fetched[number]


def import_ray() -> ModuleType:
    """Import Ray, which few people need; a UsageError says how to install it."""
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise UsageError(
            "Ray is not installed", todo="install it with `pip install 'robusttc[ray]'`, or work without it"
        ) from error


def prepare_environment(*, is_private: bool) -> None:
    """Set environment variables for Ray; before it is imported, because it reads some of them once."""
    new = dict(ENVIRONMENT)
    if is_private:
        # The only way to hold Ray to the loopback interface: it takes "127.0.0.1" for the machine's own
        # address and listens on all interfaces. On macOS this is its default.
        new["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        if "RAY_AUTH_MODE" not in os.environ:
            new["RAY_AUTH_MODE"] = "token"
            # Otherwise Ray would write one to the home folder, readable by everyone.
            if "RAY_AUTH_TOKEN_PATH" not in os.environ:
                new["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    for name, value in new.items():
        os.environ.setdefault(name, value)


def check_address(address: str) -> None:
    """Refuse what is not ``host:port`` or ``auto``, and another machine without token authentication.

    >>> check_address("127.0.0.1:6379")
    """
    if address == AUTO or is_loopback(_split_address(address)[0]):
        return
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return
    raise UsageError(
        "this Ray cluster is not on the loopback interface and has no authentication: "
        "whoever reaches its ports can run code on it and on this machine",
        where="RAY_ADDRESS",
        got=quote(address),
        expected="an address on the loopback interface, or token authentication",
        todo="start the cluster with RAY_AUTH_MODE=token, and set RAY_AUTH_MODE=token and the token here",
    )


def _split_address(address: str) -> tuple[str, int]:
    with suppress(ValueError):
        parts = urlsplit(f"//{address}")
        if parts.hostname is not None and parts.port is not None and parts.netloc == address:
            return parts.hostname, parts.port
    raise UsageError(
        "the address of a Ray cluster cannot be used",
        where="RAY_ADDRESS",
        got=quote(address),
        expected="host:port of its head node, for instance 127.0.0.1:6379; or auto",
    )


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine's loopback interface.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.5")
    (True, True, False)
    """
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False
