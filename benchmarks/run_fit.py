"""`robusttc fit` on whole sets: wall time and peak memory of each stage, from the run's own books."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.records import Record, Records
from benchmarks.report import GLOVE, find_data, print_table
from robusttc.errors import ExitCode
from robusttc.run import Run

SETS = ("bots175", "clients1491")
FIT = [sys.executable, "-c", "import sys; from robusttc.cli import main; sys.exit(main())", "fit"]
N_WORKERS = 2
MIB = 2**20


def measure(records: Records, name: str, encoder: str, folder: Path) -> Record:
    """Fit a set, or go on with it, and keep what it took."""
    return records.make(("fit", name, encoder, 0), lambda: fit(name, encoder, folder))


def fit(name: str, encoder: str, folder: Path) -> Record:
    """Fit one of the public sets; with ``cnn`` on GloVe vectors."""
    vectors = GLOVE if encoder == "cnn" else None
    return fit_file(find_data(name), folder / f"{name}-{encoder}", encoder=encoder, vectors=vectors)


def fit_file(data: Path, out: Path, *, encoder: str, vectors: Path | None = None) -> Record:
    """Run the command to its end; killed on the way, the next call goes on."""
    command = [*FIT, str(data), "--out", str(out), "--encoder", encoder, "--workers", str(N_WORKERS)]
    if vectors is not None:
        command += ["--vectors", str(vectors)]
    out.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    if code not in (ExitCode.DONE, ExitCode.DOUBT):
        sys.exit(f"{' '.join(command)} ended with {code}; run the same benchmark again to go on")
    run = Run(out)
    files = [path for path in out.rglob("*") if path.is_file() and not path.is_symlink()]
    return {
        "code": code,
        "tasks": run.summary["tasks"]["n"],
        "scores": 0 if run.scores is None else len(run.scores),
        "stages": run.costs,
        "quarantined": [job["key"] for job in run.quarantined],
        # Of this call alone, reading the tasks included; the books of the stages count earlier ones too.
        "wall": time.perf_counter() - start,
        "largest_process": usage.ru_maxrss * 1024,
        "run_bytes": sum(path.stat().st_size for path in files),
        "load": round(os.getloadavg()[0], 1),
    }


def show(records: Records) -> None:
    """Print a table of every set and encoder that has a record."""
    for name in SETS:
        for encoder in ("sentence", "cnn"):
            for record in records.of("fit", name, encoder):
                show_one(name, encoder, record)


def show_one(name: str, encoder: str, record: Record) -> None:
    """Print the stages of one fit."""
    print(f"\n## {name}, {encoder}, {N_WORKERS} workers\n")
    print(
        f"{record['tasks']:,} tasks, {record['scores']:,} scores; the last call took {record['wall']:.0f} s, "
        f"its largest process {record['largest_process'] / MIB:,.0f} MiB, the run "
        f"{record['run_bytes'] / MIB:,.0f} MiB on the disk; exit code {record['code']}, "
        f"{len(record['quarantined'])} units left out; load {record['load']}.\n"
    )
    rows = [
        [
            stage["stage"],
            f"{stage['units']:,}",
            f"{stage['wall_seconds']:.0f}",
            f"{stage['cpu_seconds']:.0f}",
            # Units whose results are kept elsewhere, as sentence vectors are, are not in the books.
            f"{stage['peak_bytes'] / MIB:,.0f}" if stage["units"] else "-",
        ]
        for stage in record["stages"]
    ]
    totals = [
        sum(stage[what] for stage in record["stages"]) for what in ("units", "wall_seconds", "cpu_seconds")
    ]
    peak = max((stage["peak_bytes"] for stage in record["stages"]), default=0)
    rows.append(["all", f"{totals[0]:,}", f"{totals[1]:.0f}", f"{totals[2]:.0f}", f"{peak / MIB:,.0f}"])
    print_table(["stage", "units", "wall s", "CPU s of units", "peak MiB of a worker"], rows)
