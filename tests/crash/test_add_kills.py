"""`robusttc add`, killed on the way, ends with the same bytes as undisturbed, and touches nobody else."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from crash_fit import PROGRAM, digest_results, run_fit, write_tasks

SEED = int(os.environ.get("ROBUSTTC_CRASH_SEED", "0"))
OPTIONS = ("--encoder", "cnn", "--clusters", "2")


def run_add(run: Path, tasks: Path, *, kill_after: float = float("inf")) -> tuple[int, float, str]:
    """Start the command, and kill it after some seconds; give its code, its time, and what it said."""
    start = time.monotonic()
    command = [*PROGRAM, "add", str(run), str(tasks), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and time.monotonic() - start < kill_after:
        time.sleep(0.005)
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    return process.returncode, time.monotonic() - start, said


def figures(run: Path) -> object:
    """Everything that the summary says but for times."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return {name: value for name, value in summary.items() if name != "costs"}


@pytest.mark.slow
def test_killed_15_times_at_random(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 6)
    late = tmp_path / "late"
    late.mkdir()
    for number in (4, 5):
        (tasks / f"client {number}.csv").rename(late / f"client {number}.csv")
    fitted = tmp_path / "fitted"
    assert run_fit(tasks, fitted, *OPTIONS).code == 0
    calm = shutil.copytree(fitted, tmp_path / "calm")
    code, seconds, said = run_add(calm, late)
    assert code == 0, said
    expected, models = digest_results(calm), digest_results(fitted)
    generator = random.Random(SEED)
    n_kills, run = 0, shutil.copytree(fitted, tmp_path / "run")
    while n_kills < 15:
        moment = generator.uniform(0.3 * seconds, seconds)
        code, _, said = run_add(run, late, kill_after=moment)
        print(f"seed {SEED}, {moment:.3f} s: {code}")  # noqa: T201 - shown by pytest
        if code == 0:
            assert digest_results(run) == expected
            assert figures(run) == figures(calm)
            shutil.rmtree(run)
            shutil.copytree(fitted, run)
            continue
        assert code == -signal.SIGKILL, said
        n_kills += 1
        now = digest_results(run)
        assert {name: now[name] for name in models if name.startswith("models/")} == {
            name: digest for name, digest in models.items() if name.startswith("models/")
        }
    assert run_add(run, late)[0] == 0
    assert digest_results(run) == expected
    assert figures(run) == figures(calm)
