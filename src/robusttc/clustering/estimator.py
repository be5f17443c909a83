"""Robust task clustering: from transfer scores to clusters of tasks (Algorithm 1, and past it)."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from robusttc.clustering.completion import (
    N_PARTS,
    Completion,
    CompletionResult,
    Fold,
    as_result,
    complete_scores,
    cross_validate_tau,
    fit_parts,
)
from robusttc.clustering.filtering import FilteredScores, filter_scores
from robusttc.clustering.n_clusters import (
    NumberOfClusters,
    TwoGroups,
    choose_n_clusters,
    fit_two_groups,
    pair_means,
)
from robusttc.clustering.problem import Factors, Floats, Labels, make_problem
from robusttc.clustering.solvers import solve_absolute
from robusttc.clustering.spectral import (
    Tree,
    build_tree,
    cluster_spectrally,
    cut,
    find_directions,
    normalise,
    number_by_size,
)
from robusttc.clustering.standardise import METHODS, standardise
from robusttc.clustering.verdict import HeldOutPairs, Verdict, judge_clusters
from robusttc.errors import DataError, DoubtWarning, UnknownTaskError, UsageError, quote
from robusttc.random import RandomState, run_seed
from robusttc.scores import TransferScores, check_choice

__all__ = ["Certificate", "PairEvidence", "RobustTaskClustering", "TransferPrediction"]

STRATEGIES = ("default", "paper")
MIN_PAIRS = 2  # a task with fewer measured pairs has no cluster
MIN_DIRECTIONS = 8  # of the points that say how near tasks are to each other


@dataclass(frozen=True)
class Certificate:
    """What is proven of the completed similarity: it says nothing about whether the clusters are real.

    Attributes
    ----------
    gap, converged
        The objective is at most this share above the optimum, and whether that reaches the tolerance.
    regularisation
        The penalty of the nuclear norm, tau; lambda of Eq. 2 is 1 / tau.
    objective, rank
        The value of the program, and the rank of X.
    sentence
        That in words.
    """

    gap: float
    converged: bool
    regularisation: float
    objective: float
    rank: int
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a gap that is not finite becomes None."""
        return {
            name: value if value == value and value != np.inf else None
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, eq=False)
class PairEvidence:
    """What the measured pairs say.

    Attributes
    ----------
    first, second
        The task numbers, ``first < second``.
    same_group
        The posterior probability that both belong to one group, by their own scores; in paper mode Y of Eq. 1
        (NaN where it leaves the pair out).
    outlier
        What the loss clipped, in standard deviations: 0 where the completion fits; in paper mode E of Eq. 2.
    """

    first: Labels
    second: Labels
    same_group: Floats
    outlier: Floats


