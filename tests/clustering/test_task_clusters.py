"""Robust task clustering from transfer scores to clusters, confidence and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering import RobustTaskClustering, filter_scores, make_planted_scores
from robusttc.errors import DataError, UnknownTaskError, UsageError
from robusttc.transfer import TransferScores

Matrix = NDArray[np.float64]
N = 24
SEEDS = (0, 1)


def names_of(n: int) -> list[str]:
    """Names whose alphabetical order is not the order of the tasks."""
    return [f"task {number:02d}" for number in np.random.default_rng(n).permutation(n)]


def planted_matrix(n: int, k: int, seed: int, **options: float) -> tuple[Matrix, NDArray[np.int64]]:
    """All scores of n tasks in k families, and the families in random order."""
    families = np.random.default_rng(100 + seed).permutation(np.arange(n) % k)
    return make_planted_scores(names_of(n), families, random_state=seed, **options).to_matrix(), families


def scores_of(matrix: Matrix, names: list[str] | None = None) -> TransferScores:
    return TransferScores.from_matrix(matrix, names or names_of(len(matrix)))


def hide(matrix: Matrix, density: float, seed: int) -> Matrix:
    """Hide a share of the unordered pairs."""
    kept = np.triu(np.random.default_rng(200 + seed).random(matrix.shape) < density, 1)
    return np.where(kept | kept.T, matrix, np.nan)


@dataclass(frozen=True)
class Example:
    matrix: Matrix
    measured: NDArray[np.bool_]
    families: NDArray[np.int64]
    model: RobustTaskClustering


@pytest.fixture(scope="module", params=SEEDS)
def example(request: pytest.FixtureRequest) -> Example:
    """A fit of 24 tasks in three families, all pairs measured."""
    matrix, families = planted_matrix(N, 3, request.param)
    return Example(matrix, ~np.isnan(matrix), families, RobustTaskClustering().fit(scores_of(matrix)))


@pytest.fixture(scope="module", params=SEEDS)
def sparse_example(request: pytest.FixtureRequest) -> Example:
    """A fit of 36 tasks in three families, half of the pairs measured; `matrix` has all scores."""
    matrix, families = planted_matrix(36, 3, request.param)
    part = hide(matrix, 0.5, request.param)
    return Example(matrix, ~np.isnan(part), families, RobustTaskClustering().fit(scores_of(part)))


def same_fit(first: RobustTaskClustering, second: RobustTaskClustering, *, atol: float) -> None:
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_allclose(first.confidence_, second.confidence_, atol=atol)
    np.testing.assert_allclose(first.similarity_.dense(), second.similarity_.dense(), atol=atol)
    for name in ("first", "second"):
        np.testing.assert_array_equal(getattr(first.pairs_, name), getattr(second.pairs_, name))
    np.testing.assert_allclose(first.pairs_.same_group, second.pairs_.same_group, atol=atol)
    np.testing.assert_allclose(first.pairs_.outlier, second.pairs_.outlier, atol=atol)


def test_planted_families_are_found(example: Example) -> None:
    model = example.model
    assert adjusted_rand_score(example.families, model.labels_) == 1
    assert model.n_clusters_ == 3
    assert "fewer clusters predict" in model.n_clusters_reason_
    assert model.verdict_.supported
    assert model.verdict_.p_value < 0.001
    assert model.verdict_.difference > 0.5
    assert (model.confidence_ > 0.9).all()
    assert sorted(name for names in model.clusters_.values() for name in names) == sorted(names_of(N))
    for cluster, names in model.clusters_.items():
        assert {model.labels_[model.task_names_.index(name)] for name in names} == {cluster}


def test_planted_families_are_found_from_half_of_the_pairs(sparse_example: Example) -> None:
    model = sparse_example.model
    assert adjusted_rand_score(sparse_example.families, model.labels_) > 0.8
    assert model.n_clusters_ == 3
    assert model.verdict_.supported


@pytest.mark.parametrize("seed", [2])
def test_a_given_number_of_clusters_is_kept(seed: int) -> None:
    matrix, families = planted_matrix(N, 4, seed)
    model = RobustTaskClustering(4).fit(scores_of(matrix))
    assert model.n_clusters_ == 4
    assert model.n_clusters_reason_.startswith("given")
    assert adjusted_rand_score(families, model.labels_) == 1


def check_certificate(model: RobustTaskClustering) -> None:
    assert model.certificate_.converged
    assert 0 <= model.certificate_.gap <= model.tol
    assert model.certificate_.rank == model.similarity_.rank > 0
    assert model.certificate_.objective > 0
    assert model.certificate_.regularisation > 0
    assert "certified" in model.certificate_.sentence


def test_the_certificate_reaches_the_tolerance(example: Example) -> None:
    check_certificate(example.model)


def test_the_certificate_reaches_the_tolerance_with_half_of_the_pairs(sparse_example: Example) -> None:
    check_certificate(sparse_example.model)


def test_the_similarity_is_higher_within_families(example: Example) -> None:
    X = example.model.similarity_.dense()
    same = example.families[:, None] == example.families
    off = ~np.eye(N, dtype=np.bool_)
    assert X[same & off].mean() > X[~same].mean() + 0.3


def test_the_order_of_tasks_changes_nothing(example: Example) -> None:
    order = np.random.default_rng(5).permutation(N)
    names = [names_of(N)[task] for task in order]
    other = RobustTaskClustering().fit(scores_of(example.matrix[np.ix_(order, order)], names))
    model = example.model
    np.testing.assert_array_equal(other.labels_, model.labels_[order])
    np.testing.assert_allclose(other.confidence_, model.confidence_[order], atol=1e-9)
    X = model.similarity_.dense()
    np.testing.assert_allclose(other.similarity_.dense(), X[np.ix_(order, order)], atol=1e-9)
    before, after = model.predict_transfer(), other.predict_transfer()
    np.testing.assert_allclose(after.scores, before.scores[np.ix_(order, order)], atol=1e-9)
    np.testing.assert_allclose(after.standard_errors, before.standard_errors[np.ix_(order, order)], atol=1e-9)
    outlier = {
        frozenset((model.task_names_[first], model.task_names_[second])): value
        for first, second, value in zip(
            model.pairs_.first, model.pairs_.second, model.pairs_.outlier, strict=True
        )
    }
    for first, second, value in zip(
        other.pairs_.first, other.pairs_.second, other.pairs_.outlier, strict=True
    ):
        assert value == pytest.approx(outlier[frozenset((names[first], names[second]))], abs=1e-9)


def test_unit_and_level_of_a_target_change_nothing(example: Example) -> None:
    changed = example.matrix.copy()
    changed[:, 3] += 10.0
    changed[:, 4] *= 250.0
    changed[:, 5] = 0.01 * changed[:, 5] - 1.0
    other = RobustTaskClustering().fit(scores_of(changed))
    same_fit(example.model, other, atol=1e-4)
    before, after = example.model.predict_transfer().scores, other.predict_transfer().scores
    np.testing.assert_allclose(after[:, 3], before[:, 3] + 10.0, atol=1e-4)
    np.testing.assert_allclose(after[:, 4], before[:, 4] * 250.0, atol=1e-2)
    np.testing.assert_allclose(after[:, 5], before[:, 5] * 0.01 - 1.0, atol=1e-4)


def test_one_wild_score_moves_no_cluster(example: Example) -> None:
    wild, changed = 50.0, example.matrix.copy()
    # Against what the families say.
    same = example.families == example.families[2]
    source = int(np.flatnonzero(~same)[-1])
    changed[source, 2] = wild
    other = RobustTaskClustering().fit(scores_of(changed))
    np.testing.assert_array_equal(other.labels_, example.model.labels_)
    pairs = other.pairs_
    low, high = min(source, 2), max(source, 2)
    place = int(np.flatnonzero((pairs.first == low) & (pairs.second == high))[0])
    assert np.sign(pairs.outlier[place]) == np.sign(wild)
    assert abs(pairs.outlier[place]) == np.abs(pairs.outlier).max()
    assert np.mean(pairs.outlier == 0) > 0.5


def test_a_copy_of_a_task_joins_its_cluster(example: Example) -> None:
    generator = np.random.default_rng(0)
    task = 11
    larger = np.full((N + 1, N + 1), np.nan)
    larger[:N, :N] = example.matrix
    larger[N, :N], larger[:N, N] = example.matrix[task], example.matrix[:, task]
    # Between the two: as high as any score of the target.
    larger[N, task] = larger[task, N] = np.nanmax(example.matrix[:, task])
    larger[N] += generator.normal(0, 1e-4, N + 1)
    larger[:N, N] += generator.normal(0, 1e-4, N)
    model = RobustTaskClustering().fit(scores_of(larger, [*names_of(N), "copy"]))
    assert model.labels_[N] == model.labels_[task]
    assert adjusted_rand_score(example.families, model.labels_[:N]) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_result(seed: int) -> None:
    scores = scores_of(planted_matrix(14, 2, seed)[0])
    model = RobustTaskClustering(random_state=seed).fit(scores)
    again = clone(model).fit(scores)
    same_fit(model, again, atol=0)
    assert again.verdict_ == model.verdict_
    assert again.certificate_ == model.certificate_


def test_parameters_follow_scikit_learn() -> None:
    model = RobustTaskClustering(5, strategy="paper", rule="any", lam=0.3, random_state=7)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.get_params()["n_clusters"] == 5
    assert copy.set_params(n_clusters=2).n_clusters == 2
    assert "rule='any'" in repr(model)
    assert "lam=0.3" in repr(model)


def test_fit_predict_returns_the_labels() -> None:
    scores = scores_of(planted_matrix(12, 2, 0)[0])
    model = RobustTaskClustering(2)
    labels = model.fit_predict(scores)
    np.testing.assert_array_equal(labels, model.labels_)
    assert set(labels.tolist()) == {0, 1}


def test_every_measured_pair_is_there_once(sparse_example: Example) -> None:
    model, pairs = sparse_example.model, sparse_example.model.pairs_
    assert (pairs.first < pairs.second).all()
    expected = set(zip(*np.nonzero(np.triu(sparse_example.measured, 1)), strict=True))
    found = list(zip(pairs.first, pairs.second, strict=True))
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert ((pairs.same_group >= 0) & (pairs.same_group <= 1)).all()
    assert np.isfinite(pairs.outlier).all()
    same = model.labels_[pairs.first] == model.labels_[pairs.second]
    assert pairs.same_group[same].mean() > pairs.same_group[~same].mean() + 0.3


def test_predictions_of_pairs_that_were_not_measured(sparse_example: Example) -> None:
    n, model, truth = 36, sparse_example.model, sparse_example.matrix
    found = model.predict_transfer()
    assert found.scores.shape == found.standard_errors.shape == (n, n)
    assert found.sources == found.targets == model.task_names_
    assert np.isfinite(found.scores).all()
    assert (found.standard_errors > 0).all()
    measured = sparse_example.measured
    hidden = ~measured & ~np.eye(n, dtype=np.bool_)
    assert hidden.sum() > 400
    # In the unit of the scores, and better than the mean of the target.
    error = np.abs(found.scores - truth)
    assert error[hidden].mean() < 0.05
    level = np.nanmean(truth, axis=0)
    from_level = np.corrcoef((found.scores - level)[hidden], (truth - level)[hidden])[0, 1]
    assert from_level > 0.6
    assert np.corrcoef(found.scores[measured], truth[measured])[0, 1] > 0.8


def test_predictions_of_some_tasks(example: Example) -> None:
    model = example.model
    everything = model.predict_transfer()
    names = model.task_names_
    found = model.predict_transfer([names[4], names[2]], [names[7], names[0], names[4]])
    assert found.sources == (names[4], names[2])
    assert found.targets == (names[7], names[0], names[4])
    np.testing.assert_allclose(found.scores, everything.scores[np.ix_([4, 2], [7, 0, 4])], atol=1e-12)
    np.testing.assert_allclose(
        found.standard_errors, everything.standard_errors[np.ix_([4, 2], [7, 0, 4])], atol=1e-12
    )
    assert model.predict_transfer(targets=[names[1]]).scores.shape == (N, 1)
    assert model.predict_transfer(sources=[names[1]]).scores.shape == (1, N)
    for arguments in ({"sources": ["nobody"]}, {"targets": [names[0], "nobody"]}):
        with pytest.raises(UnknownTaskError, match="nobody"):
            model.predict_transfer(**arguments)


def test_fewer_measurements_mean_larger_errors() -> None:
    matrix, _ = planted_matrix(36, 3, 0)
    matrix = hide(matrix, 0.6, 0)
    partners = np.flatnonzero(~np.isnan(matrix[0]))[4:]
    matrix[0, partners] = matrix[partners, 0] = np.nan
    found = RobustTaskClustering(3).fit(scores_of(matrix)).predict_transfer()
    relative = found.standard_errors / np.nanstd(matrix, axis=0)
    assert relative[0, 1:].mean() >= relative[1:, 1:].mean()


@pytest.mark.parametrize("seed", SEEDS)
def test_informative_features_help_where_pairs_are_few(seed: int) -> None:
    matrix, families = planted_matrix(30, 3, seed)
    few = hide(matrix, 0.15, seed)
    features = np.eye(3)[families] + np.random.default_rng(seed).normal(0, 0.1, (30, 3))
    hidden = np.isnan(few) & ~np.eye(30, dtype=np.bool_)
    level = np.nanmean(matrix, axis=0)
    own = np.nansum(few, axis=0) / np.maximum((~np.isnan(few)).sum(axis=0), 1)

    def correlation(task_features: Matrix | None) -> float:
        found = RobustTaskClustering(3).fit(scores_of(few), task_features=task_features).predict_transfer()
        known = hidden & np.isfinite(found.scores)
        return float(np.corrcoef((found.scores - own)[known], (matrix - level)[known])[0, 1])

    assert correlation(features) > correlation(None) + 0.05


def test_features_follow_the_order_of_the_scores() -> None:
    matrix, families = planted_matrix(10, 2, 3)
    few = hide(matrix, 0.9, 3)
    features = np.eye(2)[families]
    order = np.random.default_rng(1).permutation(10)
    first = RobustTaskClustering(2).fit(scores_of(few), task_features=features)
    names = [names_of(10)[task] for task in order]
    second = RobustTaskClustering(2).fit(
        scores_of(few[np.ix_(order, order)], names), task_features=features[order]
    )
    np.testing.assert_array_equal(first.labels_[order], second.labels_)


@pytest.mark.parametrize(
    "features",
    [
        np.ones((N - 1, 2)),
        np.ones(N),
        np.ones((N, 2, 2)),
        np.full((N, 2), np.nan),
        np.full((N, 2), np.inf),
    ],
)
def test_features_of_another_shape_are_refused(example: Example, features: Matrix) -> None:
    with pytest.raises(DataError, match="task_features"):
        RobustTaskClustering().fit(scores_of(example.matrix), task_features=features)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_clusters": 0}, ["n_clusters", "0"]),
        ({"n_clusters": N + 1}, ["n_clusters", str(N + 1), str(N)]),
        ({"n_clusters": 2.0}, ["n_clusters", "2.0"]),
        ({"n_clusters": True}, ["n_clusters", "True"]),
        ({"n_clusters": "many"}, ["n_clusters", "'many'"]),
        ({"strategy": "papre"}, ["strategy", "papre"]),
        ({"scale": "log"}, ["scale", "log"]),
        ({"delta": 0.0}, ["delta", "0.0"]),
        ({"delta": float("nan")}, ["delta", "nan"]),
        ({"tol": -1e-3}, ["tol", "-0.001"]),
        ({"lam": 0.0}, ["lam", "0.0"]),
        ({"lam": "cv"}, ["lam", "'cv'"]),
        ({"lam": None}, ["lam", "None"]),
        ({"strategy": "paper", "rule": "none"}, ["rule", "none"]),
        ({"random_state": -1}, ["random_state", "-1"]),
    ],
)
def test_bad_parameters_are_refused(example: Example, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        RobustTaskClustering(**options).fit(scores_of(example.matrix))
    for word in words:
        assert word in str(caught.value)


def test_something_else_than_scores_is_refused(example: Example) -> None:
    with pytest.raises(UsageError, match="ndarray"):
        RobustTaskClustering().fit(example.matrix)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=[("both", 0), ("any", 1)])
def paper(request: pytest.FixtureRequest) -> Example:
    rule, seed = request.param
    matrix, families = planted_matrix(N, 3, seed)
    matrix = hide(matrix, 0.8, seed)
    model = RobustTaskClustering(3, strategy="paper", rule=rule, lam=0.25)
    return Example(matrix, ~np.isnan(matrix), families, model.fit(scores_of(matrix)))


def equation_one(paper: Example) -> tuple[Matrix, NDArray[np.bool_]]:
    """Y of Eq. 1, and which entries of it are observed: those that are stored, zeros too."""
    entries = filter_scores(scores_of(paper.matrix), rule=paper.model.rule).Y.tocoo()
    known = np.zeros((N, N), dtype=np.bool_)
    known[entries.row, entries.col] = True
    return entries.toarray(), known


def test_paper_mode_solves_equation_two(paper: Example) -> None:
    model = paper.model
    Y, known = equation_one(paper)
    assert (np.diag(Y) == 1).all()
    assert np.diag(known).all()
    tau = 1 / 0.25
    assert model.certificate_.regularisation == pytest.approx(tau)
    X = model.similarity_.dense()
    objective = tau * np.abs(np.linalg.eigvalsh(X)).sum() + np.abs(Y - X)[known].sum()
    assert objective == pytest.approx(model.similarity_.objective, rel=1e-7)
    assert model.certificate_.gap <= 1e-5
    generator = np.random.default_rng(0)
    for _ in range(200):  # no point nearby is better by more than the gap
        step = generator.normal(0, 10 ** generator.uniform(-4, 0), (N, N))
        other = X + (step + step.T if generator.random() < 0.5 else generator.uniform(-0.3, 0.3) * X)
        value = tau * np.abs(np.linalg.eigvalsh(other)).sum() + np.abs(Y - other)[known].sum()
        assert value >= objective * (1 - 1.01e-5)
    outliers = model.similarity_.outliers.toarray()
    big = known & (np.abs(Y - X) > 1e-3)
    np.testing.assert_allclose(outliers[big], (Y - X)[big], atol=1e-8)


def test_paper_pairs_are_those_of_equation_one(paper: Example) -> None:
    model = paper.model
    Y, known = equation_one(paper)
    pairs = model.pairs_
    assert len(pairs.first) == np.triu(~np.isnan(paper.matrix), 1).sum()
    expected = np.where(known, Y, np.nan)[pairs.first, pairs.second]
    np.testing.assert_array_equal(pairs.same_group, expected)
    assert np.isnan(expected).any() == (model.rule == "both")
    left = (Y - model.similarity_.dense())[pairs.first, pairs.second]
    assert not pairs.outlier[np.isnan(expected)].any()
    marked = np.abs(pairs.outlier) > 1e-3
    np.testing.assert_allclose(pairs.outlier[marked], left[marked], atol=1e-8)


def test_paper_mode_finds_the_families_and_predicts_nothing(paper: Example) -> None:
    model = paper.model
    assert adjusted_rand_score(paper.families, model.labels_) > 0.85
    assert model.tree_ is None
    assert ((model.confidence_ >= 0) & (model.confidence_ <= 1)).all()
    with pytest.raises(UsageError, match="paper"):
        model.predict_transfer()


@pytest.mark.parametrize("seed", SEEDS)
def test_paper_mode_chooses_lambda_and_the_number_of_clusters(seed: int) -> None:
    matrix, families = planted_matrix(N, 3, seed)
    model = RobustTaskClustering(strategy="paper").fit(scores_of(matrix))
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(families, model.labels_) > 0.85
    assert model.verdict_.supported
    assert model.certificate_.gap <= 1e-5
    order = np.random.default_rng(seed).permutation(N)
    names = [names_of(N)[task] for task in order]
    other = RobustTaskClustering(strategy="paper").fit(scores_of(matrix[np.ix_(order, order)], names))
    np.testing.assert_array_equal(other.labels_, model.labels_[order])
    np.testing.assert_allclose(
        other.similarity_.dense(), model.similarity_.dense()[np.ix_(order, order)], atol=1e-9
    )


def bad_inputs() -> dict[str, Matrix]:
    generator = np.random.default_rng(3)
    full = generator.random((12, 12))
    constant, isolated, sources, targets = (full.copy() for _ in range(4))
    constant[:, 3] = 0.5
    isolated[4], isolated[:, 4] = np.nan, np.nan
    sources[:, :4] = np.nan
    targets[:4] = np.nan
    apart = np.full((12, 12), np.nan)
    apart[:6, :6], apart[6:, 6:] = full[:6, :6], full[6:, 6:]
    return {
        "four": full[:4, :4],
        "five": full[:5, :5],
        "constant column": constant,
        "isolated": isolated,
        "sources only": sources,
        "targets only": targets,
        "disconnected": apart,
        "binary": np.round(full),
        "equal columns": np.tile(full[:, :1], (1, 12)),
    }


def nothing_to_compare() -> dict[str, Matrix]:
    """Matrices in which no score of a target can be told from another."""
    generator = np.random.default_rng(4)
    found = {f"{n} tasks": generator.random((n, n)) for n in (1, 2, 3)}
    for n in (1, 2, 3, 8):
        found[f"{n} without scores"] = np.full((n, n), np.nan)
        found[f"{n} with a diagonal"] = np.where(np.eye(n) > 0, 0.5, np.nan)
    return {**found, "equal scores": np.full((8, 8), 0.5), "equal rows": np.tile(generator.random(8), (8, 1))}


def check_laws(model: RobustTaskClustering, matrix: Matrix) -> None:
    """What holds for every fit, whatever the scores."""
    n, labels = len(matrix), model.labels_
    assert labels.shape == model.confidence_.shape == (n,)
    assert set(labels[labels >= 0].tolist()) == set(range(model.n_clusters_))
    sizes = np.bincount(labels[labels >= 0], minlength=model.n_clusters_)
    assert (np.diff(sizes) <= 0).all()
    assert ((model.confidence_ >= 0) & (model.confidence_ <= 1)).all()
    assert (model.confidence_[labels < 0] == 0).all()
    assert model.similarity_.dense().shape == (n, n)
    assert model.certificate_.gap <= model.tol
    assert model.verdict_.sentence
    assert model.n_clusters_reason_
    if model.strategy == "default":
        found = model.predict_transfer()
        usable = np.array(
            [
                len(set(column[~np.isnan(column)])) > 1 and (~np.isnan(column)).sum() >= 3
                for column in np.where(np.eye(n) > 0, np.nan, matrix).T
            ]
        )
        np.testing.assert_array_equal(np.isfinite(found.scores), np.broadcast_to(usable, (n, n)))
        np.testing.assert_array_equal(np.isfinite(found.standard_errors), np.broadcast_to(usable, (n, n)))


@pytest.mark.parametrize("n_clusters", ["auto", 3])
@pytest.mark.parametrize("strategy", ["default", "paper"])
@pytest.mark.parametrize("case", list(bad_inputs()))
def test_odd_scores_have_a_stated_result(case: str, strategy: str, n_clusters: Any) -> None:
    matrix = bad_inputs()[case]
    model = RobustTaskClustering(n_clusters, strategy=strategy).fit(scores_of(matrix))
    check_laws(model, matrix)
    if case == "isolated" and strategy == "default":
        assert np.flatnonzero(model.labels_ == -1).tolist() == [4]
    if strategy == "default" and n_clusters == 3:
        assert model.n_clusters_ == 3 or "3 were given, but" in model.n_clusters_reason_


@pytest.mark.parametrize("strategy", ["default", "paper"])
@pytest.mark.parametrize("case", list(nothing_to_compare()))
def test_nothing_to_compare_is_no_crash(case: str, strategy: str) -> None:
    matrix = nothing_to_compare()[case]
    for n_clusters in ("auto", 1, 2):
        if n_clusters == 2 and len(matrix) < 2:
            with pytest.raises(UsageError, match="n_clusters"):
                RobustTaskClustering(2, strategy=strategy).fit(scores_of(matrix))
            continue
        model = RobustTaskClustering(n_clusters, strategy=strategy).fit(scores_of(matrix))
        check_laws(model, matrix)
        assert not model.verdict_.supported
        assert np.isnan(model.verdict_.p_value)
