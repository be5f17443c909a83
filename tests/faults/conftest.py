"""A folder in memory where there is one: what a killed process wrote survives there too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def quick_path() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is a new one
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if usable else None, prefix="robusttc-faults-") as folder:
        yield Path(folder)
