"""How far each kind of score can be trusted, on real tasks.

For each kind: the correlation of two halves of the evaluation rows, the correlation of the two directions of
a pair (both less the mean of each source), the agreement of the clusters with the kinds of task that
`diverse` names, and the correlation with the real gain of training two bots together (see
`benchmarks.pair_gain`), on test rows that no score has seen.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score

from benchmarks.pair_gain import measure_gains
from benchmarks.report import find_data, print_table
from robusttc import DoubtWarning, RobustTaskClustering, TaskSet, TransferScores, load_tasks
from robusttc.encoders import SentenceEncoder
from robusttc.models import TrainingSettings
from robusttc.random import numpy_generator
from robusttc.transfer import TransferSettings, measure_transfer

WAYS: dict[str, TransferSettings] = {
    "log-likelihood, narrow 6 (default)": TransferSettings(),
    "Brier score, narrow 6": TransferSettings(kind="brier"),
    "log-likelihood, sentence vectors as they are": TransferSettings(measure_width=None),
    "accuracy on valid (the paper's), layer of 200": TransferSettings(kind="accuracy"),
    "texts in common": TransferSettings(kind="overlap"),
}

# What scores should foretell: the gain of the target, as `benchmarks.pair_gain.judge` orders its numbers.
GAINS = ("gain in log-likelihood", "gain in accuracy", "novel: log-likelihood", "novel: accuracy")


def cut_rows(tasks: TaskSet, n_train: int, n_valid: int) -> TaskSet:
    """Keep so many rows of train and of valid a task, drawn by the task's name; none of test.

    A task that is left with one label is dropped.
    """
    kept = []
    for task in tasks:
        generator = numpy_generator(0, "rows of a benchmark", [task.name])
        train = np.sort(generator.permutation(task.rows("train"))[:n_train])
        valid = np.sort(generator.permutation(task.rows("valid"))[:n_valid])
        if len(np.unique(task.label_codes[train])) > 1:
            kept.append(task.take(np.concatenate([train, valid])))
    return TaskSet(kept)


def read_kinds(tasks: TaskSet) -> list[str]:
    """Give the kind of each task of `diverse`."""
    path = find_data("diverse").parent / "KINDS.tsv"
    with path.open(encoding="utf-8") as file:
        kind_of = {row["task"]: row["kind"] for row in csv.DictReader(file, delimiter="\t")}
    return [kind_of[name] for name in tasks.names]


def centred(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take each target's mean off: a gain is a difference too, and in the same unit."""
    matrix = matrix.copy()
    np.fill_diagonal(matrix, np.nan)
    return np.asarray(matrix - np.nanmean(matrix, axis=0))


def foretell(
    matrix: NDArray[np.float64], pairs: NDArray[np.int64], gains: NDArray[np.float64], seed: int
) -> tuple[float, float, float]:
    """Correlate scores with gains over all directed pairs; the interval is from resampling the pairs."""
    known = ~np.isnan(gains).any(axis=0)
    gains, (first, second) = gains[:, known], pairs[known].T
    pairs = pairs[known]
    score = np.stack([matrix[first, second], matrix[second, first]])
    generator = numpy_generator(seed, "resampled pairs")
    draws = []
    for _ in range(1000):
        rows = generator.integers(len(pairs), size=len(pairs))
        draws.append(np.corrcoef(score[:, rows].ravel(), gains[:, rows].ravel())[0, 1])
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(np.corrcoef(score.ravel(), gains.ravel())[0, 1]), float(low), float(high)


