"""Models for new tasks on top of a run's: trained as units of work, then put together and judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, FrozenInputs, WordEncoder
from robusttc.jobs import Result, Runner
from robusttc.models import warn_about_tasks
from robusttc.multitask.deciding_join import expected_gain, pays, usable_weights, weigh_kinds
from robusttc.multitask.joined import JoinedTask, longer_reader, parts_of, serve_joined
from robusttc.multitask.joining import STAGE, JoinMaterial, NewTask, join_unit, lay_out_task
from robusttc.multitask.label_power import find_offsets, shares_by_fold, tilt
from robusttc.multitask.persistence import Fitted
from robusttc.multitask.serving import OWN_ONLY, ServedTask, Serving
from robusttc.multitask.trusting import FEWEST_ROWS, draw_references, temperature_of
from robusttc.multitask.weighing import Weights
from robusttc.progress import Progress
from robusttc.run.evaluation import Asked, TaskFigures, judge
from robusttc.stats import Estimate

__all__ = ["Joined", "join_all"]

Floats = NDArray[np.float32]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """A new task with its models.

    Attributes
    ----------
    later
        What is kept of it.
    gain
        What sharing is expected to give it; None where nothing could be held out, or it may not share.
    figures
        What its test rows say.
    """

    later: JoinedTask
    gain: Estimate | None
    figures: TaskFigures

    @property
    def shares(self) -> bool:
        """Whether models of other tasks serve it."""
        return self.later.task.weights != OWN_ONLY


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """The texts of a task as inputs, and what the run's models must learn to read for them."""

    inputs: FrozenInputs
    reader: Encoder | None = None
    words: tuple[str, ...] = ()
    vectors: Floats | None = None


def join_all(
    tasks: TaskSet,
    clusters: Mapping[str, int],
    fitted: Fitted,
    encoder: Encoder,
    *,
    n_folds: int,
    runner: Runner,
    progress: Progress | None = None,
) -> dict[str, Joined]:
    """Train what new tasks need, and judge it; a task that could not be trained is not there.

    Parameters
    ----------
    tasks
        The new tasks; all can be learned.
    clusters
        The cluster of each; -1 for none.
    fitted
        The models of the run. Nothing of them changes.
    encoder
        The encoder of the run: of words, it knows vectors that the run's models have not seen.
    n_folds
        Into how many folds their training rows are dealt.
    runner
        Who trains.
    progress
        Told how far it is.
    """
    serving = fitted.serving
    with threadpool_limits(1):
        read = {task.name: read_task(task, serving, encoder) for task in tasks}
    new = {
        task.name: lay_out_task(
            task,
            read[task.name].inputs,
            cluster=clusters[task.name],
            n_folds=n_folds,
            seed=fitted.seed,
            vectors=read[task.name].vectors,
        )
        for task in tasks
    }
    material = JoinMaterial(
        new,
        serving.shared,
        serving.clusters,
        "shared" in fitted.starts.values(),
        {name: task.label_names for name, task in serving.tasks.items()},
        fitted.settings,
        fitted.seed,
        fitted.strategy,
    )
    handle = runner.share(material)
    try:
        units = [join_unit(name) for name in new]
        payloads = runner.run(STAGE, units, handle, progress=progress, unit="tasks")
    finally:
        runner.release(handle)
    done = dict(zip(new, payloads, strict=True))
    warn_about_tasks(
        "models of new tasks could not be trained", [name for name, one in done.items() if one is None]
    )
    with threadpool_limits(1):
        return {
            name: put_together(tasks[name], new[name], read[name], payload, fitted)
            for name, payload in done.items()
            if payload is not None
        }


