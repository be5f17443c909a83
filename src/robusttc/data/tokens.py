"""Texts as arrays of word numbers: NLTK's tokens, and the vocabulary that numbers them.

The tokens are exactly those of NLTK's word tokenizer (the one without a download), lower-cased on request.
NLTK sends some thirty regular expressions over every text. They are local: none looks further than one space,
except those for the edges of a text (an opening quote at its start, a period or a quote at its end). So a
text is cut at its spaces into chunks, every distinct chunk is tokenized once, many in one call, and a text is
put together from the numbers of its chunks (3.6 times as fast on long texts: `benchmarks.ground`).
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data.task import TaskSet
from robusttc.errors import DataError, UsageError, quote

__all__ = [
    "PADDING_ID",
    "PADDING_WORD",
    "UNKNOWN_ID",
    "UNKNOWN_WORD",
    "TokenArray",
    "Vocabulary",
    "number_words",
    "tokenize",
]

# NLTK makes a token of its own of every bracket, so no text has these two words.
PADDING_ID, PADDING_WORD = 0, "<pad>"
UNKNOWN_ID, UNKNOWN_WORD = 1, "<unk>"

# New chunks in one call of NLTK, which gives each of its expressions 5 s before it raises.
BATCH_CHUNKS = 2**12
# Between the chunks of a batch: a token of its own that no rule of NLTK looks at.
SEPARATOR = "\x00"
# A text ends in a final period, to NLTK, where nothing but closing marks and white space follows it.
CLOSING_MARKS = "])}>\"'\u00bb\u201d\u2019" + "".join(filter(str.isspace, map(chr, range(0x3001))))
PERIOD_OR_CLOSING_MARK = frozenset("." + CLOSING_MARKS)


@dataclass(frozen=True, slots=True, eq=False)
class TokenArray:
    """Rows of word numbers, one after the other in one block of memory; read-only.

    A row may have length 0: a text of nothing but white space has no tokens.

    Parameters
    ----------
    ids
        The numbers of all rows.
    offsets
        Where each row begins, and at the end where the last one stops.

    Raises
    ------
    UsageError
        If the offsets do not cut `ids` into rows.

    Examples
    --------
    >>> rows = TokenArray([5, 6, 7], [0, 2, 2, 3])
    >>> len(rows), rows[0].tolist(), rows.lengths.tolist(), rows.take([2, 0]).ids.tolist()
    (3, [5, 6], [2, 0, 1], [7, 5, 6])
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __init__(self, ids: ArrayLike, offsets: ArrayLike) -> None:
        # Views, so that making the rows read-only does not lock the caller's own array.
        ids = np.asarray(ids, dtype=np.int32).view()
        offsets = np.asarray(offsets, dtype=np.int64).view()
        is_flat = ids.ndim == offsets.ndim == 1 and len(offsets) > 0
        if not is_flat or offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
            got, expected = (
                f"{offsets.size:,} offsets for {ids.size:,} ids",
                "ascending offsets from 0 to the end",
            )
            raise UsageError("the offsets do not cut the ids into rows", got=got, expected=expected)
        ids.flags.writeable = offsets.flags.writeable = False
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "offsets", offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        row = range(len(self))[row]  # counts from the end where it is negative; raises IndexError
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of every row."""
        return np.diff(self.offsets)

    def take(self, rows: ArrayLike) -> TokenArray:
        """Return the given rows, in the given order, in a block of their own."""
        selected = np.asarray(rows, dtype=np.intp)
        starts = self.offsets[:-1][selected]
        lengths = self.offsets[1:][selected] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        # A token's old position is its new one, shifted by as much as its row is.
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return TokenArray(self.ids[positions], offsets)

    def __repr__(self) -> str:
        return f"TokenArray({len(self):,} rows, {len(self.ids):,} tokens)"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a set of tasks, each with its number; immutable.

    Parameters
    ----------
    words
        The word of every number: first the padding, then the unknown word, then the words of the texts.
    lower
        Whether tokens are lower-cased before they are looked up.

    Raises
    ------
    UsageError
        If the first two words are not the padding and the unknown word, or a word occurs twice.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> tasks = TaskSet([Task("acme", ["Hello, you!", "you too"], ["greet", "greet"])])
    >>> vocabulary = Vocabulary.build(tasks)
    >>> vocabulary.words
    ('<pad>', '<unk>', 'you', '!', ',', 'hello', 'too')
    >>> vocabulary.encode(["You, there", ""]), vocabulary.encode(["You, there"]).ids.tolist()
    (TokenArray(2 rows, 3 tokens), [2, 4, 1])
    """

    words: tuple[str, ...]
    lower: bool = True
    _id_of: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "_id_of", {word: number for number, word in enumerate(self.words)})
        if self.words[:2] != (PADDING_WORD, UNKNOWN_WORD):
            what, expected = "a vocabulary must begin with the padding and the unknown word", "<pad>, <unk>"
            raise UsageError(what, got=quote(self.words[:2]), expected=expected)
        if len(self._id_of) != len(self.words):
            twice = next(word for number, word in enumerate(self.words) if self._id_of[word] != number)
            raise UsageError("a word is twice in the vocabulary", got=quote(twice))

    @classmethod
    def build(cls, tasks: TaskSet, *, lower: bool = True) -> Vocabulary:
        """Return the words of all rows of all tasks, the most frequent first; see `number_words`."""
        return number_words(chain.from_iterable(task.texts for task in tasks), lower=lower)[0]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._id_of

    def id_of(self, word: str) -> int:
        """Return the number of a word (which is not lower-cased here); 1 if it is unknown."""
        return self._id_of.get(word, UNKNOWN_ID)

    def encode(self, texts: Iterable[str]) -> TokenArray:
        """Return the word numbers of every text, unknown words as 1; a text without tokens has an empty row.

        Raises
        ------
        UsageError
            If `texts` is a single string.
        DataError
            If a text is not a string.
        """
        return encode_texts(texts, self.id_of, lower=self.lower)

    def encode_tasks(self, tasks: TaskSet) -> dict[str, TokenArray]:
        """Return the word numbers of every row of every task, by the name of the task.

        This is faster than `encode` task by task, because tasks share most of their words.
        """
        everything = self.encode(chain.from_iterable(task.texts for task in tasks))
        rows = np.split(np.arange(len(everything)), np.cumsum([len(task) for task in tasks])[:-1])
        return {name: everything.take(own) for name, own in zip(tasks.names, rows, strict=False)}

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words, lower={self.lower})"


