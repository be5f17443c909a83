"""Decisions on held-out rows: the weights of the blend, whether cluster models serve, the temperature.

Everything is decided on predictions for rows that the predicting models have not seen, of all tasks
together. A task's own rows are too few to decide for itself: that loses against no choice at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder
from robusttc.errors import DataError, UsageError, quote
from robusttc.jobs import Runner
from robusttc.models import (
    Clusters,
    ScopeExample,
    TrainingJobs,
    TrustReport,
    Verdict,
    check_clusters,
    find_temperature,
    fit_scope,
    label_prior,
    make_verdict,
    measure_trust,
    random_clusters_like,
    warn_about_tasks,
)
from robusttc.multitask.blending import COMPONENTS, BlendWeights, learn_blend
from robusttc.multitask.predictor import Predictor
from robusttc.multitask.settings import MultiTaskSettings, default_settings
from robusttc.multitask.training import (
    STAGE,
    JobInputs,
    Request,
    Split,
    Trained,
    TrainingData,
    check_learnable,
    clusters_to_train,
    draw_references,
    own_requests,
    prepare_tasks,
    train_models,
)
from robusttc.progress import Progress
from robusttc.random import numpy_generator
from robusttc.stats import Estimate, difference_interval, mean_interval

__all__ = [
    "Decision",
    "Folds",
    "HeldOutRows",
    "assess_multitask",
    "calibrate",
    "count_fold_jobs",
    "deal_folds",
    "decide",
    "evaluate_rows",
    "make_folds",
    "measure_agreement",
]

Numbers = NDArray[np.int64]
Table = dict[str, NDArray[np.float64]]

# Where cluster models serve whatever the verdict, they have at least this weight.
LEAST_CLUSTER_WEIGHT = 0.05
# Texts of other tasks on which two predictors are compared.
MAX_AGREEMENT = 100
# Texts from outside that a task is shown.
MAX_OUTSIDE = 40


def deal_folds(
    task: Task, n_folds: int, seed: int, *, splits: Sequence[str] = ("train",)
) -> NDArray[np.int64]:
    """Return the fold of every row, for cross-validation within some splits.

    Rows of a label are dealt out like cards, so the folds have as many of each label as can be, give or take
    one, and are of equal size, give or take one. The only row of a label is in no fold (-1): held out, no
    model could know its label; it is always trained on. Rows that have the same text and label are dealt
    together: a copy of a held-out row in training would flatter the model. Rows of other splits have -1.

    Raises
    ------
    UsageError
        If there are fewer than two folds.

    Examples
    --------
    >>> task = Task("a", ["one", "two", "three", "four", "five"], ["x", "x", "x", "x", "y"])
    >>> folds = deal_folds(task, 2, seed=0)
    >>> sorted(folds[:4].tolist()), int(folds[4])
    ([0, 0, 1, 1], -1)
    """
    if not isinstance(n_folds, int) or isinstance(n_folds, bool) or n_folds < 2:
        raise UsageError("n_folds cannot be used", got=quote(n_folds), expected="an integer from 2 up")
    folds = np.full(len(task), -1, dtype=np.int64)
    dealt = task.rows(*splits)
    sizes = np.zeros(n_folds, dtype=np.int64)
    for code, label in enumerate(task.label_names):
        rows = dealt[task.label_codes[dealt] == code]
        number_of_text: dict[str, int] = {}
        numbers = [number_of_text.setdefault(text, len(number_of_text)) for text in task.texts_at(rows)]
        n_texts = len(number_of_text)
        if n_texts < 2:
            continue
        generator = numpy_generator(seed, "folds", [task.name, label])
        order = generator.permutation(n_texts)
        # Among folds of equal size chance decides, or the first folds would get all small labels.
        preference = np.lexsort((generator.random(n_folds), sizes))
        fold_of_text = np.empty(n_texts, dtype=np.int64)
        fold_of_text[order] = preference[np.arange(n_texts) % n_folds]
        folds[rows] = fold_of_text[numbers]
        sizes += np.bincount(folds[rows], minlength=n_folds)
    return folds


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """For every fold, the rows of each task that its models are trained on, and those that are held out."""

    train: tuple[dict[str, NDArray[np.intp]], ...]
    held: tuple[dict[str, NDArray[np.intp]], ...]

    def rows(self, name: str) -> NDArray[np.intp]:
        """Return the held-out rows of a task, fold after fold."""
        return np.concatenate([held[name] for held in self.held])


def make_folds(tasks: TaskSet, *, n_folds: int | None, splits: Sequence[str], seed: int) -> Folds:
    """Deal the rows of some splits into folds.

    With `n_folds` None there is one fold, which is trained on ``train`` and holds out ``valid``: for encoders
    that were fine-tuned on the rows in ``train``, and so have seen every one of them.
    """
    if n_folds is None:
        train = {task.name: task.rows("train") for task in tasks}
        return Folds((train,), ({task.name: task.rows("valid") for task in tasks},))
    numbers = {task.name: deal_folds(task, n_folds, seed, splits=splits) for task in tasks}
    rows = {task.name: task.rows(*splits) for task in tasks}
    return Folds(
        tuple(
            {name: own[numbers[name][own] != fold] for name, own in rows.items()} for fold in range(n_folds)
        ),
        tuple(
            {name: np.flatnonzero(own == fold) for name, own in numbers.items()} for fold in range(n_folds)
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Which held-out rows of a task each model predicts right.

    Attributes
    ----------
    rows
        The numbers of the rows.
    right
        For ``own``, ``shared``, ``cluster`` and ``served``, whether each is predicted right. Without
        clusters, ``cluster`` is not there; a private task has ``own`` and ``served`` only.
    """

    rows: NDArray[np.intp]
    right: Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What was decided, and on what.

    Attributes
    ----------
    weights
        The weights of the blend; None where fewer than two tasks may share.
    clusters_serve
        Whether cluster models have a weight.
    verdict
        Whether clusters pay; None where nothing was compared.
    accuracy
        The mean accuracy of each model alone and of each blend, and differences of them, over tasks.
    held_out
        Which held-out rows are predicted right, by task.
    served
        The held-out probabilities of what serves, and the codes of the right labels, by task.
    """

    weights: BlendWeights | None
    clusters_serve: bool
    verdict: Verdict | None
    accuracy: dict[str, Estimate]
    held_out: dict[str, HeldOutRows]
    served: dict[str, tuple[NDArray[np.float64], Numbers]]


def decide(
    jobs: TrainingJobs,
    data: TrainingData,
    folds: Folds,
    *,
    cluster_models: str,
    n_random: int,
    settings: MultiTaskSettings,
    seed: int,
) -> Decision:
    """Train the models of all folds in one go, and decide what serves.

    `cluster_models` ``auto`` lets cluster models serve if the verdict says that they help, ``always`` and
    ``never`` do as they say (``never`` does not even train them); `n_random` is the number of draws of random
    clusters that are measured.
    """
    partitions: list[dict[str, int]] = []
    if cluster_models != "never" and clusters_to_train(data.clusters):
        assert data.clusters is not None  # noqa: S101 - else there would be none to train
        draws = [draw_clusters(data.clusters, seed, draw) for draw in range(n_random)]
        partitions = [data.clusters, *draws]
    own, shared, clustered = predict_folds(jobs, data, folds, partitions, settings=settings, seed=seed)
    codes = {name: data.tasks[name].label_codes[folds.rows(name)].astype(np.int64) for name in own}
    shares = len(data.shareable) > 1
    names = [name for name in own if shares and data.tasks[name].may_share]
    if not shares:
        return Decision(None, False, None, {}, {}, {name: (own[name], codes[name]) for name in own})
    shared_codes = {name: codes[name] for name in names}
    seen = None
    if data.seen is not None:
        seen = {name: data.seen.find(name, data.tasks[name].texts_at(folds.rows(name))) for name in names}
    tables: dict[str, Table] = {"own": own, "shared": shared, "prior": predict_prior(data, folds, names)}
    weights, served = learn_blend(tables, shared_codes, seen)
    accuracy = {
        "own": accuracies(own, codes, names),
        "shared": accuracies(shared, codes, names),
        "blend without clusters": accuracies(served, codes, names),
    }
    serve, always = False, cluster_models == "always"
    options: dict[str, Any] = {"shared": accuracy["blend without clusters"], "seed": seed}
    options |= {"otherwise": name_blend(weights), "always": always}
    if not clustered or not names:
        verdict = make_verdict("multitask", cluster=None, **options)
        if clustered and always:
            serve, weights = True, learn_blend({**tables, "cluster": {}}, {}, None)[0]
    else:
        tables["cluster"] = clustered[0]
        least = LEAST_CLUSTER_WEIGHT if always else 0.0
        with_weights, with_clusters = learn_blend(tables, shared_codes, seen, least_cluster=least)
        random = [
            accuracies(learn_blend({**tables, "cluster": table}, shared_codes, seen)[1], codes, names)
            for table in clustered[1:]
        ]
        accuracy["cluster"] = accuracies(clustered[0], codes, names)
        accuracy["blend with clusters"] = accuracies(with_clusters, codes, names)
        verdict = make_verdict(
            "multitask",
            cluster=accuracy["blend with clusters"],
            random=np.array(random) if random else None,
            **options,
        )
        serve = always or (verdict.clusters_help and with_weights.uses("cluster"))
        if serve:
            weights, served = with_weights, with_clusters
    tables["served"] = served
    kinds = [kind for kind in ("own", "shared", "cluster", "served") if kind in tables]
    held_out = {
        name: HeldOutRows(
            folds.rows(name), {kind: tables[kind][name].argmax(axis=1) == codes[name] for kind in kinds}
        )
        for name in names
    }
    for name in set(own) - set(names):
        served[name] = own[name]
    found = {name: (served[name], codes[name]) for name in own}
    return Decision(weights, serve, verdict, estimate(accuracy, seed), held_out, found)


def draw_clusters(clusters: Mapping[str, int], seed: int, draw: int) -> dict[str, int]:
    """Draw random clusters of the same sizes."""
    names = sorted(clusters)
    drawn = random_clusters_like([clusters[name] for name in names], seed, draw)
    return dict(zip(names, drawn.tolist(), strict=True))


@dataclass(slots=True, eq=False)
class FoldPlan:
    """What is to be trained in every fold: single-task models, the shared one, the clusters of partitions."""

    splits: dict[str, Split]
    own: list[list[Request]]
    shared: list[list[Request]]
    clusters: list[list[list[Request]]]

    def requests(self) -> list[Request]:
        """Return all requests, each once."""
        clusters = [of_fold for of_partition in self.clusters for of_fold in of_partition]
        found = [request for of_fold in (*self.own, *self.shared, *clusters) for request in of_fold]
        return list(dict.fromkeys(found))


def plan_folds(data: TrainingData, folds: Folds, partitions: Sequence[Mapping[str, int]]) -> FoldPlan:
    """Plan the training of all folds; a fold that holds out nothing has none.

    Draws depend on the names of a cluster's tasks, not on its number: numbering clusters otherwise changes
    nothing.
    """
    plan = FoldPlan({}, [], [], [[] for _ in partitions])
    names = tuple(sorted(data.shareable.names))
    alone = [(name,) for name in (*data.private, *(names if len(names) == 1 else ()))]
    for number, (train, held) in enumerate(zip(folds.train, folds.held, strict=True)):
        suffix = f", fold {number}"
        own: list[Request] = []
        for members in (*alone, *([names] if len(names) > 1 else [])):
            prepared = data.private.get(members[0], data.prepared)
            assert prepared is not None  # noqa: S101 - its tasks were prepared
            items = {name: prepared.items_of(name, held[name]) for name in members if len(held[name])}
            if items:
                key = f"{members[0] if len(members) == 1 else 'all'}{suffix}"
                rows = {name: data.rows(name, train[name]) for name in members}
                plan.splits[key] = Split(f"fold {number}", prepared.inputs, rows, items, suffix)
                own += own_requests(key, plan.splits[key])
        key = f"all{suffix}"
        is_shared = key in plan.splits
        plan.own.append(own)
        plan.shared.append([Request(key, "shared", names)] if is_shared else [])
        for place, partition in enumerate(partitions):
            found = clusters_to_train(partition).values() if is_shared else ()
            plan.clusters[place].append([Request(key, "cluster", members) for members in found])
    return plan


def predict_folds(
    jobs: TrainingJobs,
    data: TrainingData,
    folds: Folds,
    partitions: Sequence[Mapping[str, int]],
    *,
    settings: MultiTaskSettings,
    seed: int,
) -> tuple[Table, Table, list[Table]]:
    """Return the held-out predictions of single-task, shared and, for every partition, cluster models.

    A task without a cluster, or whose cluster has no model, has the prediction of its own model there.
    """
    plan = plan_folds(data, folds, partitions)
    trained = train_models(jobs, JobInputs(plan.splits, settings, seed), plan.requests())

    def predicted(requests: Sequence[Request]) -> Table:
        found: Table = {}
        for request in requests:
            found |= (trained[request] or Trained()).predictions
        return found

    own = [predicted(requests) for requests in plan.own]
    failed: list[str] = []
    for table, held in zip(own, folds.held, strict=True):
        for name in held:
            if len(held[name]) and name not in table:
                n_labels = len(data.tasks[name].label_names)
                table[name] = np.full((len(held[name]), n_labels), 1 / n_labels)
                failed.append(name)
    warn_about_tasks("own models of some tasks could not be trained in some folds", failed)
    clusters = [
        join_folds([table | predicted(requests) for table, requests in zip(own, of_folds, strict=True)])
        for of_folds in plan.clusters
    ]
    return join_folds(own), join_folds([predicted(requests) for requests in plan.shared]), clusters


def join_folds(by_fold: Sequence[Table]) -> Table:
    """Put the predictions of all folds together, task by task."""
    names = sorted({name for table in by_fold for name in table})
    return {name: np.concatenate([table[name] for table in by_fold if name in table]) for name in names}


def predict_prior(data: TrainingData, folds: Folds, names: Sequence[str]) -> Table:
    """Return for every held-out row how frequent labels are among the rows that its fold was trained on."""
    return {
        name: np.concatenate(
            [
                label_prior(
                    data.tasks[name].label_codes[train[name]],
                    len(data.tasks[name].label_names),
                    len(held[name]),
                )
                for train, held in zip(folds.train, folds.held, strict=True)
            ]
        )
        for name in names
    }


def name_blend(weights: BlendWeights) -> str:
    """Return what serves without cluster models, as a clause.

    >>> name_blend(BlendWeights((1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)))
    'single-task models serve'
    """
    if weights.uses("own") and weights.uses("shared"):
        return "a blend of single-task and shared models serves"
    return "the shared model serves" if weights.uses("shared") else "single-task models serve"


def accuracies(table: Table, codes: Mapping[str, Numbers], names: Sequence[str]) -> NDArray[np.float64]:
    """Return the accuracy of every task."""
    return np.array([float((table[name].argmax(axis=1) == codes[name]).mean()) for name in names])


def estimate(accuracy: Mapping[str, NDArray[np.float64]], seed: int) -> dict[str, Estimate]:
    """Return the mean over tasks of every model's accuracy, and of differences, with intervals."""
    if not all(len(values) for values in accuracy.values()):
        return {}
    found = {kind: mean_interval(values, seed=seed) for kind, values in accuracy.items()}
    if "cluster" in accuracy:
        for other in ("shared", "own"):
            difference = difference_interval(accuracy["cluster"], accuracy[other], seed=seed)
            found[f"cluster over {other}"] = difference
    return found


