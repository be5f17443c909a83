"""A task that comes later: nothing of trained models changes, it gets classifiers on their layers.

One job per task. It fits the task's own model, as the training of all tasks would have done, and classifiers
on the frozen layers of the shared model and of that of its cluster: in every fold, for a comparison on rows
that were held out, and once more on all of its rows. What other tasks know of labels of the same name is not
lost: one of the two classifiers is held near the mean of its namesakes'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet, Vocabulary
from robusttc.encoders import Encoder, FrozenInputs, WordEncoder, load_encoder
from robusttc.errors import RobustTCError, StoreError, quote
from robusttc.jobs import Job, Result
from robusttc.models import (
    ConvolutionLayer,
    arrays_under,
    find_temperature,
    label_key,
    label_prior,
    name_tasks,
    read_model_folder,
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
from robusttc.multitask.training import draw_references, find_rows
from robusttc.multitask.validation import deal_folds
from robusttc.random import numpy_generator
from robusttc.stats import Estimate, mean_interval

__all__ = [
    "ADD_STAGE",
    "AddInputs",
    "AddedTask",
    "NewTask",
    "add_job",
    "finish_task",
    "lay_out_task",
    "load_added",
    "save_added",
    "serve_added",
]

ADD_STAGE = "join"
KIND, VERSION = "robusttc-joined", 2

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Right = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class NewTask:
    """What is trained on: the task's texts as inputs of the models, and what these must learn to read.

    Attributes
    ----------
    task, cluster
        The task, and its cluster; -1 for none.
    inputs
        Its frozen inputs, one item per row of the task.
    folds
        The fold of every row; see `robusttc.multitask.validation.deal_folds`.
    splits
        The splits that models are trained on.
    words, vectors
        Words that the models have not seen, which are numbered behind theirs, and their vectors.
    reader
        For a private task, where inputs are words: a reader of its own.
    """

    task: Task
    cluster: int
    inputs: FrozenInputs
    folds: Numbers
    splits: tuple[str, ...]
    words: tuple[str, ...] = ()
    vectors: Floats | None = None
    reader: Encoder | None = None

    def rows(self, rows: NDArray[np.intp], *, valid: bool = False) -> TaskRows:
        """Return some rows as training takes them; items are the rows themselves."""
        return find_rows(self.task, rows, lambda own: own, valid=valid)

    @property
    def held_out(self) -> NDArray[np.intp]:
        """The held-out rows, fold after fold."""
        return np.concatenate(
            [np.flatnonzero(self.folds == fold) for fold in range(int(self.folds.max(initial=-1)) + 1)]
            or [np.zeros(0, dtype=np.intp)]
        )


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
    """A task that was added later.

    Attributes
    ----------
    task
        What is known of it, with its weights and its temperature.
    own
        Its single-task model.
    heads
        Arrays of its classifiers on the ``shared`` and ``cluster`` model, where there are such models.
    reference
        Training representations for the out-of-scope score.
    words, vectors, reader
        As in `NewTask`.
    """

    task: ServedTask
    own: OwnModel
    heads: Mapping[str, Mapping[str, Floats]]
    reference: Floats | None = None
    words: tuple[str, ...] = ()
    vectors: Floats | None = None
    reader: Encoder | None = None


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
    folds = deal_folds(task, n_folds, seed, splits=splits)
    texts = list(task.texts)
    if not isinstance(predictor.reader, WordEncoder):
        return NewTask(task, cluster, predictor.reader.read(texts), folds, splits)
    own = encoder.for_new_texts(encoder.prepare(TaskSet([task])))
    assert isinstance(own, WordEncoder)  # noqa: S101 - the encoder of words reads words
    if not task.may_share:
        # Numbers and words of its own: nothing of it is to be seen beside those of others.
        return NewTask(task, cluster, own.read(texts), folds, splits, reader=own)
    known = set(predictor.reader.vocabulary.words)
    places = [place for place, word in enumerate(own.vocabulary.words) if word not in known]
    words = tuple(own.vocabulary.words[place] for place in places)
    vectors = own.vectors[places] if words else None
    inputs = longer_reader(predictor.reader, words, vectors).read(texts)
    return NewTask(task, cluster, inputs, folds, splits, words, vectors)


def longer_reader(reader: Encoder, words: Sequence[str], vectors: Floats | None) -> Encoder:
    """Return a reader that knows more words."""
    if not words or vectors is None:
        return reader
    assert isinstance(reader, WordEncoder)  # noqa: S101 - only words have words
    vocabulary = Vocabulary((*reader.vocabulary.words, *words), reader.vocabulary.lower)
    return WordEncoder(vocabulary, np.concatenate([reader.vectors, vectors]))


def add_job(name: str) -> Job:
    """Make the job of a task; the shared data is the `AddInputs`."""
    return Job(f"{ADD_STAGE}/{name_tasks([name])}", train_new_task, name, (name,))


def train_new_task(inputs: AddInputs, name: str) -> Result:
    """Run a job: all models of one new task, and what those of its folds predict for held-out rows."""
    new = inputs.tasks[name]
    bases = find_bases(inputs.shared, inputs.clusters, new.task.may_share, new.cluster, new.vectors)
    rows = new.task.rows(*new.splits)
    tables: dict[str, list[NDArray[np.float64]]] = {}
    for fold in range(int(new.folds.max(initial=-1)) + 1):
        held = np.flatnonzero(new.folds == fold)
        if len(held):
            own, heads = train_all(inputs, new, bases, rows[new.folds[rows] != fold], f", fold {fold}")
            asked = new.inputs.take(held)
            tables.setdefault("own", []).append(own_probabilities(own, name, asked))
            for kind, head in heads.items():
                model = with_head(bases[kind], name, head)
                tables.setdefault(kind, []).append(model.probabilities(name, asked))
    own, heads = train_all(inputs, new, bases, rows, "")
    values, arrays = describe_own(own)
    arrays = {f"own/{key}": array for key, array in arrays.items()}
    for kind, head in heads.items():
        arrays |= {f"{kind}/{key}": array for key, array in head.items()}
    for kind, found in tables.items():
        arrays[f"held/{kind}"] = np.concatenate(found)
    return Result({"own": values, "kinds": sorted(heads)}, arrays)


def find_bases(
    shared: SharedModel | None,
    clusters: Mapping[int, SharedModel],
    may_share: bool,
    cluster: int,
    vectors: Floats | None,
) -> dict[str, SharedModel]:
    """Return the models that a task may use, with room for its words."""
    found = {"shared": shared, "cluster": clusters.get(cluster)} if may_share else {}
    return {kind: with_words(model, vectors) for kind, model in found.items() if model is not None}


def with_words(model: SharedModel, vectors: Floats | None) -> SharedModel:
    """Return a model that knows more words, with vectors as they come; its layer keeps all else."""
    layer = model.layer
    if vectors is None or not isinstance(layer, ConvolutionLayer) or layer.vectors is None:
        return model
    longer = ConvolutionLayer(layer.filters, layer.bias, np.concatenate([layer.vectors, vectors]))
    return SharedModel(
        longer, model.names, model.ends, model.weight, model.bias, model.n_epochs, model.converged
    )


def with_head(model: SharedModel, name: str, head: Mapping[str, Floats]) -> SharedModel:
    """Put the classifiers of one task on the layer that they were fitted for."""
    converged = None
    if "converged weight" in head:
        converged = (head["converged weight"], head["converged bias"])
    ends = np.array([len(head["bias"])])
    return SharedModel(model.layer, [name], ends, head["weight"], head["bias"], model.n_epochs, converged)


def train_all(
    inputs: AddInputs,
    new: NewTask,
    bases: Mapping[str, SharedModel],
    rows: NDArray[np.intp],
    suffix: str,
) -> tuple[OwnModel, dict[str, dict[str, Floats]]]:
    """Train all models of a task on some of its rows."""
    settings, name = inputs.settings, new.task.name
    own: OwnModel
    if inputs.strategy == "paper":
        generator = numpy_generator(inputs.seed, f"cluster{suffix}, copy 0", [name])
        task = new.rows(rows, valid=True)
        own = train_jointly(new.inputs, [task], settings=settings, generator=generator, stop_early=True)
    else:
        task = new.rows(rows)
        own = fit_own(new.inputs, task, settings=settings, seed=inputs.seed, stage=f"own{suffix}")
    heads = {
        kind: fit_heads(base, task, new.inputs, inputs.label_names, settings) for kind, base in bases.items()
    }
    return own, heads


def fit_heads(
    model: SharedModel,
    task: TaskRows,
    inputs: FrozenInputs,
    label_names: Mapping[str, tuple[str, ...]],
    settings: MultiTaskSettings,
) -> dict[str, Floats]:
    """Fit the classifiers of a task on a frozen layer to convergence.

    The second, plain one is there where jointly trained tasks have one (`settings.head_c`). The first takes
    the place of the jointly trained classifier: it is held near the mean of its namesakes' in other tasks.
    """
    representation = model.layer.represent(inputs.take(task.items))
    head_c = settings.head_c or settings.own_c
    weight, bias = converge_head(representation, task, head_c)
    found = {"weight": weight, "bias": bias}
    if settings.head_c > 0:
        found |= {"converged weight": weight, "converged bias": bias}
        near = namesakes_of(model, task, label_names) if settings.share_labels else None
        if near is not None:
            found["weight"], found["bias"] = fit_near(representation, task, near, head_c)
    return found


def namesakes_of(
    model: SharedModel, task: TaskRows, label_names: Mapping[str, tuple[str, ...]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the mean classifier of each label's namesakes in other tasks, 0 without any; None for none."""
    places: dict[str, list[int]] = {}
    for number, label in enumerate(label for name in model.names for label in label_names[name]):
        places.setdefault(label_key(label), []).append(number)
    weight = np.zeros((task.n_labels, model.weight.shape[1]))
    bias = np.zeros(task.n_labels)
    for place, label in enumerate(task.label_names):
        if found := places.get(label_key(label)):
            weight[place], bias[place] = model.weight[found].mean(axis=0), model.bias[found].mean()
    return (weight, bias) if weight.any() else None


