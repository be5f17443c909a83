"""Texts as arrays of word numbers: NLTK's tokens, and the vocabulary that numbers them.

The tokens are exactly those of NLTK's word tokenizer (the one that needs no download), lower-cased if asked.
NLTK sends some thirty regular expressions over every text. They are local: none looks further than one space,
except those for the edges of a text (an opening quote at its start, a period or a quote at its end). So a
text is cut at its spaces into chunks, every distinct chunk is tokenized once, many in one call, and a text is
put together from the numbers of its chunks. `benchmarks/tokens.py` measures the gain (3.6 times on long
texts) and compares the tokens of every real text.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.data.task import TaskSet
from robusttc.errors import DataError, UsageError, nearest_name, quote

__all__ = ["PADDING_ID", "PADDING_WORD", "UNKNOWN_ID", "UNKNOWN_WORD", "TokenArray", "Vocabulary", "tokenize"]

# NLTK makes a token of its own of every bracket, so no text has these two words.
PADDING_ID, PADDING_WORD = 0, "<pad>"
UNKNOWN_ID, UNKNOWN_WORD = 1, "<unk>"

# Chunks that are looked up together: enough that NumPy's overhead does not show, a few megabytes of strings.
BLOCK_CHUNKS = 2**16
# New chunks in one call of NLTK, which gives each of its expressions 5 s before it raises.
BATCH_CHUNKS = 2**12
# When the memo holds more characters than this it starts afresh, so memory does not grow with the texts.
MAX_MEMO_CHARACTERS = 2**22
# Between the chunks of a batch: a token of its own that no rule of NLTK looks at.
SEPARATOR = "\x00"
# A text ends in a final period, to NLTK, where nothing but closing marks and white space follows it.
CLOSING_MARKS = "])}>\"'\u00bb\u201d\u2019" + "".join(
    mark for mark in map(chr, range(0x3001)) if mark.isspace()
)
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
        Where each row begins, and at the end where the last one stops: one number more than there are rows.

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
        is_cut = (
            ids.ndim == offsets.ndim == 1
            and len(offsets) > 0
            and offsets[0] == 0
            and offsets[-1] == len(ids)
            and bool((np.diff(offsets) >= 0).all())
        )
        if not is_cut:
            raise UsageError(
                "the offsets do not cut the ids into rows",
                got=f"{offsets.size:,} offsets for {ids.size:,} ids",
                expected="ascending offsets from 0 to the number of ids",
            )
        ids.flags.writeable = False
        offsets.flags.writeable = False
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "offsets", offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> NDArray[np.int32]: ...
    @overload
    def __getitem__(self, index: slice) -> TokenArray: ...
    def __getitem__(self, index: int | slice) -> NDArray[np.int32] | TokenArray:
        n_rows = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(n_rows)
            if step != 1:
                return self.take(np.arange(start, stop, step))
            # Neighbours share the memory of the whole.
            offsets = self.offsets[start : max(start, stop) + 1]
            return TokenArray(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])
        row = index + n_rows if index < 0 else index
        if not 0 <= row < n_rows:
            raise IndexError(f"row {index} of {n_rows}")
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
            raise UsageError(
                "a vocabulary must begin with the padding and the unknown word",
                got=quote(self.words[:2]),
                expected=quote((PADDING_WORD, UNKNOWN_WORD)),
            )
        if len(self._id_of) != len(self.words):
            twice = next(word for number, word in enumerate(self.words) if self._id_of[word] != number)
            raise UsageError("a word is twice in the vocabulary", got=quote(twice))

    @classmethod
    def build(cls, tasks: TaskSet, *, splits: Sequence[str] | None = None, lower: bool = True) -> Vocabulary:
        """Count the words of all tasks and number them, the most frequent first.

        Words of equal frequency are in the order of their characters, so the order of tasks and rows does
        not change a number.

        Parameters
        ----------
        tasks
            The tasks whose words are counted.
        splits
            The splits whose rows are counted; None counts all rows. A task without such a split adds nothing.
        lower
            Whether tokens are lower-cased.

        Raises
        ------
        UsageError
            If no task has one of the splits.
        """
        # Provisional numbers, in the order of appearance: a new word gets the next one.
        number_of: defaultdict[str, int] = defaultdict()
        number_of.default_factory = number_of.__len__
        counts = np.zeros(0, dtype=np.int64)
        for block in encode_blocks(texts_of(tasks, splits), number_of.__getitem__, lower=lower):
            block_counts = np.bincount(block.ids, minlength=len(number_of))
            block_counts[: len(counts)] += counts
            counts = block_counts
        by_frequency = sorted(zip((-counts).tolist(), number_of, strict=True))
        return cls((PADDING_WORD, UNKNOWN_WORD, *(word for _, word in by_frequency)), lower)

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
        blocks = list(encode_blocks(texts, self.id_of, lower=self.lower))
        lengths = [block.lengths for block in blocks]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), *lengths])
        ids = np.concatenate([np.zeros(0, dtype=np.int32), *(block.ids for block in blocks)])
        return TokenArray(ids, np.cumsum(offsets))

    def encode_tasks(self, tasks: TaskSet) -> dict[str, TokenArray]:
        """Return the word numbers of every row of every task, by the name of the task.

        This is faster than `encode` task by task, because tasks share most of their words.
        """
        everything = self.encode(texts_of(tasks, None))
        ends = np.cumsum([0, *(len(task) for task in tasks)]).tolist()
        return {name: everything[ends[i] : ends[i + 1]] for i, name in enumerate(tasks.names)}

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words, lower={self.lower})"


def texts_of(tasks: TaskSet, splits: Sequence[str] | None) -> Iterator[str]:
    """Yield the texts of some splits, or of all rows, task by task."""
    if splits is None:
        return chain.from_iterable(task.texts for task in tasks)
    known = sorted({split for task in tasks for split in task.split_names})
    for split in [splits] if isinstance(splits, str) else splits:
        if isinstance(splits, str) or split not in known:
            nearest = nearest_name(split, known)
            raise UsageError(
                "the splits cannot be used",
                got=quote(splits),
                expected=f"a list of {' or '.join(known)}",
                todo=f"did you mean [{quote(nearest)}]?" if nearest else None,
            )
    return chain.from_iterable(
        task.texts_at(task.rows(*(split for split in splits if split in task.split_names))) for task in tasks
    )


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
    tokens = nltk_tokens(text)
    return [token.lower() for token in tokens] if lower else tokens


def nltk_tokens(text: str) -> list[str]:
    """Return the tokens of NLTK's word tokenizer."""
    try:
        return load_nltk()(text)
    except TimeoutError:
        raise DataError(
            "a text takes too long to tokenize",
            got=f"{len(text):,} characters, {quote(text)}",
            todo="cut such texts into shorter ones",
        ) from None


