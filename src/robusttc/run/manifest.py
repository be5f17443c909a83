"""The manifest of a run: size and SHA-256 of every file that people or models need.

Listed are the files under ``models/``, ``tasks/`` and ``versions/``, and the tables, facts and matrices
beside them. ``run.sqlite`` is not: it changes with every unit and checks itself row by row. Hidden files are
not either: they are half-written.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from robusttc.errors import StoreError, quote
from robusttc.files import encode_json, explain_disk_errors, write_file

__all__ = ["MANIFEST", "check_manifest", "list_files", "write_manifest"]

MANIFEST = "manifest.json"
FORMAT = "robusttc run"
VERSION = 1
MAX_MANIFEST_BYTES = 2**28
FOLDERS = ("models", "tasks", "versions")
# Of the files beside these folders; a note that somebody puts there is not the run's, and a page can be made
# again at any time.
ENDINGS = (".csv", ".json", ".safetensors", ".yaml")
TODO = "bring it back from a copy, or run fit again in this folder"


def write_manifest(folder: str | os.PathLike[str]) -> None:
    """List the files of a run as they are now, in the place of an earlier list.

    Raises
    ------
    StoreError
        If a file cannot be read, or the disk does not take the list.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder) / "clusters.csv", b"task,cluster")
    ...     write_manifest(folder)
    ...     sorted(check_manifest(folder))
    ['clusters.csv']
    """
    place = Path(folder)
    body = {"format": FORMAT, "version": VERSION, "files": list_files(place)}
    write_file(place / MANIFEST, encode_json({**body, "sha256": hash_body(body)}, where=MANIFEST).encode())


def check_manifest(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Check every listed file, and give the list: ``bytes`` and ``sha256`` by path.

    Raises
    ------
    StoreError
        If the manifest or a file is missing, damaged, or not a plain file; it names the first such file.
    """
    place = Path(folder)
    listed = read_manifest(place / MANIFEST)
    for name, expected in sorted(listed.items()):
        path = place / name
        if not is_inside(name):
            raise_damaged(place / MANIFEST, f"a path that leads elsewhere, {quote(name)}")
        found = describe_file(path)
        for fact in ("bytes", "sha256"):
            if found[fact] != expected[fact]:
                raise_damaged(path, f"{fact} {found[fact]}", expected=f"{fact} {expected[fact]}")
    return listed


def list_files(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Give the size and SHA-256 of every file of a run that a manifest lists, by path."""
    place = Path(folder)
    with explain_disk_errors("the files of the run cannot be listed", place):
        paths = [path for path in place.iterdir() if path.suffix in ENDINGS and path.is_file()]
        paths += [path for name in FOLDERS for path in walk(place / name)]
    names = {path.relative_to(place).as_posix(): path for path in paths}
    return {
        name: describe_file(path)
        for name, path in sorted(names.items())
        if name != MANIFEST and not any(part.startswith(".") for part in PurePosixPath(name).parts)
    }


def walk(folder: Path) -> Iterator[Path]:
    """Give all files in a folder and those inside it; links are not followed."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                yield from walk(path)
            else:
                yield path


def describe_file(path: Path) -> dict[str, Any]:
    """Give the size and SHA-256 of a plain file."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise_damaged(path, "something else than a plain file")
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError("a file of the run is missing", where=repr(str(path)), todo=TODO) from None
    except StoreError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError("a file of the run cannot be read", where=repr(str(path)), got=reason) from error
    return {"bytes": found.st_size, "sha256": digest}


def read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    """Read a manifest and refuse one that cannot be trusted or used."""
    if describe_file(path)["bytes"] > MAX_MANIFEST_BYTES:
        raise_damaged(path, "a manifest that is too large")
    with explain_disk_errors("a file of the run cannot be read", path):
        content = path.read_bytes()
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise_damaged(path, str(error))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise_damaged(path, "no manifest of a run")
    version = manifest.get("version")
    # Before all else: a newer version may have another way of hashing.
    if isinstance(version, int) and version > VERSION:
        raise StoreError(
            "the run was written by a newer robusttc",
            where=repr(str(path)),
            got=f"version {version}",
            expected=f"at most version {VERSION}",
            todo="install a newer robusttc",
        )
    body = {name: value for name, value in manifest.items() if name != "sha256"}
    if manifest.get("sha256") != hash_body(body):
        raise_damaged(path, "a SHA-256 that is not that of its content")
    files = manifest.get("files")
    is_whole = isinstance(files, dict) and all(
        isinstance(facts, dict) and facts.keys() == {"bytes", "sha256"} for facts in files.values()
    )
    if not is_whole:
        raise_damaged(path, "no list of files")
    return dict(manifest["files"])


def hash_body(body: dict[str, Any]) -> str:
    """Give the hash of a manifest, in its one way of writing."""
    # Not `encode_json`: what was read may hold NaN, which must not pass for what was written.
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def is_inside(name: str) -> bool:
    """Tell whether a path stays inside the run's folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and path.as_posix() == name


def raise_damaged(path: Path, got: str, *, expected: str | None = None) -> NoReturn:
    """Say that a file is not what was written."""
    raise StoreError(
        "a file of the run is damaged", where=repr(str(path)), got=got, expected=expected, todo=TODO
    )
