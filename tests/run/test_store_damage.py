"""Damaged bytes anywhere in a run: an error that names the file, or the very same result."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from small_run import ALL_UNITS, FILES, batches, do_run, open_or_create, quick_folder, tell

from robusttc.errors import StoreError
from robusttc.run import finished, score_table, sealed
from robusttc.run.manifest import MANIFEST, check_manifest
from robusttc.run.store import RunStore

KINDS = ("flip", "flip", "flip", "truncate", "zero", "random", "swap")


@dataclass(frozen=True)
class Sample:
    """A run to damage, and what it says undamaged."""

    root: Path
    clean: Path  # as it is after a clean end
    killed: Path  # as it is after a kill: with a log beside the database
    expected: dict[str, Any]


@pytest.fixture(scope="module")
def sample() -> Iterator[Sample]:
    with quick_folder() as root:
        clean, killed = root / "clean", root / "killed"
        do_run(clean)
        # In two halves: one that is in the database already, and one that is in the log.
        with open_or_create(root / "open") as store:
            for batch in batches()[:2]:
                store.finish_many(batch)
        with open_or_create(root / "open") as store:
            for batch in batches()[2:]:
                store.finish_many(batch)
            shutil.copytree(root / "open", killed, ignore=shutil.ignore_patterns("*-shm"))
        assert (killed / "run.sqlite-wal").stat().st_size > 20_000
        do_run(root / "open")
        assert tell(root / "open") == tell(clean)
        yield Sample(root, clean, killed, tell(clean))


def damage(path: Path, draw: random.Random) -> str:
    """Damage a file in one way or another, and say how."""
    content = bytearray(path.read_bytes())
    place, kind = draw.randrange(len(content)), draw.choice(KINDS)
    length = min(draw.choice([1, 4, 100, 4096]), len(content) - place)
    if kind == "flip":
        content[place] ^= 1 << draw.randrange(8)
    elif kind == "truncate":
        del content[place:]
    elif kind == "zero":
        content[place : place + length] = bytes(length)
    elif kind == "random":
        content[place : place + length] = draw.randbytes(length)
    else:  # two pages in each other's place
        first, second = (4096 * draw.randrange(1 + len(content) // 4096) for _ in range(2))
        one, other = bytes(content[first : first + 4096]), bytes(content[second : second + 4096])
        if len(one) == len(other):
            content[first : first + 4096], content[second : second + 4096] = other, one
    path.write_bytes(bytes(content))
    return f"{kind} at {place} of {path.name}"


def use(folder: Path, sample: Sample) -> None:
    """Do with a run all that people do; an answer that is not the right one is an AssertionError."""
    check = (folder / MANIFEST).exists()
    if check:
        check_manifest(folder)
        assert all((folder / name).read_bytes() == content for name, content in FILES.items())
    with RunStore.open(folder, read_only=True) as reader:
        found = reader.find(ALL_UNITS)
        assert all(ALL_UNITS[key].content == content for key, content in found.items())
        reader.scores()
    do_run(folder)
    assert tell(folder) == sample.expected
    with RunStore.open(folder) as store:
        store.check()


def damage_often(sample: Sample, state: str, name: str, times: int, seed: int) -> int:
    """Damage copies of a run; count the errors, all of which must name the file."""
    draw = random.Random(f"{seed} {state} {name}")
    n_errors = 0
    for number in range(times):
        folder = sample.root / f"{state} {number}"
        shutil.copytree(getattr(sample, state), folder)
        how = damage(folder / name, draw)
        try:
            use(folder, sample)
        except Exception as error:
            if not isinstance(error, StoreError) or str(folder / name.removesuffix("-wal")) not in str(error):
                raise AssertionError(f"seed {seed}, number {number}: {how}") from error
            n_errors += 1
        finally:
            shutil.rmtree(folder)
    return n_errors


@pytest.mark.parametrize(
    ("state", "name", "times", "at_least"),
    [
        ("clean", "run.sqlite", 400, 0.3),
        ("killed", "run.sqlite", 100, 0.1),
        # A log that is cut short has lost its last commits, which are done again.
        ("killed", "run.sqlite-wal", 150, 0.0),
        ("clean", MANIFEST, 100, 0.5),
        ("clean", "models/one/arrays.bin", 40, 0.5),
        ("clean", "clusters.csv", 20, 0.5),
    ],
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_damage_is_told_or_does_no_harm(
    sample: Sample, state: str, name: str, times: int, at_least: float, seed: int
) -> None:
    n_errors = damage_often(sample, state, name, times, seed)
    assert n_errors >= at_least * times  # damage did get to where it can be seen


def test_without_hashes_damage_would_pass_unseen(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, nothing in [
        (sealed, "digest_row", 0),
        (finished, "digest_content", b""),
        (score_table, "digest_scores", b""),
    ]:
        monkeypatch.setattr(module, name, lambda *_arguments, nothing=nothing: nothing)
    clean = sample.root / "without hashes"
    do_run(clean)
    unprotected = replace(sample, clean=clean)
    with pytest.raises(AssertionError, match=r"seed 0, number \d+: .* of run.sqlite"):
        damage_often(unprotected, "clean", "run.sqlite", 400, 0)


def test_the_undamaged_run_passes_the_same_way(sample: Sample) -> None:
    for state in ("clean", "killed"):
        folder = sample.root / f"undamaged {state}"
        shutil.copytree(getattr(sample, state), folder)
        use(folder, sample)
