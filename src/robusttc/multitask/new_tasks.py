"""A task that comes later: nothing of trained models changes, it gets classifiers on their layers.

One job per task. It fits the task's own model, as the training of all tasks would have done, and classifiers
on the frozen layers of the shared model and of that of its cluster: without one fold of its rows, for a
comparison on these, and once more on all of its rows. What other tasks know of labels of the same name is not
lost: a classifier is held near the mean of its namesakes'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet, Vocabulary
from robusttc.encoders import Encoder, FrozenInputs, WordEncoder, load_encoder
from robusttc.errors import StoreError, quote
from robusttc.jobs import Job, Result
from robusttc.models import (
    ConvolutionLayer,
    find_temperature,
    join_arrays,
    label_key,
    label_prior,
    name_tasks,
    read_model_folder,
    rebuilding,
    split_arrays,
    to_half,
    write_model_folder,
)
from robusttc.multitask.blending import CLUSTER_ONLY, COMPONENTS, OWN_ONLY, BlendWeights, blend_rows
from robusttc.multitask.joint_training import SharedModel, TaskRows, converge_head, train_jointly
from robusttc.multitask.predictor import (
    OwnModel,
    Predictor,
    ServedTask,
    describe_own,
    fit_own,
    own_from,
    own_probabilities,
)
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.training import draw_references, to_reference
from robusttc.multitask.validation import deal_folds
from robusttc.random import numpy_generator
from robusttc.stats import Estimate, mean_interval

ADD_STAGE = "join"
KIND, VERSION = "robusttc-joined", 4
# The inverse penalty of classifiers on frozen layers, and how far they converge: half the steps of the
# default, and the same accuracy.
HEAD_C, HEAD_TOL = 3.0, 1e-2

Floats = NDArray[np.float32]
Right = NDArray[np.bool_]
Classifier = tuple[NDArray[np.float64], NDArray[np.float64]]  # weight (width, labels) and bias
Heads = dict[str, Floats]  # the arrays of one task's classifiers on one layer


@dataclass(frozen=True, slots=True, eq=False)
class NewWords:
    """What trained models of words lack to read a task: words that are numbered behind theirs.

    A private task has a reader of its own: nothing of it is to be seen beside the words of others.
    """

    words: tuple[str, ...] = ()
    vectors: Floats | None = None
    reader: Encoder | None = None

    def extend(self, base: Encoder) -> Encoder:
        """Return a reader of these words too."""
        if self.reader is not None:
            return self.reader
        if self.vectors is None:
            return base
        assert isinstance(base, WordEncoder)  # noqa: S101 - only words have words
        vocabulary = Vocabulary((*base.vocabulary.words, *self.words), base.vocabulary.lower)
        return WordEncoder(vocabulary, np.concatenate([base.vectors, self.vectors]))

    def extend_model(self, model: SharedModel) -> SharedModel:
        """Return a model that knows these words, with vectors as they come; its layer keeps all else."""
        layer = model.layer
        if self.vectors is None or not isinstance(layer, ConvolutionLayer) or layer.vectors is None:
            return model
        vectors = np.concatenate([layer.vectors, self.vectors])
        longer = ConvolutionLayer(layer.filters, layer.bias, vectors)
        heads = (model.weight, model.bias, model.n_epochs, model.converged)
        return SharedModel(longer, model.names, model.ends, *heads)


@dataclass(frozen=True, slots=True, eq=False)
class NewTask:
    """A task as it is trained on."""

    task: Task
    cluster: int  # -1 for none
    inputs: FrozenInputs  # one item per row of the task
    held_out: NDArray[np.intp]  # the rows of one fold, see `deal_folds`
    splits: tuple[str, ...]  # that models are trained on
    words: NewWords

    def rows(self, rows: NDArray[np.intp], *, valid: bool = False) -> TaskRows:
        """Return some rows as training takes them; items are the rows themselves."""
        return TaskRows.of(self.task, rows, lambda own: own, valid=valid)


@dataclass(frozen=True, slots=True, eq=False)
class AddInputs:
    """What all jobs see: the new tasks, the models that they are added to, and how these were trained."""

    tasks: Mapping[str, NewTask]
    shared: SharedModel | None
    clusters: Mapping[int, SharedModel]
    label_names: Mapping[str, tuple[str, ...]]
    settings: MultiTaskSettings
    seed: int
    strategy: str


@dataclass(frozen=True, slots=True, eq=False)
class AddedTask:
    """A task that was added later: its own model, and its classifiers on the shared and cluster model."""

    task: ServedTask
    own: OwnModel
    heads: Mapping[str, Heads]  # by kind of model, where there are such models
    words: NewWords
    reference: NDArray[np.float16] | None = None  # training representations for the out-of-scope score


def lay_out_task(
    task: Task,
    cluster: int,
    predictor: Predictor,
    encoder: Encoder,
    *,
    n_folds: int,
    seed: int,
    strategy: str,
) -> NewTask:
    """Turn all texts of a task into inputs of trained models; `encoder` knows words that they do not."""
    splits = ("train",) if strategy == "paper" else ("train", "valid")
    words = NewWords()
    if isinstance(predictor.reader, WordEncoder):
        own = encoder.for_new_texts(encoder.prepare(TaskSet([task])))
        assert isinstance(own, WordEncoder)  # noqa: S101 - the encoder of words reads words
        known = set(predictor.reader.vocabulary.words)
        places = [place for place, word in enumerate(own.vocabulary.words) if word not in known]
        if not task.may_share:
            words = NewWords(reader=own)
        elif places:
            new = tuple(own.vocabulary.words[place] for place in places)
            words = NewWords(new, own.vectors[places])
    inputs = words.extend(predictor.reader).read(list(task.texts))
    held_out = np.flatnonzero(deal_folds(task, n_folds, seed, splits=splits) == 0)
    return NewTask(task, cluster, inputs, held_out, splits, words)


def add_job(name: str) -> Job:
    """Make the job of a task; the shared data is the `AddInputs`."""
    return Job(f"{ADD_STAGE}/{name_tasks([name])}", train_new_task, name, (name,))


def train_new_task(inputs: AddInputs, name: str) -> Result:
    """Run a job: all models of one new task, and what those of its folds predict for held-out rows."""
    new, settings = inputs.tasks[name], inputs.settings
    bases = find_bases(inputs.shared, inputs.clusters, new.task.may_share, new.cluster, new.words)
    # Layers are frozen: every row is represented once.
    represented = {kind: base.layer.represent(new.inputs) for kind, base in bases.items()}
    near = {kind: namesakes_of(base, new.task, inputs.label_names) for kind, base in bases.items()}

    def train(rows: NDArray[np.intp], suffix: str) -> tuple[OwnModel, dict[str, Heads]]:
        own: OwnModel
        task = new.rows(rows, valid=inputs.strategy == "paper")
        if inputs.strategy == "paper":
            generator = numpy_generator(inputs.seed, f"cluster{suffix}, copy 0", [name])
            own = train_jointly(new.inputs, [task], settings=settings, generator=generator, stop_early=True)
        else:
            own = fit_own(new.inputs, task, settings=settings, seed=inputs.seed, stage=f"own{suffix}")
        return own, {kind: fit_heads(represented[kind][rows], task, near[kind], settings) for kind in bases}

    learned, held = new.task.rows(*new.splits), new.held_out
    tables: dict[str, NDArray[np.float64]] = {}
    if len(held):
        own, heads = train(np.setdiff1d(learned, held), ", fold 0")
        tables["own"] = own_probabilities(own, name, new.inputs.take(held))
        for kind, head in heads.items():
            tables[kind] = with_heads(bases[kind], name, head).classify(name, represented[kind][held])
    own, heads = train(learned, "")
    return Result(*split_arrays({"own": describe_own(own), "heads": heads, "held out": tables}))


def find_bases(
    shared: SharedModel | None,
    clusters: Mapping[int, SharedModel],
    may_share: bool,
    cluster: int,
    words: NewWords,
) -> dict[str, SharedModel]:
    """Return the models that a task may use, with room for its words."""
    found = {"shared": shared, "cluster": clusters.get(cluster)} if may_share else {}
    return {kind: words.extend_model(model) for kind, model in found.items() if model is not None}


def with_heads(model: SharedModel, name: str, heads: Heads) -> SharedModel:
    """Put the classifiers of one task on the layer that they were fitted for."""
    converged = None
    if "converged weight" in heads:
        converged = (heads["converged weight"], heads["converged bias"])
    ends = np.array([len(heads["bias"])])
    return SharedModel(model.layer, [name], ends, heads["weight"], heads["bias"], model.n_epochs, converged)


def fit_heads(
    representation: Floats, task: TaskRows, near: Classifier | None, settings: MultiTaskSettings
) -> Heads:
    """Fit the classifiers of a task on a frozen layer to convergence.

    The first takes the place of the jointly trained classifier: it is held near the mean of its namesakes' in
    other tasks. The second, plain one is there where jointly trained tasks have one (`settings.head_c`).
    """
    near = near if settings.share_labels else None
    weight, bias = converge_head(representation, task, settings.head_c or HEAD_C, near, HEAD_TOL)
    found = {"weight": to_half(weight), "bias": bias}
    if settings.head_c:
        weight, bias = converge_head(representation, task, settings.head_c, tol=HEAD_TOL)
        found |= {"converged weight": to_half(weight), "converged bias": bias}
    return found


def namesakes_of(
    model: SharedModel, task: Task, label_names: Mapping[str, tuple[str, ...]]
) -> Classifier | None:
    """Return the mean classifier of each label's namesakes in other tasks, 0 without any; None for none."""
    places: dict[str, list[int]] = {}
    for number, label in enumerate(label for name in model.names for label in label_names[name]):
        places.setdefault(label_key(label), []).append(number)
    weight, bias = np.zeros((len(task.label_names), model.weight.shape[1])), np.zeros(len(task.label_names))
    for place, label in enumerate(task.label_names):
        if found := places.get(label_key(label)):
            weight[place] = model.weight[found].mean(axis=0, dtype=np.float64)
            bias[place] = model.bias[found].mean()
    return (weight.T, bias) if weight.any() else None


