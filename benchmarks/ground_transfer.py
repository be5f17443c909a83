"""The part ``transfer`` of `benchmarks.ground`: measuring S with cached vectors, beside version 0.1.

Every version measures in a process of its own, which is this module run as a script. Vectors are read from
the cache, so what is timed is measuring.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import find_data
from robusttc.encoders import default_cache_folder

SETS = ("bots175", "diverse")
RELIABILITY = ("split_half_without_donors", "reciprocity_without_donors")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(old: Path | None, n_tasks: int | None = None) -> list[list[str]]:
    """Return the rows of the table: CPU seconds, reliability, and how far scores of both versions differ.

    Parameters
    ----------
    old
        A checkout of version 0.1; None measures the new version alone.
    n_tasks
        Only the first so many tasks of each set.
    """
    return [row for name in SETS for row in measure_set(name, "sentence", old, n_tasks)]


def measure_set(name: str, encoder: str, old: Path | None, n_tasks: int | None = None) -> list[list[str]]:
    """Return the rows of one set and one encoder."""
    root = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{version}.npz") for version in ("new", "old")]
        new = run(root / "src", root, name, encoder, n_tasks, files[0])
        before = None if old is None else run(old / "src", root, name, encoder, n_tasks, files[1])
        what = f"full S, {name}" if n_tasks is None else f"S of {n_tasks} tasks, {name}"
        inputs = "cnn" if encoder == "cnn" else "cached vectors"
        rows = [compare(f"{what}, {inputs}, CPU s", "cpu", new, before, has_ratio=True)]
        rows += [compare(f"{what}, {part}", part, new, before) for part in RELIABILITY]
        if before is not None:
            one, other = (dict(np.load(file)) for file in files)
            apart = np.abs(one["score"] - other["score"])
            n_moved = int(np.count_nonzero(apart > 1e-9))
            rows.append([f"{what}, largest difference to old; above 1e-9", f"{apart.max():.1e}; {n_moved:,}"])
            rows[-1] += [""] * 3
    return rows


def compare(
    what: str, part: str, new: dict[str, Any], old: dict[str, Any] | None, *, has_ratio: bool = False
) -> list[str]:
    """Return one row of the table."""
    before = "" if old is None else f"{old[part]:.3g}"
    ratio = f"{old[part] / new[part]:.2f}" if old and has_ratio else ""
    return [what, f"{new[part]:.3g}", "", before, ratio]


def run(source: Path, root: Path, name: str, encoder: str, n_tasks: int | None, out: Path) -> dict[str, Any]:
    """Measure one version in a process of its own."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(source), str(root)])}
    if source != root / "src":  # version 0.1 takes the cache of the other for a damaged one of its own
        environment["ROBUSTTC_CACHE"] = str(default_cache_folder().parent / "version-0.1")
    command = [sys.executable, __file__, name, encoder, str(n_tasks or 0), str(out)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure_here(name: str, encoder: str, n_tasks: int, out: Path) -> dict[str, Any]:
    """Measure a set with the version that is imported, and write its scores."""
    import robusttc as rtc

    tasks = rtc.load_tasks(find_data(name))
    tasks = tasks.subset(tasks.names[: n_tasks or len(tasks)])
    few = tasks.subset(tasks.names[:3])
    rtc.measure_transfer(few, encoder=encoder, pairs="all")  # loads and compiles
    start = time.process_time()
    scores = rtc.measure_transfer(tasks, encoder=encoder, pairs="all")
    seconds = time.process_time() - start
    np.savez(out, score=scores.score)
    found = scores.reliability()
    return {"cpu": seconds, **{part: getattr(found, part) for part in RELIABILITY}}


if __name__ == "__main__":
    # A process of its own that measures one version: see `run`.
    print(json.dumps(measure_here(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))))
