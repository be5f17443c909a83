"""The part ``cnn`` of `benchmarks.ground`: the full S of bots175 by the paper's encoder, beside 0.1."""

from __future__ import annotations

from pathlib import Path

from benchmarks.ground_transfer import measure_set


def measure(old: Path | None) -> list[list[str]]:
    """Return the rows of the table."""
    return measure_set("bots175", "cnn", old)
