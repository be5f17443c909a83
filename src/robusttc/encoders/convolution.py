"""The paper's trained layer: a convolution over word vectors, ReLU, and the maximum over time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TokenArray
from robusttc.encoders.adam import Gradients, RowGradients
from robusttc.encoders.convolution_encoding import count_before, encode_texts, find_distinct_rows
from robusttc.encoders.convolution_kernels import (
    filter_gradients,
    gather_batch,
    make_table,
    max_over_time,
    vector_gradients,
)
from robusttc.encoders.inputs import FrozenInputs, WordInputs
from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import UsageError, quote

__all__ = ["ConvolutionLayer"]

Floats = NDArray[np.float32]

# The products of a batch's words with all filters; larger ones are made in blocks of filters.
MAX_TABLE_BYTES = 32 * 2**20
# The largest number in a random word vector: that of words which a file of vectors does not have.
RANDOM_VECTOR_SCALE = 0.25


class ConvolutionLayer:
    """ReLU(max over a text's positions of a convolution plus bias), one number a filter.

    The text is padded with zero vectors ('same' padding: as many positions as words); an even window sees one
    word more before a position than after it. The maximum is over the text's own positions, so the padding
    of a batch cannot change a result. A text without words is treated as one padding word.

    Parameters
    ----------
    filters
        Shape (window, width, dimension).
    bias
        Shape (width,).
    vectors
        Word vectors of the layer's own, shape (words, dimension), which are trained with it and replace those
        of the inputs; None takes those of the inputs and does not train them.

    Raises
    ------
    UsageError
        If the shapes do not fit each other.

    Examples
    --------
    >>> from robusttc.data import TokenArray
    >>> inputs = WordInputs(TokenArray([1, 2], [0, 2]), np.array([[0], [1], [3]], dtype=np.float32))
    >>> layer = ConvolutionLayer(np.ones((3, 1, 1), np.float32), np.zeros(1, np.float32))
    >>> layer.represent(inputs).tolist()
    [[4.0]]
    """

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
        """Make a layer with random weights: one draw of filters, then one of word vectors if random."""
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
        """How many numbers a representation has."""
        return int(self.filters.shape[1])

    @property
    def window(self) -> int:
        """How many words a filter sees."""
        return int(self.filters.shape[0])

    def parameters(self) -> dict[str, Floats]:
        """Give the live arrays of all parameters, by name."""
        parameters = {"filters": self.filters, "bias": self.bias}
        return parameters if self.vectors is None else {**parameters, "vectors": self.vectors}

    def clone(self) -> ConvolutionLayer:
        """Make a layer of its own with the same parameters."""
        vectors = None if self.vectors is None else self.vectors.copy()
        return ConvolutionLayer(self.filters.copy(), self.bias.copy(), vectors)

    def represent(self, inputs: FrozenInputs) -> Floats:
        """Give the representation of every item; bit for bit, it depends on the item alone."""
        tokens, vectors = self._words_of(inputs)
        # Equal texts have equal representations. With few of them, copying the results would cost more.
        firsts, places = find_distinct_rows(tokens.ids, tokens.offsets)
        if 2 * len(firsts) > len(inputs):
            return encode_texts(tokens, vectors, self.filters, self.bias)
        return encode_texts(tokens.take(firsts), vectors, self.filters, self.bias)[places]

    def forward(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> Floats:
        """Give the representation of a batch, and keep what `backward` needs."""
        tokens, vectors = self._words_of(inputs)
        if len(self._place_of) != len(vectors):
            self._place_of = np.full(len(vectors), -1, dtype=np.int32)
        self._local, self._starts, self._words = gather_batch(
            tokens.ids, tokens.offsets, rows, self._place_of
        )
        self._chosen = vectors[self._words]
        shape = (len(rows), self.width)
        self._representation = np.empty(shape, dtype=np.float32)
        self._positions = np.empty(shape, dtype=np.int32)
        n_words = len(self._words)
        after = self.window - 1 - count_before(self.window)
        n_block = max(1, min(self.width, MAX_TABLE_BYTES // (4 * self.window * (n_words + 1))))
        for first in range(0, self.width, n_block):
            block = self.filters[:, first : first + n_block].reshape(-1, self.filters.shape[2])
            table = make_table(self._chosen, block)
            bias = self.bias[first : first + n_block]
            max_over_time(
                self._local, self._starts, table, after, first, bias, self._representation, self._positions
            )
        return self._representation

    def backward(self, gradient: Floats) -> Gradients:
        """Give the gradients of the parameters for the last `forward`'s batch; valid until the next one."""
        before = count_before(self.window)
        batch = (gradient, self._representation, self._positions, self._local, self._starts)
        filter_gradients(*batch, self._chosen, before, self._filter_gradient, self._bias_gradient)
        gradients: Gradients = {"filters": self._filter_gradient, "bias": self._bias_gradient}
        if self.vectors is not None:
            values = np.empty_like(self._chosen)
            vector_gradients(*batch, self.filters, before, values)
            trained = self._words != 0  # the padding stays zero
            gradients["vectors"] = RowGradients(self._words[trained], values[trained])
        return gradients

    def _words_of(self, inputs: FrozenInputs) -> tuple[TokenArray, Floats]:
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
