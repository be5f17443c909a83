"""What encoding costs: every encoder, sentence-transformers as it comes, and version 0.1.

``python -m benchmarks.ground_encoders`` measures on 2,000 distinct texts of bots175, in processes of their
own, with one thread; the figures are CPU seconds, the best of three. ``--old FOLDER`` also measures the
sentence encoder of version 0.1, from a checkout of it. Requirements, where both sides are measured:

* 2,000 distinct texts: at most 1.05 times version 0.1;
* one text, warm: at most 1.1 times ``SentenceTransformer.encode``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import find_data, print_table

ROOT = Path(__file__).parents[1]
N_TEXTS, N_SINGLE, N_RUNS = 2_000, 50, 3
MAX_RATIO_OLD, MAX_RATIO_LIBRARY = 1.05, 1.1
WAYS = ("sentence", "library", "static", "multilingual", "both")
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "RAYON")}


def read_texts() -> list[str]:
    """Return 2,000 distinct texts, the same each time."""
    import gzip

    with gzip.open(find_data("bots175"), "rt", encoding="utf-8") as lines:
        texts = sorted({json.loads(line)["text"] for line in lines})
    return [texts[number] for number in np.random.default_rng(0).permutation(len(texts))[:N_TEXTS]]


def make_encode(way: str) -> Callable[[list[str]], Any]:
    """Return what turns texts into vectors in one way; nothing is cached."""
    if way == "old":  # the names of version 0.1
        model = import_module("robusttc.encoders.sentence_model").load_sentence_model(device="cpu")
        encode_sentences = import_module("robusttc.encoders.sentence_vectors").encode_sentences
        return lambda texts: encode_sentences(model, texts)
    from robusttc.encoders import SentenceEncoder, make_encoder

    if way == "library":
        transformer = SentenceEncoder(device="cpu").load().transformer
        return lambda texts: transformer.encode(texts, show_progress_bar=False)
    encoder = make_encoder(way, device="cpu")
    return encoder.encode


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of the best of three runs."""
    best = float("inf")
    for _ in range(N_RUNS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure_here(way: str, texts: list[str]) -> dict[str, float]:
    """Measure one way in this process."""
    import torch

    torch.set_num_threads(1)
    encode = make_encode(way)
    start = time.process_time()
    encode(texts[:64])  # loads the model; the static encoder distils its table
    first = time.process_time() - start
    return {
        "first": first,
        "many": cpu_seconds(lambda: encode(texts)),
        "single": cpu_seconds(lambda: [encode([text]) for text in texts[:N_SINGLE]]) / N_SINGLE,
    }


def measure_apart(way: str, texts_file: Path, source: Path) -> dict[str, float]:
    """Measure one way in a new process, with an empty cache, on the package in `source`."""
    with tempfile.TemporaryDirectory() as cache:
        result = subprocess.run(
            [sys.executable, __file__, "--child", way, "--texts", str(texts_file)],
            env={
                **os.environ,
                **THREADS,
                "PYTHONPATH": f"{source}{os.pathsep}{ROOT}",
                "ROBUSTTC_CACHE": cache,
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode:
        raise RuntimeError(f"{way}: {result.stderr[-2_000:]}")
    measured: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return measured


def measure_encoders(old: Path | None = None) -> dict[str, dict[str, float]]:
    """Measure every way; `old` is a checkout of version 0.1."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        texts_file = Path(folder) / "texts.json"
        texts_file.write_text(json.dumps(read_texts()))
        for way in WAYS:
            found[way] = measure_apart(way, texts_file, ROOT / "src")
        if old is not None:
            found["old"] = measure_apart("old", texts_file, old / "src")
    return found


def find_failures(found: dict[str, dict[str, float]]) -> list[str]:
    """Return the requirements that are not met."""
    failures = []
    one = found["sentence"]["single"] / found["library"]["single"]
    if one > MAX_RATIO_LIBRARY:
        failures.append(f"one text takes {one:.2f} times as long as the library's own encode")
    if "old" in found:
        many = found["sentence"]["many"] / found["old"]["many"]
        if many > MAX_RATIO_OLD:
            failures.append(f"{N_TEXTS:,} texts take {many:.2f} times as long as in version 0.1")
    return failures


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, help="a checkout of version 0.1")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--texts", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure_here(arguments.child, json.loads(arguments.texts.read_text()))))
        return 0
    found = measure_encoders(arguments.old)
    rows = [
        [
            way,
            f"{values['many']:.2f}",
            f"{N_TEXTS / values['many']:,.0f}",
            f"{1e3 * values['single']:.2f}",
            f"{values['first']:.1f}",
        ]
        for way, values in found.items()
    ]
    print_table(["encoder", "s for 2,000 texts", "texts/s", "ms for one", "s at first use"], rows)
    failures = find_failures(found)
    for failure in failures:
        print(f"NOT MET: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
