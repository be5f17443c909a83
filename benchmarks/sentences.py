"""How fast texts become sentence vectors, against sentence-transformers as it comes, and whether they agree.

``python -m benchmarks.sentences`` measures on the texts of bots175, with one thread and with two:

* ours: `encode_sentences` on all rows, with no cache;
* all rows: ``SentenceTransformer(folder, device="cpu").encode(texts)``, nothing set but the device;
* distinct texts: the same on every distinct text once.

Every measurement has a process of its own (loading is not counted), and the three ways take turns. The
requirement is a ratio of at least 1.5 between all rows and ours. ``--limit`` takes the first rows only.
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
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import find_data, print_table
from robusttc.data import load_tasks

ROOT = Path(__file__).parents[1]
WAYS = ("ours", "all rows", "distinct texts")
MIN_RATIO = 1.5
MIN_COSINE = 0.9999
# Every library that would otherwise take as many threads as there are cores; tokenizers are threaded, too.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


def read_texts(limit: int | None) -> list[str]:
    """Read the texts of all rows, or the first ones."""
    tasks = load_tasks(find_data("bots175"))
    return [text for task in tasks for text in task.texts][:limit]


def measure_here(way: str, n_threads: int, limit: int | None, vectors_path: Path) -> dict[str, Any]:
    """Encode in one way in this process."""
    import torch

    from robusttc.encoders.model_folder import default_model_folder
    from robusttc.encoders.sentence_model import load_sentence_model
    from robusttc.encoders.sentence_vectors import encode_sentences

    torch.set_num_threads(n_threads)
    texts = read_texts(limit)
    warm_up = texts[:64]
    if way == "ours":
        model = load_sentence_model()
        encode_sentences(model, warm_up)
        start = time.perf_counter(), time.process_time()
        vectors = encode_sentences(model, texts)
    else:
        from sentence_transformers import SentenceTransformer

        transformer = SentenceTransformer(str(default_model_folder()), device="cpu")
        transformer.encode(warm_up)
        inputs = texts if way == "all rows" else list(dict.fromkeys(texts))
        start = time.perf_counter(), time.process_time()
        vectors = np.asarray(transformer.encode(inputs))
    seconds, cpu_seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    np.save(vectors_path, vectors)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mib": peak_kib / 1024, "rows": len(vectors)}


def measure_apart(way: str, n_threads: int, limit: int | None, vectors_path: Path) -> dict[str, Any]:
    """Encode in one way in a new process."""
    arguments = ["--child", way, "--threads", str(n_threads), "--vectors", str(vectors_path)]
    arguments += [] if limit is None else ["--limit", str(limit)]
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.sentences", *arguments],
        cwd=ROOT,
        env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(n_threads))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    figures: dict[str, Any] = json.loads(result.stdout)
    return figures


def measure(n_threads: int, *, turns: int = 1, limit: int | None = None) -> dict[str, Any]:
    """Measure the three ways in turns with a number of threads: the best turn of each, and how they agree."""
    best: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {way: Path(folder, f"{way}.npy") for way in WAYS}
        for _ in range(turns):
            for way in WAYS:
                figures = measure_apart(way, n_threads, limit, paths[way])
                known = best.setdefault(way, figures)
                best[way] = {name: min(value, known[name]) for name, value in figures.items()}
        ours, theirs = np.load(paths["ours"]), np.load(paths["all rows"])
    norms = np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1)
    return {
        "threads": n_threads,
        "ways": best,
        "ratio": best["all rows"]["seconds"] / best["ours"]["seconds"],
        "ratio_cpu": best["all rows"]["cpu_seconds"] / best["ours"]["cpu_seconds"],
        "ratio_distinct": best["distinct texts"]["seconds"] / best["ours"]["seconds"],
        "ratio_distinct_cpu": best["distinct texts"]["cpu_seconds"] / best["ours"]["cpu_seconds"],
        "min_cosine": float(((ours * theirs).sum(axis=1) / (norms[0] * norms[1])).min()),
        "max_norm_difference": float(np.abs(norms[0] - norms[1]).max()),
    }


def rows_of(figures: dict[str, Any]) -> list[list[str]]:
    """Write the figures of one number of threads as rows of a table."""
    ours = figures["ways"]["ours"]
    return [
        [
            str(figures["threads"]),
            way,
            f"{found['rows']:,}",
            f"{found['seconds']:.1f}",
            f"{found['seconds'] / ours['seconds']:.2f}",
            f"{found['cpu_seconds']:.1f}",
            f"{found['cpu_seconds'] / ours['cpu_seconds']:.2f}",
            f"{found['peak_mib']:,.0f}",
        ]
        for way, found in figures["ways"].items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--limit", type=int, default=None, help="take only the first rows")
    parser.add_argument("--turns", type=int, default=1, help="measure so many times, and take the best")
    parser.add_argument("--threads", type=int, default=None, help="only with this number of threads")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--vectors", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure_here(options.child, options.threads, options.limit, options.vectors)))
        return 0
    threads = [1, 2] if options.threads is None else [options.threads]
    all_figures = [measure(number, turns=options.turns, limit=options.limit) for number in threads]
    header = ["threads", "way", "rows", "seconds", "to ours", "CPU seconds", "to ours", "peak MiB"]
    print_table(header, [row for figures in all_figures for row in rows_of(figures)])
    for figures in all_figures:
        print(
            f"\n{figures['threads']} threads: smallest cosine {figures['min_cosine']:.7f}, "
            f"largest difference of norms {figures['max_norm_difference']:.1e}"
        )
    good = all(found["ratio"] >= MIN_RATIO and found["min_cosine"] >= MIN_COSINE for found in all_figures)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
