"""Everything about encoders and transfer, one part after the other, each in a process of its own.

All of it takes about an hour on two cores, sentence vectors not counted; `--parts` chooses. One thread a
process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

PARTS = {
    "ground": ["benchmarks.ground"],
    "matrix": ["benchmarks.matrix"],
    "sentences": ["benchmarks.sentences"],
    "whole": ["benchmarks.whole"],
    "cost": ["benchmarks.cost"],
    "reliability": ["benchmarks.reliability"],
    "single_task": ["benchmarks.single_task", "--test"],
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    failed = []
    for part in parser.parse_args().parts:
        print(f"\n# {part}\n", flush=True)
        start = time.perf_counter()
        # A part that misses its mark ends with an error; the others are still worth seeing.
        result = subprocess.run([sys.executable, "-m", *PARTS[part]], env={**os.environ, **ONE_THREAD})
        print(f"\n{part}: {time.perf_counter() - start:.0f} s", flush=True)
        if result.returncode:
            failed.append(part)
    if failed:
        sys.exit(f"Not all that was hoped for: {', '.join(failed)}")


if __name__ == "__main__":
    main()
