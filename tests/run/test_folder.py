"""Versions of a run: published whole, read whole, kept, erased; one writer."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from robusttc.errors import StoreError, UsageError
from robusttc.files import write_file
from robusttc.run.folder import KEPT_VERSIONS, FolderWriter, RunFolder
from robusttc.run.version import Change, Version

WHAT = {"identity": {"settings": {"seed": 0}}, "libraries": {"numpy": "2"}}
FILES = {"summary.json": b"{}", "tasks/acme.parquet": b"rows of acme", "models/one/heads.bin": b"\0" * 999}


def publish(writer: FolderWriter, files: dict[str, bytes], **options: object) -> Version:
    """Publish a version that has these files more than the one before."""
    base = writer.current() if writer.numbers() else None
    writer.begin(base)
    for name, content in files.items():
        writer.write(name, content)
    return writer.publish(Change("fit" if base is None else "add", ("acme",)), **WHAT, **options)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with FolderWriter(tmp_path / "run", create=True) as writer:
        publish(writer, FILES)
    return tmp_path / "run"


def contents(version: Version) -> dict[str, bytes]:
    return {name: version.read(name) for name in version.files}


def objects(run: Path) -> set[bytes]:
    return {path.read_bytes() for path in (run / "objects").rglob("*") if path.is_file()}


def test_a_version_is_read_as_it_was_written(run: Path) -> None:
    version = RunFolder(run).current()
    assert (version.number, contents(version)) == (1, FILES)
    assert (version.change.kind, version.change.tasks, version.change.version) == ("fit", ("acme",), 1)
    assert version.change.when > 1.7e9
    assert (version.identity, version.libraries) == tuple(WHAT.values())
    assert (run / "current" / "summary.json").read_bytes() == b"{}"
    assert version.names("tasks") == ["tasks/acme.parquet"]
    version.check()


def test_everything_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    (tmp_path / "run").chmod(0o755)
    previous = os.umask(0)
    try:
        with FolderWriter(tmp_path / "run", create=True) as writer:
            writer.begin()
            (writer.staging / "loose").write_bytes(b"written by somebody else")
            writer.jobs().set_fact("a", 1)
            writer.publish(Change("fit"), **WHAT, keep_jobs=True)  # type: ignore[arg-type]
    finally:
        os.umask(previous)
    for path in [tmp_path / "run", *(tmp_path / "run").rglob("*")]:
        if not path.is_symlink():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_next_version_shares_what_did_not_change(run: Path) -> None:
    first = RunFolder(run).current()
    with FolderWriter(run) as writer:
        writer.begin(first)
        write_file(writer.staging / "summary.json", b"[2]")
        writer.write("tasks/piper.parquet", FILES["tasks/acme.parquet"])
        writer.remove(["models/one/heads.bin", "not there"])
        # Nothing of it can be seen yet.
        assert contents(RunFolder(run).current()) == FILES
        second = writer.publish(Change("add", ("piper",), "One task more.", 2.5, {"acme": 1}), **WHAT)  # type: ignore[arg-type]
        assert len(objects(run)) == 4
    assert contents(first) == FILES
    rows = FILES["tasks/acme.parquet"]
    expected = {"summary.json": b"[2]", "tasks/acme.parquet": rows, "tasks/piper.parquet": rows}
    assert contents(second) == contents(RunFolder(run).current()) == expected
    assert second.history[:1] == first.history
    assert second.change == replace(second.change, kind="add", sentence="One task more.", flips={"acme": 1})
    assert contents(RunFolder(run).version(1)) == FILES


def test_a_reader_keeps_its_version_during_a_swap(run: Path) -> None:
    version = RunFolder(run).current()
    with FolderWriter(run) as writer:
        for number in range(KEPT_VERSIONS - 1):
            publish(writer, {"summary.json": str(number).encode()})
            assert contents(version) == FILES
        assert RunFolder(run).numbers() == list(range(1, KEPT_VERSIONS + 1))
        publish(writer, {"summary.json": b"last", "models/one/heads.bin": b"new"})
    assert RunFolder(run).numbers() == list(range(2, KEPT_VERSIONS + 2))
    with pytest.raises(UsageError, match="not kept"):
        RunFolder(run).version(1)
    assert b"{}" not in objects(run)
    assert FILES["models/one/heads.bin"] in objects(run)  # version 2 has it


def test_erasing_removes_objects_from_every_version(run: Path) -> None:
    with FolderWriter(run) as writer:
        publish(writer, {"tasks/piper.parquet": b"rows of piper"})
        (run / "report.html").write_text("rows of acme")
        writer.begin(writer.current())
        writer.remove(["tasks/acme.parquet"])
        writer.publish(Change("remove", ("acme",)), **WHAT, erase=["tasks/acme.parquet"])  # type: ignore[arg-type]
    assert RunFolder(run).numbers() == [1, 2, 3]
    assert b"rows of acme" not in objects(run)
    assert not (run / "report.html").exists()
    assert set(contents(RunFolder(run).version(1))) == {"summary.json", "models/one/heads.bin"}
    assert RunFolder(run).version(2).read("tasks/piper.parquet") == b"rows of piper"


def test_versions_that_learned_from_it_are_dropped(run: Path) -> None:
    with FolderWriter(run) as writer:
        publish(writer, {"models/one/heads.bin": b"learned from piper alone"}, drop_older=True)
    assert RunFolder(run).numbers() == [2]
    assert FILES["models/one/heads.bin"] not in objects(run)


@pytest.mark.parametrize("drop", [True, False])
def test_an_erasure_that_was_decided_is_finished_after_a_kill(run: Path, drop: bool) -> None:
    program = f"""
