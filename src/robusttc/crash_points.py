"""Named points around everything that a run writes, where a test can kill the process or fail the disk.

Outside tests nobody listens, and passing a point costs nothing. The points are listed here, so that a test
can go through all of them, and fails where one is never passed.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["POINTS", "TRANSACTIONS", "reach", "set_hook"]

# What the store commits; every one of them is begun, written and committed.
TRANSACTIONS = ("create", "failure", "finish", "release", "stage", "value")

POINTS = frozenset(
    {
        *(f"{name}/{moment}" for name in TRANSACTIONS for moment in ("begun", "written", "committed")),
        "owner/opened",
        "owner/locked",
        "owner/written",
        "database/filled",
        "database/renamed",
        "database/in place",
        "open/connected",
        "open/recovered",
        "open/checked",
        "close/begun",
        "close/done",
        "file/opened",
        "file/written",
        "file/synced",
        "file/renamed",
        "file/in place",
    }
)

_hook: Callable[[str], None] | None = None


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Call a function, which may end the process or raise OSError, at every point; None for nobody."""
    global _hook
    _hook = hook


def reach(point: str) -> None:
    """Pass one of `POINTS`."""
    if _hook is None:
        return
    if point not in POINTS:
        raise KeyError(f"{point!r} is not in the list of points")
    _hook(point)
