"""The blend of a task's models, with one set of weights for texts that other tasks have too, one for others.

Tasks of one trade share sentences ("hello", "yes please"). On such a text a model of many tasks has seen the
answer, on any other it has not, so one set of weights for both would be too bold on novel texts and too shy
on the others: on the validation rows of 60 bots it loses 0.9 points of accuracy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.models import blend, learn_weights
from robusttc.transfer import normalise_text

# What is blended, in this order: single-task, shared and cluster model, and how frequent a label is.
COMPONENTS = ("own", "shared", "cluster", "prior")
# With fewer held-out texts of either sort than this, one set of weights serves both.
FEWEST_SEEN = 200
# The weights of a cluster are drawn to those of all tasks as if by so many rows.
CLUSTER_STRENGTH = 30.0
SEVERAL = -1  # the owner of a text that two or more tasks have

Truths = NDArray[np.bool_]
# Probabilities (rows, labels) by task.
Table = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class BlendWeights:
    """The weights of `COMPONENTS`, for novel texts and for those seen in another task."""

    novel: tuple[float, ...]
    seen: tuple[float, ...]

    def uses(self, kind: str) -> bool:
        """Return whether a component counts for some texts."""
        place = COMPONENTS.index(kind)
        return self.novel[place] > 0 or self.seen[place] > 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Sequence[float]]) -> BlendWeights:
        """Rebuild them from their fields as JSON has them."""
        return cls(tuple(values["novel"]), tuple(values["seen"]))


OWN_ONLY = BlendWeights((1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
CLUSTER_ONLY = BlendWeights((0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 1.0, 0.0))


def blend_rows(
    tables: Mapping[str, NDArray[np.float64]], weights: BlendWeights, seen: Truths | None
) -> NDArray[np.float64]:
    """Blend the probabilities of components for some rows, by whether each text is seen in another task.

    Examples
    --------
    >>> tables = {"own": np.array([[0.8, 0.2]] * 2), "shared": np.array([[0.4, 0.6]] * 2)}
    >>> weights = BlendWeights((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0))
    >>> blend_rows(tables, weights, np.array([True, False])).round(2).tolist()
    [[0.4, 0.6], [0.8, 0.2]]
    """
    places = [COMPONENTS.index(kind) for kind in tables]
    blended = blend(list(tables.values()), [weights.novel[place] for place in places])
    if seen is not None and seen.any():
        rows = [table[seen] for table in tables.values()]
        blended[seen] = blend(rows, [weights.seen[place] for place in places])
    return blended


@dataclass(frozen=True, slots=True, eq=False)
class LearnedBlend:
    """The weights of all tasks, those of clusters that have their own, and the blend of held-out rows."""

    weights: BlendWeights
    of_cluster: Mapping[int, BlendWeights]
    blended: Table


def learn_blend(
    tables: Mapping[str, Table],
    codes: Mapping[str, NDArray[np.int64]],
    seen: Mapping[str, Truths] | None,
    *,
    least_cluster: float = 0.0,
    clusters: Mapping[int, Sequence[str]] | None = None,
) -> LearnedBlend:
    """Return the weights that are best over all tasks, and the blend; equal ones where nothing is held out.

    `tables` are the held-out probabilities of each component by task, `codes` the labels of these rows,
    `seen` which of them another task has (None if inputs are no texts), `least_cluster` the lower bound of
    the cluster models' weight. The tasks of each of the `clusters` get weights of their own, drawn to those
    of all tasks; their held-out rows are blended in halves, each by weights of the other half.
    """
    learner = BlendLearner(tables, codes, seen, least_cluster)
    everything: dict[str, Truths] = {
        name: np.ones(len(codes[name]), dtype=np.bool_) for name in sorted(codes)
    }
    weights = learner.learn(everything)
    blended = {name: learner.apply(weights, name) for name in everything}
    of_cluster = {}
    for cluster, members in (clusters or {}).items():
        held = [name for name in members if name in codes]
        of_cluster[cluster] = learner.learn({name: everything[name] for name in held}, weights)
        for half in (0, 1):
            rows = {name: np.arange(len(codes[name])) % 2 == half for name in held}
            learned = learner.learn({name: ~rows[name] for name in held}, weights)
            for name in held:
                blended[name][rows[name]] = learner.apply(learned, name)[rows[name]]
    return LearnedBlend(weights, of_cluster, blended)


class BlendLearner:
    """Learns weights from some of the held-out rows; see `learn_blend` for what it is given."""

    def __init__(
        self,
        tables: Mapping[str, Table],
        codes: Mapping[str, NDArray[np.int64]],
        seen: Mapping[str, Truths] | None,
        least_cluster: float,
    ) -> None:
        self.tables, self.codes, self.seen = tables, codes, seen
        self.used = [COMPONENTS.index(kind) for kind in tables]
        self.lowest = [least_cluster if kind == "cluster" else 0.0 for kind in tables]
        n_rows = sum(map(len, codes.values()))
        n_seen = 0 if seen is None else sum(int(seen[name].sum()) for name in codes)
        self.is_split = min(n_seen, n_rows - n_seen) >= FEWEST_SEEN

    def learn(self, rows: Mapping[str, Truths], near: BlendWeights | None = None) -> BlendWeights:
        """Return the weights for these rows of tasks, drawn to others if there are any."""
        if not self.is_split or self.seen is None:
            common = self._learn(rows, near.novel if near else None)
            return BlendWeights(common, common)
        novel = {name: chosen & ~self.seen[name] for name, chosen in rows.items()}
        seen = {name: chosen & self.seen[name] for name, chosen in rows.items()}
        return BlendWeights(
            self._learn(novel, near.novel if near else None), self._learn(seen, near.seen if near else None)
        )

    def _learn(self, rows: Mapping[str, Truths], near: Sequence[float] | None) -> tuple[float, ...]:
        found = np.zeros(len(COMPONENTS))
        if any(chosen.any() for chosen in rows.values()):
            centre = None if near is None else np.asarray(near)[self.used]
            found[self.used] = learn_weights(
                [[table[name][chosen] for name, chosen in rows.items()] for table in self.tables.values()],
                [self.codes[name][chosen] for name, chosen in rows.items()],
                lowest=self.lowest,
                near=centre,
                strength=0.0 if near is None else CLUSTER_STRENGTH,
            )
        if not found[:3].any():  # nothing is held out, or no model knows anything
            if near is not None:
                return tuple(near)
            models = [place for place in self.used if COMPONENTS[place] != "prior"]
            found[models] = 1 / len(models)
        return tuple(found.tolist())

    def apply(self, weights: BlendWeights, name: str) -> NDArray[np.float64]:
        """Return the blend of all held-out rows of a task."""
        rows = {kind: table[name] for kind, table in self.tables.items()}
        return blend_rows(rows, weights, None if self.seen is None else self.seen[name])


@dataclass(frozen=True, slots=True, eq=False)
class SeenTexts:
    """The training texts of many tasks as hashes, and whose they are; the texts themselves are not kept.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("a", ["Hi!", "my card"], ["x", "y"]), Task("b", ["hi", "my trip"], ["x", "y"])])
    >>> rows = {task.name: task.rows("train") for task in tasks}
    >>> SeenTexts.of(tasks, rows).find("a", ["HI", "my card", "my trip"]).tolist()
    [True, False, True]
    """

    names: tuple[str, ...]  # of the tasks, sorted
    keys: NDArray[np.uint64]  # hashes of distinct texts, ascending; case and punctuation do not count
    owners: NDArray[np.int32]  # the place in `names` of the only task that has it, or SEVERAL

    @classmethod
    def of(cls, tasks: TaskSet, rows: Mapping[str, NDArray[np.intp]]) -> SeenTexts:
        """Hash the texts of some rows of all tasks."""
        names = tuple(sorted(tasks.names))
        owner_of: dict[int, int] = {}
        for place, name in enumerate(names):
            task = tasks[name]
            for key in set(hash_texts(task.texts_at(rows[name]))):
                owner_of[key] = place if key not in owner_of else SEVERAL
        keys = np.array(sorted(owner_of), dtype=np.uint64)
        return cls(names, keys, np.array([owner_of[int(key)] for key in keys], dtype=np.int32))

    def find(self, name: str, texts: Iterable[str]) -> Truths:
        """Return for every text whether a task other than the named one has it."""
        hashes = np.array(hash_texts(texts), dtype=np.uint64)
        if len(self.keys) == 0 or len(hashes) == 0:
            return np.zeros(len(hashes), dtype=np.bool_)
        places = np.searchsorted(self.keys, hashes).clip(max=len(self.keys) - 1)
        own = self.names.index(name) if name in self.names else len(self.names)
        return np.asarray((self.keys[places] == hashes) & (self.owners[places] != own))


def hash_texts(texts: Iterable[str]) -> list[int]:
    """Return a number for every text, the same for texts that differ in case and punctuation only."""
    normal = (normalise_text(text).encode() for text in texts)
    return [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in normal]
