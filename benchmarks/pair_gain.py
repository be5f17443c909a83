"""The real gain of training two tasks together: what transfer scores should foretell.

For sampled pairs of tasks, a shared layer with one classifier a task is trained on both, and on each alone,
in the same way and with the same number of passes over the rows. The gain of a target is how much likelier
its test labels become (mean log-probability), and how much more of them are predicted right; both on all
test texts, and on *novel* ones, which no other task has (up to case and punctuation).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders import FrozenInputs, PreparedTasks
from robusttc.models import Adam, Heads, TrainingSettings, draw_batches, new_head, new_layer, train_steps
from robusttc.random import numpy_generator
from robusttc.transfer import normalise_text

MAX_ROWS = 300  # training rows of a task, drawn by the seed: no pair takes minutes
MIN_NOVEL = 5  # novel test rows that a mean is taken over
Floats = NDArray[np.float32]
Numbers = NDArray[np.float64]
Novel = dict[str, NDArray[np.bool_]]


def find_novel(tasks: TaskSet) -> Novel:
    """Tell for every row of every task whether no other task has its text."""
    texts = {task.name: [normalise_text(text) for text in task.texts] for task in tasks}
    n_owners = Counter(text for own in texts.values() for text in set(own))
    return {name: np.array([n_owners[text] == 1 for text in own]) for name, own in texts.items()}


def train_together(
    tasks: TaskSet,
    prepared: PreparedTasks,
    names: Sequence[str],
    *,
    novel: Novel,
    settings: TrainingSettings,
    seed: int,
) -> dict[str, Numbers]:
    """Train one layer on some tasks, and judge it on the test rows of each; see `judge`."""
    generator = numpy_generator(seed, "pair gain", names)
    layer = new_layer(prepared.inputs, settings=settings, generator=generator)
    ends = np.cumsum([len(tasks[name].label_names) for name in names])
    weights, steps = [], []
    for name, end in zip(names, ends, strict=True):
        task = tasks[name]
        n_labels = len(task.label_names)
        own = numpy_generator(seed, "pair gain rows", [name])
        rows = own.permutation(task.rows("train"))[:MAX_ROWS]
        items, codes = prepared.items_of(name, rows), task.label_codes[rows].astype(np.int64)
        weights.append(new_head(layer.width, n_labels, own)[0].T)
        batches = [
            replace(
                each,
                items=items[each.items],
                label_starts=each.label_starts + end - n_labels,
                label_ends=np.array([end]),
            )
            for each in draw_batches(codes, n_labels=n_labels, settings=settings, generator=own)
        ]
        # Spread over the whole training, so that both tasks end at the same time.
        steps += [((at + 0.5) / len(batches), int(end), batch) for at, batch in enumerate(batches)]
    heads = Heads(np.concatenate(weights), np.zeros(int(ends[-1]), dtype=np.float32))
    train_steps(
        prepared.inputs,
        layer,
        heads,
        (batch for _, _, batch in sorted(steps, key=lambda step: step[:2])),
        optimiser=Adam(layer.parameters(), learning_rate=settings.learning_rate),
        dropout=settings.dropout,
        generator=generator,
    )
    heads_of = [
        (
            heads.weight[end - len(tasks[name].label_names) : end].T,
            heads.bias[end - len(tasks[name].label_names) : end],
        )
        for name, end in zip(names, ends, strict=True)
    ]
    return {
        name: judge(tasks, prepared, name, novel[name], layer.represent, *head)
        for name, head in zip(names, heads_of, strict=True)
    }


def judge(
    tasks: TaskSet,
    prepared: PreparedTasks,
    name: str,
    is_novel: NDArray[np.bool_],
    represent: Callable[[FrozenInputs], Floats],
    weight: Floats,
    bias: Floats,
) -> Numbers:
    """Give mean log-probability and accuracy on the test rows, then both on the novel ones (NaN for few)."""
    task = tasks[name]
    rows = task.rows("test")
    logits = (represent(prepared.inputs_of(name, rows)) @ weight + bias).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    truth = task.label_codes[rows]
    likelihood = logits[np.arange(len(rows)), truth] - np.log(np.exp(logits).sum(axis=1))
    right = logits.argmax(axis=1) == truth
    of_novel = [np.nan, np.nan]
    if np.count_nonzero(is_novel[rows]) >= MIN_NOVEL:
        of_novel = [likelihood[is_novel[rows]].mean(), right[is_novel[rows]].mean()]
    return np.array([likelihood.mean(), right.mean(), *of_novel])


def measure_gains(
    tasks: TaskSet,
    prepared: PreparedTasks,
    pairs: NDArray[np.int64],
    *,
    settings: TrainingSettings,
    seeds: Sequence[int],
) -> NDArray[np.float64]:
    """Give the gains of the sampled pairs, shape (2 directions, pairs, 4): the four numbers of `judge`.

    ``[0, p]`` is the gain of the second task of pair p from the first, ``[1, p]`` that of the first.
    """
    names = tasks.names
    novel = find_novel(tasks)
    gains = np.zeros((2, len(pairs), 4))
    for seed in seeds:

        def train(*numbers: int, seed: int = seed) -> dict[str, Numbers]:
            chosen = [names[number] for number in numbers]
            return train_together(tasks, prepared, chosen, novel=novel, settings=settings, seed=seed)

        alone = {int(task): train(int(task))[names[task]] for task in np.unique(pairs)}
        for place, (first, second) in enumerate(pairs):
            both = train(int(first), int(second))
            gains[0, place] += both[names[second]] - alone[int(second)]
            gains[1, place] += both[names[first]] - alone[int(first)]
    return gains / len(seeds)
