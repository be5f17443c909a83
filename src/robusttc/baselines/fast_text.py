"""Single-task fastText with fixed word vectors, or rather an honest equal of it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.baselines.own_task import AUTO, OwnTaskBaseline, check_values
from robusttc.baselines.sparse_softmax import fit_sparse_softmax
from robusttc.baselines.task_model import Floats, normalise_shares
from robusttc.data import Task
from robusttc.encoders.encoder import Encoder
from robusttc.encoders.inputs import FrozenInputs, WordInputs
from robusttc.encoders.products import multiply_rows
from robusttc.errors import UsageError, quote
from robusttc.random import RandomState

__all__ = ["FastTextBaseline"]

GRID = (10.0, 0.1, 0.3, 1.0, 3.0, 30.0, 100.0)
FEW_SHOT_GRID = (100.0, 1.0, 3.0, 10.0, 30.0, 300.0, 1000.0)


class FastTextBaseline(OwnTaskBaseline):
    r"""The mean of fixed word vectors, and word bi-grams, under a linear classifier: one a task.

    fastText (Joulin et al. 2016) maps a text to the mean of the vectors of its words and n-grams, and that to
    labels by a linear softmax classifier A. The paper's baseline is fastText "with fixed embeddings". Here:

    * the vectors of words are fixed; their mean is one part of the features;
    * n-grams have no pre-trained vectors. A learned vector :math:`z_g` acts through :math:`A z_g` only, which
      can be any vector of a number a label as long as there are at most as many labels as dimensions. So
      every bi-gram of the training rows has these numbers themselves: the shares of a text's bi-grams are the
      second part of the features. This makes the problem convex, and it is solved to convergence.

    Deviation: the package ``fasttext`` takes a fixed number of steps from random n-gram vectors, gives
    n-grams hashed places that several may share, and takes one mean over words and n-grams; here every
    bi-gram has its own place, words and bi-grams have a mean each, and there is a penalty, chosen on
    validation rows. The tokens are NLTK's, lower-cased.

    Parameters
    ----------
    encoder
        ``cnn``, or another encoder that gives words with vectors.
    C
        The inverse strength of the penalty, or ``auto``: chosen at `fit` by the mean over tasks of the
        accuracy on validation rows; `adapt` without `fit` takes 10, or 100 with `few_shot`.
    bigrams
        Whether bi-grams are used.
    balanced
        Whether every label counts alike.
    few_shot
        Whether C is for few-shot tasks: then `fit` chooses it, with the training rows of every
        task cut to one a label and 20 more, and learns no source task.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        The seed of the cut.

    Examples
    --------
    >>> task = Task("acme", ["hello you", "see you later"], ["greet", "leave"])
    >>> FastTextBaseline().adapt(task).predict(["hello", "later"]).tolist()
    ['greet', 'leave']
    """

    def __init__(
        self,
        encoder: str | Encoder = "cnn",
        *,
        C: float | str = AUTO,
        bigrams: bool = True,
        balanced: bool = True,
        few_shot: bool = False,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(
            encoder,
            few_shot=few_shot,
            vectors=vectors,
            model=model,
            device=device,
            random_state=random_state,
        )
        self.C = C
        self.bigrams = bigrams
        self.balanced = balanced

    def _values(self) -> tuple[Any, ...]:
        if not isinstance(self.bigrams, bool):
            raise UsageError("bigrams cannot be used", got=quote(self.bigrams), expected="True or False")
        return check_values("C", self.C, default=FEW_SHOT_GRID if self.few_shot else GRID)

    def _learn(
        self, task: Task, inputs: FrozenInputs, codes: NDArray[np.int64], value: Any, seed: int
    ) -> FastTextPredictor:
        del seed  # nothing is drawn
        words = require_words(inputs)
        known = np.unique(number_pairs(words)[1]) if self.bigrams else np.zeros(0, dtype=np.int64)
        means, shares = mean_vectors(words), bigram_shares(words, known)
        mean_weight, bigram_weight, bias = fit_sparse_softmax(
            means, shares, codes, n_labels=len(task.label_names), C=value, balanced=self.balanced
        )
        return FastTextPredictor(
            known, np.ascontiguousarray(mean_weight, dtype=np.float32), bigram_weight, bias
        )


@dataclass(frozen=True, slots=True, eq=False)
class FastTextPredictor:
    """The numbers of the bi-grams that have weights, and the weights of both parts."""

    known: NDArray[np.int64]
    mean_weight: NDArray[np.float32]
    bigram_weight: Floats
    bias: Floats

    def probabilities(self, inputs: FrozenInputs) -> Floats:
        """Give the probability of every label for every item."""
        words = require_words(inputs)
        scores = multiply_rows(mean_vectors(words).astype(np.float32), self.mean_weight).astype(np.float64)
        return normalise_shares(scores + bigram_shares(words, self.known) @ self.bigram_weight + self.bias)


def require_words(inputs: FrozenInputs) -> WordInputs:
    """Refuse inputs that are not words."""
    if not isinstance(inputs, WordInputs):
        raise UsageError("fastText needs words", got="one vector a text", todo="take encoder='cnn'")
    return inputs


def mean_vectors(words: WordInputs) -> Floats:
    """Give the mean of the word vectors of every item; zeros for an item without words."""
    used, columns = np.unique(words.tokens.ids, return_inverse=True)
    lengths = words.tokens.lengths
    weights = np.repeat(1.0 / np.maximum(lengths, 1), lengths)
    # A sparse product adds up the words of an item in their order, whatever the other items are.
    shape = (len(words), len(used))
    averaging = sparse.csr_array((weights, columns, words.tokens.offsets), shape=shape)
    return np.asarray(averaging @ words.vectors[used].astype(np.float64))


def number_pairs(words: WordInputs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the item and the number of every pair of neighbouring words."""
    ids = words.tokens.ids.astype(np.int64)
    items = np.repeat(np.arange(len(words)), words.tokens.lengths)
    inside = np.flatnonzero(items[1:] == items[:-1])
    return items[inside], ids[inside] * words.n_words + ids[inside + 1]


def bigram_shares(words: WordInputs, known: NDArray[np.int64]) -> sparse.csr_array:
    """Give the share of every known bi-gram among all those of an item; `known` is sorted."""
    items, pairs = number_pairs(words)
    counts = np.maximum(np.bincount(items, minlength=len(words)), 1)
    places = np.searchsorted(known, pairs)
    is_known = np.zeros(len(pairs), dtype=np.bool_)
    if len(known):
        is_known = known[np.minimum(places, len(known) - 1)] == pairs
    entries = (1.0 / counts[items[is_known]], (items[is_known], places[is_known]))
    return sparse.csr_array(entries, shape=(len(words), len(known)))
