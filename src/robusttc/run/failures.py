"""The units of a run that failed: to be tried again, or left out."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from robusttc.files import encode_json
from robusttc.run.records import Quarantined, check_text
from robusttc.run.schema import FAILURES
from robusttc.run.sealed import SealedTables

__all__ = ["Failures"]

MAX_ERROR_CHARACTERS = 10_000


class Failures:
    """The units that failed and are not finished since.

    Parameters
    ----------
    sealed
        The small tables of the run.
    """

    def __init__(self, sealed: SealedTables) -> None:
        self._sealed = sealed

    def add(self, stage: str, key: str, error: str, tasks: Sequence[str], *, is_last: bool) -> None:
        """Note a failure; with `is_last` the unit is left out from now on."""
        check_text("stage", stage)
        check_text("key", key)
        # An error may quote what is no Unicode: the name of a file, for instance.
        words = error[:MAX_ERROR_CHARACTERS].encode("utf-8", "backslashreplace").decode()
        old = self._sealed.rows[FAILURES.name].get(key)
        times = 1 if old is None else old[4] + 1
        is_out = is_last or (old is not None and bool(old[5]))
        row = (key, stage, words, encode_json(list(tasks), where="tasks"), times, int(is_out))
        with self._sealed.transaction("failure"):
            self._sealed.put(FAILURES, row)

    def count(self, key: str) -> int:
        """Count how often a unit failed."""
        row = self._sealed.rows[FAILURES.name].get(key)
        return 0 if row is None else int(row[4])

    def quarantined(self) -> list[Quarantined]:
        """Give the units that are left out, by stage and key."""
        found = [
            Quarantined(stage, key, error, tuple(json.loads(tasks)))
            for key, stage, error, tasks, _, is_out in self._sealed.rows[FAILURES.name].values()
            if is_out
        ]
        return sorted(found, key=lambda unit: (unit.stage, unit.key))

    def release(self) -> int:
        """Forget all units that are left out, and count them."""
        keys = [unit.key for unit in self.quarantined()]
        if keys:
            with self._sealed.transaction("release"):
                for key in keys:
                    self._sealed.remove(FAILURES, key)
        return len(keys)

    def forget(self, names: Sequence[str], keys: Collection[str] = ()) -> None:
        """Remove all failures that are about some tasks, and those of some units, inside a transaction."""
        gone = set(names)
        for key, _, _, tasks, _, _ in list(self._sealed.rows[FAILURES.name].values()):
            if key in keys or gone & set(json.loads(tasks)):
                self._sealed.remove(FAILURES, key)

    def keys(self) -> list[str]:
        """Give the keys of all units that failed, sorted."""
        return sorted(self._sealed.rows[FAILURES.name])
