"""How fast a whole transfer matrix of the paper's kind is measured, against the plain way.

``python -m benchmarks.matrix`` takes 60 bots of bots175 (a seeded choice), trains the model of each (this is
in none of the times), and measures all 60 x 59 accuracies: of a softmax classifier that is trained on the
train rows of the target, on the frozen representation of the source (200 numbers), and judged on valid.

* ours: `robusttc.transfer.pair_scores.score_source`;
* plain: the texts are encoded by torch's nn.Embedding, nn.Conv1d and maximum (encoder ``cnn``, GloVe vectors)
  or by ``relu(x @ W + b)`` in NumPy (encoder ``sentence``, the sentence vectors are given to both), every
  distinct text once; then scikit-learn's LogisticRegression (the same C, at most 1,000 iterations) is fitted
  and scored for every target.

One thread on both sides, source by source in turns. The plain way is measured on a seeded sample of the
sources (``--plain-sources``), and its time is scaled to all of them; the two are compared on the scores of
the sample. Goals: 30 times faster with ``cnn``, 25 with ``sentence``; a rank correlation of at least 0.97 and
a mean absolute difference of at most 0.015.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.report import GLOVE, find_data, print_table
from benchmarks.torch_training import encode_with_torch
from robusttc.data import TaskSet, load_tasks
from robusttc.encoders import CnnEncoder, DenseInputs, Encoder, SentenceEncoder, WordInputs
from robusttc.models import ConvolutionLayer, DenseLayer
from robusttc.random import numpy_generator
from robusttc.transfer import TransferSettings
from robusttc.transfer.pair_scores import (
    CLASSIFIER_C,
    SourceEncoder,
    TransferPlan,
    make_plan,
    score_source,
    train_source,
)

Floats = NDArray[np.float32]
Result = TypeVar("Result")

MIN_RATIO = {"cnn": 30.0, "sentence": 25.0}
MIN_CORRELATION = 0.97
MAX_DIFFERENCE = 0.015


def make_benchmark_plan(encoder: str, n_bots: int, seed: int) -> TransferPlan:
    """Choose bots, and compute the frozen part of their texts."""
    tasks = load_tasks(find_data("bots175"))
    chosen = numpy_generator(seed, "matrix benchmark").choice(tasks.names, n_bots, replace=False)
    bots = TaskSet([tasks[name] for name in sorted(str(name) for name in chosen)])
    frozen: Encoder = CnnEncoder(GLOVE) if encoder == "cnn" else SentenceEncoder(device="cpu")
    prepared = frozen.prepare(bots, splits=("train", "valid"))
    settings = TransferSettings(kind="accuracy")
    return make_plan(bots, prepared, settings=settings, seed=seed)


def targets_of(plan: TransferPlan, source: int) -> NDArray[np.int64]:
    """List all tasks but the source."""
    return np.delete(np.arange(len(plan.rows)), source)


def score_all(plan: TransferPlan, source: int, encoder: SourceEncoder) -> NDArray[np.float64]:
    """Score one source on all of its targets."""
    return score_source(plan, source, encoder, targets_of(plan, source)).arrays["score"]


def encode_plainly(plan: TransferPlan, model: SourceEncoder) -> Floats:
    """Encode every distinct text the usual way."""
    if isinstance(plan.inputs, WordInputs):
        assert isinstance(model.layer, ConvolutionLayer)
        return encode_with_torch(plan.inputs, model.layer)
    assert isinstance(plan.inputs, DenseInputs)
    assert isinstance(model.layer, DenseLayer)
    result: Floats = np.maximum(plan.inputs.matrix @ model.layer.weight + model.layer.bias, 0)
    return result


def score_plainly(plan: TransferPlan, source: int, model: SourceEncoder) -> NDArray[np.float64]:
    """Score one source on all of its targets the usual way."""
    features = encode_plainly(plan, model)
    scores = []
    for target in targets_of(plan, source):
        rows = plan.rows[target]
        own = features[rows.items]
        classifier = LogisticRegression(C=CLASSIFIER_C, max_iter=1000)
        classifier.fit(own[: rows.n_train], rows.codes[: rows.n_train])
        scores.append(classifier.score(own[rows.n_train :], rows.codes[rows.n_train :]))
    return np.array(scores)


def time_call(work: Callable[[], Result]) -> tuple[NDArray[np.float64], Result]:
    """Give CPU and wall seconds, and the result."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return np.array([time.process_time() - cpu, time.perf_counter() - wall]), result


