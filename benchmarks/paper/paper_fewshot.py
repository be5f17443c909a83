"""Algorithm 3 of the paper as it stands: cluster models of the sources, mixed for a target, and no more.

`ClusterFewShot` with ``strategy="paper"`` learns the same, and rehearses besides: it trains everything anew
on two thirds of the sources, three times over, to fit temperatures and to judge clusters. Neither changes a
prediction of the paper's way, so it is left out here, and one fit serves with and without the fallback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.paper.clusters import word_vectors
from robusttc import Task, TaskSet
from robusttc.encoders.choosing import make_encoder
from robusttc.encoders.reading import Reader
from robusttc.fewshot.adapting import Support, adapt_paper, adapt_pooled
from robusttc.fewshot.assessment import find_clusters
from robusttc.fewshot.lessons import train_metrics
from robusttc.fewshot.parts import LinearPart, mix_parts
from robusttc.fewshot.pooled import train_pooled
from robusttc.fewshot.settings import FewShotSettings
from robusttc.fewshot.sources import make_ready
from robusttc.fewshot.spaces import Metrics, Space
from robusttc.fewshot.support_set import check_support

__all__ = ["PaperFewShot", "PaperTarget", "learn_clusters"]


@dataclass(frozen=True, eq=False, kw_only=True)
class PaperFewShot:
    """What the sources taught.

    Attributes
    ----------
    reader
        From texts to frozen inputs.
    metrics
        The matching network of each cluster, where label sets differ.
    pools
        The classifier of each cluster, where label sets are identical; empty where they differ.
    settings, seed
        How models are trained.
    threshold
        The leave-one-out accuracy that some cluster must reach; below it the task's own model serves. 0 never
        falls back.
    """

    reader: Reader
    metrics: Metrics | None
    pools: dict[int, LinearPart]
    settings: FewShotSettings
    seed: int
    threshold: float = 0.0

    def adapt(self, task: Task) -> PaperTarget:
        """Learn a target from its rows in ``train``."""
        rows = task.rows("train")
        codes, label_names = check_support(task, rows)
        with threadpool_limits(1):
            inputs = self.reader.read(list(task.texts_at(rows)))
            support = Support(task.name, inputs, codes, len(label_names))
            options: dict[str, Any] = {
                "settings": self.settings,
                "threshold": self.threshold,
                "seed": self.seed,
            }
            if self.pools:
                frozen = None if self.metrics is None else self.metrics.frozen
                adapted = adapt_pooled(support, self.pools, frozen=frozen, **options)
            elif self.metrics is not None:
                adapted = adapt_paper(support, self.metrics, **options)
        return PaperTarget(self.reader, label_names, adapted.parts, adapted.shares, adapted.out_of_cluster)


@dataclass(frozen=True, eq=False)
class PaperTarget:
    """A target, learned."""

    reader: Reader
    label_names: tuple[str, ...]
    parts: tuple[Any, ...]
    shares: tuple[float, ...]
    out_of_cluster_: bool

    def predict(self, texts: list[str]) -> NDArray[np.object_]:
        """Give the most probable label of every text (Eq. 3)."""
        with threadpool_limits(1):
            shares = mix_parts(self.parts, self.shares, self.reader.read(texts))
        return np.asarray(np.array(self.label_names, dtype=object)[shares.argmax(axis=1)])


def learn_clusters(
    sources: TaskSet, groups: Mapping[str, int], *, encoder: str, settings: FewShotSettings, seed: int
) -> PaperFewShot:
    """Train one model a cluster: matching networks, or classifiers where all label sets are identical.

    A task that is in no cluster teaches nothing. Where there is one cluster only, it is one of all tasks.
    """
    clusters = find_clusters(sources, dict(groups)) or {0: sources.names}
    ready_encoder = make_encoder(encoder, vectors=word_vectors(encoder), device="cpu")
    with threadpool_limits(1):
        ready = make_ready(sources, ready_encoder, use_label_names=False)
        if not sources.same_label_sets:
            metrics = train_metrics(ready.inputs, ready.sources, clusters, settings=settings, seed=seed)
            return PaperFewShot(reader=ready.reader, metrics=metrics, pools={}, settings=settings, seed=seed)
        by_name = {source.name: source for source in ready.sources}
        n_labels = len(next(iter(sources)).label_names)
        pools = {}
        for number, names in sorted(clusters.items()):
            members = [by_name[name] for name in names]
            pool = train_pooled(ready.inputs, members, n_labels=n_labels, settings=settings, seed=seed)
            if pool is not None:
                pools[number] = pool
    frozen = Metrics(None if encoder == "cnn" else Space(None), Space(None), {})
    return PaperFewShot(reader=ready.reader, metrics=frozen, pools=pools, settings=settings, seed=seed)
