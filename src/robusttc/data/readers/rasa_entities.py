"""Rasa's entity mark-up, taken out of an example as Rasa takes it out.

``book a table in [Rome](city)`` is the text ``book a table in Rome``. The mark-up is a text in square
brackets followed, without a space, by one of:

* ``(type)`` or ``(type:value)``,
* ``{"entity": "type", "role": …, "group": …, "value": …}``,
* ``[{"entity": …}, {"entity": …}]``, several entities on one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["remove_entities"]

LIST_START = re.compile(r"\[\s*\{")
LIST_OF_ENTITIES = re.compile(r"\[\s*\{.*?\}\s*\]", re.DOTALL)


def remove_entities(example: str) -> str:
    """Give the text that a user would have typed.

    The time is linear in the length of the example, which one regular expression for all of this is not.

    >>> remove_entities('from [Rome](city) to [LA]{"entity": "city", "value": "Los Angeles"}, [maybe]')
    'from Rome to LA, [maybe]'
    """
    return "".join(plain_pieces(example)) if "[" in example else example


def plain_pieces(example: str) -> Iterator[str]:
    """Go through the pieces of an example that are not mark-up."""
    closings = Closings(example)
    position = 0
    start = example.find("[")
    while start >= 0:
        bracket = example.find("]", start)
        if bracket < 0:
            break
        end = closings.end_of_entity(bracket + 1) if bracket > start + 1 else None
        if end is not None:
            yield example[position:start]
            yield example[start + 1 : bracket]
            position = end
        # A "[" in between would end at the same "]" and fail for the same reason.
        start = example.find("[", bracket + 1 if end is None else end)
    yield example[position:]


class Closings:
    """Finds where mark-up ends; what was not found once is not looked for again."""

    def __init__(self, example: str) -> None:
        self._example = example
        self._next = {")": -1, "}": -1}
        self._list_possible = True

    def end_of_entity(self, start: int) -> int | None:
        """Give the offset behind the description of an entity that begins at `start`, or None."""
        example = self._example
        opening = example[start : start + 1]
        if opening == "(":
            end = self._find(")", start + 1)
            colon = example.find(":", start + 1, end)
            # A type must be there, and a value if there is a colon.
            is_entity = end > start + 1 and colon != start + 1 and (colon < 0 or colon < end - 1)
        elif opening == "{":
            end = self._find("}", start + 1)
            is_entity = end > start + 1
        elif opening == "[" and self._list_possible and LIST_START.match(example, start):
            match = LIST_OF_ENTITIES.match(example, start)
            self._list_possible = match is not None
            return match.end() if match else None
        else:
            return None
        return end + 1 if is_entity else None

    def _find(self, closing: str, start: int) -> int:
        if self._next[closing] < start:
            found = self._example.find(closing, start)
            self._next[closing] = len(self._example) if found < 0 else found
        place = self._next[closing]
        return place if place < len(self._example) else -1
