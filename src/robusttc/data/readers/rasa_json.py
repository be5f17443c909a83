"""Rasa NLU training data in the older JSON form. One file is one task; intents are its labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robusttc.data.problems import FileFault
from robusttc.data.readers.files import LINE_BREAK, place_of, read_text
from robusttc.data.rows import MISSING, FileRows
from robusttc.errors import quote
from robusttc.files import DECODER, InvalidJSONError, decode_json

__all__ = ["read_rasa_json"]

# The first releases kept examples of intents in a list of their own.
EXAMPLE_LISTS = ("common_examples", "intent_examples")
WHITE_SPACE = re.compile(r"[ \t\r\n]*")


def read_rasa_json(path: Path, rows: FileRows) -> None:
    """Read ``common_examples``; the texts of this form carry no mark-up."""
    text = read_text(path, rows.options.encoding)
    try:
        value = decode_json(text)
    except InvalidJSONError as fault:
        line, column = place_of(text, fault.position)
        raise FileFault("the file is not JSON", line=line, column=column, got=fault.what) from None
    data = value.get("rasa_nlu_data") if isinstance(value, dict) else None
    if not isinstance(data, dict):
        raise FileFault(
            "the file is not Rasa NLU data",
            line=1,
            expected='an object with the key "rasa_nlu_data"',
            todo="write one JSON object a line, with text and label, in a file that ends in .jsonl",
        )
    found = False
    for key in EXAMPLE_LISTS:
        if key not in data:
            continue
        found = True
        if not isinstance(data[key], list):
            raise FileFault(f"{key} is not a list", got=quote(data[key]))
        line, counted = 1, 0
        for example, start in zip(data[key], element_starts(text, ("rasa_nlu_data", key)), strict=True):
            # Counted on from the example before: from the beginning each time would take for ever.
            line += len(LINE_BREAK.findall(text, counted, start))
            counted = start
            if isinstance(example, dict):
                rows.add(line, example.get("text", MISSING), example.get("intent", MISSING))
            else:
                rows.refuse(line, "an example is not an object", got=quote(example))
    if not found:
        raise FileFault(
            "the file has no common_examples", got=f"keys {', '.join(map(quote, list(data)[:8]))}"
        )


def element_starts(text: str, keys: tuple[str, ...]) -> Iterator[int]:
    """Go through the offsets of the elements of an array in valid JSON; `keys` lead to the array."""
    position = skip_space(text, 0)
    for key in keys:
        position = find_value(text, position, key)
    position = skip_space(text, position + 1)
    while text[position] != "]":
        yield position
        _, position = DECODER.raw_decode(text, position)
        position = skip_space(text, position)
        if text[position] == ",":
            position = skip_space(text, position + 1)


def find_value(text: str, position: int, wanted: str) -> int:
    """Give the offset of a key's value in the object that begins at `position`; the key must be there."""
    while True:
        position = skip_space(text, position + 1)  # behind "{" or ","
        key: Any
        key, position = DECODER.raw_decode(text, position)
        position = skip_space(text, skip_space(text, position) + 1)  # behind ":"
        if key == wanted:
            return position
        _, position = DECODER.raw_decode(text, position)
        position = skip_space(text, position)


def skip_space(text: str, position: int) -> int:
    """Give the offset of the next character that is not white space."""
    match = WHITE_SPACE.match(text, position)
    return match.end() if match else position
