"""List every difference between version 0.1 (commit b918f4f) and the code of this clone, on the same inputs.

Exit code 0 if every difference is explained in tests/golden/intended.toml and no accuracy has fallen, else 1.
Results of the old code are kept in a folder that git ignores, and only made again for other inputs.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare_old.differences import (
    MIN_POINTS,
    Difference,
    Intended,
    Paired,
    compare_runs,
    compare_values,
    pair_accuracies,
    read_intended,
    sort_differences,
)
from benchmarks.compare_old.inputs import SETS, Input, digest_of, find_set, plant_tasks, prepare_set
from benchmarks.compare_old.parts import collect_bad_files, collect_run, collect_surface
from benchmarks.compare_old.versions import OLD_COMMIT, ROOT, Version, keep, open_versions
from benchmarks.report import print_table

GOLDEN = ROOT / "tests" / "golden"
PARTS = ("surface", "bad-files", "runs")
PLANTED = "planted"
# The first word of identifiers, by part; all others are of the surface.
OF_PART = {"bad-files": ("bad-files",), "runs": ("runs", "times", "sizes", "accuracies")}


class Comparison:
    """Both versions, and what was found so far."""

    def __init__(
        self, old: Version, new: Version, work: Path, kept: Path, options: argparse.Namespace
    ) -> None:
        self.old, self.new, self.work, self.kept, self.options = old, new, work, kept, options
        self.surfaces: dict[str, dict[str, str]] = {}
        self.differences: list[Difference] = []
        self.accuracies: list[Paired] = []
        self.times: list[list[str]] = []
        self.left_out: list[str] = []

    def compare_surface(self) -> None:
        """Compare names, signatures, options, JSON keys and files of a small run."""
        recorders = ("golden_run.py", "golden_surface.py", "record_golden.py")
        programs = [(GOLDEN / name).read_text(encoding="utf-8") for name in recorders]
        old = keep(self.kept, "surface", programs, lambda: self.surface_of(self.old))
        self.differences += compare_values(old, self.surface_of(self.new))

    def surface_of(self, version: Version) -> dict[str, str]:
        """Return the surface of a version, recorded once."""
        if version.name not in self.surfaces:
            self.surfaces[version.name] = collect_surface(version, self.work)
        return self.surfaces[version.name]

    def compare_bad_files(self) -> None:
        """Compare how bad files are refused."""
        files = digest_of(ROOT / "tests" / "bad_files")
        old = keep(self.kept, "bad-files", files, lambda: collect_bad_files(self.old, self.work))
        self.differences += compare_values(old, collect_bad_files(self.new, self.work))

    def compare_sets(self) -> None:
        """Compare whole runs on planted tasks and on the public sets that are there."""
        for name in self.options.sets:
            source = find_set(name)
            if name == PLANTED:
                self.compare_set(plant_tasks(self.old, self.work))
            elif source is None:
                self.left_out.append(
                    f"{name}: there is no ../shared/data/{name}/tasks.jsonl.gz beside the clone"
                )
            else:
                self.compare_set(prepare_set(name, source, self.work, quick=self.options.quick))

    def compare_set(self, given: Input) -> None:
        """Compare the runs of one set."""
        workers, vectors = self.options.workers, self.options.vectors

        def run(version: Version) -> dict[str, Any]:
            # Compiles inner loops, which numba keeps beside the code: no time must depend on who was first.
            self.surface_of(version)
            return collect_run(version, given, self.work, workers, vectors)

        old = keep(self.kept, given.name, [given.digest, workers, vectors is not None], lambda: run(self.old))
        new = run(self.new)
        # The figures of single tasks, to look at: nothing reads them again.
        (self.kept / f"new-{given.name}.json").write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
        self.differences += compare_runs(given.name, old, new)
        for kind in ("served", "few-shot"):
            paired = pair_accuracies(f"{given.name}, {kind}", old[kind], new[kind])
            if paired is not None:
                self.accuracies.append(paired)
        for step, took in new["took"].items():
            if step in old["took"]:
                self.times.append([given.name, step, *describe_times(old["took"][step], took)])


def describe_times(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the cells of wall and CPU seconds and memory, old, new and ratio each."""
    cells = []
    for measure in ("wall", "cpu", "peak_mib"):
        ratio = f"{new[measure] / old[measure]:.2f}" if old[measure] else ""
        cells.append(f"{old[measure]:.1f}, {new[measure]:.1f}: {ratio}")
    return cells