def measure(encoder: str, *, n_bots: int = 60, n_plain: int = 6, seed: int = 0) -> dict[str, Any]:
    """Measure the matrix both ways, and give the figures."""
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plan = make_benchmark_plan(encoder, n_bots, seed)
        models = {source: train_source(plan, source) for source in range(n_bots)}
        drawn = numpy_generator(seed, "plain sources").choice(n_bots, n_plain, replace=False)
        sample = sorted(drawn.tolist())
        score_all(plan, 0, models[0])  # compiles
        ours_s, plain_s = np.zeros(2), np.zeros(2)
        ours: list[NDArray[np.float64]] = []
        plain: list[NDArray[np.float64]] = []
        for source, model in models.items():
            seconds, block = time_call(lambda s=source, m=model: score_all(plan, s, m))  # type: ignore[misc]
            ours_s += seconds
            if source in sample:
                seconds, scores = time_call(lambda s=source, m=model: score_plainly(plan, s, m))  # type: ignore[misc]
                plain_s += seconds
                plain.append(scores)
                ours.append(block)
    plain_s *= n_bots / n_plain
    return {
        "encoder": encoder,
        "n_bots": n_bots,
        "n_entries": n_bots * (n_bots - 1),
        "n_texts": len(plan.inputs),
        "n_plain": n_plain,
        "ours_s": ours_s.tolist(),
        "plain_s": plain_s.tolist(),
        "ratio": (plain_s / ours_s).tolist(),
        **compare(plan, sample, np.array(ours), np.array(plain)),
    }


def compare(
    plan: TransferPlan, sample: list[int], ours: NDArray[np.float64], plain: NDArray[np.float64]
) -> dict[str, float]:
    """Compare the scores of the sample; with enough sources also the order of the sources of each target."""
    n_bots = len(plan.rows)
    matrices = np.full((2, len(sample), n_bots), np.nan)
    for place, source in enumerate(sample):
        matrices[:, place, targets_of(plan, source)] = ours[place], plain[place]
    within = []
    for one, other in zip(*matrices.transpose(0, 2, 1), strict=True):
        known = ~np.isnan(one)
        if known.sum() > 2 and np.ptp(one[known]) > 0 and np.ptp(other[known]) > 0:
            within.append(float(spearmanr(one[known], other[known])[0]))
    return {
        "correlation": float(spearmanr(ours.ravel(), plain.ravel())[0]),
        "correlation_of_sources": float(np.mean(within)) if within else float("nan"),
        "difference": float(np.abs(ours - plain).mean()),
        "bias": float((ours - plain).mean()),
    }


def is_met(figures: dict[str, Any]) -> bool:
    """Tell whether all goals are met, the time by CPU seconds."""
    return bool(
        figures["ratio"][0] >= MIN_RATIO[figures["encoder"]]
        and figures["correlation"] >= MIN_CORRELATION
        and figures["difference"] <= MAX_DIFFERENCE
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--encoders", nargs="+", default=list(MIN_RATIO), choices=list(MIN_RATIO))
    parser.add_argument("--bots", type=int, default=60, help="how many bots")
    parser.add_argument("--plain-sources", type=int, default=6, help="how many sources the plain way does")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    arguments = parser.parse_args()
    results = [
        measure(encoder, n_bots=arguments.bots, n_plain=arguments.plain_sources)
        for encoder in arguments.encoders
    ]
    print(
        f"{arguments.bots} bots, {results[0]['n_entries']:,} scores, one thread; the plain way was measured "
        f"on {arguments.plain_sources} sources and scaled to {arguments.bots}.\n"
    )
    header = ["encoder", "plain CPU s", "ours CPU s", "ratio", "plain wall s", "ours wall s", "wall ratio"]
    header += ["rank correlation", "that of sources within a target", "mean difference", "bias", "goals"]
    rows = [
        [
            figures["encoder"],
            *(
                text
                for kind in range(2)
                for text in (
                    f"{figures['plain_s'][kind]:.0f}",
                    f"{figures['ours_s'][kind]:.1f}",
                    f"{figures['ratio'][kind]:.1f}",
                )
            ),
            f"{figures['correlation']:.4f}",
            f"{figures['correlation_of_sources']:.3f}",
            f"{figures['difference']:.4f}",
            f"{figures['bias']:+.4f}",
            "met" if is_met(figures) else "NOT met",
        ]
        for figures in results
    ]
    print_table(header, rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return int(not all(is_met(figures) for figures in results))


if __name__ == "__main__":
    raise SystemExit(main())