def finish_task(
    new: NewTask,
    result: Result,
    predictor: Predictor,
    *,
    weights: BlendWeights,
    held_out: Mapping[str, Mapping[str, Right]],
    temperature: Mapping[int, float],
    strategy: str,
    seed: int,
) -> tuple[AddedTask, Estimate | None]:
    """Decide what serves a new task; return it with what it is expected to gain by sharing.

    The weights are those that were learned across tasks: one task's rows are too few to learn better ones.
    Its held-out rows answer another question: is it one of the few that lose by sharing?

    `weights` are those of the tasks that share, `temperature` those of their clusters, and `held_out` says
    which of their held-out rows are predicted right.
    """
    task, name = new.task, new.task.name
    content = join_arrays(result.values, result.arrays)
    heads, tables = content["heads"], content["held out"]
    weights = usable_weights(weights, {"own", *heads}, strategy=strategy)
    rows = new.rows(task.rows(*new.splits))
    shares = tuple(label_prior(rows.codes, rows.n_labels)[0].tolist())
    scale = temperature.get(new.cluster, 1.0)
    gain = None
    if tables:
        held = new.held_out
        codes = task.label_codes[held].astype(np.int64)
        # How frequent labels are hardly depends on the fold.
        tables["prior"] = np.tile(shares, (len(held), 1))
        blended = tables["own"]
        if weights.uses("shared") or weights.uses("cluster"):
            seen = None if predictor.seen is None else predictor.seen.find(name, task.texts_at(held))
            used = {kind: tables[kind] for kind in COMPONENTS if weights.uses(kind)}
            blended = blend_rows(used, weights, seen)
            right, own_right = (table.argmax(axis=1) == codes for table in (blended, tables["own"]))
            gain = expected_gain(right, own_right)
            if not pays(held_out, right, own_right):
                weights, blended = OWN_ONLY, tables["own"]
        if weights == OWN_ONLY:
            scale = find_temperature([(blended, codes)])
    served = ServedTask(name, task.label_names, shares, new.cluster, task.may_share, weights, scale)
    added = AddedTask(served, own_from(content["own"]), heads, new.words)
    references = new.inputs.take(draw_references(name, rows.items, seed))
    reference = to_reference(serve_added(predictor, added).represent(name, references))
    return dataclasses.replace(added, reference=reference), gain


