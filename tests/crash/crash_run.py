"""A stub run: real store, runner and worker processes, but units of milliseconds.

It does what a fit does: shared data, a stage of scores, a stage that depends on them, a unit that always
fails, results that the caller keeps in files of its own, tables, manifest, and a value that says that it is
finished. What it does depends on nothing but its folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from crash_units import Order, fail, measure, train
from robusttc.run.creation import DATABASE
from robusttc.run.identity import Identity
from robusttc.run.manifest import write_manifest
from robusttc.run.score_rows import ScoreRows
from robusttc.run.workers import StoredJobs

from robusttc.files import write_file
from robusttc.jobs import Job, Result, Runner
from robusttc.jobs.processes import ProcessExecutor
from robusttc.run.store import RunStore

NAMES = (*(f"client {number}" for number in range(26)), "größe/ß", "tab\there")
N_MODELS = 12
N_LAYERS = 3
IDENTITY = Identity({"seed": 0}, {name: f"{len(name):064x}" for name in NAMES}, {"robusttc": "0"})
POISON = "fewshot/poison"
FINISHED = "finished"

# Told to the witness: a word, and what it is about.
Tell = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a stub run works.

    Attributes
    ----------
    folder
        Of the run; beside it are the log of its units and the folder for shared data.
    n_workers
        How many processes work.
    tries
        How often a unit is tried.
    """

    folder: Path
    n_workers: int = 2
    tries: int = 3

    @property
    def log(self) -> Path:
        """The file in which units say that they were begun."""
        return self.folder.with_suffix(".log")

    @property
    def scratch(self) -> Path:
        """The folder for shared data."""
        return self.folder.with_suffix(".scratch")


def make_executor(setting: Setting) -> ProcessExecutor:
    """Give the real executor."""
    return ProcessExecutor(setting.n_workers)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the run is made of; a planted fault replaces some of it."""

    measure: Callable[[Any, Any], Result] = measure
    make_executor: Callable[[Setting], ProcessExecutor] = make_executor
    is_finished_early: bool = False


def do_run(setting: Setting, tell: Tell, parts: Parts) -> None:
    """Begin the run or go on with it, to its end."""
    setting.scratch.mkdir(exist_ok=True)
    tempfile.tempdir = str(setting.scratch)
    with open_or_create(setting.folder) as store, closing(parts.make_executor(setting)) as executor:
        runner = Runner(executor, StoredJobs(store, scores_of), tries=setting.tries)
        data = runner.share(np.linspace(-1.0, 1.0, 2000))

        def do(stage: str, units: list[Job]) -> list[Result]:
            return do_stage(store, runner, stage, units, data, tell)

        scores = do("transfer", transfer_units(setting, parts))
        models = do("multitask", model_units(setting, scores))
        do("fewshot", poisoned_units(setting))
        write_layers(setting, runner, data)
        runner.release(data)
        if parts.is_finished_early:
            store.set_value(FINISHED, True)
        write_tables(setting.folder, store, models)
        store.set_value(FINISHED, True)
        tell("value", FINISHED)


def open_or_create(folder: Path) -> RunStore:
    """Begin the run or open it, as a program does."""
    if (folder / DATABASE).exists():
        return RunStore.open(folder, identity=IDENTITY)
    return RunStore.create(folder, IDENTITY)


def do_stage(
    store: RunStore, runner: Runner, stage: str, units: list[Job], data: Any, tell: Tell
) -> list[Result]:
    """Do a stage; every unit is told of when it counts, or that it was found finished."""
    before = set(store.find([unit.key for unit in units]))

    def on_result(unit: Job, _payload: Result) -> None:
        tell("found" if unit.key in before else "done", unit.key)

    store.begin_stage(stage, len(units))
    results = runner.run(stage, units, data, on_result=on_result)
    if stage == "fewshot" and not store.value("released"):
        store.release_quarantined()
        store.set_value("released", True)
        runner.run(stage, [unit for unit in units if unit.key == POISON], data)
    store.end_stage(stage)
    return [result for result in results if result is not None]


def transfer_units(setting: Setting, parts: Parts) -> list[Job]:
    """One unit a task, which gives its scores."""
    return [
        Job(key, parts.measure, Order(key, str(setting.log)), tasks=(name,))
        for name in NAMES
        for key in [f"transfer/{name}"]
    ]


def model_units(setting: Setting, scores: list[Result]) -> list[Job]:
    """Units that need all scores."""
    total = float(np.sum([payload.arrays["score"] for payload in scores]))
    keys = [f"multitask/fold {number % 3}/{number}" for number in range(N_MODELS)]
    return [Job(key, train, Order(key, str(setting.log), total)) for key in keys]


def poisoned_units(setting: Setting) -> list[Job]:
    """Good units around one that always fails."""
    orders = [Order(key, str(setting.log), 2.0) for key in ("fewshot/a", POISON, "fewshot/b")]
    return [
        Job(order.key, fail if order.key == POISON else train, order, tasks=("client 0",)) for order in orders
    ]


def write_layers(setting: Setting, runner: Runner, data: Any) -> None:
    """Do units whose results are not for the store: each goes to a file of its own when it is done."""
    places = {f"encode/{number}": setting.folder / f"models/layer-{number}.bin" for number in range(N_LAYERS)}
    units = [
        Job(key, train, Order(key, str(setting.log), 1.0), keep=False)
        for key, place in places.items()
        if not place.exists()
    ]

    def keep(unit: Job, payload: Result) -> None:
        write_file(places[unit.key], payload.arrays["weights"].tobytes())

    runner.run("encode", units, data, on_result=keep)


def write_tables(folder: Path, store: RunStore, models: list[Result]) -> None:
    """Write what people read, and the manifest."""
    columns = store.scores()
    rows = zip(columns["source"], columns["target"], columns["score"], strict=True)
    lines = [f"{NAMES[source]},{NAMES[target]},{float(score)!r}" for source, target, score in rows]
    write_file(folder / "scores.csv", "\n".join(["source,target,score", *lines, ""]).encode())
    losses = [payload.values["loss"] for payload in models]
    write_file(folder / "models/settings.json", json.dumps({"losses": losses}).encode())
    write_manifest(folder)


def scores_of(key: str, payload: Result) -> ScoreRows | None:
    """Give the scores of a unit of transfer."""
    if not key.startswith("transfer/"):
        return None
    source = key.removeprefix("transfer/")
    own = NAMES.index(source)
    arrays = payload.arrays
    targets = [NAMES[(own + 1 + 3 * place) % len(NAMES)] for place in range(len(arrays["score"]))]
    return ScoreRows(source, targets, arrays["score"], arrays["n_examples"], arrays["error"])
