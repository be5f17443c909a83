"""How well completion predicts pairs that were not measured, what its clusters are worth, and what it costs.

    python -m benchmarks.completion [--only prediction,new-tasks,clusters,worth,verdict,eq2,cost]
                                    [--sets taskonomy,bots175,diverse]

Prediction: pairs of tasks are drawn (evenly spread, both directions), the rest is held out; rank correlation
of predicted and measured scores of held-out pairs, directed, and of the mean of both directions, targets
standardised. Beside it, on the same draws: soft-impute on standardised scores (asymmetric, its penalty by
cross-validation over pairs), row and column effects alone, effects with soft-impute, and the text similarity
of tasks. All of them see measured scores alone. "Units known" is another question: there every target is
standardised by its scores of all pairs, held-out ones too, before any is fitted.
Draws have seeds from 0 on; settings were developed on draws from 100 on. Scores of all pairs are measured
once and kept in benchmarks/results.
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from benchmarks.planted import plant
from benchmarks.report import find_data, print_table
from benchmarks.theorem import lambda_window
from robusttc import (
    DoubtWarning,
    TransferScores,
    assess_clusters,
    complete_similarity,
    load_tasks,
    make_planted_scores,
    measure_transfer,
)
from robusttc.clustering import RobustTaskClustering, complete_scores, completion
from robusttc.clustering.solvers import solve_smooth
from robusttc.clustering.spectral import build_tree, cluster_points, cluster_spectrally, cut, normalise
from robusttc.clustering.standardise import Standardised, standardise
from robusttc.encoders import DenseInputs, SentenceEncoder
from robusttc.transfer import choose_pairs, read_scores

RESULTS = Path(__file__).parent / "results"
SHARES = {"taskonomy": (0.75, 0.5, 0.35), "bots175": (0.5, 0.3, 0.2, 0.1), "diverse": (0.3, 0.1, 0.05)}
DRAWS = {"taskonomy": 12, "bots175": 3, "diverse": 3}
FAMILIES = {
    "3D": "curvature edge3d keypoint3d reshade rgb2depth rgb2mist rgb2sfnorm segment25d",
    "2D": "autoencoder denoise edge2d keypoint2d segment2d",
    "geometry": "ego_motion fix_pose non_fixated_pose point_match room_layout vanishing_point_well_defined",
    "semantics": "class_1000 class_selected segmentsemantic_rb",
}
PARTS = ("prediction", "new-tasks", "clusters", "methods", "worth", "verdict", "eq2", "cost")
Matrix = NDArray[np.float64]
SOFT_PENALTIES = (0.2, 0.4, 0.7, 1.1)  # in units of the square root of the mean number of scores of a task


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
        measure_transfer(tasks, encoder=encoder, pairs="all", random_state=0).write_csv(scores_path)
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
    found = [soft_impute(values, known & ~held, factor * root) for factor in SOFT_PENALTIES]
    errors = [float(np.sum((values - one)[held] ** 2)) for one in found]
    return soft_impute(values, known, SOFT_PENALTIES[int(np.argmin(errors))] * root)


def predict_by_effects(scores: TransferScores, seed: int) -> Matrix:
    """Predict by row and column effects, shrunk."""
    del seed
    values, known = dense(scores)
    row, column = np.zeros(len(values)), np.zeros(len(values))
    for _ in range(30):
        row = np.where(known, values - column, 0).sum(axis=1) / (known.sum(axis=1) + 3)
        column = np.where(known, values - row[:, None], 0).sum(axis=0) / (known.sum(axis=0) + 3)
    return row[:, None] + column


def predict_by_effects_and_soft_impute(scores: TransferScores, seed: int) -> Matrix:
    """Complete what row and column effects leave, with the best penalty on a fifth of the pairs."""
    values, known = dense(scores)
    n = len(values)
    held = np.triu(np.random.default_rng(seed).random((n, n)) < 0.2, 1)
    held = (held | held.T) & known
    root = np.sqrt(known.sum() / n)

    def fit(seen: NDArray[np.bool_], penalty: float) -> Matrix:
        row, column, rest = np.zeros(n), np.zeros(n), np.zeros((n, n))
        for _ in range(60):
            row = np.where(seen, values - rest - column, 0).sum(axis=1) / (seen.sum(axis=1) + 3)
            column = np.where(seen, values - rest - row[:, None], 0).sum(axis=0) / (seen.sum(axis=0) + 3)
            filled = np.where(seen, values - row[:, None] - column, rest)
            left, sizes, right = np.linalg.svd(filled, full_matrices=False)
            rest = (left * np.maximum(sizes - penalty, 0.0)) @ right
        return row[:, None] + column + rest

    errors = [
        float(np.sum((values - fit(known & ~held, factor * root))[held] ** 2)) for factor in SOFT_PENALTIES
    ]
    return fit(known, SOFT_PENALTIES[int(np.argmin(errors))] * root)


def predict_ours(scores: TransferScores, seed: int, features: Matrix | None = None) -> Matrix:
    """Predict by the default completion."""
    factors = complete_scores(scores, features=features, seed=seed).factors
    return factors.left @ factors.right.T


def predictors(data: ScoredSet) -> Iterator[tuple[str, Callable[[TransferScores, int], Matrix]]]:
    """Yield the methods, ours last."""
    yield "row and column effects", predict_by_effects
    yield "soft-impute", predict_by_soft_impute
    if data.name == "taskonomy":
        yield "effects + soft-impute", predict_by_effects_and_soft_impute
    vectors = data.centroids
    if vectors is not None:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        similarity = unit @ unit.T
        yield "text similarity", lambda _scores, _seed: similarity
    yield "ours", predict_ours
    if vectors is not None:
        yield "ours with text similarity", lambda scores, seed: predict_ours(scores, seed, vectors)
    if data.name == "taskonomy":
        whole = standardise(data.scores, method="standard")
        yield "effects + soft-impute, units known", known_units(predict_by_effects_and_soft_impute, whole)
        yield "ours, units known", known_units(predict_ours, whole)


def known_units(
    predict: Callable[[TransferScores, int], Matrix], whole: Standardised
) -> Callable[[TransferScores, int], Matrix]:
    """Standardise all that a method sees by the scores of all pairs."""
    by_measured = standardise

    def by_whole(scores: TransferScores, method: str = "", places: Any = None) -> Standardised:
        del method
        data = by_measured(scores, method="standard", places=places)
        values = (scores.score[data.places] - whole.center[data.columns]) / whole.spread[data.columns]
        return replace(data, values=np.clip(values, -3, 3), center=whole.center, spread=whole.spread)

    def run(scores: TransferScores, seed: int) -> Matrix:
        with (
            patch.object(completion, "standardise_whole", by_whole),
            patch(f"{__name__}.standardise", by_whole),
        ):
            return predict(scores, seed)

    return run


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


def show_new_tasks(names: Sequence[str], n_measured: int = 3, n_new: int = 20) -> None:
    """Rank the sources of tasks that have three measured pairs, among tasks with a tenth of theirs."""
    rows = []
    for name in [name for name in names if name != "taskonomy"]:
        data = load_scored(name)
        truth, known = dense(data.scores)
        n = len(truth)
        found: dict[str, list[float]] = {}
        for seed in range(3):
            generator = np.random.default_rng(seed)
            measured = data.measured(0.1, seed)
            new = generator.choice(n, n_new, replace=False)
            measured[new] = measured[:, new] = False
            others = np.setdiff1d(np.arange(n), new)
            for task in new:
                partners = generator.choice(others, n_measured, replace=False)
                measured[task, partners] = measured[partners, task] = True
            for label, predict in predictors(data):
                guess = predict(data.restricted(measured), seed)
                for task in new:
                    held = known[:, task] & ~measured[:, task]
                    found.setdefault(label, []).append(
                        float(spearmanr(guess[held, task], truth[held, task]).statistic)
                    )
        for label, values in found.items():
            error = np.std(values) / np.sqrt(len(values))
            rows.append([name, label, f"{np.nanmean(values):.3f} ± {error:.3f}", str(len(values))])
    print_table(
        ["set", f"{n_measured} pairs of a new task", "rank correlation of its sources", "tasks"], rows
    )


def read_truth(scores: TransferScores, path: Path, task: str, column: str) -> list[str]:
    """Read what is said of each task."""
    with path.open(encoding="utf-8") as stream:
        told = {row[task]: row[column] for row in csv.DictReader(stream, delimiter="\t")}
    return [told[name] for name in scores.task_names]


def show_clusters() -> None:
    rows = []
    data = load_scored("taskonomy")
    family = {task: name for name, tasks in FAMILIES.items() for task in tasks.split()}
    truth = [family[task] for task in data.scores.task_names]
    for share in (1.0, 0.75, 0.5, 0.35):
        drawn = [data.restricted(data.measured(share, seed)) for seed in range(12 if share < 1 else 1)]
        rows += judge("taskonomy", f"{share:.0%}", drawn, {"families": truth}, 4)
    names, families = [f"task {number:02d}" for number in range(36)], [number % 6 for number in range(36)]
    for share in (1.0, 0.5, 0.3):
        drawn = [make_planted_scores(names, families, density=share, random_state=seed) for seed in range(5)]
        rows += judge("planted", f"{share:.0%}", drawn, {"planted": families}, 6)
    data = load_scored("diverse")
    path = find_data("diverse").parent / "KINDS.tsv"
    known = {f"{column}s": read_truth(data.scores, path, "task", column) for column in ("kind", "source")}
    rows += judge("diverse", "100%", [data.scores], known, 7)
    scores = load_clients()
    path = find_data("clients1491").parent / "FAMILIES.tsv"
    rows += judge(
        "clients1491", "auto", [scores], {"families": read_truth(scores, path, "client", "source")}, 40
    )
    print_table(
        ["set", "pairs", "agreement with", "K", "ARI, K given", "K found", "ARI, K found", "supported"], rows
    )


def load_clients() -> TransferScores:
    """Return the scores of about n log(n)^2 pairs of 1,491 tasks, measured if they were not before."""
    path = RESULTS / "scores-clients1491.csv"
    if not path.exists():
        RESULTS.mkdir(exist_ok=True)
        tasks, encoder = load_tasks(find_data("clients1491")), SentenceEncoder(device="cpu")
        measure_transfer(tasks, encoder=encoder, random_state=0).write_csv(path)
    return read_scores(path)


def judge(
    name: str,
    share: str,
    drawn: Sequence[TransferScores],
    truths: Mapping[str, Sequence[object]],
    n_clusters: int,
) -> list[list[str]]:
    """Cluster each draw with K given and found, and compare with what is known of the tasks."""
    given = [RobustTaskClustering(n_clusters).fit(scores).labels_ for scores in drawn]
    found = [RobustTaskClustering().fit(scores) for scores in drawn]
    numbers = ", ".join(str(model.n_clusters_) for model in found)
    supported = f"{sum(model.verdict_.supported for model in found)} of {len(found)}"
    rows = []
    for what, truth in truths.items():
        agreed = [
            f"{np.mean([adjusted_rand_score(truth, labels) for labels in partitions]):.3f}"
            for partitions in (given, [model.labels_ for model in found])
        ]
        rows.append([name, share, what, str(n_clusters), agreed[0], numbers, agreed[1], supported])
        print(" | ".join(rows[-1]), flush=True)
    return rows


def show_methods() -> None:
    """Compare ways to cluster the same completed similarity, K given: agreement with known groups."""
    taskonomy, diverse = load_scored("taskonomy"), load_scored("diverse")
    family = {task: name for name, tasks in FAMILIES.items() for task in tasks.split()}
    kinds = read_truth(diverse.scores, find_data("diverse").parent / "KINDS.tsv", "task", "kind")
    sources = read_truth(diverse.scores, find_data("diverse").parent / "KINDS.tsv", "task", "source")
    names, planted = [f"task {number:02d}" for number in range(36)], [number % 6 for number in range(36)]
    half = [taskonomy.restricted(taskonomy.measured(0.5, seed)) for seed in range(12)]
    drawn = [make_planted_scores(names, planted, density=0.5, random_state=seed) for seed in range(5)]
    families = [family[task] for task in taskonomy.scores.task_names]
    rows = []
    for name, sets, truths, k in (
        ("taskonomy, 50 %", half, {"families": families}, 4),
        ("planted, 50 %", drawn, {"planted": planted}, 6),
        ("diverse, all", [diverse.scores], {"kinds": kinds, "sources": sources}, 7),
    ):
        found = [cluster_in_ways(scores, k) for scores in sets]
        for what, truth in truths.items():
            agreed = [
                np.mean([adjusted_rand_score(truth, labels[way]) for labels in found]) for way in found[0]
            ]
            rows.append([name, what, str(k), *(f"{value:.3f}" for value in agreed)])
            print(" | ".join(rows[-1]), flush=True)
    print_table(["set", "agreement with", "K", *found[0]], rows)


def cluster_in_ways(scores: TransferScores, k: int) -> dict[str, NDArray[np.int64]]:
    """Cluster the leading directions of one completion by each method."""
    found = complete_scores(scores)
    points, U = normalise(found.directions[:, :k]), found.factors.U
    return {
        "average linkage": cut(build_tree(found.directions, k), k),
        "k-means": cluster_points(points, k, 0),
        "Gaussian mixture": GaussianMixture(k, reg_covar=1e-3, n_init=5, random_state=0).fit_predict(points),
        "normalised spectral of X": cluster_spectrally(U - U.mean(axis=0), np.ones(U.shape[1]), k),
    }


def show_worth() -> None:
    """Print what clusters of diverse tasks are worth in multi-task learning, on out-of-fold rows."""
    scores = load_scored("diverse").scores
    tasks, encoder = load_tasks(find_data("diverse")), SentenceEncoder(device="cpu")
    rows = []
    for n_clusters in ("auto", 8, 20):
        model = RobustTaskClustering(n_clusters).fit(scores)
        labels = dict(zip(scores.task_names, model.labels_.tolist(), strict=True))
        verdict = assess_clusters(tasks, labels, encoder=encoder)
        rows.append([str(n_clusters), str(model.n_clusters_), verdict.sentence])
        print(" | ".join(rows[-1]), flush=True)
    print_table(["K", "clusters", "verdict"], rows)


def show_verdict(count: int = 200) -> None:
    """Count how often matrices without groups are said to have them, with K found and with K given."""
    generator = np.random.default_rng(0)
    yes = np.zeros(2, dtype=np.int64)
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
        yes += [RobustTaskClustering(k).fit(scores).verdict_.supported for k in ("auto", 4)]
        if number % 20 == 19:
            found, given = yes
            print(f"without groups: {found} of {number + 1} said to have them, {given} if K = 4", flush=True)


def show_eq2() -> None:
    """Compare Eq. 2 with a general solver on small planted matrices."""
    cp: Any = import_module("cvxpy")
    rows = []
    for number in range(20):
        n, k, flips = (
            (30, 50, 70, 100)[number % 4],
            (2, 3, 5)[number % 3],
            (0.0, 0.05, 0.15, 0.3)[number // 5],
        )
        data = plant(n, k, 0.4 * n, flips, number)
        lam = (0.6, 1.0, 1.6)[number % 3] / np.sqrt(0.4 * n)
        found = complete_similarity(data.Y, data.observed, loss="absolute", regularisation=1 / lam, tol=1e-7)
        low, high = lambda_window(data.Y, data.labels)
        Y, seen = data.Y.toarray(), data.observed.toarray()
        X = cp.Variable((n, n), symmetric=True)
        problem = cp.Problem(cp.Minimize(cp.normNuc(X) + lam * cp.sum(cp.abs(cp.multiply(seen, Y - X)))))
        problem.solve(solver=cp.SCS, eps=1e-8, max_iters=100_000)
        difference = abs(found.objective * lam - problem.value) / problem.value
        window = "empty" if low > high else "below" if lam < low else "above" if lam > high else "inside"
        rows.append([str(n), str(k), f"{flips:.0%}", window, f"{found.gap:.1e}", f"{difference:.1e}"])
        print(" | ".join(rows[-1]), flush=True)
    print_table(["n", "groups", "wrong", "window of lambda", "certified gap", "difference from SCS"], rows)


def make_large(n: int, n_pairs: int) -> TransferScores:
    """Make scores of five groups with row effects and noise."""
    generator = np.random.default_rng(0)
    keys = np.unique(generator.integers(0, n, 2 * n_pairs) * n + generator.integers(0, n, 2 * n_pairs))
    first, second = np.divmod(generator.permutation(keys), n)
    first, second = (ends[first < second][:n_pairs] for ends in (first, second))
    source, target = np.concatenate([first, second]), np.concatenate([second, first])
    donor, group = generator.normal(0, 0.4, size=n), np.arange(n) % 5
    score = 1.5 * (group[source] == group[target]) + donor[source]
    score += generator.normal(0, 0.7, size=len(source))
    return TransferScores(
        [f"task {task:06d}" for task in range(n)], source=source, target=target, score=score
    )


def time_fit(n: int, n_pairs: int) -> list[str]:
    """Return the cells of a row of the table of cost but the first two."""
    scores = make_large(n, n_pairs)
    begin = time.process_time()
    model = RobustTaskClustering().fit(scores)
    whole = time.process_time() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    fitted = model._completion  # to time the same program alone
    assert fitted is not None
    penalties = fitted.setting.penalties(fitted.problem, fitted.delta)
    one = np.inf
    for _ in range(3):
        begin = time.process_time()
        solved = solve_smooth(fitted.problem, penalties)
        one = min(one, time.process_time() - begin)
    agreement = adjusted_rand_score(np.arange(n) % 5, model.labels_)
    cells = [f"{fitted.setting.tau:g}", str(model.similarity_.rank), f"{one:.2f}", f"{solved.gap:.0e}"]
    return [*cells, f"{whole:.1f}", f"{whole / one:.0f}", f"{agreement:.3f}", f"{memory:.1f}"]


def show_cost(
    sizes: Sequence[tuple[int, int]] = (
        (1_491, 50_000),
        (10_000, 434_000),
        (30_000, 1_000_000),
        (100_000, 3_350_000),
    ),
) -> None:
    rows = []
    RobustTaskClustering().fit(make_large(60, 900))  # compiles
    for n, n_pairs in sizes:
        rows.append([f"{n:,}", f"{2 * n_pairs:,}", *time_fit(n, n_pairs)])
        print(" | ".join(rows[-1]), flush=True)
    heads = [
        "tasks",
        "scores",
        "tau",
        "rank",
        "one solve, CPU s",
        "gap",
        "whole fit, CPU s",
        "solves",
        "ARI",
        "GiB",
    ]
    print_table(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--sets", default="taskonomy,bots175,diverse")
    options = parser.parse_args()
    sets = options.sets.split(",")
    show: dict[str, Callable[[], None]] = {
        "prediction": lambda: show_prediction(sets),
        "new-tasks": lambda: show_new_tasks(sets),
        "clusters": show_clusters,
        "methods": show_methods,
        "worth": show_worth,
        "verdict": show_verdict,
        "eq2": show_eq2,
        "cost": show_cost,
    }
    unknown = set(options.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {min(unknown)}; there are {', '.join(PARTS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        for part in PARTS:
            if part in options.only.split(","):
                show[part]()


if __name__ == "__main__":
    main()
