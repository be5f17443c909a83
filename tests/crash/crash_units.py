"""The units of the stub run: some milliseconds each, and every one says in a log that it was begun."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robusttc.jobs import Result
from robusttc.random import numpy_generator

UNIT_SECONDS = 0.004
N_TARGETS = 6


@dataclass(frozen=True, slots=True)
class Order:
    """What a unit is told.

    Attributes
    ----------
    key
        Its key, from which its random numbers come.
    log
        The file in which it says that it was begun.
    depends_on
        A number that earlier stages gave.
    seed
        The seed of the run.
    """

    key: str
    log: str
    depends_on: float = 0.0
    seed: int = 0


def note(order: Order) -> None:
    """Write that the unit was begun: who, what, in one write that no kill can tear."""
    handle = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{os.getpid()}\t{order.key}\n".encode())
    os.close(handle)


def measure(data: np.ndarray[Any, Any], order: Order) -> Result:
    """Give scores of a source on some targets."""
    note(order)
    time.sleep(UNIT_SECONDS)
    generator = numpy_generator(order.seed, "measure", [order.key])
    rows = generator.integers(len(data), size=(N_TARGETS, 50))
    score = data[rows].mean(axis=1) + order.depends_on
    return Result(
        {"key": order.key},
        {"score": score, "n_examples": np.full(N_TARGETS, 50), "error": data[rows].std(axis=1) / 7},
    )


def train(data: np.ndarray[Any, Any], order: Order) -> Result:
    """Give weights that depend on all scores; longer than a page of the database."""
    note(order)
    time.sleep(UNIT_SECONDS)
    generator = numpy_generator(order.seed, "train", [order.key])
    weights = generator.normal(size=700) * order.depends_on + data[:700]
    return Result({"loss": float(weights.sum())}, {"weights": weights.astype(np.float32)})


def fail(_data: Any, order: Order) -> Result:
    """Never give anything."""
    note(order)
    raise ValueError("poison")


def outlive(data: np.ndarray[Any, Any], order: Order) -> Result:
    """Leave a process behind that does not end with the run."""
    if order.key.endswith(" 0") and os.fork() == 0:
        time.sleep(30.0)
        os._exit(0)
    return measure(data, order)


def read_log(path: Path) -> list[tuple[int, str]]:
    """Give the process and the key of every unit that was begun."""
    if not path.exists():
        return []
    lines = [line.partition("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(int(process), key) for process, _, key in lines]
