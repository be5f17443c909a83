"""Add, remove and adapt, disturbed: the old version answers throughout, and the same command ends alike."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from harness import Case, count_steps, find_faults, power_losses

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from later_tasks import examples, renamed
from tiny_run import Inline, finished_run, make_task

from robusttc.data import TaskSet
from robusttc.run import Run
from robusttc.run.updates import add_tasks, remove_tasks

N_MOMENTS = 8
TEXTS = ["where is my parcel", "the sky is blue"]


@pytest.fixture(autouse=True)
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robusttc.run.fit.make_executor", lambda *_, **__: Inline())


def fitted(folder: Path) -> None:
    """A finished run."""
    shutil.copytree(finished_run(), folder, symlinks=True)


def grown(folder: Path) -> None:
    """A finished run with a task that came later and an adapted one."""
    fitted(folder)
    add_tasks(folder, TaskSet([make_task(6)]))
    Run(folder).adapt(examples("few"))


def add(folder: Path) -> None:
    add_tasks(folder, TaskSet([make_task(7), renamed(8, "private")]), private=["private"])


def adapt(folder: Path) -> None:
    if "new" not in Run(folder).adapted_names:
        Run(folder).adapt(examples("new"))


def remove(folder: Path, *names: str) -> None:
    """Remove tasks; what the history says of their influence must be true whenever it is said."""
    remove_tasks(folder, names)
    change = Run(folder).history[-1]
    assert change.kind == "remove"
    assert bool(change.details["retrained"]) == ("task 0" in names)
    assert change.details["learned_from"] == [name for name in names if name == "task 0"]


def remove_later(folder: Path) -> None:
    remove(folder, "task 6")


def remove_private(folder: Path) -> None:
    remove(folder, "task 5")


def remove_fitted(folder: Path) -> None:
    remove(folder, "task 0")


def answers(folder: Path) -> None:
    """A task that nobody touches is answered as ever, as long as its models are the same."""
    found = Run(folder).predict("task 1", TEXTS).labels
    assert found.tolist() == Run(finished_run()).predict("task 1", TEXTS).labels.tolist()


def make_cases() -> list[Case]:
    return [
        Case("add", fitted, add, answers),
        Case("adapt", fitted, adapt, answers),
        Case("remove an added task", grown, remove_later, answers),
        Case("remove a private task", fitted, remove_private, answers),
        Case("remove a task of the fit", fitted, remove_fitted),
    ]


def moments(case: Case, root: Path, n: int) -> list[int]:
    """Lay out a case, and return some of its steps, spread over all."""
    case.lay_out(root)
    # Texts that were encoded once are in the cache of vectors: the first time has more steps.
    n_steps = count_steps(case.change, case.copy(root, root / "again"))
    assert n_steps > 30
    return sorted({1 + place * (n_steps - 1) // (n - 1) for place in range(n)})


@pytest.mark.parametrize("case", make_cases(), ids=lambda case: case.name)
def test_killed_at_any_moment(case: Case, quick_path: Path) -> None:
    chosen = moments(case, quick_path, N_MOMENTS)
    faults = [fault for n in chosen for fault in find_faults(case, quick_path, n, "kill")]
    assert faults == []


@pytest.mark.parametrize("case", make_cases()[:3], ids=lambda case: case.name)
def test_what_was_published_survives_a_loss_of_power(case: Case, quick_path: Path) -> None:
    case.lay_out(quick_path)
    assert power_losses(case, quick_path, 0, names_survive=False) == []


def test_a_full_disk_while_a_version_is_written(quick_path: Path) -> None:
    case = make_cases()[1]
    chosen = moments(case, quick_path, 6)
    faults = [fault for n in chosen for fault in find_faults(case, quick_path, n, "full")]
    assert faults == []
