"""Decisions on held-out rows: the weights of the blend, whether cluster models serve, the temperature.

Everything is decided on predictions for rows that the predicting models have not seen, of all tasks
together. A task's own rows are too few to decide for itself: that loses against no choice at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, FrozenInputs
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
from robusttc.multitask.blending import COMPONENTS, OWN_ONLY, BlendWeights, Table, learn_blend
from robusttc.multitask.predictor import Predictor
from robusttc.multitask.settings import MultiTaskSettings, default_settings
from robusttc.multitask.training import (
    STAGE,
    WHOLE,
    Request,
    Split,
    Trainer,
    TrainingData,
    check_learnable,
    clusters_to_train,
    draw_references,
    make_splits,
    own_requests,
    prepare_tasks,
)
from robusttc.progress import Progress
from robusttc.random import numpy_generator
from robusttc.stats import Estimate, difference_interval, mean_interval

Codes = NDArray[np.int64]
Rows = dict[str, NDArray[np.intp]]
# The held-out probabilities of what serves, and the codes of the right labels, by task.
HeldOutTables = dict[str, tuple[NDArray[np.float64], Codes]]

# Where cluster models serve whatever the verdict, they have at least this weight.
LEAST_CLUSTER_WEIGHT = 0.05
# Texts from outside that a task is shown.
MAX_OUTSIDE = 40
# Texts of other tasks on which two trainings are compared, per task.
MAX_AGREEMENT = 200


def deal_folds(task: Task, n_folds: int, seed: int, *, splits: Sequence[str] = ("train",)) -> Codes:
    """Return the fold of every row, for cross-validation within some splits.

    Rows of a label are dealt out like cards, so the folds have as many of each label as can be, give or take
    one, and are of equal size, give or take one. The only row of a label is in no fold (-1): held out, no
    model could know its label; it is always trained on. Rows that have the same text and label are dealt
    together: a copy of a held-out row in training would flatter the model. Rows of other splits have -1.

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

    train: tuple[Rows, ...]
    held: tuple[Rows, ...]

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
    dealt = {task.name: deal_folds(task, n_folds, seed, splits=splits) for task in tasks}
    rows = {task.name: task.rows(*splits) for task in tasks}
    return Folds(
        tuple({name: own[dealt[name][own] != fold] for name, own in rows.items()} for fold in range(n_folds)),
        tuple({name: np.flatnonzero(own == fold) for name, own in dealt.items()} for fold in range(n_folds)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Which held-out rows of a task are predicted `right` by ``own``, ``shared``, ``cluster`` and ``served``.

    Without clusters, ``cluster`` is not there; a private task has ``own`` and ``served`` only. Of test rows
    the label codes that each predicts are kept too, and which texts are `seen` in the training of another
    task (None for a private task).
    """

    rows: NDArray[np.intp]
    right: Mapping[str, NDArray[np.bool_]]
    predicted: Mapping[str, NDArray[np.int32]] = field(default_factory=dict)
    seen: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What was decided, and on what."""

    weights: BlendWeights
    clusters_serve: bool = False
    cluster_weights: Mapping[int, BlendWeights] = field(default_factory=dict)  # where they differ
    verdict: Verdict | None = None  # None where nothing was compared
    accuracy: dict[str, Estimate] = field(default_factory=dict)  # of models and blends, over tasks
    held_out: dict[str, HeldOutRows] = field(default_factory=dict)  # by task
    served: HeldOutTables = field(default_factory=dict)


def decide(trainer: Trainer, folds: Folds, *, cluster_models: str, n_random: int) -> Decision:
    """Train the models of all folds in one go, and decide what serves.

    `cluster_models` ``auto`` lets cluster models serve if the verdict says that they help, ``always`` and
    ``never`` do as they say (``never`` does not even train them); `n_random` is the number of draws of random
    clusters that are measured.
    """
    data, seed, names = trainer.data, trainer.seed, trainer.data.sharing
    partitions: list[Mapping[str, int]] = []
    if cluster_models != "never" and clusters_to_train(data.clusters):
        assert data.clusters is not None  # noqa: S101 - else there would be none to train
        draws = [draw_clusters(data.clusters, seed, draw) for draw in range(n_random)]
        partitions = [data.clusters, *draws]
    own, shared, clustered = predict_folds(trainer, folds, partitions)
    codes = {name: data.tasks[name].label_codes[folds.rows(name)].astype(np.int64) for name in own}
    if len(names) < 2:
        return Decision(OWN_ONLY, served={name: (own[name], codes[name]) for name in own})
    names = tuple(name for name in names if name in own)  # those that something was held out of
    shared_codes = {name: codes[name] for name in names}
    seen = None
    if data.seen is not None:
        seen = {name: data.seen.find(name, data.tasks[name].texts_at(folds.rows(name))) for name in names}

    def accuracies(table: Table) -> NDArray[np.float64]:
        return np.array([float((table[name].argmax(axis=1) == codes[name]).mean()) for name in names])

    tables: dict[str, Table] = {"own": own, "shared": shared, "prior": predict_prior(data, folds, names)}
    chosen = learn_blend(tables, shared_codes, seen)
    served = chosen.blended
    accuracy = {
        "own": accuracies(own),
        "shared": accuracies(shared),
        "blend without clusters": accuracies(served),
    }
    always, serve = cluster_models == "always", False
    judged: dict[str, Any] = {"cluster": None, "shared": accuracy["blend without clusters"]}
    judged |= {"otherwise": name_blend(chosen.weights), "always": always, "seed": seed}
    if clustered and names:
        least = LEAST_CLUSTER_WEIGHT if always else 0.0
        real, *random = [
            learn_blend(
                {**tables, "cluster": table},
                shared_codes,
                seen,
                least_cluster=lowest,
                clusters=clusters_to_train(partition),
            )
            for table, partition, lowest in zip(
                clustered, partitions, [least, *[0.0] * n_random], strict=True
            )
        ]
        accuracy["cluster"] = accuracies(clustered[0])
        accuracy["blend with clusters"] = judged["cluster"] = accuracies(real.blended)
        judged["random"] = np.array([accuracies(one.blended) for one in random]) if random else None
        verdict = make_verdict("multitask", **judged)
        tables["cluster"] = clustered[0]
        serve = always or (verdict.clusters_help and real.weights.uses("cluster"))
        chosen = real if serve else chosen
        served = chosen.blended
    else:
        verdict = make_verdict("multitask", **judged)
        if clustered and always:  # nothing is held out
            serve, chosen = True, learn_blend({**tables, "cluster": {}}, {}, None)
    tables["served"] = served
    held_out = {}
    for name in names:
        kinds: list[str] = [kind for kind in ("own", "shared", "cluster", "served") if kind in tables]
        right = {kind: tables[kind][name].argmax(axis=1) == codes[name] for kind in kinds}
        held_out[name] = HeldOutRows(folds.rows(name), right)
    blended = {name: (served.get(name, own[name]), codes[name]) for name in own}
    return Decision(
        chosen.weights, serve, chosen.of_cluster, verdict, estimate(accuracy, seed), held_out, blended
    )


def draw_clusters(clusters: Mapping[str, int], seed: int, draw: int) -> dict[str, int]:
    """Draw random clusters of the same sizes."""
    names = sorted(clusters)
    drawn = random_clusters_like([clusters[name] for name in names], seed, draw)
    return dict(zip(names, drawn.tolist(), strict=True))


def predict_folds(
    trainer: Trainer, folds: Folds, partitions: Sequence[Mapping[str, int]]
) -> tuple[Table, Table, list[Table]]:
    """Return the held-out predictions of single-task, shared and, for every partition, cluster models.

    A task without a cluster, or whose cluster has no model, has the prediction of its own model there. Draws
    depend on the names of a cluster's tasks, not on its number: numbering clusters otherwise changes nothing.
    """
    data, names = trainer.data, trainer.data.sharing
    splits: dict[str, Split] = {}
    own: list[list[Request]] = []
    shared: list[list[Request]] = []
    clusters: list[list[list[Request]]] = [[] for _ in partitions]
    for number, (train, held) in enumerate(zip(folds.train, folds.held, strict=True)):
        of_fold = make_splits(data, train, name=f"fold {number}", held=held)
        splits |= of_fold
        own.append(own_requests(of_fold))
        key = f"{WHOLE}, fold {number}"
        has_shared = key in of_fold and len(names) > 1
        shared.append([Request(key, "shared", names)] if has_shared else [])
        for place, partition in enumerate(partitions):
            members = clusters_to_train(partition).values() if has_shared else ()
            clusters[place].append([Request(key, "cluster", one) for one in members])
    every = [of_fold for of_kind in (own, shared, *clusters) for of_fold in of_kind]
    requests = list(dict.fromkeys(request for of_fold in every for request in of_fold))
    trainer.jobs.total += len(requests)
    trained = trainer.train(splits, requests)

    def predicted(requests: Sequence[Request]) -> Table:
        return {name: table for request in requests for name, table in trained[request].items()}

    tables = [predicted(requests) for requests in own]
    failed: list[str] = []
    for table, held in zip(tables, folds.held, strict=True):
        for name in held:
            if len(held[name]) and name not in table:
                n_labels = len(data.tasks[name].label_names)
                table[name] = np.full((len(held[name]), n_labels), 1 / n_labels)
                failed.append(name)
    warn_about_tasks("own models of some tasks could not be trained in some folds", failed)
    return (
        join_folds(tables),
        join_folds([predicted(requests) for requests in shared]),
        [
            join_folds(
                [table | predicted(requests) for table, requests in zip(tables, of_folds, strict=True)]
            )
            for of_folds in clusters
        ],
    )


def join_folds(by_fold: Sequence[Table]) -> Table:
    """Put the predictions of all folds together, task by task."""
    names = sorted({name for table in by_fold for name in table})
    return {name: np.concatenate([table[name] for table in by_fold if name in table]) for name in names}


def predict_prior(data: TrainingData, folds: Folds, names: Sequence[str]) -> Table:
    """Return for every held-out row how frequent labels are among the rows that its fold was trained on."""

    def by_fold(task: Task) -> Iterator[NDArray[np.float64]]:
        for train, held in zip(folds.train, folds.held, strict=True):
            codes = task.label_codes[train[task.name]]
            yield label_prior(codes, len(task.label_names), len(held[task.name]))

    return {name: np.concatenate(list(by_fold(data.tasks[name]))) for name in names}


def name_blend(weights: BlendWeights) -> str:
    """Return what serves without cluster models, as a clause."""
    if weights.uses("own") and weights.uses("shared"):
        return "a blend of single-task and shared models serves"
    return "the shared model serves" if weights.uses("shared") else "single-task models serve"


def estimate(accuracy: Mapping[str, NDArray[np.float64]], seed: int) -> dict[str, Estimate]:
    """Return the mean over tasks of every model's accuracy, and of differences, with intervals."""
    if not all(len(values) for values in accuracy.values()):
        return {}
    found = {kind: mean_interval(values, seed=seed) for kind, values in accuracy.items()}
    for other in ("shared", "own") if "cluster" in accuracy else ():
        found[f"cluster over {other}"] = difference_interval(accuracy["cluster"], accuracy[other], seed=seed)
    return found


def predict_held_out(predictor: Predictor, data: TrainingData, folds: Folds) -> HeldOutTables:
    """Return the probabilities of what serves for held-out rows that it has not seen, and their codes."""
    held = {name: folds.rows(name) for name in predictor.tasks}
    return {
        name: (predictor.raw_probabilities(name, data.take(name, rows)), data.rows(name, rows).codes)
        for name, rows in held.items()
    }


def calibrate(
    predictor: Predictor, data: TrainingData, folds: Folds, served: HeldOutTables, *, seed: int
) -> TrustReport:
    """Set the temperatures and the out-of-scope model of what serves, and report on both.

    The tasks of a cluster have one temperature; a private task has that of its own rows.
    """
    names = sorted(served)
    group_of = {name: task.cluster if task.may_share else name for name, task in predictor.tasks.items()}
    rows: dict[int | str, list[Any]] = {group: [] for group in group_of.values()}
    for name in names:
        rows[group_of[name]].append(served[name])
    temperatures = {group: find_temperature(of_group) for group, of_group in rows.items()}
    for name, task in predictor.tasks.items():
        predictor.tasks[name] = replace(task, temperature=temperatures[group_of[name]])
    examples = find_scope_examples(predictor, data, folds, seed=seed)
    predictor.scope = fit_scope(examples) if examples else None
    together = [name for name in names if predictor.tasks[name].may_share]
    groups = [predictor.tasks[name].cluster for name in together]
    return measure_trust([served[name] for name in together], examples, groups=groups)


def find_scope_examples(
    predictor: Predictor, data: TrainingData, folds: Folds, *, seed: int
) -> list[ScopeExample]:
    """Return what the out-of-scope model is fitted to: the held-out rows of the first fold.

    Texts of other clusters stand for what does not belong to a task: held-out rows of tasks of other
    clusters, or, where there is but one cluster, of other tasks; never a text that the task has itself.
    """
    cluster_of = {name: predictor.tasks[name].cluster for name in data.sharing}
    is_one = len(set(cluster_of.values())) == 1
    held = {name: data.rows(name, folds.held[0][name]).items for name in data.sharing}
    examples = []
    for name, cluster in cluster_of.items():
        train = data.rows(name, folds.train[0][name]).items
        others = [
            items
            for other, items in held.items()
            if other != name and (is_one or cluster_of[other] != cluster or cluster < 0)
        ]
        outside = np.setdiff1d(
            np.concatenate([np.zeros(0, np.int64), *others]), np.concatenate([train, held[name]])
        )
        if len(outside) == 0 or len(held[name]) == 0:
            continue
        outside = numpy_generator(seed, "outside", [name]).permutation(outside)[:MAX_OUTSIDE]
        asked = np.concatenate([held[name], outside])
        inputs, references = data.inputs_of(name), draw_references(name, train, seed)
        examples.append(
            ScopeExample(
                predictor.represent(name, inputs.take(references)),
                predictor.represent(name, inputs.take(asked)),
                np.arange(len(asked)) >= len(held[name]),
            )
        )
    return examples


def evaluate_rows(predictor: Predictor, data: TrainingData, split: str) -> dict[str, HeldOutRows]:
    """Return what each model of every task predicts for the rows of a split, and which of them are right."""
    found = {}
    for task in data.tasks:
        rows = task.rows(split)
        seen = data.find_seen(task.name, rows)
        predicted = predict_rows(predictor, task.name, data.take(task.name, rows), seen)
        right = {kind: codes == task.label_codes[rows] for kind, codes in predicted.items()}
        found[task.name] = HeldOutRows(rows, right, predicted, seen)
    return found


def predict_rows(
    predictor: Predictor, name: str, inputs: FrozenInputs, seen: NDArray[np.bool_] | None
) -> dict[str, NDArray[np.int32]]:
    """Return the label codes that ``own``, ``shared`` and ``cluster`` model and what is ``served`` predict.

    A model that stands in for one that could not be trained, with all labels alike, is left out.
    """
    tables = {kind: predictor.component(kind, name, inputs) for kind in COMPONENTS[:3]}
    known = {kind: table for kind, table in tables.items() if table is not None and not is_uniform(table)}
    known["served"] = predictor.raw_probabilities(name, inputs, seen)
    return {kind: table.argmax(axis=1).astype(np.int32) for kind, table in known.items()}


def is_uniform(table: NDArray[np.float64]) -> bool:
    """Return whether all labels are equally probable in all rows, of which there are some."""
    return len(table) > 0 and not np.ptp(table, axis=1).any()


def measure_agreement(
    first: Predictor, second: Predictor, data: TrainingData, *, seed: int
) -> Estimate | None:
    """Return how often two predictors predict the same label, on texts of other tasks; mean over tasks.

    None with fewer than two tasks that may share.
    """
    names = data.sharing
    items = {name: np.unique(data.rows(name, np.arange(len(data.tasks[name]))).items) for name in names}
    everything = np.unique(np.concatenate([np.zeros(0, np.int64), *items.values()]))
    shares = []
    for name in names:
        others = np.setdiff1d(everything, items[name], assume_unique=True)
        drawn = numpy_generator(seed, "agreement", [name]).permutation(others)[:MAX_AGREEMENT]
        if len(drawn):
            inputs = data.inputs_of(name).take(drawn)
            tables = [one.raw_probabilities(name, inputs).argmax(axis=1) for one in (first, second)]
            shares.append(float((tables[0] == tables[1]).mean()))
    return mean_interval(shares, seed=seed) if shares else None


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
    """Return whether clusters pay, as `ClusterMultiTask.fit` finds out before it trains what serves.

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
    n_sharing = len(tasks.shareable())
    if n_sharing < 2:
        got = f"{n_sharing:,} tasks that may share"
        raise DataError("there is nothing to compare", got=got, expected="at least two")
    data = prepare_tasks(tasks.shareable(), encoder, by_name, progress=progress)
    folds = make_folds(data.tasks, n_folds=n_folds, splits=("train", "valid"), seed=seed)
    settings = settings or default_settings(data.inputs_of(data.sharing[0]))
    with TrainingJobs(STAGE, runner, progress=progress) as jobs:
        trainer = Trainer(jobs, data, settings, seed)
        verdict = decide(trainer, folds, cluster_models="auto", n_random=n_random).verdict
        jobs.finish()
    assert verdict is not None  # noqa: S101 - at least two tasks share
    return verdict
