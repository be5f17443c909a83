"""Where settings come from: defaults, a file, the environment, options; each of them goes before the last.

Every value keeps its place, so that a message can say which file and line, variable or option to mend.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from robusttc.errors import UsageError, nearest_name, quote
from robusttc.run.configuration import Checked, Execution, FitConfiguration

__all__ = ["ENVIRONMENT_PREFIX", "Given", "read_configuration"]

ENVIRONMENT_PREFIX = "ROBUSTTC_FIT_"
MAX_FILE_BYTES = 2**20
# The parser calls itself once a level; a configuration has two.
MAX_DEPTH = 10
NAMES = (*FitConfiguration.model_fields, *Execution.model_fields)
# What cannot be one word: these are written in the environment as in the file.
COLLECTIONS = ("private", "split_values")
Kind = TypeVar("Kind", bound=Checked)


@dataclass(frozen=True, slots=True)
class Given:
    """A value, and the place that it comes from."""

    value: Any
    place: str


def read_configuration(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[FitConfiguration, Execution]:
    """Put settings together: default < file < environment < option.

    Parameters
    ----------
    file
        A YAML file; None for none.
    environment
        The environment, of which variables that begin with ``ROBUSTTC_FIT_`` count; None takes that of the
        process.
    options
        What was given on the command line, by the names of the settings; None is not given.

    Raises
    ------
    UsageError
        If the file cannot be read, or a setting is unknown, there twice or cannot be used; it names the place
        of each.

    Examples
    --------
    >>> read_configuration(environment={"ROBUSTTC_FIT_SEED": "7"}, options={"workers": 2})[0].seed
    7
    """
    given = {} if file is None else read_file(file)
    given |= read_environment(os.environ if environment is None else environment)
    for name, value in (options or {}).items():
        if value is not None:
            # The one option that is given once a value.
            option = "split-value" if name == "split_values" else name.replace("_", "-")
            given[name] = Given(value, f"option --{option}")
    configuration = make(FitConfiguration, given)
    return configuration, make(Execution, given)


def make(kind: type[Kind], given: Mapping[str, Given]) -> Kind:
    """Check the values of one kind of settings."""
    own = {name: one for name, one in given.items() if name in kind.model_fields}
    try:
        return kind.model_validate({name: one.value for name, one in own.items()})
    except ValidationError as error:
        raise UsageError(say_problems(kind, own, error)) from None


def say_problems(kind: type[Checked], given: Mapping[str, Given], error: ValidationError) -> str:
    """Say what is wrong, a line a setting, each with its place."""
    lines: dict[str, str] = {}
    meant: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        if not problem["loc"]:
            # Settings that do not go together: each may come from another place.
            places = ", ".join(dict.fromkeys(one.place for one in given.values()))
            lines["together"] = f"{places}: {problem['msg'].removeprefix('Value error, ')}"
            continue
        name = str(problem["loc"][0])
        one, expected = given[name], kind.model_fields[name].description
        lines[name] = f"{one.place}: {name} cannot be used; got {quote(one.value)}; expected {expected}"
        if problem["type"] == "literal_error":
            nearest = nearest_name(str(one.value), re.findall(r"'(.*?)'", problem["ctx"]["expected"]))
            meant[name] = f". Did you mean {quote(nearest)}?" if nearest else ""
    lines = {name: line + meant.get(name, "") for name, line in lines.items()}
    if len(lines) == 1:
        return next(iter(lines.values()))
    return f"{len(lines)} settings cannot be used:\n" + "\n".join(f"  {line}" for line in lines.values())


def unknown_setting(place: str, name: str, shown: str) -> UsageError:
    """Make the error for a setting that does not exist, with the one that was meant."""
    nearest = nearest_name(name.lower(), NAMES)
    meant = shown.replace(name, nearest if name.islower() else nearest.upper()) if nearest else None
    return UsageError(
        "there is no such setting",
        where=place,
        got=quote(shown),
        todo=f"did you mean {quote(meant)}?" if meant else f"the settings are {', '.join(NAMES)}",
    )


def read_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    """Take the settings from variables of the environment; an empty one is not given."""
    found: dict[str, Given] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or not text.strip():
            continue
        own_name = variable.removeprefix(ENVIRONMENT_PREFIX)
        name, place = own_name.lower(), f"environment variable {variable}"
        if name not in NAMES or own_name != own_name.upper():
            raise unknown_setting("environment", own_name, variable)
        value: Any = text
        if name in COLLECTIONS:
            node = compose(text, place)
            value = None if node is None else construct(node, place)
        found[name] = Given(value, place)
    return found


def read_file(path: Path) -> dict[str, Given]:
    """Read the settings of a YAML file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(
            "the configuration file cannot be read", where=str(path), got=error.strerror or str(error)
        ) from None
    except UnicodeDecodeError:
        raise UsageError("the configuration file is not UTF-8", where=str(path)) from None
    if len(content) > MAX_FILE_BYTES:
        raise UsageError("the configuration file is too large", where=str(path), expected="at most 1 MiB")
    root = compose(text, str(path))
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(
            "the configuration file is no mapping", where=str(path), expected="a line NAME: VALUE a setting"
        )
    found: dict[str, Given] = {}
    for name, node in entries_of(root, str(path)).items():
        place = f"{path}, line {node.start_mark.line + 1}"
        if name not in NAMES:
            raise unknown_setting(place, name, name)
        found[name] = Given(construct(node, place), place)
    return found


def compose(text: str, place: str) -> yaml.Node | None:
    """Parse YAML into nodes, which know their lines; nothing is run, and aliases are refused."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
                what = "an alias, which settings do not need" if depth <= MAX_DEPTH else "nested too deeply"
                raise UsageError(
                    f"the YAML has {what}" if depth <= MAX_DEPTH else f"the YAML is {what}",
                    where=f"{place}, line {event.start_mark.line + 1}",
                )
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = place if mark is None else f"{place}, line {mark.line + 1}"
        got = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UsageError("this is not YAML", where=where, got=got) from None
    return node


def entries_of(node: yaml.MappingNode, place: str) -> dict[str, yaml.Node]:
    """Give the entries of a mapping; a key that is there twice is an error."""
    entries: dict[str, yaml.Node] = {}
    for key, value in node.value:
        where = f"{place}, line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise UsageError("a key is not a plain word", where=where)
        if key.value in entries:
            raise UsageError("a setting is there twice", where=where, got=quote(key.value))
        entries[key.value] = value
    return entries


def construct(node: yaml.Node, place: str) -> Any:
    """Give the value of a node: words, numbers, truths, null, and lists and mappings of them."""
    if isinstance(node, yaml.MappingNode):
        return {name: construct(value, place) for name, value in entries_of(node, place).items()}
    if isinstance(node, yaml.SequenceNode):
        return [construct(value, place) for value in node.value]
    try:
        return yaml.safe_load(yaml.serialize(node))
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(
            "a value cannot be read", where=place, got=quote(str(error).splitlines()[0])
        ) from None