def usable_weights(weights: BlendWeights, kinds: set[str], *, strategy: str = "blend") -> BlendWeights:
    """Return the weights of those models that a task has; they take over what the others would have weighed.

    So the sum, and with it how confident the blend is, stays the same.

    Examples
    --------
    >>> learned = BlendWeights((0.6, 0.2, 0.4, 0.0), (0.0, 0.9, 0.3, 0.0))
    >>> usable_weights(learned, {"own", "shared"}).novel
    (0.9, 0.3, 0.0, 0.0)
    >>> usable_weights(learned, {"own"}) == OWN_ONLY
    True
    """
    if strategy == "paper":
        return CLUSTER_ONLY if "cluster" in kinds else OWN_ONLY
    if kinds <= {"own"}:
        return OWN_ONLY
    sides: list[tuple[float, ...]] = []
    for side in (weights.novel, weights.seen):
        *models, prior = side
        kept = [weight if kind in kinds else 0.0 for kind, weight in zip(COMPONENTS, models, strict=False)]
        if not any(kept):
            return OWN_ONLY
        factor = sum(models) / sum(kept)
        sides.append((*(round(weight * factor, 12) for weight in kept), prior))
    return BlendWeights(sides[0], sides[1])


def expected_gain(served: Right, own: Right) -> Estimate:
    """Return the share of held-out rows that sharing gains, with its interval; rows are paired."""
    gain = mean_interval(served.astype(np.float64) - own.astype(np.float64))
    if gain.n < 2:
        return gain
    return Estimate(gain.mean, max(-1.0, gain.low), min(1.0, gain.high), gain.n)