def calibrate(
    predictor: Predictor, data: TrainingData, folds: Folds, decision: Decision | None, *, seed: int
) -> TrustReport:
    """Set the temperature and the out-of-scope model of what serves, and report on both.

    Tasks that share have one temperature; a private task has that of its own rows. Without a decision (the
    paper's strategy) the held-out rows are those in ``valid``.
    """
    if decision is None:
        served = {
            name: (predictor.raw_probabilities(name, data.inputs_of(name).take(rows.items)), rows.codes)
            for name in predictor.tasks
            for rows in [data.rows(name, folds.rows(name))]
        }
    else:
        served = dict(decision.served)
    together = [name for name in sorted(served) if predictor.tasks[name].may_share]
    shared = find_temperature([served[name] for name in together])
    for name, task in predictor.tasks.items():
        own = [served[name]] if name in served else []
        temperature = shared if task.may_share else find_temperature(own)
        predictor.tasks[name] = replace(task, temperature=temperature)
    examples = []
    if data.prepared is not None:
        examples = find_scope_examples(predictor, data, folds, seed=seed)
        predictor.scope = fit_scope(examples) if examples else None
    return measure_trust([served[name] for name in together], examples)


def find_scope_examples(
    predictor: Predictor, data: TrainingData, folds: Folds, *, seed: int
) -> list[ScopeExample]:
    """Return what the out-of-scope model is fitted to: the held-out rows of the first fold.

    Texts of other clusters stand for what does not belong to a task: held-out rows of tasks of other
    clusters, or, where there is but one cluster, of other tasks; never a text that the task has itself.
    """
    names = sorted(data.shareable.names)
    cluster_of = {name: predictor.tasks[name].cluster for name in names}
    is_one = len(set(cluster_of.values())) == 1
    held = {name: data.rows(name, folds.held[0][name]) for name in names}
    examples = []
    for name in names:
        train, own = data.rows(name, folds.train[0][name]), cluster_of[name]
        others = [
            held[other].items
            for other in names
            if other != name and (is_one or cluster_of[other] != own or own < 0)
        ]
        mine = np.concatenate([train.items, held[name].items])
        outside = np.setdiff1d(np.concatenate([*others, np.zeros(0, dtype=np.int64)]), mine)
        if len(outside) == 0 or len(held[name].items) == 0:
            continue
        outside = numpy_generator(seed, "outside", [name]).permutation(outside)[:MAX_OUTSIDE]
        asked = np.concatenate([held[name].items, outside])
        inputs = data.inputs_of(name)
        examples.append(
            ScopeExample(
                predictor.represent(name, inputs.take(draw_references(name, train.items, seed))),
                predictor.represent(name, inputs.take(asked)),
                np.arange(len(asked)) >= len(held[name].items),
            )
        )
    return examples


