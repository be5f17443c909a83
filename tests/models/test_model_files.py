"""Model folders: bit for bit, damaged, cut short, and of others."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc import files
from robusttc.errors import StoreError, UsageError
from robusttc.models import model_files, read_model_folder, write_model_folder

SETTINGS: dict[str, Any] = {"words": ["größe", "b"], "number": 0.1, "none": None, "deep": {"list": [1, True]}}
GENERATOR = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "float32": GENERATOR.normal(size=(3, 4)).astype(np.float32),
    "float64": np.array([[np.nan, np.inf, -0.0, 5e-324]]),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "bool": np.array([True, False, True]),
    "empty": np.zeros((0, 7), dtype=np.float32),
    "single": np.array(3.5),
    "turned": np.arange(12, dtype=np.float32).reshape(3, 4).T,
    "every second": np.arange(10)[::2],
    "uint8": np.arange(5, dtype=np.uint8),
    "a/b.c": np.arange(3, dtype=np.int32),
}


def write(folder: Path, settings: dict[str, Any] | None = None, kind: str = "demo", version: int = 1) -> None:
    given = SETTINGS if settings is None else settings
    write_model_folder(folder, kind=kind, version=version, settings=given, arrays=ARRAYS)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return read_model_folder(folder, kind="demo", version=1)


def others_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir() if path != folder)


def test_everything_comes_back_bit_for_bit(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    write(folder)
    settings, arrays = read(folder)
    assert settings == SETTINGS
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == np.array(array, order="C").tobytes()
        assert arrays[name].flags.writeable
        assert arrays[name].flags.c_contiguous
    assert others_in(folder) == []


def test_no_arrays_and_foreign_byte_order(tmp_path: Path) -> None:
    write_model_folder(tmp_path / "a", kind="demo", version=1, settings={}, arrays={})
    assert read(tmp_path / "a") == ({}, {})
    big = np.arange(4, dtype=">i4")
    write_model_folder(tmp_path / "b", kind="demo", version=1, settings={}, arrays={"big": big})
    assert read(tmp_path / "b")[1]["big"].tolist() == [0, 1, 2, 3]


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b", dict(reversed(SETTINGS.items())))
    for name in ("manifest.json", "settings.json", "arrays.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_model_of_the_same_kind_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()  # an empty folder may be there
    write(folder)
    write(folder, {"new": 1})
    assert read(folder)[0] == {"new": 1}
    assert others_in(folder) == []


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    write(tmp_path / "link")
    write(tmp_path / "link", {"new": 1})
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "real")[0] == read(tmp_path / "link")[0] == {"new": 1}


def add_note(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")


def make_foreign(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"format": "other", "kind": "demo"}')


def make_nonsense(folder: Path) -> None:
    (folder / "manifest.json").write_text("nonsense")


@pytest.mark.parametrize("change", [add_note, make_foreign, make_nonsense])
def test_whatever_else_is_in_a_folder_is_never_overwritten(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = tmp_path / "model"
    write(folder)
    change(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UsageError, match="holds something else"):
        write(folder, {"new": 1})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert others_in(folder) == []


def test_another_kind_and_a_file_are_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "model", kind="other")
    with pytest.raises(UsageError, match="with a saved demo model"):
        write(tmp_path / "model")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="got a file"):
        write(tmp_path / "file")


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.array([1j]), np.array(["2020-01-01"], "M8[D]")]
)
def test_arrays_without_numbers_are_refused(tmp_path: Path, array: Any) -> None:
    with pytest.raises(UsageError, match="array 'bad': an array does not hold numbers"):
        write_model_folder(tmp_path / "a", kind="demo", version=1, settings={}, arrays={"bad": array})
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, np.float32(1), {("a",): 1}])
def test_settings_that_json_cannot_hold_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(UsageError, match="JSON"):
        write(tmp_path / "a", {"value": value})
    assert not (tmp_path / "a").exists()


NAMES = ["manifest.json", "settings.json", "arrays.safetensors"]


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    write(folder)
    (folder / name).unlink()
    with pytest.raises(StoreError, match=f"{name}.*missing"):
        read(folder)


@pytest.mark.parametrize("name", NAMES)
def test_any_flipped_bit_is_found(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    write(folder)
    whole = (folder / name).read_bytes()
    places = np.random.default_rng(1).permutation(len(whole))[:60].tolist()
    for place in [0, len(whole) - 1, *places]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        (folder / name).write_bytes(damaged)
        with pytest.raises(StoreError):
            read(folder)
    (folder / name).write_bytes(whole)
    read(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [0, 1, -1])
def test_a_cut_or_longer_file_is_named(tmp_path: Path, name: str, length: int) -> None:
    folder = tmp_path / "model"
    write(folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:length])
    with pytest.raises(StoreError, match=f"{name}.*damaged"):
        read(folder)
    (folder / name).write_bytes(whole + b" x")
    with pytest.raises(StoreError, match=f"{name}.*damaged"):
        read(folder)


def forge(folder: Path, **changes: Any) -> None:
    """Change a manifest and hash it anew, as somebody who means harm would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    body = {name: value for name, value in {**manifest, **changes}.items() if name != "sha256"}
    forged = {**body, "sha256": model_files.hash_body(body)}
    (folder / "manifest.json").write_text(json.dumps(forged))


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {}},
        {"files": {"../other": {"bytes": 1, "sha256": "x"}}},
        {"files": []},
        {"files": {"settings.json": 1, "arrays.safetensors": 2}},
        {"arrays": {}},
        {"arrays": None},
        {"arrays": {"float32": ["float32", [12]]}},
        {"version": 0},
        {"version": "1"},
        {"version": True},
        {"format": "other"},
    ],
)
def test_forged_manifests_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = tmp_path / "model"
    write(folder)
    forge(folder)
    read(folder)  # the forging itself is well done
    forge(folder, **changes)
    with pytest.raises(StoreError, match="damaged"):
        read(folder)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", b"\x02\0\0\0\0\0\0\0[]", b'\x08\0\0\0\0\0\0\0{"a": 1}'],
)
def test_a_forged_file_of_arrays_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "model"
    write(folder)
    (folder / "arrays.safetensors").write_bytes(content)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    files["arrays.safetensors"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    forge(folder, files=files)
    with pytest.raises(StoreError, match=r"arrays\.safetensors.*damaged"):
        read(folder)


@pytest.mark.parametrize("content", [b"[1]", b"{" * 5000, b'{"a": NaN}', b"\xff"])
def test_json_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "model"
    write(folder)
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"manifest\.json.*damaged"):
        read(folder)


