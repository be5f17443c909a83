"""Loading 199,395 rows of JSON Lines: `load_tasks` against a plain `json.loads` loop that builds lists.

Each run is a process of its own, so that its peak memory is its own; the two take turns. Time counts the
imports that loading needs. Both sides read, unpack and decode the same file; only ours checks every row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.report import find_data, print_table, worst_and_best

LOOP = """
import gzip, json
tasks, texts, labels, splits = [], [], [], []
with gzip.open(path, "rt", encoding="utf-8") as lines:
    for line in lines:
        row = json.loads(line)
        tasks.append(row["task"])
        texts.append(row["text"])
        labels.append(row["label"])
        splits.append(row["split"])
n_rows = len(texts)
"""
OURS = """
from robusttc import load_tasks
tasks = load_tasks(path)
n_rows = tasks.n_rows
"""
FRAME = """
import resource, sys, time
path = sys.argv[1]
start = time.perf_counter()
{body}
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
import json
print(json.dumps({{"seconds": seconds, "peak_mib": peak, "n_rows": n_rows}}))
"""
REPEATS = 5


def measure(body: str, path: Path) -> dict[str, float]:
    """Run one side in a process of its own."""
    command = [sys.executable, "-c", FRAME.format(body=body), str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(result.stdout)
    return measured


def main() -> dict[str, object]:
    """Measure, print the table, and give the figures."""
    path = find_data("clients1491")
    runs: dict[str, list[dict[str, float]]] = {"json.loads loop": [], "load_tasks": []}
    for _ in range(REPEATS):
        runs["json.loads loop"].append(measure(LOOP, path))
        runs["load_tasks"].append(measure(OURS, path))
    assert len({run["n_rows"] for side in runs.values() for run in side}) == 1

    best = {side: min(run["seconds"] for run in measured) for side, measured in runs.items()}
    peak = {side: max(run["peak_mib"] for run in measured) for side, measured in runs.items()}
    # Runs side by side share the weather of the machine: their ratio is steadier than either time.
    ratios = [
        ours["seconds"] / loop["seconds"]
        for loop, ours in zip(runs["json.loads loop"], runs["load_tasks"], strict=True)
    ]
    print(f"Loading {path.parent.name}: {int(runs['load_tasks'][0]['n_rows']):,} rows, {REPEATS} runs each\n")
    print_table(
        ["", "best seconds", "all seconds", "peak MiB"],
        [
            [
                side,
                f"{best[side]:.2f}",
                worst_and_best([run["seconds"] for run in measured]),
                f"{peak[side]:.0f}",
            ]
            for side, measured in runs.items()
        ],
    )
    time_ratio = best["load_tasks"] / best["json.loads loop"]
    memory_ratio = peak["load_tasks"] / peak["json.loads loop"]
    print(f"\ntime ratio {time_ratio:.2f} (pairs of runs: {worst_and_best(ratios)}; at most 2.5 was asked)")
    print(f"peak memory ratio {memory_ratio:.2f} (at most 1.5 was asked)\n")
    return {"runs": runs, "time_ratio": time_ratio, "memory_ratio": memory_ratio}


if __name__ == "__main__":
    main()
