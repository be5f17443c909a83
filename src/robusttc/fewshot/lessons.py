"""Lessons: what is learned from which sources, all metrics and pooled classifiers of many lessons at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.fewshot.episodes import SourceRows, usable_sources
from robusttc.fewshot.metric import check_usable
from robusttc.fewshot.parts import LinearPart
from robusttc.fewshot.settings import FewShotSettings
from robusttc.fewshot.spaces import Metrics, Space, make_space
from robusttc.fewshot.units import (
    STAGE,
    Material,
    MetricOrder,
    Order,
    PoolOrder,
    describe_space,
    make_unit,
    pool_from,
    space_from,
)
from robusttc.jobs import Result, Runner
from robusttc.models import TrainingJobs, require_result, warn_about_tasks
from robusttc.progress import Progress

__all__ = ["Lesson", "Teacher", "train_metrics"]


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What is learned together.

    Attributes
    ----------
    round
        A name for these sources: ``whole``, or ``round 0`` and so on where some are held out.
    names
        The sources.
    clusters
        The names of the tasks of each cluster; those that are not among the sources are passed over.
    """

    round: str
    names: tuple[str, ...]
    clusters: Mapping[int, Sequence[str]]

    def members(self) -> dict[int, tuple[str, ...]]:
        """Give the sources of each cluster, clusters and names in order."""
        there = set(self.names)
        return {
            number: tuple(sorted(name for name in names if name in there))
            for number, names in sorted(self.clusters.items())
        }


class Teacher:
    """Trains what lessons need, and remembers it: what lessons have in common is trained once.

    Parameters
    ----------
    inputs, sources
        The frozen inputs of all rows and names, and the tasks.
    settings, seed
        How to train.
    n_labels
        How many labels pooled classifiers tell apart; 0 trains none, where labels differ.
    runner, progress
        Who does the units, and who is told of them.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.
    WorkError
        If a shared metric could not be trained.
    """

    def __init__(
        self,
        inputs: FrozenInputs,
        sources: Sequence[SourceRows],
        *,
        settings: FewShotSettings,
        seed: int,
        n_labels: int = 0,
        runner: Runner | None = None,
        progress: Progress | None = None,
    ) -> None:
        by_name = {source.name: source for source in sources}
        self.material = Material(inputs, by_name, {}, settings, seed, n_labels)
        self.runner, self.progress = runner, progress
        self._spaces: dict[MetricOrder, Space | None] = {}
        self._pools: dict[PoolOrder, LinearPart | None] = {}
        self._frozen: dict[str, Space] = {}

    def teach(self, lessons: Sequence[Lesson]) -> None:
        """Train what these lessons need and is not there yet, all of it in one go, or in two with starts."""
        for lesson in lessons:
            check_usable([self.material.sources[name] for name in lesson.names])
        rounds = {**self.material.rounds, **{one.round: tuple(sorted(one.names)) for one in lessons}}
        self.material = dataclasses.replace(self.material, rounds=rounds)
        from_start = self.material.settings.cluster_steps is not None
        orders = dict.fromkeys(order for lesson in lessons for order in self.orders_of(lesson))
        new = [order for order in orders if order not in self._spaces and order not in self._pools]
        late = [order for order in new if from_start and is_cluster(order)]
        now = [order for order in new if not (from_start and is_cluster(order))]
        with TrainingJobs(STAGE, self.runner, progress=self.progress, total=len(new), unit="metrics") as jobs:
            jobs.set_inputs(self.material)
            self.take(now, jobs.run([make_unit(order) for order in now]))
            if late:
                jobs.set_inputs(dataclasses.replace(self.material, starts=self.starts_of(late)))
                self.take(late, jobs.run([make_unit(order) for order in late]))

    def orders_of(self, lesson: Lesson) -> list[Order]:
        """Order what a lesson needs, the longest first."""
        whole = tuple(sorted(lesson.names))
        groups = lesson.members().values()
        orders: list[Order] = [MetricOrder(lesson.round, whole, False)]
        if self.material.n_labels:
            orders += [PoolOrder(lesson.round, names) for names in (whole, *groups) if names]
        orders += [MetricOrder(lesson.round, names, True) for names in groups if self.is_usable(names)]
        return orders

    def is_usable(self, names: Iterable[str]) -> bool:
        """Tell whether an episode can be drawn from some task."""
        return bool(usable_sources([self.material.sources[name] for name in names]))

    def take(self, orders: Sequence[Order], results: Sequence[Result | None]) -> None:
        """Keep what was trained; say what could not be."""
        lost: list[str] = []
        for order, payload in zip(orders, results, strict=True):
            if payload is None:
                lost += order.names if is_cluster(order) or isinstance(order, PoolOrder) else ()
            if isinstance(order, PoolOrder):
                self._pools[order] = None if payload is None else pool_from(payload)
                continue
            if not order.is_cluster:
                payload = require_result("the shared metric", make_unit(order), payload)
            self._spaces[order] = None if payload is None else space_from(payload)
        warn_about_tasks("metrics or pooled classifiers of some clusters could not be trained", lost)

    def starts_of(self, orders: Iterable[Order]) -> dict[str, Result]:
        """Give the shared metric of every round that some orders are of."""
        rounds = {order.round for order in orders}
        return {
            order.round: describe_space(space)
            for order, space in self._spaces.items()
            if space is not None and order.round in rounds and not order.is_cluster
        }

    def metrics(self, lesson: Lesson) -> Metrics:
        """Give the metrics of a lesson that was taught."""
        shared = self._spaces[MetricOrder(lesson.round, tuple(sorted(lesson.names)), False)]
        assert shared is not None  # noqa: S101 - `take` would have raised an error
        inputs = self.material.inputs
        frozen = None
        if isinstance(inputs, DenseInputs):
            if lesson.round not in self._frozen:
                sources = [self.material.sources[name] for name in self.material.rounds[lesson.round]]
                self._frozen[lesson.round] = make_space(None, inputs, sources, self.material.settings)
            frozen = self._frozen[lesson.round]
        found = {
            number: self._spaces.get(MetricOrder(lesson.round, names, True))
            for number, names in lesson.members().items()
        }
        return Metrics(
            frozen, shared, {number: space for number, space in found.items() if space is not None}
        )

    def pools(self, lesson: Lesson) -> tuple[LinearPart | None, dict[int, LinearPart]]:
        """Give the pooled classifier of all sources of a lesson, and those of clusters."""
        found = {
            number: self._pools.get(PoolOrder(lesson.round, names))
            for number, names in lesson.members().items()
        }
        return self._pools.get(PoolOrder(lesson.round, tuple(sorted(lesson.names)))), {
            number: pool for number, pool in found.items() if pool is not None
        }


def is_cluster(order: Order) -> bool:
    """Tell whether an order is the metric of a cluster."""
    return isinstance(order, MetricOrder) and order.is_cluster


def train_metrics(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    clusters: Mapping[int, Sequence[str]],
    *,
    settings: FewShotSettings,
    seed: int = 0,
    progress: Progress | None = None,
) -> Metrics:
    """Train the shared metric of some tasks, and one a cluster.

    Parameters
    ----------
    inputs
        The frozen inputs of all rows and names.
    sources
        The tasks.
    clusters
        The names of the tasks of each cluster; tasks that are not among `sources` are passed over.
    settings
        How to train.
    seed
        The seed of the run.
    progress
        Told after every metric.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.
    """
    teacher = Teacher(inputs, sources, settings=settings, seed=seed, progress=progress)
    lesson = Lesson("whole", tuple(source.name for source in sources), clusters)
    teacher.teach([lesson])
    return teacher.metrics(lesson)
