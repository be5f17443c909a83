"""The part ``encoders`` of `benchmarks.ground`: every encoder on 2,000 distinct texts of bots175.

Every encoder is measured in a process of its own with an empty cache, which is this module run as a script.
"""

from __future__ import annotations

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

from benchmarks.report import find_data

ROOT = Path(__file__).parents[1]
N_TEXTS, N_SINGLE, N_RUNS = 2_000, 50, 3
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
        transformer = SentenceEncoder(device="cpu").load()
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
            [sys.executable, __file__, way, str(texts_file)],
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


def measure(old: Path | None) -> list[list[str]]:
    """Return the rows of the table; the plain way is the library's own `encode`."""
    found = measure_encoders(old)
    new, plain, before = found["sentence"], found["library"], found.get("old")
    rows = []
    for what, part, scale in (("2,000 texts, s", "many", 1.0), ("one text, warm, ms", "single", 1e3)):
        was = "" if before is None else f"{scale * before[part]:.2f}"
        ratio = "" if before is None else f"{before[part] / new[part]:.2f}"
        rows.append(
            [f"sentence, {what}", f"{scale * new[part]:.2f}", f"{scale * plain[part]:.2f}", was, ratio]
        )
    for way in ("static", "multilingual", "both"):
        values = found[way]
        rows.append([f"{way}, 2,000 texts, s", f"{values['many']:.2f}", "", "", ""])
        rows.append([f"{way}, one text, warm, ms", f"{1e3 * values['single']:.2f}", "", "", ""])
    rows += [
        [f"{way}, texts a CPU second", f"{N_TEXTS / found[way]['many']:,.0f}", "", "", ""]
        for way in ("sentence", "static", "multilingual", "both")
    ]
    both_to_sentence = found["both"]["many"] / new["many"]
    rows.append(["both, time to that of sentence (at most 1.25)", f"{both_to_sentence:.2f}", "", "", ""])
    rows.append(["static, first use, s", f"{found['static']['first']:.1f}", "", "", ""])
    return rows


if __name__ == "__main__":
    # A process of its own that measures one way: see `measure_apart`.
    print(json.dumps(measure_here(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))))