@cache
def load_nltk() -> Callable[[str], list[str]]:
    """Load NLTK when it is first needed: any of its modules imports all of it, which takes a second."""
    from nltk.tokenize.destructive import NLTKWordTokenizer

    tokenize_text: Callable[[str], list[str]] = NLTKWordTokenizer().tokenize
    return tokenize_text


def encode_blocks(
    texts: Iterable[str], number_of: Callable[[str], int], *, lower: bool
) -> Iterator[TokenArray]:
    """Yield the word numbers of blocks of texts; `number_of` is called once per token of a distinct chunk."""
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
    """The word numbers of every chunk so far; each distinct chunk is tokenized once."""

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
        """Return the word numbers of texts whose chunks follow each other, each up to its end."""
        n_known = len(self._codes)
        codes = np.fromiter(map(self._codes.__getitem__, chunks), dtype=np.intp, count=len(chunks))
        # A dictionary keeps its order: what is new is at its end.
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
    """Yield NLTK's tokens of every chunk, marked as `cut_into_chunks` does it."""
    for start in range(0, len(chunks), BATCH_CHUNKS):
        batch = chunks[start : start + BATCH_CHUNKS]
        is_alone = [" " in chunk or SEPARATOR in chunk for chunk in batch]
        together = [chunk for chunk, alone in zip(batch, is_alone, strict=True) if not alone]
        # Chunks from the middle of texts, in one call of NLTK.
        groups: list[list[str]] = [[]]
        for token in nltk_tokens(f" {SEPARATOR} ".join(["", *together, ""])):
            if token == SEPARATOR:
                groups.append([])
            else:
                groups[-1].append(token)
        grouped = iter(groups[1:-1])
        for chunk, alone in zip(batch, is_alone, strict=True):
            yield tokenize_alone(chunk) if alone else next(grouped)


def tokenize_alone(chunk: str) -> list[str]:
    """Return the tokens of one chunk, with a word in place of the rest of the text where it goes on."""
    if chunk.startswith(" ") and chunk.endswith(" "):
        return nltk_tokens(chunk[1:-1])
    if chunk.startswith(" "):
        return nltk_tokens("a" + chunk)[1:]
    if chunk.endswith(" "):
        return nltk_tokens(chunk + "a")[:-1]
    return nltk_tokens(f"a {chunk} a")[1:-1]
