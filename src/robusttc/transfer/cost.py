"""The cost of measuring transfer, estimated before it is done: scores, seconds, memory.

The jobs of some sources are run on a few tasks of different sizes; what each part took is scaled by how much
of it there is. Encoding is told by the size of the model and the speed of a matrix product, since loading a
model takes longer than an estimate should; where the size is not known, some texts are encoded. Parts are
timed in CPU seconds. How long those last on this machine now is seen once, over all of it, and a busy machine
is sampled less: the estimate has a budget of time.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import (
    DEFAULT_ENCODER,
    DenseInputs,
    Encoder,
    PreparedTasks,
    VectorCache,
    distinct_texts,
    make_encoder,
)
from robusttc.formatting import format_bytes, format_seconds
from robusttc.jobs import peak_memory
from robusttc.random import RandomState, numpy_generator, run_seed
from robusttc.transfer.measure import (
    SPLITS,
    StopMeasuring,
    check_arguments,
    find_missing,
    has_rounds,
    round_sizes,
    text_overlap,
)
from robusttc.transfer.pair_scores import (
    TransferPlan,
    TransferSettings,
    have_same_labels,
    make_plan,
    measure_source,
    score_source,
    seen_labels,
    select_rows,
    train_source,
)
from robusttc.transfer.pairs import PairChoice
from robusttc.transfer.scores import TransferScores

__all__ = ["CostEstimate", "estimate_cost", "process_memory"]

# Seconds of the clock after which nothing more is timed; CPU seconds of texts, and of jobs, that are enough.
BUDGET_SECONDS, ENOUGH_ENCODING, ENOUGH_JOBS = 1.5, 0.7, 0.3
# Tasks that jobs are timed on, by count and rows; texts encoded at a time and vectors read.
SAMPLED_TASKS, SAMPLED_ROWS = 12, 8_000
ENCODED_TEXTS, ENCODED_RUNS, READ_TEXTS, FOUND_TEXTS = 24, 8, 1_000, 20_000
# A model truncates texts at about so many characters; the two special tokens count as some more.
MAX_CHARACTERS, SPECIAL_CHARACTERS = 1_280, 10
# Characters of a token, and the share of the speed of a large matrix product that encoders reach: MiniLM 0.53
# to 0.62 on short and long texts, the multilingual model 0.43 to 0.47.
TOKEN_CHARACTERS, ENCODING_SPEED = 4.5, 0.52
# Work of a score besides its rows times labels, in rows and in labels; encoding its texts is part of it.
ROWS_OF_A_SCORE, LABELS_OF_A_ROW = 50, 20
WORKER_SECONDS, WORKER_BYTES = 3.0, 250 * 10**6  # to start a process and compile
ENCODING_BYTES = 300 * 10**6  # a sentence model at work: full batches, tokens
SCORE_BYTES = 2 * 7 * 8  # columns of 8 bytes, once in the results of jobs and once put together

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """The cost of measuring."""

    encoder: str
    n_tasks: int
    n_scores: int
    n_texts: int  # distinct texts in train and valid
    n_texts_to_encode: int = 0  # of these, those without a vector in the cache; 0 for encoders without one
    seconds_frozen: float = 0.0  # for the text features, without loading a model
    seconds_models: float = 0.0  # for the encoders of the sources
    seconds_pairs: float = 0.0  # for the scores
    memory_bytes: int = 0  # the peak of this process and its workers together
    calibration_seconds: float = 0.0  # how long the estimate took
    at_most: bool = False  # whether measuring may stop earlier: more scores would not predict the rest better

    @property
    def seconds(self) -> float:
        """How long measuring will take in all."""
        return self.seconds_frozen + self.seconds_models + self.seconds_pairs

    def describe(self) -> str:
        """Return a sentence for people.

        >>> seconds = dict(seconds_models=33.0, memory_bytes=640_000_000)
        >>> CostEstimate(encoder="cnn", n_tasks=3, n_scores=6, n_texts=90, **seconds).describe()
        'Measuring transfer: all 6 scores, about 35 s (35 s of it training), 640 MB of memory.'
        """
        if not self.n_scores:
            return "Measuring transfer: all scores are there already."
        every = "all " if self.n_scores == self.n_tasks * (self.n_tasks - 1) else ""
        every, about = ("at most ", "at most about") if self.at_most else (every, "about")
        part = ""
        if self.n_texts_to_encode and self.seconds_frozen >= 1:
            part = f" ({format_seconds(self.seconds_frozen)} of it sentence vectors, which are kept)"
        elif self.seconds_models >= 1 and self.seconds_models > self.seconds / 4:
            part = f" ({format_seconds(self.seconds_models)} of it training)"
        scores, time = f"{every}{self.n_scores:,} scores", f"{about} {format_seconds(self.seconds)}{part}"
        return f"Measuring transfer: {scores}, {time}, {format_bytes(self.memory_bytes)} of memory."


def estimate_cost(
    tasks: TaskSet,
    *,
    encoder: str | Encoder = DEFAULT_ENCODER,
    pairs: PairChoice = "auto",
    kind: str | None = None,
    settings: TransferSettings | None = None,
    vectors: str | PathLike[str] | None = None,
    measured: TransferScores | None = None,
    stop: StopMeasuring | None = None,
    n_workers: int = 1,
    device: str = "auto",
    random_state: RandomState = 0,
) -> CostEstimate:
    """Estimate the cost of `measure_transfer` with the same arguments, in a few seconds.

    Sentence vectors that it computes for that are kept. With `stop`, the estimate is that of measuring which
    does not stop early.

    >>> from robusttc.data import Task
    >>> rows = (["hello", "good morning", "bye", "see you"], ["greet", "greet", "leave", "leave"])
    >>> cost = estimate_cost(TaskSet([Task("a", *rows), Task("b", *rows)]), encoder="cnn")
    >>> cost.n_scores, cost.n_texts, cost.seconds < 60
    (2, 4, True)
    """
    settings = check_arguments(tasks, kind, settings, n_workers)
    seed = run_seed(random_state)
    start, cpu_start = time.perf_counter(), time.process_time()
    (source, target), _ = find_missing(tasks.names, pairs, measured, settings=settings, seed=seed)
    texts, _ = distinct_texts(tasks, SPLITS)
    known: dict[str, Any] = {"n_tasks": len(tasks), "n_scores": len(source), "n_texts": len(texts)}
    if settings.kind == "overlap":
        seconds, _ = cpu_seconds(partial(text_overlap, tasks))
        memory = at_peak(3 * 8 * len(tasks) ** 2 + len(source) * SCORE_BYTES)
        return CostEstimate(encoder="overlap", **known, seconds_pairs=seconds, memory_bytes=memory)
    same = have_same_labels(tasks, settings)
    planning, sizes = cpu_seconds(partial(measure_sizes, tasks, settings, needs_valid=not same, seed=seed))
    chosen = make_encoder(encoder, vectors=vectors, device=device)
    if not len(source):
        return CostEstimate(encoder=chosen.name, **known, memory_bytes=at_peak(0))
    sampled = sample_tasks(tasks, sizes)
    with threadpool_limits(limits=1):
        deadline = start + BUDGET_SECONDS
        encoding, n_to_encode, prepared = time_encoding(chosen, texts, sampled, deadline=deadline)
        own = settings.replace(label_sets="identical" if same else "different")
        part, plan = cpu_seconds(partial(make_plan, sampled, prepared, settings=own, seed=seed))
        planning += part * tasks.n_rows / sampled.n_rows
        train_rate, score_rate = time_jobs(plan, deadline=deadline)
    is_in_rounds = stop is not None and has_rounds(pairs, measured, trains_layers=plan.trains_layers)
    n_rounds = len(round_sizes(len(tasks))) if is_in_rounds else 1  # each fits the encoders again
    training = n_rounds * train_rate * work_of_sources(plan, sizes)[np.unique(source)].sum()
    scoring = score_rate * work_of_scores(sizes)[target].sum()
    together = min(int(n_workers), os.cpu_count() or 1, len(tasks))
    # How many seconds go by for each CPU second on this machine now.
    waiting = max(1.0, (time.perf_counter() - start) / max(time.process_time() - cpu_start, 1e-9))
    return CostEstimate(
        encoder=chosen.name,
        **known,
        n_texts_to_encode=n_to_encode,
        seconds_frozen=waiting * (encoding + planning),
        seconds_models=float(waiting * training / together),
        seconds_pairs=float(waiting * scoring / together) + (WORKER_SECONDS if n_workers > 1 else 0.0),
        memory_bytes=estimate_memory(plan, len(source), len(texts), n_to_encode, int(n_workers)),
        calibration_seconds=time.perf_counter() - start,
        at_most=n_rounds > 1,
    )


def cpu_seconds(work: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU seconds of a call and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def measure_sizes(tasks: TaskSet, settings: TransferSettings, *, needs_valid: bool, seed: int) -> Floats:
    """Return for each task its rows, its rows of train, and its labels; refuse what cannot be measured."""
    sizes: list[tuple[int, int, int]] = []
    for task in tasks:
        train, valid = select_rows(task, settings, needs_valid=needs_valid, seed=seed)
        sizes.append((len(train) + len(valid), len(train), len(seen_labels(task))))
    return np.array(sizes, dtype=np.float64)


def sample_tasks(tasks: TaskSet, sizes: Floats) -> TaskSet:
    """Return a few tasks of evenly spread sizes, small ones first."""
    order = np.argsort(sizes[:, 0], kind="stable")
    n = min(SAMPLED_TASKS, len(order))
    chosen = order[((np.arange(n) + 0.5) / n * len(order)).astype(int)]
    kept = chosen[(np.cumsum(sizes[chosen, 0]) <= SAMPLED_ROWS) | (np.arange(n) < 2)]
    return tasks.subset([tasks.names[number] for number in kept])


def time_encoding(
    encoder: Encoder, texts: Sequence[str], sampled: TaskSet, *, deadline: float
) -> tuple[float, int, PreparedTasks]:
    """Return the CPU seconds for the features of all texts, how many have none yet, and those of a sample."""
    caches = [part.cache for part in encoder.parts if part.cache is not None and part.cache.keeps]
    if len(caches) == len(encoder.parts):
        parts = [
            time_vectors(part, own, texts, deadline=deadline)
            for part, own in zip(encoder.parts, caches, strict=True)
        ]
        seconds, n_missing, dimensions = zip(*parts, strict=True)
        return sum(seconds), max(n_missing), make_vectors(sampled, sum(dimensions))
    prepare = partial(encoder.prepare, splits=SPLITS)
    few_tasks = sampled.subset(sampled.names[: -(-len(sampled) // 3)])
    prepare(few_tasks)  # loads what is loaded once
    few, many = cpu_seconds(partial(prepare, few_tasks))[0], cpu_seconds(partial(prepare, sampled))
    n_few, n_many = (sum(map(len, distinct_texts(some, SPLITS)[0])) for some in (few_tasks, sampled))
    # A file of vectors is read to its end however few texts there are, so part of the time is constant.
    rate = max(many[0] - few, 0.0) / max(n_many - n_few, 1)
    return many[0] + rate * max(sum(map(len, texts)) - n_many, 0), 0, many[1]


def time_vectors(
    encoder: Encoder, cache: VectorCache, texts: Sequence[str], *, deadline: float
) -> tuple[float, int, int]:
    """Return the CPU seconds for vectors that are kept, how many are missing, and the length of one.

    Those in the cache are read, and the others are computed. A sample of many texts is looked up.
    """
    n_sampled = min(len(texts), FOUND_TEXTS)
    chosen = numpy_generator(0, "texts of an estimate").permutation(len(texts))[:n_sampled]
    sample = [texts[number] for number in chosen.tolist()]
    missing = sorted(cache.find_missing(encoder.fingerprint, sample), key=len)
    scale = len(texts) / max(n_sampled, 1)
    without = set(missing)
    cached = [text for text in sample if text not in without]
    seconds, size = 0.0, encoder.model_size
    if cached:
        read = cached[:READ_TEXTS]
        seconds = cpu_seconds(partial(encoder.encode_cached, read))[0] * len(cached) / len(read)
    if missing and size is not None:
        n_tokens = count_characters(missing) / TOKEN_CHARACTERS
        seconds += n_tokens * size.multiply_adds / (ENCODING_SPEED * multiply_adds_per_second())
        return scale * seconds, round(scale * len(missing)), size.dimension
    encoder.encode_cached(missing[:1])  # the first call is slow
    spent, n_characters = 0.0, 0
    # Runs of neighbours, since a model takes texts of one length together; the places are spread evenly.
    for place in np.arange(1, ENCODED_RUNS + 1) * 0.618 % 1.0:
        run = missing[int(place * len(missing)) :][:ENCODED_TEXTS]
        if n_characters and (spent > ENOUGH_ENCODING or time.perf_counter() > deadline):
            break
        spent += cpu_seconds(partial(encoder.encode_cached, run))[0]
        n_characters += count_characters(run)
    missing = cache.find_missing(encoder.fingerprint, missing)
    seconds += spent / max(n_characters, 1) * count_characters(missing)
    dimension = encoder.encode_cached(sample[:1]).dimension
    return scale * seconds, round(scale * len(missing)), dimension


def multiply_adds_per_second() -> float:
    """Return the speed of a matrix product in one thread, per CPU second: the best of five."""
    rows, matrix = (np.ones((height, 512), dtype=np.float32) for height in (256, 512))
    seconds = min(cpu_seconds(lambda: [rows @ matrix for _ in range(8)])[0] for _ in range(5))
    return 8 * len(rows) * matrix.size / max(seconds, 1e-9)


def count_characters(texts: Sequence[str]) -> int:
    """Return how much a model has to read."""
    return sum(min(len(text), MAX_CHARACTERS) + SPECIAL_CHARACTERS for text in texts)


def make_vectors(tasks: TaskSet, dimension: int) -> PreparedTasks:
    """Return random vectors that separate labels somewhat: jobs take as long as with the real ones."""
    texts, items = distinct_texts(tasks, SPLITS)
    generator = numpy_generator(0, "made-up vectors")
    matrix: NDArray[np.float32] = generator.standard_normal((len(texts), dimension), dtype=np.float32)
    for task in tasks:
        rows = task.rows(*SPLITS)
        means = generator.standard_normal((len(task.label_names), dimension), dtype=np.float32)
        matrix[items[task.name][rows]] += means[task.label_codes[rows]]
    return PreparedTasks(DenseInputs(matrix / np.linalg.norm(matrix, axis=1, keepdims=True)), items)


def time_jobs(plan: TransferPlan, *, deadline: float) -> tuple[float, float]:
    """Run jobs of some sources; return the CPU seconds per unit of work of an encoder and of a score."""
    everything = np.arange(len(plan.rows))
    sizes = np.array([(len(rows.items), rows.n_train, rows.n_labels) for rows in plan.rows], dtype=np.float64)
    seconds, works = np.zeros(2), np.zeros(2)
    measure_source(plan, (0, everything[:2]))  # compiles
    for source in sorted(everything.tolist(), key=lambda place: abs(place - len(everything) // 2)):
        training, encoder = cpu_seconds(partial(train_source, plan, source))
        scoring, _ = cpu_seconds(partial(score_source, plan, source, encoder, everything))
        seconds += training, scoring
        works += work_of_sources(plan, sizes)[source], work_of_scores(sizes).sum()
        if seconds.sum() > ENOUGH_JOBS or time.perf_counter() > deadline:
            break
    train_rate, score_rate = (seconds / works).tolist()
    return train_rate, score_rate


def work_of_sources(plan: TransferPlan, sizes: Floats) -> Floats:
    """Return the work of each task's encoder: rows seen in training, or rows of the covariance."""
    if not plan.trains_layers:
        return sizes[:, 0] + plan.inputs.dimension
    training = plan.settings.training
    epochs = np.array([training.count_epochs(int(n_train)) for n_train in sizes[:, 1]])
    return np.asarray(epochs * np.maximum(sizes[:, 1], training.batch_size), dtype=np.float64)


