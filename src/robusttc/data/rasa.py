"""Rasa NLU training data in its three forms: YAML, Markdown and JSON. Intents are the labels.

Entity mark-up is removed from the texts as Rasa removes it; synonyms, regexes and lookup tables train entity
extraction, not intents, and are skipped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from robusttc.data.tables import MISSING, Row, Table, ending_of
from robusttc.data.text_files import ProblemList, ReadError, read_text
from robusttc.errors import quote
from robusttc.files import DECODER, InvalidJSONError, decode_json

__all__ = ["has_rasa_examples", "read_rasa", "remove_entities"]

# How a file that has examples is told from stories, rules, the domain and the configuration of a project.
SIGNS = {
    ".yml": re.compile(r"^nlu\s*:", re.MULTILINE),
    ".yaml": re.compile(r"^nlu\s*:", re.MULTILINE),
    ".md": re.compile(r"^##\s*intent\s*:", re.MULTILINE),
    ".json": re.compile(r'"rasa_nlu_data"'),
}
OTHER_SECTIONS = {"synonym", "regex", "lookup"}
LINE_BREAK = re.compile(r"\r\n|\r|\n")

NULL_TAG = "tag:yaml.org,2002:null"
# What a plain word can be to YAML; it is read as it is written all the same.
PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "value")}
MAX_DEPTH = 50  # the parser calls itself once per level; a Rasa file has five

ITEM = re.compile(r"[-*+]\s*(?P<text>.*)", re.DOTALL)
ESCAPE = re.compile(r"\\([bfnrt])")
ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
SEPARATOR = re.compile(r"[\s,]*")

EXAMPLE_LISTS = ("common_examples", "intent_examples")  # the second one in the first releases of Rasa

LIST_START = re.compile(r"\[\s*\{")
LIST_OF_ENTITIES = re.compile(r"\[\s*\{.*?\}\s*\]", re.DOTALL)

Refuse = Callable[..., None]  # adds the problem of the example on a line: line, what, further fields


def read_rasa(path: Path, problems: ProblemList, encoding: str | None) -> Table:
    """Return a table without a header, whose rows are texts and intents."""
    text = read_text(path, encoding)
    read = {".md": read_markdown, ".json": read_json}.get(ending_of(path), read_yaml)
    refuse = partial(problems.add_row, str(path))
    return Table(str(path), (), lambda _: read(text, refuse), is_keyed=True)


def has_rasa_examples(path: Path, encoding: str | None) -> bool:
    """Return whether a file of a Rasa project has examples of intents, by its looks."""
    sign = SIGNS.get(ending_of(path))
    return sign is not None and sign.search(read_text(path, encoding)) is not None


# --- YAML (Rasa 2 and later)


def read_yaml(text: str, refuse: Refuse) -> Iterator[Row]:
    """Yield the examples of the nlu section; others (stories, rules, responses …) are no training texts."""
    root = compose(text)
    if not isinstance(root, yaml.MappingNode):
        expected = "Rasa NLU data with an nlu section"
        raise ReadError("the file is not a YAML mapping", line=1, expected=expected)
    entries = mapping(root)
    if "nlu" not in entries:
        raise ReadError(
            "the file has no nlu section",
            got=f"keys {', '.join(quote(key) for key in list(entries)[:8])}",
            expected="nlu: a list of intents with examples",
            todo="move files of stories, rules and domain out of the folder of tasks, or put each Rasa "
            "project in a folder of its own",
        )
    section = entries["nlu"]
    if not isinstance(section, yaml.SequenceNode):
        raise ReadError("the nlu section is not a list", line=line_of(section))
    seen: set[int] = set()
    for item in section.value:
        refuse_alias(item, seen)
        if not isinstance(item, yaml.MappingNode):
            refuse(line_of(item), "an entry of nlu is not a mapping", expected="intent and examples")
            continue
        fields = mapping(item)
        if "intent" in fields:
            yield from read_intent(fields, line_of(item), refuse, seen)
        elif not OTHER_SECTIONS & fields.keys():
            got, expected = ", ".join(map(quote, fields)), "intent, synonym, regex or lookup"
            refuse(line_of(item), "an entry of nlu is of an unknown kind", got=got, expected=expected)


def read_intent(fields: dict[str, yaml.Node], line: int, refuse: Refuse, seen: set[int]) -> Iterator[Row]:
    """Yield the examples of one intent: lines of a text, each after a ``-``, or mappings with a ``text``."""
    intent, examples = scalar(fields["intent"]), fields.get("examples")
    if not intent:
        refuse(line, "the label is empty: the intent has no name")
    elif examples is None or (isinstance(examples, yaml.ScalarNode) and not scalar(examples).strip()):
        refuse(line, f"intent {quote(intent)} has no examples")
    elif isinstance(examples, yaml.ScalarNode):
        refuse_alias(examples, seen)
        yield from read_block(examples, intent, refuse)
    elif isinstance(examples, yaml.SequenceNode) and examples.value:
        refuse_alias(examples, seen)
        for entry in examples.value:
            refuse_alias(entry, seen)
            text = mapping(entry).get("text") if isinstance(entry, yaml.MappingNode) else None
            if text is None:
                refuse(line_of(entry), "an example has no text", expected="text: the example")
            else:
                yield line_of(text), (remove_entities(scalar(text).strip()), intent)
    else:
        what = f"the examples of intent {quote(intent)} are not a list"
        refuse(line_of(examples), what, expected="examples: | and one example per line, each after a '-'")


def read_block(examples: yaml.ScalarNode, intent: str, refuse: Refuse) -> Iterator[Row]:
    is_block = examples.style == "|"
    if not is_block and examples.end_mark.line > examples.start_mark.line:
        what = "the lines of the examples are joined to one, as YAML has it"
        refuse(line_of(examples), what, got=quote(examples.value), expected="examples: |")
        return
    # The text of a block begins on the line below its "|".
    for number, line in enumerate(scalar(examples).split("\n"), start=line_of(examples) + is_block):
        if line.startswith("-"):
            yield number, (remove_entities(line[1:].strip()), intent)
        elif line.strip():
            refuse(number, "an example does not begin with '-'", got=quote(line))


def refuse_alias(node: yaml.Node, seen: set[int]) -> None:
    """Refuse a node that was read before: aliases of aliases make a small file endless."""
    if id(node) in seen:
        what, todo = "an alias repeats examples that are already there", "write the examples out"
        raise ReadError(what, line=line_of(node), todo=todo)
    seen.add(id(node))


def compose(text: str) -> yaml.Node | None:
    """Parse YAML into nodes, which know their lines; nothing is constructed from them."""
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:  # would exhaust the stack of the parser, and end the process
                raise ReadError("the YAML is nested too deeply", line=line_of(event))
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        got = error.problem or str(error)
        raise ReadError("the file is not YAML", line=line, column=column, got=got) from None
    except yaml.reader.ReaderError as error:
        character = chr(error.character)
        line, column = place_of(text, text.find(character))
        raise ReadError("the file is not YAML", line=line, column=column, got=quote(character)) from None
    return node


def line_of(node: yaml.Node | yaml.Event) -> int:
    return node.start_mark.line + 1 if node.start_mark else 1


def mapping(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    entries: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ReadError("a key is not a plain word", line=line_of(key))
        if key.value in entries:
            raise ReadError(f"the key {quote(key.value)} is there twice", line=line_of(key))
        entries[key.value] = value
    return entries


def scalar(node: yaml.Node) -> str:
    """Return the text of a scalar as it is written; empty for null and for what is not a scalar."""
    if not isinstance(node, yaml.ScalarNode) or node.tag == NULL_TAG:
        return ""
    if node.tag not in PLAIN_TAGS:
        raise ReadError("a tag that task files cannot have", line=line_of(node), got=quote(node.tag))
    return str(node.value)


# --- Markdown (Rasa 1)


def read_markdown(text: str, refuse: Refuse) -> Iterator[Row]:
    """Yield the examples under ``## intent:NAME``."""
    section, intent = "", ""
    has_intents = False
    # newline=None ends lines at LF, CR LF and CR, and nowhere else.
    for number, raw in enumerate(io.StringIO(remove_comments(text), newline=None), start=1):
        line = raw.strip()
        item = ITEM.fullmatch(line)
        if line.startswith("##"):
            section, intent = read_header(line, number)
            has_intents = has_intents or section == "intent"
        elif section == "intent" and item:
            # Rasa writes \n and the like for characters that a line cannot hold.
            unescaped = ESCAPE.sub(lambda match: ESCAPED[match[1]], item["text"])
            yield number, (remove_entities(unescaped), intent)
        elif section == "intent" and line and not line.startswith("# "):
            refuse(number, "a line is neither an example nor a header", got=quote(line))
        elif not section and item:
            refuse(number, "an example comes before the first '## intent:'", got=quote(line))
    if not has_intents:
        raise ReadError("the file has no '## intent:' section", expected="Rasa NLU data in Markdown")