def print_report(found: Comparison, intended: Sequence[Intended]) -> bool:
    """Print all differences, the unintended first, and tell whether all is as it should be."""
    unintended, explained, unused = sort_differences(found.differences, intended)
    print(f"\n{len(unintended)} unintended differences from {OLD_COMMIT}")
    for difference in unintended:
        same_name = [one for one in intended if Intended(one.what, "kept", "").matches(difference)]
        note = f"   (intended.toml has it as {same_name[0].fate})" if same_name else ""
        print(f"  {difference}{note}")
    print_accuracies(found.accuracies)
    if found.times:
        print("\nTime and peak memory of all processes of a command (old, new: ratio). Cores are shared, and")
        print("old figures may be of another day: CPU seconds say more than wall seconds.\n")
        print_table(["set", "command", "wall s", "CPU s", "peak MiB"], found.times)
    print(f"\n{len(explained)} intended differences")
    for difference, entry in explained:
        print(f"  {difference}   [{entry.fate}] {entry.reason}")
    stale = [entry for entry in unused if is_compared(entry.what, found.options)]
    print(f"\n{len(stale)} entries of intended.toml are stale: they match nothing")
    for entry in stale:
        print(f"  {entry.what} [{entry.fate}]")
    for line in found.left_out:
        print(f"\nLEFT OUT {line}")
    return not unintended and all(paired.holds for paired in found.accuracies)


def is_compared(what: str, options: argparse.Namespace) -> bool:
    """Tell whether an entry could have matched: its part, and its set if it names one, were compared."""
    first, _, rest = what.partition("/")
    part = next((part for part, words in OF_PART.items() if first in words), "surface")
    name = rest.partition("/")[0]
    return part in options.only and (part != "runs" or "*" in name or name in options.sets)


def print_accuracies(accuracies: Sequence[Paired]) -> None:
    """Print the paired differences over tasks and whether their bounds hold."""
    if not accuracies:
        return
    print(f"\nAccuracy on validation rows, in points. The lower end of new - old must be above {MIN_POINTS};")
    print("for few-shot learning the upper end, since held-out tasks are few. (Planted: test rows.)\n")
    header = ["set", "tasks", "with another accuracy", "old", "new", "new - old [95 %]", "bound"]
    rows = [
        [
            one.name,
            str(one.n_tasks),
            str(one.n_changed),
            f"{one.old:.2f}",
            f"{one.new:.2f}",
            f"{one.mean:+.2f} [{one.low:+.2f}, {one.high:+.2f}]",
            "holds" if one.holds else "BROKEN",
        ]
        for one in accuracies
    ]
    print_table(header, rows)


def read_options() -> argparse.Namespace:
    def names(allowed: Sequence[str]) -> Any:
        def split(given: str) -> list[str]:
            chosen = given.split(",")
            unknown = [name for name in chosen if name not in allowed]
            if unknown:
                raise argparse.ArgumentTypeError(f"{', '.join(unknown)}; expected of {', '.join(allowed)}")
            return chosen

        return split

    sets = (PLANTED, *SETS)
    parser = argparse.ArgumentParser(prog="make compare-old", description=__doc__)
    parser.add_argument("--only", type=names(PARTS), default=list(PARTS), help=f"parts: {','.join(PARTS)}")
    parser.add_argument("--sets", type=names(sets), default=list(sets), help=f"sets: {','.join(sets)}")
    parser.add_argument("--quick", action="store_true", help="24 tasks of each public set")
    parser.add_argument("--workers", type=int, default=2, help="worker processes of measure and fit")
    parser.add_argument(
        "--vectors",
        type=Path,
        help="a folder with a cache of vectors for each version, old and new, so that neither encodes again",
    )
    parser.add_argument("--cache", type=Path, default=ROOT / ".compare-old", help="what the old code gave")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    # Asked to stop, the worktree of the old code is removed all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cache = options.cache.resolve()
    with open_versions(cache) as (old, new), tempfile.TemporaryDirectory(prefix="work-", dir=cache) as work:
        found = Comparison(old, new, Path(work), cache, options)
        if "surface" in options.only:
            found.compare_surface()
        if "bad-files" in options.only:
            found.compare_bad_files()
        if "runs" in options.only:
            found.compare_sets()
    is_good = print_report(found, read_intended(GOLDEN / "intended.toml"))
    print("\nNo unintended difference, and all bounds hold." if is_good else "\nNOT THE SAME: see above.")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
