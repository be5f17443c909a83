"""Files below their formats: problems with their places, gzip with a limit, and text in any encoding."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robusttc.errors import MAX_LISTED_PROBLEMS, Problem, quote

__all__ = [
    "ProblemList",
    "ReadError",
    "check_expansion",
    "is_gzipped",
    "read_bytes",
    "read_lines",
    "read_text",
]

MAX_EXPANSION = 100  # plain text rarely shrinks to a tenth; a bomb shrinks to a thousandth
FREE_EXPANDED_BYTES = 16 * 2**20
MARK_BAD_BYTES = "robusttc-mark-bad-bytes"
FIRST_MARK = 0xDC00
BAD_BYTE = re.compile("[\udc00-\udcff]")

BadLines = dict[int, dict[str, Any]]  # by line number, further fields of its `Problem`


class ReadError(Exception):
    """A row, or the rest of a file, cannot be read; `details` are further fields of a `Problem`."""

    def __init__(self, what: str, **details: Any) -> None:
        super().__init__(what)
        self.what = what
        self.details = details


class ProblemList:
    """All problems counted, and the first of them: those of single rows, and the others."""

    def __init__(self) -> None:
        self.n_rows = self.n_others = 0
        self._listed: list[tuple[bool, Problem]] = []  # in the order of discovery, whether it is of a row

    @property
    def n_all(self) -> int:
        """The number of problems."""
        return self.n_rows + self.n_others

    def add(self, problem: Problem) -> None:
        """Add a problem that leaving out a row would not solve."""
        if self.n_others < MAX_LISTED_PROBLEMS:
            self._listed.append((False, problem))
        self.n_others += 1

    def add_row(self, path: str, line: int, what: str, **details: Any) -> None:
        """Add a problem of one row, which is left out; `details` are further fields of a `Problem`."""
        if self.n_rows < MAX_LISTED_PROBLEMS:
            self._listed.append((True, Problem(path, what, line, **details)))
        self.n_rows += 1

    @property
    def first(self) -> tuple[Problem, ...]:
        """The first problems in the order of their discovery; rows leave at least half of it to others."""
        n_others = min(self.n_others, max(MAX_LISTED_PROBLEMS // 2, MAX_LISTED_PROBLEMS - self.n_rows))
        room = {False: n_others, True: MAX_LISTED_PROBLEMS - n_others}
        shown = []
        for is_row, problem in self._listed:
            room[is_row] -= 1
            if room[is_row] >= 0:
                shown.append(problem)
        return tuple(shown)

    def listed(self, *, rows: bool) -> tuple[Problem, ...]:
        """Return the first problems of single rows, or the first of the others."""
        return tuple(problem for is_row, problem in self._listed if is_row == rows)

    @contextmanager
    def collecting(self, path: str, unit: str = "line") -> Iterator[None]:
        """Add a `ReadError` or `OSError` of the body as a problem of this file and continue after it."""
        try:
            yield
        except ReadError as error:
            self.add(Problem(path, error.what, **{"unit": unit, **error.details}))
        except OSError as error:
            self.add(Problem(path, "the file cannot be read", got=error.strerror or str(error)))


def is_gzipped(path: Path) -> bool:
    """Return whether a file is gzipped, by its name."""
    return path.suffix.lower() == ".gz"


def check_expansion(expanded_bytes: int, size_bytes: int) -> None:
    """Refuse a compressed file that would fill the memory."""
    if expanded_bytes > expansion_limit(size_bytes):
        got, expected = f"{expanded_bytes:,} bytes or more", f"at most {MAX_EXPANSION} times its size on disk"
        todo = "check where the file comes from; save it without compression if you trust it"
        raise ReadError("the file expands beyond the limit", got=got, expected=expected, todo=todo)


def expansion_limit(size_bytes: int) -> int:
    return max(FREE_EXPANDED_BYTES, MAX_EXPANSION * size_bytes)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if its name ends in ``.gz``."""
    content = path.read_bytes()
    if not is_gzipped(path):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            unpacked = stream.read(expansion_limit(len(content)) + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        what = "the gzip file is truncated" if isinstance(error, EOFError) else "the gzip file is damaged"
        raise ReadError(what, got=str(error), todo="copy the file again from where it came") from None
    check_expansion(len(unpacked), len(content))
    return unpacked


def read_text(path: Path, encoding: str | None) -> str:
    """Return the text of a file; a byte that is not in the encoding is a `ReadError` with its place."""
    lines, bad = read_lines(path, encoding, "file")
    for line, details in bad.items():
        raise ReadError(**details, line=line)
    return "".join(lines)


def read_lines(path: Path, encoding: str | None, what: str = "line") -> tuple[list[str], BadLines]:
    """Return the lines of a text with their ends (LF, CR LF or CR), and those that are not in the encoding.

    A bad line has lone surrogates for its bad bytes, so that lines can be counted; it must not be used.
    """
    content = read_bytes(path)
    if not content:
        raise ReadError("the file is empty", expected="rows")
    codec = codecs.lookup(encoding).name if encoding else detect_encoding(content[:4])
    # newline="" finds CR and CR LF too, and keeps them as they are; no other character ends a line.
    try:
        lines = list(io.TextIOWrapper(io.BytesIO(content), codec, errors=MARK_BAD_BYTES, newline=""))
    except UnicodeError as error:  # a decoder that does not ask what to do about bad bytes
        raise ReadError(f"the file is not {encoding}", got=str(error)[:200]) from None
    lines[:1] = [line.removeprefix("\ufeff") for line in lines[:1]]
    bad = {}
    for number, line in enumerate(lines, start=1):
        if not line.isascii() and (mark := BAD_BYTE.search(line)):
            bad[number] = {
                "what": f"the {what} is not {encoding or 'UTF-8 (or UTF-16 with a byte-order mark)'}",
                "column": mark.start() + 1,
                "got": f"byte 0x{ord(mark[0]) - FIRST_MARK:02x}",
                "todo": "save the file as UTF-8, or name its encoding, for instance encoding='cp1252'",
            }
    return lines, bad


def mark_bad_bytes(error: UnicodeError) -> tuple[str, int]:
    """Put a lone surrogate, which no text has, in place of bytes that cannot be decoded."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(FIRST_MARK + error.object[error.start]), error.end


codecs.register_error(MARK_BAD_BYTES, mark_bad_bytes)


def detect_encoding(start: bytes) -> str:
    if start.startswith(b"\x1f\x8b"):
        raise ReadError("the file is gzip data, but its name does not end in .gz", todo="rename the file")
    if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise ReadError("the file is UTF-32", expected="UTF-8 or UTF-16", todo="save it as UTF-8")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in start:
        expected = "text in UTF-8, or in UTF-16 with a byte-order mark"
        todo = "save it as UTF-8, or name its encoding, for instance encoding='utf-16-le'"
        raise ReadError("the file begins with NUL bytes", got=quote(start), expected=expected, todo=todo)
    return "utf-8"