def test_a_huge_manifest_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "model")
    monkeypatch.setattr(model_files, "MAX_MANIFEST_BYTES", 10)
    with pytest.raises(StoreError, match="10 is the most"):
        read(tmp_path / "model")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "model")
    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(StoreError, match=r"manifest\.json.*cannot be read; got No space left"):
        read(tmp_path / "model")


@pytest.mark.parametrize("name", NAMES)
def test_links_inside_lead_to_plain_files_with_the_same_content(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    write(folder)
    before = read(folder)[0]
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    assert read(folder)[0] == before
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="damaged"):
        read(folder)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(StoreError, match=f"{name}.*not a plain file"):
        read(folder)


def test_versions_and_kinds(tmp_path: Path) -> None:
    write(tmp_path / "new", version=3)
    with pytest.raises(StoreError, match=r"newer robusttc; got version 3; expected at most version 2\."):
        read_model_folder(tmp_path / "new", kind="demo", version=2)
    assert read_model_folder(tmp_path / "new", kind="demo", version=4)[0] == SETTINGS
    write(tmp_path / "other", kind="other")
    with pytest.raises(StoreError, match="another kind of model; got 'other'; expected 'demo'"):
        read(tmp_path / "other")
    with pytest.raises(StoreError, match="no such model folder"):
        read(tmp_path / "nowhere")


def fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["write_durably", "sync_folder"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_new: bool
) -> None:
    folder = tmp_path / "model"
    if not is_new:
        write(folder)
    with monkeypatch.context() as patch:
        patch.setattr(files, step, fail)
        with pytest.raises(StoreError, match="cannot be written; got No space left"):
            write(folder, {"new": 1})
    assert others_in(folder) == []
    if is_new:
        assert not folder.exists()
    else:
        assert read(folder)[0] == SETTINGS


def test_a_renaming_that_fails_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    write(folder)
    rename = Path.rename

    def sometimes(self: Path, target: Path) -> Path:
        if ".new-" in self.name:
            fail()
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", sometimes)
        with pytest.raises(StoreError, match="No space left"):
            write(folder, {"new": 1})
    assert read(folder)[0] == SETTINGS
    assert others_in(folder) == []


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from robusttc import files
from robusttc.models import write_model_folder

folder, deadly, calls = sys.argv[1], int(sys.argv[2]), 0

def counted(function):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

for name in ("write_durably", "sync_folder"):
    setattr(files, name, counted(getattr(files, name)))
for name in ("rename", "mkdir"):
    setattr(Path, name, counted(getattr(Path, name)))
files.shutil.rmtree = counted(files.shutil.rmtree)
write_model_folder(folder, kind="demo", version=1, settings={"new": 1}, arrays={"a": np.arange(3)})
print(calls)
"""


def test_whoever_is_killed_leaves_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    found = []
    for deadly in range(1, 40):
        folder = tmp_path / str(deadly) / "model"
        write(folder)
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(folder), str(deadly)],
            capture_output=True,
            text=True,
            check=False,
        )
        settings = read(folder)[0]
        assert settings in (SETTINGS, {"new": 1})
        found.append(settings == SETTINGS)
        # The next one is not in the way of what was left.
        write(folder, {"next": 2})
        assert read(folder)[0] == {"next": 2}
        if done.returncode == 0:
            break
        assert done.returncode < 0, done.stderr
    # All steps were met, and the change came once.
    assert deadly >= 10
    assert found == sorted(found, reverse=True)
    assert found[0]
    assert not found[-1]


def test_an_old_folder_that_stands_aside_is_read_and_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write(folder)
    folder.rename(tmp_path / ".model.old")
    assert read(folder)[0] == SETTINGS
    write(folder, {"new": 1})
    assert read(folder)[0] == {"new": 1}
    assert others_in(folder) == []
    # Beside a folder in its place, it is only a leftover.
    write(tmp_path / ".model.old")
    assert read(folder)[0] == {"new": 1}
    write(folder, {"newer": 1})
    assert others_in(folder) == []


def test_leftovers_are_removed_when_they_are_a_day_old(tmp_path: Path) -> None:
    for name in (".a[b].new-young", ".a[b].new-old", ".other.new-old"):
        (tmp_path / name).mkdir()
        if name.endswith("old"):
            os.utime(tmp_path / name, (time.time() - 90_000,) * 2)
    write(tmp_path / "a[b]")
    assert others_in(tmp_path / "a[b]") == [".a[b].new-young", ".other.new-old"]


def test_a_folder_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    write(folder)
    plain, calls = model_files.read_regular, []

    def replaced(path: Path, limit: int | None, *, size: int | None = None) -> bytes:
        calls.append(path.name)
        if len(calls) == 2:
            write(folder, {"new": 1})
        return plain(path, limit, size=size)

    with monkeypatch.context() as patch:
        patch.setattr(model_files, "read_regular", replaced)
        assert read(folder)[0] == {"new": 1}
    assert calls.count("manifest.json") == 3  # one of them by the writer