def assess_multitask(
    tasks: TaskSet,
    clusters: Clusters,
    *,
    encoder: Encoder,
    settings: MultiTaskSettings | None = None,
    n_folds: int = 3,
    n_random: int = 1,
    seed: int = 0,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Tell whether clusters pay, as `ClusterMultiTask.fit` does before it trains what serves.

    Raises
    ------
    UsageError
        If the clusters cannot be used.
    DataError
        If a task cannot be learned, or fewer than two may share.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> tasks = TaskSet(Task(name, ["text"] * 8, ["x", "y"] * 4) for name in "abc")
    >>> encoder = FeatureEncoder(dict.fromkeys("abc", np.tile(np.eye(2), (4, 1))))
    >>> settings = MultiTaskSettings(width=4, min_steps=5)
    >>> assess_multitask(tasks, [0, 0, 1], encoder=encoder, settings=settings).clusters_help
    False
    """
    check_learnable(tasks)
    by_name = dict(zip(tasks.names, check_clusters(tasks, clusters).tolist(), strict=True))
    data = prepare_tasks(tasks.shareable(), encoder, by_name, progress=progress)
    if data.prepared is None or len(data.tasks) < 2:
        raise DataError(
            "there is nothing to compare",
            got=f"{len(data.tasks):,} tasks that may share",
            expected="at least two",
        )
    folds = make_folds(data.tasks, n_folds=n_folds, splits=("train", "valid"), seed=seed)
    options: dict[str, Any] = {"cluster_models": "auto", "n_random": n_random, "seed": seed}
    settings = settings or default_settings(data.prepared.inputs)
    total = count_fold_jobs(data, folds, cluster_models="auto", n_random=n_random)
    with TrainingJobs(STAGE, runner, progress=progress, total=total) as jobs:
        decision = decide(jobs, data, folds, settings=settings, **options)
        jobs.finish()
    assert decision.verdict is not None  # noqa: S101 - at least two tasks share
    return decision.verdict


def count_fold_jobs(data: TrainingData, folds: Folds, *, cluster_models: str, n_random: int) -> int:
    """Return how many jobs `decide` has at most."""
    n_partitions = 0 if cluster_models == "never" else 1 + n_random
    plan = plan_folds(data, folds, [data.clusters or {}])
    n_clusters = sum(len(requests) for requests in plan.clusters[0])
    return len(plan.requests()) + (n_partitions - 1) * n_clusters


def evaluate_rows(predictor: Predictor, data: TrainingData, split: str) -> dict[str, HeldOutRows]:
    """Return which rows of a split each model of every task predicts right."""
    found = {}
    for task in data.tasks:
        rows = data.rows(task.name, task.rows(split))
        inputs = data.inputs_of(task.name).take(rows.items)
        tables = {kind: predictor.component(kind, task.name, inputs) for kind in COMPONENTS[:3]}
        seen = data.find_seen(task.name, task.rows(split))
        tables["served"] = predictor.raw_probabilities(task.name, inputs, seen)
        right = {
            kind: table.argmax(axis=1) == rows.codes for kind, table in tables.items() if table is not None
        }
        found[task.name] = HeldOutRows(task.rows(split), right)
    return found


def measure_agreement(
    first: Predictor, second: Predictor, data: TrainingData, *, seed: int
) -> Estimate | None:
    """Return how often two predictors predict the same label, on texts of other tasks; mean over tasks.

    None with fewer than two tasks that may share.
    """
    names = sorted(data.shareable.names)
    if len(names) < 2:
        return None
    items = {name: np.unique(data.rows(name, np.arange(len(data.tasks[name]))).items) for name in names}
    shares = []
    for name in names:
        others = np.setdiff1d(np.concatenate([items[other] for other in names]), items[name])
        drawn = numpy_generator(seed, "agreement", [name]).permutation(others)[:MAX_AGREEMENT]
        if len(drawn):
            inputs = data.inputs_of(name).take(drawn)
            tables = [one.raw_probabilities(name, inputs).argmax(axis=1) for one in (first, second)]
            shares.append(float((tables[0] == tables[1]).mean()))
    return mean_interval(shares) if shares else None
