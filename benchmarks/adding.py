"""Ten bots added to a run of others, against fitting all of them again.

    python -m benchmarks.adding --folder runs --out adding.json --n-tasks 50

Three commands are run as a user would run them: `fit` of all bots but ten, `add` of the ten that a seed has
drawn, `fit` of all. Each is a process of its own; times are its own and those of its workers. Sentence
vectors are in the cache before (`fit` of all comes first, unless it is there). A record that is in the file
is not made again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.records import Record, Records
from benchmarks.report import find_data, print_table
from robusttc.data import TaskSet, load_tasks, write_tasks
from robusttc.errors import ExitCode
from robusttc.random import numpy_generator
from robusttc.run import Run
from robusttc.stats import Estimate, difference_interval

SET, N_HELD, SEED, N_WORKERS = "bots175", 10, 0, 1
PROGRAM = [sys.executable, "-c", "import sys; from robusttc.cli import main; sys.exit(main())"]


def part_tasks(folder: Path, n_tasks: int) -> list[str]:
    """Write the tasks of the three commands; give the names of those that are held out."""
    tasks = load_tasks(find_data(SET))
    names = sorted(numpy_generator(SEED, "chosen").permutation(sorted(tasks.names))[:n_tasks].tolist())
    held = sorted(numpy_generator(SEED, "held out").permutation(names)[:N_HELD].tolist())
    for place, chosen in {
        "most": [name for name in names if name not in held],
        "held": held,
        "all": names,
    }.items():
        if not (folder / place).is_dir():
            write_tasks(TaskSet(tasks[name] for name in chosen), folder / place)
    return held


def run(*arguments: str) -> Record:
    """Run a command to its end, and give what it took."""
    start = time.perf_counter()
    process = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    if code not in (ExitCode.DONE, ExitCode.DOUBT):
        sys.exit(f"{' '.join(arguments)} ended with {code}")
    return {
        "wall": time.perf_counter() - start,
        # Of the process and of the workers that it has waited for.
        "cpu": usage.ru_utime + usage.ru_stime,
        "largest_process": usage.ru_maxrss * 1024,
        "load": round(os.getloadavg()[0], 1),
    }


def fit(folder: Path, place: str, out: str) -> Record:
    """Fit some tasks."""
    return run(
        "fit", str(folder / place), "--out", str(folder / out), "--workers", str(N_WORKERS), "--no-cost"
    )


def add(folder: Path) -> Record:
    """Add the held-out tasks to a copy of the run of the others."""
    shutil.rmtree(folder / "grown", ignore_errors=True)
    shutil.copytree(folder / "run-most", folder / "grown", symlinks=True)
    record = run("add", str(folder / "grown"), str(folder / "held"), "--quiet")
    opened = Run(folder / "grown")
    record["stages"] = {cost["stage"]: cost for cost in opened.version.change.details["costs"]}
    record["measured"] = {name: one.n_measured for name, one in opened.added.items()}
    record["confidence"] = {name: one.confidence for name, one in opened.added.items()}
    record["gain"] = {
        name: None if one.expected_gain is None else one.expected_gain.to_dict()
        for name, one in opened.added.items()
    }
    return record


def compare(folder: Path, held: list[str]) -> Record:
    """Compare where the tasks went, and how well they are served, with fitting all again."""
    grown, refit = Run(folder / "grown"), Run(folder / "run-all")
    ours, theirs = grown.partition(), refit.partition()
    before = grown.partition(1)
    # A cluster of the refit is the one of the run that most of its tasks were in.
    meant = {
        number: Counter(before[name] for name in before if theirs[name] == number).most_common(1)[0][0]
        for number in {theirs[name] for name in before}
    }
    mapped = {name: meant.get(theirs[name], -1) for name in ours}
    figures = [
        {one.task: one.served.mean for one in opened.evaluation.tasks if one.served is not None}
        for opened in (grown, refit)
    ]
    own = {one.task: one.own.mean for one in refit.evaluation.tasks if one.own is not None}
    judged = [name for name in held if name in figures[0] and name in figures[1]]
    difference = difference_interval(
        [figures[0][name] for name in judged], [figures[1][name] for name in judged]
    )
    return {
        "placed": {name: ours[name] for name in held},
        "refit": {name: mapped[name] for name in held},
        "agree": float(np.mean([ours[name] == mapped[name] for name in held])),
        # How often the tasks of the run itself stay where they were: what agreement can be hoped for.
        "stay": float(np.mean([before[name] == mapped[name] for name in before])),
        "added": {name: figures[0][name] for name in judged},
        "refitted": {name: figures[1][name] for name in judged},
        "own": {name: own[name] for name in judged},
        "difference": difference.to_dict(),
    }


def show(records: Records) -> None:
    """Print the tables."""
    steps = {step: records.of(SET, step)[0] for step in ("fit most", "add", "fit all", "compare")}
    refit = steps["fit all"]
    rows = [
        [
            name,
            f"{steps[step]['wall']:.0f}",
            f"{steps[step]['cpu']:.1f}",
            f"{refit['wall'] / steps[step]['wall']:.1f}",
            f"{refit['cpu'] / steps[step]['cpu']:.1f}",
            f"{steps[step]['load']}",
        ]
        for step, name in (("fit most", "fit of the others"), ("add", "add of 10"), ("fit all", "fit of all"))
    ]
    print_table(["command", "wall s", "CPU s", "refit / it, wall", "refit / it, CPU", "load"], rows)
    found = steps["compare"]
    print(
        f"\nPlacements: {found['agree']:.0%} of {N_HELD} with the same tasks as in the refit (of the "
        f"others {found['stay']:.0%} stay); accuracy of the added tasks less that in the refit: "
        f"{say(Estimate.from_dict(found['difference']))} points.\n"
    )
    print_table(
        ["bot", "cluster", "in the refit", "sure", "compared", "own", "added", "refit"],
        [
            [
                name,
                str(found["placed"][name]),
                str(found["refit"][name]),
                f"{steps['add']['confidence'][name]:.0%}",
                str(steps["add"]["measured"][name]),
                *(f"{100 * found[kind][name]:.1f}" for kind in ("own", "added", "refitted")),
            ]
            for name in found["added"]
        ],
    )


def say(figure: Estimate) -> str:
    """Give a difference in points."""
    return f"{100 * figure.mean:+.1f} [{100 * figure.low:+.1f}, {100 * figure.high:+.1f}]"


def main() -> None:
    """Make the records that are missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--out", type=Path, required=True, help="the file of records")
    parser.add_argument("--n-tasks", type=int, default=175, help="how many bots there are in all")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    held = part_tasks(given.folder, given.n_tasks)
    records = Records(given.out)
    records.make((SET, "fit all", SEED), lambda: fit(given.folder, "all", "run-all"))
    records.make((SET, "fit most", SEED), lambda: fit(given.folder, "most", "run-most"))
    records.make((SET, "add", SEED), lambda: add(given.folder))
    records.make((SET, "compare", SEED), lambda: compare(given.folder, held))
    show(records)


if __name__ == "__main__":
    main()
