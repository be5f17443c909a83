r"""Convex clustered multi-task logistic regression: the program, and how it is solved.

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

For a given W the best M has a closed form, on the eigenvectors of :math:`\Pi W W^T \Pi` (`fill_water`). Put
in its place, it leaves a smooth convex function of W and b alone, whose gradient is that for the M held fixed
(Danskin); L-BFGS minimises it, and never takes a step that raises it. Minimising over W and M by turns ends
at the same point, after many more passes over the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse
from threadpoolctl import threadpool_limits

from robusttc.errors import DataError, UsageError, quote

__all__ = ["AsapSettings", "AsapSolution", "LinearTask", "fill_water", "solve_asap"]

Floats = NDArray[np.float64]
Features = Floats | sparse.csr_array

# A singular value below this share of the largest is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class AsapSettings:
    """The constants of the program, in the symbols of the module.

    Parameters
    ----------
    n_clusters
        K, at least 1. With 1 all tasks are drawn to their mean.
    penalty
        Lambda, above 0.
    within
        Eta, above 0: the smaller, the more alike tasks of a cluster must be.
    mean_penalty
        Mu, above 0.
    tol
        The descent ends when a step lowers the objective by less than this share of it.
    max_steps
        The largest number of steps.

    Raises
    ------
    UsageError
        If a value cannot be used.
    """

    n_clusters: int = 5
    penalty: float = 0.01
    within: float = 0.1
    mean_penalty: float = 0.1
    tol: float = 1e-7
    max_steps: int = 1000

    def __post_init__(self) -> None:
        for name in ("n_clusters", "max_steps"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name} cannot be used", got=quote(value), expected="an integer from 1 up")
        for name in ("penalty", "within", "mean_penalty", "tol"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not is_number or not (np.isfinite(value) and value > 0):
                raise UsageError(f"{name} cannot be used", got=quote(value), expected="a number above 0")


@dataclass(frozen=True, slots=True, eq=False)
class LinearTask:
    """One task of the program: features (rows, d), dense or sparse, and the label of every row."""

    features: Features
    codes: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AsapSolution:
    """What the program gives.

    Attributes
    ----------
    weight, bias
        The classifiers, shapes (tasks, d, labels) and (tasks, labels).
    relation
        M, shape (tasks, tasks).
    history
        The objective at the start and after every step.
    converged
        Whether the descent ended by the tolerance.
    """

    weight: Floats
    bias: Floats
    relation: Floats
    history: tuple[float, ...]
    converged: bool


def fill_water(lengths: Floats, budget: float, floor: float) -> Floats:
    r"""Minimise :math:`\sum_i s_i^2 / (\eta + m_i)` over :math:`0 \le m_i \le 1`, :math:`\sum_i m_i \le k`.

    By its optimality conditions :math:`m_i = \min(\max(\nu s_i - \eta, 0), 1)`, where the level nu is such
    that the budget k is spent; the sum is piecewise linear in nu, so nu is found exactly.

    Parameters
    ----------
    lengths
        The s_i, 0 or above.
    budget
        k, 0 or above.
    floor
        Eta, above 0.

    Examples
    --------
    >>> fill_water(np.array([3.0, 1.0, 0.0]), 1.5, 0.1).round(3).tolist()
    [1.0, 0.5, 0.0]
    >>> fill_water(np.array([3.0, 1.0, 0.0]), 2.5, 0.1).tolist()  # nothing is gained by more
    [1.0, 1.0, 0.0]
    """
    used = lengths > ROUNDING * max(float(lengths.max(initial=0.0)), np.finfo(np.float64).tiny)
    shares = used.astype(np.float64)
    if shares.sum() <= budget:
        return shares
    own = lengths[used]
    if budget <= 0:
        return np.zeros_like(shares)
    breaks = np.sort(np.concatenate([floor / own, (1 + floor) / own]))
    spent = np.clip(breaks[:, None] * own - floor, 0.0, 1.0).sum(axis=1)
    level = float(np.interp(budget, spent, breaks))
    shares[used] = np.clip(level * own - floor, 0.0, 1.0)
    return shares


def solve_asap(tasks: Sequence[LinearTask], n_labels: int, settings: AsapSettings) -> AsapSolution:
    """Solve the program of the module for tasks that have the same labels.

    Parameters
    ----------
    tasks
        The tasks, all with features of the same dimension.
    n_labels
        How many labels they have.
    settings
        The constants.

    Raises
    ------
    DataError
        If there is no task, one has no rows, or the features differ in dimension.

    Examples
    --------
    >>> features = np.array([[-1.0], [1.0]])
    >>> same = LinearTask(features, np.array([0, 1]))
    >>> turned = LinearTask(features, np.array([1, 0]))
    >>> solution = solve_asap([same, turned, same, turned], 2, AsapSettings(n_clusters=2))
    >>> np.sign(solution.relation).astype(int)[0].tolist()
    [1, -1, 1, -1]
    """
    dimensions = {task.features.shape[1] for task in tasks}
    if len(dimensions) != 1 or any(task.features.shape[0] == 0 for task in tasks):
        raise DataError(
            "the tasks make no program",
            got=f"{len(tasks)} tasks, features of dimensions {sorted(dimensions)}",
            expected="tasks with rows, and features of one dimension",
        )
    n_tasks, width = len(tasks), dimensions.pop() * n_labels
    budget = min(settings.n_clusters, n_tasks) - 1
    n_weights = n_tasks * width

    def objective(point: Floats) -> tuple[float, Floats]:
        weight = point[:n_weights].reshape(n_tasks, width)
        loss, gradient, bias_gradient = loss_and_gradient(
            tasks, weight, point[n_weights:].reshape(n_tasks, n_labels)
        )
        penalty, slope, _ = best_relation(weight, budget, settings)
        return loss + penalty, np.concatenate([(gradient + slope).ravel(), bias_gradient.ravel()])

    start = np.zeros(n_weights + n_tasks * n_labels)
    history = [objective(start)[0]]

    def keep(intermediate_result: optimize.OptimizeResult) -> None:
        history.append(float(intermediate_result.fun))

    with threadpool_limits(limits=1):
        result = optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=keep,
            options={"maxiter": settings.max_steps, "ftol": settings.tol, "gtol": 1e-8, "maxcor": 20},
        )
    weight = result.x[:n_weights].reshape(n_tasks, width)
    _, _, relation = best_relation(weight, budget, settings)
    return AsapSolution(
        weight.reshape(n_tasks, -1, n_labels),
        result.x[n_weights:].reshape(n_tasks, n_labels),
        relation,
        tuple(history),
        bool(result.success),
    )


def best_relation(weight: Floats, budget: float, settings: AsapSettings) -> tuple[float, Floats, Floats]:
    """Give the penalty of these classifiers with the best M for them, its gradient, and this M."""
    mean = weight.mean(axis=0)
    centred = weight - mean
    squares, vectors = np.linalg.eigh(centred @ centred.T)
    lengths = np.sqrt(np.clip(squares, 0.0, None))
    shares = fill_water(lengths, budget, settings.within)
    stiffness = 1 / (settings.within + shares)
    spread = float((lengths**2 * stiffness).sum())
    penalty = settings.penalty / 2 * (spread + settings.mean_penalty * len(weight) * float(mean @ mean))
    slope = (vectors * stiffness) @ (vectors.T @ centred) + settings.mean_penalty * mean
    return penalty, settings.penalty * slope, (vectors * shares) @ vectors.T


def loss_and_gradient(
    tasks: Sequence[LinearTask], weight: Floats, bias: Floats
) -> tuple[float, Floats, Floats]:
    """Give the sum over tasks of the mean cross-entropy of their rows, and its gradients."""
    gradient, bias_gradient = np.empty_like(weight), np.empty_like(bias)
    n_labels = bias.shape[1]
    total = 0.0
    for number, task in enumerate(tasks):
        rows = np.arange(len(task.codes))
        logits = task.features @ weight[number].reshape(-1, n_labels) + bias[number]
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits)
        sums = shares.sum(axis=1, keepdims=True)
        total += float((np.log(sums[:, 0]) - logits[rows, task.codes]).mean())
        shares /= sums
        shares[rows, task.codes] -= 1.0
        shares /= len(rows)
        gradient[number] = (task.features.T @ shares).ravel()
        bias_gradient[number] = shares.sum(axis=0)
    return total, gradient, bias_gradient
