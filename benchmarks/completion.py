"""How well completion predicts pairs that were not measured, what its clusters are worth, and what it costs.

    python -m benchmarks.completion [--only prediction,clusters,verdict,cost] [--sets taskonomy,bots175]

Prediction: pairs of tasks are drawn (evenly spread, both directions), the rest is held out; rank correlation
of predicted and measured scores of held-out pairs, directed, and of the mean of both directions, targets
standardised. Beside it, on the same draws: soft-impute on standardised scores (asymmetric, its penalty by
cross-validation over pairs), row and column effects alone, and the text similarity of tasks.
Scores of all pairs are measured once and kept in benchmarks/results.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score

from benchmarks.report import find_data, print_table
from robusttc import DoubtWarning, TransferScores, load_tasks, make_planted_scores, measure_transfer
from robusttc.clustering.completion import complete_scores
from robusttc.clustering.estimator import RobustTaskClustering
from robusttc.clustering.solvers import solve_smooth
from robusttc.clustering.standardise import standardise
from robusttc.encoders.inputs import DenseInputs
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.scores import read_scores, write_scores
from robusttc.transfer.pairs import choose_pairs

RESULTS = Path(__file__).parent / "results"
SHARES = {"taskonomy": (0.75, 0.5, 0.35), "bots175": (0.5, 0.3, 0.2, 0.1), "diverse": (0.3, 0.1, 0.05)}
DRAWS = {"taskonomy": 12, "bots175": 3, "diverse": 3}
FAMILIES = {
    "3D": "curvature edge3d keypoint3d reshade rgb2depth rgb2mist rgb2sfnorm segment25d",
    "2D": "autoencoder denoise edge2d keypoint2d segment2d",
    "geometry": "ego_motion fix_pose non_fixated_pose point_match room_layout vanishing_point_well_defined",
    "semantics": "class_1000 class_selected segmentsemantic_rb",
}
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredSet:
    """Tasks with the scores of all pairs, and the mean vectors of their texts where there are any."""

    name: str
    scores: TransferScores
    centroids: Matrix | None

    def measured(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Draw a share of the pairs, evenly spread, both directions."""
        n = self.scores.n_tasks
        mask = np.zeros((n, n), dtype=np.bool_)
        if share >= 1:
            return ~np.eye(n, dtype=np.bool_)
        pairs = choose_pairs(self.scores.task_names, 2 * round(n * (n - 1) * share / 2), random_state=seed)
        mask[pairs.entries()] = True
        return mask

    def restricted(self, measured: NDArray[np.bool_]) -> TransferScores:
        """Return the scores of these pairs."""
        kept = measured[self.scores.source, self.scores.target]
        columns: dict[str, Any] = {name: column[kept] for name, column in self.scores.columns.items()}
        return TransferScores(self.scores.task_names, **columns, kind=self.scores.kind)


def load_scored(name: str) -> ScoredSet:
    """Read a set; its scores are measured if they were not before."""
    if name == "taskonomy":
        path = find_data("bots175").parents[1] / "matrices" / "taskonomy22_logaffinity.csv"
        return ScoredSet(name, read_scores(path), None)
    scores_path, centroids_path = RESULTS / f"scores-{name}.csv", RESULTS / f"centroids-{name}.npy"
    if not scores_path.exists() or not centroids_path.exists():
        RESULTS.mkdir(exist_ok=True)
        tasks, encoder = load_tasks(find_data(name)), SentenceEncoder(device="cpu")
        write_scores(measure_transfer(tasks, encoder=encoder, pairs="all", random_state=0), scores_path)
        prepared = encoder.prepare(tasks, splits=("train", "valid"))
        assert isinstance(prepared.inputs, DenseInputs)
        rows = [prepared.items_of(task.name, task.rows("train", "valid")) for task in tasks]
        np.save(centroids_path, np.array([prepared.inputs.matrix[own].mean(axis=0) for own in rows]))
    return ScoredSet(name, read_scores(scores_path), np.load(centroids_path))


