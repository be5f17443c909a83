"""The part ``data`` of `benchmarks.ground`: loading, tokenising, and what `import robusttc` takes.

Every version is measured in a process of its own, which is this module run as a script.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.report import find_data

N_RUNS = 3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(old: Path | None) -> list[list[str]]:
    """Return the rows of the table."""
    root = Path(__file__).parent.parent
    new = run(root / "src", root)
    before = {} if old is None else run(old / "src", root)
    return [
        [
            what,
            f"{value:.2f}",
            "",
            f"{before[what]:.2f}" if before else "",
            f"{before[what] / value:.2f}" if before else "",
        ]
        for what, value in new.items()
    ]


def run(source: Path, root: Path) -> dict[str, float]:
    """Measure one version in a process of its own."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(source), str(root)])}
    done = subprocess.run([sys.executable, __file__], env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def best_of(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of the best of three runs."""
    found = []
    for _ in range(N_RUNS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def measure_here() -> dict[str, float]:
    """Measure the version that is imported."""
    start = time.process_time()
    import robusttc as rtc

    imported = time.process_time() - start
    build = import_module("robusttc.data.tokens").Vocabulary.build
    own_split = {"train_full": "train_full"}  # six tasks have rows of no other one
    reviews = rtc.load_tasks(find_data("amazon69"), split_values=own_split, allow_incomplete=True)
    return {
        "import robusttc, s": imported,
        "load clients1491, s": best_of(lambda: rtc.load_tasks(find_data("clients1491"))),
        "tokenise amazon69, s": best_of(lambda: build(reviews).encode_tasks(reviews)),
    }


if __name__ == "__main__":
    print(json.dumps(measure_here()))