@dataclass(frozen=True, eq=False)
class TransferPrediction:
    """Expected transfer scores of sources (rows) to targets (columns), with their standard errors."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    scores: Floats
    standard_errors: Floats


class RobustTaskClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster tasks by how well they serve each other.

    The default completes the standardised scores themselves by one convex program (see
    `robusttc.clustering.problem`), regularised by cross-validation over pairs, and clusters the symmetric
    part by average linkage. ``strategy="paper"`` is Algorithm 1 to the letter: reliable pairs (Eq. 1), robust
    completion (Eq. 2), spectral clustering.

    The result depends on the scores, the parameters and the names of the tasks, not on their order.

    Parameters
    ----------
    n_clusters
        The number of clusters, or ``auto``: the smallest that predicts held-out pairs nearly as well as any
        (in paper mode the number at the largest gap of the eigenvalues; Deviation: the paper gives K).
    strategy
        ``default`` or ``paper``.
    scale
        How scores of a target are standardised: ``standard``, ``rank`` (for scores with long tails) or
        ``auto``.
    delta
        The Huber threshold, in standard deviations of a target's scores.
    rule, p_high, p_low
        Eq. 1, in paper mode: see `robusttc.clustering.filtering.filter_scores`.
    lam
        lambda of Eq. 2, in paper mode; ``auto``: by cross-validation over the observed entries of Y.
    tol
        The relative duality gap to reach.
    random_state
        The seed: an integer, or a NumPy generator, of which every fit takes one draw.

    Attributes
    ----------
    labels_
        The cluster of each task, in the order of `task_names_`; -1 for a task with fewer than two measured
        pairs (in paper mode every task has a cluster). Clusters are numbered by decreasing size.
    n_clusters_, n_clusters_reason_
        The number of clusters, and why it is this one.
    clusters_
        The names of the tasks of each cluster.
    confidence_
        The posterior probability of each task's cluster given its measured pairs; 0 for no cluster.
    similarity_
        The completed similarity X as factors: a `CompletionResult`.
    embedding_
        The tasks as points of length 1 in the leading directions of X, which are clustered.
    certificate_
        How near the optimum that is: a `Certificate`.
    verdict_
        Whether groups predict unmeasured pairs: a `Verdict`.
    pairs_
        What the measured pairs say: a `PairEvidence`.
    tree_
        The tree of the clusters (default strategy), which can be cut elsewhere; None in paper mode.
    task_names_
        The names of the tasks.

    Examples
    --------
    >>> from robusttc.clustering.planted import make_planted_scores
    >>> names = [f"task {number:02d}" for number in range(24)]
    >>> scores = make_planted_scores(names, [number % 3 for number in range(24)], random_state=0)
    >>> groups = RobustTaskClustering().fit(scores)
    >>> groups.n_clusters_, groups.verdict_.supported, groups.certificate_.converged
    (3, True, True)
    """

    labels_: Labels
    n_clusters_: int
    n_clusters_reason_: str
    confidence_: Floats
    similarity_: CompletionResult
    embedding_: Floats
    certificate_: Certificate
    verdict_: Verdict
    pairs_: PairEvidence
    tree_: Tree | None
    task_names_: tuple[str, ...]

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        strategy: str = "default",
        scale: str = "auto",
        delta: float = 1.0,
        rule: str = "both",
        p_high: float = 0.5,
        p_low: float = 0.5,
        lam: float | Literal["auto"] = "auto",
        tol: float = 1e-5,
        random_state: RandomState = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.strategy = strategy
        self.scale = scale
        self.delta = delta
        self.rule = rule
        self.p_high = p_high
        self.p_low = p_low
        self.lam = lam
        self.tol = tol
        self.random_state = random_state

    @property
    def clusters_(self) -> dict[int, tuple[str, ...]]:
        """The names of the tasks of each cluster, by its number."""
        return {
            cluster: tuple(self.task_names_[task] for task in np.flatnonzero(self.labels_ == cluster))
            for cluster in range(self.n_clusters_)
        }

    def fit(
        self, scores: TransferScores, y: None = None, *, task_features: Floats | None = None
    ) -> RobustTaskClustering:
        """Cluster the tasks of these scores.

        Parameters
        ----------
        scores
            The transfer scores of the measured pairs.
        y
            Not used; there for scikit-learn.
        task_features
            One row a task, in the order of `scores`: side information for the completion (default strategy),
            such as the mean vectors of the tasks' texts. How much it counts is cross-validated.

        Warns
        -----
        DoubtWarning
            If the duality gap was not reached.

        Raises
        ------
        UsageError
            If a parameter cannot be used.
        DataError
            If the features do not fit the scores.
        """
        del y
        n_clusters = self._check_parameters(scores)
        features = check_features(task_features, scores.n_tasks)
        seed = run_seed(self.random_state)
        # By name, so that the order in which tasks come changes nothing.
        order = np.array(sorted(range(scores.n_tasks), key=scores.task_names.__getitem__), dtype=np.intp)
        sorted_scores = scores.subset([scores.task_names[task] for task in order])
        with threadpool_limits(limits=1):  # small matrices: a second thread makes them slower
            if self.strategy == "paper":
                found = fit_paper(self, sorted_scores, n_clusters, seed)
            else:
                own = None if features is None else features[order]
                found = fit_default(self, sorted_scores, n_clusters, own, seed)
        place = np.argsort(order)
        self._fitted = found
        self._place = place
        self.task_names_ = scores.task_names
        self.labels_ = found.labels[place]
        self.n_clusters_ = int(found.labels.max(initial=-1)) + 1
        self.n_clusters_reason_ = found.reason
        self.confidence_ = found.confidence[place]
        self.similarity_ = reorder(found.similarity, place)
        self.embedding_ = found.points[place]
        self.certificate_ = certify(found.similarity)
        self.verdict_ = found.verdict
        self.pairs_ = reorder_pairs(found.pairs, order)
        self.tree_ = None if found.tree is None else replace(found.tree, leaf_of=found.tree.leaf_of[place])
        if not found.similarity.converged:
            warnings.warn(found.similarity.message, DoubtWarning, stacklevel=2)
        return self

    def fit_predict(self, scores: TransferScores, y: None = None) -> Labels:
        """Cluster the tasks, and return their labels; see `fit`."""
        del y
        return self.fit(scores).labels_

    def predict_transfer(
        self, sources: list[str] | None = None, targets: list[str] | None = None
    ) -> TransferPrediction:
        """Predict the scores of sources to targets, measured or not, in the unit of the scores.

        Parameters
        ----------
        sources, targets
            Names of tasks; None: all of them.

        Returns
        -------
        TransferPrediction
            Expected scores and their standard errors, NaN for a target whose scores cannot be standardised.
            The standard errors are those of held-out pairs, by how often source and target were measured.

        Raises
        ------
        UsageError
            In paper mode, which has no directions.
        UnknownTaskError
            If a name is not that of a task.
        """
        check_is_fitted(self, "labels_")
        completion = self._fitted.completion
        if completion is None:
            what = "strategy='paper' completes a symmetric 0/1 matrix and predicts no scores"
            raise UsageError(what, todo="fit with strategy='default'")
        number_of = {name: number for number, name in enumerate(self.task_names_)}
        for name in [*(sources or ()), *(targets or ())]:
            if name not in number_of:
                raise UnknownTaskError(name, self.task_names_)
        all_names = list(self.task_names_)
        sources = all_names if sources is None else list(sources)
        targets = all_names if targets is None else list(targets)
        rows = self._place[[number_of[name] for name in sources]]
        columns = self._place[[number_of[name] for name in targets]]
        factors = completion.factors
        values = factors.left[rows] @ factors.right[columns].T
        grid_columns = np.broadcast_to(columns, values.shape).ravel()
        expected = completion.data.to_scores(grid_columns, values.ravel()).reshape(values.shape)
        error = standard_errors(completion, rows, columns) * completion.data.spread[columns]
        return TransferPrediction(tuple(sources), tuple(targets), expected, error)

    def _check_parameters(self, scores: TransferScores) -> int | None:
        """Refuse what cannot be used; return the number of clusters, None for ``auto``."""
        if not isinstance(scores, TransferScores):
            raise UsageError("scores cannot be used", got=type(scores).__name__, expected="TransferScores")
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("scale", self.scale, METHODS)
        numbers = [("delta", self.delta), ("tol", self.tol)]
        if not (isinstance(self.lam, str) and self.lam == "auto"):
            numbers.append(("lam", self.lam))
        for name, number in numbers:
            is_number = isinstance(number, int | float | np.number) and not isinstance(number, bool)
            if not is_number or not 0 < number < np.inf:
                raise UsageError(f"{name} cannot be used", got=quote(number), expected="a positive number")
        if isinstance(self.n_clusters, str) and self.n_clusters == "auto":
            return None
        is_integer = isinstance(self.n_clusters, int | np.integer) and not isinstance(self.n_clusters, bool)
        if not is_integer or not 1 <= self.n_clusters <= scores.n_tasks:
            expected = f"'auto' or a whole number from 1 to {scores.n_tasks:,}, the number of tasks"
            raise UsageError("n_clusters cannot be used", got=quote(self.n_clusters), expected=expected)
        return int(self.n_clusters)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a strategy found, tasks in the order of their names."""

    labels: Labels
    confidence: Floats
    similarity: CompletionResult
    verdict: Verdict
    pairs: PairEvidence
    reason: str
    tree: Tree | None
    completion: Completion | None
    points: Floats


def check_features(features: Floats | None, n_tasks: int) -> Floats | None:
    """Refuse features that do not fit the scores."""
    if features is None:
        return None
    try:
        array = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("task_features cannot be used", got=quote(str(error)), expected="numbers") from None
    if array.ndim != 2 or len(array) != n_tasks or not np.isfinite(array).all():
        expected = f"finite numbers of shape ({n_tasks}, m): one row a task"
        raise DataError("task_features cannot be used", got=f"shape {array.shape}", expected=expected)
    return array


def fit_default(
    model: RobustTaskClustering,
    scores: TransferScores,
    n_clusters: int | None,
    features: Floats | None,
    seed: int,
) -> Fitted:
    """Complete the standardised scores, cluster X, and judge the clusters on held-out pairs."""
    n = scores.n_tasks
    completion = complete_scores(
        scores, method=model.scale, features=features, delta=model.delta, tol=model.tol, seed=seed
    )
    data, factors = completion.data, completion.factors
    left = data.values - factors.a[data.rows] - factors.b[data.columns]
    first, second, value = pair_means(data.rows, data.columns, left, n)
    active = count_partners(first, second, n) >= MIN_PAIRS
    number: NumberOfClusters | None = None
    if completion.folds:
        number = choose_n_clusters(completion.folds, n, seed)
    chosen = n_clusters or (number.chosen if number else 1)
    if n_clusters in (1, n):
        active[:] = True
    tree = build_tree(completion.directions[active], chosen, seed)
    leaf_of = np.full(n, -1, dtype=np.int64)
    leaf_of[active] = tree.leaf_of
    tree = replace(tree, leaf_of=leaf_of)
    labels = number_by_size(cut(tree, chosen))
    groups = fit_two_groups(value, (labels[first] == labels[second]) & (labels[first] >= 0))
    held = judge_parts(fit_parts(scores, completion, features, seed), labels, seed)
    share = len(first) / max(n * (n - 1) / 2, 1)
    verdict = judge_clusters(held, factors.U, labels, held_out=completion.explained, share_measured=share)
    penalty = completion.setting.penalties(completion.problem, model.delta).positive
    similarity = as_result(completion.problem, completion.solution, penalty, "huber", model.delta, model.tol)
    clipped = np.abs(completion.residuals) - model.delta
    outlier = np.where(clipped > 0, np.sign(completion.residuals) * clipped, 0.0)
    order = np.lexsort((data.columns, data.rows))
    outliers = pair_means(data.rows[order], data.columns[order], outlier, n)[2]
    pairs = PairEvidence(first, second, groups.posterior(value), outliers)
    reason = explain_number(n_clusters, chosen, labels, number)
    confidence = find_confidence(labels, first, second, value, groups)
    points = normalise(completion.directions[:, : max(chosen, MIN_DIRECTIONS)])
    return Fitted(labels, confidence, similarity, verdict, pairs, reason, tree, completion, points)


def judge_parts(parts: list[Fold], labels: Labels, seed: int) -> list[HeldOutPairs]:
    """Cluster without each part of the pairs, and pair its scores with what the others say."""
    n_clusters = int(labels.max(initial=-1)) + 1
    held = []
    for part in parts if n_clusters > 1 else []:
        if part.directions is None:
            raise AssertionError("the parts are fitted")
        own = cut(build_tree(part.directions, n_clusters, seed), n_clusters)
        rows, columns = part.held_rows, part.held_columns
        held.append(HeldOutPairs(rows, columns, part.held_values, own[rows] == own[columns]))
    return held


def explain_number(given: int | None, chosen: int, labels: Labels, number: NumberOfClusters | None) -> str:
    """Return why there are so many clusters."""
    reached = int(labels.max(initial=-1)) + 1
    if given is not None:
        if reached < given:
            n_tasks = int(np.count_nonzero(labels >= 0))
            few = f"only {n_tasks} tasks have {MIN_PAIRS} measured pairs or more"
            return f"{given} were given, but {few if n_tasks < given else 'the scores tell no more apart'}"
        if number is None or number.chosen == given:
            return "given"
        return f"given; held-out pairs speak for {number.chosen}"
    if number is None:
        return "too few pairs to compare numbers of clusters"
    if chosen == 1:
        return "no division into clusters predicts held-out pairs better"
    return "fewer clusters predict held-out pairs clearly worse, more hardly better"


def count_partners(first: Labels, second: Labels, n: int) -> Labels:
    """Return how many tasks each task was measured with."""
    return np.bincount(first, minlength=n) + np.bincount(second, minlength=n)


def find_confidence(
    labels: Labels, first: Labels, second: Labels, value: Floats, groups: TwoGroups
) -> Floats:
    """Return the posterior of each task's cluster given the values of its pairs with the others."""
    n, n_clusters = len(labels), int(labels.max(initial=-1)) + 1
    evidence = np.zeros((n, max(n_clusters, 1)))
    gain = groups.log_likelihood(value, np.ones(len(value), dtype=np.bool_))
    gain = gain - groups.log_likelihood(value, np.zeros(len(value), dtype=np.bool_))
    for own, other in ((first, second), (second, first)):
        known = labels[other] >= 0
        np.add.at(evidence, (own[known], labels[other[known]]), gain[known])
    evidence -= evidence.max(axis=1, keepdims=True)
    posterior = np.exp(evidence) / np.exp(evidence).sum(axis=1, keepdims=True)
    return np.where(labels >= 0, posterior[np.arange(n), np.maximum(labels, 0)], 0.0)


