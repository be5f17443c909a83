"""The part ``data`` of `benchmarks.ground`: loading, tokenising, and what `import robusttc` takes.

The plain way to load is a loop of `json.loads`, that to tokenise is a loop of NLTK's tokenizer.

Every version is measured in a process of its own, which is this module run as a script.
"""

from __future__ import annotations

import gzip
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
LOADING_ROW, TOKENS_ROW = "load clients1491, s", "tokenise amazon69, s"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(old: Path | None) -> list[list[str]]:
    """Return the rows of the table."""
    root = Path(__file__).parent.parent
    new, plain = (run(root / "src", root, way) for way in ("new", "plain"))
    before = {} if old is None else run(old / "src", root, "old")
    return [
        [
            what,
            f"{value:.2f}",
            f"{plain[what]:.2f}" if what in plain else "",
            f"{before[what]:.2f}" if before else "",
            f"{before[what] / value:.2f}" if before else "",
        ]
        for what, value in new.items()
    ]


def run(source: Path, root: Path, way: str) -> dict[str, float]:
    """Measure one version, or the plain way, in a process of its own."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(source), str(root)])}
    done = subprocess.run(
        [sys.executable, __file__, way], env=environment, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def best_of(work: Callable[[], Any], n_runs: int = N_RUNS) -> float:
    """Return the CPU seconds of the best of some runs."""
    found = []
    for _ in range(n_runs):
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
        LOADING_ROW: best_of(lambda: rtc.load_tasks(find_data("clients1491"))),
        TOKENS_ROW: best_of(lambda: build(reviews).encode_tasks(reviews)),
    }


def measure_plain() -> dict[str, float]:
    """Measure a loop of `json.loads` that makes four lists, and a loop of NLTK's tokenizer."""
    from nltk.tokenize import NLTKWordTokenizer

    def load(name: str) -> list[list[str]]:
        columns: list[list[str]] = [[], [], [], []]
        with gzip.open(find_data(name), "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                for key, column in zip(("task", "text", "label", "split"), columns, strict=True):
                    column.append(row[key])
        return columns

    texts, tokenizer = load("amazon69")[1], NLTKWordTokenizer()

    def tokenise() -> None:
        for text in texts:
            tokenizer.tokenize(text)

    return {LOADING_ROW: best_of(lambda: load("clients1491")), TOKENS_ROW: best_of(tokenise, n_runs=1)}


if __name__ == "__main__":
    print(json.dumps(measure_plain() if sys.argv[1] == "plain" else measure_here()))
