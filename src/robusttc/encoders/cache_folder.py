"""Where the user's own cache is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "default_cache_folder"]

CACHE_VARIABLE = "ROBUSTTC_CACHE"


def default_cache_folder() -> Path:
    """Give the folder of the user's own cache: ``$ROBUSTTC_CACHE/vectors``, or the platform's place.

    Examples
    --------
    >>> default_cache_folder().name
    'vectors'
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser() / "vectors"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "robusttc" / "vectors"
