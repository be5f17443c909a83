"""A run that is killed at any moment loses nothing that it acknowledged, and ends with the same result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crash_faults import FAULTS

from robusttc.crash_points import POINTS

PROGRAM = Path(__file__).parent / "crash_program.py"
# To draw other moments: ROBUSTTC_CRASH_SEED=12 pytest tests/crash
SEED = os.environ.get("ROBUSTTC_CRASH_SEED", "0")


def kill(*arguments: str) -> dict[str, Any]:
    """Run the witness; what it prints shows up when the test fails, with the seed and all kills."""
    command = [sys.executable, str(PROGRAM), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    print("To replay:", *command, done.stdout, done.stderr, sep="\n")  # noqa: T201 - shown by pytest
    assert done.returncode == 0
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_fifty_kills_at_random_moments() -> None:
    found = kill("random", "--seed", SEED, "--kills", "50")
    assert found["faults"] == []
    assert found["n_kills"] == 50


@pytest.mark.slow
def test_five_hundred_kills_at_random_moments() -> None:
    found = kill("random", "--seed", f"{SEED}1", "--kills", "500", "--workers", "1", "2", "3")
    assert found["faults"] == []
    assert found["n_kills"] == 500


def test_a_kill_at_every_point_and_another_while_recovering() -> None:
    found = kill("points", "--seed", SEED)
    assert found["missed"] == []  # every point of the list was reached
    assert found["faults"] == []
    assert found["n_kills"] == 2 * len(POINTS)


def test_killed_workers_change_nothing() -> None:
    found = kill("workers", "--seed", SEED, "--kills", "4")
    assert found["faults"] == []
    assert found["n_kills"] >= 1


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    fault = FAULTS[name]
    found = kill(
        fault.way, "--fault", name, "--until-red", "--seed", "1", "--kills", "4", "--starts", *fault.points
    )
    assert any(fault.said in words for words in found["faults"]), "the witness would not notice this fault"
