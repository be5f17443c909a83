"""What changed in a run, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from robusttc.errors import quote
from robusttc.formatting import count

if TYPE_CHECKING:
    from robusttc.run.later.added_tasks import AddedTask
    from robusttc.run.later.comparing_new import Compared

__all__ = ["list_names", "sentence_of_added"]

MAX_NAMED = 5


def list_names(names: Sequence[str]) -> str:
    """Name some tasks.

    >>> list_names(["b", "a"])
    "'a', 'b'"
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - MAX_NAMED:,} more" if len(ordered) > MAX_NAMED else ""
    return ", ".join(quote(name) for name in ordered[:MAX_NAMED]) + more


def sentence_of_added(
    added: Mapping[str, AddedTask], set_aside: Mapping[str, str], compared: Compared
) -> tuple[str, ...]:
    """Say what came, the sum first."""
    placed = sum(one.cluster >= 0 for one in added.values())
    strange = [name for name, one in added.items() if one.out_of_cluster]
    parts = [f"{count(len(added), 'task')} added"]
    if placed:
        parts.append(f"{placed:,} to clusters that were there")
    if strange:
        parts.append(f"{len(strange):,} out of cluster")
    first = ", ".join(parts)
    if set_aside:
        first += f"; {count(len(set_aside), 'task')} set aside: {list_names(list(set_aside))}"
    said = [f"{first}."]
    said += [
        f"These {len(group):,} new tasks are like each other and unlike all others: {list_names(group)}; "
        "a refit would make a cluster of them."
        for group in compared.alike
    ]
    alone = [name for name in strange if not any(name in group for group in compared.alike)]
    if alone:
        said.append(f"No cluster fits {list_names(alone)}.")
    own = [name for name, one in added.items() if one.expected_gain is not None and not one.shares]
    if own:
        said.append(f"Sharing does not pay for {list_names(own)}: own models serve.")
    return tuple(said)
