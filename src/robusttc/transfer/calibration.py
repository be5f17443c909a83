"""How long units of work take on this machine, from a few seconds of trying.

Tasks of different sizes are taken, small ones first. Each kind of work is timed on them and fitted as a sum
of what it is about (rows, labels, characters, distinct words) times a rate; rates are never negative.

A short piece of work mostly runs undisturbed even on a busy machine, where a long one waits again and again.
So work on the CPU is timed by the CPU's seconds, and all rates are then multiplied by how many seconds went
by for each of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders import PreparedTasks, WordInputs
from robusttc.models import TrainingSettings
from robusttc.transfer.blocks import score_block
from robusttc.transfer.pairs import choose_pairs
from robusttc.transfer.plan import TaskRows, TransferPlan, make_plan
from robusttc.transfer.settings import TransferSettings
from robusttc.transfer.sources import SourceModel, train_source

__all__ = [
    "TextSize",
    "UnitRates",
    "choose_strata",
    "fit_rates",
    "measure_rates",
    "pair_size",
    "shorten",
    "size_of_texts",
    "time_of",
    "training_size",
]

Floats = NDArray[np.float64]
Clock = Callable[[], float]

# Where the sizes of the sampled tasks lie among all sizes, and how many tasks are taken at each place.
PLACES = (0.05, 0.35, 0.65, 0.97)
TASKS_A_PLACE = 3
# Rows of a sampled task, and steps of a sampled training: enough to see the rate.
MAX_ROWS = 1_500
SAMPLED_STEPS = 24
# One call may be quicker than the clock is fine.
LEAST_SECONDS, MAX_REPEATS = 0.02, 10


@dataclass(frozen=True, slots=True)
class TextSize:
    """How much text there is: texts, characters, and distinct words between spaces."""

    n_texts: int
    n_characters: int
    n_words: int


@dataclass(frozen=True, slots=True, eq=False)
class UnitRates:
    """What the units of work cost: seconds for each thing that they are about.

    Attributes
    ----------
    training
        Of a training, by `training_size`.
    source
        Of the rest of a source's model: a constant, and a row.
    encoding
        Of encoding texts by a model: a text; where words are encoded, a character and a distinct word.
    pair
        Of one score: a constant, a row of the target, and a row times a label.
    """

    training: Floats
    source: Floats
    encoding: Floats
    pair: Floats

    def seconds_of_encoding(self, size: TextSize) -> float:
        """Give the seconds of encoding some texts by one model."""
        return float(self.encoding @ encoding_size(size, of_words=len(self.encoding) == 2))


def encoding_size(size: TextSize, *, of_words: bool) -> Floats:
    """Give what encoding is about. A convolution makes a table of all words first, hence the words."""
    return np.array([size.n_characters, size.n_words] if of_words else [size.n_texts], dtype=np.float64)


def training_size(n_rows: int, n_characters: int, n_labels: int, settings: TrainingSettings) -> Floats:
    """Give what a training is about: steps, characters seen, and rows seen times labels."""
    epochs = settings.count_epochs(n_rows)
    steps = epochs * -(-n_rows // settings.batch_size)
    return np.array([steps, epochs * n_characters, epochs * n_rows * n_labels], dtype=np.float64)


def size_of_texts(texts: Collection[str]) -> TextSize:
    """Measure texts.

    >>> size_of_texts(["Hello you", "hello"])
    TextSize(n_texts=2, n_characters=14, n_words=2)
    """
    words = {word for text in texts for word in text.lower().split()}
    return TextSize(len(texts), sum(map(len, texts)), len(words))


def fit_rates(sizes: ArrayLike, seconds: ArrayLike) -> Floats:
    """Find the rates, none negative, for which sizes times rates come nearest to the seconds, relatively.

    >>> fit_rates([[1, 10], [1, 20], [1, 30]], [3.0, 5.0, 7.0]).round(6).tolist()
    [1.0, 0.2]
    """
    taken = np.asarray(seconds, dtype=np.float64)
    # What took next to no time is noise, and must not outweigh the rest.
    weight = 1 / np.maximum(taken, max(0.5 * float(taken.mean()), 1e-9))
    relative = np.asarray(sizes, dtype=np.float64) * weight[:, None]
    # Columns of one scale, since the solver's own tolerance is absolute.
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    rates, _ = nnls(relative / scale, taken * weight)
    return np.asarray(rates / scale, dtype=np.float64)


def time_of(work: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Give the mean seconds of a call; a quick one is repeated."""
    start, passed, n_calls = clock(), 0.0, 0
    while passed < LEAST_SECONDS and n_calls < MAX_REPEATS:
        work()
        n_calls += 1
        passed = clock() - start
    return passed / n_calls


