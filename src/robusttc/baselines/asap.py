r"""ASAP-MT-LR: convex multi-task logistic regression that clusters the tasks while it learns them.

The tasks t = 1 … T have the same L labels; task t has a linear softmax classifier :math:`w_t` (d x L numbers,
and a bias :math:`b_t` that is not penalised). W has a row :math:`w_t` a task, :math:`\bar w` is the mean of
the rows, :math:`\Pi = I - 11^T/T` takes it away. Solved is

.. math::
    \min_{W, b, M}\ \sum_t \ell_t(w_t, b_t) + \frac{\lambda}{2} \Big(
    \mathrm{tr}\big[(\Pi W)^T (\eta I + M)^{-1} \Pi W\big] + \mu\, T\, \|\bar w\|^2 \Big)

    \text{over}\ \ 0 \preceq M \preceq I,\quad M 1 = 0,\quad \mathrm{tr}\, M \le K - 1,

where :math:`\ell_t` is the mean cross-entropy of the rows of task t. If tasks were cut into K clusters, the
projection on the cluster means, without the overall mean, would be such an M with every eigenvalue 0 or 1:
then a deviation between cluster means costs :math:`1 / (1 + \eta)` and one within a cluster
:math:`1 / \eta`. The set above is the convex hull of these projections' spectra, and the program is jointly
convex in (W, b, M), because :math:`\mathrm{tr}(V^T A^{-1} V)` is in (V, A).

For a given W the best M has a closed form, on the eigenvectors of :math:`\Pi W W^T \Pi` (`water_filling`).
Put in its place, it leaves a smooth convex function of W and b alone, whose gradient is that for the M held
fixed (Danskin); L-BFGS minimises it. Minimising over W and M in turn ends at the same point, after many more
passes over the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits

from robusttc.baselines.base import (
    AUTO,
    POSITIVE,
    TaskBaseline,
    TaskModel,
    codes_of,
    linear_predictor,
    prepare_tasks,
    vectors_of,
)
from robusttc.clustering import cluster_points
from robusttc.data import Task, TaskSet
from robusttc.encoders import DEFAULT_ENCODER, Encoder, PreparedTasks
from robusttc.errors import DataError, UsageError, quote
from robusttc.params import Choice, Constraint, Integer, check_params
from robusttc.progress import Progress, report
from robusttc.random import child_seed, run_seed

Floats = NDArray[np.float64]
# The features (rows, d) and the label of every row of a task.
Rows = tuple[Floats, NDArray[np.int64]]

# Candidates of lambda; the first is the default where there are no validation rows.
GRID = (0.003, 0.1, 0.03, 0.01, 0.001, 0.0003, 0.0001)
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "n_clusters": (Integer(1),),
    "penalty": (Choice(AUTO), POSITIVE),
    "within": (POSITIVE,),
    "mean_penalty": (POSITIVE,),
}
# A singular value below this share of the largest is rounding.
ROUNDING = 1e-12


@dataclass(repr=False, eq=False)
class AsapBaseline(TaskBaseline):
    """Linear classifiers of all tasks, learned together in one convex program that clusters them.

    Barzilai and Crammer (2015) learn linear models of tasks with the same labels together with an assignment
    of tasks to a few clusters, relaxed to a convex problem; the paper compares with it where label sets are
    identical. No code was published. Here the convex relaxation of clustered multi-task learning (Jacob, Bach
    and Vert 2008) is solved with the logistic loss; the program is in the module's docstring. The paper's
    ASAP-Clus-MTL and ASAP-Clus-FSL are `robusttc.ClusterMultiTask` and `robusttc.ClusterFewShot` fitted with
    the clusters `labels_`.

    Deviation: the relaxation is that of a projection on cluster means with a spectral penalty, not theirs of
    an assignment to shared models; tasks keep models of their own; clusters are read off the relation matrix
    M afterwards, by k-means on the rows of its leading eigenvectors, each times its eigenvalue. Their
    features are bags of words, ours are sentence vectors.

    Parameters
    ----------
    n_clusters
        The number of clusters, K in the program. The paper's best was 5.
    encoder
        ``sentence``, or an encoder of one vector a row.
    penalty
        Lambda, or ``auto``: chosen by `fit` by the mean over tasks of the accuracy on validation rows.
    within, mean_penalty
        Eta and mu; the smaller eta, the more alike the tasks of a cluster must be.
    vectors, model, device, random_state
        See `robusttc.baselines.base.Baseline`; the seed is that of k-means.

    Attributes
    ----------
    labels_
        The cluster of every task, in their order; a task that may not be shared is alone in its own.
    relation_
        M, in the order of `task_names_` without tasks that may not be shared.
    value_, tuning_
        The penalty, and the mean accuracy on validation rows of every candidate.
    converged_
        Whether the program was solved.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(f"t{i}", ["a", "b"], ["no", "yes"][:: 1 - 2 * (i % 2)]) for i in range(4))
    >>> rows = np.array([[-1.0], [1.0]])
    >>> encoder = FeatureEncoder(dict.fromkeys(tasks.names, rows))
    >>> asap = AsapBaseline(2, encoder=encoder).fit(tasks)
    >>> asap.predict("t0", rows).tolist(), asap.predict("t1", rows).tolist(), asap.labels_.tolist()
    (['no', 'yes'], ['yes', 'no'], [0, 1, 0, 1])
    """

    n_clusters: int = 5
    _: KW_ONLY
    encoder: str | Encoder = DEFAULT_ENCODER
    penalty: float | str = AUTO
    within: float = 0.1
    mean_penalty: float = 0.1
    labels_: NDArray[np.int64] = field(init=False)
    relation_: Floats = field(init=False)
    value_: float = field(init=False)
    tuning_: dict[float, float] = field(init=False)
    converged_: bool = field(init=False)

    def fit(self, tasks: TaskSet, *, progress: Progress | None = None) -> Self:
        """Learn all tasks, and cluster them; those that may be shared must have the same labels."""
        check_params(self.get_params(deep=False), CONSTRAINTS)
        seed = run_seed(self.random_state)
        # By name, so that the order of the tasks changes nothing.
        shared = tasks.shareable().subset(sorted(tasks.shareable().names))
        check_tasks(shared, tasks)
        encoder = self._load_encoder()
        prepared = prepare_tasks(encoder, shared, progress=progress)
        reader = encoder.for_new_texts(prepared)
        solution = self._solve_best(shared, prepared, progress)
        self.converged_ = solution.converged
        models: dict[str, TaskModel] = {}
        for number, task in enumerate(shared):
            models[task.name] = TaskModel(
                task.label_names, reader, linear_predictor(solution.weight[number], solution.bias[number])
            )
        clusters = cut_relation(solution.relation, self.n_clusters, child_seed(seed, "asap clusters"))
        cluster_of = dict(zip(shared.names, clusters.tolist(), strict=True))
        for task in tasks:
            if not task.may_share:
                models[task.name] = self._fit_alone(task, encoder)
                cluster_of[task.name] = max(cluster_of.values()) + 1
        places = [shared.names.index(name) for name in tasks.names if name in shared]
        self.relation_ = solution.relation[np.ix_(places, places)]
        self.labels_ = number_by_appearance([cluster_of[name] for name in tasks.names])
        self.models_ = {name: models[name] for name in tasks.names}
        return self

    def _solve_best(self, tasks: TaskSet, prepared: PreparedTasks, progress: Progress | None) -> AsapSolution:
        """Solve the program for every lambda, and set `value_` to the best on validation rows."""
        train = [rows_of(task, "train", prepared) for task in tasks]
        valid = [rows_of(task, "valid", prepared) for task in tasks]
        candidates = GRID if self.penalty == AUTO else (float(self.penalty),)
        if not any(len(codes) for _, codes in valid):
            candidates = candidates[:1]
        self.tuning_ = {}
        solutions: dict[float, AsapSolution] = {}
        for number, value in enumerate(candidates, start=1):
            solutions[value] = self._solve(train, len(tasks[tasks.names[0]].label_names), value)
            if len(candidates) > 1:
                self.tuning_[value] = mean_accuracy(solutions[value], valid)
            report(progress, "programs", number, len(candidates), "penalties")
        self.value_ = max(candidates, key=lambda value: self.tuning_.get(value, 0.0))
        return solutions[self.value_]

    def _solve(self, train: Sequence[Rows], n_labels: int, penalty: float) -> AsapSolution:
        return solve_asap(
            train,
            n_labels,
            n_clusters=self.n_clusters,
            penalty=penalty,
            within=self.within,
            mean_penalty=self.mean_penalty,
        )

    def _fit_alone(self, task: Task, encoder: Encoder) -> TaskModel:
        """Solve the program for one task: then it is plain logistic regression."""
        prepared = prepare_tasks(encoder, TaskSet([task]))
        rows, n_labels = rows_of(task, "train", prepared), len(task.label_names)
        solution = self._solve([rows], n_labels, self.value_)
        classify = linear_predictor(solution.weight[0], solution.bias[0])
        return TaskModel(task.label_names, encoder.for_new_texts(prepared), classify)


@dataclass(frozen=True, slots=True, eq=False)
class AsapSolution:
    """The minimum: W (tasks, d, labels), b (tasks, labels), M (tasks, tasks), and the value there."""

    weight: Floats
    bias: Floats
    relation: Floats
    objective: float
    converged: bool


def solve_asap(
    tasks: Sequence[Rows],
    n_labels: int,
    *,
    n_clusters: int,
    penalty: float,
    within: float = 0.1,
    mean_penalty: float = 0.1,
    tol: float = 1e-7,
    max_iter: int = 1000,
) -> AsapSolution:
    """Solve the program of the module by L-BFGS; it ends when a step gains less than `tol` of the objective.

    Examples
    --------
    >>> features = np.array([[-1.0], [1.0]])
    >>> same, turned = (features, np.array([0, 1])), (features, np.array([1, 0]))
    >>> solution = solve_asap([same, turned, same, turned], 2, n_clusters=2, penalty=0.01)
    >>> np.sign(solution.relation).astype(int)[0].tolist()
    [1, -1, 1, -1]
    """
    n_tasks, dimension = len(tasks), tasks[0][0].shape[1]
    budget = min(n_clusters, n_tasks) - 1
    n_weights = n_tasks * dimension * n_labels

    def split(point: Floats) -> tuple[Floats, Floats]:
        return point[:n_weights].reshape(n_tasks, -1), point[n_weights:].reshape(n_tasks, n_labels)

    def objective(point: Floats) -> tuple[float, Floats]:
        weight, bias = split(point)
        loss, weight_gradient, bias_gradient = loss_and_gradient(tasks, weight, bias)
        cost, slope, _ = best_relation(weight, budget, within=within, mean_penalty=mean_penalty)
        gradient = np.concatenate([(weight_gradient + penalty * slope).ravel(), bias_gradient.ravel()])
        return loss + penalty * cost, gradient

    with threadpool_limits(limits=1):
        result = optimize.minimize(
            objective,
            np.zeros(n_weights + n_tasks * n_labels),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "ftol": tol, "gtol": 1e-8, "maxcor": 20},
        )
    weight, bias = split(result.x)
    _, _, relation = best_relation(weight, budget, within=within, mean_penalty=mean_penalty)
    weight = weight.reshape(n_tasks, dimension, n_labels)
    return AsapSolution(weight, bias, relation, float(result.fun), bool(result.success))


def best_relation(
    weight: Floats, budget: float, *, within: float, mean_penalty: float
) -> tuple[float, Floats, Floats]:
    """Return the penalty of classifiers with the best M, its gradient (both for lambda 1), and this M."""
    mean = weight.mean(axis=0)
    centred = weight - mean
    squares, vectors = np.linalg.eigh(centred @ centred.T)
    lengths = np.sqrt(np.clip(squares, 0.0, None))
    shares = water_filling(lengths, budget, within)
    stiffness = 1 / (within + shares)
    cost = (lengths**2 @ stiffness + mean_penalty * len(weight) * mean @ mean) / 2
    slope = (vectors * stiffness) @ (vectors.T @ centred) + mean_penalty * mean
    return float(cost), slope, (vectors * shares) @ vectors.T


def water_filling(lengths: Floats, budget: float, floor: float) -> Floats:
    r"""Minimise :math:`\sum_i s_i^2 / (\eta + m_i)` over :math:`0 \le m_i \le 1`, :math:`\sum_i m_i \le k`.

    By its optimality conditions :math:`m_i = \min(\max(\nu s_i - \eta, 0), 1)`, where the level nu is such
    that the budget k is spent; the sum is piecewise linear in nu, so nu is found exactly.

    Examples
    --------
    >>> water_filling(np.array([3.0, 1.0, 0.0]), 1.5, 0.1).round(3).tolist()
    [1.0, 0.5, 0.0]
    >>> water_filling(np.array([3.0, 1.0, 0.0]), 2.5, 0.1).tolist()  # nothing is gained by more
    [1.0, 1.0, 0.0]
    """
    used = lengths > ROUNDING * max(float(lengths.max(initial=0.0)), np.finfo(np.float64).tiny)
    shares = used.astype(np.float64)
    if shares.sum() <= budget:
        return shares
    if budget <= 0:
        return np.zeros_like(shares)
    own = lengths[used]
    breaks = np.sort(np.concatenate([floor / own, (1 + floor) / own]))
    spent = np.clip(breaks[:, None] * own - floor, 0.0, 1.0).sum(axis=1)
    level = float(np.interp(budget, spent, breaks))
    shares[used] = np.clip(level * own - floor, 0.0, 1.0)
    return shares


def loss_and_gradient(tasks: Sequence[Rows], weight: Floats, bias: Floats) -> tuple[float, Floats, Floats]:
    """Return the sum over tasks of the mean cross-entropy of their rows, and its gradients."""
    weight_gradient, bias_gradient = np.empty_like(weight), np.empty_like(bias)
    total = 0.0
    for number, (features, codes) in enumerate(tasks):
        rows = np.arange(len(codes))
        logits = features @ weight[number].reshape(features.shape[1], -1) + bias[number]
        log_shares = log_softmax(logits, axis=1)
        total -= float(log_shares[rows, codes].mean())
        residuals = np.exp(log_shares)
        residuals[rows, codes] -= 1.0
        residuals /= len(rows)
        weight_gradient[number] = (features.T @ residuals).ravel()
        bias_gradient[number] = residuals.sum(axis=0)
    return total, weight_gradient, bias_gradient


def rows_of(task: Task, split: str, prepared: PreparedTasks) -> Rows:
    """Return the features and labels of the rows of a split."""
    rows = task.rows(split)
    features = vectors_of(prepared.inputs)[prepared.items_of(task.name, rows)]
    return features.astype(np.float64), codes_of(task, rows)


def check_tasks(shared: TaskSet, tasks: TaskSet) -> None:
    """Refuse tasks without rows, and shared tasks whose classifiers cannot be compared."""
    for task in tasks:
        if len(task.rows("train")) == 0:
            raise DataError("the task has no training rows", where=f"task {quote(task.name)}")
    if len(shared) == 0:
        raise DataError("there is no task that may be shared", expected="at least one")
    first, *others = shared
    for task in others:
        if task.label_names != first.label_names:
            raise UsageError(
                "ASAP is for tasks with identical label sets",
                where=f"tasks {quote(first.name)} and {quote(task.name)}",
                got=f"{quote(list(first.label_names))} and {quote(list(task.label_names))}",
                todo="leave it out for these tasks; the other baselines take them",
            )


def mean_accuracy(solution: AsapSolution, valid: Sequence[Rows]) -> float:
    """Return the mean accuracy over the tasks that have validation rows."""
    accuracies = []
    for weight, bias, (features, codes) in zip(solution.weight, solution.bias, valid, strict=True):
        if len(codes):
            accuracies.append(((features @ weight + bias).argmax(axis=1) == codes).mean())
    return float(np.mean(accuracies))


def cut_relation(relation: Floats, n_clusters: int, seed: int) -> NDArray[np.int64]:
    """Cluster the tasks by the relation matrix M."""
    n_tasks = len(relation)
    n_clusters = min(n_clusters, n_tasks)
    values, vectors = np.linalg.eigh(relation)
    leading = slice(n_tasks - max(n_clusters - 1, 1), None)
    return cluster_points(vectors[:, leading] * values[leading], n_clusters, seed)


def number_by_appearance(labels: Sequence[int]) -> NDArray[np.int64]:
    """Return the clusters numbered from 0 in the order in which they first occur."""
    number_of: dict[int, int] = {}
    return np.array([number_of.setdefault(label, len(number_of)) for label in labels], dtype=np.int64)
