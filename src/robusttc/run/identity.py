"""What a run is a run of: its configuration, its tasks, and the versions that its numbers depend on.

A run may only be resumed with the same identity: otherwise results of two different computations would be
mixed without anybody noticing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robusttc.errors import UsageError, quote
from robusttc.files import encode_json

if TYPE_CHECKING:
    from robusttc.data import Task

__all__ = ["Identity", "hash_task"]

MAX_LISTED_DIFFERENCES = 10
ABSENT = object()


def hash_task(task: Task) -> str:
    """Return the SHA-256 of a task's content, and of whether its splits were drawn: models depend on both.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> hash_task(Task("acme", ["hi"], ["greet"])) == hash_task(Task("acme", ["hi"], ["leave"]))
    False
    """
    if not task.splits_drawn:
        return task.content_hash
    return hashlib.sha256(f"{task.content_hash}, splits drawn".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Identity:
    """What a run is a run of.

    Parameters
    ----------
    configuration
        All settings that a result depends on; JSON values, mappings inside mappings are compared one by one.
    tasks
        The name of every task, and the SHA-256 of its content (`hash_task`). Their order is remembered, but
        two identities with another order are equal.
    versions
        Versions of what the numbers depend on, by name.

    Raises
    ------
    UsageError
        If a value cannot be JSON.

    Examples
    --------
    >>> then = Identity({"seed": 0}, {"acme": "12ab"}, {"robusttc": "1.0"})
    >>> now = Identity({"seed": 1}, {"acme": "77ff", "new": "3f"}, {"robusttc": "1.0"})
    >>> then.differences(now)
    ['seed: 0 then, 1 now', "task 'acme' has other rows", "task 'new' is new"]
    """

    configuration: Mapping[str, Any]
    tasks: Mapping[str, str]
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        # Through JSON and back: a tuple and a list are the same after a restart too.
        for name in ("configuration", "tasks", "versions"):
            written = encode_json(dict(getattr(self, name)), where=name)
            values = json.loads(written)
            if name == "tasks":
                values = {task: values[task] for task in self.tasks}
            object.__setattr__(self, name, values)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all of it; the order of tasks does not count."""
        values = [dict(self.configuration), dict(self.tasks), dict(self.versions)]
        return hashlib.sha256(encode_json(values, where="identity").encode()).hexdigest()

    def differences(self, other: Identity) -> list[str]:
        """List in plain words what is otherwise in the other identity, which is the later one."""
        found = list(compare(self.configuration, other.configuration, ""))
        found += [f"version of {line}" for line in compare(self.versions, other.versions, "")]
        gone = [name for name in self.tasks if name not in other.tasks]
        new = [name for name in other.tasks if name not in self.tasks]
        changed = [name for name, content in self.tasks.items() if other.tasks.get(name, content) != content]
        found += [f"task {quote(name)} has other rows" for name in changed]
        found += [f"task {quote(name)} is gone" for name in gone]
        found += [f"task {quote(name)} is new" for name in new]
        return found

    def refuse_other(self, now: Identity, *, where: str) -> None:
        """Refuse to resume this with another identity.

        Raises
        ------
        UsageError
            If anything differs; it lists what, ten at most.
        """
        found = self.differences(now)
        if not found:
            return
        lines = [f"  {line}" for line in found[:MAX_LISTED_DIFFERENCES]]
        if len(found) > MAX_LISTED_DIFFERENCES:
            lines.append(f"  … and {len(found) - MAX_LISTED_DIFFERENCES:,} more")
        lines.append("What to do: give what was given then, or another folder for a new run")
        what = "this run was begun with something else, so it cannot be resumed:"
        raise UsageError("\n".join([what, *lines]), where=where)


def compare(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Describe the values that differ, those of mappings inside by their path."""
    for name in [*then, *(name for name in now if name not in then)]:
        before, after = then.get(name, ABSENT), now.get(name, ABSENT)
        path = f"{prefix}{name}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from compare(before, after, f"{path}.")
        # 1, 1.0 and true are equal in Python; in a configuration they are not.
        elif type(before) is not type(after) or before != after:
            yield f"{path}: {show(before)} then, {show(after)} now"


def show(value: object) -> str:
    """Show a value, or that there is none."""
    return "not there" if value is ABSENT else quote(value)
