"""The rows of multi-task tables: the paper's with two encoders, ours, and what is usual today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.paper.clusters import Clusterings, Grouping, word_vectors
from benchmarks.paper.commonest import CommonestLabels
from benchmarks.paper.plan import Plan
from benchmarks.paper.table import Way
from benchmarks.paper.ways import Learned, Trial, describe_model, list_groupings, paper_way
from robusttc import TaskSet
from robusttc.baselines import (
    HolisticBaseline,
    LogisticRegressionBaseline,
    NearestNeighbourBaseline,
    SingleTaskBaseline,
)
from robusttc.multitask import ClusterMultiTask

__all__ = ["multitask_trials"]


def multitask_trials(plan: Plan, clusterings: Clusterings) -> list[Trial]:
    """Give all rows of a multi-task table, in its order."""
    trials = [trial for encoder in ("cnn", "sentence") for trial in paper_trials(plan, clusterings, encoder)]
    return [*trials, *our_trials(plan, clusterings), *trials_of_today(plan.data.tasks)]


def paper_trials(plan: Plan, clusterings: Clusterings, encoder: str) -> list[Trial]:
    """Give the paper's rows with one encoder."""
    tasks, settings, vectors = plan.data.tasks, plan.multitask[encoder], word_vectors(encoder)

    def single(seed: int) -> Learned:
        training = plan.single if encoder == "cnn" else plan.frozen_single
        model = SingleTaskBaseline(encoder, settings=training, vectors=vectors, random_state=seed)
        return Learned(model=model.fit(tasks), settings=describe_model(model))

    def holistic(names: tuple[str, ...] | None) -> Callable[[int], Learned]:
        def fit(seed: int) -> Learned:
            model = HolisticBaseline(
                encoder, targets=names, settings=settings, vectors=vectors, random_state=seed
            )
            model.fit(tasks)
            extra = {"epochs": max(model.estimator_.epochs_.values(), default=None)}
            return Learned(model=model, settings=describe_model(model), extra=extra)

        return fit

    trials = [
        Trial(way=paper_way("single task", encoder), fit=single),
        Trial(way=paper_way("holistic", encoder), fit=holistic(None)),
    ]
    for key, names in plan.data.targets.items():
        if len(names) < len(tasks):
            trials.append(
                Trial(
                    way=paper_way("holistic, target only", encoder),
                    fit=holistic(tuple(names)),
                    targets=(key,),
                )
            )
    for number in plan.asap if encoder == "sentence" else ():
        way = paper_way(f"ASAP-MTLR K={number}", encoder)
        trials.append(Trial(way=way, fit=linear_asap(clusterings, tasks, number), is_random=False))
    for name, group in list_groupings(plan, clusterings, encoder, tasks):
        trials.append(
            Trial(
                way=paper_way(name, encoder),
                fit=on_clusters(tasks, group, encoder, strategy="paper", settings=settings),
            )
        )
    return trials


def linear_asap(clusterings: Clusterings, tasks: TaskSet, number: int) -> Callable[[int], Learned]:
    """Give the maker of ASAP's own linear models."""

    def fit(seed: int) -> Learned:
        model = clusterings.asap_model(number, tasks=tasks, seed=seed)
        extra = {"penalty": model.value_, "tuning": model.tuning_, "converged": model.converged_}
        return Learned(model=model, settings=describe_model(model), extra=extra)

    return fit


def on_clusters(
    tasks: TaskSet, group: Callable[[int], Grouping], encoder: str, **options: Any
) -> Callable[[int], Learned]:
    """Give the maker of models on clusters."""

    def fit(seed: int) -> Learned:
        grouping = group(seed)
        model = ClusterMultiTask(encoder, vectors=word_vectors(encoder), random_state=seed, **options)
        model.fit(tasks, dict(grouping.groups))
        settings = {**describe_model(model), "clusters from": grouping.settings}
        return Learned(model=model, settings=settings, extra={**grouping.extra, **say_of_itself(model)})

    return fit


def say_of_itself(model: ClusterMultiTask) -> dict[str, Any]:
    """Give what a model says of itself."""
    if model.strategy == "paper":
        return {"epochs": {str(cluster): epochs for cluster, epochs in model.epochs_.items()}}
    said: dict[str, Any] = {"weights": model.weights_, "seen_weights": model.seen_weights_}
    if model.verdict_ is not None:
        said["verdict"] = model.verdict_.to_dict()
        said["parts"] = {name: part.to_dict() for name, part in model.held_out_accuracy_.items()}
    return said


def our_trials(plan: Plan, clusterings: Clusterings) -> list[Trial]:
    """Give our rows: the default, the same without clusters, and with the fine-tuned encoder."""
    tasks = plan.data.tasks

    def group(seed: int) -> Grouping:
        return clusterings.robust("default", "auto", encoder="sentence", tasks=tasks, seed=seed)

    def plain(seed: int) -> Learned:
        model = ClusterMultiTask("sentence", cluster_models="never", random_state=seed).fit(tasks)
        return Learned(model=model, settings=describe_model(model), extra=say_of_itself(model))

    def way(name: str) -> Way:
        return Way(way=f"ours: {name}", group="ours", encoder="sentence")

    trials = [
        Trial(way=way("blend"), fit=on_clusters(tasks, group, "sentence")),
        Trial(way=way("blend without clusters"), fit=plain),
    ]
    if "multitask" in plan.tuned:
        tuned = on_clusters(tasks, group, "sentence", tune="encoder")
        tuned_way = way("blend, tuned encoder")
        trials.append(Trial(way=tuned_way, fit=tuned, max_seeds=plan.tuned_seeds))
    if plan.data.kinds is not None:
        kinds = on_clusters(tasks, lambda _: clusterings.kinds(tasks=tasks), "sentence")
        trials.append(Trial(way=way("blend, true kinds"), fit=kinds))
    return trials


def trials_of_today(tasks: TaskSet) -> list[Trial]:
    """Give the rows of what a user would pick today."""

    def fitted(model: Any) -> Learned:
        model.fit(tasks)
        extra = {"chosen": model.value_, "tuning": model.tuning_}
        return Learned(model=model, settings=describe_model(model), extra=extra)

    def way(name: str) -> Way:
        return Way(way=f"today: {name}", group="today", encoder="sentence")

    return [
        Trial(
            way=way("logistic regression"),
            fit=lambda seed: fitted(LogisticRegressionBaseline("sentence", random_state=seed)),
            is_random=False,
        ),
        # Tuned once more: where one label is far the commonest, balancing costs accuracy.
        Trial(
            way=way("logistic regression, not balanced"),
            fit=lambda seed: fitted(
                LogisticRegressionBaseline("sentence", balanced=False, random_state=seed)
            ),
            is_random=False,
        ),
        Trial(
            way=way("nearest neighbours"),
            fit=lambda seed: fitted(NearestNeighbourBaseline("sentence", random_state=seed)),
            is_random=False,
        ),
        Trial(
            way=Way(way="today: commonest label", group="today", encoder=""),
            fit=lambda _: Learned(model=CommonestLabels().fit(tasks)),
            is_random=False,
        ),
    ]
