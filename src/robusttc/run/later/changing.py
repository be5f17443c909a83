"""A change of a finished run that is under way: what it is, and how far it is.

The database decides. A change is *begun* while units are worked on: all files are still those of the version
before, and whoever opens the run sees that one. Then it is *writing*, for a moment, in which files are of two
versions; killed there, only the same command makes the run whole again. When it is done, the value is gone
and the history has one more line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from robusttc.errors import StoreError, UsageError, quote

__all__ = ["CHANGE", "Pending", "describe_tasks", "refuse_half_written", "refuse_other_change"]

# The value of the store that says what is under way.
CHANGE = "change"
MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Pending:
    """A change that is under way.

    Attributes
    ----------
    kind
        ``add`` or ``remove``.
    version
        The version that it will make.
    tasks
        The tasks that come or go, each with the SHA-256 of its content.
    when
        When it was begun, in seconds since 1970.
    state
        ``begun``, ``writing``, or of a removal ``wiping``: all files are those of the new version, and what
        was removed is being overwritten in the database.

    Examples
    --------
    >>> pending = Pending("add", 2, {"acme": "1f"}, 0.0)
    >>> Pending.from_dict(pending.to_dict()) == pending
    True
    """

    kind: Literal["add", "remove"]
    version: int
    tasks: Mapping[str, str]
    when: float
    state: Literal["begun", "writing", "wiping"] = "begun"

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {**asdict(self), "tasks": dict(self.tasks)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Pending:
        """Make it from what `to_dict` gave."""
        return cls(
            values["kind"],
            int(values["version"]),
            dict(values["tasks"]),
            float(values["when"]),
            values["state"],
        )

    @property
    def how(self) -> str:
        """The command that goes on with it, in words."""
        if self.kind == "add":
            return f"run robusttc add again with {describe_tasks(self.tasks)}"
        return f"run robusttc remove again with {describe_tasks(self.tasks)}"


def describe_tasks(names: Mapping[str, str] | tuple[str, ...] | list[str]) -> str:
    """Name some tasks in a message.

    >>> describe_tasks(("a",)), describe_tasks(["a", "b"])
    ("task 'a'", "2 tasks: 'a', 'b'")
    """
    ordered = sorted(names)
    if len(ordered) == 1:
        return f"task {quote(ordered[0])}"
    more = f" and {len(ordered) - MAX_NAMED:,} more" if len(ordered) > MAX_NAMED else ""
    return f"{len(ordered):,} tasks: {', '.join(quote(name) for name in ordered[:MAX_NAMED])}{more}"


def refuse_half_written(folder: Path, change: Mapping[str, Any] | None) -> None:
    """Say of a run whose files are of two versions how it becomes whole again.

    Raises
    ------
    StoreError
        If a change is in the middle of writing files.
    """
    pending = None if change is None else Pending.from_dict(change)
    if pending is not None and pending.state == "writing":
        raise StoreError(
            "the files of the run are just being written",
            where=repr(str(folder)),
            got=f"version {pending.version} half-way",
            todo=f"try again in a moment; if no process works on it any more, {pending.how}",
        )


def refuse_other_change(folder: Path, pending: Pending, wanted: str) -> None:
    """Refuse to begin a change while another one is under way.

    Raises
    ------
    UsageError
        Always.
    """
    what = "adding" if pending.kind == "add" else "removing"
    give_up = ", or take it back with: robusttc add RUN --give-up" if pending.kind == "add" else ""
    raise UsageError(
        "another change of this run was begun and is not finished",
        where=repr(str(folder)),
        got=f"{wanted}, where {what} {describe_tasks(pending.tasks)} is under way",
        todo=f"{pending.how}{give_up}",
    )
