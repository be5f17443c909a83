"""A folder that is whole at any moment: written beside its place, and put there by renaming.

Whoever is killed on the way leaves the old folder or the new one. Replacing takes two renamings, since no
system renames onto a folder that has files: the old folder steps aside, the new one takes its place. Killed
between the two, the old one still stands aside under a known name, and `standing_folder` finds it there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from robusttc.owner_only import make_owner_only, open_owner_only

__all__ = ["put_folder", "standing_folder"]

STALE_SECONDS = 24 * 3600.0


def put_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files as the only ones of a folder, which may be there already; only their owner may read them.

    Raises
    ------
    OSError
        If the disk does not take it; what stood there before still stands.
    """
    make_owner_only(folder.parent)
    remove_stale(folder)
    new = folder.parent / f".{folder.name}.new-{secrets.token_hex(6)}"
    aside = aside_of(folder)
    try:
        make_owner_only(new)
        for name, content in files.items():
            write_durably(new / name, content)
        sync_folder(new)
        if folder.exists():
            # With the folder in its place, what stands aside is the rest of a replacement that was done.
            if aside.exists():
                shutil.rmtree(aside)
            folder.rename(aside)
            try:
                new.rename(folder)
            except OSError:
                aside.rename(folder)
                raise
        else:
            new.rename(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(aside, ignore_errors=True)


def standing_folder(folder: Path) -> Path:
    """Give the folder, or where it stands aside after a replacement that was cut short."""
    aside = aside_of(folder)
    return aside if not folder.exists() and aside.is_dir() else folder


def aside_of(folder: Path) -> Path:
    """Give the place where the old folder stands while the new one takes its place."""
    return folder.parent / f".{folder.name}.old"


def remove_stale(folder: Path) -> None:
    """Remove what killed writers left; a day old, so that it is nobody's work in progress."""
    for path in folder.parent.glob(f".{glob_escape(folder.name)}.new-*"):
        try:
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # somebody else was faster


def glob_escape(name: str) -> str:
    """Keep the characters of a name from acting as a pattern."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with open(path, "xb", opener=open_owner_only) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder; where folders cannot be opened, there is no need."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
