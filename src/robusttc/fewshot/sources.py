"""Source tasks made ready: the frozen inputs of their rows and of their labels' names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, FeatureEncoder, FrozenInputs
from robusttc.fewshot.episodes import SourceRows
from robusttc.models import carries_words, label_words
from robusttc.progress import Progress

__all__ = ["ReadySources", "label_texts", "make_ready"]

# A source teaches with all its rows but those that judge.
SPLITS = ("train", "valid")


@dataclass(frozen=True, slots=True, eq=False)
class ReadySources:
    """What metrics are trained on.

    Attributes
    ----------
    inputs
        The frozen inputs of all distinct texts and names.
    sources
        The rows of every task, in the order of the tasks.
    reader
        How texts of new tasks become frozen inputs.
    """

    inputs: FrozenInputs
    sources: tuple[SourceRows, ...]
    reader: Encoder


def make_ready(
    tasks: TaskSet, encoder: Encoder, *, use_label_names: bool, progress: Progress | None = None
) -> ReadySources:
    """Encode the training and validation rows of tasks that may be shared, and the names of their labels.

    Names are encoded where they carry words and the encoder can read words.

    Examples
    --------
    >>> task = Task("a", ["hi", "bye"], ["greet", "leave"])
    >>> ready = make_ready(TaskSet([task]), FeatureEncoder({"a": np.eye(2)}), use_label_names=True)
    >>> ready.sources[0].name_items.tolist()
    [-1, -1]
    """
    words: dict[str, list[str]] = {}
    if use_label_names and not isinstance(encoder, FeatureEncoder):
        words = label_texts(tasks)
    named = sorted({name for names in words.values() for name in names})
    extra = [Task(free_name(tasks), named, ["name"] * len(named))] if named else []
    prepared = encoder.prepare(TaskSet([*tasks, *extra]), splits=SPLITS, progress=progress)
    place_of: dict[str, int] = {}
    if extra:
        place_of = dict(zip(named, prepared.text_index[extra[0].name].tolist(), strict=True))
    sources = []
    for task in tasks:
        rows = task.rows(*SPLITS)
        sources.append(
            SourceRows(
                task.name,
                prepared.items_of(task.name, rows),
                task.label_codes[rows].astype(np.int64),
                np.array(
                    [place_of[name] for name in words[task.name]]
                    if task.name in words
                    else np.full(len(task.label_names), -1),
                    dtype=np.int64,
                ),
            )
        )
    return ReadySources(prepared.inputs, tuple(sources), encoder.for_new_texts(prepared))


def label_texts(tasks: TaskSet) -> dict[str, list[str]]:
    """Give the words of the labels of every task whose labels carry words: texts that are read too.

    Examples
    --------
    >>> tasks = TaskSet([Task("a", ["hi", "bye"], ["say_hi", "leave"]), Task("b", ["hi"], ["0"])])
    >>> label_texts(tasks)
    {'a': ['leave', 'say hi']}
    """
    return {
        task.name: [label_words(label) for label in task.label_names]
        for task in tasks
        if carries_words(task.label_names)
    }


def free_name(tasks: TaskSet) -> str:
    """Give a name that no task has."""
    name = "names of labels"
    while name in tasks:
        name += "'"
    return name
