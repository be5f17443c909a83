"""What the sources taught, all of it, and how a support set is met with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from robusttc.fewshot.adapting import Adapted, Support, adapt_blend, adapt_paper, adapt_pooled
from robusttc.fewshot.gate import Gate, Marks, make_marks
from robusttc.fewshot.lessons import Lesson, Teacher
from robusttc.fewshot.parts import LinearPart
from robusttc.fewshot.settings import FewShotSettings, Strategy
from robusttc.fewshot.spaces import Metrics

__all__ = ["Knowledge", "learn"]


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What the sources taught.

    Attributes
    ----------
    strategy, settings, threshold, seed
        How a task is adapted to.
    clusters_serve
        Whether predictions take the clusters in.
    metrics
        The shared metric and those of clusters.
    shared_labels
        The labels that all sources have; None where they differ.
    shared_pool, pools
        The pooled classifier of all sources and those of clusters, where labels are identical.
    marks, gate
        How a new task is told to be like some clusters; None where it is not.
    """

    strategy: Strategy
    settings: FewShotSettings
    threshold: float
    seed: int
    clusters_serve: bool
    metrics: Metrics
    shared_labels: tuple[str, ...] | None
    shared_pool: LinearPart | None
    pools: dict[int, LinearPart]
    marks: Marks | None = None
    gate: Gate | None = None

    def adapt(self, support: Support, label_names: Sequence[str]) -> Adapted:
        """Make a predictor for a support set; see `robusttc.fewshot.adapting`."""
        is_mixed = bool(self.pools) and self.clusters_serve
        pools = self.pools if is_mixed else {}
        if not is_mixed and self.shared_pool is not None:
            pools = {0: self.shared_pool}
        is_pooled = bool(pools) and tuple(label_names) == self.shared_labels
        rest = None
        if self.strategy == "blend":
            rest = adapt_blend(
                support,
                self.metrics,
                clusters_serve=self.clusters_serve,
                marks=self.marks,
                gate=self.gate,
                settings=self.settings,
                threshold=self.threshold,
                seed=self.seed,
            )
        elif not is_pooled:
            rest = adapt_paper(
                support,
                self.metrics,
                clusters_serve=self.clusters_serve,
                settings=self.settings,
                threshold=self.threshold,
                seed=self.seed,
            )
        if not is_pooled and rest is not None:
            return rest
        adapted = adapt_pooled(
            support,
            pools,
            frozen=self.metrics.frozen,
            rest=rest,
            settings=self.settings,
            threshold=self.threshold,
            seed=self.seed,
        )
        return adapted if is_mixed else dataclasses.replace(adapted, weights={})


def learn(
    teacher: Teacher,
    lesson: Lesson,
    *,
    strategy: Strategy,
    threshold: float,
    shared_labels: tuple[str, ...] | None = None,
) -> Knowledge:
    """Learn all that a lesson teaches; what the teacher has trained already is taken from it.

    Parameters
    ----------
    teacher, lesson
        Who teaches, and what.
    strategy, threshold
        How new tasks will be adapted to.
    shared_labels
        The labels that all sources have; None where they differ.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.
    WorkError
        If the shared metric could not be trained.
    """
    teacher.teach([lesson])
    metrics = teacher.metrics(lesson)
    shared_pool, pools = teacher.pools(lesson)
    marks: Marks | None = None
    material = teacher.material
    if metrics.clusters and strategy == "blend":
        space = metrics.shared if metrics.frozen is None else metrics.frozen
        sources = [material.sources[name] for name in lesson.names]
        marks = make_marks(space, material.inputs, sources, lesson.clusters)
    return Knowledge(
        strategy,
        material.settings,
        threshold,
        material.seed,
        True,
        metrics,
        shared_labels,
        shared_pool,
        pools,
        marks,
    )
