"""NLTK's tokens, fast: every distinct chunk of text is tokenized once.

NLTK sends some thirty regular expressions over every text. They are local: none sees further than one space,
save those for the edges of a text (an opening quote at its start, a period or a quote at its end). So a text
is cut at its spaces into chunks, every distinct chunk is tokenized once, many in one call of NLTK, and a text
is put together from the numbers of its chunks. Texts repeat their chunks so often that this is several times
faster than NLTK's own loop; `benchmarks/tokens.py` measures it and compares the tokens of every real text.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice

import numpy as np

from robusttc.data.token_array import TokenArray
from robusttc.errors import DataError, UsageError, quote

__all__ = ["ChunkMemo", "encode_blocks", "nltk_tokenize", "nltk_tokens"]

# Chunks that are looked up together: enough that NumPy's overhead does not show, a few megabytes of strings.
BLOCK_CHUNKS = 2**16

# New chunks in one call of NLTK, which gives each of its expressions 5 s before it raises.
BATCH_CHUNKS = 2**12

# When the memo holds more characters than this it starts afresh, so memory does not grow with the texts.
MAX_MEMO_CHARACTERS = 2**22

# Stands between the chunks of a batch: a token of its own that no rule of NLTK looks at.
SEPARATOR = "\x00"

# A text ends in a final period, to NLTK, where nothing but closing marks and white space follows it.
CLOSING_MARKS = "])}>\"'\u00bb\u201d\u2019" + "".join(
    mark for mark in map(chr, range(0x3001)) if mark.isspace()
)
PERIOD_OR_CLOSING_MARK = frozenset("." + CLOSING_MARKS)


def nltk_tokens(text: str) -> list[str]:
    """Give the tokens of NLTK's word tokenizer."""
    try:
        return nltk_tokenize()(text)
    except TimeoutError:
        raise DataError(
            "a text takes too long to tokenize",
            got=f"{len(text):,} characters, {quote(text)}",
            todo="cut such texts into shorter ones",
        ) from None


@cache
def nltk_tokenize() -> Callable[[str], list[str]]:
    """Load NLTK when it is first needed: any of its modules brings all of it in, which takes a second."""
    from nltk.tokenize.destructive import NLTKWordTokenizer

    tokenize_text: Callable[[str], list[str]] = NLTKWordTokenizer().tokenize
    return tokenize_text


def encode_blocks(
    texts: Iterable[str], number_of: Callable[[str], int], *, lower: bool
) -> Iterator[TokenArray]:
    """Give the word numbers of every text, in blocks of texts.

    Parameters
    ----------
    texts
        The texts.
    number_of
        The number of a word; asked once a token of every distinct chunk.
    lower
        Whether tokens are lower-cased before they are numbered.
    """
    if isinstance(texts, str):
        raise UsageError("texts is a single string", got=quote(texts), expected="a list of strings")
    memo = ChunkMemo(number_of, lower=lower)
    chunks: list[str] = []
    ends: list[int] = []
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError("a text is not a string", where=f"row {row}", got=quote(text))
        chunks += cut_into_chunks(text)
        ends.append(len(chunks))
        if len(chunks) >= BLOCK_CHUNKS:
            yield memo.encode(chunks, ends)
            chunks, ends = [], []
            if memo.n_characters > MAX_MEMO_CHARACTERS:
                memo = ChunkMemo(number_of, lower=lower)
    if ends:
        yield memo.encode(chunks, ends)


def cut_into_chunks(text: str) -> list[str]:
    """Cut a text at its spaces, and mark the chunks to which the edge of the text makes a difference.

    A marked chunk has a space on the side where the text goes on: ``'"so '`` begins its text, ``' end.'``
    ends it. Where one chunk cannot hold the difference, the whole text, between two spaces, is the one chunk.
    """
    chunks = text.split(" ")
    # NLTK sees a final period wherever only closing marks follow it, even beyond spaces.
    ends_in_period = text[-1:] in PERIOD_OR_CLOSING_MARK and text.rstrip(CLOSING_MARKS)[-1:] == "."
    starts_at_edge = text.startswith(('"', "''"))
    # A single quote is taken off its word in another step where a space follows it than where the text ends.
    ends_at_edge = ends_in_period or text.endswith("'")
    if not (starts_at_edge or ends_at_edge):
        return chunks
    if len(chunks) == 1 or (ends_in_period and "." not in chunks[-1]):
        return [f" {text} "]
    if starts_at_edge:
        chunks[0] += " "
    if ends_at_edge:
        chunks[-1] = " " + chunks[-1]
    return chunks


class ChunkMemo:
    """The word numbers of every chunk that was met, each distinct chunk being tokenized once."""

    def __init__(self, number_of: Callable[[str], int], *, lower: bool) -> None:
        self.n_characters = 0
        self._number_of = number_of
        self._lower = lower
        # The chunks are numbered as they come; `_ids` and `_offsets` are the rows of a `TokenArray` of them.
        self._codes: defaultdict[str, int] = defaultdict()
        self._codes.default_factory = self._codes.__len__
        self._ids = array("i")
        self._offsets = array("q", [0])

    def encode(self, chunks: list[str], ends: list[int]) -> TokenArray:
        """Give the word numbers of texts whose chunks stand one after the other, each up to its end."""
        n_known = len(self._codes)
        codes = np.fromiter(map(self._codes.__getitem__, chunks), dtype=np.intp, count=len(chunks))
        # A dictionary keeps its order: what is new stands at its end.
        self._learn(list(islice(reversed(self._codes), len(self._codes) - n_known))[::-1])
        # The copies matter: an array that NumPy looks into cannot grow.
        known = TokenArray(np.array(self._ids, dtype=np.int32), np.array(self._offsets, dtype=np.int64))
        tokens = known.take(codes)
        return TokenArray(tokens.ids, tokens.offsets[[0, *ends]])

    def _learn(self, chunks: list[str]) -> None:
        for tokens in tokenize_chunks(chunks):
            words = map(str.lower, tokens) if self._lower else tokens
            self._ids.extend(map(self._number_of, words))
            self._offsets.append(len(self._ids))
        self.n_characters += sum(map(len, chunks))


def tokenize_chunks(chunks: list[str]) -> Iterator[list[str]]:
    """Give NLTK's tokens of every chunk, marked as `cut_into_chunks` does it."""
    for start in range(0, len(chunks), BATCH_CHUNKS):
        batch = chunks[start : start + BATCH_CHUNKS]
        together = [chunk for chunk in batch if " " not in chunk and SEPARATOR not in chunk]
        groups = iter(tokenize_together(together))
        for chunk in batch:
            alone = " " in chunk or SEPARATOR in chunk
            yield tokenize_alone(chunk) if alone else next(groups)


def tokenize_together(chunks: list[str]) -> list[list[str]]:
    """Give the tokens of chunks from the middle of texts, in one call of NLTK."""
    groups: list[list[str]] = [[]]
    for token in nltk_tokens(f" {SEPARATOR} ".join(["", *chunks, ""])):
        if token == SEPARATOR:
            groups.append([])
        else:
            groups[-1].append(token)
    return groups[1:-1]


def tokenize_alone(chunk: str) -> list[str]:
    """Give the tokens of one chunk, with a word to stand for the rest of the text where it goes on."""
    if chunk.startswith(" ") and chunk.endswith(" "):
        return nltk_tokens(chunk[1:-1])
    if chunk.startswith(" "):
        return nltk_tokens("a" + chunk)[1:]
    if chunk.endswith(" "):
        return nltk_tokens(chunk + "a")[:-1]
    return nltk_tokens(f"a {chunk} a")[1:-1]
