"""The real fit and adapt, killed or on a disk that fails: the run answers, and ends with the same."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest
from harness import Case, count_steps, find_faults, power_losses

from robusttc.data import Task, TaskSet
from robusttc.jobs import InProcessExecutor
from robusttc.run import FitSettings, Run, RunFolder, fit_run
from robusttc.run import fit as fit_module

# To draw other steps: ROBUSTTC_FAULT_SEED=12 pytest -m slow tests/faults
SEED = int(os.environ.get("ROBUSTTC_FAULT_SEED", "0"))
SETTINGS = FitSettings(encoder="cnn", clusters=2, n_folds=2, n_random=0)
FAMILIES = (
    {"track": "where is my parcel", "refund": "give my money back"},
    {"sunny": "the sky is blue", "rain": "water falls from clouds"},
)
WORDS = ("now", "today", "please", "again", "soon", "here", "there", "quickly", "maybe", "indeed")
SPLITS = ["train"] * 6 + ["valid"] * 2 + ["test"] * 2
EXAMPLES = Task(
    "new", ["is it warm", "will it rain", "play it", "play a song"], ["weather"] * 2 + ["music"] * 2
)


@functools.cache
def tasks() -> TaskSet:
    """Four tasks of two families."""
    made = []
    for number in range(4):
        rows = [
            (f"{text} {WORDS[row]} {WORDS[(row + number) % 10]}", label, split)
            for label, text in FAMILIES[number % 2].items()
            for row, split in enumerate(SPLITS)
        ]
        made.append(Task(f"client {number}", *map(list, zip(*rows, strict=True))))
    return TaskSet(made)


def fit(folder: Path) -> None:
    fit_run(folder, tasks(), SETTINGS)


def adapt(folder: Path) -> None:
    if "new" not in Run(folder).adapted_names:
        Run(folder).adapt(EXAMPLES)


def answers(folder: Path) -> None:
    """Demand that every task is answered."""
    run = Run(folder)
    for name in run.task_names:
        assert len(run.predict(name, ["where is the parcel", "will it rain"]).labels) == 2


@pytest.fixture(autouse=True, scope="module")
def _in_this_process(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Run jobs in the process that is disturbed: it is forked, and starts no others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_module, "make_executor", lambda *_, **__: InProcessExecutor())
        # Vectors are in the cache from here on: the first fit alone has steps that write them.
        count_steps(fit, tmp_path_factory.mktemp("warm") / "run")
        yield


CASES = [Case("fit", lambda _: None, fit, answers), Case("adapt", fit, adapt, answers)]


def draw(n_steps: int, n: int) -> list[int]:
    """Draw steps, the last ones among them: there a version is published."""
    import random

    late = range(max(1, n_steps - 12), n_steps + 1)
    drawn = {
        *random.Random(SEED).sample(range(1, n_steps + 1), min(n, n_steps)),
        *list(late)[:: max(1, 24 // n)],
    }
    return sorted(drawn)


@pytest.mark.parametrize("n_faults", [2, pytest.param(125, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_killed_anywhere_it_ends_with_the_same(case: Case, n_faults: int, quick_path: Path) -> None:
    n_steps = case.lay_out(quick_path)
    steps = draw(n_steps, n_faults)
    faults = [fault for n in steps for fault in find_faults(case, quick_path, n, "kill")]
    print(f"seed {SEED}: {len(steps)} kills at {n_steps} steps of {case.name}", file=sys.stderr)  # noqa: T201
    assert faults == []
    assert RunFolder(quick_path / "calm").numbers() == sorted(case.expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "read-only", "power"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_disk_that_fails_anywhere(case: Case, kind: str, quick_path: Path) -> None:
    n_steps = case.lay_out(quick_path)
    for n in draw(n_steps, 20):
        if kind == "power":
            assert power_losses(case, quick_path, n, names_survive=bool(n % 2)) == []
        else:
            assert find_faults(case, quick_path, n, kind) == []  # type: ignore[arg-type]
