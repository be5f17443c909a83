"""The two versions of the code, how a command of either is run, and what the run took."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

OLD_COMMIT = "b918f4f"
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "import sys; from robusttc.cli import main; sys.exit(main())"
# The libraries that figures of the old code depend on: with others, they are measured again.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "transformers", "sentence-transformers")
SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Version:
    """A version of the code: its name, and the folder to import it from."""

    name: str
    source: Path

    def environment(self, cache: Path) -> dict[str, str]:
        """Return the environment of its processes, with a cache of vectors that no other shares."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ROBUSTTC_")}
        # PYTHONPATH comes before what is installed, an editable install of this clone included.
        paths = [self.source, ROOT / "tests" / "golden", ROOT]
        return kept | {
            "PYTHONPATH": os.pathsep.join(str(path) for path in paths),
            "ROBUSTTC_CACHE": str(cache),
            "XDG_CACHE_HOME": str(cache),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }

    def python(self, *arguments: str, cache: Path) -> str:
        """Run Python on this version and return what it prints; an error ends the comparison."""
        done = subprocess.run(
            [sys.executable, *arguments], env=self.environment(cache), capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{self.name} version: python {' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout

    def check(self) -> None:
        """Stop if another robusttc would be imported than the one meant."""
        found = self.python("-c", "import robusttc; print(robusttc.__file__)", cache=Path(os.devnull)).strip()
        if not Path(found).is_relative_to(self.source):
            sys.exit(f"The {self.name} version should be {self.source}, but Python imports {found}")


@dataclass(frozen=True)
class Took:
    """What a command took; CPU seconds and memory are those of all its processes."""

    code: int
    wall: float
    cpu: float
    peak_mib: float


def run_timed(version: Version, arguments: Sequence[str], *, cache: Path, out: Path) -> Took:
    """Run a command of `robusttc` in a process of its own; `out` gets what it prints."""
    start = time.perf_counter()
    peak = 0.0
    with out.open("w") as stream, out.with_suffix(".err").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            env=version.environment(cache),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=errors,
        )
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            peak = max(peak, tree_mib(process.pid))
            time.sleep(SECONDS_BETWEEN_LOOKS)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    return Took(process.returncode, wall, usage.ru_utime + usage.ru_stime, peak)


def tree_mib(root: int) -> float:
    """Return the resident memory of a process and all below it; pages that they share count for each."""
    parents, pages = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of the program, in brackets, may contain spaces.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(folder.name)], pages[int(folder.name)] = int(fields[1]), int(fields[21])
    tree = {root}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(pages.get(one, 0) for one in tree) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run_many(version: Version, commands: list[list[str]], *, cache: Path, work: Path) -> list[dict[str, Any]]:
    """Run many short commands in one process; one that ends the process is recorded, and the rest goes on."""
    asked, answers = work / "commands.json", work / f"answers-{version.name}.jsonl"
    asked.write_text(json.dumps(commands), encoding="utf-8")
    answers.unlink(missing_ok=True)
    found: list[dict[str, Any]] = []
    while len(found) < len(commands):
        words = ["-m", "benchmarks.compare_old.many", str(asked), str(answers), str(len(found))]
        subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=version.environment(cache), stderr=subprocess.DEVNULL
        )
        lines = answers.read_text(encoding="utf-8").splitlines() if answers.exists() else []
        found = [json.loads(line) for line in lines]
        if len(found) < len(commands):
            found.append({"code": "the process ended", "out": "", "err": ""})
            answers.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
    return found


@contextmanager
def open_versions(folder: Path) -> Iterator[tuple[Version, Version]]:
    """Check out the old commit in a temporary worktree, and give both versions."""
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="old-", dir=folder)) / "robusttc"
    git = ["git", "-C", str(ROOT), "worktree"]
    added = subprocess.run([*git, "add", "--detach", str(place), OLD_COMMIT], capture_output=True, text=True)
    if added.returncode:
        place.parent.rmdir()
        sys.exit(f"Commit {OLD_COMMIT} cannot be checked out; a shallow clone lacks it.\n{added.stderr}")
    try:
        versions = Version("old", place / "src"), Version("new", ROOT / "src")
        for version in versions:
            version.check()
        yield versions
    finally:
        subprocess.run([*git, "remove", "--force", str(place)], capture_output=True, check=False)
        place.parent.rmdir()


def keep(folder: Path, what: str, depends_on: object, make: Callable[[], Any]) -> Any:
    """Return what the old code gave for the same inputs and libraries before, or make it and keep it."""
    libraries = [version_of(name) for name in LIBRARIES]
    key = json.dumps([OLD_COMMIT, libraries, depends_on], sort_keys=True)
    path = folder / f"{what}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    if not path.is_file():
        made = json.dumps(make(), indent=1)
        path.write_text(made + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))
