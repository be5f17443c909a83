"""Parameter constraints as data: one check and one message for every parameter of the package."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from robusttc.errors import UsageError, quote, suggest

__all__ = [
    "Boolean",
    "Choice",
    "Constraint",
    "Integer",
    "Nothing",
    "Number",
    "Settings",
    "check_param",
    "check_params",
]


@dataclass(frozen=True)
class Integer:
    """A whole number from `low` to `high`; NumPy's integers are accepted, booleans are not."""

    low: int | None = None
    high: int | None = None

    def accepts(self, value: object) -> bool:
        """Return whether a value satisfies the constraint."""
        return isinstance(value, int | np.integer) and Number(self.low, self.high).accepts(value)

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"an integer from {self.low:,} to {self.high:,}"
        if self.low is not None:
            return f"an integer from {self.low:,} up"
        return "an integer" if self.high is None else f"an integer up to {self.high:,}"


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`; an end that is named in `excludes` does not belong to it."""

    low: float | None = None
    high: float | None = None
    excludes: tuple[str, ...] = ()

    def accepts(self, value: object) -> bool:
        """Return whether a value satisfies the constraint."""
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            return False
        above = self.low is None or value > self.low or (value == self.low and "low" not in self.excludes)
        below = self.high is None or value < self.high or (value == self.high and "high" not in self.excludes)
        return bool(above and below and -math.inf < value < math.inf)

    def __str__(self) -> str:
        if self.low == 0 and self.high is None:
            return "a positive number" if "low" in self.excludes else "a number from 0 up"
        parts = []
        if self.low is not None:
            parts.append(f"{'above' if 'low' in self.excludes else 'from'} {self.low:g}")
        if self.high is not None:
            word = "below" if "high" in self.excludes else "to" if parts else "up to"
            if parts and self.excludes:
                word = "and below" if "high" in self.excludes else "and up to"
            parts.append(f"{word} {self.high:g}")
        return " ".join(["a number", *parts])


@dataclass(frozen=True)
class Choice:
    """One of some names."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)

    def accepts(self, value: object) -> bool:
        """Return whether a value satisfies the constraint."""
        return isinstance(value, str) and value in self.names

    def __str__(self) -> str:
        quoted = [repr(name) for name in self.names]
        return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


@dataclass(frozen=True)
class Boolean:
    """True or False."""

    def accepts(self, value: object) -> bool:
        """Return whether a value satisfies the constraint."""
        return isinstance(value, bool | np.bool_)

    def __str__(self) -> str:
        return "True or False"


@dataclass(frozen=True)
class Nothing:
    """None."""

    def accepts(self, value: object) -> bool:
        """Return whether a value satisfies the constraint."""
        return value is None

    def __str__(self) -> str:
        return "None"


Constraint = Integer | Number | Choice | Boolean | Nothing


def check_param(name: str, value: object, *constraints: Constraint) -> None:
    """Refuse a value that satisfies none of the constraints.

    >>> check_param("n_clusters", 4, Choice("auto"), Integer(1))
    >>> check_param("n_clusters", 0, Choice("auto"), Integer(1))
    Traceback (most recent call last):
    robusttc.errors.UsageError: n_clusters cannot be used; got 0; expected 'auto' or an integer from 1 up
    """
    if any(constraint.accepts(value) for constraint in constraints):
        return
    choices = [choice for one in constraints if isinstance(one, Choice) for choice in one.names]
    raise UsageError(
        f"{name} cannot be used",
        got=quote(value),
        expected=" or ".join(str(constraint) for constraint in constraints),
        todo=suggest(value, choices),
    )


def check_params(values: Mapping[str, Any], constraints: Mapping[str, tuple[Constraint, ...]]) -> None:
    """Check every parameter that has constraints; the first that violates them is reported.

    >>> check_params({"tol": 1e-5, "seed": 0}, {"tol": (Number(0, excludes=("low",)),)})
    """
    for name, allowed in constraints.items():
        check_param(name, values[name], *allowed)


class Settings:
    """Base of frozen dataclasses of settings: a fingerprint, and changes that refuse misspelt names.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Speed(Settings):
    ...     limit: int = 50
    >>> Speed().replace(limit=30), Speed(50).fingerprint == Speed().fingerprint
    (Speed(limit=30), True)
    """

    __slots__ = ()

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all values: equal fingerprints, equal settings."""
        values: Any = self
        text = json.dumps(dataclasses.asdict(values), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def replace(self, **changes: Any) -> Self:
        """Return the same settings with some values changed; refuse names that they do not have."""
        values: Any = self
        known = [field.name for field in dataclasses.fields(values)]
        for name in changes:
            if name not in known:
                raise UsageError(
                    "there is no such setting",
                    got=quote(name),
                    expected=f"one of {', '.join(known)}",
                    todo=suggest(name, known),
                )
        changed: Self = dataclasses.replace(values, **changes)
        return changed

    def _check(self, constraints: Mapping[str, tuple[Constraint, ...]]) -> None:
        """Check the values, and turn NumPy's numbers into Python's: equal settings, equal fingerprints."""
        for name, allowed in constraints.items():
            value = getattr(self, name)
            check_param(name, value, *allowed)
            kind = next(type(constraint) for constraint in allowed if constraint.accepts(value))
            if kind in (Integer, Number):
                object.__setattr__(self, name, int(value) if kind is Integer else float(value))
