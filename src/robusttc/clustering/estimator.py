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

from robusttc.clustering.completion import Completion, Fold, complete_scores, fit_parts
from robusttc.clustering.n_clusters import (
    PairEvidence,
    choose_n_clusters,
    find_confidence,
    maximise_likelihood,
    pair_means,
)
from robusttc.clustering.paper import run_algorithm_1
from robusttc.clustering.problem import Floats, Labels, Numbers
from robusttc.clustering.similarity import CompletionResult, as_result
from robusttc.clustering.spectral import Tree, build_tree, cut, find_directions, normalise, number_by_size
from robusttc.clustering.standardise import METHODS, Standardised
from robusttc.clustering.verdict import HeldOutPairs, Verdict, judge_clusters
from robusttc.errors import DataError, DoubtWarning, UnknownTaskError, UsageError, quote
from robusttc.params import Choice, Constraint, Integer, Number, check_param, check_params
from robusttc.random import RandomState, run_seed
from robusttc.transfer import TransferScores

__all__ = ["MIN_PAIRS", "Certificate", "RobustTaskClustering", "TransferPrediction"]

MIN_PAIRS = 2  # a task with fewer measured pairs has no cluster
MIN_DIRECTIONS = 8  # of the points that say how near tasks are to each other

POSITIVE = Number(0, excludes=("low",))
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "strategy": (Choice("default", "paper"),),
    "scale": (Choice(*METHODS),),
    "delta": (POSITIVE,),
    "lam": (Choice("auto"), POSITIVE),
    "tol": (POSITIVE,),
}


