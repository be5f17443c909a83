"""Reading the JSON of a table: its rows, each with the mean over its seeds of every task.

A row is one way of learning with one encoder on one set of targets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paper.roles import FEW_SHOT_ROLES, find_n_clusters, find_role
from robusttc.errors import DataError, quote

GROUPS = ("paper, cnn", "paper, sentence", "ours", "today")
TEXTS = ("all", "novel")
SHARED = "shared"  # texts that another task has too
LEAST_SHARED = 0.02  # of fewer rows an accuracy says nothing

Accuracies = dict[str, float]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One way of learning, one encoder, one set of targets: the mean over seeds of every task.

    `n_clusters` is ``"auto"``, a number in words, or empty; `left_out` gives the reason where the way was
    not run. `figures` has what is measured where there are no accuracies, a list of one value a seed.
    """

    way: str
    group: str
    encoder: str
    targets: str
    role: str
    n_clusters: str
    seeds: tuple[int, ...]
    accuracies: Mapping[str, Accuracies]
    cpu_seconds: float
    seconds: float
    peak_mib: float
    records: tuple[Record, ...]
    figures: Mapping[str, tuple[Any, ...]]
    left_out: str = ""

    @property
    def is_few_shot(self) -> bool:
        """Whether targets were learned from a handful of rows: as the record says, or as the way tells."""
        told = [record.get("settings", {}).get("learning") for record in self.records]
        return "fewshot" in told or self.role in FEW_SHOT_ROLES

    @property
    def title(self) -> str:
        """Name it where rows of several groups meet."""
        return f"{self.way} ({self.encoder})" if self.encoder else self.way


@dataclass(frozen=True, slots=True)
class Results:
    """What a JSON file holds."""

    table: str
    setting: str
    made: str
    data: Mapping[str, Any]
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    rows: tuple[Row, ...]
    n_wanted: int = 0
    missing: tuple[str, ...] = ()
    novel_shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_quick(self) -> bool:
        """Whether these are figures of the quick setting, which prove nothing."""
        return self.setting != "full"

    def targets(self) -> list[str]:
        """Give the sets of targets, the smallest first, all tasks last."""
        found = {row.targets for row in self.rows}
        return sorted(found, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))

    def of(self, targets: str, group: str | None = None) -> list[Row]:
        """Give the rows of a set of targets, and of one group if one is named."""
        return [row for row in self.rows if row.targets == targets and group in (None, row.group)]

    def ran(self, group: str, targets: str | None = None) -> list[Row]:
        """Give the rows of a group that were run, of one set of targets if one is named."""
        return [
            row
            for row in self.rows
            if row.group == group and not row.left_out and targets in (None, row.targets)
        ]

    def groups(self, targets: str) -> list[str]:
        """Give the groups of rows, in the order in which they are shown."""
        found = {row.group for row in self.of(targets)}
        return [name for name in GROUPS if name in found] + sorted(found - set(GROUPS))


def read_results(path: Path) -> Results:
    """Read the JSON of a table.

    Raises
    ------
    DataError
        If it is not the JSON of a table.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        records: list[Record] = list(found["records"].values())
        wanted: list[str] = found.get("wanted", [])
        return Results(
            table=str(found["table"]),
            setting=str(found["setting"]),
            made=str(found["made"]),
            data=found["data"],
            versions=found["versions"],
            machine=found["machine"],
            rows=tuple(make_rows(records, found.get("novel_shares", {}))),
            n_wanted=len(wanted),
            missing=tuple(key for key in wanted if key not in found["records"]),
            novel_shares=found.get("novel_shares", {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            "the results of a table cannot be read",
            where=str(path),
            got=quote(f"{type(error).__name__}: {error}"),
            expected="what benchmarks.paper.table writes",
        ) from error


def make_rows(records: Iterable[Record], novel_shares: Mapping[str, float] | None = None) -> list[Row]:
    """Gather the records of all seeds of a row."""
    gathered: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        key = (record["way"], record["group"], record.get("encoder") or "", str(record.get("targets", "all")))
        gathered.setdefault(key, []).append(record)
    return [
        make_row(*key, sorted(own, key=lambda one: int(one["seed"])), novel_shares or {})
        for key, own in sorted(gathered.items(), key=lambda item: [natural(part) for part in item[0]])
    ]


def natural(name: str) -> list[tuple[int, str]]:
    """Give a key that puts numbers within names in their order.

    Examples
    --------
    >>> sorted(["10 %", "100 %", "2 %"], key=natural)
    ['2 %', '10 %', '100 %']
    """
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]


def make_row(
    way: str,
    group: str,
    encoder: str,
    targets: str,
    records: Sequence[Record],
    novel_shares: Mapping[str, float],
) -> Row:
    """Make a row of its records; seeds in which it was left out count only if there are no others."""
    made = [record for record in records if not record.get("extra", {}).get("left_out")]
    reasons = [str(record["extra"]["left_out"]) for record in records if record not in made]
    names = dict.fromkeys(name for record in made for name in record.get("figures", {}))
    accuracies = {texts: mean_over_seeds([record.get(texts) or {} for record in made]) for texts in TEXTS}
    return Row(
        way=way,
        group=group,
        encoder=encoder,
        targets=targets,
        role=find_role(way, group),
        n_clusters=find_n_clusters(way),
        seeds=tuple(int(record["seed"]) for record in made),
        accuracies={**accuracies, SHARED: find_shared(accuracies["all"], accuracies["novel"], novel_shares)},
        cpu_seconds=mean(record["cpu_seconds"] for record in made),
        seconds=mean(record["seconds"] for record in made),
        peak_mib=max((float(record["peak_mib"]) for record in made), default=float("nan")),
        records=tuple(records),
        figures={name: figure_values(made, name) for name in names},
        left_out="" if made else "; ".join(dict.fromkeys(reasons)) or "no records",
    )


def find_shared(every: Accuracies, novel: Accuracies, novel_shares: Mapping[str, float]) -> Accuracies:
    """Give the accuracy on texts that another task has too, from those on all and on novel texts.

    Examples
    --------
    >>> find_shared({"a": 0.75, "b": 1.0}, {"a": 0.5, "b": 1.0}, {"a": 0.5, "b": 1.0})
    {'a': 1.0}
    """
    found = {}
    for name, accuracy in novel.items():
        rest = 1 - novel_shares.get(name, 1.0)
        if rest >= LEAST_SHARED:
            found[name] = (every[name] - (1 - rest) * accuracy) / rest
    return found


def figure_values(records: Sequence[Record], name: str) -> tuple[Any, ...]:
    """Give the values of a figure, one for each record that has it."""
    found = (record.get("figures", {}).get(name) for record in records)
    return tuple(value for value in found if value is not None)


def mean_over_seeds(seeds: Sequence[Accuracies]) -> Accuracies:
    """Give the mean over seeds of every task that all seeds have.

    Examples
    --------
    >>> mean_over_seeds([{"a": 0.5, "b": 1.0}, {"a": 0.7}])
    {'a': 0.6}
    """
    if not seeds:
        return {}
    common = [name for name in seeds[0] if all(name in one for one in seeds)]
    return {name: mean(one[name] for one in seeds) for name in common}


def mean(values: Iterable[float]) -> float:
    """Give the mean, not a number where there are no values."""
    numbers = [float(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else float("nan")
