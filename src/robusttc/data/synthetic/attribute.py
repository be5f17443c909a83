"""An attribute of an utterance: something that it says, with the values it can take and words for each.

The words live in the modules `words_*`, written as plain text: the cues of a value are separated by commas,
and so are its label names. Every cue of an attribute is the same part of speech, so that any cue fits into
any phrasing of the attribute; the phrasings multiply the cues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Attribute", "Value", "split_words"]

SLOT = "{}"


@dataclass(frozen=True)
class Value:
    """One value of an attribute.

    Attributes
    ----------
    names
        What a task may call the value, in lower-case words.
    cues
        The words in an utterance that mean the value.
    """

    names: tuple[str, ...]
    cues: tuple[str, ...]


@dataclass(frozen=True)
class Attribute:
    """Something that an utterance says, and one way of labelling: the family of that name labels by it.

    Attributes
    ----------
    name
        The name of the attribute.
    phrasings
        Pieces of text with a slot ``{}`` for a cue.
    values
        The values that it can take, in an order in which neighbours are alike.

    Examples
    --------
    >>> size = Attribute.parse("size", ["a {} one"], {"small, little": "tiny, minute", "large": "huge"})
    >>> size.values[0].names, size.phrases[0]
    (('small', 'little'), ('a tiny one', 'a minute one'))
    """

    name: str
    phrasings: tuple[str, ...]
    values: tuple[Value, ...]

    @classmethod
    def parse(cls, name: str, phrasings: list[str], cues_of_names: Mapping[str, str]) -> Attribute:
        """Read an attribute from comma-separated words: the names of each value, and its cues."""
        values = tuple(Value(split_words(names), split_words(cues)) for names, cues in cues_of_names.items())
        return cls(name, tuple(phrasings), values)

    @cached_property
    def phrases(self) -> tuple[tuple[str, ...], ...]:
        """Every way of saying each value: the first cue in all phrasings, the second in all, and so on."""
        return tuple(
            tuple(phrasing.replace(SLOT, cue) for cue in value.cues for phrasing in self.phrasings)
            for value in self.values
        )


def split_words(text: str) -> tuple[str, ...]:
    """Split comma-separated words, over as many lines as they take."""
    return tuple(" ".join(words.split()) for words in text.split(","))
