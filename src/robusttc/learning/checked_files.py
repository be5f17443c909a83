"""Small parts of reading and writing a model's files: JSON that is strict, files that are plain."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, NoReturn

from robusttc.errors import StoreError, UsageError

__all__ = ["parse_json", "raise_damaged", "read_regular", "to_json"]

TODO_AGAIN = "save the model again, or bring the folder back from a copy"


def to_json(values: dict[str, Any]) -> bytes:
    """Write values as JSON, which has no NaN and no keys but strings."""
    try:
        text = json.dumps(values, allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            "a setting cannot be written as JSON", got=str(error), expected="texts, finite numbers, truths"
        ) from error


def read_regular(path: Path, limit: int | None, *, size: int | None = None) -> bytes:
    """Read a file that is neither a link nor too large nor of another size than it should have."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise_damaged(path, "it is not a plain file")
        if size is not None and found.st_size != size:
            raise_damaged(path, f"{found.st_size:,} bytes where {size:,} were written")
        if limit is not None and found.st_size > limit:
            raise_damaged(path, f"{found.st_size:,} bytes, where {limit:,} is the most")
        return path.read_bytes()
    except FileNotFoundError:
        raise StoreError("a file of the model is missing", where=repr(str(path)), todo=TODO_AGAIN) from None
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            "a file of the model cannot be read", where=repr(str(path)), got=error.strerror or str(error)
        ) from error


def parse_json(content: bytes, path: Path) -> dict[str, Any]:
    """Read an object from JSON, without the NaN that it must not have."""
    try:
        values = json.loads(content.decode("utf-8"), parse_constant=lambda word: int(word))
    except (ValueError, RecursionError) as error:
        raise_damaged(path, str(error))
    if not isinstance(values, dict):
        raise_damaged(path, type(values).__name__)
    return values


def raise_damaged(path: Path, got: str) -> NoReturn:
    """Say that a file is not what was written."""
    raise StoreError("a file of the model is damaged", where=repr(str(path)), got=got, todo=TODO_AGAIN)
