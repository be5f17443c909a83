"""Texts as arrays of word numbers: NLTK's tokens, and the vocabulary that numbers them.

The tokens are exactly those of NLTK's word tokenizer (the one that needs no download), lower-cased if asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from robusttc.data.chunks import encode_blocks, nltk_tokens
from robusttc.data.taskset import TaskSet
from robusttc.data.token_array import TokenArray
from robusttc.errors import UsageError, nearest_name, quote

__all__ = ["PADDING_ID", "PADDING_WORD", "UNKNOWN_ID", "UNKNOWN_WORD", "TokenArray", "Vocabulary", "tokenize"]

# NLTK makes a token of its own of every bracket, so no text has these two words.
PADDING_ID, PADDING_WORD = 0, "<pad>"
UNKNOWN_ID, UNKNOWN_WORD = 1, "<unk>"


def tokenize(text: str, *, lower: bool = True) -> list[str]:
    """Give the tokens of one text: NLTK's, lower-cased one by one if asked.

    For many texts, `Vocabulary.encode` gives the same tokens much faster.

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
    >>> from robusttc.data.task import Task
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
                "a vocabulary begins with the padding and the unknown word",
                got=quote(self.words[:2]),
                expected=quote((PADDING_WORD, UNKNOWN_WORD)),
            )
        if len(self._id_of) != len(self.words):
            raise UsageError(
                "a word is twice in the vocabulary",
                got=quote(
                    next(word for number, word in enumerate(self.words) if self._id_of[word] != number)
                ),
            )

    @classmethod
    def build(
        cls,
        tasks: TaskSet,
        *,
        splits: Sequence[str] | None = None,
        min_count: int = 1,
        max_words: int | None = None,
        lower: bool = True,
    ) -> Vocabulary:
        """Count the words of all tasks and number them, the most frequent first.

        Words of equal frequency are in the order of their characters, so the order of tasks and rows does
        not change a number.

        Parameters
        ----------
        tasks
            The tasks whose words are counted.
        splits
            The splits whose rows are counted; None counts all rows. A task without such a split adds nothing.
        min_count
            Words that occur less often are left out (they become the unknown word).
        max_words
            How many words are kept at most, besides the padding and the unknown word; None keeps all.
        lower
            Whether tokens are lower-cased.

        Raises
        ------
        UsageError
            If a number is too small, or no task has one of the splits.
        """
        check_at_least(1, min_count=min_count)
        if max_words is not None:
            check_at_least(0, max_words=max_words)
        # Provisional numbers, in the order of appearance: a new word gets the next one.
        number_of: defaultdict[str, int] = defaultdict()
        number_of.default_factory = number_of.__len__
        counts = np.zeros(0, dtype=np.int64)
        for block in encode_blocks(texts_of(tasks, splits), number_of.__getitem__, lower=lower):
            block_counts = np.bincount(block.ids, minlength=len(number_of))
            block_counts[: len(counts)] += counts
            counts = block_counts
        counted = zip(number_of, counts.tolist(), strict=True)
        kept = sorted((-count, word) for word, count in counted if count >= min_count)
        return cls((PADDING_WORD, UNKNOWN_WORD, *(word for _, word in kept[:max_words])), lower)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._id_of

    def id_of(self, word: str) -> int:
        """Give the number of a word as it stands (it is not lower-cased here); 1 if it is unknown."""
        return self._id_of.get(word, UNKNOWN_ID)

    def encode(self, texts: Iterable[str]) -> TokenArray:
        """Give the word numbers of every text, unknown words as 1; a text without tokens has an empty row.

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
        """Give the word numbers of every row of every task, by the name of the task.

        This is faster than `encode` task by task, because tasks share most of their words.
        """
        everything = self.encode(texts_of(tasks, None))
        ends = np.cumsum([0, *(len(task) for task in tasks)]).tolist()
        return {name: everything[ends[i] : ends[i + 1]] for i, name in enumerate(tasks.names)}

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words, lower={self.lower})"


def check_at_least(smallest: int, **numbers: int) -> None:
    """Refuse a parameter that is not an integer or is below the smallest value allowed."""
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < smallest:
            raise UsageError(
                f"{name} cannot be used", got=quote(number), expected=f"an integer from {smallest} up"
            )


def texts_of(tasks: TaskSet, splits: Sequence[str] | None) -> Iterator[str]:
    """Go through the texts of some splits, or of all rows, task by task."""
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
        task.texts.take(task.rows(*(split for split in splits if split in task.split_names)))
        for task in tasks
    )
