"""The diagnosis: its formulas against dense versions, verdicts on planted clusters, and edge cases."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from robusttc.clustering.filtering import filter_scores
from robusttc.clustering.old.completion.complete import complete_similarity, solve_problem
from robusttc.clustering.old.completion.problem import Problem, make_problem
from robusttc.clustering.old.completion.result import CompletionResult, LambdaWindow
from robusttc.clustering.old.diagnosis import MAX_LISTED_TASKS, Diagnosis, diagnose
from robusttc.clustering.old.evidence import (
    Signal,
    count_clusters,
    find_blocked,
    partners_needed,
    signal_to_noise,
    similarity_margins,
)
from robusttc.clustering.old.incoherence import bound_incoherence, bound_pattern_norm, theorem_interval
from robusttc.clustering.old.start import Labels, Start, estimate_rates, first_clustering
from robusttc.errors import DoubtWarning, UsageError
from robusttc.scores import ScoreReliability, TransferScores

SEEDS = [0, 1, 2]


def planted(
    sizes: list[int], share: float, flip_rate: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], Labels]:
    """Plant clusters: each pair observed with probability `share`, and wrong with `flip_rate`."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n = len(labels)
    same = labels[:, None] == labels
    upper = np.triu(np.ones((n, n), dtype=bool), 1)
    observed = upper & (generator.random((n, n)) < share)
    value = observed & (same ^ (generator.random((n, n)) < flip_rate))
    Y = (value | value.T).astype(np.float64)
    observed |= observed.T
    np.fill_diagonal(Y, 1.0)
    np.fill_diagonal(observed, True)
    return Y, observed, labels


