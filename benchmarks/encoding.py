"""How fast a convolution encodes texts, against torch's own, and whether the results agree.

``python -m benchmarks.encoding`` encodes all rows of bots175 and of amazon69 (all splits) with GloVe vectors,
200 random filters of window 5, on one thread, the ways in turns:

* torch: nn.Embedding, nn.Conv1d(padding="same"), masked maximum, in batches of 256 sorted by length;
* ours: `ConvolutionLayer.represent`, which looks at every distinct text once where most texts are repeated;
* ours, all rows: the same without that.

Times are CPU seconds of the one thread, since other work may share the machine. Reading, tokenizing and
sorting are in none of them. The goal is a ratio of at least 10.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.report import SHARED, find_data, print_table
from robusttc.data import TokenArray, Vocabulary, load_tasks, load_word_vectors
from robusttc.encoders.convolution import ConvolutionLayer
from robusttc.encoders.convolution_encoding import encode_texts, find_distinct_rows
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.torch_training import pad_rows
from robusttc.random import numpy_generator

SETS = ("bots175", "amazon69")
GLOVE = "glove.6B.100d.subset.txt.gz"
BATCH_SIZE = 256
MIN_RATIO = 10.0
MAX_DIFFERENCE = 1e-5

Floats = NDArray[np.float32]


def read_inputs(name: str) -> WordInputs:
    """Read all rows of a set as word numbers, with their GloVe vectors."""
    tasks = load_tasks(find_data(name), split_values={"train_full": "train_full"}, allow_incomplete=True)
    vocabulary = Vocabulary.build(tasks)
    tokens = vocabulary.encode(text for task in tasks for text in task.texts)
    return WordInputs(tokens, load_word_vectors(SHARED / GLOVE, vocabulary.words).matrix)


def new_layer(inputs: WordInputs) -> ConvolutionLayer:
    layer = ConvolutionLayer.new(
        inputs, settings=TrainingSettings(), generator=numpy_generator(0, "encoding benchmark")
    )
    layer.bias[:] = np.linspace(-0.5, 0.5, layer.width, dtype=np.float32)
    return layer


class TorchWay:
    """The usual way: the modules of torch, with the texts sorted by length."""

    def __init__(self, inputs: WordInputs, layer: ConvolutionLayer) -> None:
        window, width, dimension = layer.filters.shape
        self.embedding = torch.nn.Embedding(
            inputs.n_words, dimension, _weight=torch.from_numpy(inputs.vectors.copy()), _freeze=True
        )
        self.convolution = torch.nn.Conv1d(dimension, width, window, padding="same")
        with torch.no_grad():
            self.convolution.weight.copy_(torch.from_numpy(layer.filters.transpose(1, 2, 0).copy()))
            self.convolution.bias.copy_(torch.from_numpy(layer.bias))  # type: ignore[union-attr]
        self.tokens: TokenArray = inputs.tokens
        self.order = np.argsort(inputs.tokens.lengths, kind="stable")

    @torch.inference_mode()
    def run(self) -> Floats:
        """Encode all texts."""
        result = np.empty((len(self.tokens), self.convolution.out_channels), dtype=np.float32)
        for start in range(0, len(self.order), BATCH_SIZE):
            rows = self.order[start : start + BATCH_SIZE]
            ids, lengths = pad_rows(self.tokens, rows)
            convolved = self.convolution(self.embedding(torch.from_numpy(ids)).transpose(1, 2))
            if lengths.min() < ids.shape[1]:
                beyond = torch.from_numpy(np.arange(ids.shape[1]) >= np.maximum(lengths, 1)[:, None])
                convolved.masked_fill_(beyond[:, None, :], -torch.inf)
            result[rows] = torch.relu(convolved.amax(dim=2)).numpy()
        return result


def measure_seconds(work: Callable[[], Floats]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure_set(name: str, n_repeats: int) -> dict[str, Any]:
    """Time the ways in turns, so that a busy machine disturbs all alike."""
    inputs = read_inputs(name)
    layer = new_layer(inputs)
    reference = TorchWay(inputs, layer)
    ways: dict[str, Callable[[], Floats]] = {
        "torch": reference.run,
        "ours": lambda: layer.represent(inputs),
        "ours, all rows": lambda: encode_texts(inputs.tokens, inputs.vectors, layer.filters, layer.bias),
    }
    layer.represent(inputs.take(np.arange(300) % len(inputs)))  # compiles
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    expected = reference.run()
    difference = max(float(np.abs(ways[way]() - expected).max()) for way in ("ours", "ours, all rows"))
    # No result is kept while others are made: fresh memory costs more than memory that was just given back.
    del expected
    for _ in range(n_repeats):
        for way, work in ways.items():
            seconds[way].append(measure_seconds(work))
    best = {way: min(values) for way, values in seconds.items()}
    return {
        "set": name,
        "n_texts": len(inputs),
        "n_distinct": len(find_distinct_rows(inputs.tokens.ids, inputs.tokens.offsets)[0]),
        "n_tokens": len(inputs.tokens.ids),
        "n_words": inputs.n_words,
        "seconds": seconds,
        "ratio": best["torch"] / best["ours"],
        "ratio_all_rows": best["torch"] / best["ours, all rows"],
        "difference": difference,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(*, sets: tuple[str, ...] = SETS, n_repeats: int = 3) -> dict[str, Any]:
    """Measure all sets, and give the figures."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        return {"threads": 1, "sets": [measure_set(name, n_repeats) for name in sets]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, help="which sets to encode")
    parser.add_argument("--repeats", type=int, default=3, help="how often each way is timed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    arguments = parser.parse_args()
    figures = measure(sets=tuple(arguments.sets), n_repeats=arguments.repeats)
    rows = [
        [
            f"{figure['set']} ({figure['n_texts']:,} texts, {figure['n_distinct']:,} distinct)",
            *(f"{min(figure['seconds'][way]):.2f}" for way in ("torch", "ours", "ours, all rows")),
            f"{figure['ratio']:.1f}",
            f"{figure['ratio_all_rows']:.1f}",
            f"{figure['difference']:.1e}",
            f"{figure['peak_memory_mb']:,.0f}",
        ]
        for figure in figures["sets"]
    ]
    print(f"One thread, best of {arguments.repeats}; the peak memory is that of the whole process.\n")
    header = [
        "set",
        "torch CPU s",
        "ours CPU s",
        "ours, all rows CPU s",
        "ratio",
        "ratio, all rows",
        "largest difference",
    ]
    print_table([*header, "peak MB"], rows)
    failed = any(
        figure["ratio"] < MIN_RATIO or figure["difference"] > MAX_DIFFERENCE for figure in figures["sets"]
    )
    print(f"\nratio at least {MIN_RATIO:.0f} on every set: {'NOT met' if failed else 'met'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
