"""Files that are whole at any moment and readable by their owner alone, and JSON as the standard has it.

A file or folder is written beside its final path and renamed onto it, so a process that is killed leaves the
old content or the new one.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from robusttc.errors import StoreError, UsageError, quote

__all__ = [
    "InvalidJSONError",
    "create_folder",
    "decode_json",
    "encode_json",
    "explain_disk_errors",
    "find_folder",
    "make_folder",
    "open_private",
    "part_of",
    "restrict",
    "sync_folder",
    "write_file",
    "write_folder",
]

FILE_MODE = 0o600
FOLDER_MODE = 0o700
STALE_SECONDS = 24 * 3600.0
RESUME = "nothing that was finished is lost: run the same command again afterwards"
# What to do about the errors of a disk that people meet.
ADVICE = {
    errno.ENOSPC: f"make room on the disk; {RESUME}",
    errno.EDQUOT: f"make room in your quota; {RESUME}",
    errno.EFBIG: f"raise the limit on the size of files (ulimit -f); {RESUME}",
    errno.EMFILE: f"raise the limit on open files (ulimit -n); {RESUME}",
    errno.EACCES: "give yourself the right to write there, or choose another folder",
    errno.EPERM: "give yourself the right to write there, or choose another folder",
    errno.EROFS: "the disk is mounted read-only: choose another folder",
    errno.EIO: f"the disk may be failing: look at the system's log; {RESUME}",
    errno.ENOLCK: "choose a folder on a local disk",
    errno.EOPNOTSUPP: "choose a folder on a local disk",
    errno.EEXIST: "it is a file: choose another folder",
    errno.ENOTDIR: "a part of the path is a file: choose another folder",
    errno.ENAMETOOLONG: "choose a folder with a shorter path",
}


@contextmanager
def explain_disk_errors(what: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError into a StoreError that names the file and says what to do."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        # EINVAL and others that say nothing by themselves have no advice.
        todo = ADVICE.get(error.errno) if error.errno is not None else None
        raise StoreError(what, where=repr(os.fspath(path)), got=reason, todo=todo) from error


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file that only its owner may read, whatever the umask; `open` takes this as its opener."""
    handle = os.open(path, flags, FILE_MODE)
    # An existing file may have other permissions. Not every disk and system has them.
    if hasattr(os, "fchmod"):
        with suppress(OSError):
            os.fchmod(handle, FILE_MODE)
    return handle


def restrict(path: Path) -> None:
    """Remove the permissions of all others from a file or folder, as far as the system allows."""
    with suppress(OSError):
        path.chmod(path.stat().st_mode & 0o700)


def write_file(path: str | os.PathLike[str], content: bytes, *, owner_only: bool = True) -> None:
    """Write a file completely or not at all; on return it is on the disk.

    Missing parent folders are created. Without `owner_only`, the umask decides who may read the file. If a
    StoreError is raised, an existing file is unchanged.
    """
    path = Path(path)
    part = part_of(path)
    with explain_disk_errors("the file cannot be written", path):
        make_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        handle = open_private(part, flags) if owner_only else os.open(part, flags, 0o666)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)  # disk space is what is missing most often
            raise
        sync_folder(path.parent)


def part_of(path: Path) -> Path:
    """Return the path beside a file where it is written first; it is fixed, so the next writer reuses it."""
    return path.parent / f".{path.name}.part"


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, readable by their owner alone; an existing one is kept."""
    if folder.is_dir():
        return
    with explain_disk_errors("the folder cannot be made", folder):
        create_folder(folder)


def create_folder(folder: Path) -> None:
    """Create a folder as `make_folder` does; failures stay OSErrors."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
        with suppress(OSError):
            path.chmod(FOLDER_MODE)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)  # raises where it is a file
    for path in missing:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk; Windows neither can nor needs to."""
    if os.name == "nt":  # pragma: no cover
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace a folder by one that holds these files, completely or not at all.

    No system renames onto a folder with files in it, so the old folder is renamed first. If the process is
    killed between the two renames, `find_folder` returns where the old one is. If an OSError is raised, an
    existing folder is unchanged.
    """
    create_folder(folder.parent)
    remove_stale_folders(folder)
    new = folder.parent / f".{folder.name}.new-{secrets.token_hex(6)}"
    old = replaced_path(folder)
    try:
        create_folder(new)
        for name, content in files.items():
            write_durably(new / name, content)
        sync_folder(new)
        is_replaced = folder.exists()
        if is_replaced:
            # With a folder at its path, the old one is left from a replacement that was finished.
            if old.exists():
                shutil.rmtree(old)
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if is_replaced:
                old.rename(folder)
            raise
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with open(path, "xb", opener=open_private) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def find_folder(folder: Path) -> Path:
    """Return the folder, or where `write_folder` left the old one when it was killed between its renames."""
    old = replaced_path(folder)
    return old if not folder.exists() and old.is_dir() else folder


def replaced_path(folder: Path) -> Path:
    """Return where the old folder is while it is being replaced."""
    return folder.parent / f".{folder.name}.old"


def remove_stale_folders(folder: Path) -> None:
    """Remove what killed writers left, if it is a day old and so cannot be in use."""
    for path in folder.parent.glob(f".{glob.escape(folder.name)}.new-*"):
        with suppress(OSError):  # another process removed it first
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def encode_json(value: object, *, where: str | None = None) -> str:
    """Return JSON in one fixed form (equal values, equal hashes); refuse NaN and infinities."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            "a value cannot be written as JSON",
            where=where,
            got=str(error),
            expected="texts, finite numbers, truths, lists and mappings of them",
        ) from error


class InvalidJSONError(ValueError):
    """A text is not JSON; `position` is the offset of the fault where it is known."""

    def __init__(self, what: str, position: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.position = position


def decode_json(text: str) -> Any:
    """Parse JSON strictly.

    Python's own parser accepts NaN, infinities and duplicate keys (the last one wins, silently); here each is
    an InvalidJSONError.
    """
    try:
        if text.startswith("{"):  # the lines of a file: this takes 0.6 of the time of `decode`
            value, end = DECODER.raw_decode(text)
            if text[end:] in {"", "\n", "\r\n"}:
                return value
        return DECODER.decode(text)
    except InvalidJSONError:
        raise
    except json.JSONDecodeError as error:
        raise InvalidJSONError(error.msg, error.pos) from None
    except RecursionError:
        raise InvalidJSONError("the JSON is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise InvalidJSONError(str(error)) from None


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN, Infinity and -Infinity."""
    raise InvalidJSONError(f"{name} is not JSON")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its pairs; refuse a duplicate key."""
    result = dict(pairs)
    if len(result) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise InvalidJSONError(f"the key {quote(key)} is there twice")
    return result


DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=refuse_constant)
