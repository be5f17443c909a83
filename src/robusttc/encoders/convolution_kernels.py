"""The inner loops of training a convolution, compiled: one batch forward, and its gradients.

A batch is laid out by `gather_batch`: the words of its rows one after the other, numbered anew by distinct
words, so that the products are made once a distinct word (see `robusttc.encoders.convolution_encoding`).
The gradient of a maximum flows through one position, so going back costs one window a row and filter, and
nothing where the representation was dropped out or is zero under ReLU.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled
from robusttc.encoders.products import multiply_into

__all__ = ["filter_gradients", "gather_batch", "make_table", "max_over_time", "vector_gradients"]

Floats = NDArray[np.float32]
WordIds = NDArray[np.int32]
Places = NDArray[np.int64]

# Position of a row that has no words: its window has nothing under it.
NOWHERE = -1


@compiled
def gather_batch(
    ids: WordIds, offsets: Places, rows: Places, place_of: WordIds
) -> tuple[WordIds, Places, WordIds]:
    """Give the words of some rows under new numbers, where each row begins, and the old numbers.

    `place_of` has a place for every word and is all -1, before and after.
    """
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    for i in range(len(rows)):
        starts[i + 1] = starts[i] + offsets[rows[i] + 1] - offsets[rows[i]]
    local = np.empty(starts[-1], dtype=np.int32)
    words = np.empty(min(starts[-1], len(place_of)), dtype=np.int32)
    n_words = 0
    for i in range(len(rows)):
        shift = starts[i] - offsets[rows[i]]
        for t in range(offsets[rows[i]], offsets[rows[i] + 1]):
            word = ids[t]
            if place_of[word] < 0:
                place_of[word] = n_words
                words[n_words] = word
                n_words += 1
            local[t + shift] = place_of[word]
    for place in range(n_words):
        place_of[words[place]] = -1
    return local, starts, words[:n_words].copy()


@compiled
def make_table(vectors: Floats, filters: Floats) -> Floats:
    """Give the products of words (words, dimension) and filters (filters, dimension), and a row of zeros."""
    table = np.empty((len(vectors) + 1, len(filters)), dtype=np.float32)
    multiply_into(vectors, filters.T, table)
    table[len(vectors)] = 0.0
    return table


@compiled
def max_over_time(
    local: WordIds,
    starts: Places,
    table: Floats,
    after: int,
    first: int,
    bias: Floats,
    representation: Floats,
    positions: WordIds,
) -> None:
    """Write ReLU(max + bias) of a block of filters, and the position in the batch that has the maximum.

    `table` has a row a distinct word: for each place of the window, the products with the block's filters;
    and a last row of zeros, for the padding beyond the end. Of equal maxima the first counts.
    """
    n_block = len(bias)
    window = table.shape[1] // n_block
    open_sums = np.zeros((window, n_block), dtype=np.float32)
    best = np.empty(n_block, dtype=np.float32)
    where = np.empty(n_block, dtype=np.int32)
    for row in range(len(starts) - 1):
        start, stop = starts[row], starts[row + 1]
        open_sums[:] = 0.0
        best[:] = -np.inf if stop > start else 0.0
        where[:] = NOWHERE
        # Before step t, slot s belongs to position t - after + s; past the end the last ones are completed.
        for t in range(start, stop + after):
            products = table[local[t] if t < stop else len(table) - 1]
            position = np.int32(t - after)
            if position >= start:
                oldest = open_sums[0]
                last = products[(window - 1) * n_block :]
                for f in range(n_block):
                    value = oldest[f] + last[f]
                    better = value > best[f]
                    best[f] = value if better else best[f]
                    where[f] = position if better else where[f]
            for slot in range(window - 1):
                ahead = open_sums[slot]
                behind = open_sums[slot + 1]
                added = products[(window - 2 - slot) * n_block : (window - 1 - slot) * n_block]
                for f in range(n_block):
                    ahead[f] = behind[f] + added[f]
        for f in range(n_block):
            value = best[f] + bias[f]
            representation[row, first + f] = value if value > 0 else np.float32(0.0)
            positions[row, first + f] = where[f]


@compiled
def filter_gradients(
    gradient: Floats,
    representation: Floats,
    positions: WordIds,
    local: WordIds,
    starts: Places,
    vectors: Floats,
    before: int,
    filters: Floats,
    bias: Floats,
) -> None:
    """Write the gradients of filters and bias to arrays of their shapes.

    Filter by filter, so that a filter's gradient stays in the cache while all rows add to it.
    """
    window, width, dimension = filters.shape
    for f in range(width):
        for j in range(window):
            filters[j, f] = 0.0
        bias[f] = 0.0
        for row in range(len(gradient)):
            share = gradient[row, f]
            if share == 0.0 or representation[row, f] <= 0.0:
                continue
            bias[f] += share
            if positions[row, f] == NOWHERE:
                continue
            for j in range(window):
                t = positions[row, f] + j - before
                if starts[row] <= t < starts[row + 1]:
                    total = filters[j, f]
                    vector = vectors[local[t]]
                    for k in range(dimension):
                        total[k] += share * vector[k]


@compiled
def vector_gradients(
    gradient: Floats,
    representation: Floats,
    positions: WordIds,
    local: WordIds,
    starts: Places,
    filters: Floats,
    before: int,
    vectors: Floats,
) -> None:
    """Write the gradients of the batch's word vectors to an array with a row a distinct word."""
    window, width, dimension = filters.shape
    vectors[:] = 0.0
    for row in range(len(gradient)):
        for f in range(width):
            share = gradient[row, f]
            if share == 0.0 or representation[row, f] <= 0.0 or positions[row, f] == NOWHERE:
                continue
            for j in range(window):
                t = positions[row, f] + j - before
                if starts[row] <= t < starts[row + 1]:
                    total = vectors[local[t]]
                    weight = filters[j, f]
                    for k in range(dimension):
                        total[k] += share * weight[k]
