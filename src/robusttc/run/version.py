"""A version of a run: its files, what made it, and the manifest that lists them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from robusttc.errors import StoreError, quote
from robusttc.files import decode_json, encode_json, explain_disk_errors, write_file

__all__ = ["MANIFEST", "Change", "Version", "raise_damaged", "read_body", "read_version", "write_manifest"]

FORMAT, FORMAT_VERSION = "robusttc run", 2
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 2**28
TODO = "bring it back from a copy, or run the fit again in this folder"


@dataclass(frozen=True, slots=True)
class Change:
    """What made a version out of the one before it.

    Attributes
    ----------
    kind
        One of ``fit``, ``add``, ``remove`` and ``adapt``.
    tasks
        The tasks that it was about; for a fit, none.
    sentence
        What happened, for people.
    seconds
        How long it took, restarts included.
    flips
        Per task, how many predictions on held-out rows differ from those of the version before.
    details
        Further values for JSON, such as the costs of its stages.
    version, when
        The number of the version, and when it was published, in seconds since 1970; set by `publish`.
    """

    kind: str
    tasks: tuple[str, ...] = ()
    sentence: str = ""
    seconds: float = 0.0
    flips: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    when: float = 0.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Change:
        """Return the change that `dataclasses.asdict` described."""
        return cls(**{**values, "tasks": tuple(values["tasks"])})


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a run, complete and unchanging.

    Attributes
    ----------
    folder
        Its files, as links into the objects; ``RUN/versions/0003``.
    number
        Its number.
    history
        What made it and all versions before it, the first fit first.
    identity, libraries
        What it was made from, and with which versions of libraries.
    files
        The SHA-256 and size of every file, by its path in the folder.
    keeps_jobs
        Whether its finished jobs are kept, since some failed and may be tried again.
    erased, drops_older
        Paths that are erased from all older versions, and whether those are dropped whole.
    """

    folder: Path
    number: int
    history: tuple[Change, ...]
    identity: Mapping[str, Any]
    libraries: Mapping[str, str]
    files: Mapping[str, tuple[str, int]]
    keeps_jobs: bool = False
    erased: tuple[str, ...] = ()
    drops_older: bool = False

    @property
    def change(self) -> Change:
        """What made this version."""
        return self.history[-1]

    def __contains__(self, name: object) -> bool:
        return name in self.files

    def names(self, under: str) -> list[str]:
        """Return the paths of the files in a folder of the version, sorted."""
        return sorted(name for name in self.files if name.startswith(f"{under}/"))

    def path(self, name: str) -> Path:
        """Return where a file is."""
        if name not in self.files:
            raise StoreError("the version has no such file", where=repr(str(self.folder / name)))
        return self.folder / name

    def read(self, name: str) -> bytes:
        """Return the content of a file, and check it."""
        path = self.path(name)
        with explain_disk_errors("a file of the run cannot be read", path):
            content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.files[name][0]:
            raise_damaged(path, "other content than was written")
        return content

    def check_sizes(self) -> None:
        """Refuse a version of which a file is missing or has another size than it should have."""
        for name, (_, size) in self.files.items():
            path = self.folder / name
            try:
                found = path.stat().st_size
            except FileNotFoundError:
                raise StoreError("a file of the run is missing", where=repr(str(path)), todo=TODO) from None
            except OSError as error:
                raise_damaged(path, error.strerror or str(error))
            if found != size:
                raise_damaged(path, f"{found:,} bytes where {size:,} were written")

    def check(self) -> None:
        """Read every file, and refuse a version of which one is damaged."""
        for name in self.files:
            self.read(name)


def write_manifest(folder: Path, body: Mapping[str, Any]) -> None:
    """Write the manifest of a version, with a hash of all that it says."""
    facts = {"format": FORMAT, "format_version": FORMAT_VERSION, **body}
    content = encode_json({**facts, "sha256": hash_body(facts)}, where=MANIFEST)
    write_file(folder / MANIFEST, content.encode())


def hash_body(body: Mapping[str, Any]) -> str:
    """Return the hash of a manifest in its one way of writing."""
    return hashlib.sha256(encode_json(dict(body), where=MANIFEST).encode()).hexdigest()


def read_body(folder: Path) -> dict[str, Any]:
    """Read the manifest of a version as JSON, and refuse one that cannot be trusted or used."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise_damaged(path, "a manifest that is too large")
        body: dict[str, Any] = dict(decode_json(path.read_bytes().decode()))
        stated = body.pop("sha256", None)
        if body.get("format") != FORMAT:
            raise_damaged(path, "no manifest of a run")
        if body["format_version"] != FORMAT_VERSION:
            raise StoreError(
                "the run was written by another version of robusttc",
                where=repr(str(path)),
                got=f"form {quote(body['format_version'])}",
                expected=f"form {FORMAT_VERSION}",
                todo="use the robusttc that made the run",
            )
        if stated != hash_body(body):
            raise_damaged(path, "a SHA-256 that is not that of its content")
    except StoreError:
        raise
    except FileNotFoundError:
        raise StoreError("a file of the run is missing", where=repr(str(path)), todo=TODO) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise_damaged(path, str(error))
    return body


def read_version(folder: Path) -> Version:
    """Read what a version is."""
    body = read_body(folder)
    try:
        files = {str(name): (str(digest), int(size)) for name, (digest, size) in body["files"].items()}
        for name in files:
            parts = PurePosixPath(name).parts
            if not parts or name.startswith("/") or ".." in parts:
                raise ValueError(f"a path that leads elsewhere, {quote(name)}")
        return Version(
            folder,
            int(body["version"]),
            tuple(Change.from_dict(one) for one in body["history"]),
            body["identity"],
            body["libraries"],
            files,
            bool(body["keeps_jobs"]),
            tuple(body["erased"]),
            bool(body["drops_older"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise_damaged(folder / MANIFEST, str(error))


def raise_damaged(path: Path, got: str) -> NoReturn:
    """Raise the StoreError of a file that is not what was written."""
    raise StoreError("a file of the run is damaged", where=repr(str(path)), got=got, todo=TODO)
