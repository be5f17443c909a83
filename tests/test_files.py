"""Files that are whole at any moment and readable by their owner alone."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from robusttc.errors import StoreError
from robusttc.files import make_folder, part_of, write_file


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


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, advice: str
) -> None:
    path = tmp_path / "a.csv"
    write_file(path, b"old")

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StoreError, match="the file cannot be written") as caught:
            write_file(path, b"new")
    assert str(path) in str(caught.value)
    assert advice in str(caught.value)
    assert path.read_bytes() == b"old"
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