def work_of_scores(sizes: Floats) -> Floats:
    """Return the work of a score by its target."""
    return (sizes[:, 0] + ROWS_OF_A_SCORE) * (sizes[:, 2] + LABELS_OF_A_ROW)


def estimate_memory(plan: TransferPlan, n_scores: int, n_texts: int, n_to_encode: int, n_workers: int) -> int:
    """Return the peak memory: what is used now, and what is added."""
    width = plan.settings.training.width if plan.trains_layers else plan.settings.measure_width or 0
    features = n_texts * width * 4
    inputs = len(pickle.dumps(plan.inputs)) * n_texts // max(len(plan.inputs), 1)
    # Inputs are copied once, when those that are needed are taken.
    added = 2 * inputs + features + n_scores * SCORE_BYTES + (ENCODING_BYTES if n_to_encode else 0)
    return at_peak(added) + (n_workers * (WORKER_BYTES + inputs + features) if n_workers > 1 else 0)


def at_peak(n_more_bytes: int) -> int:
    """Return the larger of the peak so far and the memory of this process with so many bytes more."""
    return max(process_memory() + n_more_bytes, peak_memory())


def process_memory() -> int:
    """Return the memory of this process in bytes; where the system does not say, its peak so far."""
    status = Path("/proc/self/statm")
    if status.is_file():
        return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_memory()
