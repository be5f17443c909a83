"""The public surface as text: names, signatures, fitted attributes, help, keys of JSON, files of a run.

Every section maps a name to a short description, so that two versions can be compared line by line.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from golden_run import FREE_KEYS, fit_objects, read_help, read_summary, run_commands, write_small_tasks

Section = dict[str, str]

# Inherited, and part of what users call all the same.
INHERITED = {"get_params", "set_params"}
# Put into estimators by scikit-learn, as many as its version has.
REQUESTS = re.compile(r"set_\w+_request")
# There while a database is open, and sometimes a moment longer.
PASSING_FILES = ("-wal", "-shm")


def collect_surface(folder: Path) -> tuple[dict[str, Section], dict[str, str]]:
    """Return the sections by name, and the help texts by command; `folder` is empty and may be used."""
    helps = read_help()
    write_small_tasks(folder)
    ended = run_commands(folder, helps)
    sections = {
        "names": describe_names(),
        "exit-codes": {name: str(one.code) for name, one in ended.items()},
        "run-files": describe_files(folder / "run-of-fit") | describe_files(folder / "run", "updated "),
        "json/summary.json": describe_json(read_summary(folder / "run-of-fit")),
    }
    for name, one in ended.items():
        if "--json" in helps[name]:
            sections[f"json/{name}"] = describe_json(json.loads(one.out))
    fitted, objects = fit_objects(folder)
    sections["fitted"] = {
        f"{name}.{attribute}": type_of(value)
        for name, estimator in fitted.items()
        for attribute, value in sorted(vars(estimator).items())
        if attribute.endswith("_") and not attribute.startswith("_")
    }
    sections["objects"] = dict(
        line for name, value in objects.items() for line in describe_object(name, value)
    )
    return sections, helps


def describe_names() -> Section:
    """Describe every public name of the package, and what its classes have."""
    import robusttc

    found: Section = {}
    for name in robusttc.__all__:
        value = getattr(robusttc, name)
        if inspect.isclass(value):
            found[name] = f"class ({', '.join(base.__name__ for base in value.__bases__)})"
            found[f"{name}.__init__"] = describe_signature(value)
            found |= {f"{name}.{member}": said for member, said in describe_members(value)}
        elif callable(value):
            found[name] = describe_signature(value)
        else:
            found[name] = type_of(value)
    return found


def describe_members(owner: type) -> Iterator[tuple[str, str]]:
    """Describe what a class of ours has in public."""
    names = [name for name in dir(owner) if not name.startswith("_") and not REQUESTS.fullmatch(name)]
    for name in sorted(names):
        home = next(one for one in owner.__mro__ if name in vars(one))
        if not home.__module__.startswith("robusttc") and name not in INHERITED:
            continue
        value = vars(home)[name]
        if isinstance(value, classmethod | staticmethod):
            yield name, f"{type(value).__name__} {describe_signature(getattr(owner, name))}"
        elif callable(value):
            yield name, describe_signature(value)
        elif isinstance(value, Enum | bool | int | float | str):
            yield name, repr(value.value if isinstance(value, Enum) else value)
        else:
            # A property, or a slot of a class of records: the same to whoever reads it.
            yield name, "property"


def describe_signature(function: Any) -> str:
    """Return parameters and defaults. Annotations are left out: a type may be spelt in several ways."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "(built in)"
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(plain))


def describe_object(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Describe an object that a public call returns: its class, and its public attributes but the methods."""
    yield name, type_of(value)
    for attribute in sorted(one for one in dir(value) if not one.startswith("_")):
        found = getattr(value, attribute)
        if not callable(found):
            yield f"{name}.{attribute}", type_of(found)


def type_of(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def describe_json(value: Any) -> Section:
    """Return the types of all values by their path; items of a list share one path, `[]`."""
    types: dict[str, set[str]] = {}
    for path, kind in walk_json(value, ""):
        types.setdefault(path, set()).add(kind)
    return {path: " or ".join(sorted(kinds)) for path, kinds in types.items()}


def walk_json(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            # Names and numbers of tasks, labels and clusters are data, not keys.
            shown = "<number>" if key.isdecimal() else str(FREE_KEYS.get(key, key))
            yield from walk_json(inner, f"{path}.{shown}" if path else shown)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from walk_json(inner, f"{path}[]")
    else:
        yield path, {"dict": "empty object", "list": "empty list"}.get(type_of(value), type_of(value))


def describe_files(run: Path, prefix: str = "") -> Section:
    """Return the files of a run, hashes and numbers replaced; of a CSV file its header."""
    found: Section = {}
    # The files of the current version in the place of the objects and of all versions.
    inside = [*run.rglob("*"), *(run / "current").rglob("*")]
    parts = {path: path.relative_to(run).parts for path in inside if path.is_file()}
    for path in sorted(path for path, names in parts.items() if names[0] not in ("objects", "versions")):
        if not path.name.endswith(PASSING_FILES):
            name = name_file("/".join(parts[path]))
            found[f"{prefix}{name}"] = read_header(path) if path.suffix == ".csv" else "file"
    return found


def name_file(name: str) -> str:
    """Replace what differs from run to run, or from task to task, in the path of a file."""
    for free, placeholder in FREE_KEYS.items():
        name = re.sub(rf"(?<![^/]){re.escape(free)}(?=[./]|$)", placeholder, name)
    return re.sub(r"\b\d{4,}\b", "<number>", re.sub(r"\b[0-9a-f]{16,64}\b", "<hash>", name))


def read_header(path: Path) -> str:
    with path.open(encoding="utf-8") as stream:
        return stream.readline().strip()


def describe_options(helps: dict[str, str]) -> Section:
    """Return the usage of every command and what its help says of each option."""
    found: Section = {}
    for command, text in helps.items():
        found[command] = " ".join(text.split("\n\n", 1)[0].split())
        # An option begins a line, and its description goes on until the next one begins.
        for part in re.split(r"^[ │]{1,4}(?=-)", text, flags=re.MULTILINE)[1:]:
            names = re.match(r"-[\w-]+(?:(?:, | / )-[\w-]+)*", part)
            if names is not None:
                found[f"{command} {names.group()}"] = describe_option(part[names.end() :])
    return found


def describe_option(text: str) -> str:
    """Return what the help says of an option besides prose: metavariable, default, whether it is required."""
    metavariable = re.match(r" (\S.*?)(?= {2}|\n|$)", text)
    flat = " ".join(text.split())
    default = re.search(r"\[default: ([^]]*)\]", flat)
    shown = [metavariable.group(1)] if metavariable else []
    shown += [f"default {default.group(1)}"] if default else []
    shown += ["required"] if "required]" in flat else []
    return ", ".join(shown) or "flag"
