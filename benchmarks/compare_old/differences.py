"""Differences between two versions, and which of them are intended."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# How much more something may take before it counts as a difference: cores are shared, so figures vary.
MAX_RATIO = 1.5
MIN_SECONDS, MIN_MIB, MIN_BYTES = 3.0, 200.0, 100_000
MIN_POINTS = -0.2
N_RESAMPLES = 10_000


@dataclass(frozen=True)
class Difference:
    """Something that is otherwise in the new version; None where a version does not have it."""

    what: str
    old: str | None
    new: str | None

    @property
    def fate(self) -> str:
        """What has become of it."""
        return "added" if self.old is None else "dropped" if self.new is None else "changed"

    def __str__(self) -> str:
        values = {"added": self.new, "dropped": self.old, "changed": f"{self.old} -> {self.new}"}
        return f"{self.fate:8}{self.what}: {values[self.fate]}"


@dataclass(frozen=True)
class Intended:
    """An entry of the file of intended differences; `*` in `what` stands for any characters."""

    what: str
    fate: str
    reason: str

    def matches(self, difference: Difference) -> bool:
        """Tell whether this entry explains a difference, in name and in fate."""
        pattern = ".*".join(re.escape(part) for part in self.what.split("*"))
        named = re.fullmatch(pattern, difference.what) is not None
        return named and self.fate in ("kept", "renamed", difference.fate)


@dataclass(frozen=True)
class Paired:
    """The paired difference of accuracies, new - old, in points, with a 95 % bootstrap interval."""

    name: str
    n_tasks: int
    n_changed: int
    old: float
    new: float
    mean: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the bound holds.

        Held-out tasks are few and their accuracies noisy: there, only a loss beyond doubt breaks it.
        """
        return (self.high if self.name.endswith("few-shot") else self.low) > MIN_POINTS


def read_intended(path: Path) -> list[Intended]:
    """Read the file of intended differences."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("difference", [])
    return [Intended(**entry) for entry in entries]


def compare_values(old: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
    """List what only one version has, and what is described otherwise."""
    names = [*old, *(name for name in new if name not in old)]
    return [
        Difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
    ]


def compare_runs(name: str, old: dict[str, Any], new: dict[str, Any]) -> list[Difference]:
    """List exit codes, tasks that lack an accuracy, and what takes far more time or space than before."""
    codes = [
        {f"runs/{name}/{step} exit code": str(took["code"]) for step, took in run["took"].items()}
        for run in (old, new)
    ]
    found = compare_values(*codes)
    for step, took in new["took"].items():
        before = old["took"].get(step, took)
        for measure, unit, least in (("cpu", "CPU s", MIN_SECONDS), ("peak_mib", "MiB", MIN_MIB)):
            found += note_growth(f"times/{name}/{step} {unit}", before[measure], took[measure], least)
    for file in old["sizes"].keys() & new["sizes"].keys():
        found += note_growth(f"sizes/{name}/{file}", old["sizes"][file], new["sizes"][file], MIN_BYTES)
    for kind in ("served", "few-shot"):
        tasks = [
            dict.fromkeys((f"accuracies/{name}/{task}" for task in run[kind]), kind) for run in (old, new)
        ]
        found += compare_values(*tasks)
    return found


def note_growth(what: str, old: float, new: float, least: float) -> list[Difference]:
    """Return a difference where a figure has grown beyond chance."""
    if new > MAX_RATIO * old and new - old > least:
        return [Difference(what, f"{old:,.0f}", f"{new:,.0f}")]
    return []


def pair_accuracies(name: str, old: Mapping[str, float], new: Mapping[str, float]) -> Paired | None:
    """Compare the accuracies of the tasks that both versions have; None where there are none."""
    tasks = [task for task in old if task in new]
    if not tasks:
        return None
    before, after = (100 * np.array([one[task] for task in tasks]) for one in (old, new))
    gains = after - before
    draws = np.random.default_rng(0).integers(len(tasks), size=(N_RESAMPLES, len(tasks)))
    low, high = np.percentile(gains[draws].mean(axis=1), [2.5, 97.5])
    figures = (float(before.mean()), float(after.mean()), float(gains.mean()), float(low), float(high))
    return Paired(name, len(tasks), int(np.count_nonzero(gains)), *figures)


def sort_differences(
    differences: Sequence[Difference], intended: Sequence[Intended]
) -> tuple[list[Difference], list[tuple[Difference, Intended]], list[Intended]]:
    """Return unintended differences, intended ones with their entry, and entries that match nothing."""
    unintended, explained, used = [], [], set()
    for difference in differences:
        entry = next((one for one in intended if one.matches(difference)), None)
        if entry is None:
            unintended.append(difference)
        else:
            explained.append((difference, entry))
            used.add(entry)
    return unintended, explained, [entry for entry in intended if entry not in used]
