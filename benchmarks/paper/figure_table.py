"""A table whose records hold named figures in place of accuracies, and what its commands have in common.

The file is that of `benchmarks.paper.table.Table`, except that a record has ``"figures": {name: value}``
where others have ``"all"`` and ``"novel"``; a figure that does not exist is null. Records of what was
learned on clusters have all three. Where a table is about several sets, the set is in ``"targets"``, and the
file's ``"data"`` has all of them under ``"sets"``.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.table import Accuracies, Cost, Stopwatch, Table, Way, default_path, key_of
from robusttc import TaskSet

__all__ = ["FigureTable", "Measured", "Options", "parse_options"]

Value = float | int | str | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a record holds: figures by name, what was given, and what there is besides."""

    figures: Mapping[str, Value]
    settings: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    accuracies: Mapping[str, Accuracies] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for."""

    quick: bool
    only: tuple[str, ...]
    seeds: int | None
    sets: tuple[str, ...]
    workers: int
    out: Path

    def wants(self, way: Way) -> bool:
        """Tell whether a way, or the group it is in, is asked for."""
        return not self.only or way.way in self.only or way.group in self.only


class FigureTable(Table):
    """A table of figures; see the module."""

    def describe_sets(self, sets: Mapping[str, TaskSet]) -> None:
        """Say which sets the records are about; records of other data are refused."""
        each = {
            name: {"sha256": tasks.content_hash, "n_tasks": len(tasks), "n_rows": tasks.n_rows}
            for name, tasks in sets.items()
        }
        # Sets that were not asked for this time stay: their records do.
        self._join_sets(self.data.get("sets", {}) if self.records else {}, each)

    def _join_sets(self, before: Mapping[str, Any], each: Mapping[str, Any]) -> None:
        for name in before:
            if name in each:
                self._refuse_other(f"data under the name {name}", before[name], each[name])
        whole = dict(sorted({**before, **each}.items()))
        joined = "\n".join(one["sha256"] for one in whole.values())
        self.data = {
            "name": ", ".join(whole),
            "sha256": hashlib.sha256(joined.encode()).hexdigest(),
            "n_tasks": sum(one["n_tasks"] for one in whole.values()),
            "n_rows": sum(one["n_rows"] for one in whole.values()),
            "sets": whole,
        }

    def _join(self, there: Mapping[str, Any]) -> None:
        super()._join(there)
        if "sets" in self.data:
            self._join_sets(there["data"].get("sets", {}), self.data["sets"])

    def make(self, way: Way, work: Callable[[], Measured], *, seed: int, targets: str) -> dict[str, Any]:
        """Give a record; do the work for it if it is not there yet."""
        key = key_of(way, seed=seed, targets=targets)
        if key not in self.records:
            watch = Stopwatch()
            self.add_figures(way, work(), watch.read(), seed=seed, targets=targets)
        return self.records[key]

    def add_figures(self, way: Way, found: Measured, cost: Cost, *, seed: int, targets: str) -> None:
        """Put a record in, write the file, and say so on a line."""
        record: dict[str, Any] = {
            "way": way.way,
            "group": way.group,
            "encoder": way.encoder,
            "seed": seed,
            "targets": targets,
            "settings": dict(found.settings),
            "figures": {name: round_value(value) for name, value in found.figures.items()},
            "seconds": cost.seconds,
            "cpu_seconds": cost.cpu_seconds,
            "peak_mib": cost.peak_mib,
            "extra": dict(found.extra),
        }
        for texts, own in found.accuracies.items():
            record[texts] = {name: round_value(value) for name, value in own.items()}
        key = key_of(way, seed=seed, targets=targets)
        self._put(key, record)
        said = ", ".join(f"{name} {value}" for name, value in self.records[key]["figures"].items())
        print(f"{way.group}: {key}: {said}, {cost.seconds:.1f} s", flush=True)


def round_value(value: Value) -> Value:
    """Keep five significant digits of a number, and None for what is none.

    Examples
    --------
    >>> round_value(0.123456789), round_value(12345678.0), round_value(float("nan")), round_value(3)
    (0.12346, 12346000.0, None, 3)
    """
    if isinstance(value, float | np.floating):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def parse_options(
    description: str, *, table: str, sets: tuple[str, ...], arguments: list[str] | None
) -> Options:
    """Read the command line that the tables of figures share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small, in minutes; never among the results")
    parser.add_argument("--only", nargs="+", default=[], metavar="WAY", help="these ways or groups of ways")
    parser.add_argument("--seeds", type=int, help="how many seeds, or draws")
    parser.add_argument("--sets", nargs="+", choices=sets, default=list(sets), help="these sets")
    parser.add_argument("--workers", type=int, default=2, help="processes that measure, in the full setting")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file of the records")
    given = parser.parse_args(arguments)
    return Options(
        quick=given.quick,
        only=tuple(given.only),
        seeds=given.seeds,
        sets=tuple(given.sets),
        workers=given.workers,
        out=given.out or default_path(table, "quick" if given.quick else "full"),
    )
