"""The real `robusttc fit` on a few planted tasks: started, killed, and what it leaves."""

from __future__ import annotations

import csv
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

PROGRAM = [sys.executable, "-c", "import sys; from robusttc.cli import main; sys.exit(main())"]
FAMILIES = [
    {"track": "where is my parcel", "refund": "give my money back"},
    {"sunny": "the sky is blue", "rain": "water falls from clouds"},
    {"play": "start the next song", "stop": "make the music end"},
]
WORDS = ["now", "today", "please", "again", "soon", "here", "there", "quickly", "maybe", "indeed"]
SPLITS = ["train"] * 6 + ["valid"] * 2 + ["test"] * 2
LIFE_SECONDS = 600.0
# Stage, key, hash of the result, and when it was stored.
Row = tuple[str, str, bytes, float]


def write_tasks(folder: Path, n_tasks: int) -> Path:
    """Write tasks of two labels each, of some families in turn."""
    folder.mkdir()
    n_families = 2 if n_tasks < 9 else 3
    for number in range(n_tasks):
        generator = random.Random(number)
        with (folder / f"client {number}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["text", "label", "split"])
            for label, text in FAMILIES[number % n_families].items():
                for split in SPLITS:
                    writer.writerow([f"{text} {' '.join(generator.choices(WORDS, k=2))}", label, split])
    return folder


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended.

    Attributes
    ----------
    code
        Its exit code; below zero the signal.
    said
        All that it wrote to the error output.
    seconds
        How long it lived, or how long it took to end after it was asked to.
    """

    code: int
    said: str
    seconds: float


def run_fit(
    tasks: Path,
    out: Path,
    *options: str,
    end_when: Callable[[float], bool] = lambda _: False,
    end_by: signal.Signals = signal.SIGKILL,
    program: Sequence[str] = PROGRAM,
) -> Ended:
    """Start the command, and end it as soon as `end_when`, asked with the seconds so far, says so."""
    command = [*program, "fit", str(tasks), "--out", str(out), "--no-cost", *options]
    command += ["--n-folds", "2", "--n-random", "0"]
    errors = out.with_suffix(".err")
    with errors.open("wb") as stream:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream, env=dict(os.environ))
        start = time.monotonic()
        while process.poll() is None:
            seconds = time.monotonic() - start
            if seconds > LIFE_SECONDS:
                process.kill()
            if end_when(seconds):
                start = time.monotonic()
                process.send_signal(end_by)
                process.wait(LIFE_SECONDS)
                break
            time.sleep(0.02)
    return Ended(process.wait(), errors.read_text(encoding="utf-8"), time.monotonic() - start)


def stored_rows(out: Path) -> list[Row]:
    """Give what is stored of a run, also while it is worked on."""
    if not (out / "run.sqlite").exists():
        return []
    with closing(sqlite3.connect(f"file:{out / 'run.sqlite'}?mode=ro", uri=True, timeout=10)) as connection:
        query = "SELECT stage, key, content_sha256, finished FROM units ORDER BY key"
        return [(stage, key, digest, finished) for stage, key, digest, finished in connection.execute(query)]


def stored(out: Path, stage: str, n_units: int) -> Callable[[float], bool]:
    """Tell whether so many units of a stage are stored."""

    def is_stored(_seconds: float) -> bool:
        return Counter(row[0] for row in stored_rows(out))[stage] >= n_units

    return is_stored


def after(moment: float) -> Callable[[float], bool]:
    """Tell whether so many seconds have passed."""
    return lambda seconds: seconds >= moment


def digest_results(out: Path) -> dict[str, str]:
    """Give the SHA-256 of everything that the result consists of; the summary has times in it."""
    paths = [out / "scores.csv", out / "clusters.csv", *sorted((out / "models").rglob("*"))]
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_file()
    }


def list_names(out: Path) -> list[str]:
    """Give the names of all files of a run, hidden ones too."""
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