import os, robusttc.run.folder as folder, robusttc.run.version as version
writer = folder.FolderWriter({str(run)!r})
folder.FolderWriter._settle = lambda *_: os.kill(os.getpid(), 9)
writer.begin(writer.current())
writer.remove(["tasks/acme.parquet"])
change = version.Change("remove", ("acme",))
writer.publish(change, identity={{}}, libraries={{}}, erase=["tasks/acme.parquet"], drop_older={drop})
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert b"rows of acme" in objects(run)
    assert "tasks/acme.parquet" not in RunFolder(run).current()
    FolderWriter(run).close()
    assert b"rows of acme" not in objects(run)
    assert RunFolder(run).numbers() == ([2] if drop else [1, 2])


def test_one_process_writes(run: Path) -> None:
    with FolderWriter(run) as writer:
        with pytest.raises(
            StoreError, match=rf"another process.*process {os.getpid()} on .*, since 20"
        ) as caught:
            FolderWriter(run)
        assert caught.value.exit_code == 5
        writer.begin(writer.current())
        assert contents(RunFolder(run).current()) == FILES
    FolderWriter(run).close()


def test_what_a_killed_writer_leaves_is_removed(run: Path) -> None:
    before = sorted(path.relative_to(run) for path in run.rglob("*"))
    versions = run / "versions"
    (versions / ".0002.part" / "models").mkdir(parents=True)
    (versions / ".0002.part" / "models" / "a").write_bytes(b"half")
    (versions / "0002").mkdir()
    (run / ".current.part").symlink_to("versions/0002")
    (run / "objects" / "ff").mkdir(exist_ok=True)
    (run / "objects" / "ff" / ("f" * 64)).write_bytes(b"of nobody")
    (run / "jobs-0001.sqlite").write_bytes(b"")
    with FolderWriter(run) as writer:
        assert writer.next_number == 2
        assert contents(writer.current()) == FILES
    left = {path.relative_to(run) for path in run.rglob("*")} - set(before)
    assert left <= {Path("objects/ff")}


def test_unfinished_jobs_wait_and_can_be_given_up(run: Path) -> None:
    with FolderWriter(run) as writer:
        writer.jobs().set_fact("half", "way")
        writer.begin(writer.current())
        writer.write("new", b"half")
    with FolderWriter(run) as writer:
        assert writer.jobs().fact("half") == "way"
        writer.give_up()
        assert not list(run.glob("jobs-*"))
        assert contents(writer.current()) == FILES
        assert writer.jobs().fact("half") is None


def test_kept_jobs_go_on_where_they_were(run: Path) -> None:
    with FolderWriter(run) as writer:
        writer.jobs().set_fact("tried", 3)
        publish(writer, {}, keep_jobs=True)
    with FolderWriter(run) as writer:
        assert writer.jobs(reuse=True).fact("tried") == 3
        publish(writer, {})
    assert not list(run.glob("jobs-*"))


def test_damage_is_found(run: Path) -> None:
    version = RunFolder(run).current()
    path = version.path("models/one/heads.bin").resolve()
    path.write_bytes(b"\1" * 999)
    RunFolder(run).current()  # of the same size: found where it is read
    with pytest.raises(StoreError, match=r"heads\.bin.*other content"):
        version.check()
    path.write_bytes(b"\0" * 9)
    with pytest.raises(StoreError, match="9 bytes where 999"):
        RunFolder(run).current()
    path.unlink()
    with pytest.raises(StoreError, match="missing"):
        RunFolder(run).current()
    # A writer mends what it writes again.
    with FolderWriter(run) as writer:
        writer.begin()
        for name, content in FILES.items():
            writer.write(name, content)
        writer.publish(Change("fit"), **WHAT)  # type: ignore[arg-type]
    assert contents(RunFolder(run).current()) == contents(RunFolder(run).version(1)) == FILES


@pytest.mark.parametrize("place", [20, 100, 300])
def test_a_manifest_that_was_changed_is_refused(run: Path, place: int) -> None:
    path = run / "versions" / "0001" / "manifest.json"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"manifest\.json"):
        RunFolder(run).current()


def test_folders_without_a_run(tmp_path: Path) -> None:
    for folder, reason in ((tmp_path / "none", "no such folder"), (tmp_path, "no run in this folder")):
        with pytest.raises(UsageError, match=reason) as caught:
            RunFolder(folder).current()
        assert caught.value.exit_code == 2
        with pytest.raises(UsageError, match=reason):
            FolderWriter(folder)
    FolderWriter(tmp_path / "begun", create=True).close()
    with pytest.raises(UsageError, match="not finished"):
        RunFolder(tmp_path / "begun").current()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(UsageError, match=r"something else.*mine\.txt"):
        FolderWriter(tmp_path / "full", create=True)
