"""How good the estimate of the cost of measuring transfer is: seconds and memory, against what then happens.

``python -m benchmarks.cost`` estimates, then measures, each case in a process of its own; the goal is a
factor of at most 2 either way. ``python -m benchmarks.cost "bots175, cnn"`` runs one case. Sentence vectors
go to a fresh cache, and the case "kept" finds there what the one before it left.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.report import find_data, print_table
from robusttc.data import TaskSet, load_tasks, make_planted_tasks
from robusttc.transfer import PairChoice, estimate_cost, measure_transfer, parse_pairs

# Name: data, encoder, pairs, kind.
CASES: dict[str, tuple[str, str, str, str]] = {
    "planted 48, sentence": ("48", "sentence", "all", "log_likelihood"),
    "planted 48, sentence, kept": ("48", "sentence", "all", "log_likelihood"),
    "planted 48, cnn": ("48", "cnn", "all", "log_likelihood"),
    "planted 48, sentence, accuracy": ("48", "sentence", "all", "accuracy"),
    "planted 480, sentence": ("480", "sentence", "auto", "log_likelihood"),
    "planted 480, sentence, kept": ("480", "sentence", "auto", "log_likelihood"),
    "planted 480, cnn": ("480", "cnn", "auto", "log_likelihood"),
    "bots175, sentence": ("bots175", "sentence", "auto", "log_likelihood"),
    "bots175, sentence, kept": ("bots175", "sentence", "auto", "log_likelihood"),
    "bots175, cnn": ("bots175", "cnn", "auto", "log_likelihood"),
    "clients1491, cnn, 20,000": ("clients1491", "cnn", "20000", "log_likelihood"),
}


def measure(name: str) -> dict[str, Any]:
    """Estimate and measure one case in this process, and give both."""
    data, encoder, pairs, kind = CASES[name]
    tasks = make_planted_tasks(n_tasks=int(data), random_state=0).tasks if data.isdigit() else read(data)
    chosen: PairChoice = parse_pairs(pairs)
    start = time.perf_counter()
    cost = estimate_cost(tasks, encoder=encoder, pairs=chosen, kind=kind)
    estimating = time.perf_counter() - start
    seconds, last = {"frozen": 0.0, "rest": 0.0}, time.perf_counter()

    def note(event: Any) -> None:
        nonlocal last
        now = time.perf_counter()
        part = "rest" if event.stage == "transfer" and event.done else "frozen"
        seconds[part] += now - last
        last = now

    scores = measure_transfer(tasks, encoder=encoder, pairs=chosen, kind=kind, progress=note)
    seconds["rest"] += time.perf_counter() - last
    assert len(scores) == cost.n_scores
    total = seconds["frozen"] + seconds["rest"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "name": name,
        "n_scores": cost.n_scores,
        "estimating": estimating,
        "calibration": cost.calibration_seconds,
        "estimate": cost.seconds,
        "estimate_parts": (cost.seconds_frozen, cost.seconds_models, cost.seconds_pairs),
        "actual": total,
        "actual_parts": seconds,
        "ratio": cost.seconds / total,
        "memory_estimate": cost.memory_bytes,
        "memory_actual": memory,
        "memory_ratio": cost.memory_bytes / memory,
        "described": cost.describe(),
    }


def read(data: str) -> TaskSet:
    return load_tasks(find_data(data))


def run_case(name: str, cache: str) -> dict[str, Any]:
    """Run one case in a process of its own, whose memory is then the case's."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.cost", "--json", name],
        env={**os.environ, "ROBUSTTC_CACHE": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="the cases to run; all of them if none is named")
    parser.add_argument("--json", action="store_true", help="run one case here, and print its figures")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(measure(given.cases[0])))
        return
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name in given.cases or CASES:
            found = run_case(name, cache)
            print(f"{name}: {found['described']}", file=sys.stderr, flush=True)
            print(f"  {found}", file=sys.stderr, flush=True)
            rows.append(
                [
                    name,
                    f"{found['n_scores']:,}",
                    f"{found['calibration']:.1f}",
                    f"{found['estimate']:.1f}",
                    f"{found['actual']:.1f}",
                    f"{found['ratio']:.2f}",
                    f"{found['memory_estimate'] / 1e6:,.0f}",
                    f"{found['memory_actual'] / 1e6:,.0f}",
                    f"{found['memory_ratio']:.2f}",
                ]
            )
    header = ["case", "scores", "calibration s", "estimate s", "actual s", "ratio"]
    print_table([*header, "estimate MB", "actual MB", "ratio"], rows)


if __name__ == "__main__":
    main()