def remove_comments(text: str) -> str:
    """Remove ``<!-- … -->`` but for its line breaks, so that the lines after it keep their numbers."""
    pieces = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        pieces += [text[position:start], *LINE_BREAK.findall(text, start, end)]
        position = end + 3
    return "".join([*pieces, text[position:]])


def read_header(line: str, number: int) -> tuple[str, str]:
    section, colon, title = (part.strip() for part in line.removeprefix("##").partition(":"))
    if not colon or section not in {"intent", *OTHER_SECTIONS}:
        expected = "'## intent:NAME', '## synonym:NAME', '## regex:NAME' or '## lookup:NAME'"
        raise ReadError("a header is of an unknown kind", line=number, got=quote(line), expected=expected)
    if not title:
        raise ReadError("the label is empty: a header has no name", line=number, got=quote(line))
    return section, title


# --- JSON (Rasa 1); its texts carry no mark-up


def read_json(text: str, refuse: Refuse) -> Iterator[Row]:
    """Yield the examples in ``common_examples``."""
    try:
        value = decode_json(text)
    except InvalidJSONError as error:
        line, column = (None, None) if error.position is None else place_of(text, error.position)
        raise ReadError("the file is not JSON", line=line, column=column, got=error.what) from None
    data = value.get("rasa_nlu_data") if isinstance(value, dict) else None
    if not isinstance(data, dict):
        raise ReadError(
            "the file is not Rasa NLU data",
            line=1,
            expected='an object with the key "rasa_nlu_data"',
            todo="write one JSON object per line, with text and label, in a file that ends in .jsonl",
        )
    keys = [key for key in EXAMPLE_LISTS if key in data]
    if not keys:
        got = f"keys {', '.join(map(quote, list(data)[:8]))}"
        raise ReadError("the file has no common_examples", got=got)
    for key in keys:
        if not isinstance(data[key], list):
            raise ReadError(f"{key} is not a list", got=quote(data[key]))
        lines = element_lines(text, key, data[key])
        for line, example in zip(lines, data[key], strict=True):
            if isinstance(example, dict):
                yield line, (example.get("text", MISSING), example.get("intent", MISSING))
            else:
                refuse(line, "an example is not an object", got=quote(example))


