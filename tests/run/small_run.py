"""A little run: the same units, scores, failures, values and files every time, stopped wherever it is."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from robusttc.files import write_file
from robusttc.run.identity import Identity
from robusttc.run.manifest import list_files, write_manifest
from robusttc.run.records import FinishedUnit
from robusttc.run.score_rows import ScoreRows
from robusttc.run.store import RunStore

NAMES = ("acme", "größe/ß", "tab\tnew\nline", "quote'\"%_", "nul\x00inside", "東京", "plain", "last one")
IDENTITY = Identity(
    {"seed": 0, "encoder": {"name": "sentence", "layers": [1, 2]}},
    {name: hashlib.sha256(name.encode()).hexdigest() for name in NAMES},
    {"robusttc": "0.1.0", "numpy": "2"},
)
FILES = {"models/one/arrays.bin": bytes(range(256)) * 8, "clusters.csv": b"task,cluster\nacme,0\n"}
N_TRANSFER = len(NAMES)


def make_scores(number: int, *, n_targets: int = 5) -> ScoreRows:
    """Scores of one source, the same for the same number."""
    generator = np.random.default_rng(number)
    targets = [NAMES[place] for place in generator.permutation(len(NAMES))[:n_targets]]
    columns = generator.normal(size=(4, n_targets))
    columns[0, 0] = -0.0  # which SQLite does not know
    n_examples = generator.integers(1, 500, size=n_targets)
    return ScoreRows(NAMES[number], targets, columns[0], n_examples, abs(columns[1]), columns[2], columns[3])


def make_unit(number: int) -> FinishedUnit:
    """A unit of transfer; its result is of another length every time."""
    return FinishedUnit(
        stage="transfer",
        key=f"transfer/{NAMES[number]}",
        content=np.random.default_rng(100 + number).bytes(37 + 700 * number),
        scores=make_scores(number),
        seconds=0.5,
        cpu_seconds=0.25,
        peak_bytes=1000 + number,
        attempts=1 + number % 3,
    )


def other_unit(name: str, size: int = 9000) -> FinishedUnit:
    """A unit of another stage, without scores, longer than a page of the database."""
    content = np.random.default_rng(size).bytes(size)
    return FinishedUnit(stage="multitask", key=f"multitask/{name}", content=content)


def batches() -> list[list[FinishedUnit]]:
    """All units, in the batches in which they are committed."""
    units = [make_unit(number) for number in range(N_TRANSFER)]
    return [units[:1], units[1:4], units[4:], [other_unit("a")], [other_unit("b", 1), other_unit("empty", 0)]]


ALL_UNITS = {unit.key: unit for batch in batches() for unit in batch}


def open_or_create(folder: Path) -> RunStore:
    """Begin the run or go on with it, as a program does."""
    if (folder / "run.sqlite").exists():
        return RunStore.open(folder, identity=IDENTITY)
    return RunStore.create(folder, IDENTITY)


def nobody(_keys: Iterable[str]) -> None:
    """Nobody wants to know what is acknowledged."""


def do_run(
    folder: Path, acknowledge: Callable[[Iterable[str]], None] = nobody, *, early: bool = False
) -> None:
    """Do what is not done yet, and say every key when it is there for good (or, wrongly, just before)."""
    with open_or_create(folder) as store:
        store.begin_stage("transfer", N_TRANSFER)
        for batch in batches():
            left = [unit for unit in batch if unit.key not in store.find([unit.key])]
            if left:
                if early:
                    acknowledge([unit.key for unit in left])
                store.finish_many(left)
                acknowledge([unit.key for unit in left])
        store.end_stage("transfer")
        if not store.value("tried"):
            store.record_failure("fewshot", "fewshot/x", "ValueError: no", ["acme"])
            store.quarantine("fewshot", "fewshot/x", "ValueError: no", ["acme"])
            store.release_quarantined()
            store.set_value("tried", True)
        if not store.quarantined():
            store.quarantine("fewshot", "fewshot/bad", "ValueError: never", ["acme", "plain"])
        for name, content in FILES.items():
            write_file(folder / name, content)
        write_manifest(folder)
        store.set_value("finished", {"at": [1, 2.5, None]})
        acknowledge(["finished"])


def tell(folder: Path) -> dict[str, Any]:
    """Everything that a run says, but for times."""
    with RunStore.open(folder, read_only=True) as store:
        return {
            "identity": store.identity.fingerprint,
            "units": store.find(ALL_UNITS),
            "finished": [store.finished(stage) for stage in ("transfer", "multitask", "fewshot")],
            "scores": {name: column.tobytes() for name, column in store.scores().items()},
            "n_scores": store.n_scores(),
            "quarantined": store.quarantined(),
            "values": [store.value("tried"), store.value("finished")],
            "costs": [(cost.stage, cost.units, cost.cpu_seconds, cost.peak_bytes) for cost in store.costs()],
            "files": {name: fact for name, fact in list_files(folder).items() if name in FILES},
        }


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Give a new folder in memory where there is one: what a killed process wrote survives there too."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is a new one
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if usable else None, prefix="robusttc-run-") as folder:
        yield Path(folder)


def find_faults(folder: Path, acknowledged: set[str]) -> list[str]:
    """What is wrong with a run that was stopped: something acknowledged is lost, or something is half."""
    faults: list[str] = []
    if (folder / "run.sqlite").exists():
        with RunStore.open(folder) as store:
            store.check()
            there = store.find(ALL_UNITS)
            wrong = [key for key, content in there.items() if content != ALL_UNITS[key].content]
            faults += [f"another result of {key!r}" for key in wrong]
            faults += [f"lost {key!r}" for key in acknowledged - there.keys() - {"finished"}]
            if "finished" in acknowledged and store.value("finished") is None:
                faults.append("lost the value 'finished'")
            n_expected = sum(len(unit.scores) for key in there if (unit := ALL_UNITS[key]).scores is not None)
            n_found = [store.n_scores(), len(store.scores()["score"])]
            if n_found != [n_expected, n_expected]:
                faults.append(f"{n_found} scores where {n_expected} should be")
    elif acknowledged:
        faults.append("lost the whole run")
    for name, content in FILES.items():
        if (folder / name).exists() and (folder / name).read_bytes() != content:
            faults.append(f"half of {name}")
    return faults