def choose_strata(n_rows: Sequence[int]) -> list[list[int]]:
    """Choose a few tasks of different sizes, in groups of similar size, small ones first.

    >>> choose_strata([30, 10, 20])
    [[1], [2], [0]]
    >>> choose_strata(list(range(100)))
    [[4, 5, 6], [33, 34, 35], [63, 64, 65], [94, 95, 96]]
    """
    order = np.argsort(np.asarray(n_rows), kind="stable")
    if len(order) <= len(PLACES) * TASKS_A_PLACE:
        return [part.tolist() for part in np.array_split(order, min(len(PLACES), len(order)))]
    starts = [int(place * (len(order) - TASKS_A_PLACE)) for place in PLACES]
    return [order[start : start + TASKS_A_PLACE].tolist() for start in starts]


def shorten(task: Task, max_rows: int = MAX_ROWS) -> Task:
    """Give a task with fewer rows of train and valid, of all its labels, where it has more than enough.

    >>> long = Task("a", [f"text {row}" for row in range(100)], ["x", "y"] * 50)
    >>> len(shorten(long, 10)) <= 12, shorten(long, 10).label_names
    (True, ('x', 'y'))
    """
    rows = task.rows("train", "valid")
    if len(rows) <= max_rows:
        return task
    train = task.rows("train")
    _, firsts = np.unique(task.label_codes[train], return_index=True)
    even = np.linspace(0, len(rows) - 1, max_rows).astype(np.intp)
    kept = np.unique(np.concatenate([train[firsts], rows[even]]))
    return Task.from_codes(
        task.name,
        task.texts_at(kept),
        task.label_names,
        task.label_codes[kept],
        task.split_names,
        task.split_codes[kept],
    )


