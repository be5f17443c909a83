"""Killed at every point: nothing acknowledged is lost, nothing is there twice, nothing is half there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_run import quick_folder

PROGRAM = Path(__file__).parent / "kill_program.py"


def kill_everywhere(folder: Path, weakness: str = "") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), weakness], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_killed_at_every_point_and_again_while_recovering() -> None:
    with quick_folder() as folder:
        found = kill_everywhere(folder)
    assert found["missed"] == []  # every point of the list was reached
    assert found["faults"] == []
    assert found["kills"] == 3 * found["reached"]  # once alone, and two in a row


@pytest.mark.parametrize("weakness", ["early acknowledgement", "late commit", "plain writing"])
def test_a_planted_weakness_is_found(weakness: str) -> None:
    with quick_folder() as folder:
        found = kill_everywhere(folder, weakness)
    assert found["faults"], "killing does not show that acknowledged units are lost"
    word = "half" if weakness == "plain writing" else "lost"
    assert any(word in fault for fault in found["faults"])
