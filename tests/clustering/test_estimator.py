"""Robust task clustering as a whole."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_scores import planted_scores
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering.old.completion.problem import Problem, make_problem
from robusttc.clustering.old.components import (
    CompletedComponent,
    complete_component,
    find_components,
    join_completions,
    join_starts,
    restrict_problem,
)
from robusttc.clustering.old.diagnosis import Diagnosis
from robusttc.clustering.old.estimator import RobustTaskClustering
from robusttc.clustering.old.grouping import cluster_tasks
from robusttc.clustering.old.number import PairValues
from robusttc.clustering.old.start import first_clustering
from robusttc.errors import DoubtWarning, UsageError
from robusttc.scores import TransferScores


def quick(n_clusters: Any = "auto", **options: Any) -> RobustTaskClustering:
    """A clustering whose proof is coarse, for tests that are not about it."""
    return RobustTaskClustering(n_clusters, **{"tol": 1e-3, **options})


def check_laws(model: RobustTaskClustering, scores: TransferScores) -> None:
    """What holds for every fitted model."""
    n, k = scores.n_tasks, model.n_clusters_
    assert model.task_names_ == scores.task_names
    for labels in (model.labels_, model.labels_spectral_):
        assert labels.shape == (n,)
        assert labels.dtype.kind == "i"
        assert ((labels >= -1) & (labels < k)).all()
    sizes = np.bincount(model.labels_[model.labels_ >= 0], minlength=k)
    assert (sizes > 0).all()
    assert (np.diff(sizes) <= 0).all()
    confidence = model.confidence_
    assert (confidence[model.labels_ < 0] == 0).all()
    assert ((confidence[model.labels_ >= 0] > 0) & (confidence[model.labels_ >= 0] <= 1)).all()
    assert list(model.clusters_) == list(range(k))
    assert sum(len(names) for names in model.clusters_.values()) == sizes.sum()
    certificate = model.certificate_
    assert np.isfinite([certificate.gap, certificate.lam, certificate.objective, certificate.dual_norm]).all()
    assert 0 <= certificate.gap <= 1
    assert model.similarity_.eigenvectors.shape == (n, model.similarity_.rank)
    assert np.isfinite(model.similarity_.dense()).all()
    assert model.errors_.shape == (n, n)
    assert isinstance(model.diagnosis_, Diagnosis)
    assert model.n_clusters_reason_
    check_proof(model)


def check_proof(model: RobustTaskClustering) -> None:
    """The dual keeps its constraints in every component, and proves the gap that is told."""
    result, weights = model.similarity_, model.weights
    problem = make_problem(model.filtered_.Y, model.filtered_.observed, weights)
    dual = result.dual.toarray()
    if not model.components_:
        assert model.certificate_.n_components == 0
        return
    assert np.abs(np.linalg.eigvalsh(dual)).max() <= 1 + 1e-9
    objective = np.abs(result.eigenvalues).sum()
    residual = problem.matrix(problem.Y).toarray() - result.dense()
    for part in model.components_:
        lam = part.completion.lam
        where = (part.members[part.problem.rows], part.members[part.problem.indices])
        np.testing.assert_array_equal(part.problem.Y, problem.matrix(problem.Y).toarray()[where])
        assert (np.abs(dual[where]) <= lam * part.problem.factor * (1 + 1e-9)).all()
        objective += lam * (part.problem.factor @ np.abs(residual[where]))
    assert result.objective == pytest.approx(objective, rel=1e-6)
    bound = (dual * problem.matrix(problem.Y).toarray()).sum()
    assert result.gap == pytest.approx(max(1 - bound / result.objective, 0), abs=1e-9)
    assert not (dual[~problem.matrix(np.ones(len(problem.Y))).toarray().astype(bool)]).any()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("n", "k", "density", "noise"), [(30, 3, 1.0, 0.08), (60, 4, 0.6, 0.07), (120, 5, 0.5, 0.06)]
)
def test_planted_clusters_are_recovered(n: int, k: int, density: float, noise: float, seed: int) -> None:
    planted = planted_scores(n, k, density, noise, seed)
    model = quick(random_state=seed).fit(planted.scores)
    check_laws(model, planted.scores)
    assert adjusted_rand_score(planted.labels, model.labels_) == 1
    assert model.n_clusters_ == k
    assert model.certificate_.converged
    assert model.certificate_.gap <= 1e-3
    chosen = [one for one in model.candidates_ if one.chosen]
    assert [one.n_clusters for one in chosen] == [k]
    assert chosen[0].score_length == min(one.score_length for one in model.candidates_)
    assert chosen[0].description_length == min(one.description_length for one in model.candidates_)


def test_planted_clusters_are_recovered_from_factors() -> None:
    planted = planted_scores(400, 5, 0.25, 0.08, seed=1)
    model = quick().fit(planted.scores)
    assert model.certificate_.method == "factored"
    assert adjusted_rand_score(planted.labels, model.labels_) == 1
    assert adjusted_rand_score(planted.labels, model.labels_spectral_) == 1
    check_laws(model, planted.scores)


@pytest.mark.parametrize("options", [{"rule": "any"}, {"remove_donor_effect": True}, {"weights": (2.0, 1.0)}])
def test_options_of_filter_and_completion_reach_them(options: dict[str, Any]) -> None:
    planted = planted_scores(40, 2, 1.0, 0.05, seed=3)
    model = quick(2, **options).fit(planted.scores)
    check_laws(model, planted.scores)
    assert adjusted_rand_score(planted.labels, model.labels_) == 1
    assert model.filtered_.rule == options.get("rule", "both")
    assert model.filtered_.remove_donor_effect == options.get("remove_donor_effect", False)
    assert model.similarity_.weights == options.get("weights", (1.0, 1.0))


def test_the_last_step_can_be_left_out() -> None:
    planted = planted_scores(60, 4, 0.5, 0.12, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        plain = quick(4, refine=False).fit(planted.scores)
        refined = quick(4).fit(planted.scores)
    active = plain.labels_spectral_ >= 0
    np.testing.assert_array_equal(plain.labels_[active], plain.labels_spectral_[active])
    assert adjusted_rand_score(plain.labels_spectral_, refined.labels_spectral_) == 1
    assert adjusted_rand_score(planted.labels, refined.labels_) >= adjusted_rand_score(
        planted.labels, plain.labels_
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_clusters", ["auto", 3])
def test_the_order_of_tasks_does_not_matter(n_clusters: Any, seed: int) -> None:
    scores = planted_scores(45, 3, 0.5, 0.12, seed).scores
    names = np.random.default_rng(seed).permutation(np.array(scores.task_names)).tolist()
    permuted_scores = scores.subset(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        model = quick(n_clusters).fit(scores)
        permuted = quick(n_clusters).fit(permuted_scores)
    number_of = {name: number for number, name in enumerate(scores.task_names)}
    places = np.array([number_of[name] for name in names])
    np.testing.assert_array_equal(permuted.labels_, model.labels_[places])
    np.testing.assert_array_equal(permuted.labels_spectral_, model.labels_spectral_[places])
    np.testing.assert_allclose(permuted.confidence_, model.confidence_[places])
    np.testing.assert_allclose(
        permuted.similarity_.dense(), model.similarity_.dense()[np.ix_(places, places)]
    )
    difference = permuted.errors_.toarray() - model.errors_.toarray()[np.ix_(places, places)]
    np.testing.assert_allclose(difference, 0, atol=1e-12)
    check_laws(permuted, permuted_scores)


@pytest.mark.parametrize("seed", range(4))
def test_a_twin_goes_with_its_twin(seed: int) -> None:
    scores = planted_scores(40, 4, 0.7, 0.07, seed).scores
    task = 7 * seed
    S = np.full((41, 41), np.nan)
    S[:40, :40] = scores.to_matrix()
    S[40, :40], S[:40, 40] = S[task, :40], S[:40, task]
    S[40, task] = S[task, 40] = np.nanmax(S)
    model = quick(random_state=seed).fit(TransferScores.from_matrix(S, [*scores.task_names, "twin"]))
    assert model.n_clusters_ == 4
    assert model.labels_[40] == model.labels_[task]


def test_the_same_seed_gives_the_same_answer_and_generators_are_spent() -> None:
    scores = planted_scores(30, 3, 0.6, 0.1, seed=5).scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        first, second = (quick(random_state=9).fit(scores) for _ in range(2))
        np.testing.assert_array_equal(first.labels_, second.labels_)
        np.testing.assert_array_equal(first.similarity_.dense(), second.similarity_.dense())
        generator = np.random.default_rng(0)
        labels = quick(random_state=generator).fit_predict(scores)
    assert labels.shape == (30,)
    assert generator.bit_generator.state != np.random.default_rng(0).bit_generator.state


def test_it_is_a_scikit_learn_estimator() -> None:
    scores = planted_scores(24, 2, seed=2).scores
    model = quick(2, p_high=0.3)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(p_low=0.2, n_clusters=3).get_params()["p_low"] == 0.2
    assert model.fit(scores) is model
    np.testing.assert_array_equal(clone(model).fit_predict(scores), model.labels_)
    assert not hasattr(clone(model), "labels_")
    assert model.get_params()["n_clusters"] == 2, "fit does not change parameters"
    assert set(RobustTaskClustering().get_params()) == {
        "n_clusters", "rule", "p_high", "p_low", "remove_donor_effect", "lam", "weights", "tol", "method",
        "refine", "n_threads", "random_state",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 13}, "13; expected 'auto' or a whole number from 1 to 12"),
        ({"n_clusters": -1}, "n_clusters"),
        ({"n_clusters": 2.0}, "n_clusters"),
        ({"n_clusters": True}, "n_clusters"),
        ({"n_clusters": "five"}, "n_clusters"),
        ({"n_clusters": None}, "n_clusters"),
        ({"rule": "some"}, "rule"),
        ({"p_high": -1}, "p_high"),
        ({"p_low": float("nan")}, "p_low"),
        ({"lam": 0}, "lam"),
        ({"lam": "large"}, "lam"),
        ({"tol": 0}, "tol"),
        ({"tol": "small"}, "tol"),
        ({"method": "fast"}, "method"),
        ({"weights": 2.0}, "weights"),
        ({"weights": (1.0,)}, "weights"),
        ({"weights": ("a", 1.0)}, "weights"),
        ({"weights": (1.0, -1.0)}, "weights"),
        ({"refine": "yes"}, "refine"),
        ({"remove_donor_effect": 1}, "remove_donor_effect"),
        ({"n_threads": 0}, "n_threads"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": None}, "random_state"),
    ],
)
def test_wrong_parameters_are_refused_in_fit(options: dict[str, Any], message: str) -> None:
    model = RobustTaskClustering(**options)
    with pytest.raises(UsageError, match=message):
        model.fit(planted_scores(12, 2).scores)


def test_a_bare_matrix_is_refused_with_advice() -> None:
    with pytest.raises(UsageError, match=r"Make them of a matrix with TransferScores\.from_matrix"):
        RobustTaskClustering().fit(np.eye(3))  # type: ignore[arg-type]


# --- degenerate scores ---


def empty_scores(n: int) -> TransferScores:
    return TransferScores([f"t{i}" for i in range(n)], source=[], target=[], score=[])


def equal_scores(n: int) -> TransferScores:
    return TransferScores.from_matrix(np.full((n, n), 0.5), [f"t{i}" for i in range(n)])


@pytest.mark.parametrize(
    "scores", [empty_scores(1), empty_scores(5), equal_scores(2), equal_scores(3), equal_scores(9)]
)
def test_without_observations_no_task_has_a_cluster(scores: TransferScores) -> None:
    with pytest.warns(DoubtWarning, match="no pair of tasks is observed"):
        model = RobustTaskClustering().fit(scores)
    check_laws(model, scores)
    assert (model.labels_ == -1).all()
    assert model.n_clusters_ == 0
    assert model.clusters_ == {}
    assert model.candidates_ == ()
    assert model.certificate_.method == "none"
    assert not model.certificate_.converged
    assert model.certificate_.gap == 1
    assert model.diagnosis_.verdict == "not supported"


@pytest.mark.parametrize(("n_clusters", "labels"), [(1, [0] * 4), (4, [0, 1, 2, 3]), (3, [-1] * 4)])
def test_without_observations_a_given_number_is_kept_where_there_is_no_choice(
    n_clusters: int, labels: list[int]
) -> None:
    scores = empty_scores(4)
    with pytest.warns(DoubtWarning):
        model = RobustTaskClustering(n_clusters).fit(scores)
    check_laws(model, scores)
    assert model.labels_.tolist() == labels
    assert model.n_clusters_ == len(set(labels) - {-1})


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 11, 12])
def test_a_given_number_is_kept(n_clusters: int) -> None:
    planted = planted_scores(12, 3, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        model = quick(n_clusters).fit(planted.scores)
    check_laws(model, planted.scores)
    assert model.n_clusters_ == n_clusters
    assert (model.labels_ >= 0).all()
    assert model.n_clusters_reason_.startswith("given; the measured pairs speak for 3")
    assert {one.n_clusters for one in model.candidates_} >= {3, n_clusters}


def test_all_pairs_together_show_clusters_that_the_filtered_ones_do_not() -> None:
    for seed in range(3):
        planted = planted_scores(60, 6, 0.5, 0.1, seed)
        model = quick().fit(planted.scores)
        filtered = min(model.candidates_, key=lambda one: one.description_length)
        assert filtered.n_clusters < 4
        assert 5 <= model.n_clusters_ <= 7
        assert adjusted_rand_score(planted.labels, model.labels_) > 0.8
        assert f"speak for {filtered.n_clusters}" in model.n_clusters_reason_


def test_noise_has_one_cluster() -> None:
    for seed in range(4):
        with pytest.warns(DoubtWarning):
            model = quick().fit(planted_scores(40, 1, 0.7, 0.1, seed).scores)
        assert model.n_clusters_ == 1
        assert model.diagnosis_.verdict != "certified"


def test_where_the_wanted_number_has_no_lambda_another_start_may() -> None:
    planted = planted_scores(30, 3, 1.0, 0.05, seed=0)
    model = quick(10).fit(planted.scores)
    part = model.components_[0]
    assert part.wanted.n_clusters == 10
    assert part.start.n_clusters == 3
    assert model.certificate_.converged
    assert model.n_clusters_ == 10


def test_a_given_number_that_is_found_as_well() -> None:
    model = quick(3).fit(planted_scores(24, 3, seed=4).scores)
    assert model.n_clusters_reason_ == "given"


def test_an_isolated_task_has_no_cluster() -> None:
    planted = planted_scores(24, 3, seed=1)
    names = [*planted.scores.task_names, "alone"]
    scores = planted.scores.merged_with(TransferScores(names, source=[], target=[], score=[]))
    model = quick().fit(scores)
    check_laws(model, scores)
    assert adjusted_rand_score(planted.labels, model.labels_[:24]) == 1
    assert model.labels_[24] == -1
    assert model.confidence_[24] == 0
    assert not model.similarity_.dense()[24].any()
    assert model.certificate_.n_components == 1


def test_too_few_tasks_with_observed_pairs_for_a_given_number() -> None:
    planted = planted_scores(12, 2, seed=1)
    names = [*planted.scores.task_names, "alone", "lonely"]
    scores = planted.scores.merged_with(TransferScores(names, source=[], target=[], score=[]))
    with pytest.warns(DoubtWarning, match="13 were given, but only 12 tasks have 2 observed pairs or more"):
        model = quick(13).fit(scores)
    check_laws(model, scores)
    assert model.n_clusters_ == 12
    assert model.labels_[12:].tolist() == [-1, -1]
    assert "13 were given" in model.certificate_.message


def test_planted_scores_are_what_their_name_says() -> None:
    made = planted_scores(30, 3, density=0.5, seed=1)
    S = made.scores.to_matrix()
    same = made.labels[:, None] == made.labels
    assert np.nanmean(S[same]) > np.nanmean(S[~same]) + 0.1
    assert np.bincount(made.labels).tolist() == [10, 10, 10]
    assert 0.4 < np.mean(~np.isnan(S)) < 0.6
    assert np.isnan(planted_scores(30, 3, between=False).scores.to_matrix()[~same]).sum() > 0


def test_a_constant_column_leaves_its_task_to_its_other_scores() -> None:
    planted = planted_scores(16, 2, seed=2)
    S = planted.scores.to_matrix()
    S[:, 4] = 0.5
    scores = TransferScores.from_matrix(S, planted.scores.task_names)
    model = quick().fit(scores)
    check_laws(model, scores)
    assert model.labels_spectral_[4] == -1
    assert adjusted_rand_score(planted.labels, model.labels_) == 1
    assert model.confidence_[4] == pytest.approx(0.5)


def rename(scores: TransferScores, prefix: str) -> TransferScores:
    return TransferScores(
        [prefix + name for name in scores.task_names],
        source=scores.source,
        target=scores.target,
        score=scores.score,
    )


def test_components_are_completed_one_by_one_and_joined() -> None:
    one, other = planted_scores(24, 2, seed=1), planted_scores(18, 3, seed=2)
    scores = rename(one.scores, "b-").merged_with(rename(other.scores, "a-"))
    truth = np.concatenate([one.labels, 2 + other.labels])
    model = quick().fit(scores)
    check_laws(model, scores)
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert model.certificate_.n_components == 2
    assert "2 components" in model.n_clusters_reason_
    assert [one.n_clusters for one in model.candidates_ if one.chosen] == [2, 3]
    assert [one.component for one in model.candidates_ if one.chosen] == [0, 1]
    assert model.certificate_.window == model.components_[0].completion.window
    assert not model.similarity_.dense()[:24, 24:].any()
    for n_clusters in (1, 5, 9, 42):
        given_number = quick(n_clusters).fit(scores)
        check_laws(given_number, scores)
        assert given_number.n_clusters_ == n_clusters
        if n_clusters == 5:
            assert adjusted_rand_score(truth, given_number.labels_) == 1
    # A component is completed as if it were alone.
    alone = quick().fit(rename(other.scores, "a-"))
    np.testing.assert_allclose(alone.similarity_.dense(), model.similarity_.dense()[24:, 24:], atol=1e-12)


def test_a_lambda_that_is_too_small_leaves_the_first_clustering() -> None:
    planted = planted_scores(24, 3, seed=0)
    with pytest.warns(DoubtWarning, match="X is zero"):
        model = RobustTaskClustering(lam=1e-4).fit(planted.scores)
    check_laws(model, planted.scores)
    assert model.similarity_.rank == 0
    assert adjusted_rand_score(planted.labels, model.labels_) == 1


def test_where_no_lambda_will_do_it_says_so() -> None:
    planted = planted_scores(40, 4, 0.5, 0.3, seed=0, gain=0.1)
    with pytest.warns(DoubtWarning, match="no lambda") as told:
        model = RobustTaskClustering(8).fit(planted.scores)
    assert len(told) == 1
    check_laws(model, planted.scores)
    assert model.certificate_.method == "spectral"
    assert not model.certificate_.converged
    assert model.certificate_.message
    assert model.n_clusters_ == 8
    assert model.similarity_.rank == 8
    assert model.components_[0].start is model.components_[0].wanted


def test_only_within_clusters_measured_every_cluster_is_a_component() -> None:
    planted = planted_scores(30, 3, 1.0, 0.05, seed=3, between=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        model = quick().fit(planted.scores)
    check_laws(model, planted.scores)
    placed = model.labels_ >= 0
    # Nothing is known across; so no cluster reaches across.
    for cluster in range(model.n_clusters_):
        assert len(set(planted.labels[placed & (model.labels_ == cluster)].tolist())) == 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_laws_hold_for_any_scores(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 9))
    seed = data.draw(st.integers(0, 10_000))
    generator = np.random.default_rng(seed)
    S = generator.choice([0.0, 0.25, 0.5, 0.75, 1.0], size=(n, n))
    S[generator.random((n, n)) < data.draw(st.sampled_from([0.0, 0.3, 0.7]))] = np.nan
    scores = TransferScores.from_matrix(S, [f"t{i}" for i in range(n)])
    n_clusters = data.draw(st.one_of(st.just("auto"), st.integers(1, n)))
    rule = data.draw(st.sampled_from(["both", "any"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        model = quick(n_clusters, rule=rule).fit(scores)
    check_laws(model, scores)
    if n_clusters in (1, n):
        assert (model.labels_ >= 0).all()


# --- components ---


def small_problem(n: int, entries: dict[tuple[int, int], float]) -> Problem:
    Y, observed = np.eye(n), np.eye(n)
    for (i, j), value in entries.items():
        Y[i, j] = Y[j, i] = value
        observed[i, j] = observed[j, i] = 1
    return make_problem(Y, observed)


def test_components_come_by_size_and_then_by_the_given_order() -> None:
    problem = small_problem(8, {(0, 5): 1, (1, 2): 0, (2, 7): 1, (3, 4): 0})
    found = find_components(problem, np.arange(8))
    assert [members.tolist() for members in found] == [[1, 2, 7], [0, 5], [3, 4]]
    found = find_components(problem, np.arange(8)[::-1])
    assert [members.tolist() for members in found] == [[7, 2, 1], [5, 0], [4, 3]]
    assert find_components(small_problem(3, {}), np.arange(3)) == []


def test_a_problem_is_restricted_in_the_order_of_its_members() -> None:
    problem = small_problem(4, {(0, 1): 0, (1, 3): 1, (0, 3): 0.25})
    part = restrict_problem(problem, np.array([3, 0, 1]))
    assert part.matrix(part.Y).toarray().tolist() == [[1, 0.25, 1], [0.25, 1, 0], [1, 0, 1]]
    assert part.matrix(np.ones(len(part.Y))).toarray().all()
    assert restrict_problem(problem, np.array([], dtype=np.intp)).n == 0


NO_PAIRS = PairValues(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


def complete(problem: Problem, lam: Any = "auto") -> list[CompletedComponent]:
    options: dict[str, Any] = {"n_clusters": None, "tol": 1e-5, "method": "auto", "weights": (1.0, 1.0)}
    return [
        complete_component(problem, members, NO_PAIRS, lam, **options, n_threads=1, seed=0)
        for members in find_components(problem, np.arange(problem.n))
    ]


@pytest.mark.parametrize(
    ("entries", "labels"),
    [
        ({(0, 1): 1}, [-1, -1, -1]),
        ({(0, 1): 0}, [-1, -1, -1]),
        ({(0, 1): 1, (1, 2): 1}, [-1, -1, -1]),
        ({(0, 1): 1, (1, 2): 1, (0, 2): 1}, [0, 0, 0]),
        ({(0, 1): 1, (1, 2): 1, (0, 2): 0}, [0, 0, 0]),
        ({(0, 1): 0, (1, 2): 1, (0, 2): 0}, [-1, 0, 0]),
        ({(0, 1): 0, (1, 2): 0, (0, 2): 0}, [-1, -1, -1]),
    ],
)
def test_the_smallest_components(entries: dict[tuple[int, int], float], labels: list[int]) -> None:
    problem = small_problem(3, entries)
    parts = complete(problem)
    joined = join_completions(problem, parts, (1.0, 1.0), ("a", "b", "c"))
    assert joined.converged
    assert joined.message == ""
    for (i, j), value in entries.items():
        assert joined.dense()[i, j] == pytest.approx(value, abs=0.01)
    active = np.diff(problem.indptr) >= 3
    assert cluster_tasks(parts, np.arange(3), active, None, 0).tolist() == labels


def test_larger_components_of_nothing_but_zeros_have_no_cluster() -> None:
    n = 6
    problem = small_problem(n, {(i, j): 0 for i in range(n) for j in range(i)})
    parts = complete(problem)
    labels = cluster_tasks(parts, np.arange(n), np.ones(n, dtype=bool), None, 0)
    assert (labels == -1).all()


def test_doubts_of_components_are_told_with_their_place() -> None:
    entries = {(5 * block + i, 5 * block + j): 1.0 for block in range(5) for i in range(5) for j in range(i)}
    problem = small_problem(25, entries)
    names = tuple(f"task {i}" for i in range(25))
    told = join_completions(problem, complete(problem, 1e-3), (1.0, 1.0), names).message
    assert "component of 'task 0' (5 tasks): X is zero" in told
    assert "component of 'task 10'" in told
    assert "'task 15'" not in told
    assert told.endswith("and 2 more components in doubt")


def test_first_clusterings_are_joined() -> None:
    n = 12
    entries = {(i, j): float((i < 5) == (j < 5)) for i in range(10) for j in range(i)}
    problem = small_problem(n, entries)
    start = join_starts(problem, complete(problem))
    assert start.n_clusters == 4
    assert adjusted_rand_score([0] * 5 + [1] * 5 + [2, 3], start.labels) == 1
    assert {len(candidate.labels) for candidate in start.candidates} == {n}
    alone = first_clustering(restrict_problem(problem, np.arange(10)), None, 0)
    np.testing.assert_allclose(start.eigenvalues, alone.eigenvalues)
    empty = join_starts(small_problem(2, {}), [])
    assert empty.n_clusters == 2
    assert empty.candidates == ()