def fit_near(
    representation: Floats, task: TaskRows, near: tuple[NDArray[np.float64], NDArray[np.float64]], c: float
) -> tuple[Floats, Floats]:
    """Fit class-balanced softmax regression whose weights are drawn to given ones in place of zero.

    ``min  sum_i v_i log_loss_i + 1 / (2 c) ||W - near||^2`` with ``v`` the weights that make all labels count
    the same, by L-BFGS.
    """
    from scipy.optimize import minimize

    # Products in 32 bits: a task of hundreds of labels takes half the time.
    features, (start, bias) = representation, near
    counts = np.bincount(task.codes, minlength=task.n_labels)
    importance = (len(task.codes) / (np.count_nonzero(counts) * counts.clip(min=1)))[task.codes]
    rows = np.arange(len(task.codes))

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        change = flat.reshape(task.n_labels, -1)
        logits = features @ (start + change[:, :-1]).T.astype(np.float32) + (bias + change[:, -1])
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits)
        total = shares.sum(axis=1)
        value = importance @ (np.log(total) - logits[rows, task.codes])
        shares /= total[:, None]
        shares[rows, task.codes] -= 1
        shares *= importance[:, None]
        of_weight = shares.T.astype(np.float32) @ features + change[:, :-1] / c
        gradient = np.column_stack([of_weight, shares.sum(axis=0)])
        return float(value + (change[:, :-1] ** 2).sum() / (2 * c)), gradient.reshape(-1)

    zero = np.zeros(task.n_labels * (features.shape[1] + 1))
    found = minimize(loss, zero, jac=True, method="L-BFGS-B", options={"maxiter": 100, "ftol": 1e-5})
    change = found.x.reshape(task.n_labels, -1)
    return (start + change[:, :-1]).astype(np.float32), (bias + change[:, -1]).astype(np.float32)


