"""The rows of few-shot tables: the paper's with two encoders, ours, and what is usual today."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.paper.clusters import Clusterings, Grouping, word_vectors
from benchmarks.paper.commonest import CommonestOfSources
from benchmarks.paper.plan import Plan
from benchmarks.paper.setfit import SetFitLearner
from benchmarks.paper.table import Way
from benchmarks.paper.ways import Learned, Trial, describe_model, list_groupings, paper_way
from robusttc import TaskSet
from robusttc.baselines import (
    FastTextBaseline,
    FineTunedHolisticBaseline,
    LogisticRegressionBaseline,
    MatchingNetworkBaseline,
    NearestNeighbourBaseline,
    SingleTaskBaseline,
    TaskMixtureBaseline,
)
from robusttc.fewshot import THRESHOLD, ClusterFewShot, few_shot_rows

__all__ = ["fewshot_trials"]

FIVE_SHOT = {"per_label": 5, "extra": 0}


def fewshot_trials(plan: Plan, clusterings: Clusterings) -> list[Trial]:
    """Give all rows of a few-shot table, in its order."""
    plan = plan.of_new_tasks()
    sources = plan.data.sources
    trials = []
    for encoder in ("cnn", "sentence"):
        trials += baseline_trials(plan, sources, encoder)
        trials += cluster_trials(plan, clusterings, sources, encoder)
    return [*trials, *our_trials(plan, clusterings, sources), *trials_of_today(plan, sources)]


def baseline_trials(plan: Plan, sources: TaskSet, encoder: str) -> list[Trial]:
    """Give the paper's baselines with one encoder."""
    few, multitask, vectors = plan.fewshot[encoder], plan.multitask[encoder], word_vectors(encoder)
    frozen = plan.frozen_single
    options: dict[str, Any] = {"vectors": vectors}
    trials = [
        # Nothing is learned from the sources.
        Trial(
            way=paper_way("single task", encoder),
            fit=lambda seed: fitted(
                SingleTaskBaseline(encoder, settings=frozen, random_state=seed, **options), None
            ),
        )
    ]
    if encoder == "cnn":
        trials.append(
            Trial(
                way=paper_way("fastText", encoder),
                fit=lambda seed: tune_on_sources(plan, sources, FastTextBaseline, seed, vectors=vectors),
            )
        )
    trials += [
        Trial(
            way=paper_way("fine-tuned holistic", encoder),
            fit=lambda seed: fitted(
                FineTunedHolisticBaseline(encoder, settings=multitask, random_state=seed, **options), sources
            ),
        ),
        Trial(
            way=paper_way("matching network", encoder),
            fit=lambda seed: fitted(
                MatchingNetworkBaseline(encoder, settings=few, random_state=seed, **options), sources
            ),
        ),
        Trial(
            way=paper_way("no clustering", encoder),
            fit=lambda seed: fitted(
                TaskMixtureBaseline(encoder, settings=frozen, random_state=seed, **options), sources
            ),
        ),
    ]
    return trials


def fitted(model: Any, sources: TaskSet | None) -> Learned:
    """Fit a baseline on the sources, if it learns from them."""
    if sources is not None:
        model.fit(sources)
    extra = {"chosen": model.value_, "tuning": model.tuning_} if hasattr(model, "tuning_") else {}
    return Learned(model=model, settings=describe_model(model), extra=extra)


def tune_on_sources(plan: Plan, sources: TaskSet, kind: Any, seed: int, **options: Any) -> Learned:
    """Choose what a baseline has to choose on sources that are cut to the size of a support set."""
    if not plan.data.few_shot:
        return fitted(kind(few_shot=True, random_state=seed, **options), sources)
    # Five rows a label, as the targets have, judged on the validation rows of the sources.
    cut = TaskSet(
        task.take(
            np.sort(np.concatenate([few_shot_rows(task, random_state=seed, **FIVE_SHOT), task.rows("valid")]))
        )
        for task in sources
    )
    learned = fitted(kind(random_state=seed, **options), cut)
    return dataclasses.replace(learned, settings={**learned.settings, "tuned on": "sources cut to 5 + 5"})


def cluster_trials(plan: Plan, clusterings: Clusterings, sources: TaskSet, encoder: str) -> list[Trial]:
    """Give the paper's way on all clusters; with K given also with the fallback to the task's own model."""
    settings = plan.fewshot[encoder]
    trials = []
    last: dict[tuple[str, int], Learned] = {}
    for name, group in list_groupings(plan, clusterings, encoder, sources):
        fit = remember_last(on_clusters(sources, group, encoder, settings), name, last)
        trials.append(Trial(way=paper_way(name, encoder), fit=fit))
        if name.startswith("clusters K="):
            trials.append(Trial(way=paper_way(f"{name}, adaptive", encoder), fit=with_fallback(fit)))
    return trials


