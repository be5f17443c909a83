"""What the sources taught, all of it, and how a support set is met with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robusttc.encoders.inputs import FrozenInputs
from robusttc.fewshot.adapting import Adapted, Support, adapt_blend, adapt_paper, adapt_pooled
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.gate import Gate, Marks, make_marks
from robusttc.fewshot.parts import LinearPart
from robusttc.fewshot.pooled import train_pools
from robusttc.fewshot.settings import FewShotSettings, Strategy
from robusttc.fewshot.spaces import Metrics, train_metrics
from robusttc.progress import Progress

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
        options = {"settings": self.settings, "threshold": self.threshold, "seed": self.seed}
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
                **options,  # type: ignore[arg-type]
            )
        elif not is_pooled:
            rest = adapt_paper(support, self.metrics, clusters_serve=self.clusters_serve, **options)  # type: ignore[arg-type]
        if not is_pooled and rest is not None:
            return rest
        adapted = adapt_pooled(support, pools, frozen=self.metrics.frozen, rest=rest, **options)  # type: ignore[arg-type]
        return adapted if is_mixed else dataclasses.replace(adapted, weights={})


def learn(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    clusters: Mapping[int, Sequence[str]],
    *,
    strategy: Strategy,
    settings: FewShotSettings,
    threshold: float,
    shared_labels: tuple[str, ...] | None = None,
    like: Knowledge | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Knowledge:
    """Learn all that the sources teach.

    Parameters
    ----------
    inputs, sources, clusters
        The frozen inputs, the tasks, and the names of the tasks of each cluster.
    strategy, settings, threshold, seed
        How.
    shared_labels
        The labels that all sources have, which are to have pooled classifiers too; None where they differ.
    like
        What was learned from the same sources with other clusters: what is shared by all is taken from it.
    progress
        Told after every metric.

    Raises
    ------
    DataError
        If no episode can be drawn from any task.
    """
    metrics = train_metrics(
        inputs,
        sources,
        clusters,
        settings=settings,
        shared=None if like is None else like.metrics.shared,
        seed=seed,
        progress=progress,
    )
    shared_pool: LinearPart | None = None
    pools: dict[int, LinearPart] = {}
    if shared_labels is not None:
        shared_pool, pools = train_pools(
            inputs, sources, clusters, n_labels=len(shared_labels), settings=settings, seed=seed
        )
    marks: Marks | None = None
    if metrics.clusters and strategy == "blend":
        space = metrics.shared if metrics.frozen is None else metrics.frozen
        marks = make_marks(space, inputs, sources, clusters)
    return Knowledge(
        strategy, settings, threshold, seed, True, metrics, shared_labels, shared_pool, pools, marks
    )
