"""How long the frozen part of all tasks will take, from encoding some of their texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders import (
    DenseInputs,
    Encoder,
    FrozenInputs,
    PreparedTasks,
    SentenceEncoder,
    distinct_texts,
)
from robusttc.random import numpy_generator

__all__ = ["FrozenCost", "cost_of_frozen_part"]

SPLITS = ("train", "valid")
# Texts that tell the speed at first; the largest sample, by count and by time; and its runs.
FIRST_TEXTS, MAX_TEXTS, MAX_SECONDS, N_RUNS = 64, 2_000, 2.0, 4
# A model cuts texts at its maximum length; a token has about so many characters.
CHARACTERS_A_TOKEN = 5
# With MiniLM, 64 texts take a third more CPU time each than thousands do; from about 200 on, a tenth at most.
LEAST_TEXTS = 192


@dataclass(frozen=True, slots=True, eq=False)
class FrozenCost:
    """What the frozen part will cost, and that of the sampled tasks.

    Attributes
    ----------
    seconds
        How long it will take.
    n_texts_to_encode
        How many texts have no vector in the cache yet; for other encoders 0.
    bytes_an_item
        How much memory an item of the frozen inputs takes.
    sample
        The frozen part of the sampled tasks. That of a sentence encoder is made up: how long later work takes
        does not depend on it.
    """

    seconds: float
    n_texts_to_encode: int
    bytes_an_item: float
    sample: PreparedTasks


def cost_of_frozen_part(encoder: Encoder, texts: Sequence[str], groups: Sequence[TaskSet]) -> FrozenCost:
    """Estimate the frozen part of all tasks.

    Parameters
    ----------
    encoder
        The encoder.
    texts
        The distinct texts of all tasks.
    groups
        The sampled tasks, small ones first.
    """
    sampled = TaskSet(task for group in groups for task in group)
    if isinstance(encoder, SentenceEncoder):
        return cost_of_sentences(encoder, texts, sampled)
    encoder.prepare(groups[0], splits=SPLITS)  # loads what is loaded once
    start = time.perf_counter()
    few = encoder.prepare(groups[0], splits=SPLITS)
    middle = time.perf_counter()
    many = encoder.prepare(sampled, splits=SPLITS)
    seconds = middle - start, time.perf_counter() - middle
    n_few, n_many = (count_characters(distinct_texts(part, SPLITS)[0]) for part in (groups[0], sampled))
    # A file of vectors is read to its end however few texts there are, so part of the time is constant.
    rate = max(seconds[1] - seconds[0], 0.0) / max(n_many - n_few, 1)
    constant = max(seconds[0] - rate * n_few, 0.0) if len(few.inputs) < len(many.inputs) else 0.0
    rate = rate if constant or rate else seconds[1] / max(n_many, 1)
    total = constant + rate * count_characters(texts)
    return FrozenCost(total, 0, size_in_bytes(many.inputs) / max(len(many.inputs), 1), many)


def count_characters(texts: Sequence[str]) -> int:
    """Count the characters of all texts."""
    return sum(map(len, texts))


def cost_of_sentences(encoder: SentenceEncoder, texts: Sequence[str], sampled: TaskSet) -> FrozenCost:
    """Estimate sentence vectors: those in the cache are read, the others are computed."""
    encoder.load()
    missing = encoder.cache.find_missing(encoder.fingerprint, texts)
    dimension = encoder.encode_cached(texts[:1]).dimension
    seconds = 0.0
    if len(missing) < len(texts):
        seconds += read_seconds(encoder, texts, set(missing))
    if missing:
        rate = encoding_seconds(encoder, missing)
        missing = encoder.cache.find_missing(encoder.fingerprint, missing)
        seconds += rate * sum(work_of_texts(missing, encoder))
    prepared = make_up_vectors(sampled, dimension)
    return FrozenCost(seconds, len(missing), 4.0 * dimension, prepared)


def read_seconds(encoder: SentenceEncoder, texts: Sequence[str], missing: set[str]) -> float:
    """Estimate how long the vectors that are in the cache take to be read."""
    there = [text for text in texts if text not in missing]
    some = there[:: -(-len(there) // MAX_TEXTS)]
    start = time.perf_counter()
    encoder.encode_cached(some)
    return (time.perf_counter() - start) * len(there) / len(some)


def encoding_seconds(encoder: SentenceEncoder, missing: Sequence[str]) -> float:
    """Give the seconds a unit of work, from a sample of short and long texts; its vectors are kept."""

    def encode(some: Sequence[str]) -> float:
        start = time.perf_counter()
        encoder.encode_cached(some)
        return time.perf_counter() - start

    ordered = sorted(missing, key=len)
    encoder.encode(ordered[:1])  # the first call is slow
    sampled = take_runs(ordered, FIRST_TEXTS)
    seconds = encode(sampled)
    left = sorted(set(missing).difference(sampled), key=len)
    n_more = min(MAX_TEXTS, max(LEAST_TEXTS, int(len(sampled) * MAX_SECONDS / max(seconds, 1e-6))))
    # Few texts go through the model less quickly than many, so the first ones count only where they are all.
    if len(left) >= FIRST_TEXTS:
        sampled = take_runs(left, n_more)
        seconds = encode(sampled)
    return seconds / max(sum(work_of_texts(sampled, encoder)), 1)


def take_runs(ordered: Sequence[str], count: int) -> list[str]:
    """Take so many texts, in a few runs of neighbours.

    Texts go through a model by their lengths. Neighbours share them, as the texts of a large set do.

    >>> take_runs(["a", "b", "c", "d", "e", "f", "g", "h"], 4)
    ['a', 'c', 'e', 'g']
    """
    n = len(ordered)
    parts = [ordered[n * part // N_RUNS : n * (part + 1) // N_RUNS] for part in range(N_RUNS)]
    run = -(-count // N_RUNS)
    starts = [max(0, (len(part) - run) // 2) for part in parts]
    return [text for part, start in zip(parts, starts, strict=True) for text in part[start : start + run]]


def work_of_texts(texts: Sequence[str], encoder: SentenceEncoder) -> list[int]:
    """Give the work of each text: its characters as far as the model reads, and those of the two marks."""
    limit = CHARACTERS_A_TOKEN * int(encoder.load().transformer.max_seq_length or 512)
    return [min(len(text), limit) + 2 * CHARACTERS_A_TOKEN for text in texts]


def make_up_vectors(tasks: TaskSet, dimension: int) -> PreparedTasks:
    """Make vectors that tell labels apart somewhat, for timing."""
    texts, items = distinct_texts(tasks, SPLITS)
    generator = numpy_generator(0, "made-up vectors")
    matrix: NDArray[np.float32] = generator.standard_normal((len(texts), dimension), dtype=np.float32)
    for task in tasks:
        rows = task.rows(*SPLITS)
        means = generator.standard_normal((len(task.label_names), dimension), dtype=np.float32)
        matrix[items[task.name][rows]] += means[task.label_codes[rows]]
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return PreparedTasks(DenseInputs(matrix), items)


def size_in_bytes(inputs: FrozenInputs) -> int:
    """Give the bytes of frozen inputs."""
    if isinstance(inputs, DenseInputs):
        return inputs.matrix.nbytes
    return inputs.vectors.nbytes + inputs.tokens.ids.nbytes + inputs.tokens.offsets.nbytes