class Timings:
    """Collects sizes and seconds of each kind of work, by a clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.training: list[tuple[Floats, float]] = []
        self.source: list[tuple[Floats, float]] = []
        self.encoding: list[tuple[TextSize, float]] = []
        self.pair: list[tuple[Floats, float]] = []

    def time_source(self, plan: TransferPlan, lengths: NDArray[np.int64]) -> SourceModel:
        """Make the model of the first task, with two short trainings, and note what each part took."""
        rows, training = plan.rows[0], plan.settings.training
        rest_size = np.array([1, len(rows.items)], dtype=np.float64)
        if not plan.trains_layers:
            self.source.append((rest_size, time_of(lambda: train_source(plan, 0), self.clock)))
            return train_source(plan, 0)
        n_characters = int(lengths[rows.items[: rows.n_train]].sum())
        more = 1 + -(-SAMPLED_STEPS * training.batch_size // rows.n_train)
        sizes, seconds = [], []
        for epochs in (1, more):
            short = with_epochs(plan, epochs)
            size = training_size(rows.n_train, n_characters, rows.n_labels, short.settings.training)
            sizes.append(size)
            start = self.clock()
            model = train_source(short, 0)
            seconds.append(self.clock() - start)
        added = max(seconds[1] - seconds[0], 0.0)
        self.training.append((sizes[1] - sizes[0], added))
        self.source.append((rest_size, max(seconds[0] - added / (more - 1), 0.0)))
        return model

    def time_block(self, plan: TransferPlan, model: SourceModel, size: TextSize) -> None:
        """Score a model on all tasks of the plan, and note what the encoding and the rest took."""
        encoding = time_of(lambda: model.represent(plan.inputs), self.clock)
        self.encoding.append((size, encoding))
        everything = np.arange(len(plan.rows))
        block = time_of(lambda: score_block(plan, 0, model, everything), self.clock)
        about = np.sum([pair_size(rows) for rows in plan.rows], axis=0)
        self.pair.append((about, max(block - encoding, 0.0)))

    def fit(self, *, of_words: bool, waiting: float) -> UnitRates:
        """Give the rates, multiplied by `waiting`."""
        encoding = [(encoding_size(size, of_words=of_words), seconds) for size, seconds in self.encoding]
        pairs = zip(*self.training, strict=True) if self.training else ([np.zeros(3)], [0.0])
        return UnitRates(
            training=waiting * fit_rates(*pairs),
            source=waiting * fit_rates(*zip(*self.source, strict=True)),
            encoding=waiting * fit_rates(*zip(*encoding, strict=True)),
            pair=waiting * fit_rates(*zip(*self.pair, strict=True)),
        )


def pair_size(rows: TaskRows) -> Floats:
    """Give what one score is about: a constant, rows, and rows times labels."""
    n_rows = len(rows.items)
    return np.array([1, n_rows, n_rows * rows.n_labels], dtype=np.float64)


def with_epochs(plan: TransferPlan, epochs: int) -> TransferPlan:
    """Give the plan with so many epochs of training, whatever the rows."""
    training = plan.settings.training.replace(epochs=epochs, min_steps=0)
    return replace(plan, settings=plan.settings.replace(training=training))


def texts_of_items(tasks: TaskSet, prepared: PreparedTasks) -> NDArray[np.object_]:
    """Give the text that each item of the frozen part is of."""
    texts = np.full(len(prepared.inputs), "", dtype=object)
    for task in tasks:
        rows = task.rows("train", "valid")
        texts[prepared.items_of(task.name, rows)] = list(task.texts_at(rows))
    return texts


def measure_rates(
    groups: Sequence[TaskSet],
    prepared: PreparedTasks,
    *,
    settings: TransferSettings,
    seed: int,
    max_seconds: float,
) -> UnitRates:
    """Time the units of work on groups of tasks, small ones first, until the time is up.

    Parameters
    ----------
    groups
        The tasks.
    prepared
        Their frozen part.
    settings, seed
        As in the plan.
    max_seconds
        After so many seconds no further group is begun.
    """
    start = begun = time.perf_counter()
    worked = time.process_time()
    found = Timings(time.process_time)
    models: list[SourceModel] = []
    with threadpool_limits(limits=1):
        for group in groups:
            if models and time.perf_counter() - start > max_seconds:
                break
            pairs = choose_pairs(group.names, "all")
            plan = make_plan(group, prepared, pairs, settings=settings, seed=seed)
            rows = [prepared.items_of(task.name, task.rows("train", "valid")) for task in group]
            texts = texts_of_items(group, prepared)[np.unique(np.concatenate(rows))]
            if not models:
                # What is compiled or loaded at the first call is not to be counted.
                short = with_epochs(plan, 1)
                score_block(short, 0, train_source(short, 0), np.arange(len(group)))
                start = time.perf_counter()
            models.append(found.time_source(plan, np.array([len(text) for text in texts])))
            size = size_of_texts(texts.tolist())
            for model in models:
                found.time_block(plan, model, size)
    waiting = max(1.0, (time.perf_counter() - begun) / max(time.process_time() - worked, 1e-9))
    return found.fit(of_words=isinstance(prepared.inputs, WordInputs), waiting=waiting)
