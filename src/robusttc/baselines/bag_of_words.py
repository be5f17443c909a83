"""Texts as sparse bags of words and bi-grams, weighted by how rare they are: features of linear models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.data import tokenize
from robusttc.errors import UsageError, quote

__all__ = ["BagOfWords"]

Floats = NDArray[np.float64]
# Stands between the words of a bi-gram: no token has a space.
SPACE = " "


@dataclass(frozen=True, slots=True, eq=False)
class BagOfWords:
    """Hashed counts of words and bi-grams, times their rarity, scaled to length 1.

    A word or bi-gram has the place that a stable hash gives it, so there is no vocabulary to keep; two of
    them may share a place. Rarity is log((1 + texts) / (1 + texts that have it)) + 1.

    Parameters
    ----------
    rarity
        The weight of every place.
    largest
        How many words an n-gram has at most.

    Examples
    --------
    >>> bag = BagOfWords.learn(["hello you", "see you"], n_places=64)
    >>> bag.read(["hello you", ""]).sum(axis=1).round(2).tolist()
    [1.71, 0.0]
    """

    rarity: Floats
    largest: int = 2

    @classmethod
    def learn(cls, texts: Sequence[str], *, n_places: int = 2**15, largest: int = 2) -> Self:
        """Count in how many texts every place occurs.

        Raises
        ------
        UsageError
            If a number is not an integer from 1 up.
        """
        for name, value in (("n_places", n_places), ("largest", largest)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name} cannot be used", got=quote(value), expected="an integer from 1 up")
        counts = count_grams(texts, n_places=n_places, largest=largest)
        n_having = np.bincount(counts.indices, minlength=n_places)
        return cls(np.log((1 + counts.shape[0]) / (1 + n_having)) + 1, largest)

    def read(self, texts: Sequence[str]) -> sparse.csr_array:
        """Give the bags of texts, one a row; a text without tokens has zeros."""
        bags = count_grams(texts, n_places=len(self.rarity), largest=self.largest)
        bags.data = bags.data * self.rarity[bags.indices]
        row_of = np.repeat(np.arange(bags.shape[0]), np.diff(bags.indptr))
        lengths = np.sqrt(np.bincount(row_of, weights=bags.data**2, minlength=bags.shape[0]))
        bags.data = bags.data / lengths[row_of]
        return bags


def count_grams(texts: Iterable[str], *, n_places: int, largest: int) -> sparse.csr_array:
    """Count the words and n-grams of every text at their hashed places."""
    if isinstance(texts, str):
        raise UsageError("texts is a single string", got=quote(texts), expected="a list of strings")
    place_of: dict[str, int] = {}
    columns: list[int] = []
    ends = [0]
    for text in texts:
        tokens = tokenize(text)
        for size in range(1, largest + 1):
            for start in range(len(tokens) - size + 1):
                gram = SPACE.join(tokens[start : start + size])
                if gram not in place_of:
                    place_of[gram] = hash_gram(gram, n_places)
                columns.append(place_of[gram])
        ends.append(len(columns))
    counts = sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(ends) - 1, n_places))
    counts.sum_duplicates()
    return counts


def hash_gram(gram: str, n_places: int) -> int:
    """Give the place of a word or an n-gram, the same on every machine."""
    digest = hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % n_places