def finish_task(
    new: NewTask,
    result: Result,
    predictor: Predictor,
    *,
    weights: BlendWeights,
    held_out: Mapping[str, Mapping[str, Right]],
    temperature: float,
    strategy: str,
    seed: int,
) -> tuple[AddedTask, Estimate | None]:
    """Decide what serves a new task; return it with what sharing is expected to give it.

    The weights are those that were learned across tasks: one task's rows are too few to learn better ones.
    Its held-out rows answer another question: is it one of the few that lose by sharing?

    `weights` and `temperature` are those of the tasks that share, `held_out` says which of their held-out
    rows are predicted right.
    """
    task, name = new.task, new.task.name
    heads = {kind: arrays_under(result.arrays, f"{kind}/") for kind in result.values["kinds"]}
    own = own_from(result.values["own"], arrays_under(result.arrays, "own/"))
    weights = usable_weights(weights, {"own", *heads}, strategy=strategy)
    rows = new.rows(task.rows(*new.splits))
    shares = tuple(label_prior(rows.codes, rows.n_labels)[0].tolist())
    served = ServedTask(name, task.label_names, shares, new.cluster, task.may_share, weights, temperature)
    tables = arrays_under(result.arrays, "held/")
    held = new.held_out
    gain = None
    if len(held):
        codes = task.label_codes[held].astype(np.int64)
        # How frequent labels are hardly depends on the fold.
        tables["prior"] = np.tile(shares, (len(held), 1))
        blended = tables["own"]
        if served.shares:
            seen = None if predictor.seen is None else predictor.seen.find(name, task.texts_at(held))
            used = {kind: tables[kind] for kind in COMPONENTS if weights.uses(kind)}
            blended = blend_rows(used, weights, seen)
            right, own_right = (table.argmax(axis=1) == codes for table in (blended, tables["own"]))
            gain = expected_gain(right, own_right)
            if not pays(held_out, right, own_right):
                weights, blended = OWN_ONLY, tables["own"]
        if weights == OWN_ONLY:
            temperature = find_temperature([(blended, codes)])
        served = dataclasses.replace(served, weights=weights, temperature=temperature)
    added = AddedTask(served, own, heads, None, new.words, new.vectors, new.reader)
    references = new.inputs.take(draw_references(name, rows.items, seed))
    reference = serve_added(predictor, added).represent(name, references)
    return dataclasses.replace(added, reference=np.ascontiguousarray(reference)), gain


