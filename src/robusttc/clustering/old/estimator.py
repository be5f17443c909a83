"""Robust task clustering (Algorithm 1 of the paper): from transfer scores to clusters of tasks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from threadpoolctl import threadpool_limits

from robusttc.clustering.filtering import FilteredScores, filter_scores
from robusttc.clustering.old.assignment import (
    MIN_OBSERVED,
    count_observed,
    find_confidence,
    place_tasks,
)
from robusttc.clustering.old.completion.complete import Method, check_options
from robusttc.clustering.old.completion.problem import Floats, Problem, make_problem
from robusttc.clustering.old.completion.result import CompletionResult, LambdaWindow
from robusttc.clustering.old.components import (
    CompletedComponent,
    complete_component,
    find_components,
    join_completions,
    join_starts,
)
from robusttc.clustering.old.diagnosis import Diagnosis, diagnose
from robusttc.clustering.old.grouping import cluster_tasks, number_clusters, refine_parts, renumber
from robusttc.clustering.old.number import PairValues, measure_pairs
from robusttc.clustering.old.start import Labels
from robusttc.errors import DoubtWarning, UsageError, quote
from robusttc.scores import TransferScores
from robusttc.seeds import RandomState, run_seed

__all__ = ["Certificate", "RobustTaskClustering", "TriedNumber", "check_n_clusters", "check_scores"]


@dataclass(frozen=True)
class Certificate:
    """What is proven of the completed similarity.

    Attributes
    ----------
    gap
        The objective of Eq. 2 is at most this share above the optimum; 1 where nothing is proven.
    converged
        Whether the gap reached the tolerance in every component.
    lam, window
        The weight of errors, and the window it was chosen from, of the largest component; each component has
        its own.
    dual_norm
        The bound on the dual's spectral norm before it was scaled.
    objective
        The objective of Eq. 2, summed over components.
    method
        ``dense``, ``factored``, ``spectral`` (no lambda would do), several joined by ``+``, or ``none``.
    n_components
        The number of connected components of the observation graph, isolated tasks left out.
    message
        What is doubtful about the clustering; empty if nothing is.
    """

    gap: float
    converged: bool
    lam: float
    window: LambdaWindow | None
    dual_norm: float
    objective: float
    method: str
    n_components: int
    message: str


@dataclass(frozen=True)
class TriedNumber:
    """A number of clusters that was tried in a component.

    Attributes
    ----------
    component
        The number of the component, 0 the largest.
    n_clusters
        The number of clusters.
    description_length
        The nats needed to write down the clusters and then the filtered pairs.
    score_length
        The nats needed to write down the clusters and then all measured pairs, up to a constant; infinite if
        pairs within clusters are not the higher ones. This decides.
    chosen
        Whether it was taken.
    """

    component: int
    n_clusters: int
    description_length: float
    score_length: float
    chosen: bool


class RobustTaskClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster tasks by how well they serve each other (Algorithm 1 of the paper).

    The scores are filtered to reliable pairs (Eq. 1), completed by robust low-rank completion with a
    certified gap (Eq. 2), in each connected component of the observed pairs on its own, and clustered
    spectrally. Then every task moves to the cluster for which its own observed entries speak most.
    Deviation: the paper has no such last step; it repairs almost everything that spectral clustering gets
    wrong.

    A task with fewer than 2 observed pairs is not clustered with the others, but placed afterwards where
    its entries or its scores speak clearly for one cluster; see
    `robusttc.clustering.old.assignment.place_tasks`. Else its label is -1.

    The result depends on the scores, the parameters and the names of the tasks, not on the order of the
    tasks.

    Parameters
    ----------
    n_clusters
        The number of clusters, 1 to the number of tasks, or ``auto``: in each component the number with
        which all measured pairs are told in the fewest nats (`robusttc.clustering.old.number`). A given
        number is kept, also over several components; only where fewer tasks have observed pairs there are
        fewer clusters, with a warning. With 1, and with as many as there are tasks, no task is left without a
        cluster.
    rule, p_high, p_low, remove_donor_effect
        The filter: see `robusttc.clustering.filtering.filter_scores`.
    lam, weights, tol, method, n_threads
        The completion: see `robusttc.complete_similarity`.
    refine
        Whether to take the last step.
    random_state
        The seed: an integer, or a NumPy generator, of which every fit takes one draw.

    Attributes
    ----------
    labels_
        The cluster of each task, in the order of `task_names_`; -1 for none. Clusters are numbered by
        decreasing size, equal ones by the name of their first task in alphabetical order.
    labels_spectral_
        The same before the last step and the placement, with the same numbers.
    n_clusters_
        The number of clusters; 0 if no task has one.
    n_clusters_reason_
        Why it is this number.
    candidates_
        The numbers of clusters that were tried: a tuple of `TriedNumber`.
    clusters_
        The names of the tasks of each cluster, by its number.
    confidence_
        The posterior probability of each task's cluster given its observed entries, in (0, 1]; 0 for no
        cluster.
    similarity_
        The completed similarity X, as factors, with its proof; `similarity_.dense()` multiplies it out.
        Zero between components.
    errors_
        The errors E, sparse.
    certificate_
        What is proven: a `Certificate`.
    diagnosis_
        How far the clusters can be trusted, in words.
    components_
        The components, the largest first, each with its own problem, lambda and proof.
    filtered_
        What was left of the scores behind the filter.
    task_names_
        The names of the tasks.

    Examples
    --------
    >>> S = np.kron(np.eye(2), np.full((4, 4), 0.3)) + np.linspace(0.4, 0.6, 8)
    >>> names = ["mail", "chat", "call", "fax", "red", "blue", "green", "grey"]
    >>> groups = RobustTaskClustering().fit(TransferScores.from_matrix(S, names))
    >>> groups.n_clusters_, groups.clusters_[0]
    (2, ('red', 'blue', 'green', 'grey'))
    """

    labels_: Labels
    labels_spectral_: Labels
    n_clusters_: int
    n_clusters_reason_: str
    candidates_: tuple[TriedNumber, ...]
    confidence_: Floats
    similarity_: CompletionResult
    errors_: sparse.csr_array
    certificate_: Certificate
    diagnosis_: Diagnosis
    components_: tuple[CompletedComponent, ...]
    filtered_: FilteredScores
    task_names_: tuple[str, ...]

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        rule: str = "both",
        p_high: float = 0.5,
        p_low: float = 0.5,
        remove_donor_effect: bool = False,
        lam: float | Literal["auto"] = "auto",
        weights: tuple[float, float] = (1.0, 1.0),
        tol: float = 1e-5,
        method: Method = "auto",
        refine: bool = True,
        n_threads: int = 1,
        random_state: RandomState = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.rule = rule
        self.p_high = p_high
        self.p_low = p_low
        self.remove_donor_effect = remove_donor_effect
        self.lam = lam
        self.weights = weights
        self.tol = tol
        self.method = method
        self.refine = refine
        self.n_threads = n_threads
        self.random_state = random_state

    @property
    def clusters_(self) -> dict[int, tuple[str, ...]]:
        """The names of the tasks of each cluster, by its number."""
        names = self.task_names_
        return {
            cluster: tuple(names[task] for task in np.flatnonzero(self.labels_ == cluster))
            for cluster in range(self.n_clusters_)
        }

    def fit_predict(self, scores: TransferScores, y: None = None) -> Labels:
        """Cluster the tasks, and give their labels; see `fit`."""
        del y
        return self.fit(scores).labels_

    def fit(self, scores: TransferScores, y: None = None) -> RobustTaskClustering:
        """Cluster the tasks of these scores.

        Parameters
        ----------
        scores
            The transfer scores of the measured pairs.
        y
            Not used; there for scikit-learn.

        Warns
        -----
        DoubtWarning
            If the gap was not reached, no lambda would do, X is zero, nothing is observed, no task has a
            cluster, or too few tasks have observed pairs for the given number of clusters.

        Raises
        ------
        UsageError
            If a parameter cannot be used.
        """
        del y
        check_scores(scores)
        n_clusters = self._check_parameters(scores)
        seed = run_seed(self.random_state)
        filtered = filter_scores(
            scores,
            p_high=self.p_high,
            p_low=self.p_low,
            rule=self.rule,
            remove_donor_effect=self.remove_donor_effect,
        )
        weights = (float(self.weights[0]), float(self.weights[1]))
        problem = make_problem(filtered.Y, filtered.observed, weights)
        # By name, so that the order in which tasks come changes nothing.
        order = np.array(sorted(range(problem.n), key=scores.task_names.__getitem__), dtype=np.intp)
        # Small matrices and few points: a second thread of BLAS or k-means makes them ten times slower on
        # a busy machine. The threads of completion are counted apart.
        with threadpool_limits(limits=1):
            parts = self._complete(problem, order, measure_pairs(scores), n_clusters, seed)
            similarity = join_completions(problem, parts, weights, scores.task_names)
            active = count_observed(problem) >= MIN_OBSERVED
            spectral = cluster_tasks(parts, order, active, n_clusters, seed)
            labels = refine_parts(parts, spectral) if self.refine else spectral
            labels = place_tasks(scores, problem, labels)
            numbers = number_clusters(labels, order)
            self.labels_ = renumber(labels, numbers)
            self.labels_spectral_ = renumber(spectral, numbers)
            self.confidence_ = find_confidence(problem, self.labels_)
            start = join_starts(problem, parts)
            self.diagnosis_ = diagnose(scores, filtered, problem, start, similarity, self.labels_)

        self.n_clusters_ = len(numbers)
        self.n_clusters_reason_ = give_reason(n_clusters, self.n_clusters_, parts)
        self.candidates_ = tuple(
            TriedNumber(
                number,
                one.n_clusters,
                one.description_length,
                one.score_length,
                chosen=one.n_clusters == part.wanted.n_clusters,
            )
            for number, part in enumerate(parts)
            for one in part.options
        )
        self.similarity_ = similarity
        self.errors_ = similarity.E
        self.components_ = tuple(parts)
        self.filtered_ = filtered
        self.task_names_ = scores.task_names
        message = similarity.message
        if parts and self.n_clusters_ < (n_clusters or 1):
            message = "; ".join(filter(None, [message, self.n_clusters_reason_]))
        self.certificate_ = certify(similarity, len(parts), message)
        if message:
            warnings.warn(message, DoubtWarning, stacklevel=2)
        return self

    def _check_parameters(self, scores: TransferScores) -> int | None:
        """Refuse what cannot be used; give the number of clusters, None for ``auto``."""
        n_clusters = None
        if not (isinstance(self.n_clusters, str) and self.n_clusters == "auto"):
            n_clusters = check_n_clusters(self.n_clusters, scores.n_tasks, or_else="'auto' or ")
        check_number("tol", self.tol)
        check_options(self.lam, self.tol, self.method, n_clusters, None, self.n_threads)
        if not isinstance(self.weights, tuple | list) or len(self.weights) != 2:
            raise UsageError(
                "weights cannot be used", got=quote(self.weights), expected="two positive numbers"
            )
        for weight in self.weights:
            check_number("weights", weight)
        for name in ("refine", "remove_donor_effect"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise UsageError(
                    f"{name} cannot be used", got=quote(getattr(self, name)), expected="True or False"
                )
        return n_clusters

    def _complete(
        self,
        problem: Problem,
        order: NDArray[np.intp],
        pairs: PairValues,
        n_clusters: int | None,
        seed: int,
    ) -> list[CompletedComponent]:
        """Complete each component."""
        components = find_components(problem, order)
        # Over several components a number of clusters says nothing about one of them.
        wanted = n_clusters if len(components) == 1 else None
        return [
            complete_component(
                problem,
                members,
                pairs,
                self.lam,
                n_clusters=None if wanted is None else min(wanted, len(members)),
                tol=self.tol,
                method=self.method,
                weights=(float(self.weights[0]), float(self.weights[1])),
                n_threads=self.n_threads,
                seed=seed,
            )
            for members in components
        ]


def certify(similarity: CompletionResult, n_components: int, message: str) -> Certificate:
    """Put together what is proven of a similarity."""
    return Certificate(
        gap=similarity.gap,
        converged=similarity.converged,
        lam=similarity.lam,
        window=similarity.window,
        dual_norm=similarity.dual_norm,
        objective=similarity.objective,
        method=similarity.method,
        n_components=n_components,
        message=message,
    )


def give_reason(n_clusters: int | None, reached: int, parts: list[CompletedComponent]) -> str:
    """Say why there are so many clusters."""
    found = sum(min(part.options, key=lambda one: one.score_length).n_clusters for part in parts)
    if n_clusters is not None:
        if reached < n_clusters:
            few = f"only {reached} tasks have {MIN_OBSERVED} observed pairs or more"
            return f"{n_clusters} were given, but {few}"
        return "given" if found == reached or not parts else f"given; the measured pairs speak for {found}"
    if not parts:
        return "no pair of tasks is observed"
    if reached == 0:
        return f"no two tasks with {MIN_OBSERVED} observed pairs or more were found similar"
    if len(parts) == 1:
        return parts[0].wanted.reason
    return f"the sum over {len(parts):,} components with no observed pair between them"


def check_scores(scores: object) -> None:
    """Refuse what is not scores."""
    if not isinstance(scores, TransferScores):
        raise UsageError(
            "the scores cannot be used",
            got=quote(type(scores).__name__),
            expected="TransferScores",
            todo="make them of a matrix with TransferScores.from_matrix(matrix, task_names)",
        )


def check_n_clusters(n_clusters: object, n_tasks: int, *, or_else: str = "") -> int:
    """Refuse a number of clusters that these tasks cannot have."""
    is_integer = isinstance(n_clusters, int | np.integer) and not isinstance(n_clusters, bool)
    if not is_integer or not 1 <= n_clusters <= n_tasks:  # type: ignore[operator]
        raise UsageError(
            "n_clusters cannot be used",
            got=quote(n_clusters),
            expected=f"{or_else}a whole number from 1 to {n_tasks:,}, the number of tasks",
        )
    return int(n_clusters)  # type: ignore[call-overload,no-any-return]


def check_number(name: str, value: object) -> None:
    """Refuse what is not a number."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise UsageError(f"{name} cannot be used", got=quote(value), expected="a number")
