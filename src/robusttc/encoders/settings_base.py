"""What all settings can do: tell themselves apart, and be changed with an eye on misspelt names."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Self

from robusttc.errors import UsageError, nearest_name, quote

__all__ = ["Settings"]


class Settings:
    """The base of frozen dataclasses of settings.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
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
        """Give the same settings with some values changed.

        Raises
        ------
        UsageError
            If there is no setting of such a name, or a value cannot be used.
        """
        values: Any = self
        known = [field.name for field in dataclasses.fields(values)]
        for name in changes:
            if name not in known:
                nearest = nearest_name(name, known)
                raise UsageError(
                    "there is no such setting",
                    got=quote(name),
                    expected=f"one of {', '.join(known)}",
                    todo=f"did you mean {quote(nearest)}?" if nearest else None,
                )
        changed: Self = dataclasses.replace(values, **changes)
        return changed
