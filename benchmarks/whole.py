"""Measuring whole sets of tasks: time and peak memory, and how both grow with the number of tasks.

Every run is a process of its own. Sentence vectors are kept from an earlier run (the time that making them
takes is in `benchmarks.sentences`), so the times are those of measuring. The peak is that of the process that
was called; a worker holds the same plan and less besides.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.report import GLOVE, find_data, print_table
from robusttc import TaskSet, load_tasks
from robusttc.random import numpy_generator
from robusttc.transfer import measure_transfer

# set, encoder, number of tasks (0: all), scores
RUNS = [
    ("bots175", "sentence", 0, "all"),
    ("bots175", "cnn", 0, "all"),
    ("clients1491", "sentence", 186, "12475"),
    ("clients1491", "sentence", 373, "25016"),
    ("clients1491", "sentence", 746, "50033"),
    ("clients1491", "sentence", 0, "100000"),
    ("clients1491", "cnn", 186, "12475"),
    ("clients1491", "cnn", 373, "25016"),
    ("clients1491", "cnn", 746, "50033"),
    ("clients1491", "cnn", 0, "100000"),
]


def run_one(set_name: str, encoder: str, n_tasks: int, pairs: str, n_workers: int) -> dict[str, Any]:
    tasks = load_tasks(find_data(set_name))
    if n_tasks:
        order = numpy_generator(0, "tasks of a benchmark").permutation(len(tasks))[:n_tasks]
        tasks = TaskSet(tasks[tasks.names[place]] for place in sorted(order))
    vectors = GLOVE if encoder == "cnn" else None
    start = time.perf_counter()
    scores = measure_transfer(
        tasks,
        encoder=encoder,
        vectors=vectors,
        pairs="all" if pairs == "all" else int(pairs),
        n_workers=n_workers,
    )
    seconds = time.perf_counter() - start
    own = resource.getrusage(resource.RUSAGE_SELF)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "set": set_name,
        "encoder": encoder,
        "tasks": len(tasks),
        "scores": len(scores),
        "workers": n_workers,
        "seconds": seconds,
        "cpu_seconds": own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime,
        "peak_mib": own.ru_maxrss / 1024,
    }


def run(*, n_workers: int = 2) -> list[dict[str, Any]]:
    results = []
    for chosen in RUNS:
        command = [sys.executable, "-m", "benchmarks.whole", "--one", *map(str, chosen)]
        command += ["--workers", str(n_workers)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results.append(json.loads(output.splitlines()[-1]))
        print(output.splitlines()[-1], file=sys.stderr, flush=True)
    return results


def show(results: list[dict[str, Any]]) -> None:
    header = [
        "set",
        "encoder",
        "tasks",
        "scores",
        "wall s",
        "CPU s",
        "µs of CPU a score",
        "peak MiB",
        "a worker",
    ]
    rows = [
        [
            each["set"],
            each["encoder"],
            f"{each['tasks']:,}",
            f"{each['scores']:,}",
            f"{each['seconds']:.1f}",
            f"{each['cpu_seconds']:.1f}",
            f"{1e6 * each['cpu_seconds'] / each['scores']:.0f}",
            f"{each['peak_mib']:.0f}",
        ]
        for each in results
    ]
    print_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=4, metavar=("SET", "ENCODER", "TASKS", "PAIRS"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.one is not None:
        set_name, encoder, n_tasks, pairs = options.one
        print(json.dumps(run_one(set_name, encoder, int(n_tasks), pairs, options.workers)))
        return
    results = run(n_workers=options.workers)
    show(results)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
