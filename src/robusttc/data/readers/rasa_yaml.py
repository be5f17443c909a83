"""Rasa NLU training data in YAML (Rasa 2 and later). One file is one task; intents are its labels."""

from __future__ import annotations

from pathlib import Path

import yaml

from robusttc.data.problems import FileFault
from robusttc.data.readers.files import place_of, read_text
from robusttc.data.readers.rasa_entities import remove_entities
from robusttc.data.rows import FileRows
from robusttc.errors import quote

__all__ = ["read_rasa_yaml"]

# These train entity extraction, not intents.
OTHER_SECTIONS = {"synonym", "regex", "lookup"}
NULL_TAG = "tag:yaml.org,2002:null"
# What a plain word can be to YAML; it is taken as it is written all the same.
PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "value")}
# The parser calls itself once a level; a Rasa file has five.
MAX_DEPTH = 50


def read_rasa_yaml(path: Path, rows: FileRows) -> None:
    """Read the ``nlu`` section; other sections (stories, rules, responses …) are no training texts."""
    root = compose(read_text(path, rows.options.encoding))
    if not isinstance(root, yaml.MappingNode):
        raise FileFault(
            "the file is not a YAML mapping", line=1, expected="Rasa NLU data with an nlu section"
        )
    section = mapping(root).get("nlu")
    if section is None:
        raise FileFault(
            "the file has no nlu section",
            got=f"keys {', '.join(quote(key) for key in list(mapping(root))[:8])}",
            expected="nlu: a list of intents with examples",
            todo="move files of stories, rules and domain out of the folder of tasks",
        )
    if not isinstance(section, yaml.SequenceNode):
        raise FileFault("the nlu section is not a list", line=line_of(section))
    seen: set[int] = set()
    for item in section.value:
        read_item(item, rows, seen)


def compose(text: str) -> yaml.Node | None:
    """Parse YAML into nodes, which know their lines; nothing is constructed from them."""
    try:
        check_depth(text)
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileFault(
            "the file is not YAML",
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
            got=error.problem or str(error),
        ) from None
    except yaml.reader.ReaderError as error:
        character = chr(error.character)
        line, column = place_of(text, text.find(character))
        raise FileFault("the file is not YAML", line=line, column=column, got=quote(character)) from None
    return node


def check_depth(text: str) -> None:
    """Refuse nesting that would exhaust the stack of the parser, before it parses."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise FileFault("the YAML is nested too deeply", line=line_of(event))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def line_of(place: yaml.Node | yaml.Event) -> int:
    """Give the line of a node or event, counted from 1."""
    return place.start_mark.line + 1 if place.start_mark else 1


def mapping(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    """Give the entries of a mapping; a key that is there twice is a `FileFault`."""
    entries: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise FileFault("a key is not a plain word", line=line_of(key))
        if key.value in entries:
            raise FileFault(f"the key {quote(key.value)} is there twice", line=line_of(key))
        entries[key.value] = value
    return entries


def refuse_alias(node: yaml.Node, seen: set[int]) -> None:
    """Refuse a node that was read before: aliases of aliases make a small file endless."""
    if id(node) in seen:
        raise FileFault(
            "an alias repeats examples that are already there",
            line=line_of(node),
            todo="write the examples out, or take the alias away",
        )
    seen.add(id(node))


def read_item(item: yaml.Node, rows: FileRows, seen: set[int]) -> None:
    """Read one entry of the nlu list: an intent with its examples."""
    refuse_alias(item, seen)
    if not isinstance(item, yaml.MappingNode):
        rows.refuse(line_of(item), "an entry of nlu is not a mapping", expected="intent and examples")
        return
    entries = mapping(item)
    if "intent" not in entries:
        if not OTHER_SECTIONS & entries.keys():
            rows.refuse(
                line_of(item),
                "an entry of nlu is of no known kind",
                got=", ".join(quote(key) for key in entries),
                expected="intent, synonym, regex or lookup",
            )
        return
    intent = scalar(entries["intent"])
    if not intent:
        rows.refuse(line_of(item), "empty label: the intent has no name")
        return
    examples = entries.get("examples")
    if examples is None or (isinstance(examples, yaml.ScalarNode) and not scalar(examples).strip()):
        rows.refuse(line_of(item), f"intent {quote(intent)} has no examples")
    elif isinstance(examples, yaml.ScalarNode):
        read_block(examples, intent, rows, seen)
    elif isinstance(examples, yaml.SequenceNode) and examples.value:
        read_list(examples, intent, rows, seen)
    else:
        rows.refuse(
            line_of(examples),
            f"the examples of intent {quote(intent)} are no list",
            expected="examples: | and one example a line, each after a '-'",
        )


def scalar(node: yaml.Node) -> str:
    """Give the text of a scalar as it is written; nothing for null or what is no scalar."""
    if not isinstance(node, yaml.ScalarNode) or node.tag == NULL_TAG:
        return ""
    if node.tag not in PLAIN_TAGS:
        raise FileFault("a tag that task files cannot have", line=line_of(node), got=quote(node.tag))
    return str(node.value)


def read_block(examples: yaml.ScalarNode, intent: str, rows: FileRows, seen: set[int]) -> None:
    """Read examples in one text, each on a line of its own after a ``-``."""
    refuse_alias(examples, seen)
    # The text of a block begins on the line below its "|".
    block = examples.style == "|"
    if not block and examples.end_mark.line > examples.start_mark.line:
        what = "the lines of the examples are joined to one, as YAML has it"
        rows.refuse(line_of(examples), what, got=quote(examples.value), expected="examples: |")
        return
    for offset, line in enumerate(scalar(examples).split("\n")):
        number = line_of(examples) + (offset + 1 if block else 0)
        if line.startswith("-"):
            rows.add(number, remove_entities(line[1:].strip()), intent)
        elif line.strip():
            rows.refuse(number, "an example does not begin with '-'", got=quote(line))


def read_list(examples: yaml.SequenceNode, intent: str, rows: FileRows, seen: set[int]) -> None:
    """Read examples in a list of mappings with a ``text`` (and metadata, which is passed over)."""
    refuse_alias(examples, seen)
    for entry in examples.value:
        refuse_alias(entry, seen)
        text = mapping(entry).get("text") if isinstance(entry, yaml.MappingNode) else None
        if text is None:
            rows.refuse(line_of(entry), "an example has no text", expected="text: the example")
        else:
            rows.add(line_of(text), remove_entities(scalar(text).strip()), intent)
