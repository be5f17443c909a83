"""One table of results: a JSON file of records that grows as they are made, and can be gone on with.

A record is what one way of learning reached with one seed on one set of targets: the accuracy of every target
on all and on *novel* test texts (whose text, lower-cased, letters and digits only, occurs in no other task),
what it was given, and what it cost. The file also names the data, with a hash of what was used, the versions
and the machine. A record that is in the file is not made again. A file of another table, setting or data is
refused: its figures could not be compared.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robusttc import TaskSet, __version__
from robusttc.errors import StoreError, quote

__all__ = ["RESULTS", "Cost", "Figures", "Setting", "Stopwatch", "Table", "Way", "default_path", "key_of"]

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results" / "paper"
DIGITS = 5

Setting = Literal["full", "quick"]
Accuracies = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Way:
    """What a record is about: a way of learning, the group of rows that it stands in, and its encoder."""

    way: str
    group: str
    encoder: str


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a way of learning reached: accuracies by task, what it was given, and what it says of itself."""

    accuracies: Mapping[str, Accuracies]
    settings: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Wall seconds, processor seconds, and the peak memory of the process so far in MiB."""

    seconds: float
    cpu_seconds: float
    peak_mib: int


class Stopwatch:
    """Measure what some work costs; a process has one peak of memory, which never falls."""

    def __init__(self) -> None:
        self.start, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> Cost:
        """Give the cost since the start."""
        return Cost(
            seconds=round(time.perf_counter() - self.start, 2),
            cpu_seconds=round(time.process_time() - self.cpu, 2),
            peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        )


class Table:
    """The records of one table, kept in a file.

    Parameters
    ----------
    path
        The file; it need not be there.
    name
        The name of the table, for instance ``intents-mtl``.
    setting
        ``full`` or ``quick``.

    Raises
    ------
    StoreError
        If the file cannot be read, or is that of another table or setting.
    """

    def __init__(self, path: Path, name: str, setting: Setting) -> None:
        self.path, self.name, self.setting = path, name, setting
        self.data: dict[str, Any] = {}
        self.records: dict[str, dict[str, Any]] = {}
        self.wanted: list[str] = []
        self.novel_shares: dict[str, float] = {}
        if path.is_file():
            found = self._read()
            self._refuse_other("table", found.get("table"), name)
            self._refuse_other("setting", found.get("setting"), setting)
            self.data, self.records = found["data"], found["records"]
            self.wanted = found.get("wanted", [])
            self.novel_shares = found.get("novel_shares", {})

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise StoreError("the table is not JSON", where=str(self.path), got=str(error)) from error
        if not isinstance(found, dict) or not {"table", "setting", "data", "records"} <= set(found):
            raise StoreError("this is no table of results", where=str(self.path))
        return found

    def _refuse_other(self, what: str, got: Any, expected: Any) -> None:
        if got != expected:
            raise StoreError(
                f"the file has results of another {what}",
                where=str(self.path),
                got=quote(got),
                expected=quote(expected),
                todo="give another file with --out, or remove this one",
            )

    def describe_data(self, name: str, tasks: TaskSet) -> None:
        """Say which data the records are about; records of other data are refused."""
        data = {
            "name": name,
            "sha256": tasks.content_hash,
            "n_tasks": len(tasks),
            "n_rows": tasks.n_rows,
        }
        if self.records:
            self._refuse_other("data", self.data, data)
        self.data = data

    def expect(self, keys: Sequence[str], novel_shares: Mapping[str, float]) -> None:
        """Say which records the whole table has, and how much of the test rows of a target is novel.

        So one that is not finished can say what is missing, and all what the other texts came to.
        """
        self.wanted = sorted(keys)
        self.novel_shares = round_all(novel_shares)
        if self.path.is_file():
            with self._locked():
                self._join(self._read())
                self._write()

    def has(self, way: Way, *, seed: int, targets: str) -> bool:
        """Tell whether a record is there."""
        record = self.records.get(key_of(way, seed=seed, targets=targets))
        # What was left out may be possible now.
        return record is not None and "left_out" not in record["extra"]

    def lacks(self, way: Way, *, seed: int, targets: Sequence[str]) -> bool:
        """Tell whether a record of one of these sets of targets is not there."""
        return not all(self.has(way, seed=seed, targets=one) for one in targets)

    def add(self, way: Way, figures: Figures, cost: Cost, *, seed: int, targets: str) -> None:
        """Put a record in, write the file, and say so on a line."""
        key = key_of(way, seed=seed, targets=targets)
        record = {
            "way": way.way,
            "group": way.group,
            "encoder": way.encoder,
            "seed": seed,
            "targets": targets,
            "settings": dict(figures.settings),
            **{texts: round_all(figures.accuracies.get(texts, {})) for texts in ("all", "novel")},
            "seconds": cost.seconds,
            "cpu_seconds": cost.cpu_seconds,
            "peak_mib": cost.peak_mib,
            "extra": dict(figures.extra),
        }
        self._put(key, record)
        print(f"{way.group}: {key}: {describe(self.records[key])}", flush=True)

    def _put(self, key: str, record: Mapping[str, Any]) -> None:
        with self._locked():
            if self.path.is_file():
                self._join(self._read())
            self.records[key] = json.loads(json.dumps(record, default=plain))
            self._write()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from the file, which may have added to it, or be about to."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with lock_of(self.path).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _join(self, there: Mapping[str, Any]) -> None:
        self.records = there["records"] | self.records

    def _write(self) -> None:
        whole: dict[str, Any] = {
            "table": self.name,
            "setting": self.setting,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "data": self.data,
            "versions": find_versions(),
            "machine": {"cores": os.cpu_count()},
        }
        if self.wanted:
            whole |= {"wanted": self.wanted, "novel_shares": self.novel_shares}
        # A record a line: a file of 1,491 tasks would else have 100,000 lines.
        lines = [f"  {json.dumps(key)}: {json.dumps(record)}" for key, record in sorted(self.records.items())]
        head = json.dumps(whole, indent=1).removesuffix("\n}")
        text = head + ',\n "records": {\n' + ",\n".join(lines) + "\n }\n}\n"
        beside = self.path.with_suffix(f".{os.getpid()}.part")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)


def key_of(way: Way, *, seed: int, targets: str) -> str:
    """Give the key of a record.

    Examples
    --------
    >>> key_of(Way(way="holistic", group="paper, cnn", encoder="cnn"), seed=0, targets="10")
    'holistic | cnn | 0 | 10'
    """
    return f"{way.way} | {way.encoder} | {seed} | {targets}"


def default_path(name: str, setting: Setting) -> Path:
    """Give the file of a table where none is named; quick results never go where the full ones are."""
    return RESULTS / f"{name}.json" if setting == "full" else Path(f"quick-{name}.json")


def lock_of(path: Path) -> Path:
    """Give the file that processes lock to write to a table; it is not left beside the results."""
    number = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"robusttc-table-{number}.lock"


def find_versions() -> dict[str, str]:
    """Give the versions of what the figures depend on."""
    packages = ("numpy", "torch", "scikit-learn")
    return {"robusttc": __version__, "python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in packages
    }


def round_all(accuracies: Mapping[str, float]) -> Accuracies:
    """Round to the digits that are kept."""
    return {name: round(float(value), DIGITS) for name, value in accuracies.items()}


def plain(value: Any) -> Any:
    """Give what JSON can hold for values that it cannot."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return str(value)


def describe(record: Mapping[str, Any]) -> str:
    """Say on one line what a record holds."""
    said = [
        f"{texts} {100 * np.mean(list(record[texts].values())):.2f} %"
        for texts in ("all", "novel")
        if record[texts]
    ]
    if "left_out" in record["extra"]:
        said.append(f"left out: {record['extra']['left_out']}")
    return ", ".join([*said, f"{record['seconds']:.1f} s", f"{record['peak_mib']} MiB"])