def dense(scores: TransferScores) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return standardised scores as a matrix, 0 where there is none, and where they are."""
    data = standardise(scores, method="standard")
    values, known = np.zeros((data.n, data.n)), np.zeros((data.n, data.n), dtype=np.bool_)
    values[data.rows, data.columns], known[data.rows, data.columns] = data.values, True
    return values, known


def soft_impute(values: Matrix, known: NDArray[np.bool_], penalty: float) -> Matrix:
    """Complete by repeated soft-thresholding of singular values."""
    filled = np.zeros_like(values)
    for _ in range(150):
        left, sizes, right = np.linalg.svd(np.where(known, values, filled), full_matrices=False)
        filled = (left * np.maximum(sizes - penalty, 0.0)) @ right
    return filled


def predict_by_soft_impute(scores: TransferScores, seed: int) -> Matrix:
    """Complete with the penalty that predicts a fifth of the measured pairs best."""
    values, known = dense(scores)
    n = len(values)
    held = np.triu(np.random.default_rng(seed).random((n, n)) < 0.2, 1)
    held = (held | held.T) & known
    root = np.sqrt(known.sum() / n)
    found = [soft_impute(values, known & ~held, factor * root) for factor in (0.2, 0.4, 0.7, 1.1)]
    errors = [float(np.sum((values - one)[held] ** 2)) for one in found]
    return soft_impute(values, known, (0.2, 0.4, 0.7, 1.1)[int(np.argmin(errors))] * root)


def predict_by_effects(scores: TransferScores, seed: int) -> Matrix:
    """Predict by row and column effects, shrunk."""
    del seed
    values, known = dense(scores)
    row, column = np.zeros(len(values)), np.zeros(len(values))
    for _ in range(30):
        row = np.where(known, values - column, 0).sum(axis=1) / (known.sum(axis=1) + 3)
        column = np.where(known, values - row[:, None], 0).sum(axis=0) / (known.sum(axis=0) + 3)
    return row[:, None] + column


def predictors(data: ScoredSet) -> Iterator[tuple[str, Callable[[TransferScores, int], Matrix]]]:
    """Give the ways to predict, ours last."""
    yield "row and column effects", predict_by_effects
    yield "soft-impute", predict_by_soft_impute
    vectors = data.centroids

    def ours(scores: TransferScores, seed: int, features: Matrix | None = None) -> Matrix:
        factors = complete_scores(scores, features=features, seed=seed).factors
        return factors.left @ factors.right.T

    if vectors is not None:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        similarity = unit @ unit.T
        yield "text similarity", lambda _scores, _seed: similarity
    yield "ours", ours
    if vectors is not None:
        yield "ours with text similarity", lambda scores, seed: ours(scores, seed, vectors)


def show_prediction(names: Sequence[str]) -> None:
    rows = []
    for name in names:
        data = load_scored(name)
        truth, known = dense(data.scores)
        both = (truth + truth.T) / 2
        upper = np.triu(known & known.T, 1)
        for share in SHARES[name]:
            for label, predict in predictors(data):
                found = []
                for seed in range(DRAWS[name]):
                    measured = data.measured(share, seed)
                    guess = predict(data.restricted(measured), seed)
                    held, pairs = known & ~measured, upper & ~measured
                    symmetric = spearmanr(((guess + guess.T) / 2)[pairs], both[pairs]).statistic
                    found.append((symmetric, spearmanr(guess[held], truth[held]).statistic))
                means, errors = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
                figures = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)]
                rows.append([name, f"{share:.0%}", label, *figures, str(DRAWS[name])])
                print(" | ".join(rows[-1]), flush=True)
    print_table(["set", "pairs", "way", "both directions", "directed", "draws"], rows)


def show_clusters() -> None:
    rows = []
    data = load_scored("taskonomy")
    family = {task: name for name, tasks in FAMILIES.items() for task in tasks.split()}
    truth = [family[task] for task in data.scores.task_names]
    for share in (1.0, 0.75, 0.5, 0.35):
        seeds = range(12 if share < 1 else 1)
        drawn = [data.restricted(data.measured(share, seed)) for seed in seeds]
        rows.append(["taskonomy", f"{share:.0%}", "4", *judge(drawn, truth, 4)])
    names, families = [f"task {number:02d}" for number in range(36)], [number % 6 for number in range(36)]
    for share in (1.0, 0.5, 0.3):
        drawn = [make_planted_scores(names, families, density=share, random_state=seed) for seed in range(5)]
        rows.append(["planted", f"{share:.0%}", "6", *judge(drawn, families, 6)])
    data = load_scored("diverse")
    path = find_data("diverse").parent / "KINDS.tsv"
    with path.open(encoding="utf-8") as stream:
        told = {row["task"]: row for row in csv.DictReader(stream, delimiter="\t")}
    for column in ("kind", "source"):
        known = [told[task][column] for task in data.scores.task_names]
        rows.append([f"diverse, {column}s", "100%", "7", *judge([data.scores], known, 7)])
    print_table(["set", "pairs", "K", "ARI, K given", "K found", "ARI, K found", "groups supported"], rows)


def judge(drawn: Sequence[TransferScores], truth: Sequence[object], n_clusters: int) -> list[str]:
    """Cluster each draw with K given and found."""
    given = [RobustTaskClustering(n_clusters).fit(scores).labels_ for scores in drawn]
    found = [RobustTaskClustering().fit(scores) for scores in drawn]
    return [
        f"{np.mean([adjusted_rand_score(truth, labels) for labels in given]):.2f}",
        ", ".join(str(model.n_clusters_) for model in found),
        f"{np.mean([adjusted_rand_score(truth, model.labels_) for model in found]):.2f}",
        f"{sum(model.verdict_.supported for model in found)} of {len(found)}",
    ]


def show_verdict(count: int = 200) -> None:
    generator = np.random.default_rng(0)
    yes = 0
    for number in range(count):
        n = int(generator.choice([20, 36, 60, 100, 200, 300], p=[0.3, 0.25, 0.2, 0.15, 0.05, 0.05]))
        share = float(
            generator.choice([1.0, 0.5, 0.3] if n < 60 else [0.5, 0.3, 0.15] if n < 200 else [0.15, 0.08])
        )
        noise = generator.normal(size=(n, n))
        noise = (noise + 0.5 * noise.T) / np.sqrt(1.25)  # both directions of a pair are alike
        donors, scale = generator.normal(0, 0.45, size=n), np.exp(generator.normal(0, 0.5, size=n))
        matrix = generator.normal(size=n) + (donors[:, None] + noise) * scale
        kept = np.triu(generator.random((n, n)) < share, 1)
        names = [f"task {task:03d}" for task in range(n)]
        scores = TransferScores.from_matrix(np.where(kept | kept.T, matrix, np.nan), names)
        yes += RobustTaskClustering().fit(scores).verdict_.supported
        if number % 20 == 19:
            print(f"matrices without groups: {yes} of {number + 1} said to have them", flush=True)


def show_cost(sizes: Sequence[tuple[int, int]] = ((1_491, 50_000), (10_000, 434_000))) -> None:
    rows = []
    for n, n_pairs in sizes:
        generator = np.random.default_rng(0)
        keys = np.unique(generator.integers(0, n, 2 * n_pairs) * n + generator.integers(0, n, 2 * n_pairs))
        first, second = np.divmod(generator.permutation(keys), n)
        first, second = (ends[first < second][:n_pairs] for ends in (first, second))
        source, target = np.concatenate([first, second]), np.concatenate([second, first])
        donor, group = generator.normal(0, 0.4, size=n), np.arange(n) % 5
        score = (
            1.5 * (group[source] == group[target])
            + donor[source]
            + generator.normal(0, 0.7, size=len(source))
        )
        names = [f"task {task:06d}" for task in range(n)]
        scores = TransferScores(names, source=source, target=target, score=score)
        begin = time.perf_counter()
        found = complete_scores(scores)
        whole = time.perf_counter() - begin
        begin = time.perf_counter()
        solved = solve_smooth(found.problem, found.setting.penalties(found.problem, found.delta))
        one = time.perf_counter() - begin
        setting = f"{found.setting.tau:g}"
        rows.append(
            [f"{n:,}", f"{len(source):,}", setting, f"{one:.2f}", f"{solved.gap:.0e}", f"{whole:.1f}"]
        )
    print_table(["tasks", "scores", "tau", "one solve, s", "gap", "with cross-validation, s"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="prediction,clusters,verdict,cost")
    parser.add_argument("--sets", default="taskonomy,bots175,diverse")
    options = parser.parse_args()
    parts = options.only.split(",")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        if "prediction" in parts:
            show_prediction(options.sets.split(","))
        if "clusters" in parts:
            show_clusters()
        if "verdict" in parts:
            show_verdict()
        if "cost" in parts:
            show_cost()


if __name__ == "__main__":
    main()
