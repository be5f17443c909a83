"""Rasa NLU training data in the older Markdown form. One file is one task; intents are its labels."""

from __future__ import annotations

import io
import re
from pathlib import Path

from robusttc.data.problems import FileFault
from robusttc.data.readers.files import read_text
from robusttc.data.readers.rasa_entities import remove_entities
from robusttc.data.rows import FileRows
from robusttc.errors import quote

__all__ = ["read_rasa_markdown"]

ITEM = re.compile(r"[-*+]\s*(?P<text>.*)", re.DOTALL)
ESCAPE = re.compile(r"\\([bfnrt])")
ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
NOT_LINE_BREAKS = re.compile(r"[^\r\n]+")
SECTIONS = ("intent", "synonym", "regex", "lookup")


def read_rasa_markdown(path: Path, rows: FileRows) -> None:
    """Read the examples under ``## intent:NAME``; synonyms, regexes and lookups are passed over."""
    text = remove_comments(read_text(path, rows.options.encoding))
    section, intent = "", ""
    intents_found = False
    # newline=None ends lines at LF, CR LF and CR, and nowhere else.
    for number, raw in enumerate(io.StringIO(text, newline=None), start=1):
        line = raw.strip()
        if line.startswith("##"):
            section, intent = read_header(line, number)
            intents_found = intents_found or section == "intent"
        elif section == "intent" and line and not line.startswith("# "):
            item = ITEM.fullmatch(line)
            if item is None:
                rows.refuse(number, "a line is neither an example nor a header", got=quote(line))
            else:
                rows.add(number, remove_entities(unescape(item["text"])), intent)
        elif not section and ITEM.fullmatch(line):
            rows.refuse(number, "an example stands before the first '## intent:'", got=quote(line))
    if not intents_found:
        raise FileFault("the file has no '## intent:' section", expected="Rasa NLU data in Markdown")


def remove_comments(text: str) -> str:
    """Take out ``<!-- … -->``, but for its line breaks, so that the lines after it keep their numbers."""
    kept = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept += [text[position:start], NOT_LINE_BREAKS.sub("", text[start:end])]
        position = end + 3
    return "".join([*kept, text[position:]])


def read_header(line: str, number: int) -> tuple[str, str]:
    """Give section and title of a header line."""
    section, colon, title = line.removeprefix("##").partition(":")
    section, title = section.strip(), title.strip()
    if not colon or section not in SECTIONS:
        raise FileFault(
            "a header is of no known kind",
            line=number,
            got=quote(line),
            expected=" or ".join(f"'## {section}:NAME'" for section in SECTIONS),
        )
    if not title:
        raise FileFault("empty label: a header has no name", line=number, got=quote(line))
    return section, title


def unescape(text: str) -> str:
    r"""Turn ``\n`` and its kin, which Rasa writes for characters that a line cannot hold, back."""
    return ESCAPE.sub(lambda match: ESCAPED[match[1]], text)
