"""The paper's trained layer: a convolution over word vectors, ReLU, and the maximum over time.

With given word vectors, a filter of window w adds up w numbers, one for each word under it, and each of them
depends only on one word and its place in the window. So all these numbers are computed once for the distinct
words that occur (the table: word x place x filter), and a position of a text costs w additions per filter in
place of w x dimension. The gradient of a maximum flows through a single position, so the backward pass costs
one window per row and filter, and nothing where the representation was dropped or is zero under ReLU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TokenArray
from robusttc.encoders import FrozenInputs, WordInputs
from robusttc.errors import UsageError, quote
from robusttc.models.layers import Gradients, Layer, RowGradients, compiled, multiply_rows

if TYPE_CHECKING:
    from robusttc.models.training import TrainingSettings

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
WordIds = NDArray[np.int32]

# Filters are taken in blocks whose table is at most this large, so that it stays in the cache; the table of
# a single filter may be larger.
MAX_TABLE_BYTES = 32 * 2**20
# The range of random word vectors: that of words which a file of vectors does not have.
RANDOM_VECTOR_SCALE = 0.25
# The position of the maximum in a text without words.
NOWHERE = -1


class ConvolutionLayer(Layer):
    """ReLU(max over a text's positions of a convolution plus bias), one number per filter.

    The text is padded with zero vectors ('same' padding: as many positions as words); an even window covers
    one word more before a position than after it. The maximum is over the text's own positions, so the
    padding of a batch cannot change a result. A text without words is treated as one padding word. `filters`
    has the shape (window, width, dimension); `vectors` are word vectors that are trained with the layer and
    replace those of the inputs.

    Examples
    --------
    >>> from robusttc.data import TokenArray
    >>> inputs = WordInputs(TokenArray([1, 2], [0, 2]), np.array([[0], [1], [3]], dtype=np.float32))
    >>> layer = ConvolutionLayer(np.ones((3, 1, 1), np.float32), np.zeros(1, np.float32))
    >>> layer.represent(inputs).tolist()
    [[4.0]]
    """

    names = ("filters", "bias", "vectors")

    def __init__(self, filters: Floats, bias: Floats, vectors: Floats | None = None) -> None:
        if filters.ndim != 3 or bias.shape != filters.shape[1:2]:
            raise UsageError(
                "the parameters of a convolution do not fit each other",
                got=f"filters of shape {filters.shape}, bias of shape {bias.shape}",
                expected="(window, width, dimension) and (width,)",
            )
        if vectors is not None and (vectors.ndim != 2 or vectors.shape[1] != filters.shape[2]):
            raise UsageError(
                "the word vectors do not fit the filters",
                got=f"vectors of shape {vectors.shape}, filters of shape {filters.shape}",
                expected="vectors of the filters' dimension",
            )
        self.filters = np.ascontiguousarray(filters, dtype=np.float32)
        self.bias = np.ascontiguousarray(bias, dtype=np.float32)
        self.vectors = None if vectors is None else np.ascontiguousarray(vectors, dtype=np.float32)
        self._place_of = np.empty(0, dtype=np.int32)
        self._filter_gradient = np.empty_like(self.filters)
        self._bias_gradient = np.empty_like(self.bias)

    @classmethod
    def new(
        cls, inputs: WordInputs, *, settings: TrainingSettings, generator: np.random.Generator
    ) -> ConvolutionLayer:
        """Return a layer with random weights: one draw of filters, then one of word vectors if random."""
        window, width, dimension = settings.window, settings.width, inputs.dimension
        bound = (6 / (window * dimension + width)) ** 0.5
        filters = generator.uniform(-bound, bound, (window, width, dimension)).astype(np.float32)
        vectors = None
        if settings.embeddings == "pretrained":
            vectors = inputs.vectors.copy()
        elif settings.embeddings == "random":
            scale = RANDOM_VECTOR_SCALE
            vectors = generator.uniform(-scale, scale, inputs.vectors.shape).astype(np.float32)
            vectors[0] = 0.0  # the padding
        return cls(filters, np.zeros(width, dtype=np.float32), vectors)

    @property
    def width(self) -> int:
        """The width of a representation: the number of filters."""
        return int(self.filters.shape[1])

    @property
    def window(self) -> int:
        """How many words a filter covers."""
        return int(self.filters.shape[0])

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Return the representation of every item; bit for bit, it depends on the item alone."""
        tokens, vectors = self._words_of(inputs)
        place_of = np.full(len(vectors), -1, dtype=np.int32)
        local, starts, words = gather_batch(tokens.ids, tokens.offsets, np.arange(len(tokens)), place_of)
        no_positions = np.empty((0, 0), dtype=np.int32)
        return self._convolve(local, starts, vectors[words], multiply_rows, no_positions)

    def forward(self, inputs: FrozenInputs, rows: Numbers) -> Floats:
        """Return the representation of a batch, and keep what `backward` needs."""
        tokens, vectors = self._words_of(inputs)
        if len(self._place_of) != len(vectors):
            self._place_of = np.full(len(vectors), -1, dtype=np.int32)
        self._local, self._starts, self._words = gather_batch(
            tokens.ids, tokens.offsets, rows, self._place_of
        )
        self._chosen = vectors[self._words]
        self._positions = np.empty((len(rows), self.width), dtype=np.int32)
        self._representation = self._convolve(
            self._local, self._starts, self._chosen, np.matmul, self._positions
        )
        return self._representation

    def backward(self, gradient: Floats) -> Gradients:
        """Return the gradients of the parameters for the last `forward`'s batch; valid until the next one."""
        before = self.window // 2
        batch = (gradient, self._representation, self._positions, self._local, self._starts)
        filter_gradients(*batch, self._chosen, before, self._filter_gradient, self._bias_gradient)
        gradients: Gradients = {"filters": self._filter_gradient, "bias": self._bias_gradient}
        if self.vectors is not None:
            values = np.empty_like(self._chosen)
            vector_gradients(*batch, self.filters, before, values)
            trained = self._words != 0  # the padding stays zero
            gradients["vectors"] = RowGradients(self._words[trained], values[trained])
        return gradients

    def _convolve(
        self,
        local: WordIds,
        starts: Numbers,
        vectors: Floats,
        product: Callable[[Floats, Floats], Floats],
        positions: WordIds,
    ) -> Floats:
        """Convolve gathered texts; `vectors` are those of their distinct words."""
        result = np.empty((len(starts) - 1, self.width), dtype=np.float32)
        after = self.window - 1 - self.window // 2
        n_fitting = MAX_TABLE_BYTES // (4 * self.window * max(1, len(vectors)))
        n_blocks = -(-self.width // max(1, n_fitting))
        for block in np.array_split(np.arange(self.width), n_blocks):
            first, last = int(block[0]), int(block[-1]) + 1
            filters = self.filters[:, first:last].reshape(-1, self.filters.shape[2])
            table = product(vectors, filters.T)
            max_over_time(local, starts, table, after, first, self.bias[first:last], result, positions)
        return result

    def _words_of(self, inputs: FrozenInputs) -> tuple[TokenArray, Floats]:
        """Return the word numbers and the word vectors; refuse inputs that do not fit."""
        if not isinstance(inputs, WordInputs) or inputs.dimension != self.filters.shape[2]:
            raise UsageError(
                "the inputs do not fit the convolution",
                got=quote(inputs),
                expected=f"words with vectors of {self.filters.shape[2]} numbers",
            )
        if self.vectors is None:
            return inputs.tokens, inputs.vectors
        if len(self.vectors) != inputs.n_words:
            raise UsageError(
                "the inputs have another vocabulary than the layer's word vectors",
                got=f"{inputs.n_words:,} words",
                expected=f"{len(self.vectors):,}",
                todo="encode the texts with the vocabulary that the layer was trained with",
            )
        return inputs.tokens, self.vectors


@compiled
def gather_batch(
    ids: WordIds, offsets: Numbers, rows: Numbers, place_of: WordIds
) -> tuple[WordIds, Numbers, WordIds]:
    """Renumber the words of some rows: their new numbers, where each row begins, and the old numbers.

    New numbers are in the order of appearance, so frequent words are near each other. `place_of` has an entry
    for every word and is all -1, before and after.
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
def keep_larger(sums: Floats, added: Floats, position: np.int32, best: Floats, where: WordIds) -> None:
    """Where sums + added exceed the best so far, they become the best."""
    for f in range(len(best)):
        value = sums[f] + added[f]
        better = value > best[f]
        best[f] = value if better else best[f]
        where[f] = position if better else where[f]


@compiled
def max_over_time(
    local: WordIds,
    starts: Numbers,
    table: Floats,  # (distinct words, window x block): for each place of the window the block's filters
    after: int,
    first: int,
    bias: Floats,  # (block,)
    representation: Floats,  # (rows, width)
    positions: WordIds,  # (rows, width), or (0, 0) if nobody needs them
) -> None:
    """Write ReLU(max + bias) of a block of filters, and the first position that has the maximum."""
    n_block = len(bias)
    window = table.shape[1] // n_block
    open_sums = np.zeros((window, n_block), dtype=np.float32)
    nothing = np.zeros(n_block, dtype=np.float32)
    best = np.empty(n_block, dtype=np.float32)
    where = np.empty(n_block, dtype=np.int32)
    for row in range(len(starts) - 1):
        start, stop = starts[row], starts[row + 1]
        open_sums[:] = 0.0
        best[:] = -np.inf if stop > start else 0.0
        where[:] = NOWHERE
        # Before step t, slot s has the sums of position t - after + s; the word at t completes the oldest.
        for t in range(start, stop):
            products = table[local[t]]
            if t - after >= start:
                keep_larger(
                    open_sums[0], products[(window - 1) * n_block :], np.int32(t - after), best, where
                )
            for slot in range(window - 1):
                ahead = open_sums[slot]
                behind = open_sums[slot + 1]
                added = products[(window - 2 - slot) * n_block : (window - 1 - slot) * n_block]
                for f in range(n_block):
                    ahead[f] = behind[f] + added[f]
        for slot in range(max(0, start - stop + after), after):  # those that the end of the text completes
            keep_larger(open_sums[slot], nothing, np.int32(stop - after + slot), best, where)
        for f in range(n_block):
            value = best[f] + bias[f]
            representation[row, first + f] = value if value > 0 else np.float32(0.0)
        if len(positions):
            positions[row, first : first + n_block] = where


@compiled
def filter_gradients(
    gradient: Floats,
    representation: Floats,
    positions: WordIds,
    local: WordIds,
    starts: Numbers,
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
    starts: Numbers,
    filters: Floats,
    before: int,
    vectors: Floats,
) -> None:
    """Write the gradients of the batch's word vectors to an array with a row for each distinct word."""
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