def read_task(task: Task, serving: Serving, encoder: Encoder) -> Read:
    """Turn all texts of a task into inputs of the run's models."""
    texts = list(task.texts)
    if not isinstance(serving.reader, WordEncoder):
        return Read(serving.reader.read(texts))
    prepared = encoder.prepare(TaskSet([task]))
    own = encoder.for_new_texts(prepared)
    assert isinstance(own, WordEncoder)  # noqa: S101 - the encoder of words reads words
    if not task.may_share:
        # Numbers and words of its own: nothing of it is to be seen beside those of others.
        return Read(own.read(texts), reader=own)
    known = set(serving.reader.vocabulary.words)
    places = [place for place, word in enumerate(own.vocabulary.words) if word not in known]
    words = tuple(own.vocabulary.words[place] for place in places)
    vectors = own.vectors[places]
    longer = longer_reader(serving.reader, words, vectors)
    return Read(longer.read(texts), words=words, vectors=vectors if len(words) else None)


def put_together(task: Task, new: NewTask, read: Read, payload: Result, fitted: Fitted) -> Joined:
    """Decide what serves a task, and judge it."""
    own, alone, heads = parts_of(payload)
    kinds = {"own", *heads}
    weights = usable_weights(fitted.weights, kinds, strategy=fitted.strategy)
    gain, served = None, None
    held = np.concatenate([np.zeros(0, dtype=np.int64), *(fold.held for fold in new.folds)])
    codes = task.label_codes[held]
    tables = {kind: payload.arrays[f"held/{kind}"] for kind in kinds if f"held/{kind}" in payload.arrays}
    if task.may_share and len(held) and heads:
        familiar = None
        if fitted.serving.familiar is not None and weights.new != weights.familiar:
            familiar = fitted.serving.familiar.find(task.name, task.texts_at(held))
        served = weigh_kinds(tables, weights, familiar)
        if fitted.label_power > 0:
            shares = shares_by_fold((fold.part, len(fold.held)) for fold in new.folds)
            served = tilt(served, fitted.label_power * shares)
        is_right, own_right = served.argmax(axis=1) == codes, tables["own"].argmax(axis=1) == codes
        gain = expected_gain(is_right, own_right)
        if not pays(fitted, is_right, own_right):
            weights, served = OWN_ONLY, tables["own"]
    elif len(held):
        served = tables["own"]
    offsets = () if weights == OWN_ONLY else find_offsets(new.part, fitted.label_power)
    known = ServedTask(task.name, task.label_names, new.cluster, task.may_share, weights, offsets=offsets)
    later = JoinedTask(known, own, alone, heads, None, read.words, read.vectors, read.reader)
    serving = serve_joined(fitted.serving, later)
    rows = (served, codes) if served is not None else None
    temperature = find_temperature(task, new, serving, fitted, weights, rows)
    reference = serving.represent(task.name, new.inputs.take(draw_references(new.part, fitted.seed)))
    later = JoinedTask(
        dataclasses.replace(known, temperature=temperature),
        own,
        alone,
        heads,
        np.ascontiguousarray(reference),
        read.words,
        read.vectors,
        read.reader,
    )
    serving = serve_joined(fitted.serving, later)
    asked = {kind: Asked(serving, kind) for kind in ("own", "shared", "cluster")}
    return Joined(later, gain, judge(task, serving, asked))


def find_temperature(
    task: Task,
    new: NewTask,
    serving: Serving,
    fitted: Fitted,
    weights: Weights,
    held: tuple[NDArray[np.float64], NDArray[np.int32]] | None,
) -> float:
    """Give the temperature of a task: that of its cluster where it is served as the cluster's tasks are.

    Else that of its own validation rows, or held-out rows, whichever are enough.
    """
    if weights == fitted.weights and new.cluster in fitted.temperatures:
        return fitted.temperatures[new.cluster]
    part = new.part
    if len(part.valid_items) >= FEWEST_ROWS:
        taken = new.inputs.take(part.valid_items)
        familiar = serving.find_familiar(task.name, task.texts_at(task.rows("valid")))
        said = serving.raw_probabilities(task.name, taken, familiar)
        return temperature_of([(said, part.valid_codes)])
    if held is not None and len(held[1]) >= FEWEST_ROWS:
        return temperature_of([(held[0], held[1].astype(np.int64))])
    same = [found for found in fitted.temperatures.values() if weights != OWN_ONLY]
    return float(np.median(same)) if same else 1.0