def number_words(texts: Iterable[str], *, lower: bool = True) -> tuple[Vocabulary, TokenArray]:
    """Return the vocabulary of some texts, the most frequent word first, and their word numbers in it.

    Words of equal frequency are in the order of their characters, so the order of the texts does not change a
    number.

    Examples
    --------
    >>> vocabulary, tokens = number_words(["b a", "b"])
    >>> vocabulary.words[2:], tokens.ids.tolist()
    (('b', 'a'), [2, 3, 2])
    """
    number_of = count_up()
    provisional = encode_texts(texts, number_of.__getitem__, lower=lower)
    counts = np.bincount(provisional.ids, minlength=len(number_of))
    by_frequency = sorted(zip((-counts).tolist(), number_of, strict=True))
    vocabulary = Vocabulary((PADDING_WORD, UNKNOWN_WORD, *(word for _, word in by_frequency)), lower)
    final = np.fromiter(map(vocabulary.id_of, number_of), np.int32, len(number_of))
    return vocabulary, TokenArray(final[provisional.ids], provisional.offsets)


def count_up() -> defaultdict[str, int]:
    """Return a dictionary that numbers its keys in the order in which they are first looked up."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def tokenize(text: str, *, lower: bool = True) -> list[str]:
    """Return the tokens of one text. For many texts, `Vocabulary.encode` is much faster.

    Raises
    ------
    DataError
        If NLTK gives up, which it does where one of its expressions takes more than 5 s.

    Examples
    --------
    >>> tokenize("Where's my parcel (No. 7)?")
    ['where', "'s", 'my', 'parcel', '(', 'no.', '7', ')', '?']
    """
    try:
        tokens = load_nltk()(text)
    except TimeoutError:
        got, todo = f"{len(text):,} characters, {quote(text)}", "cut such texts into shorter ones"
        raise DataError("a text takes too long to tokenize", got=got, todo=todo) from None
    return [token.lower() for token in tokens] if lower else tokens


@cache
def load_nltk() -> Callable[[str], list[str]]:
    # Any module of NLTK imports all of it, which takes a second.
    from nltk.tokenize.destructive import NLTKWordTokenizer

    tokenize_text: Callable[[str], list[str]] = NLTKWordTokenizer().tokenize
    return tokenize_text


def encode_texts(texts: Iterable[str], number_of: Callable[[str], int], *, lower: bool) -> TokenArray:
    """Return the word numbers of texts; `number_of` is called once per token of a distinct chunk."""
    if isinstance(texts, str):
        raise UsageError("texts is a single string", got=quote(texts), expected="a list of strings")
    code_of = count_up()
    codes, ends = array("i"), array("q", [0])
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError("a text is not a string", where=f"row {row}", got=quote(text))
        codes.extend(map(code_of.__getitem__, cut_into_chunks(text)))
        ends.append(len(codes))
    ids, offsets = array("i"), array("q", [0])
    for tokens in tokenize_chunks(code_of):
        ids.extend(map(number_of, map(str.lower, tokens) if lower else tokens))
        offsets.append(len(ids))
    of_chunks = TokenArray(ids, offsets).take(codes)
    return TokenArray(of_chunks.ids, of_chunks.offsets[ends])


def cut_into_chunks(text: str) -> list[str]:
    """Cut a text at its spaces; a last chunk that would have other tokens inside a text has a space in front.

    Where the last chunk cannot hold the difference, or the start makes one, the whole text is the one chunk,
    with a space behind it.
    """
    # NLTK sees a final period wherever only closing marks follow it, even beyond spaces.
    ends_in_period = text[-1:] in PERIOD_OR_CLOSING_MARK and text.rstrip(CLOSING_MARKS)[-1:] == "."
    chunks = text.split(" ")
    if text.startswith(('"', "''")) or SEPARATOR in text or (ends_in_period and "." not in chunks[-1]):
        return [f"{text} "]
    # A single quote is taken off its word in another step where a space follows it than where the text ends.
    if ends_in_period or text.endswith("'"):
        chunks[-1] = f" {chunks[-1]}" if len(chunks) > 1 else f"{text} "
    return chunks


def tokenize_chunks(chunks: Collection[str]) -> Iterator[list[str]]:
    """Yield NLTK's tokens of every chunk, marked as `cut_into_chunks` does it."""
    # Chunks from the middle of texts, many in one call of NLTK.
    inner = [chunk for chunk in chunks if " " not in chunk]
    groups: list[list[str]] = []
    for start in range(0, len(inner), BATCH_CHUNKS):
        batch = ["", *inner[start : start + BATCH_CHUNKS], ""]
        for token in tokenize(f" {SEPARATOR} ".join(batch), lower=False)[:-1]:
            if token == SEPARATOR:
                groups.append([])
            else:
                groups[-1].append(token)
    grouped = iter(groups)
    for chunk in chunks:
        if chunk.endswith(" "):
            yield tokenize(chunk[:-1], lower=False)
        else:
            yield tokenize(f"a{chunk}", lower=False)[1:] if chunk.startswith(" ") else next(grouped)