def pays(held_out: Mapping[str, Mapping[str, Right]], served: Right, own: Right) -> bool:
    """Return whether sharing is expected to pay for a task.

    A task's own rows are few and the other tasks many, so both count: the gain of the task is drawn towards
    the mean gain of the other tasks, the more the fewer rows it has and the less tasks differ. Where nothing
    was held out of others, sharing does not pay if the task's own interval is below zero.
    """
    difference = served.astype(np.float64) - own.astype(np.float64)
    known = [
        right["served"].astype(np.float64) - right["own"].astype(np.float64)
        for right in held_out.values()
        if "served" in right and len(right["own"])
    ]
    if len(known) < 2:
        return not expected_gain(served, own).below_zero
    means = np.array([rows.mean() for rows in known])
    noise = np.array([squared_error(rows) for rows in known])
    spread = max(float(means.var(ddof=1) - noise.mean()), 1e-6)
    own_noise = squared_error(difference)
    expected = (difference.mean() * spread + means.mean() * own_noise) / (spread + own_noise)
    return bool(expected >= 0)


def squared_error(rows: NDArray[np.float64]) -> float:
    """Return the squared standard error of a mean of differences; a row is added, so that none is certain."""
    return float((rows.var() + 1.0 / len(rows)) / len(rows))


def serve_added(base: Predictor, added: AddedTask) -> Predictor:
    """Return what predicts for an added task: its own parts, on the layers of the models it was added to."""
    task = added.task
    bases = find_bases(base.shared, base.clusters, task.may_share, task.cluster, added.words)
    models = {kind: with_heads(bases[kind], task.name, heads) for kind, heads in added.heads.items()}
    return Predictor(
        {task.name: task},
        added.words.extend(base.reader),
        own={task.name: added.own},
        shared=models.get("shared"),
        clusters={task.cluster: models["cluster"]} if "cluster" in models else {},
        seen=base.seen,
        scope=base.scope,
        references={} if added.reference is None else {task.name: added.reference},
    )


def save_added(added: AddedTask, folder: str | PathLike[str], *, base: str) -> None:
    """Write an added task to a folder; `base` names the models that it belongs to."""
    words = added.words
    content = {
        "base": base,
        "task": dataclasses.asdict(added.task),
        "own": describe_own(added.own),
        "heads": added.heads,
        "words": [words.words, words.vectors, None if words.reader is None else words.reader.describe()],
        "reference": added.reference,
    }
    values, arrays = split_arrays(content)
    write_model_folder(folder, kind=KIND, version=VERSION, settings=values, arrays=arrays)


def load_added(folder: str | PathLike[str], *, base: str | None, device: str = "cpu") -> AddedTask:
    """Read what `save_added` wrote; `base` must be what it was given then, None does not check it.

    Raises
    ------
    StoreError
        If something is missing, damaged, from a later version, or belongs to other models.
    """
    content = join_arrays(*read_model_folder(folder, kind=KIND, version=VERSION))
    if base is not None and content.get("base") != base:
        raise StoreError(
            "the model of an added task belongs to other models than those of the run",
            where=quote(str(folder)),
            got=quote(content.get("base")),
            expected=quote(base),
            todo="bring the folder of the run back from a copy",
        )
    with rebuilding(folder, todo="add it again"):
        names, vectors, described = content["words"]
        reader = None if described is None else load_encoder(*described, device=device)
        return AddedTask(
            ServedTask.from_dict(content["task"]),
            own_from(content["own"]),
            content["heads"],
            NewWords(tuple(names), vectors, reader),
            content["reference"],
        )
