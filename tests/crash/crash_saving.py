"""`robusttc` that is killed while it saves a model: ``python crash_saving.py MOMENT TIMES fit ...``.

The moments are before a file of the model is written, before its folder is synced, and before a renaming.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOMENTS = ("write", "sync", "rename")


def dying(times: int, real: Callable[..., Any], is_meant: Callable[..., bool]) -> Callable[..., Any]:
    """Give a function that ends the process when it is called for the n-th time as is meant."""
    left = times

    def call(*arguments: Any) -> Any:
        nonlocal left
        left -= is_meant(*arguments)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    return call


def plant(moment: str, times: int) -> None:
    """Have this process killed at a moment."""
    from robusttc import files

    if moment == "write":
        files.write_durably = dying(times, files.write_durably, lambda *_: True)
    elif moment == "sync":
        files.sync_folder = dying(times, files.sync_folder, lambda *_: True)
    else:
        is_model = lambda path, *_: path.parent.name == "models"  # noqa: E731
        Path.rename = dying(times, Path.rename, is_model)  # type: ignore[method-assign]


if __name__ == "__main__":
    from robusttc.cli import main

    plant(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
