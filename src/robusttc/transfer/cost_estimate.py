"""The cost of measuring as a value, said for people; and what memory this process has."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CostEstimate", "memory_now", "peak_so_far", "say_bytes", "say_seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """What measuring will cost.

    Attributes
    ----------
    encoder
        The name of the encoder.
    n_tasks
        How many tasks there are.
    n_scores
        How many scores are to be measured: entries of the transfer matrix.
    n_texts
        How many distinct texts train and valid have.
    n_texts_to_encode
        Of these, those without a sentence vector in the cache; 0 for other encoders.
    seconds_frozen
        For the frozen part of all texts, loading a sentence model not counted.
    seconds_models
        For the models of the sources.
    seconds_pairs
        For the scores.
    memory_bytes
        The memory at the peak, of this process and its workers together.
    calibration_seconds
        How long the estimate took, without loading a sentence model and without compiling.
    at_most
        Whether measuring may stop before that, because more scores would not predict the rest better.
    """

    encoder: str
    n_tasks: int
    n_scores: int
    n_texts: int
    n_texts_to_encode: int
    seconds_frozen: float
    seconds_models: float
    seconds_pairs: float
    memory_bytes: int
    calibration_seconds: float
    at_most: bool = False

    @property
    def seconds(self) -> float:
        """How long measuring will take in all."""
        return self.seconds_frozen + self.seconds_models + self.seconds_pairs

    def describe(self) -> str:
        """Say it in a sentence for people.

        Examples
        --------
        >>> numbers = dict(n_tasks=175, n_scores=30_450, n_texts=80_000, n_texts_to_encode=80_000)
        >>> seconds = dict(seconds_frozen=95.0, seconds_models=3.0, seconds_pairs=9.0)
        >>> memory = dict(memory_bytes=1_240_000_000, calibration_seconds=4.0)
        >>> CostEstimate(encoder="cnn", **numbers, **seconds, **memory).describe()[:51]
        'Measuring transfer: all 30,450 scores, about 105 s '
        """
        if not self.n_scores:
            return "Measuring transfer: all scores are there already."
        every = "all " if self.n_scores == self.n_tasks * (self.n_tasks - 1) else ""
        every, about = ("at most ", "at most about") if self.at_most else (every, "about")
        part = ""
        if self.n_texts_to_encode and self.seconds_frozen >= 1:
            part = f" ({say_seconds(self.seconds_frozen)} of it sentence vectors, which are kept)"
        elif self.seconds_models >= 1 and self.seconds_models > self.seconds / 4:
            part = f" ({say_seconds(self.seconds_models)} of it training)"
        return (
            f"Measuring transfer: {every}{self.n_scores:,} scores, {about} {say_seconds(self.seconds)}{part}"
            f", {say_bytes(self.memory_bytes)} of memory."
        )


def say_seconds(seconds: float) -> str:
    """Give a time as exactly as an estimate can be.

    >>> [say_seconds(value) for value in (0.2, 7.4, 33.0, 110.0, 1000.0, 20_000.0)]
    ['1 s', '7 s', '35 s', '110 s', '17 min', '5.6 h']
    """
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 117.5:
        return f"{5 * round(seconds / 5)} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def say_bytes(n_bytes: float) -> str:
    """Give a size as exactly as an estimate can be.

    >>> say_bytes(640_000_000), say_bytes(1_240_000_000)
    ('640 MB', '1.2 GB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{10 * round(n_bytes / 1e7)} MB"


def memory_now() -> int:
    """Give the memory of this process; where the system does not tell, the largest it ever had."""
    status = Path("/proc/self/statm")
    if status.is_file():
        return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_so_far()


def peak_so_far() -> int:
    """Give the largest memory that this process ever had, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
