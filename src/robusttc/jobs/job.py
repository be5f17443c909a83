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
    "decode_outcome",
    "describe_error",
    "encode_outcome",
    "failed",
    "join_buffers",
    "limit_environment",
    "limit_threads",
    "one_thread",
    "pack",
    "run_job",
    "split_buffers",
    "unpack",
]

VALUES = "values"
# Some versions of safetensors refuse a file without arrays.
NO_ARRAYS = "no arrays"
# Smaller arrays stay in the pickle: a block of their own would cost more than it saves.
MIN_BUFFER_BYTES = 4096
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
    """How one attempt at a job ended.

    Attributes
    ----------
    ticket
        The number under which the job was submitted.
    kind
        ``done``; ``raised`` an error; ``died``: its worker ended before it was done; ``timeout``: it exceeded
        its time limit and its worker was stopped.
    content
        The packed result of a job that is done, else None.
    error
        One line for people, of a job that is not done, else None.
    exception
        What the job raised, where that can be sent between processes, else None.
    seconds, cpu_seconds, peak_bytes
        Wall time, CPU time and largest memory of the worker so far, where they are known.
    """

    ticket: int
    kind: Literal["done", "raised", "died", "timeout"]
    content: bytes | None = None
    error: str | None = None
    exception: BaseException | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


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
    arrays = {name: _contiguous(array) for name, array in sorted(result.arrays.items())}
    return bytes(save(arrays or {NO_ARRAYS: np.zeros(1, dtype=np.uint8)}, metadata={VALUES: values}))


def _contiguous(array: Any) -> NDArray[Any]:
    """Return a little-endian array in C order."""
    found = np.asarray(array)
    return np.array(found, dtype=found.dtype.newbyteorder("<"), order="C")


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
        header_bytes = int.from_bytes(content[:8], "little")
        header = decode_json(content[8 : 8 + header_bytes].decode())
        values = decode_json(header["__metadata__"][VALUES])
        loaded: Mapping[str, Any] = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise StoreError("a stored result is damaged", where=where, got=quote(error)) from error
    if not isinstance(values, dict):
        raise StoreError("a stored result is damaged", where=where, got=quote(values), expected="a mapping")
    # Copies: those of safetensors are read-only, which numba compiles as another type.
    return Result(values, {name: np.array(array) for name, array in loaded.items() if name != NO_ARRAYS})


def run_job(ticket: int, function: Callable[[Any, Any], Result], argument: Any, shared: Any) -> Outcome:
    """Call the function of a job and return its packed result or its error."""
    start, cpu_start = time.perf_counter(), time.process_time()
    try:
        outcome = Outcome(ticket, "done", pack(function(shared, argument)))
    except (Exception, SystemExit) as error:
        outcome = failed(ticket, error)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return replace(outcome, seconds=seconds, cpu_seconds=cpu_seconds, peak_bytes=_peak_bytes())


def failed(ticket: int, error: BaseException, *, prefix: str = "") -> Outcome:
    """Return the outcome of a job that raised."""
    return Outcome(ticket, "raised", error=f"{prefix}{describe_error(error)}", exception=error)


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, with the place in the code where it is not one of ours.

    Examples
    --------
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
    last = frames[-1]
    return f"{named} ({Path(last.filename).name}:{last.lineno}, in {last.name})"


def encode_outcome(outcome: Outcome) -> bytes:
    """Pickle an outcome in a worker; an exception that cannot be pickled and restored is left out.

    Pickles travel from a worker to the process that started it, over their own pipe, and no further.
    """
    error = outcome.exception
    if error is not None:
        # A traceback cannot be pickled; a note can.
        error.add_note(f"In a worker:\n{''.join(traceback.format_exception(error))}")
        try:
            restored = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled in this line
        except Exception:  # whatever foreign classes raise
            restored = None
        if not isinstance(restored, BaseException):
            outcome = replace(outcome, exception=None)
    return pickle.dumps(outcome, protocol=5)


def decode_outcome(content: bytes) -> Outcome:
    """Return the outcome that a worker has pickled."""
    outcome = pickle.loads(content)  # noqa: S301 - from a worker that this process has started
    if not isinstance(outcome, Outcome):
        raise TypeError(f"{type(outcome)} is not an outcome")
    return outcome


def split_buffers(data: Any) -> tuple[bytes, list[memoryview]]:
    """Pickle shared data without its large arrays, and return these beside it."""
    buffers: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        block = buffer.raw()
        if block.nbytes >= MIN_BUFFER_BYTES:
            buffers.append(block)
        return block.nbytes < MIN_BUFFER_BYTES

    return pickle.dumps(data, protocol=5, buffer_callback=stays_inside), buffers


def join_buffers(head: bytes, buffers: list[Any]) -> Any:
    """Restore the data that `split_buffers` has split."""
    return pickle.loads(head, buffers=buffers)  # noqa: S301 - pickled by the process that started this one


def limit_environment() -> None:
    """Let linear-algebra libraries that are loaded from now on start with one thread."""
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"


def limit_threads() -> None:
    """Limit all loaded linear-algebra libraries to one thread, for good: the start of a job in a worker.

    The number of threads decides in which order sums are rounded: one thread gives the same bits everywhere.
    """
    _limit_threads_once(len(sys.modules))


@lru_cache(maxsize=1)
def _limit_threads_once(_n_modules: int) -> None:
    # Only after modules were loaded: scanning the libraries of the process takes 2 ms.
    _thread_controller(_n_modules).limit(limits=1)
    torch = _torch()
    if torch is not None:
        torch.set_num_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit all loaded linear-algebra libraries to one thread inside the block."""
    torch = _torch()
    n_threads = None if torch is None else torch.get_num_threads()
    with _thread_controller(len(sys.modules)).limit(limits=1):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(n_threads)


@lru_cache(maxsize=1)
def _thread_controller(_n_modules: int) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _torch() -> Any:
    torch = sys.modules.get("torch")
    # A module that is being imported has no functions yet.
    return torch if hasattr(torch, "set_num_threads") else None


def _peak_bytes() -> int:
    """Return the largest memory that this process has used so far."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
