"""Elements of a page, made so that no text can become markup: names of tasks may contain anything."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

__all__ = ["Markup", "element", "join", "shorten"]

# Elements that have no content, and no end.
VOID = frozenset({"img", "input", "line", "circle", "rect", "path"})
LONGEST_NAME = 72
# What is kept of the end of a long name: names often differ there.
LENGTH_OF_END = 16
# What no parser of HTML takes: all control characters but tab and new line. They are shown as a box.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Markup(str):
    """Text that is markup already; every other text is escaped."""

    __slots__ = ()


def element(name: str, attributes: Mapping[str, object] | None = None, *content: object) -> Markup:
    """Make an element; attributes and content that are None are left out.

    Parameters
    ----------
    name
        The name of the element.
    attributes
        Its attributes; True gives one without a value, False none.
    content
        What is in it: elements, and texts, which are escaped.

    Examples
    --------
    >>> element("p", {"class": "lead", "hidden": False}, "1 < 2, ", element("b", None, "always"))
    '<p class="lead">1 &lt; 2, <b>always</b></p>'
    """
    opening = name
    for key, value in (attributes or {}).items():
        if value is True:
            opening += f" {key}"
        elif value is not None and value is not False:
            opening += f' {key}="{escape(value)}"'
    if name in VOID:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{join(content)}</{name}>")


def join(content: Iterable[object]) -> Markup:
    """Put elements and texts one after the other.

    Examples
    --------
    >>> join(["a & b", element("b", None, "c"), None])
    'a &amp; b<b>c</b>'
    """
    pieces = (piece if isinstance(piece, Markup) else escape(piece) for piece in content if piece is not None)
    return Markup("".join(pieces))


def escape(value: object) -> str:
    """Write a text so that it is text in elements and in attributes."""
    return html.escape(CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value)))


def shorten(name: str) -> str:
    """Shorten a very long name in its middle; the page shows the whole of it with the task's details.

    Examples
    --------
    >>> shorten("orders"), len(shorten("orders" * 100))
    ('orders', 72)
    """
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - LENGTH_OF_END - 1]}…{name[-LENGTH_OF_END:]}"
