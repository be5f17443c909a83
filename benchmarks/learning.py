"""Learning: multi-task beside an older version of this package, and few-shot beside regression.

``make bench-learning ARGUMENTS="--old PATH"`` fits the same tasks with the same clusters by both versions and
prints the accuracy of what serves, on all texts and on novel ones (which no other task has), with the
differences and their 95 % intervals over tasks. ``--only`` chooses parts: ``multitask`` and ``adding`` (tasks
that are added to trained models), on validation rows; ``targets``, ``curves``, ``anchors`` and ``scope`` of
`benchmarks.learning_fewshot`, on test rows. PATH is a checkout of the older version; without it only this one
is measured. Sentence vectors come from the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning_fewshot import LEARNERS, PARTS
from benchmarks.report import print_table
from robusttc.stats import Estimate, difference_interval

ROOT = Path(__file__).resolve().parents[1]
TRIAL = Path(__file__).with_name("learning_trial.py")
SETS = {"multitask": ("bots175", "diverse", "amazon69"), "adding": ("bots175", "diverse")}


def run_trial(part: str, name: str, source: Path, folder: Path, version: str) -> dict[str, Any]:
    """Run one trial in a process of its own, with the package of a source folder; records are kept."""
    record = folder / f"{part}-{name}-{version}.json"
    if not record.is_file():
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        clusters = folder / f"clusters-{name}.json"
        command = [sys.executable, str(TRIAL), part, name, str(clusters), str(record)]
        subprocess.run(command, env=environment, check=True)
    return dict(json.loads(record.read_text(encoding="utf-8")))


def show(estimate: Estimate) -> str:
    """Format a difference in points."""
    return f"{100 * estimate.mean:+.2f} [{100 * estimate.low:.2f}, {100 * estimate.high:.2f}]"


def compare(new: dict[str, float], old: dict[str, float]) -> list[str]:
    """Return both means, and the paired difference over tasks."""
    names = sorted(set(new) & set(old))
    mine, theirs = ([values[name] for name in names] for values in (new, old))
    means = [f"{100 * float(np.mean(values)):.2f}" for values in (theirs, mine)]
    return [*means, show(difference_interval(mine, theirs))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=(*SETS, *PARTS), default=list(SETS))
    parser.add_argument("--old", type=Path, help="a checkout of the older version")
    parser.add_argument("--records", type=Path, default=Path("learning-records"))
    parser.add_argument("--learners", nargs="+", choices=tuple(LEARNERS), default=["standard", "both"])
    parser.add_argument("--seeds", type=int, default=1, help="of few-shot learning")
    arguments = parser.parse_args()
    for part in arguments.only:
        if part in PARTS:
            PARTS[part](arguments.learners, arguments.seeds)
            continue
        arguments.records.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in SETS[part]:
            new = run_trial(part, name, ROOT / "src", arguments.records, "new")
            old = new
            if arguments.old is not None:
                old = run_trial(part, name, arguments.old / "src", arguments.records, "old")
            for texts in ("all", "novel"):
                if texts in new:
                    seconds = f"{old['cpu_seconds']:.1f} / {new['cpu_seconds']:.1f}"
                    rows.append([name, texts, *compare(new[texts], old[texts]), seconds])
        print(f"\n## {part}\n")
        print_table(["set", "texts", "old, %", "new, %", "difference", "CPU s, old / new"], rows)


if __name__ == "__main__":
    main()
