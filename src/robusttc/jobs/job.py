"""Jobs: what long computations are cut into, so that they can be distributed, stored and resumed.

A job calls a module-level function with shared data and a small argument, and returns JSON values and arrays.
Its result depends on these two alone: not on the process that runs it, the other jobs, or earlier attempts.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import RobustTCError, StoreError, quote
from robusttc.files import decode_json, encode_json

__all__ = [
    "Job",
    "Outcome",
    "Result",
    "describe_error",
    "limit_environment",
    "one_thread",
    "pack",
    "peak_memory",
    "run_job",
    "run_pickled",
    "unpack",
]

VALUES = "__values__"  # the name under which a packed result has its values
# Read by the linear-algebra libraries when they are loaded.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a job returns: `values` that JSON can hold (keys are strings), and `arrays` by name."""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One piece of work.

    Attributes
    ----------
    key
        Its unique name within the computation, for instance ``"transfer/acme"``. The same piece of work has
        the same key in every run of the program: results are looked up by it.
    function
        A module-level function (so that another process finds it) of the shared data and the argument.
    argument
        What this job is about; small, because it is sent with the job.
    tasks
        The tasks that it is about, for messages and for leaving out a task that cannot be processed.
    keep
        Whether the result is stored; False where the caller stores it elsewhere.
    """

    key: str
    function: Callable[[Any, Any], Result]
    argument: Any = None
    tasks: tuple[str, ...] = ()
    keep: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How an attempt at a job ended.

    ``done``: `content` is the packed result. Otherwise `error` is one line for people: the job ``raised``
    (`exception` is what, where that can be sent between processes), its worker ``died``, or it exceeded its
    time limit and its worker was stopped (``timeout``).
    """

    key: str
    kind: Literal["done", "raised", "died", "timeout"]
    content: bytes | None = None
    error: str | None = None
    exception: BaseException | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0  # the largest memory of the worker so far


def pack(result: Result) -> bytes:
    """Return a result as one safetensors block: equal results give equal bytes.

    Raises
    ------
    UsageError
        If a value is not JSON (NaN and infinities among them: those belong into arrays).

    Examples
    --------
    >>> unpack(pack(Result({"a": 1}, {"b": np.arange(2)}))).arrays["b"].tolist()
    [0, 1]
    """
    from safetensors.numpy import save

    values = encode_json(dict(result.values), where="the result of a job")
    arrays = {VALUES: np.frombuffer(values.encode(), dtype=np.uint8), **result.arrays}
    arrays = {name: np.asarray(array) for name, array in sorted(arrays.items())}
    return bytes(
        save({name: np.array(a, a.dtype.newbyteorder("<"), order="C") for name, a in arrays.items()})
    )


def unpack(content: bytes, *, where: str = "a stored result") -> Result:
    """Return the result from the bytes of `pack`; its arrays are new and writable.

    Raises
    ------
    StoreError
        If the bytes are not such a result.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        # Copies: those of safetensors are read-only, which numba compiles as another type.
        arrays = {name: np.array(array) for name, array in load(content).items()}
        return Result(dict(decode_json(arrays.pop(VALUES).tobytes().decode())), arrays)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise StoreError("a stored result is damaged", where=where, got=quote(error)) from error


def run_job(job: Job, shared: Any) -> Outcome:
    """Call the function of a job, with one thread, and return its packed result or its error."""
    start, cpu_start = time.perf_counter(), time.process_time()
    try:
        with one_thread():
            outcome = Outcome(job.key, "done", pack(job.function(shared, job.argument)))
    except (Exception, SystemExit) as error:
        outcome = Outcome(job.key, "raised", error=describe_error(error), exception=error)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return replace(outcome, seconds=seconds, cpu_seconds=cpu_seconds, peak_bytes=peak_memory())


def run_pickled(key: str, pickled: bytes, load_shared: Callable[[], Any]) -> Outcome:
    """Run a job in a worker, and return an outcome that can be sent between processes."""
    try:
        job: Job = pickle.loads(pickled)  # noqa: S301 - from the process that started this one
        outcome = run_job(job, load_shared())
    except Exception as error:  # whatever foreign modules and classes raise when they are restored
        outcome = Outcome(key, "raised", error=describe_error(error), exception=error)
    raised = outcome.exception
    if raised is not None:
        # A traceback cannot be pickled; a note can.
        raised.add_note(f"In a worker:\n{''.join(traceback.format_exception(raised))}")
        try:
            pickle.loads(pickle.dumps(raised))  # noqa: S301 - pickled in this line
        except Exception:  # whatever foreign classes raise
            outcome = replace(outcome, exception=None)
    return outcome


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, with the place in the code where it is not one of ours.

    >>> describe_error(ValueError("out of range"))
    'ValueError: out of range'
    """
    text = " ".join(str(error).split())
    if isinstance(error, RobustTCError):
        return text
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return named
    return f"{named} ({Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name})"


def limit_environment() -> None:
    """Let linear-algebra libraries that are loaded from now on start with one thread."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit all loaded linear-algebra libraries to one thread inside the block.

    The number of threads decides in which order sums are rounded: one thread gives the same bits everywhere.
    """
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "set_num_threads"):  # not loaded, or not yet
        torch = None
    n_threads = torch and torch.get_num_threads()
    with _thread_controller(len(sys.modules)).limit(limits=1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(n_threads)


@lru_cache(maxsize=1)
def _thread_controller(_n_modules: int) -> Any:
    # Made again only after modules were loaded: scanning the libraries of the process takes 2 ms.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def peak_memory() -> int:
    """Return the largest memory in bytes that this process has used so far."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