def element_lines(text: str, key: str, elements: list[Any]) -> Iterator[int]:
    """Yield the line of each element of the array of this key, which the parser does not return."""
    array = re.search(rf'"{key}"\s*:\s*\[', text)
    position, counted, line = array.end() if array else len(text), 0, 1
    for _ in elements:
        separator = SEPARATOR.match(text, position)
        position = separator.end() if separator else position
        # Counted on from the element before: from the beginning each time would be quadratic.
        line += len(LINE_BREAK.findall(text, counted, position))
        counted = position
        yield line
        with suppress(ValueError):  # the key was found inside of a text: the lines after it are not known
            _, position = DECODER.raw_decode(text, position)


def place_of(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    last_break = max(before.rfind("\n"), before.rfind("\r"))
    return len(LINE_BREAK.findall(before)) + 1, position - last_break


# --- Entity mark-up


def remove_entities(example: str) -> str:
    """Return the text that a user would have typed: ``[Rome](city)`` is ``Rome``.

    The mark-up is a text in square brackets followed, without a space, by ``(type)``, ``(type:value)``,
    ``{"entity": …}`` or a list of such objects. The time is linear in the length of the example, which one
    regular expression for all of this is not.

    >>> remove_entities('from [Rome](city) to [LA]{"entity": "city", "value": "Los Angeles"}, [maybe]')
    'from Rome to LA, [maybe]'
    """
    pieces = []
    closings = {")": -1, "}": -1}
    position = 0
    start = example.find("[")
    while start >= 0 and (bracket := example.find("]", start)) >= 0:
        end = entity_end(example, bracket + 1, closings) if bracket > start + 1 else None
        if end is not None:
            pieces += [example[position:start], example[start + 1 : bracket]]
            position = end
        # A "[" in between would end at the same "]" and fail for the same reason.
        start = example.find("[", bracket + 1 if end is None else end)
    return "".join([*pieces, example[position:]])


def entity_end(example: str, start: int, closings: dict[str, int]) -> int | None:
    """Return the offset behind the description of an entity that begins at `start`, or None.

    `closings` has the next place of each closing mark, so that the text is searched once.
    """
    opening = example[start : start + 1]
    if opening == "[" and "[" not in closings and LIST_START.match(example, start):
        match = LIST_OF_ENTITIES.match(example, start)
        if match is None:
            closings["["] = len(example)  # no list is closed from here on
        return match.end() if match else None
    if opening not in {"(", "{"}:
        return None
    mark = ")" if opening == "(" else "}"
    if closings[mark] < start + 1:
        found = example.find(mark, start + 1)
        closings[mark] = len(example) if found < 0 else found
    end = closings[mark]
    colon = example.find(":", start + 1, end) if opening == "(" else -1
    # A type must be there, and a value if there is a colon.
    is_entity = start + 1 < end < len(example) and colon != start + 1 and colon != end - 1
    return end + 1 if is_entity else None
