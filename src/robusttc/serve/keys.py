"""Keys: who may ask for which task. The file holds hashes, never a key itself.

A key is ``rtc_ID_SECRET`` with 32 random bytes, so a plain SHA-256 of it cannot be guessed backwards.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from robusttc.errors import StoreError, UsageError, quote
from robusttc.files import InvalidJSONError, decode_json, encode_json, explain_disk_errors, write_file

__all__ = ["ADMIN", "Key", "KeyFile", "issue_key", "list_keys", "revoke_key"]

ADMIN = "admin"
FORMAT = "robusttc keys 1"
PATTERN = re.compile(r"rtc_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of a key.

    Attributes
    ----------
    id
        Its public part.
    task
        The only task it may ask for; None for the admin key, which may ask for everything.
    sha256
        The hash of the key.
    made
        When it was issued.
    """

    id: str
    task: str | None
    sha256: str
    made: str

    @property
    def is_admin(self) -> bool:
        """Whether it may ask for everything."""
        return self.task is None


def list_keys(path: Path) -> list[Key]:
    """Return the keys of a file.

    Raises
    ------
    StoreError
        If it cannot be read, or is no file of keys.
    """
    with explain_disk_errors("the keys cannot be read", path):
        content = path.read_bytes()
    try:
        document = decode_json(content.decode())
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}")
        return [Key(**key) for key in document["keys"]]
    except (InvalidJSONError, KeyError, TypeError, ValueError) as error:
        raise StoreError("this is no file of keys", where=quote(str(path)), got=quote(error)) from error


def write_keys(path: Path, keys: list[Key]) -> None:
    """Write a file of keys, readable by its owner alone."""
    document = encode_json({"format": FORMAT, "keys": [asdict(key) for key in keys]})
    write_file(path, document.encode())


def issue_key(path: Path, *, task: str | None) -> str:
    """Add a new key to a file, which is made where there is none; return the key, which is stored nowhere."""
    keys = list_keys(path) if path.exists() else []
    name = secrets.token_hex(6)
    secret = f"rtc_{name}_{secrets.token_urlsafe(32)}"
    made = datetime.now(UTC).isoformat(timespec="seconds")
    write_keys(path, [*keys, Key(name, task, hash_key(secret), made)])
    return secret


def revoke_key(path: Path, key_id: str) -> Key:
    """Take a key out of a file, and return it; servers that read the file refuse it at once."""
    keys = list_keys(path)
    for key in keys:
        if key.id == key_id:
            write_keys(path, [one for one in keys if one.id != key_id])
            return key
    raise UsageError("there is no such key", where=quote(str(path)), got=quote(key_id))


def hash_key(secret: str) -> str:
    """Return the hash of a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


class KeyFile:
    """The keys of a running server; a change of the file counts from the next request on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._keys: dict[str, Key] = {}
        self.find("")  # a file that cannot be read is an error at the start

    def find(self, secret: str) -> Key | None:
        """Return what is known of a key; None if it is none of the file's."""
        keys = self._current()
        found = PATTERN.fullmatch(secret)
        key = keys.get(found[1]) if found else None
        # Compared in the same time whether or not there is such a key.
        expected = key.sha256 if key is not None else "0" * 64
        is_equal = hmac.compare_digest(expected, hash_key(secret))
        return key if is_equal else None

    def by_id(self, key_id: str) -> Key | None:
        """Return the key with an id."""
        return self._current().get(key_id)

    def _current(self) -> dict[str, Key]:
        with explain_disk_errors("the keys cannot be read", self.path):
            status = self.path.stat()
        stamp = (status.st_mtime_ns, status.st_ino)
        with self._lock:
            if stamp != self._stamp:
                self._keys = {key.id: key for key in list_keys(self.path)}
                self._stamp = stamp
            return self._keys
