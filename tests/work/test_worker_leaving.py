"""Workers that have nothing to do leave in peace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import multiprocessing
from robusttc.work.processes import Processes
from robusttc.work.units import Payload, Unit

KEPT = []


def make_lock(data, argument):
    # As progress bars of libraries do: a semaphore that lives as long as the process.
    KEPT.append(multiprocessing.RLock())
    return Payload({"made": argument})


if __name__ == "__main__":
    with Processes(2) as processes:
        units = [Unit(f"unit/{number}", make_lock, number) for number in range(4)]
        print([payload.values["made"] for payload in processes.do("unit", units)])
"""


def test_a_worker_leaves_no_semaphores_behind(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (found.returncode, found.stdout) == (0, "[0, 1, 2, 3]\n")
    assert found.stderr == ""