def on_clusters(
    sources: TaskSet, group: Callable[[int], Grouping], encoder: str, settings: Any
) -> Callable[[int], Learned]:
    """Give the maker of the paper's models on clusters."""

    def fit(seed: int) -> Learned:
        grouping = group(seed)
        model = ClusterFewShot(
            encoder,
            strategy="paper",
            threshold=0.0,
            settings=settings,
            vectors=word_vectors(encoder),
            random_state=seed,
        ).fit(sources, dict(grouping.groups))
        described = {
            "estimator": "Algorithm 3",
            "settings": settings,
            "threshold": 0.0,
            "clusters from": grouping.settings,
        }
        return Learned(model=model, settings=described, extra=grouping.extra)

    return fit


def remember_last(
    fit: Callable[[int], Learned], name: str, last: dict[tuple[str, int], Learned]
) -> Callable[[int], Learned]:
    """Keep what was fitted last, of all rows: the next one, with the fallback, has the same models."""

    def kept(seed: int) -> Learned:
        if (name, seed) not in last:
            last.clear()
            last[name, seed] = fit(seed)
        return last[name, seed]

    return kept


def with_fallback(fit: Callable[[int], Learned]) -> Callable[[int], Learned]:
    """Fall back to the task's own model where no cluster reaches the paper's 20 %."""

    def adaptive(seed: int) -> Learned:
        learned = fit(seed)
        model = copy.copy(learned.model)
        model.metrics_ = dataclasses.replace(model.metrics_, threshold=THRESHOLD)
        settings = {**learned.settings, "threshold": THRESHOLD, "models": "those of the row without fallback"}
        return Learned(model=model, settings=settings, extra=learned.extra)

    return adaptive


def our_trials(plan: Plan, clusterings: Clusterings, sources: TaskSet) -> list[Trial]:
    """Give our rows: the default, and with the fine-tuned encoder."""

    def blend(**options: Any) -> Callable[[int], Learned]:
        def fit(seed: int) -> Learned:
            grouping = clusterings.robust("default", "auto", encoder="sentence", tasks=sources, seed=seed)
            model = ClusterFewShot("sentence", random_state=seed, **options).fit(
                sources, dict(grouping.groups)
            )
            extra = {
                **grouping.extra,
                "verdict": None if model.verdict_ is None else model.verdict_.to_dict(),
                "clusters_serve": model.clusters_serve_,
            }
            settings = {**describe_model(model), "clusters from": grouping.settings}
            return Learned(model=model, settings=settings, extra=extra)

        return fit

    def way(name: str) -> Way:
        return Way(way=f"ours: {name}", group="ours", encoder="sentence")

    trials = [Trial(way=way("blend"), fit=blend())]
    if "fewshot" in plan.tuned:
        tuned = blend(tune="encoder")
        trials.append(Trial(way=way("blend, tuned encoder"), fit=tuned, max_seeds=plan.tuned_seeds))
    return trials


def trials_of_today(plan: Plan, sources: TaskSet) -> list[Trial]:
    """Give the rows of what a user would pick today."""

    def way(name: str) -> Way:
        return Way(way=f"today: {name}", group="today", encoder="sentence")

    trials = [
        Trial(
            way=way("logistic regression"),
            fit=lambda seed: tune_on_sources(
                plan, sources, LogisticRegressionBaseline, seed, encoder="sentence"
            ),
        ),
        Trial(
            way=way("nearest neighbours"),
            fit=lambda seed: tune_on_sources(
                plan, sources, NearestNeighbourBaseline, seed, encoder="sentence"
            ),
        ),
    ]
    if sources.same_label_sets:
        trials.append(
            Trial(
                way=Way(way="today: commonest label", group="today", encoder=""),
                fit=lambda _: Learned(model=CommonestOfSources().fit(sources)),
                is_random=False,
            )
        )
    smallest = min(plan.data.new_targets, key=lambda key: len(plan.data.new_targets[key]))
    if len(plan.data.new_targets[smallest]) <= 12:
        limits: dict[str, Any] = {"targets": (smallest,), "is_random": False, "max_draws": 1}
        said = {"seed of SetFit": SetFitLearner.seed}
        trials.append(
            Trial(way=way("SetFit"), fit=lambda _: Learned(model=SetFitLearner(), settings=said), **limits)
        )

        def with_tuned_head(seed: int) -> Learned:
            tuned = tune_on_sources(plan, sources, LogisticRegressionBaseline, seed, encoder="sentence")
            C = float(tuned.extra["chosen"])
            return dataclasses.replace(tuned, model=SetFitLearner(C=C), settings={**said, "C of the head": C})

        # Not on reviews, for time: they have as many rows of each label, so there is nothing to balance, but
        # the C of SetFit's own head is not tuned there.
        if not plan.data.few_shot:
            trials.append(Trial(way=way("SetFit, tuned head"), fit=with_tuned_head, **limits))
    return trials
