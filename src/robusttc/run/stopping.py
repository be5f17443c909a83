"""How work in progress says that it was stopped."""

from __future__ import annotations

__all__ = ["Stopped"]


class Stopped(BaseException):
    """The run was asked to stop, and all that is finished is stored.

    Like KeyboardInterrupt it is no `Exception`: nothing on the way may take it for a failure and go on.
    """
