"""What a run remembers about its units and stages, and what it cost."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

from robusttc.errors import UsageError, quote
from robusttc.run.score_rows import ScoreRows
from robusttc.run.sealed import Row

__all__ = ["FinishedUnit", "Quarantined", "StageCost", "add_up_costs", "digest_content"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinishedUnit:
    """A unit of work that is done, to be stored.

    Attributes
    ----------
    stage
        What it is a part of.
    key
        Its name, that of no other unit of the run.
    content
        Its result (`work.packing.pack`).
    scores
        The transfer scores in the result, if it has any.
    seconds, cpu_seconds, peak_bytes
        What it cost.
    attempts
        How often it was tried, this time included.

    Raises
    ------
    UsageError
        If a name or a number cannot be stored.
    """

    stage: str
    key: str
    content: bytes
    scores: ScoreRows | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    attempts: int = 1

    def __post_init__(self) -> None:
        check_text("stage", self.stage)
        check_text("key", self.key)
        for name in ("seconds", "cpu_seconds", "peak_bytes", "attempts"):
            value = getattr(self, name)
            if not math.isfinite(value) or not 0 <= value < 2**63:
                raise UsageError(
                    f"{name} cannot be stored", where=f"unit {quote(self.key)}", got=quote(value)
                )


def check_text(name: str, value: object) -> None:
    """Refuse what is no text, or no text that UTF-8 can hold."""
    try:
        if isinstance(value, str) and value.encode():
            return
    except UnicodeEncodeError:
        pass
    raise UsageError(f"the {name} cannot be stored", got=quote(value), expected="a non-empty Unicode text")


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A unit that was tried several times in vain and is left out.

    Attributes
    ----------
    stage, key
        The unit.
    error
        What went wrong the last time.
    tasks
        The tasks that it is about.
    """

    stage: str
    key: str
    error: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage cost, all restarts together.

    Attributes
    ----------
    stage
        Its name.
    units
        How many of its units are finished.
    wall_seconds
        How long it was worked on; after a kill, up to the last commit.
    cpu_seconds, peak_bytes
        Of its units: the sum, and the most.
    started, ended
        Seconds since 1970; None if it has not begun, or has not ended.
    """

    stage: str
    units: int
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    started: float | None
    ended: float | None

    def with_more(self, units: int, cpu_seconds: float, peak_bytes: int) -> StageCost:
        """Give the cost with that of more units."""
        return dataclasses.replace(
            self,
            units=self.units + units,
            cpu_seconds=self.cpu_seconds + cpu_seconds,
            peak_bytes=max(self.peak_bytes, peak_bytes),
        )


def digest_content(stage: str, key: str, content: bytes) -> bytes:
    """Give the SHA-256 of a result, which the same bytes under another key do not have."""
    digest = hashlib.sha256(b"robusttc-unit-1")
    for part in (stage.encode(), key.encode(), content):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def add_up_costs(units: Iterable[Row], spans: Iterable[Row]) -> list[StageCost]:
    """Add up what stages cost, in the order in which they were begun first.

    Parameters
    ----------
    units, spans
        All rows of these tables.
    """
    finished: dict[str, list[Row]] = {}
    worked: dict[str, list[Row]] = {}
    for span in sorted(spans):
        worked.setdefault(span[1], []).append(span)
    for unit in units:
        finished.setdefault(unit[1], []).append(unit)
    costs = []
    for stage in [*worked, *sorted(finished.keys() - worked.keys())]:
        done, times = finished.get(stage, []), worked.get(stage, [])
        last = times[-1] if times else None
        costs.append(
            StageCost(
                stage,
                units=len(done),
                wall_seconds=sum(span[4] for span in times),
                cpu_seconds=sum(unit[7] for unit in done),
                peak_bytes=max((unit[8] for unit in done), default=0),
                started=times[0][3] if times else None,
                ended=last[3] + last[4] if last is not None and last[5] else None,
            )
        )
    return costs
