"""JSON as the standard has it.

Python's own reader takes NaN, infinities, duplicate keys (the last one wins, in silence) and numbers of any
length. Here each of these is an error, and so is nesting that would exhaust the stack.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from robusttc.errors import quote

__all__ = ["InvalidJSONError", "StrictDecoder", "decode_json"]


class InvalidJSONError(ValueError):
    """A text is not JSON; `position` is the offset of the fault where it is known."""

    def __init__(self, what: str, position: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.position = position


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN, Infinity and -Infinity."""
    raise InvalidJSONError(f"{name} is not JSON")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs, refusing a key that is there twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidJSONError(f"the key {quote(key)} is there twice")
            seen.add(key)
    return result


class StrictDecoder(json.JSONDecoder):
    """A decoder that refuses what the standard does not have."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=unique_keys, parse_constant=refuse_constant)


DECODER = StrictDecoder()


def decode_json(text: str) -> Any:
    """Read one JSON value; anything wrong with it is an `InvalidJSONError`."""
    try:
        if text.startswith("{"):
            # The short way, without the decoder's look-out for white space: half the time of a short line.
            value, end = DECODER.scan_once(text, 0)  # type: ignore[attr-defined]
            if not text[end:].strip(" \t\r\n"):
                return value
        return DECODER.decode(text)
    except InvalidJSONError:
        raise
    except json.JSONDecodeError as error:
        raise InvalidJSONError(error.msg, error.pos) from None
    except StopIteration as stop:  # what `scan_once` raises where no value begins
        raise InvalidJSONError("Expecting value", stop.value) from None
    except RecursionError:
        raise InvalidJSONError("the JSON is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise InvalidJSONError(str(error)) from None