def standard_errors(completion: Completion, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
    """Return standard errors of predictions: held-out variance is c0 + c1 (1/d_row + 1/d_column)."""
    data = completion.data
    count_row = np.maximum(np.bincount(data.rows, minlength=data.n), 0.5)
    count_column = np.maximum(np.bincount(data.columns, minlength=data.n), 0.5)
    if completion.folds:
        squares = np.concatenate([fold.residuals() for fold in completion.folds]) ** 2
        scarcity = np.concatenate([scarcity_of(fold) for fold in completion.folds])
        slope = float(np.cov(squares, scarcity)[0, 1] / max(float(np.var(scarcity)), 1e-12))
        slope = min(max(slope, 0.0), 0.9 * float(squares.mean()) / float(scarcity.mean()))
        base = float(squares.mean()) - slope * float(scarcity.mean())
    else:
        base, slope = float(np.mean(completion.residuals**2)) if len(completion.residuals) else 1.0, 1.0
    return np.sqrt(base + slope * (1 / count_row[rows][:, None] + 1 / count_column[columns][None, :]))


def scarcity_of(fold: Fold) -> Floats:
    """Return 1/d_row + 1/d_column of the held-out pairs of a fold."""
    counts = [
        np.maximum(np.bincount(ends, minlength=fold.data.n), 0.5)
        for ends in (fold.data.rows, fold.data.columns)
    ]
    return np.asarray(1 / counts[0][fold.held_rows] + 1 / counts[1][fold.held_columns])


def fit_paper(
    model: RobustTaskClustering, scores: TransferScores, n_clusters: int | None, seed: int
) -> Fitted:
    """Run Algorithm 1: filter (Eq. 1), complete (Eq. 2), cluster X spectrally."""
    n = scores.n_tasks
    filtered = filter_scores(scores, p_high=model.p_high, p_low=model.p_low, rule=model.rule)
    similarity, factors, tau = complete_filtered(filtered, model, seed)
    chosen = n_clusters or eigengap(similarity.eigenvalues, n)
    labels = number_by_size(cluster_spectrally(factors.U, factors.V, chosen, seed))
    # Clusters are found without each part of the pairs in turn, and judged on it.
    data = standardise(scores, method="standard")
    low, high = np.minimum(data.rows, data.columns), np.maximum(data.rows, data.columns)
    pairs, pair = np.unique(low * n + high, return_inverse=True)
    part_of = (np.random.default_rng(seed).permutation(len(pairs)) % N_PARTS)[pair]
    held: list[HeldOutPairs] = []
    if len(pairs) >= 10 and chosen > 1:
        for number in range(N_PARTS):
            kept = data.places[part_of != number]
            columns = {name: column[np.sort(kept)] for name, column in scores.columns.items()}
            part = TransferScores(scores.task_names, **columns, kind=scores.kind)
            own = filter_scores(part, p_high=model.p_high, p_low=model.p_low, rule=model.rule)
            found = complete_filtered(own, model, seed, tau=tau * np.sqrt(1 - 1 / N_PARTS))[1]
            own_labels = cluster_spectrally(found.U, found.V, chosen, seed)
            judged = part_of == number
            rows, targets = data.rows[judged], data.columns[judged]
            held.append(
                HeldOutPairs(rows, targets, data.values[judged], own_labels[rows] == own_labels[targets])
            )
    share = len(pairs) / max(n * (n - 1) / 2, 1)
    U = similarity.eigenvectors * np.sqrt(np.maximum(similarity.eigenvalues, 0))
    verdict = judge_clusters(held, U, labels, held_out=float("nan"), share_measured=share)
    evidence = paper_pairs(filtered, similarity)
    known = ~np.isnan(evidence.same_group)
    first, second, value = evidence.first[known], evidence.second[known], evidence.same_group[known]
    groups = fit_two_groups(value, labels[first] == labels[second])
    confidence = find_confidence(labels, first, second, value, groups)
    reason = "given" if n_clusters else "the largest gap of the eigenvalues of X"
    if n_clusters and int(labels.max(initial=-1)) + 1 < n_clusters:
        reason = f"{n_clusters} were given, but X tells no more apart"
    return Fitted(
        labels, confidence, similarity, verdict, evidence, reason, None, None, normalise(find_directions(U))
    )


def complete_filtered(
    filtered: FilteredScores, model: RobustTaskClustering, seed: int, *, tau: float | None = None
) -> tuple[CompletionResult, Factors, float]:
    """Solve Eq. 2 on the entries that Eq. 1 leaves, the diagonal Y_ii = 1 among them."""
    entries = filtered.Y.tocoo()
    rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
    problem = make_problem(filtered.Y.shape[0], rows, columns, entries.data.astype(np.float64))
    if tau is None:
        given = model.lam
        tau = (
            cross_validate_tau(problem, "absolute", 1.0, seed)
            if isinstance(given, str)
            else 1.0 / float(given)
        )
    solution = solve_absolute(problem, tau, tol=model.tol, seed=seed)
    return as_result(problem, solution, tau, "absolute", 1.0, model.tol), solution.factors, tau


def eigengap(eigenvalues: Floats, n: int) -> int:
    """Return the number of eigenvalues before the largest relative gap; 1 if X is zero."""
    values = eigenvalues[eigenvalues > 1e-6 * max(float(eigenvalues.max(initial=0.0)), 1e-12)]
    if len(values) < 2:
        return 1
    values = np.append(values[: max(int(np.sqrt(n)) * 3, 2)], 1e-3 * values[0])
    return int(np.argmax(values[:-1] / values[1:])) + 1


def paper_pairs(filtered: FilteredScores, similarity: CompletionResult) -> PairEvidence:
    """Return Y and E of the measured pairs."""
    same = np.where(filtered.verdict < 2, filtered.verdict.astype(np.float64), np.nan)
    errors = np.asarray(similarity.outliers[filtered.first, filtered.second]).ravel()
    return PairEvidence(filtered.first, filtered.second, same, errors)


def certify(similarity: CompletionResult) -> Certificate:
    """Say what is proven of a similarity."""
    if similarity.converged:
        sentence = (
            f"The completion of the scores is optimal within {similarity.gap:.0e} of its value (certified)."
        )
    else:
        sentence = f"The completion is not proven optimal: {similarity.message}."
    return Certificate(
        similarity.gap,
        similarity.converged,
        similarity.regularisation,
        similarity.objective,
        similarity.rank,
        sentence,
    )


def reorder(result: CompletionResult, place: NDArray[np.intp]) -> CompletionResult:
    """Return a result with the tasks in another order."""
    return replace(
        result,
        eigenvectors=result.eigenvectors[place],
        dual=result.dual[place][:, place],
        outliers=result.outliers[place][:, place],
    )


def reorder_pairs(pairs: PairEvidence, order: NDArray[np.intp]) -> PairEvidence:
    """Return pairs by the numbers that the caller gave the tasks."""
    one, other = order[pairs.first], order[pairs.second]
    first, second = np.minimum(one, other), np.maximum(one, other)
    sorting = np.lexsort((second, first))
    return PairEvidence(first[sorting], second[sorting], pairs.same_group[sorting], pairs.outlier[sorting])
