"""Files of a run: whole or not there, listed with size and hash, and every damage named."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest
from robusttc.run.manifest import MANIFEST, check_manifest, hash_body, list_files, write_manifest

from robusttc.crash_points import POINTS, reach, set_hook
from robusttc.errors import StoreError
from robusttc.files import make_folder, part_of, write_file
from robusttc.run import manifest as manifest_module


def fail_at(point: str, number: int) -> None:
    def fail(reached: str) -> None:
        if reached == point:
            raise OSError(number, os.strerror(number))

    set_hook(fail)


def test_a_file_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "models" / "deep" / "a.bin"
    write_file(path, b"first")
    write_file(path, b"")
    write_file(path, b"third")
    assert path.read_bytes() == b"third"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (
        stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    )
    assert [found.name for found in path.parent.iterdir()] == ["a.bin"]


def test_what_a_killed_writer_left_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    part_of(path).write_bytes(b"half of something that is longer")
    write_file(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert not part_of(path).exists()


@pytest.mark.parametrize("point", sorted(point for point in POINTS if point.startswith("file/")))
@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "Make room on the disk"),
        (errno.EACCES, "Give yourself the right"),
        (errno.EROFS, "The disk is mounted read-only"),
        (errno.EIO, "The disk may be failing"),
        (errno.EINVAL, "Invalid argument"),
    ],
)
def test_a_disk_that_fails_is_named_with_what_to_do(
    tmp_path: Path, point: str, number: int, advice: str
) -> None:
    path = tmp_path / "a.csv"
    write_file(path, b"old")
    fail_at(point, number)
    try:
        with pytest.raises(StoreError, match="the file cannot be written") as caught:
            write_file(path, b"new")
    finally:
        set_hook(None)
    assert str(path) in str(caught.value)
    assert advice in str(caught.value)
    assert path.read_bytes() == (b"new" if point in ("file/renamed", "file/in place") else b"old")
    assert not part_of(path).exists()
    write_file(path, b"newer")
    assert path.read_bytes() == b"newer"


def test_a_link_beside_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"mine")
    part_of(tmp_path / "a.csv").symlink_to(target)
    with pytest.raises(StoreError, match="cannot be written"):
        write_file(tmp_path / "a.csv", b"new")
    assert target.read_bytes() == b"mine"


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StoreError, match="It is a file"):
        make_folder(tmp_path / "a")
    with pytest.raises(StoreError, match="folder"):
        write_file(tmp_path / "a" / "b" / "c", b"")


def test_unknown_points_are_refused_where_somebody_listens() -> None:
    reach("no such point")
    set_hook(lambda _point: None)
    try:
        with pytest.raises(KeyError, match="no such point"):
            reach("no such point")
    finally:
        set_hook(None)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    for name in ("models/multitask/arrays.safetensors", "models/multitask/manifest.json", "clusters.csv"):
        write_file(tmp_path / name, name.encode() * 100)
    for name in ("run.sqlite", "run.sqlite-wal", "owner.lock", "notes.txt", ".clusters.csv.part"):
        (tmp_path / name).write_bytes(b"changes all the time")
    (tmp_path / "models" / ".multitask.new-1").mkdir()
    (tmp_path / "models" / ".multitask.new-1" / "half").write_bytes(b"half")
    write_manifest(tmp_path)
    return tmp_path


def test_the_manifest_lists_what_people_and_models_need(run_folder: Path) -> None:
    listed = check_manifest(run_folder)
    assert list(listed) == [
        "clusters.csv",
        "models/multitask/arrays.safetensors",
        "models/multitask/manifest.json",
    ]
    assert listed == list_files(run_folder)
    assert listed["clusters.csv"]["bytes"] == 1200
    for name in ("run.sqlite", "notes.txt"):
        (run_folder / name).write_bytes(b"other")
    check_manifest(run_folder)
    write_manifest(run_folder)  # its own file does not count
    assert check_manifest(run_folder) == listed


@pytest.mark.parametrize("name", ["clusters.csv", "models/multitask/arrays.safetensors", MANIFEST])
def test_a_bad_file_is_named(run_folder: Path, name: str) -> None:
    path = run_folder / name
    content = path.read_bytes()
    changed = content[:50] + bytes([content[50] ^ 1]) + content[51:]
    for damaged in (changed, content[:-1], content + b" ", b"", b"\0" * len(content)):
        path.write_bytes(damaged)
        if name == MANIFEST and damaged == content + b" ":
            check_manifest(run_folder)  # a space after the JSON changes nothing
            continue
        with pytest.raises(StoreError, match="damaged") as caught:
            check_manifest(run_folder)
        assert str(path) in str(caught.value)
    path.unlink()
    with pytest.raises(StoreError, match="missing") as caught:
        check_manifest(run_folder)
    assert str(path) in str(caught.value)
    path.symlink_to(run_folder / "notes.txt")
    with pytest.raises(StoreError, match="plain file"):
        check_manifest(run_folder)


def rewrite(folder: Path, **changes: object) -> None:
    """A manifest that somebody wrote with the right hash."""
    body = json.loads((folder / MANIFEST).read_bytes())
    body.pop("sha256")
    body.update(changes)
    (folder / MANIFEST).write_text(json.dumps({**body, "sha256": hash_body(body)}))


def test_a_newer_manifest_is_refused(run_folder: Path) -> None:
    rewrite(run_folder, version=2)
    with pytest.raises(StoreError, match="newer robusttc"):
        check_manifest(run_folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/hosts", "models/../../secret", "models//x", "."])
def test_a_path_that_leads_elsewhere_is_refused(run_folder: Path, name: str) -> None:
    rewrite(run_folder, files={name: {"bytes": 1, "sha256": "0"}})
    with pytest.raises(StoreError, match="leads elsewhere") as caught:
        check_manifest(run_folder)
    assert str(run_folder / MANIFEST) in str(caught.value)


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": "robusttc model"}', "[" * 100_000, "NaN"])
def test_what_is_no_manifest_is_refused(run_folder: Path, content: str) -> None:
    (run_folder / MANIFEST).write_text(content)
    with pytest.raises(StoreError, match="damaged"):
        check_manifest(run_folder)


@pytest.mark.parametrize("files", [[], "x", {"a": 1}, {"a": {"bytes": 1}}, None])
def test_a_manifest_of_another_form_is_refused(run_folder: Path, files: object) -> None:
    rewrite(run_folder, files=files)
    with pytest.raises(StoreError, match="damaged"):
        check_manifest(run_folder)


def test_a_manifest_that_is_too_large_is_refused(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "MAX_MANIFEST_BYTES", 10)
    with pytest.raises(StoreError, match="too large"):
        check_manifest(run_folder)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be listed"):
        list_files(tmp_path / "gone")
    with pytest.raises(StoreError, match="missing"):
        check_manifest(tmp_path / "gone")


def test_a_file_that_cannot_be_read(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, *_arguments: object) -> object:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StoreError, match="cannot be read; got Permission denied"):
        list_files(run_folder)
