"""Whether clusters can be trusted: what the recovery theorem is about, measured, and said in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse.csgraph import connected_components

from robusttc.clustering.filtering import FilteredScores, Verdict
from robusttc.clustering.old.completion.problem import Problem
from robusttc.clustering.old.completion.result import CompletionResult
from robusttc.clustering.old.completion.window import predict_window
from robusttc.clustering.old.evidence import (
    BlockedTasks,
    ClusterCounts,
    count_clusters,
    find_blocked,
    partners_needed,
    signal_to_noise,
    similarity_margins,
)
from robusttc.clustering.old.incoherence import Incoherence, bound_incoherence, error_pattern
from robusttc.clustering.old.start import Labels, Start
from robusttc.clustering.old.verdict import Findings, give_advice, pronounce
from robusttc.errors import UsageError, quote
from robusttc.scores import ScoreReliability, TransferScores

__all__ = ["BlockingTask", "Diagnosis", "diagnose"]

MAX_LISTED_TASKS = 20
# X bears a task's cluster out if it is nearer to it than to any other by this much; same is 1, different is
# 0.
CLEAR_MARGIN = 0.25


@dataclass(frozen=True)
class BlockingTask:
    """A task whose own entries keep X from being exactly the matrix of the clusters.

    Attributes
    ----------
    task, name
        Its number, and its name where names are known.
    reason
        ``own cluster`` or ``other cluster``.
    cluster
        The label of the cluster in question.
    agreeing, contradicting
        How many of its entries there agree with the clusters, its own diagonal entry included, and how many
        do not.
    severity
        By how much its condition is missed, where 1 is what a row of the dual has to reach.
    """

    task: int
    name: str | None
    reason: Literal["own cluster", "other cluster"]
    cluster: int
    agreeing: int
    contradicting: int
    severity: float


@dataclass(frozen=True)
class Diagnosis:
    """What the measurements say about the clusters. A number that does not exist is None, never NaN.

    Attributes
    ----------
    verdict
        ``certified``: completion is proven optimal, at a lambda within its window, and X separates the
        clusters; this covers the tasks that X separates, which are at least 99 % of the assigned ones.
        ``likely``: not proven, but the signal-to-noise ratio is one at which clusters were right.
        Else ``not supported``.
    sentence
        The verdict with its reason.
    advice
        What to do next, a sentence each.
    n_tasks, n_clusters
        The number of tasks, and of clusters in use.
    n_observed_pairs, n_correct_pairs
        The unordered pairs of different tasks with an entry in Y, and those of them that agree with the
        clusters.
    n_log2_n
        n log^2 n, the order of correct entries that the theorem asks for.
    share_of_n_log2_n
        The correct entries (two a pair) as a share of it.
    mean_partners, partners_needed, more_partners_per_task
        The observed partners a task has, how many it needs (see `evidence.partners_needed`), and how many
        that is more; None if no more are needed, or if no number would do.
    n_uncertain_pairs
        The pairs that were measured, but that the filter left out.
    signal_to_noise, clearest_signal_to_noise, faintest_signal_to_noise
        How far the differences between clusters stand above the noise: on the mean, and the two ends; see
        `evidence.signal_to_noise`.
    flip_rate, flip_rate_inside, flip_rate_outside
        The share of entries that contradict the clusters: of all, of those within, and of those between
        clusters.
    incoherence
        The quantities of the theorem; None if X is zero.
    lam, lambda_low, lambda_high, lambda_high_is_measured, lambda_in_window
        The lambda used, the window for it (low may be None: no lambda is large enough), how its upper end is
        known.
    method, converged, gap
        How completion went.
    rank
        The rank of X.
    share_of_tasks_separated
        The share of the assigned tasks that X puts clearly into their cluster.
    n_not_separated, not_separated
        The assigned tasks that it does not: how many, and the worst of them.
    error_share
        The share of the observed entries that E takes (above 0.001 in size).
    sparse_errors_fit
        Whether that is few enough to call E sparse.
    n_blocking_tasks, blocking_tasks
        The tasks that keep X from being exactly the matrix of the clusters; the worst of them.
    min_partners, n_few_partners, few_partners
        The tasks with fewer partners than this (the number of clusters): how many, and the first of them.
    n_unassigned, unassigned
        The tasks without a cluster: how many, and the first of them.
    n_components
        The number of groups of tasks with no observed pair between them; a task without partners is one.
    reliability
        What the scores say about themselves; None without scores.
    """

    verdict: Literal["certified", "likely", "not supported"]
    sentence: str
    advice: tuple[str, ...]
    n_tasks: int
    n_clusters: int
    n_observed_pairs: int
    n_correct_pairs: int
    n_log2_n: float
    share_of_n_log2_n: float | None
    mean_partners: float
    partners_needed: float | None
    more_partners_per_task: int | None
    n_uncertain_pairs: int | None
    signal_to_noise: float | None
    clearest_signal_to_noise: float | None
    faintest_signal_to_noise: float | None
    flip_rate: float | None
    flip_rate_inside: float | None
    flip_rate_outside: float | None
    incoherence: Incoherence | None
    lam: float
    lambda_low: float | None
    lambda_high: float | None
    lambda_high_is_measured: bool
    lambda_in_window: bool
    method: str
    converged: bool
    gap: float | None
    rank: int
    share_of_tasks_separated: float | None
    n_not_separated: int
    not_separated: tuple[int, ...]
    error_share: float | None
    sparse_errors_fit: bool | None
    n_blocking_tasks: int
    blocking_tasks: tuple[BlockingTask, ...]
    min_partners: int
    n_few_partners: int
    few_partners: tuple[int, ...]
    n_unassigned: int
    unassigned: tuple[int, ...]
    n_components: int
    reliability: ScoreReliability | None

    def as_dict(self) -> dict[str, Any]:
        """Give all of it as plain values that JSON can hold."""
        plain: dict[str, Any] = as_plain(self)
        return plain


def as_plain(value: Any) -> Any:
    """Turn dataclasses and tuples into dictionaries and lists, and what is no finite number into None."""
    if is_dataclass(value):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [as_plain(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def diagnose(
    scores: TransferScores | None,
    filtered: FilteredScores | None,
    problem: Problem,
    start: Start,
    completion: CompletionResult,
    labels: Labels,
) -> Diagnosis:
    """Say how far clusters are borne out by what was measured.

    Works on the sparse entries and the factors of X alone: seconds for 100,000 tasks and 13 million entries.

    Parameters
    ----------
    scores
        The transfer scores, for their reliability and the names of the tasks; or None.
    filtered
        What the filter made of them; or None.
    problem
        The observed entries.
    start
        The first clustering.
    completion
        The completed matrix.
    labels
        The cluster of each task, -1 for a task without one.

    Raises
    ------
    UsageError
        If these are not of the same number of tasks.

    Examples
    --------
    >>> from robusttc.clustering.old.completion.complete import complete_similarity
    >>> from robusttc.clustering.old.completion.problem import make_problem
    >>> from robusttc.clustering.old.start import first_clustering
    >>> Y, observed = np.kron(np.eye(2), np.ones((9, 9))), np.ones((18, 18))
    >>> problem = make_problem(Y, observed)
    >>> start = first_clustering(problem, None, 0)
    >>> found = diagnose(None, None, problem, start, complete_similarity(Y, observed), start.labels)
    >>> found.verdict, found.n_clusters, found.advice
    ('certified', 2, ())
    """
    n = problem.n
    for name, length in {
        "labels": len(labels),
        "completion": completion.n,
        "scores": n if scores is None else scores.n_tasks,
        "filtered": n if filtered is None else len(filtered.task_names),
    }.items():
        if length != n:
            raise UsageError(f"{name} and problem differ in size", got=f"{length:,}", expected=f"{n:,} tasks")

    counts = count_clusters(problem, labels)
    rates = counts.rates
    n_entries = len(problem.indices)
    n_off_diagonal = n_entries - int(np.count_nonzero(problem.on_diagonal))
    n_correct = round(counts.n_correct)
    n_log2_n = n * math.log(n) ** 2
    window = completion.window or predict_window(problem, start, completion.weights)
    needed = partners_needed(problem, counts, completion.weights, window)
    missing = None if needed is None else math.ceil(needed - problem.mean_degree)
    is_reachable = needed is not None and needed <= n - 1
    signal = signal_to_noise(counts)
    blocked = find_blocked(problem, labels, counts, completion.lam)
    margins = similarity_margins(completion, counts, labels)
    unclear = np.argsort(margins, kind="stable")[: int(np.count_nonzero(margins < CLEAR_MARGIN))]
    not_separated = np.flatnonzero(labels >= 0)[unclear]
    n_components, component = connected_components(problem.matrix(np.ones(n_entries)), directed=False)
    degree = np.diff(problem.indptr) - np.bincount(problem.rows[problem.on_diagonal], minlength=n)
    few = np.flatnonzero((degree < counts.n_clusters) & (labels >= 0))
    unassigned = np.flatnonzero(labels < 0)
    reliability = None if scores is None else scores.reliability()
    names = scores.task_names if scores is not None else None if filtered is None else filtered.task_names
    listed = list_blocking(problem, labels, counts, blocked, names)

    findings = Findings(
        n_tasks=n,
        n_clusters=counts.n_clusters,
        n_pairs=n_off_diagonal // 2,
        n_zeros=int(np.count_nonzero(problem.Y < 0.5)),
        mean_partners=problem.mean_degree,
        partners_needed=needed,
        more_partners=missing if is_reachable and missing is not None and missing > 0 else None,
        signal=signal.mean,
        faintest_signal=signal.faintest,
        flip_rate=rates.flip_rate if rates.n_inside + rates.n_outside else None,
        inside_rate=rates.inside if rates.n_inside else None,
        lam=completion.lam,
        window=window,
        method=completion.method,
        converged=completion.converged,
        gap=completion.gap,
        rank=completion.rank,
        separated=1 - len(unclear) / len(margins) if len(margins) else None,
        n_not_separated=len(unclear),
        worst_separated=name_task(not_separated, names),
        error_share=error_pattern(completion).nnz / n_entries if n_entries else None,
        n_blocking=len(blocked.tasks),
        worst_blocking=name_task(blocked.tasks, names),
        n_few_partners=len(few),
        n_unassigned=len(unassigned),
        n_components=int(n_components),
        n_assigned_components=len(np.unique(component[labels >= 0])),
        reliability=reliability,
    )
    verdict, sentence = pronounce(findings)
    return Diagnosis(
        verdict=verdict,
        sentence=sentence,
        advice=give_advice(findings, verdict),
        n_tasks=n,
        n_clusters=counts.n_clusters,
        n_observed_pairs=findings.n_pairs,
        n_correct_pairs=n_correct,
        n_log2_n=n_log2_n,
        share_of_n_log2_n=2 * n_correct / n_log2_n if n > 1 else None,
        mean_partners=problem.mean_degree,
        partners_needed=needed,
        more_partners_per_task=findings.more_partners,
        n_uncertain_pairs=None if filtered is None else filtered.count(Verdict.UNCERTAIN),
        signal_to_noise=signal.mean,
        clearest_signal_to_noise=signal.clearest,
        faintest_signal_to_noise=signal.faintest,
        flip_rate=findings.flip_rate,
        flip_rate_inside=1 - rates.inside if rates.n_inside else None,
        flip_rate_outside=rates.outside if rates.n_outside else None,
        incoherence=bound_incoherence(completion),
        lam=completion.lam,
        lambda_low=window.low if math.isfinite(window.low) else None,
        lambda_high=window.high if math.isfinite(window.high) else None,
        lambda_high_is_measured=window.high_is_measured,
        lambda_in_window=findings.lambda_in_window,
        method=completion.method,
        converged=completion.converged,
        gap=completion.gap if math.isfinite(completion.gap) else None,
        rank=completion.rank,
        share_of_tasks_separated=findings.separated,
        n_not_separated=len(not_separated),
        not_separated=tuple(not_separated[:MAX_LISTED_TASKS].tolist()),
        error_share=findings.error_share,
        sparse_errors_fit=findings.sparse_errors_fit,
        n_blocking_tasks=len(blocked.tasks),
        blocking_tasks=listed,
        min_partners=counts.n_clusters,
        n_few_partners=len(few),
        few_partners=tuple(few[:MAX_LISTED_TASKS].tolist()),
        n_unassigned=len(unassigned),
        unassigned=tuple(unassigned[:MAX_LISTED_TASKS].tolist()),
        n_components=int(n_components),
        reliability=reliability,
    )


def name_task(tasks: Labels, names: tuple[str, ...] | None) -> str | None:
    """Name the first of these tasks, if there is one."""
    if not len(tasks):
        return None
    return f"number {tasks[0]}" if names is None else quote(names[tasks[0]])


def list_blocking(
    problem: Problem,
    labels: Labels,
    counts: ClusterCounts,
    blocked: BlockedTasks,
    names: tuple[str, ...] | None,
) -> tuple[BlockingTask, ...]:
    """Describe the worst of the blocked tasks, with the entries that speak for and against."""
    listed = []
    for place in range(min(len(blocked.tasks), MAX_LISTED_TASKS)):
        task, cluster = int(blocked.tasks[place]), int(counts.clusters[blocked.cluster[place]])
        entries = slice(problem.indptr[task], problem.indptr[task + 1])
        Y = problem.Y[entries][labels[problem.indices[entries]] == cluster]
        is_own = bool(blocked.is_own[place])
        agreeing = int(np.count_nonzero(Y >= 1.0 if is_own else Y <= 0.0))
        listed.append(
            BlockingTask(
                task=task,
                name=None if names is None else names[task],
                reason="own cluster" if is_own else "other cluster",
                cluster=cluster,
                agreeing=agreeing,
                contradicting=len(Y) - agreeing,
                severity=float(blocked.severity[place]),
            )
        )
    return tuple(listed)
