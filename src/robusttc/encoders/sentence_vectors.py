"""Sentence vectors: those of ``SentenceTransformer.encode``, sooner.

Texts that are the same to the model (the same token numbers: MiniLM, for one, does not see case) are encoded
once, and batches hold rows of one length, so nothing is padded. A model that is not recognised goes through
its own ``encode``, every distinct text once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.bert_forward import FastBert
from robusttc.encoders.sentence_model import SentenceModel
from robusttc.errors import DataError, UsageError, quote

__all__ = ["encode_sentences"]

TOKENIZED_AT_ONCE = 4_096
ENCODED_AT_ONCE = 4_096

# A text of more characters than this for every token that the model takes is cut before it is tokenised.
LONG_CHARACTERS_PER_TOKEN = 64


def encode_sentences(
    model: SentenceModel,
    texts: Sequence[str],
    *,
    progress: Callable[[int, int], None] | None = None,
    batch_tokens: int = 2_048,
) -> NDArray[np.float32]:
    """Give the sentence vectors of texts, one a row.

    They are the vectors of ``SentenceTransformer.encode`` up to rounding. On the fast road (``model.fast``)
    batches are made such that, with MKL, the vector of a text is bit for bit the same whatever the other
    texts are; no BLAS library promises that, though. Models on their own road pad, and differ in the last
    bits.

    Parameters
    ----------
    model
        From `load_sentence_model`.
    texts
        The texts. Beyond the model's maximum length they are cut, which is the model's own rule.
    progress
        Called with the number of texts done and of all texts, from time to time.
    batch_tokens
        About how many tokens go through the model at once; it bounds the memory.

    Raises
    ------
    UsageError
        If `texts` is a single string, or `batch_tokens` is not positive.
    DataError
        If a text is not a string, or has half of a surrogate pair.

    Examples
    --------
    >>> from robusttc.encoders.sentence_model import load_sentence_model
    >>> vectors = encode_sentences(load_sentence_model(), ["Where is my parcel?", "WHERE is my parcel?"])
    >>> vectors.shape, bool((vectors[0] == vectors[1]).all())
    ((2, 384), True)
    """
    if isinstance(texts, str):
        raise UsageError("texts is a single string", got=quote(texts), expected="a list of strings")
    if batch_tokens < 1:
        raise UsageError(
            "batch_tokens cannot be used", got=quote(batch_tokens), expected="an integer from 1 up"
        )
    number_of: dict[str, int] = {}
    item_of_row = np.empty(len(texts), dtype=np.intp)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError("a text is not a string", where=f"row {row}", got=quote(text))
        item_of_row[row] = number_of.setdefault(text, len(number_of))
    distinct = list(number_of)
    check_unicode(distinct, item_of_row)
    n_texts = np.bincount(item_of_row, minlength=len(distinct))
    tell = Teller(progress, len(texts))
    if model.fast is not None:
        vectors = encode_fast(model.fast, distinct, n_texts, tell, batch_tokens, model.dimension)
    else:
        vectors = encode_as_it_comes(model, distinct, n_texts, tell)
    return vectors[item_of_row]


class Teller:
    """Counts what is done, and passes it on."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self.progress = progress
        self.done = 0
        self.total = total

    def add(self, n_texts: int) -> None:
        self.done += n_texts
        if self.progress is not None:
            self.progress(self.done, self.total)


def check_unicode(distinct: list[str], item_of_row: NDArray[np.intp]) -> None:
    """Refuse half a surrogate pair, at which tokenizers stop without a place."""
    for item, text in enumerate(distinct):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                "a text is not valid Unicode: it has half of a surrogate pair",
                where=f"row {int(np.flatnonzero(item_of_row == item)[0])}, character {error.start}",
                got=quote(text[error.start]),
            ) from None


def encode_fast(
    fast: FastBert,
    distinct: list[str],
    n_texts: NDArray[np.intp],
    tell: Teller,
    batch_tokens: int,
    dimension: int,
) -> NDArray[np.float32]:
    """Encode every distinct sequence of tokens once, in batches of one length, the longest first."""
    import torch

    # For every length, its token sequences with their numbers.
    rows_of_length: dict[int, dict[tuple[int, ...], int]] = {}
    sequence_of_text = np.empty(len(distinct), dtype=np.intp)
    n_sequences = 0
    for start in range(0, len(distinct), TOKENIZED_AT_ONCE):
        chunk = distinct[start : start + TOKENIZED_AT_ONCE]
        for item, ids in enumerate(tokenize_cut(fast, chunk), start=start):
            rows = rows_of_length.setdefault(len(ids), {})
            number = rows.setdefault(ids, n_sequences)
            n_sequences += number == n_sequences
            sequence_of_text[item] = number
    n_texts_of_sequence = np.bincount(sequence_of_text, weights=n_texts, minlength=n_sequences)
    vectors = np.empty((n_sequences, dimension), dtype=np.float32)
    with torch.inference_mode():
        for length in sorted(rows_of_length, reverse=True):
            ids_of_rows = torch.tensor(list(rows_of_length[length]))
            numbers = np.fromiter(rows_of_length[length].values(), dtype=np.intp)
            step = max(1, batch_tokens // max(1, length))
            for start in range(0, len(numbers), step):
                batch = numbers[start : start + step]
                vectors[batch] = fast.forward(ids_of_rows[start : start + step]).numpy()
                tell.add(int(n_texts_of_sequence[batch].sum()))
    return vectors[sequence_of_text]


def tokenize_cut(fast: FastBert, texts: list[str]) -> list[tuple[int, ...]]:
    """Give the token numbers of texts, without reading a very long text to its end."""
    limit = LONG_CHARACTERS_PER_TOKEN * fast.max_length
    prepared = [fast.prompt + text for text in texts]
    cut = [beginning(text, limit) for text in prepared] if fast.cuts_at_spaces else prepared
    rows = [tuple(encoding.ids) for encoding in fast.tokenizer.encode_batch_fast(cut)]
    for item, (whole, part) in enumerate(zip(prepared, cut, strict=True)):
        # A beginning that fills the model gives the tokens of the whole. If it does not (words of hundreds of
        # characters are a single unknown token), only the whole can tell.
        if len(part) < len(whole) and len(rows[item]) < fast.max_length:
            rows[item] = tuple(fast.tokenizer.encode(whole).ids)
    return rows


def beginning(text: str, limit: int) -> str:
    """Cut a text at the first space after `limit` characters, where no token can be."""
    if len(text) <= limit:
        return text
    space = text.find(" ", limit)
    return text if space < 0 else text[:space]


def encode_as_it_comes(
    model: SentenceModel, distinct: list[str], n_texts: NDArray[np.intp], tell: Teller
) -> NDArray[np.float32]:
    """Encode every distinct text with the model's own method."""
    vectors = np.empty((len(distinct), model.dimension), dtype=np.float32)
    # Texts of one length together: the model pads to the longest of a batch.
    order = np.argsort([-len(text) for text in distinct], kind="stable")
    for start in range(0, len(distinct), ENCODED_AT_ONCE):
        block = order[start : start + ENCODED_AT_ONCE]
        vectors[block] = model.transformer.encode(
            [distinct[item] for item in block], show_progress_bar=False, convert_to_numpy=True
        )
        tell.add(int(n_texts[block].sum()))
    return vectors