def usable_weights(weights: BlendWeights, kinds: set[str], *, strategy: str = "blend") -> BlendWeights:
    """Return the weights of those models that a task has.

    What the others would have weighed goes to these, so that the sum, and with it how confident the blend is,
    stays the same.

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
    """Return how many more of the held-out rows are right with sharing, of all; rows are paired.

    Examples
    --------
    >>> gain = expected_gain(np.ones(40, dtype=bool), np.arange(40) % 4 > 0)
    >>> gain.mean, gain.above_zero
    (0.25, True)
    """
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
    reader = added.reader or longer_reader(base.reader, added.words, added.vectors)
    bases = find_bases(base.shared, base.clusters, task.may_share, task.cluster, added.vectors)
    models = {kind: with_head(bases[kind], task.name, head) for kind, head in added.heads.items()}
    return Predictor(
        {task.name: task},
        reader,
        own={task.name: added.own},
        shared=models.get("shared"),
        clusters={task.cluster: models["cluster"]} if "cluster" in models else {},
        seen=base.seen,
        scope=base.scope,
        references={} if added.reference is None else {task.name: added.reference},
    )


def save_added(added: AddedTask, folder: str | PathLike[str], *, base: str) -> None:
    """Write an added task to a folder; `base` names the models that it belongs to."""
    own, of_own = describe_own(added.own)
    arrays: dict[str, NDArray[Any]] = {f"own/{key}": array for key, array in of_own.items()}
    for kind, head in added.heads.items():
        arrays |= {f"{kind}/{key}": array for key, array in head.items()}
    if added.reference is not None:
        arrays["reference"] = added.reference
    if added.vectors is not None:
        arrays["vectors"] = added.vectors
    reader = None
    if added.reader is not None:
        reader, of_reader = added.reader.describe()
        arrays |= {f"reader/{key}": array for key, array in of_reader.items()}
    values = {
        "base": base,
        "task": dataclasses.asdict(added.task),
        "own": own,
        "kinds": sorted(added.heads),
        "words": list(added.words),
        "reader": reader,
    }
    write_model_folder(folder, kind=KIND, version=VERSION, settings=values, arrays=arrays)


def load_added(folder: str | PathLike[str], *, base: str | None, device: str = "cpu") -> AddedTask:
    """Read what `save_added` wrote; `base` must be what it was given then, None does not check it.

    Raises
    ------
    StoreError
        If something is missing, damaged, from a later version, or belongs to other models.
    """
    values, arrays = read_model_folder(folder, kind=KIND, version=VERSION)
    if base is not None and values.get("base") != base:
        raise StoreError(
            "the model of an added task belongs to other models than those of the run",
            where=quote(str(folder)),
            got=quote(values.get("base")),
            expected=quote(base),
            todo="bring the folder of the run back from a copy",
        )
    try:
        reader = values["reader"]
        return AddedTask(
            ServedTask.from_dict(values["task"]),
            own_from(values["own"], arrays_under(arrays, "own/")),
            {kind: arrays_under(arrays, f"{kind}/") for kind in values["kinds"]},
            arrays.get("reference"),
            tuple(values["words"]),
            arrays.get("vectors"),
            None if reader is None else load_encoder(reader, arrays_under(arrays, "reader/"), device=device),
        )
    except StoreError:
        raise
    except (RobustTCError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StoreError(
            "the model cannot be read", where=quote(str(folder)), got=quote(str(error)), todo="add it again"
        ) from error
