"""The small facts of a run, by name: JSON values in the table ``facts``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from robusttc.errors import quote
from robusttc.files import encode_json
from robusttc.run.records import check_text
from robusttc.run.schema import RUN, VALUES
from robusttc.run.sealed import SealedTables

__all__ = ["Remembered"]

CONFIGURATION = "configuration"


class Remembered:
    """The facts of a run.

    Parameters
    ----------
    sealed
        The small tables of the run.
    """

    def __init__(self, sealed: SealedTables) -> None:
        self._sealed = sealed

    @property
    def rows(self) -> Mapping[Any, tuple[Any, ...]]:
        """All of them: name and JSON, by name."""
        return self._sealed.rows[VALUES.name]

    def find(self, name: str, default: Any) -> Any:
        """Give a fact."""
        row = self.rows.get(name)
        return default if row is None else json.loads(row[1])

    def as_rows(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Check facts, and give their rows."""
        for name in values:
            check_text("name", name)
        return [(name, encode_json(value, where=f"value {quote(name)}")) for name, value in values.items()]

    def would_change(self, rows: Iterable[tuple[str, str]], gone: Iterable[str]) -> bool:
        """Tell whether `write` would change anything."""
        return any(self.rows.get(row[0]) != row for row in rows) or any(name in self.rows for name in gone)

    def write(self, rows: Iterable[tuple[str, str]], gone: Iterable[str]) -> None:
        """Put facts in the place of earlier ones and remove others, inside a transaction."""
        for row in rows:
            self._sealed.put(VALUES, row)
        for name in gone:
            if name in self.rows:
                self._sealed.remove(VALUES, name)

    def forget_private(self, names: set[str]) -> None:
        """Take tasks out of the list of private ones in the configuration, inside a transaction."""
        for table in (RUN, VALUES):
            row = self._sealed.rows[table.name].get(CONFIGURATION)
            facts = {} if row is None else json.loads(row[1])
            if names & set(facts.get("private", [])):
                facts["private"] = [name for name in facts["private"] if name not in names]
                self._sealed.put(table, (CONFIGURATION, encode_json(facts, where=CONFIGURATION)))
