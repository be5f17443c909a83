"""The convolution of whole texts with max over time, as sums of table rows.

With given word vectors, a filter of window w adds up w numbers, one for each word under it, and each of them
depends on one word and its place in the window only. So for the distinct words that occur, all these numbers
are computed once (the table: word x place x filter), and a position of a text costs w additions a filter in
place of w x dimension.

The table is bounded: where the words are many, filters are taken in blocks, and then texts are too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.compiling import compiled
from robusttc.data import TokenArray
from robusttc.encoders.convolution_scan import LANES, SCANNED_WINDOW, scan_text
from robusttc.encoders.products import multiply_into

__all__ = ["count_before", "encode_texts", "find_distinct_rows"]

Floats = NDArray[np.float32]
WordIds = NDArray[np.int32]
Places = NDArray[np.int64]

# The largest table. A single text with more distinct words than fit has a larger one all the same.
MAX_TABLE_BYTES = 64 * 2**20
# A table that the cache can hold; filters are taken in so many blocks that it does, if it can be done.
GOOD_TABLE_BYTES = 16 * 2**20


def count_before(window: int) -> int:
    """Give the number of words before a position that its window covers; the rest is at and after it.

    An odd window is symmetric; an even one covers one word more before than after.
    """
    return window // 2


def encode_texts(tokens: TokenArray, vectors: Floats, filters: Floats, bias: Floats) -> Floats:
    """Give, for every text and filter, ReLU(max over the text's positions of the convolution plus bias).

    Words beyond the ends of a text count as zero vectors, and only the text's own positions are in the
    maximum. A text without words is one padding word. A row of the result depends on its own text only.

    Parameters
    ----------
    tokens
        The word numbers of every text.
    vectors
        The vector of every word number, shape (words, dimension).
    filters
        Shape (window, filters, dimension): what the word at each place of the window is multiplied with.
    bias
        One number a filter.

    Examples
    --------
    >>> vectors = np.array([[0.0], [1.0], [5.0]], dtype=np.float32)
    >>> filters = np.array([[[1.0]], [[1.0]], [[0.0]]], dtype=np.float32)  # a word and the one before it
    >>> encode_texts(TokenArray([1, 2, 1, 1], [0, 2, 4]), vectors, filters, np.zeros(1, np.float32)).tolist()
    [[6.0], [2.0]]
    """
    window, width, _ = filters.shape
    result = np.empty((len(tokens), width), dtype=np.float32)
    place_of = np.full(len(vectors), -1, dtype=np.int32)
    n_groups = -(-width // LANES)
    group_bytes = 4 * window * LANES  # of one word
    start = 0
    while start < len(tokens):
        max_words = MAX_TABLE_BYTES // group_bytes
        stop, local, words = number_words(tokens.ids, tokens.offsets, start, max_words, place_of)
        offsets = tokens.offsets[start : stop + 1] - tokens.offsets[start]
        chosen = vectors[words]
        n_fitting = max(1, GOOD_TABLE_BYTES // (group_bytes * max(1, len(words))))
        n_blocks = -(-n_groups // n_fitting)
        memory = np.empty(len(words) * -(-n_groups // n_blocks) * window * LANES, dtype=np.float32)
        for groups in np.array_split(np.arange(n_groups), n_blocks):
            first, n_columns = int(groups[0]) * LANES, len(groups) * window * LANES
            table = memory[: len(words) * n_columns].reshape(len(words), n_columns)
            multiply_into(chosen, arrange_filters(filters, first, len(groups)), table)
            take_maxima(local, offsets, table, window, bias, first, result[start:stop])
        start = stop
    return result


def arrange_filters(filters: Floats, first: int, n_groups: int) -> Floats:
    """Lay out some groups of filters as the table has them: (dimension, group x place x filter).

    Where there is no filter any more there are zeros.
    """
    window, width, dimension = filters.shape
    n_here = min(n_groups * LANES, width - first)
    block = np.zeros((dimension, window, n_groups * LANES), dtype=np.float32)
    block[:, :, :n_here] = filters[:, first : first + n_here].transpose(2, 0, 1)
    grouped = block.reshape(dimension, window, n_groups, LANES).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(grouped).reshape(dimension, -1)


@compiled
def number_words(
    ids: WordIds, offsets: Places, start: int, max_words: int, place_of: WordIds
) -> tuple[int, WordIds, WordIds]:
    """Give new numbers to the distinct words of texts, from `start` on until they are more than `max_words`.

    Returns the text to go on with, the new numbers of all words on the way, and the old number of each.
    New numbers are in the order of appearance, so frequent words are together. `place_of` is all -1, before
    and after.
    """
    n_texts = len(offsets) - 1
    words = np.empty(min(len(place_of), len(ids) - offsets[start]), dtype=np.int32)
    local = np.empty(len(ids) - offsets[start], dtype=np.int32)
    n_words = 0
    stop = start
    while stop < n_texts:
        n_known = n_words
        for t in range(offsets[stop], offsets[stop + 1]):
            word = ids[t]
            if place_of[word] < 0:
                place_of[word] = n_words
                words[n_words] = word
                n_words += 1
            local[t - offsets[start]] = place_of[word]
        if n_words > max_words and stop > start:
            for place in range(n_known, n_words):
                place_of[words[place]] = -1
            n_words = n_known
            break
        stop += 1
    for place in range(n_words):
        place_of[words[place]] = -1
    return stop, local[: offsets[stop] - offsets[start]].copy(), words[:n_words].copy()


@compiled
def take_maxima(
    local: WordIds, offsets: Places, table: Floats, window: int, bias: Floats, first: int, result: Floats
) -> None:
    """Write ReLU(max + bias) of some groups of filters to their columns of `result`, which begin at `first`.

    `table` has a row a word: for every group of LANES filters, for every place of the window, the products.
    Words under a window are added up from first to last, whichever way is taken. A group goes through all
    texts before the next one does, so that its products with the frequent words stay in the cache.
    """
    stride, width = table.shape[1], result.shape[1]
    n_groups = min(stride // (window * LANES), (width - first + LANES - 1) // LANES)
    part = np.empty(LANES, dtype=np.float32)
    shift = np.zeros(LANES, dtype=np.float32)
    size = table.itemsize
    for group in range(n_groups):
        start, column = group * window * LANES, first + group * LANES
        n_here = min(LANES, width - column)
        shift[:n_here] = bias[column : column + n_here]
        for row in range(len(offsets) - 1):
            # The last group may be wider than what is left of the row.
            target = (
                result.ctypes.data + (row * width + column) * size if n_here == LANES else part.ctypes.data
            )
            if window == SCANNED_WINDOW:
                words = local.ctypes.data + offsets[row] * local.itemsize
                products, n_words = table.ctypes.data + start * size, offsets[row + 1] - offsets[row]
                scan_text(words, n_words, products, stride, LANES, shift.ctypes.data, target)
                if n_here < LANES:
                    result[row, column:] = part[:n_here]
            else:
                scan_text_of_any_window(
                    local[offsets[row] : offsets[row + 1]], table, start, window, shift, part
                )
                result[row, column : column + n_here] = part[:n_here]


@compiled
def scan_text_of_any_window(
    words: WordIds, table: Floats, start: int, window: int, bias: Floats, target: Floats
) -> None:
    """Do what `scan_text` does, for a group whose products begin at column `start`."""
    before = window // 2
    sums = np.empty(LANES, dtype=np.float32)
    target[:] = -np.inf if len(words) else 0.0
    for position in range(len(words)):
        sums[:] = 0.0
        lowest, highest = max(0, position - before), min(len(words), position - before + window)
        for t in range(lowest, highest):
            at = start + (t - position + before) * LANES
            for f in range(LANES):
                sums[f] += table[words[t], at + f]
        for f in range(LANES):
            target[f] = sums[f] if sums[f] > target[f] else target[f]
    for f in range(LANES):
        value = target[f] + bias[f]
        target[f] = value if value > 0 else np.float32(0.0)


@compiled
def find_distinct_rows(ids: WordIds, offsets: Places) -> tuple[Places, Places]:
    """Give the first row of every distinct content, and for each row the place of its content among them."""
    n_rows = len(offsets) - 1
    n_slots = 8
    while n_slots < 2 * n_rows:
        n_slots *= 2
    slots = np.full(n_slots, -1, dtype=np.int64)
    firsts = np.empty(n_rows, dtype=np.int64)
    place_of = np.empty(n_rows, dtype=np.int64)
    n_found = 0
    for row in range(n_rows):
        length = offsets[row + 1] - offsets[row]
        code = np.uint64(length)
        for t in range(offsets[row], offsets[row + 1]):
            code = (code ^ np.uint64(ids[t])) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
        slot = np.int64(code & np.uint64(n_slots - 1))
        while slots[slot] >= 0:
            other = firsts[slots[slot]]
            equal = offsets[other + 1] - offsets[other] == length
            if equal:
                for i in range(length):
                    if ids[offsets[other] + i] != ids[offsets[row] + i]:
                        equal = False
                        break
            if equal:
                break
            slot = (slot + 1) & (n_slots - 1)
        if slots[slot] < 0:
            slots[slot] = n_found
            firsts[n_found] = row
            n_found += 1
        place_of[row] = slots[slot]
    return firsts[:n_found].copy(), place_of