def complete(
    Y: Any, observed: Any, *, seed: int = 0, **options: Any
) -> tuple[Problem, Start, CompletionResult]:
    """Solve Eq. 2, and give what a diagnosis needs."""
    problem = make_problem(Y, observed)
    start = first_clustering(problem, options.get("n_clusters"), seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        return problem, start, complete_similarity(Y, observed, random_state=seed, **options)


def diagnose_planted(
    sizes: list[int], share: float, flip_rate: float, seed: int, **options: Any
) -> Diagnosis:
    Y, observed, _ = planted(sizes, share, flip_rate, seed)
    problem, start, completion = complete(Y, observed, seed=seed, **options)
    return diagnose(None, None, problem, start, completion, start.labels)


def check_plain(value: object) -> None:
    """Refuse what JSON, read anywhere, would not give back."""
    if isinstance(value, dict):
        for key, item in value.items():
            assert type(key) is str
            check_plain(item)
    elif isinstance(value, list):
        for item in value:
            check_plain(item)
    else:
        assert value is None or type(value) in {str, int, float, bool}, type(value)


# --- formulas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_those_of_a_dense_count(seed: int) -> None:
    Y, observed, labels = planted([9, 5, 3], 0.6, 0.2, seed)
    labels[[0, 11]] = -1
    counts = count_clusters(make_problem(Y, observed), labels)
    n = len(labels)
    correct = inside = ones_inside = outside = ones_outside = 0
    for i in range(n):
        for j in range(i):
            if observed[i, j] and labels[i] >= 0 and labels[j] >= 0:
                same = labels[i] == labels[j]
                correct += same == (Y[i, j] == 1)
                inside += same
                outside += not same
                ones_inside += int(same and Y[i, j] == 1)
                ones_outside += int(not same and Y[i, j] == 1)
    assert counts.n_correct == correct
    assert counts.rates.n_inside == inside
    assert counts.rates.n_outside == outside
    assert counts.rates.inside == pytest.approx((ones_inside + 0.5) / (inside + 1))
    assert counts.rates.outside == pytest.approx((ones_outside + 0.5) / (outside + 1))
    assert counts.sizes.tolist() == [8, 4, 3]
    assert counts.smallest == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_rates_are_those_of_the_first_clustering(seed: int) -> None:
    Y, observed, labels = planted([10, 10], 0.5, 0.1, seed)
    problem = make_problem(Y, observed)
    assert count_clusters(problem, labels).rates == estimate_rates(problem, labels)


@pytest.mark.parametrize(("k", "flip_rate"), [(2, 0.1), (3, 0.05), (5, 0.2)])
def test_signal_to_noise_of_equal_clusters_is_the_textbook_formula(k: int, flip_rate: float) -> None:
    size = 8
    Y, observed, labels = planted([size] * k, 1.0, flip_rate, 1)
    counts = count_clusters(make_problem(Y, observed), labels)
    # Complete observation, except that no task is its own partner.
    a, b = counts.rates.inside, counts.rates.outside
    difference = (size - 1) * a - size * b
    mean_ones = (size - 1) * a + (k - 1) * size * b
    signal = signal_to_noise(counts)
    expected = pytest.approx(difference**2 / mean_ones)
    assert signal.mean == expected
    assert signal.clearest == expected
    assert signal.faintest == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_signal_to_noise_is_that_of_the_dense_matrix(seed: int) -> None:
    Y, observed, labels = planted([20, 9, 4], 0.7, 0.1, seed)
    counts = count_clusters(make_problem(Y, observed), labels)
    M = np.zeros((3, 3))
    for c in range(3):
        for d in range(3):
            block = observed[np.ix_(labels == c, labels == d)].sum() - (c == d) * counts.sizes[c]
            M[c, d] = block / counts.sizes[c] * (counts.rates.inside if c == d else counts.rates.outside)
    values = np.sort(np.linalg.eigvals(M).real)[::-1]
    signal = signal_to_noise(counts)
    assert signal.mean == pytest.approx(values[1:].mean() ** 2 / values[0])
    assert signal.clearest == pytest.approx(values[1] ** 2 / values[0])
    assert signal.faintest == pytest.approx(values[2] ** 2 / values[0])


def test_signal_to_noise_of_very_many_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    Y, observed, labels = planted([6] * 5, 1.0, 0.05, 0)
    counts = count_clusters(make_problem(Y, observed), labels)
    mean = signal_to_noise(counts).mean
    monkeypatch.setattr("robusttc.clustering.old.evidence.MAX_DENSE_CLUSTERS", 3)
    signal = signal_to_noise(counts)
    assert signal.mean == pytest.approx(mean, rel=1e-4)
    assert signal.clearest is signal.faintest is None


def test_clusters_upside_down_have_no_signal() -> None:
    Y, observed, labels = planted([8, 8], 1.0, 1.0, 0)
    assert signal_to_noise(count_clusters(make_problem(Y, observed), labels)) == Signal(0.0, 0.0, 0.0)


def test_a_cluster_of_one_task_does_not_weaken_the_others() -> None:
    Y, observed, labels = planted([20, 20, 1, 1, 1], 1.0, 0.02, 0)
    with_them = signal_to_noise(count_clusters(make_problem(Y, observed), labels))
    Y, observed, labels = Y[:40, :40], observed[:40, :40], labels[:40]
    without = signal_to_noise(count_clusters(make_problem(Y, observed), labels))
    assert with_them.mean == pytest.approx(without.mean, rel=0.05)
    # Where there is nothing else, they are all there is.
    Y, observed, labels = planted([20, 1], 1.0, 0.02, 0)
    assert signal_to_noise(count_clusters(make_problem(Y, observed), labels)).mean == 0.0


def window_of(low: float, high: float, *, measured: bool = False) -> LambdaWindow:
    return LambdaWindow(low, high, measured, 0.1, 1)


def test_partners_needed_follow_the_window_and_the_clusters() -> None:
    Y, observed, labels = planted([40, 40, 40, 40], 0.4, 0.1, 0)
    problem = make_problem(Y, observed)
    counts = count_clusters(problem, labels)
    tau = counts.rates.flip_rate
    signal = signal_to_noise(counts).mean
    assert signal is not None
    needed = partners_needed(problem, counts, (1.0, 1.0), window_of(0.1, 0.2))
    assert needed == pytest.approx(problem.mean_degree * 6 / signal)
    # Where errors on zeros weigh more, the window is what counts.
    heavier = 2.5
    push = counts.rates.inside - heavier * (1 - counts.rates.inside)
    assert partners_needed(problem, counts, (1.0, heavier), window_of(0.1, 0.2)) == pytest.approx(
        (4 * heavier / push) ** 2 * tau / (1 - tau) / 0.16
    )
    # A cluster of two tasks: they must be met at all.
    Y, observed, labels = planted([80, 80, 2], 1.0, 0.0, 0)
    rare = make_problem(Y, observed)
    assert partners_needed(
        rare, count_clusters(rare, labels), (1.0, 1.0), window_of(0.1, 0.2)
    ) == pytest.approx(81 * np.log(162))
    # A measured window that is empty asks for more than there are now.
    measured = partners_needed(problem, counts, (1.0, 1.0), window_of(0.2, 0.1, measured=True))
    assert measured is not None
    assert measured > 4 * problem.mean_degree
    assert partners_needed(problem, counts, (1.0, 20.0), window_of(0.1, 0.2)) is None
    alone = count_clusters(problem, np.arange(160))
    assert partners_needed(problem, alone, (1.0, 1.0), window_of(0.1, 0.2)) is None


@pytest.mark.parametrize("weights", [(1.0, 1.0), (2.0, 0.5)])
@pytest.mark.parametrize("seed", SEEDS)
def test_blocked_tasks_are_those_of_a_dense_check(seed: int, weights: tuple[float, float]) -> None:
    Y, observed, labels = planted([9, 6, 4, 1], 0.6, 0.25, seed)
    labels[3] = -1
    lam = 0.3
    problem = make_problem(Y, observed, weights)
    counts = count_clusters(problem, labels)
    found = find_blocked(problem, labels, counts, lam)
    severity: dict[int, float] = {}
    for i in np.flatnonzero(labels >= 0):
        for c in np.unique(labels[labels >= 0]):
            at = observed[i] & (labels == c)
            ones, zeros = weights[0] * (Y[i, at] == 1).sum(), weights[1] * (Y[i, at] == 0).sum()
            if c == labels[i]:
                missed = 1 - lam * (ones - zeros) if np.count_nonzero(labels == c) > 1 else 0.0
                is_blocked = missed > 1e-9
            else:
                missed = lam * (ones - zeros)
                is_blocked = ones > 0 and ones >= zeros
            if is_blocked:
                severity[int(i)] = max(severity.get(int(i), 0.0), missed)
    assert severity
    assert set(found.tasks.tolist()) == set(severity)
    assert found.severity == pytest.approx([severity[int(task)] for task in found.tasks], abs=1e-6)
    assert np.all(np.diff(found.severity) <= 0)


def test_no_task_blocks_what_is_exactly_clusters() -> None:
    Y, observed, labels = planted([8, 8], 1.0, 0.0, 0)
    problem = make_problem(Y, observed)
    assert not len(find_blocked(problem, labels, count_clusters(problem, labels), 0.2).tasks)
    # With a lambda that is too small, no cluster can be carried.
    assert len(find_blocked(problem, labels, count_clusters(problem, labels), 0.1).tasks) == 16


@pytest.mark.parametrize("block", [4_000_000, 7])
@pytest.mark.parametrize("seed", SEEDS)
def test_margins_are_those_of_the_dense_matrix(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robusttc.clustering.old.evidence.MAX_BLOCK", block)
    Y, observed, labels = planted([9, 6, 1], 0.8, 0.1, seed)
    labels[2] = -1
    problem, _, completion = complete(Y, observed, seed=seed)
    margins = similarity_margins(completion, count_clusters(problem, labels), labels)
    X = completion.dense()
    expected = []
    for i in np.flatnonzero(labels >= 0):
        mine = (labels == labels[i]) & (np.arange(len(labels)) != i)
        own = X[i, mine].mean() if mine.any() else X[i, i]
        expected.append(own - max(X[i, labels == c].mean() for c in {0, 1, 2} - {int(labels[i])}))
    assert margins == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_incoherence_is_that_of_the_dense_matrices(seed: int) -> None:
    Y, observed, _ = planted([12, 8, 5], 0.8, 0.05, seed)
    _, _, completion = complete(Y, observed, seed=seed)
    found = bound_incoherence(completion)
    assert found is not None
    U, singular, Vt = np.linalg.svd(completion.dense())
    k = int(np.count_nonzero(singular > 1e-7))
    n = len(Y)
    row_norm = np.linalg.norm(U[:, :k], axis=1).max()
    assert found.rank == k
    assert found.mu_0 == pytest.approx(np.sqrt(n / k) * row_norm)
    largest = n / np.sqrt(k) * np.abs(U[:, :k] @ Vt[:k]).max()
    if np.all(completion.eigenvalues > 0):
        assert found.mu_1 == pytest.approx(largest)
    else:
        assert found.mu_1 >= largest - 1e-9
    assert found.xi_low == pytest.approx(row_norm)
    assert found.xi_low <= found.xi_high <= 1
    pattern = np.abs(completion.E.toarray()) > 1e-3
    norm = np.linalg.norm(pattern.astype(float), 2)
    assert found.mu_low <= norm + 1e-9
    assert found.mu_high >= norm - 1e-9
    assert found.mu_low == pytest.approx(norm, rel=0.1)
    assert found.mu_high <= pattern.sum(axis=0).max()
    # Any matrix of the tangent space with norm 1 has its entries below the bound.
    P = completion.eigenvectors @ completion.eigenvectors.T
    for _ in range(20):
        Z = np.random.default_rng(seed).standard_normal((n, n))
        tangent = P @ Z + Z @ P - P @ Z @ P
        assert np.abs(tangent).max() / np.linalg.norm(tangent, 2) <= found.xi_high + 1e-9


def test_no_matrix_on_the_errors_has_a_larger_norm_than_their_pattern() -> None:
    generator = np.random.default_rng(5)
    pattern = generator.random((30, 30)) < 0.1
    pattern |= pattern.T
    low, high = bound_pattern_norm(sparse.csr_array(pattern.astype(np.float64)))
    norm = np.linalg.norm(pattern.astype(float), 2)
    assert low - 1e-9 <= norm <= high + 1e-9
    for _ in range(50):
        assert np.linalg.norm(pattern * generator.uniform(-1, 1, (30, 30)), 2) <= norm
    assert bound_pattern_norm(sparse.csr_array((3, 3))) == (0.0, 0.0)


def test_theorem_interval_is_empty_where_its_polynomial_says_so() -> None:
    for k in (1, 2, 5, 20):
        for z in np.linspace(0.01, 1, 60) / (4 * k + 5):
            xi = 0.1
            low, high = theorem_interval(xi, z / xi, k)
            is_open = 1 - (7 * k + 9) * z + (10 * k**2 + 21 * k + 8) * z**2 > 0
            assert (low is not None and high is not None) == is_open
        # Condition 1 holds here with equality, and there is no lambda.
        assert theorem_interval(0.1, 10 / (4 * k + 5), k) == (None, None)
    low, high = theorem_interval(0.1, 0.0, 3)
    assert low == pytest.approx(0.1)
    assert high is None


def test_condition_1_holds_without_errors_and_fails_with_many() -> None:
    clean = diagnose_planted([10, 10], 1.0, 0.0, 0).incoherence
    assert clean is not None
    assert clean.condition_1 == "holds"
    assert clean.mu_0 == pytest.approx(1.0)
    assert clean.mu_1 == pytest.approx(np.sqrt(2))
    assert clean.lambda_low is not None
    assert clean.lambda_high is None
    noisy = diagnose_planted([30, 30], 1.0, 0.15, 0).incoherence
    assert noisy is not None
    assert noisy.condition_1 == "fails"
    assert noisy.lambda_low is None


def test_condition_1_may_be_open() -> None:
    # One error among so many tasks that its product with xi lies between the bounds.
    Y, observed, labels = planted([100, 100, 100], 1.0, 0.0, 0)
    Y[0, 1] = Y[1, 0] = 0.0
    _, _, completion = complete(Y[:200, :200], observed[:200, :200])
    block = np.eye(3)[labels] / 10
    E = sparse.csr_array(([-1.0, -1.0], ([0, 1], [1, 0])), shape=(300, 300))
    larger = replace(completion, eigenvectors=block[:, :1], eigenvalues=np.array([100.0]), E=E)
    found = bound_incoherence(larger)
    assert found is not None
    assert found.mu_low * found.xi_low <= found.limit < found.mu_high * found.xi_high
    assert found.condition_1 == "open"
    assert found.lambda_low is None


# --- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("sizes", "share", "flip_rate"),
    [([40, 40], 0.6, 0.05), ([40, 40, 40], 0.5, 0.05), ([100, 100, 100, 100], 0.15, 0.03)],
)
def test_easy_clusters_are_certified(sizes: list[int], share: float, flip_rate: float, seed: int) -> None:
    Y, observed, labels = planted(sizes, share, flip_rate, seed)
    problem, start, completion = complete(Y, observed, seed=seed)
    assert adjusted_rand_score(start.labels, labels) == 1.0
    diagnosis = diagnose(None, None, problem, start, completion, start.labels)
    assert diagnosis.verdict == "certified", diagnosis.sentence
    assert diagnosis.sentence.startswith("Clusters are certified by these measurements: ")
    assert diagnosis.converged
    assert diagnosis.lambda_in_window
    assert diagnosis.share_of_tasks_separated is not None
    assert diagnosis.share_of_tasks_separated >= 0.99
    assert diagnosis.more_partners_per_task is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_clusters", [None, 2, 3, 5])
def test_noise_is_not_supported(n_clusters: int | None, seed: int) -> None:
    diagnosis = diagnose_planted([30, 30, 30], 0.4, 0.5, seed, n_clusters=n_clusters)
    assert diagnosis.verdict == "not supported", diagnosis.sentence
    assert diagnosis.sentence.startswith("Clusters are not supported by these measurements: ")
    assert diagnosis.advice


@pytest.mark.parametrize("seed", SEEDS)
def test_right_clusters_that_cannot_be_proven_are_likely(seed: int) -> None:
    Y, observed, labels = planted([40] * 4, 26 / 159, 0.1, seed)
    problem, start, completion = complete(Y, observed, seed=seed, n_clusters=4)
    diagnosis = diagnose(None, None, problem, start, completion, start.labels)
    assert adjusted_rand_score(start.labels, labels) > 0.9
    assert diagnosis.verdict == "likely", diagnosis.sentence
    assert diagnosis.sentence.startswith("Clusters are likely by these measurements: ")
    assert diagnosis.signal_to_noise is not None
    assert diagnosis.signal_to_noise > 2


@pytest.mark.parametrize("seed", SEEDS)
def test_clusters_seen_in_part_are_not_supported(seed: int) -> None:
    diagnosis = diagnose_planted([34, 33, 33], 11 / 99, 0.2, seed, n_clusters=3, max_iter=300)
    assert diagnosis.signal_to_noise is not None
    assert diagnosis.signal_to_noise < 2
    assert diagnosis.verdict == "not supported", diagnosis.sentence


@pytest.mark.parametrize("seed", SEEDS)
def test_following_the_advice_on_pairs_helps(seed: int) -> None:
    before = diagnose_planted([60, 60, 60], 14 / 179, 0.1, seed, n_clusters=3)
    assert before.verdict != "certified"
    assert before.more_partners_per_task is not None
    assert before.partners_needed is not None
    assert before.mean_partners + before.more_partners_per_task >= before.partners_needed
    assert any("more pairs a task" in advice for advice in before.advice)
    # Half as many more as it asks for, since the rates that it knows are those of too few entries.
    share = (before.mean_partners + 1.5 * before.more_partners_per_task) / 179
    after = diagnose_planted([60, 60, 60], min(share, 1.0), 0.1, seed, n_clusters=3)
    assert after.more_partners_per_task is None
    assert after.converged
    assert after.verdict == "certified", after.sentence
    assert after.share_of_tasks_separated is not None
    assert after.share_of_tasks_separated > 0.975


@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_of_wrong_entries_is_found(seed: int) -> None:
    Y, observed, labels = planted([30, 30, 30], 0.7, 0.01, seed)
    wrong = observed[7] & (np.arange(90) != 7) & (labels < 2)
    Y[7, wrong] = Y[wrong, 7] = 1 - Y[7, wrong]
    # Half of them again: it must not be carried over to the other cluster.
    back = wrong & (np.arange(90) % 2 == 0)
    Y[7, back] = Y[back, 7] = 1 - Y[7, back]
    problem, start, completion = complete(Y, observed, seed=seed, n_clusters=3)
    names = tuple(f"task {i}" for i in range(90))
    scores = TransferScores(names, source=[0], target=[1], score=[0.5])
    diagnosis = diagnose(scores, None, problem, start, completion, labels)
    worst = diagnosis.blocking_tasks[0]
    assert (worst.task, worst.name) == (7, "task 7")
    at = observed[7] & (labels == worst.cluster)
    agrees = (labels == labels[7]) == (Y[7] == 1)
    assert worst.reason == ("own cluster" if worst.cluster == labels[7] else "other cluster")
    assert worst.agreeing == np.count_nonzero(at & agrees)
    assert worst.contradicting == np.count_nonzero(at & ~agrees)
    assert any("look first at task 'task 7'" in advice for advice in diagnosis.advice)


def test_the_list_of_blocking_tasks_is_capped() -> None:
    diagnosis = diagnose_planted([40, 40], 0.3, 0.45, 0, n_clusters=2)
    assert diagnosis.n_blocking_tasks > MAX_LISTED_TASKS == len(diagnosis.blocking_tasks)
    severities = [task.severity for task in diagnosis.blocking_tasks]
    assert severities == sorted(severities, reverse=True)


def test_dense_errors_are_said_not_to_fit() -> None:
    diagnosis = diagnose_planted([40, 40], 0.9, 0.25, 0, n_clusters=2)
    assert diagnosis.error_share is not None
    assert diagnosis.error_share > 0.15
    assert diagnosis.sparse_errors_fit is False
    assert any("not sparse" in advice for advice in diagnosis.advice)
    assert diagnose_planted([40, 40], 0.9, 0.03, 0).sparse_errors_fit is True


def test_a_lambda_outside_of_the_window_is_no_certificate() -> None:
    diagnosis = diagnose_planted([40, 40], 0.6, 0.05, 0, lam=2.0)
    assert not diagnosis.lambda_in_window
    assert diagnosis.verdict == "likely"
    assert any("lam='auto'" in advice for advice in diagnosis.advice)


def test_a_lambda_so_small_that_x_is_zero() -> None:
    diagnosis = diagnose_planted([40, 40], 0.6, 0.05, 0, lam=1e-4)
    assert diagnosis.rank == 0
    assert diagnosis.incoherence is None
    assert diagnosis.share_of_tasks_separated == 0.0
    assert diagnosis.verdict == "likely"
    assert "zero" in diagnosis.sentence


def test_an_open_gap_is_no_certificate() -> None:
    Y, observed, _ = planted([40, 40], 0.6, 0.05, 0)
    problem, start, completion = complete(Y, observed, max_iter=1)
    assert not completion.converged
    diagnosis = diagnose(None, None, problem, start, completion, start.labels)
    assert diagnosis.verdict == "likely"
    assert any("max_iter" in advice for advice in diagnosis.advice)


def test_wrong_labels_are_not_certified() -> None:
    Y, observed, labels = planted([40, 40, 40], 0.5, 0.05, 0)
    problem, start, completion = complete(Y, observed)
    moved = labels.copy()
    moved[:4] = 1
    diagnosis = diagnose(None, None, problem, start, completion, moved)
    assert diagnosis.verdict == "likely"
    assert diagnosis.share_of_tasks_separated == pytest.approx(116 / 120)
    assert set(diagnosis.not_separated) == {0, 1, 2, 3}
    assert any(advice.startswith("4 tasks have no clear place") for advice in diagnosis.advice)
    assert {task.task for task in diagnosis.blocking_tasks} >= {0, 1, 2, 3}
    shuffled = np.random.default_rng(0).permutation(labels)
    assert diagnose(None, None, problem, start, completion, shuffled).verdict == "not supported"


def test_groups_that_were_never_compared_are_not_certified() -> None:
    Y, observed, labels = planted([20, 20], 1.0, 0.0, 0)
    apart = labels[:, None] != labels
    observed[apart] = False
    inner = np.arange(40) % 20 < 10
    Y[np.ix_(inner, ~inner)] = 0.0
    Y[np.ix_(~inner, inner)] = 0.0
    problem, start, completion = complete(Y, observed, n_clusters=4)
    diagnosis = diagnose(None, None, problem, start, completion, start.labels)
    assert diagnosis.n_components == 2
    assert diagnosis.verdict == "likely", diagnosis.sentence
    assert any("2 groups" in advice for advice in diagnosis.advice)


def test_only_similar_pairs_cannot_tell_clusters_apart() -> None:
    Y, observed, labels = planted([20, 20], 1.0, 0.0, 0)
    observed &= labels[:, None] == labels
    problem, start, completion = complete(Y, observed, n_clusters=2)
    diagnosis = diagnose(None, None, problem, start, completion, labels)
    assert diagnosis.verdict == "not supported"
    assert "nothing tells them apart" in diagnosis.sentence
    assert any("No pair was found to be different" in advice for advice in diagnosis.advice)


def test_a_faint_small_cluster_is_named() -> None:
    Y, observed, labels = planted([60, 60, 3], 0.5, 0.03, 0)
    problem, start, completion = complete(Y, observed, n_clusters=3)
    diagnosis = diagnose(None, None, problem, start, completion, labels)
    assert diagnosis.faintest_signal_to_noise is not None
    assert diagnosis.faintest_signal_to_noise < 1
    assert diagnosis.verdict == "likely"
    assert any("faintest cluster" in advice for advice in diagnosis.advice)


# --- scores ---------------------------------------------------------------------------------------


def scores_of(n: int, noise: float, seed: int) -> TransferScores:
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    S = (labels[:, None] == labels) + noise * generator.standard_normal((n, n))
    return TransferScores.from_matrix(S, [f"t{i}" for i in range(n)])


@pytest.mark.parametrize("seed", SEEDS)
def test_reliability_of_the_scores_is_told(seed: int) -> None:
    for noise, is_low in ((0.1, False), (20.0, True)):
        scores = scores_of(40, noise, seed)
        filtered = filter_scores(scores)
        problem, start, completion = complete(filtered.Y, filtered.observed, seed=seed)
        diagnosis = diagnose(scores, filtered, problem, start, completion, start.labels)
        assert diagnosis.reliability == scores.reliability()
        assert diagnosis.n_uncertain_pairs == 780 - diagnosis.n_observed_pairs
        assert any("hardly agree" in advice for advice in diagnosis.advice) == is_low
        assert diagnosis.verdict == ("not supported" if is_low else "certified"), diagnosis.sentence
        check_plain(diagnosis.as_dict())


def test_names_come_from_the_filter_too() -> None:
    scores = scores_of(40, 20.0, 0)
    filtered = filter_scores(scores)
    problem, start, completion = complete(filtered.Y, filtered.observed)
    diagnosis = diagnose(None, filtered, problem, start, completion, start.labels)
    assert diagnosis.reliability is None
    assert diagnosis.blocking_tasks
    assert all(task.name == f"t{task.task}" for task in diagnosis.blocking_tasks)


def test_a_donor_effect_is_told() -> None:
    generator = np.random.default_rng(0)
    S = 3 * generator.standard_normal((30, 1)) + generator.standard_normal((30, 30))
    scores = TransferScores.from_matrix(S, [f"t{i}" for i in range(30)])
    filtered = filter_scores(scores)
    problem, start, completion = complete(filtered.Y, filtered.observed)
    diagnosis = diagnose(scores, filtered, problem, start, completion, start.labels)
    assert any("remove_donor_effect=True" in advice for advice in diagnosis.advice)


def test_scores_without_reciprocity_are_no_reason_for_advice() -> None:
    Y, observed, labels = planted([10, 10], 1.0, 0.0, 0)
    problem, start, completion = complete(Y, observed)
    scores = TransferScores([f"t{i}" for i in range(20)], source=[], target=[], score=[])
    diagnosis = diagnose(scores, None, problem, start, completion, labels)
    assert diagnosis.reliability == ScoreReliability(None, None, None, 0, 0)
    assert not diagnosis.advice


# --- edge cases -----------------------------------------------------------------------------------


def test_as_dict_is_json_of_every_field() -> None:
    for flip_rate in (0.0, 0.05, 0.5):
        diagnosis = diagnose_planted([20, 20], 0.5, flip_rate, 0)
        plain = diagnosis.as_dict()
        check_plain(plain)
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert list(plain) == [field.name for field in fields(Diagnosis)]


def test_numbers_that_are_not_finite_become_none() -> None:
    diagnosis = replace(diagnose_planted([10, 10], 1.0, 0.0, 0), gap=float("nan"), lam=np.float64("inf"))
    plain = diagnosis.as_dict()
    assert plain["gap"] is None
    assert plain["lam"] is None


def diagnose_degenerate(Y: Any, observed: Any, labels: list[int]) -> Diagnosis:
    problem, start, completion = complete(Y, observed)
    diagnosis = diagnose(None, None, problem, start, completion, np.array(labels, dtype=np.intp))
    json.dumps(diagnosis.as_dict(), allow_nan=False)
    check_plain(diagnosis.as_dict())
    return diagnosis


def test_one_task() -> None:
    diagnosis = diagnose_degenerate(np.ones((1, 1)), np.ones((1, 1)), [0])
    assert diagnosis.verdict == "not supported"
    assert diagnosis.share_of_n_log2_n is None


def test_nothing_observed_but_the_diagonal() -> None:
    for labels in ([0] * 5, [0, 0, 1, 1, 2], [-1] * 5):
        diagnosis = diagnose_degenerate(np.eye(5), np.eye(5), labels)
        assert diagnosis.verdict == "not supported"
        assert diagnosis.flip_rate is None
        assert diagnosis.n_components == 5
        assert diagnosis.mean_partners == 0


def test_nothing_observed_at_all() -> None:
    diagnosis = diagnose_degenerate(np.zeros((4, 4)), np.zeros((4, 4)), [0, 0, 1, 1])
    assert diagnosis.verdict == "not supported"
    assert diagnosis.error_share is None
    assert diagnosis.sparse_errors_fit is None


def test_hardly_any_observation() -> None:
    Y, observed = np.eye(10), np.eye(10)
    Y[0, 1] = Y[1, 0] = observed[0, 1] = observed[1, 0] = 1
    diagnosis = diagnose_degenerate(Y, observed, [0] * 10)
    assert diagnosis.verdict == "not supported"
    assert "hardly any" in diagnosis.sentence


def test_one_cluster() -> None:
    Y, observed, labels = planted([40], 0.8, 0.05, 0)
    diagnosis = diagnose_degenerate(Y, observed, labels.tolist())
    assert diagnosis.n_clusters == 1
    assert diagnosis.signal_to_noise is None
    assert diagnosis.verdict == "certified", diagnosis.sentence


@pytest.mark.parametrize(("flip_rate", "verdict"), [(0.2, "likely"), (0.4, "not supported")])
def test_one_cluster_that_is_not_proven(flip_rate: float, verdict: str) -> None:
    Y, observed, labels = planted([40], 0.8, flip_rate, 0)
    problem, start, completion = complete(Y, observed, n_clusters=1)
    unproven = replace(completion, converged=False)
    diagnosis = diagnose(None, None, problem, start, unproven, labels)
    assert diagnosis.verdict == verdict, diagnosis.sentence
    assert "one cluster" in diagnosis.sentence


def test_only_zeros() -> None:
    Y, observed = np.eye(8), np.ones((8, 8))
    assert diagnose_degenerate(Y, observed, [0] * 8).verdict == "not supported"
    assert diagnose_degenerate(Y, observed, list(range(8))).verdict == "not supported"
    assert diagnose_degenerate(Y, observed, [0, 0, 0, 0, 1, 1, 1, 1]).verdict == "not supported"


def test_unassigned_tasks_are_listed_and_take_no_part() -> None:
    Y, observed, labels = planted([30, 30], 0.7, 0.03, 0)
    observed[59, :] = observed[:, 59] = False
    observed[59, 59] = True
    problem, start, completion = complete(Y, observed)
    labels[59] = -1
    diagnosis = diagnose(None, None, problem, start, completion, labels)
    assert diagnosis.unassigned == (59,)
    assert diagnosis.n_unassigned == 1
    assert diagnosis.n_components == 2
    assert diagnosis.verdict == "certified", diagnosis.sentence
    assert any(advice.startswith("1 task has no cluster") for advice in diagnosis.advice)
    assert diagnosis.sentence.endswith(" Nothing is certified of 1 task without a cluster.")


def test_a_certificate_says_which_tasks_it_does_not_cover() -> None:
    Y, observed, labels = planted([40, 40, 40], 0.5, 0.05, 0)
    problem, start, completion = complete(Y, observed)
    whole = diagnose(None, None, problem, start, completion, labels)
    assert (whole.verdict, whole.n_not_separated) == ("certified", 0)
    assert "Nothing is certified of" not in whole.sentence
    labels[7] = 2  # one of 120 tasks is said to be where the completed matrix does not have it
    found = diagnose(None, None, problem, start, completion, labels)
    assert (found.verdict, found.not_separated) == ("certified", (7,))
    assert found.sentence.endswith(" Nothing is certified of 1 task that it does not separate.")


def test_tasks_with_few_partners_are_listed() -> None:
    Y, observed, labels = planted([30, 30, 30], 0.6, 0.02, 0)
    for task in (4, 40):
        observed[task, :] = observed[:, task] = False
        observed[task, task] = observed[task, 10] = observed[10, task] = True
    problem, start, completion = complete(Y, observed, n_clusters=3)
    diagnosis = diagnose(None, None, problem, start, completion, labels)
    assert diagnosis.min_partners == 3
    assert diagnosis.few_partners == (4, 40)
    assert any(advice.startswith("2 tasks have fewer observed partners") for advice in diagnosis.advice)


def test_the_spectral_answer_is_not_certified() -> None:
    Y, observed, labels = planted([20] * 8, 0.3, 0.15, 0)
    problem, start, completion = complete(Y, observed, n_clusters=8)
    assert completion.method == "spectral"
    diagnosis = diagnose(None, None, problem, start, completion, labels)
    assert diagnosis.verdict != "certified"
    check_plain(diagnosis.as_dict())


def test_a_window_that_is_missing_is_predicted() -> None:
    Y, observed, _ = planted([30, 30], 0.7, 0.03, 0)
    problem, start, completion = complete(Y, observed)
    without = diagnose(None, None, problem, start, replace(completion, window=None), start.labels)
    assert without == diagnose(None, None, problem, start, completion, start.labels)


def test_the_order_of_the_labels_does_not_matter() -> None:
    Y, observed, labels = planted([30, 20, 10], 0.7, 0.05, 0)
    problem, start, completion = complete(Y, observed)
    one = diagnose(None, None, problem, start, completion, labels)
    other = diagnose(None, None, problem, start, completion, np.array([7, 0, 3])[labels])
    assert one.verdict == other.verdict
    assert one.signal_to_noise == pytest.approx(other.signal_to_noise)
    assert one.n_blocking_tasks == other.n_blocking_tasks
    assert one.share_of_tasks_separated == other.share_of_tasks_separated


def test_sizes_must_agree() -> None:
    Y, observed, labels = planted([5, 5], 1.0, 0.0, 0)
    problem, start, completion = complete(Y, observed)
    with pytest.raises(UsageError, match="labels and problem differ in size; got 9; expected 10 tasks"):
        diagnose(None, None, problem, start, completion, labels[:9])
    scores = TransferScores(["a"], source=[], target=[], score=[])
    with pytest.raises(UsageError, match="scores and problem differ in size"):
        diagnose(scores, None, problem, start, completion, labels)
    with pytest.raises(UsageError, match="filtered and problem differ in size"):
        diagnose(None, filter_scores(scores), problem, start, completion, labels)


def test_ten_thousand_tasks_need_no_square_matrix() -> None:
    n, k = 10_000, 5
    generator = np.random.default_rng(0)
    labels = np.arange(n) % k
    first, second = generator.integers(0, n, (2, 400_000))
    kept = first != second
    places = np.unique(np.minimum(first, second)[kept] * n + np.maximum(first, second)[kept])
    first, second = places // n, places % n
    value = (labels[first] == labels[second]) ^ (generator.random(len(first)) < 0.05)
    diagonal = np.arange(n)
    rows, columns = np.concatenate([first, second, diagonal]), np.concatenate([second, first, diagonal])
    observed = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    Y = sparse.csr_array((np.concatenate([value, value, np.ones(n)]), (rows, columns)), shape=(n, n))
    problem = make_problem(Y, observed)
    start = first_clustering(problem, k, 0)
    solved = solve_problem(
        make_problem(Y, observed),
        "auto",
        tol=1e-3,
        method="auto",
        weights=(1.0, 1.0),
        n_clusters=k,
        max_iter=None,
        n_threads=1,
        seed=0,
        start=start,
    )

    tracemalloc.start()
    diagnosis = diagnose(None, None, problem, start, solved, start.labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A square matrix would take 800 MB.
    assert peak < 100e6
    assert diagnosis.signal_to_noise is not None
    assert diagnosis.signal_to_noise > 5
    assert diagnosis.verdict in {"certified", "likely"}
    check_plain(diagnosis.as_dict())


def test_a_spectral_answer_is_doubtful_even_in_a_window() -> None:
    Y, observed, _ = planted([30, 30], 0.7, 0.03, 0)
    problem, start, completion = complete(Y, observed)
    spectral = replace(completion, method="spectral", converged=False)
    diagnosis = diagnose(None, None, problem, start, spectral, start.labels)
    assert diagnosis.verdict == "likely"
    assert "found no lambda" in diagnosis.sentence