def cluster(scores: TransferScores, n_clusters: int | str) -> tuple[NDArray[np.intp], int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        model = RobustTaskClustering(n_clusters).fit(scores)  # type: ignore[arg-type]
    return model.labels_, model.n_clusters_


def judge_way(name: str, tasks: TaskSet, settings: TransferSettings, folder: Path | None) -> dict[str, Any]:
    """Measure one kind of score, and what it says about itself."""
    start, cpu = time.perf_counter(), time.process_time()
    scores = measure_transfer(tasks, encoder=SentenceEncoder(), pairs="all", settings=settings)
    row: dict[str, Any] = {
        "way": name,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    }
    reliability = scores.reliability()
    for field in (
        "split_half",
        "split_half_without_donors",
        "reciprocity",
        "reciprocity_without_donors",
        "donor_share",
    ):
        row[field] = getattr(reliability, field)
    row["scores"] = scores
    if folder is not None:
        scores.write_csv(folder / f"{settings.kind}-{settings.measure_width}.csv")
    return row


def word_cosines(tasks: TaskSet) -> NDArray[np.float64]:
    """Compute the cosine between the words of every two tasks, weighted by tf-idf."""
    bags = [
        " ".join(task.texts[row].lower() for row in task.rows("train", "valid").tolist()) for task in tasks
    ]
    vectors = TfidfVectorizer(analyzer=str.split).fit_transform(bags)
    return np.asarray((vectors @ vectors.T).toarray(), dtype=np.float64)


def run_bots(
    ways: Sequence[str], *, n_pairs: int, seeds: Sequence[int], folder: Path | None
) -> list[dict[str, Any]]:
    tasks = load_tasks(find_data("bots175"))
    generator = numpy_generator(0, "pairs of a benchmark")
    first = generator.integers(len(tasks), size=4 * n_pairs)
    second = generator.integers(len(tasks), size=4 * n_pairs)
    pairs = np.unique(np.sort(np.stack([first, second], axis=1)[first != second], axis=1), axis=0)
    pairs = generator.permutation(pairs)[:n_pairs]
    prepared = SentenceEncoder().prepare(tasks)
    gains = measure_gains(tasks, prepared, pairs, settings=TrainingSettings(), seeds=seeds)
    if folder is not None:
        np.savez(folder / "gains.npz", pairs=pairs, gains=gains)
    rows = [judge_way(way, tasks, WAYS[way], folder) for way in ways]
    for row in rows:
        matrix = centred(row.pop("scores").to_matrix())
        row |= {name: foretell(matrix, pairs, gains[:, :, place], 0) for place, name in enumerate(GAINS)}
    words = centred(word_cosines(tasks))
    words_row: dict[str, Any] = {"way": "cosine of words"}
    words_row |= {name: foretell(words, pairs, gains[:, :, place], 0) for place, name in enumerate(GAINS)}
    mean: dict[str, Any] = {"way": "mean gain"}
    mean |= dict(zip(GAINS, np.nanmean(gains, axis=(0, 1)).tolist(), strict=True))
    return [*rows, words_row, mean]


def run_diverse(ways: Sequence[str], *, folder: Path | None) -> list[dict[str, Any]]:
    # 96 and 24 rows a task: long reviews make sentence vectors of all rows an hour's work on one core.
    tasks = cut_rows(load_tasks(find_data("diverse")), 96, 24)
    kinds = read_kinds(tasks)
    n_kinds = len(set(kinds))
    rows = [judge_way(way, tasks, WAYS[way], folder) for way in ways]
    for row in rows:
        scores = row.pop("scores")
        for name, number in (("found", "auto"), ("given", n_kinds), ("six", 6)):
            labels, found = cluster(scores, number)
            row[f"agreement_{name}"] = float(adjusted_rand_score(kinds, labels))
            row[f"clusters_{name}"] = found
    return rows


def show(set_name: str, rows: Sequence[dict[str, Any]]) -> None:
    def number(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, list | tuple):
            return f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]" if len(value) == 3 else str(value)
        return f"{value:.2f}" if isinstance(value, float) else str(value)

    columns = list(dict.fromkeys(key for row in rows for key in row))
    print(f"\n{set_name}\n")
    print_table(columns, [[number(row.get(column)) for column in columns] for row in rows])


def run(
    sets: Sequence[str], *, n_pairs: int = 250, seeds: Sequence[int] = (0, 1), folder: Path | None = None
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in sets:
        ways = list(WAYS)
        if name == "bots175":
            results[name] = run_bots(ways, n_pairs=n_pairs, seeds=seeds, folder=folder)
        else:
            results[name] = run_diverse(ways, folder=folder)
        show(name, results[name])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["bots175", "diverse"], choices=["bots175", "diverse"])
    parser.add_argument("--pairs", type=int, default=250, help="pairs of bots trained together")
    parser.add_argument("--folder", type=Path, help="where scores and gains are kept")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    results = run(options.sets, n_pairs=options.pairs, folder=options.folder)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