@dataclass(frozen=True)
class Certificate:
    """What is proven of the completed similarity: it says nothing about whether the clusters are real.

    The objective is at most a share `gap` above the optimum, and `converged` says whether that reaches the
    tolerance. `regularisation` is the penalty of the nuclear norm, tau (lambda of Eq. 2 is 1 / tau), `rank`
    the rank of X, `sentence` the whole in words.
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
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in asdict(self).items()
        }


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
        Eq. 1, in paper mode: see `robusttc.clustering.filter_scores`.
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
    >>> from robusttc.clustering import make_planted_scores
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
            such as the mean vectors of the tasks' texts. How much it counts is cross-validated; where all
            pairs are measured there is nothing to infer from it, and it is not used.

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
        if len(scores) == scores.n_tasks * (scores.n_tasks - 1):
            features = None
        # By name, so that the order in which tasks come changes nothing.
        order = np.array(sorted(range(scores.n_tasks), key=scores.task_names.__getitem__), dtype=np.intp)
        is_sorted = bool(np.all(np.diff(order) > 0))
        sorted_scores = scores if is_sorted else scores.subset([scores.task_names[task] for task in order])
        seed = run_seed(self.random_state)
        with threadpool_limits(limits=1):  # small matrices: a second thread makes them slower
            if self.strategy == "paper":
                self._fit_paper(sorted_scores, n_clusters, seed)
            else:
                self._fit_default(
                    sorted_scores, n_clusters, None if features is None else features[order], seed
                )
        self.n_clusters_ = count_clusters(self.labels_)
        self.certificate_ = certify(self.similarity_)
        self.task_names_ = scores.task_names
        self._place = np.argsort(order)
        if not is_sorted:
            self._restore(order, self._place)
        if not self.similarity_.converged:
            warnings.warn(self.similarity_.message, DoubtWarning, stacklevel=2)
        return self

    def _fit_default(
        self, scores: TransferScores, n_clusters: int | None, features: Floats | None, seed: int
    ) -> None:
        """Complete the standardised scores, cluster X, and judge the clusters on held-out pairs."""
        n, delta, tol = scores.n_tasks, self.delta, self.tol
        completion = complete_scores(
            scores, method=self.scale, features=features, delta=delta, tol=tol, seed=seed
        )
        data, problem, factors = completion.data, completion.problem, completion.factors
        left = data.values - factors.a[data.rows] - factors.b[data.columns]
        first, second, value = pair_means(data.rows, data.columns, left, n)
        del left  # as large as the scores
        active = np.bincount(first, minlength=n) + np.bincount(second, minlength=n) >= MIN_PAIRS
        best = choose_n_clusters(completion.folds, n, seed)[0] if completion.folds else None
        chosen = n_clusters or best or 1
        if n_clusters in (1, n):
            active[:] = True
        tree = build_tree(completion.directions[active], chosen, seed)
        leaf_of = np.full(n, -1, dtype=np.int64)
        leaf_of[active] = tree.leaf_of
        self.tree_ = replace(tree, leaf_of=leaf_of)
        labels, groups = maximise_likelihood(cut(self.tree_, chosen), first, second, value, seed)
        self.labels_ = number_by_size(labels)
        self.n_clusters_reason_ = explain_number(n_clusters, best, self.labels_)
        self.confidence_ = find_confidence(self.labels_, first, second, value, groups)
        self.embedding_ = normalise(completion.directions[:, : max(chosen, MIN_DIRECTIONS)])
        n_found = count_clusters(self.labels_)
        parts = fit_parts(scores, completion, seed) if n_found > 1 else []
        held = [separate(part, n_found, seed) for part in parts]
        del parts  # as large as the scores
        self.verdict_ = judge_clusters(
            held, factors.U, self.labels_, held_out=completion.explained, n_measured=len(first)
        )
        penalty = completion.setting.penalties(problem, delta).positive
        self.similarity_ = as_result(problem, completion.solution, penalty, "huber", delta, tol)
        left = completion.residuals
        outliers = pair_means(problem.rows, problem.indices, left - np.clip(left, -delta, delta), n)[2]
        self.pairs_ = PairEvidence(first, second, groups.posterior(value), outliers)
        self._completion: Completion | None = completion

    def _fit_paper(self, scores: TransferScores, n_clusters: int | None, seed: int) -> None:
        """Run Algorithm 1, and judge its clusters."""
        found = run_algorithm_1(
            scores,
            n_clusters,
            rule=self.rule,
            p_high=self.p_high,
            p_low=self.p_low,
            lam=None if isinstance(self.lam, str) else float(self.lam),
            tol=self.tol,
            seed=seed,
        )
        U = found.similarity.eigenvectors * np.sqrt(np.maximum(found.similarity.eigenvalues, 0))
        self.labels_, self.similarity_, self.pairs_ = found.labels, found.similarity, found.pairs
        self.confidence_, self.n_clusters_reason_ = found.confidence, found.reason
        self.embedding_ = normalise(find_directions(U))
        self.verdict_ = judge_clusters(
            found.held, U, found.labels, held_out=float("nan"), n_measured=found.n_measured
        )
        self.tree_, self._completion = None, None

    def _restore(self, order: NDArray[np.intp], place: NDArray[np.intp]) -> None:
        """Bring what was fitted with the tasks sorted by name into the order of the caller."""
        self.labels_, self.confidence_ = self.labels_[place], self.confidence_[place]
        self.embedding_ = self.embedding_[place]
        if self.tree_ is not None:
            self.tree_ = replace(self.tree_, leaf_of=self.tree_.leaf_of[place])
        found, pairs = self.similarity_, self.pairs_
        self.similarity_ = replace(
            found,
            eigenvectors=found.eigenvectors[place],
            dual=found.dual[place][:, place],
            outliers=found.outliers[place][:, place],
        )
        one, other = order[pairs.first], order[pairs.second]
        first, second = np.minimum(one, other), np.maximum(one, other)
        sorting = np.lexsort((second, first))
        self.pairs_ = PairEvidence(
            first[sorting], second[sorting], pairs.same_group[sorting], pairs.outlier[sorting]
        )

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
        completion = self._completion
        if completion is None:
            what = "strategy='paper' completes a symmetric 0/1 matrix and predicts no scores"
            raise UsageError(what, todo="fit with strategy='default'")
        names = [list(self.task_names_ if given is None else given) for given in (sources, targets)]
        place_of = dict(zip(self.task_names_, self._place.tolist(), strict=True))
        for name in [*names[0], *names[1]]:
            if name not in place_of:
                raise UnknownTaskError(name, self.task_names_)
        rows, columns = (np.array([place_of[name] for name in own], dtype=np.intp) for own in names)
        factors = completion.factors
        values = factors.left[rows] @ factors.right[columns].T
        grid_columns = np.broadcast_to(columns, values.shape).ravel()
        expected = completion.data.to_scores(grid_columns, values.ravel()).reshape(values.shape)
        error = standard_errors(completion, rows, columns) * completion.data.spread[columns]
        return TransferPrediction(tuple(names[0]), tuple(names[1]), expected, error)

    def _check_parameters(self, scores: TransferScores) -> int | None:
        """Refuse what cannot be used; return the number of clusters, None for ``auto``."""
        if not isinstance(scores, TransferScores):
            raise UsageError("scores cannot be used", got=type(scores).__name__, expected="TransferScores")
        check_params(self.get_params(), CONSTRAINTS)
        check_param("n_clusters", self.n_clusters, Choice("auto"), Integer(1, scores.n_tasks))
        return None if isinstance(self.n_clusters, str) else int(self.n_clusters)


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


def standard_errors(completion: Completion, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
    """Return standard errors of predictions: held-out variance is c0 + c1 (1/d_row + 1/d_column)."""
    if completion.folds:
        squares = np.concatenate([fold.residuals() for fold in completion.folds]) ** 2
        parts = [scarcity(fold.data, fold.held_rows, fold.held_columns) for fold in completion.folds]
        scarce = np.concatenate(parts)
        slope = float(np.cov(squares, scarce)[0, 1] / max(float(np.var(scarce)), 1e-12))
        slope = min(max(slope, 0.0), 0.9 * float(squares.mean()) / float(scarce.mean()))
        base = float(squares.mean()) - slope * float(scarce.mean())
    else:
        base, slope = float(np.mean(completion.residuals**2)) if len(completion.residuals) else 1.0, 1.0
    return np.sqrt(base + slope * scarcity(completion.data, rows[:, None], columns))


def scarcity(data: Standardised, rows: Numbers, columns: Numbers) -> Floats:
    """Return 1/d_row + 1/d_column of some pairs, where d is how many scores a source or a target has."""
    row_counts = np.maximum(np.bincount(data.rows, minlength=data.n), 0.5)
    column_counts = np.maximum(np.bincount(data.columns, minlength=data.n), 0.5)
    return np.asarray(1 / row_counts[rows] + 1 / column_counts[columns])


def separate(part: Fold, n_clusters: int, seed: int) -> HeldOutPairs:
    """Return the held-out pairs of a part, and which of them its own clusters put together."""
    own = cut(build_tree(part.directions, n_clusters, seed), n_clusters)
    rows, columns = part.held_rows, part.held_columns
    return HeldOutPairs(rows, columns, part.held_values, own[rows] == own[columns])


def certify(similarity: CompletionResult) -> Certificate:
    """Say what is proven of a similarity."""
    sentence = f"The completion is not proven optimal: {similarity.message}."
    if similarity.converged:
        within = f"{similarity.gap:.0e} of its value"
        sentence = f"The completion of the scores is optimal within {within} (certified)."
    proven = similarity.gap, similarity.converged, similarity.regularisation
    return Certificate(*proven, similarity.objective, similarity.rank, sentence)


def count_clusters(labels: Labels) -> int:
    """Return the number of clusters, which are numbered from 0."""
    return int(labels.max(initial=-1)) + 1


def explain_number(given: int | None, best: int | None, labels: Labels) -> str:
    """Return why there are so many clusters."""
    if given is not None and count_clusters(labels) < given:
        n_tasks = int(np.count_nonzero(labels >= 0))
        few = f"only {n_tasks} tasks have {MIN_PAIRS} measured pairs or more"
        return f"{given} were given, but {few if n_tasks < given else 'the scores distinguish no more'}"
    if given is not None:
        return "given" if best in (None, given) else f"given; held-out pairs support {best}"
    if best is None:
        return "too few pairs to compare numbers of clusters"
    if best == 1:
        return "no division into clusters predicts held-out pairs better"
    return "fewer clusters predict held-out pairs clearly worse, more hardly any better"
