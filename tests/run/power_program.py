"""The little run, watched while it writes: ``python power_program.py FOLDER ACKNOWLEDGED [WEAKNESS]``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from small_run import batches, do_run, open_or_create

from robusttc.run import database


def main(folder: Path, acknowledged: Path, weakness: str) -> None:
    if weakness == "no syncing":
        weak = {"synchronous": ("synchronous", "OFF", 0)}
        settings = tuple(weak.get(setting[0], setting) for setting in database.SETTINGS)
        vars(database)["SETTINGS"] = settings
    with acknowledged.open("wb", buffering=0) as stream:

        def acknowledge(keys: Iterable[str]) -> None:
            stream.write(json.dumps(list(keys)).encode() + b"\n")

        # Twice, so that the log is brought into the database on the way and begun anew.
        with open_or_create(folder) as store:
            for batch in batches()[:2]:
                store.finish_many(batch)
                acknowledge([unit.key for unit in batch])
        do_run(folder, acknowledge)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
