"""What the rooms below learning cost: data, encoders, models, transfer; beside the plain way and version 0.1.

    python -m benchmarks.ground [--only models] [--old FOLDER]

CPU seconds of one thread, best of three. FOLDER is a checkout of version 0.1 (``git worktree add FOLDER
b918f4f``); without it the column "old" is empty. The ratio is old to new: above 1 is faster than before.
A part is a module ``benchmarks.ground_NAME`` with a function ``measure(old) -> rows``, and a ``HEADER`` where
its columns are others.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.report import print_table

PARTS = ("data", "encoders", "models", "transfer", "cnn", "static", "accuracy")
HEADER = ("what", "new", "plain way", "old", "ratio")


def main() -> None:
    """Print the tables of the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--old", type=Path, help="a checkout of version 0.1")
    options = parser.parse_args()
    for name in options.only.split(","):
        if name not in PARTS:
            sys.exit(f"There is no part {name!r}; there are {', '.join(PARTS)}.")
        print(f"## {name}\n")
        part = import_module(f"benchmarks.ground_{name}")
        print_table(getattr(part, "HEADER", HEADER), part.measure(options.old))


if __name__ == "__main__":
    main()
