"""What a run costs over calling the functions, and what it takes from tasks to models.

``make bench-run`` makes all records and prints the tables; `--part` chooses. Records go to a JSON file; what
is there is not made again. The parts:

* ``overhead``: measuring transfer of planted tasks in a run (store, one worker process) against calling
  `measure_transfer`; CPU seconds of all processes. At most 5 % is wanted.
* ``workers``: the same run with two workers against one; 1.7 times as fast is wanted on idle cores. What two
  processes gain on this machine at this moment is measured beside it.
* ``store``: results and scores a second into the store, in batches, on this disk; 5,000 scores are wanted.
* ``resume``: from opening the store to having 100,000 finished jobs again; at most 5 s are wanted.
* ``demo``: the demo's run on the disk, at most a third of 88 MB is wanted; and from the first import to the
  first answer of it, at most 3 s.
* ``fit``: the command on bots175 and clients1491 to the end, with either encoder: wall time and peak memory
  of each stage. Hours on two cores. A run that was stopped goes on: its folder stays in `--folder`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import run_fit, run_overhead, run_store
from benchmarks.records import Record, Records
from benchmarks.report import print_table

PARTS = ("overhead", "workers", "store", "resume", "demo", "fit", "tables")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--records", type=Path, default=Path("run-records.json"))
    parser.add_argument(
        "--folder", type=Path, default=Path("benchmarks/results/runs"), help="a folder for the runs"
    )
    parser.add_argument(
        "--sets", nargs="+", choices=run_fit.SETS, default=list(run_fit.SETS), help="of `fit`"
    )
    parser.add_argument("--encoders", nargs="+", choices=("sentence", "cnn"), default=["sentence", "cnn"])
    parser.add_argument("--turns", type=int, default=3, help="of `overhead` and `workers`")
    arguments = parser.parse_args()
    records = Records(arguments.records)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for key, work in small_parts(arguments.folder, arguments.turns):
        if key[0] in arguments.part:
            records.make(key, partial(with_load, work))
    if "fit" in arguments.part:
        for name in arguments.sets:
            for encoder in arguments.encoders:
                run_fit.measure(records, name, encoder, arguments.folder)
    if "tables" in arguments.part:
        show_small_parts(records)
        run_fit.show(records)


def small_parts(place: Path, turns: int) -> Iterator[tuple[tuple[str, int], Callable[[], Record]]]:
    """Give the key and the work of every record but those of `fit`."""
    for turn in range(turns):
        yield ("overhead", turn), partial(run_overhead.measure_overhead, place)
        yield ("workers", turn), partial(run_overhead.measure_workers, place)
    for n_jobs in run_store.JOBS_A_COMMIT:
        yield ("store", n_jobs), partial(run_store.measure_scores, n_jobs, place)
    yield ("resume", 0), partial(run_store.measure_resume, place)
    yield ("demo", 0), partial(run_store.measure_demo, place)


def with_load(work: Callable[[], Record]) -> Record:
    """Note how busy the machine was before: wall times of a busy one mean little."""
    load = round(os.getloadavg()[0], 1)
    return {**work(), "load": load, "cores": len(os.sched_getaffinity(0))}


def show_small_parts(records: Records) -> None:
    """Print a table of every part that has records."""
    if found := records.of("overhead"):
        print("\n## Overhead of a run, CPU seconds\n")
        header = [
            "turn",
            "directly",
            "in a run",
            "ratio",
            "more outside of units",
            "wall: directly",
            "in a run",
        ]
        header.append("load")
        print_table(header, [run_overhead.overhead_row(turn, one) for turn, one in enumerate(found)])
    if found := records.of("workers"):
        print("\n## Two workers against one, wall seconds\n")
        header = ["turn", "one", "two", "ratio", "the machine's own ratio", "load"]
        print_table(header, [run_overhead.workers_row(turn, one) for turn, one in enumerate(found)])
    if found := records.of("store"):
        print("\n## Into the store\n")
        header = ["jobs a commit", "results", "seconds", "CPU seconds", "results a second", "scores a second"]
        print_table([*header, "bytes a score", "load"], [run_store.scores_row(one) for one in found])
    if found := records.of("resume"):
        print("\n## Resuming\n")
        header = ["finished jobs", "seconds in all", "CPU seconds", "opening", "finding all"]
        print_table(header, [run_store.resume_row(one) for one in found])
    if found := records.of("demo"):
        print("\n## The run of the demo\n")
        header = ["MB in all", "objects", "versions", "report", "demo in seconds"]
        header += ["first answer in seconds", "CPU ms of the next"]
        print_table(header, [run_store.demo_row(one) for one in found])


if __name__ == "__main__":
    main()
