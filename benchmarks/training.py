"""How fast single-task CNNs are trained, against plain torch with the same steps, and how good they are.

``python -m benchmarks.training`` trains the CNNs of 40 bots of bots175 (a seeded choice; frozen GloVe
vectors; the default settings) on one thread, task by task in turns:

* torch: nn.Embedding, nn.Conv1d, masked maximum, torch.optim.Adam (`robusttc.encoders.torch_training`);
* ours: `robusttc.encoders.training`, which makes the same steps with the same random draws.

Times are CPU seconds of the one thread, since other work may share the machine. Reading, tokenizing and
validation are in none of them. The goal is a ratio of at least 5.
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
from threadpoolctl import threadpool_limits

from benchmarks.report import SHARED, find_data, print_table
from robusttc.data import Vocabulary, load_tasks, load_word_vectors
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.model import TrainedModel
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.torch_training import train_with_torch
from robusttc.encoders.training import train_model
from robusttc.random import numpy_generator

GLOVE = "glove.6B.100d.subset.txt.gz"
MIN_RATIO = 5.0
WAYS: dict[str, Callable[..., TrainedModel]] = {"torch": train_with_torch, "ours": train_model}


def measure(*, n_tasks: int = 40) -> dict[str, Any]:
    """Train the models of some bots both ways, and give the figures."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        return measure_tasks(n_tasks, TrainingSettings())


def measure_tasks(n_tasks: int, settings: TrainingSettings) -> dict[str, Any]:
    tasks = load_tasks(find_data("bots175"))
    vocabulary = Vocabulary.build(tasks)
    encoded = vocabulary.encode_tasks(tasks)
    vectors = load_word_vectors(SHARED / GLOVE, vocabulary.words).matrix
    generator = numpy_generator(0, "training benchmark")
    names = sorted(str(name) for name in generator.choice(tasks.names, n_tasks, replace=False))
    everything = {name: WordInputs(encoded[name], vectors) for name in names}
    results: dict[str, dict[str, list[float]]] = {way: {"seconds": [], "accuracy": []} for way in WAYS}
    n_rows = []
    warm_up(everything[names[0]])
    for name in names:
        task = tasks[name]
        rows, valid = task.rows("train"), task.rows("valid")
        inputs, held_out = everything[name].take(rows), everything[name].take(valid)
        n_rows.append(len(rows))
        for way, train in WAYS.items():
            start = time.process_time()
            model = train(
                inputs,
                task.label_codes[rows].astype(np.int64),
                n_labels=len(task.label_names),
                settings=settings,
                generator=numpy_generator(0, "single", [name]),
            )
            results[way]["seconds"].append(time.process_time() - start)
            accuracy = float((model.predict_codes(held_out) == task.label_codes[valid]).mean())
            results[way]["accuracy"].append(accuracy)
    differences = np.subtract(results["ours"]["accuracy"], results["torch"]["accuracy"])
    return {
        "threads": 1,
        "n_tasks": n_tasks,
        "n_rows": n_rows,
        "settings": settings.fingerprint,
        "results": results,
        "ratio": sum(results["torch"]["seconds"]) / sum(results["ours"]["seconds"]),
        "difference": float(differences.mean()),
        "interval": bootstrap_interval(differences),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def warm_up(inputs: WordInputs) -> None:
    """Compile what is compiled, and let torch choose its algorithms."""
    for train in WAYS.values():
        settings = TrainingSettings(epochs=1, min_steps=0)
        codes = np.arange(64) % 2
        some = inputs.take(np.arange(64) % len(inputs))
        train(some, codes, n_labels=2, settings=settings, generator=numpy_generator(0, "warm-up"))


def bootstrap_interval(differences: np.ndarray[Any, Any], n_draws: int = 10_000) -> tuple[float, float]:
    """Give the 95 % interval of a mean over tasks."""
    generator = numpy_generator(0, "bootstrap")
    drawn = generator.choice(differences, (n_draws, len(differences))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", type=int, default=40, help="how many bots")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    arguments = parser.parse_args()
    figures = measure(n_tasks=arguments.tasks)
    print(
        f"{figures['n_tasks']} tasks, {sum(figures['n_rows']):,} training rows, one thread, "
        f"peak memory of the process {figures['peak_memory_mb']:,.0f} MB\n"
    )
    rows = [
        [way, f"{sum(result['seconds']):.1f}", f"{100 * np.mean(result['accuracy']):.2f} %"]
        for way, result in figures["results"].items()
    ]
    print_table(["way", "CPU s", "mean validation accuracy"], rows)
    low, high = figures["interval"]
    print(
        f"\ntime ratio {figures['ratio']:.1f}; accuracy, ours less torch's: "
        f"{100 * figures['difference']:+.2f} points, 95 % interval {100 * low:+.2f} to {100 * high:+.2f}"
    )
    failed = bool(figures["ratio"] < MIN_RATIO)
    print(f"ratio at least {MIN_RATIO:.0f}: {'NOT met' if failed else 'met'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
