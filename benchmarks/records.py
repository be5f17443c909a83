"""Figures of many tasks, kept in one JSON file as they are made, and their tables.

A record is what one way of learning reached with one seed: the accuracy of every task on all and on *novel*
test texts (whose text, lower-cased, letters and digits only, occurs in no other task), and what it cost. A
record that is in the file is not made again, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.stats import Estimate, difference_interval, mean_interval

LEAST_ROWS = 5  # a mean of fewer novel texts is a coin

Record = dict[str, Any]
Accuracies = dict[str, float]


class Records:
    """The records of a benchmark, by part, set, encoder, way and seed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Record] = {}
        if path.is_file():
            self.found = json.loads(path.read_text(encoding="utf-8"))

    def make(self, key: Sequence[str | int], work: Callable[[], Record]) -> Record:
        """Give a record; do the work for it if it is not there yet."""
        name = " | ".join(str(part) for part in key)
        if name not in self.found:
            start, cpu = time.perf_counter(), time.process_time()
            record = work()
            record["seconds"] = round(time.perf_counter() - start, 2)
            record["cpu_seconds"] = round(time.process_time() - cpu, 2)
            record["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            # Another process may have added to the file meanwhile.
            if self.path.is_file():
                self.found = json.loads(self.path.read_text(encoding="utf-8")) | self.found
            self.found[name] = record
            beside = self.path.with_suffix(f".{os.getpid()}.part")
            beside.write_text(json.dumps(self.found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            beside.replace(self.path)
            print(f"{name}: {describe(record)}", flush=True)
        return self.found[name]

    def of(self, *key: str) -> list[Record]:
        """Give the records of all seeds of one way."""
        start = " | ".join(key) + " | "
        return [self.found[name] for name in sorted(self.found) if name.startswith(start)]

    def ways(self, *key: str) -> list[str]:
        """Give the ways that a part has records of, in the order of their names."""
        start = " | ".join(key) + " | "
        own = [name.removeprefix(start) for name in self.found if name.startswith(start)]
        return sorted({name.split(" | ")[0] for name in own})


def describe(record: Record) -> str:
    """Say on one line what a record holds."""
    said = [f"{record['seconds']:.1f} s"]
    for texts in ("all", "novel"):
        if record.get(texts):
            said.insert(0, f"{texts} {100 * np.mean(list(record[texts].values())):.2f} %")
    return ", ".join(said)


def score_answers(
    right: Mapping[str, NDArray[np.bool_]], novel: Mapping[str, NDArray[np.bool_]]
) -> dict[str, Accuracies]:
    """Give the accuracy of every task on all and on novel texts, from the rows that were right."""
    scores: dict[str, Accuracies] = {"all": {}, "novel": {}}
    for name, answers in right.items():
        scores["all"][name] = float(answers.mean())
        if novel[name].sum() >= LEAST_ROWS:
            scores["novel"][name] = float(answers[novel[name]].mean())
    return scores


def mean_of_seeds(records: Sequence[Record], texts: str) -> Accuracies:
    """Give the accuracy of every task, the mean over seeds."""
    return {name: float(np.mean([record[texts][name] for record in records])) for name in records[0][texts]}


def estimate(records: Sequence[Record], texts: str) -> Estimate:
    """Give the mean over tasks."""
    return mean_interval(list(mean_of_seeds(records, texts).values()))


def compare(first: Sequence[Record], second: Sequence[Record], texts: str) -> Estimate:
    """Give the mean of paired differences over tasks."""
    ours, theirs = mean_of_seeds(first, texts), mean_of_seeds(second, texts)
    return difference_interval([ours[name] for name in ours], [theirs[name] for name in ours])


def show(figure: Estimate, *, sign: str = "") -> str:
    """Give a figure in per cent, with its interval."""
    return f"{100 * figure.mean:{sign}.1f} [{100 * figure.low:{sign}.1f}, {100 * figure.high:{sign}.1f}]"


def show_differences(own: Sequence[Record], other: Sequence[Record]) -> list[str]:
    """Give the differences on all and on novel texts; nothing for a way beside itself."""
    return ["" if own is other else show(compare(own, other, texts), sign="+") for texts in ("all", "novel")]
