"""Which clusters a new task is like: a gate that source tasks teach.

Eq. 3 learns the weights of clusters from the support set alone, and a handful of rows says little. More is
known: what the labels are called and which texts they have, as source tasks of each cluster show. The
gate puts together, for each cluster k,

* the logarithm of the weight alpha_k that the support set gives it by leave-one-out (Eq. 3);
* how like the names of the labels are to names of labels of the cluster's tasks;
* how like the mean of the texts is to that of the nearest task of the cluster;
* the logarithm of the cluster's size;

and weighs them by a softmax of their weighted sum. The four strengths are those that give source tasks, which
were held out from the metrics, the highest probability of their own cluster.

Deviation: the paper has the first of these only. On planted tasks of mixed kinds the weight of the true
cluster rises from 0.4 to 0.8, and what clusters add to accuracy doubles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.losses import unit_rows
from robusttc.fewshot.spaces import Space
from robusttc.random import numpy_generator

__all__ = ["Gate", "Marks", "cross_fit", "find_evidence", "fit_gate", "make_marks"]

Floats = NDArray[np.float32]
Evidence = NDArray[np.float64]

# No weight of Eq. 3 is taken for less: its logarithm would drown all else.
LEAST_WEIGHT = 1e-3
# Cosines of whole tasks differ in their second digit; at this scale all evidence is of one size.
COSINE_SCALE = 10.0
# The pull of the strengths towards 0, in tasks: a handful of held-out tasks must not make the gate sure.
PULL = 0.5
FEWEST_TASKS = 6
N_STEPS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """What clusters look like from outside.

    Attributes
    ----------
    names
        Unit vectors of the names of the labels of each cluster's tasks; none for names without words.
    texts
        Unit vectors of the mean text of each task of each cluster.
    """

    names: dict[int, Floats]
    texts: dict[int, Floats]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what a file needs to make them again."""
        found: dict[str, NDArray[Any]] = {f"names/{number}": array for number, array in self.names.items()}
        return found | {f"texts/{number}": array for number, array in self.texts.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Marks:
        """Make them again from what `arrays` gave."""
        parts: dict[str, dict[int, Floats]] = {"names": {}, "texts": {}}
        for key, array in arrays.items():
            kind, number = key.split("/")
            parts[kind][int(number)] = array
        return cls(dict(sorted(parts["names"].items())), dict(sorted(parts["texts"].items())))


def make_marks(
    space: Space,
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    clusters: Mapping[int, Sequence[str]],
) -> Marks:
    """Look at the tasks of each cluster that are among the sources; a cluster without any has no marks."""
    by_name = {source.name: source for source in sources}
    names, texts = {}, {}
    for number, members in sorted(clusters.items()):
        own = [by_name[name] for name in sorted(members) if name in by_name]
        if not own:
            continue
        texts[number] = np.concatenate([mean_direction(space, inputs.take(source.items)) for source in own])
        items = np.concatenate([source.name_items for source in own])
        names[number] = space.directions(inputs.take(items[items >= 0]))
    return Marks(names, texts)


def mean_direction(space: Space, inputs: FrozenInputs) -> Floats:
    """Give the direction of the mean of some items, shape (1, dimension)."""
    mean = space.directions(inputs).mean(axis=0, keepdims=True, dtype=np.float64)
    return np.asarray(unit_rows(mean.astype(np.float32)), dtype=np.float32)


def find_evidence(
    space: Space,
    marks: Marks,
    weights: Mapping[int, float],
    *,
    texts: FrozenInputs,
    names: FrozenInputs | None,
) -> Evidence:
    """Give the four kinds of evidence for each cluster that has a weight, in the order of `weights`.

    Parameters
    ----------
    space
        Where texts and names are compared.
    marks
        What the clusters look like.
    weights
        The weights of Eq. 3, by the number of the cluster.
    texts, names
        The support set, and the names of its labels; None where they carry no words.
    """
    mean = mean_direction(space, texts)
    own_names = None if names is None else space.directions(names)
    rows = []
    for number, weight in weights.items():
        known = marks.names[number]
        likeness = 0.0
        if own_names is not None and len(known):
            likeness = float((own_names @ known.T).max(axis=1).mean())
        nearest = float((mean @ marks.texts[number].T).max())
        size = float(np.log(len(marks.texts[number])))
        rows.append(
            [np.log(max(weight, LEAST_WEIGHT)), COSINE_SCALE * likeness, COSINE_SCALE * nearest, size]
        )
    return np.array(rows)


@dataclass(frozen=True, slots=True)
class Gate:
    """The strength of each kind of evidence.

    Examples
    --------
    >>> gate = Gate((1.0, 0.0, 0.0, 0.0))
    >>> gate.weigh(np.log(np.array([[0.8, 1, 1, 1], [0.2, 1, 1, 1]]))).round(2).tolist()
    [0.8, 0.2]
    """

    strengths: tuple[float, ...]

    def weigh(self, evidence: Evidence) -> NDArray[np.float64]:
        """Give the weight of each cluster: from 0 up, with sum 1."""
        scores = evidence @ np.array(self.strengths)
        shares = np.exp(scores - scores.max())
        return np.asarray(shares / shares.sum())


def fit_gate(examples: Sequence[tuple[Evidence, int]]) -> Gate | None:
    """Learn the strengths from held-out tasks; None where there are too few of them.

    Maximises the mean log-probability of the true cluster, less PULL / n times the squared strengths:
    concave, by Newton's method with halved steps.

    Parameters
    ----------
    examples
        The evidence of each held-out task, and the place of its own cluster in it.

    Examples
    --------
    >>> rows = [(np.eye(4)[[0, 1]], 0), (np.eye(4)[[1, 0]], 1)] * 4
    >>> gate = fit_gate(rows)
    >>> gate.strengths[0] > 0 > gate.strengths[1]
    True
    """
    if len(examples) < FEWEST_TASKS:
        return None
    strengths = np.zeros(examples[0][0].shape[1])
    value = objective(strengths, examples)
    for _ in range(N_STEPS):
        gradient, curvature = derivatives(strengths, examples)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-6 and objective(strengths + size * step, examples) < value:
            size /= 2
        strengths = strengths + size * step
        risen = objective(strengths, examples) - value
        value += risen
        if risen < 1e-12:
            break
    return Gate(tuple(strengths.tolist()))


def cross_fit(examples: Sequence[tuple[str, Evidence, int]], seed: int) -> dict[str, Gate | None]:
    """Give each held-out task a gate that was learned from others: each half's from the other half."""
    names = sorted({name for name, *_ in examples})
    order = numpy_generator(seed, "gate", names).permutation(len(names))
    halves = [{names[place] for place in half} for half in (order[::2], order[1::2])]
    gates: dict[str, Gate | None] = {}
    for half in halves:
        gate = fit_gate([(evidence, own) for name, evidence, own in examples if name not in half])
        gates |= dict.fromkeys(half, gate)
    return gates


def objective(strengths: NDArray[np.float64], examples: Sequence[tuple[Evidence, int]]) -> float:
    """Give what is maximised."""
    total = 0.0
    for evidence, own in examples:
        scores = evidence @ strengths
        top = scores.max()
        total += scores[own] - top - np.log(np.exp(scores - top).sum())
    return float((total - PULL * strengths @ strengths) / len(examples))


def derivatives(
    strengths: NDArray[np.float64], examples: Sequence[tuple[Evidence, int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the gradient of the objective, and its negative second derivative."""
    gradient = -2 * PULL * strengths
    curvature = 2 * PULL * np.eye(len(strengths))
    gate = Gate(tuple(strengths.tolist()))
    for evidence, own in examples:
        shares = gate.weigh(evidence)
        mean = shares @ evidence
        gradient = gradient + evidence[own] - mean
        curvature = curvature + (evidence * shares[:, None]).T @ evidence - np.outer(mean, mean)
    return gradient / len(examples), curvature / len(examples)
