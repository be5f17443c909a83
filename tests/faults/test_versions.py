"""Every step of writing jobs and versions: killed, with a disk that fails, and without power."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import DONE, Case, Steps, find_faults, in_child, power_losses, read_versions

from robusttc.errors import StoreError
from robusttc.jobs import Job, Result, Runner
from robusttc.run import Change, RunFolder
from robusttc.run import folder as folder_module
from robusttc.run.folder import FolderWriter

N_JOBS = 4


def job(_shared: object, number: int) -> Result:
    return Result({"number": number})


def work(writer: FolderWriter) -> bytes:
    """Do some jobs, and return what depends on all of them."""
    jobs = [Job(f"a/{number}", job, number) for number in range(N_JOBS)]
    results = Runner(store=writer.jobs()).run("a", jobs)
    return bytes(sum(result.values["number"] for result in results if result is not None))


def first(folder: Path) -> None:
    """Publish the first version."""
    with FolderWriter(folder, create=True) as writer:
        if writer.numbers():
            return
        content = work(writer)
        writer.begin()
        for name in ("summary.json", "tasks/acme", "tasks/piper", "models/one/heads"):
            writer.write(name, name.encode() + content)
        writer.publish(Change("fit"), identity={}, libraries={})


def second(folder: Path) -> None:
    """Publish another, with a new task and another summary."""
    with FolderWriter(folder) as writer:
        base = writer.current()
        if "tasks/hooli" in base:
            return
        content = work(writer)
        writer.begin(base)
        writer.write("summary.json", b"another" + content)
        writer.write("tasks/hooli", b"rows of hooli")
        writer.publish(Change("add", ("hooli",)), identity={}, libraries={})


def third(folder: Path, *, drop_older: bool = False) -> None:
    """Remove a task, and erase it from the version before."""
    with FolderWriter(folder) as writer:
        base = writer.current()
        if "tasks/acme" not in base:
            return
        writer.begin(base)
        writer.remove(["tasks/acme"])
        writer.publish(
            Change("remove", ("acme",)),
            identity={},
            libraries={},
            erase=["tasks/acme"],
            drop_older=drop_older,
        )


def drop(folder: Path) -> None:
    third(folder, drop_older=True)


@pytest.fixture(autouse=True, scope="module")
def _imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import once what every forked process would import by itself."""
    first(tmp_path_factory.mktemp("import") / "run")


def make_cases() -> list[Case]:
    return [
        Case("fit", lambda _: None, first),
        Case("add", first, second),
        Case("remove", first, third),
        Case("remove and drop", first, drop),
    ]


@pytest.mark.parametrize("kind", ["kill", "full", "read-only"])
@pytest.mark.parametrize("case", make_cases(), ids=lambda case: case.name)
def test_a_fault_at_every_step(case: Case, kind: str, quick_path: Path) -> None:
    n_steps = case.lay_out(quick_path)
    assert n_steps > 20
    faults = [fault for n in range(1, n_steps + 1) for fault in find_faults(case, quick_path, n, kind)]  # type: ignore[arg-type]
    assert faults == []


@pytest.mark.parametrize("names_survive", [False, True])
@pytest.mark.parametrize("case", make_cases(), ids=lambda case: case.name)
def test_nothing_published_is_lost_when_the_power_goes(
    case: Case, names_survive: bool, quick_path: Path
) -> None:
    n_steps = case.lay_out(quick_path)
    faults = [
        fault
        for n in range(n_steps + 1)
        for fault in power_losses(case, quick_path, n, names_survive=names_survive)
    ]
    assert faults == []


@pytest.mark.parametrize("names_survive", [False, True])
def test_without_waiting_for_the_disk_it_would_be_lost(
    names_survive: bool, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("add", first, second)
    case.lay_out(quick_path)
    if names_survive:
        # Objects are not waited for.
        hasty = SimpleNamespace(**{**vars(os), "fsync": lambda _: None})
        monkeypatch.setattr(folder_module, "os", hasty)
    else:
        monkeypatch.setattr(folder_module, "sync_folder", lambda _: None)
    with pytest.raises((AssertionError, StoreError)):
        assert power_losses(case, quick_path, 0, names_survive=names_survive) == []


def test_a_pointer_that_is_swapped_too_early_is_found(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("add", first, second)
    n_steps = case.lay_out(quick_path)
    original = FolderWriter._store_objects

    def hasty(writer: FolderWriter, staging: Path) -> object:
        target = writer.path / "versions" / "0002"
        staging.rename(target)
        (writer.path / "current").unlink()
        (writer.path / "current").symlink_to("versions/0002")
        target.rename(staging)
        return original(writer, staging)

    monkeypatch.setattr(FolderWriter, "_store_objects", hasty)
    found = []
    for n in range(1, n_steps + 5):
        try:
            found += find_faults(case, quick_path, n, "kill")
        except StoreError as error:
            found.append(str(error))
    assert found


def test_a_second_process_is_refused_and_a_dead_one_holds_nothing(quick_path: Path) -> None:
    first(quick_path / "run")
    ready, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with FolderWriter(quick_path / "run"):
            os.write(writing, b"!")
            time.sleep(60)
        os._exit(0)
    assert os.read(ready, 1) == b"!"
    try:
        with pytest.raises(StoreError, match=rf"another process works on this run; got process {child} on"):
            second(quick_path / "run")
        assert RunFolder(quick_path / "run").current().number == 1  # reading is allowed
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    second(quick_path / "run")
    assert RunFolder(quick_path / "run").current().number == 2


def test_reading_changes_nothing(quick_path: Path) -> None:
    first(quick_path / "run")
    steps = Steps()
    code, n_steps = in_child(lambda folder: void(read_versions(folder)), quick_path / "run", steps)
    assert (code, n_steps) == (DONE, 0)


def void(_: object) -> None:
    """Return nothing."""


def test_every_flipped_byte_is_found(quick_path: Path) -> None:
    folder = quick_path / "run"
    first(folder)
    second(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 6
    for path in files:
        content = path.read_bytes()
        for place in {0, len(content) // 2, len(content) - 1} if content else ():
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(StoreError, match=r"damaged|another version"):
                read_versions(folder)
        path.write_bytes(content)
    read_versions(folder)
