"""Opening task files: gzip with a limit, and text line by line in whatever encoding it is.

Everything that can be wrong with a file below its format ends here as a `FileFault`.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from robusttc.data.problems import FileFault
from robusttc.errors import quote

__all__ = [
    "FREE_EXPANDED_BYTES",
    "LINE_BREAK",
    "MAX_EXPANSION",
    "bad_byte_details",
    "encoding_name",
    "ending_of",
    "is_gzipped",
    "open_bytes",
    "place_of",
    "read_bytes",
    "read_lines",
    "read_text",
]

GZIP_MAGIC = b"\x1f\x8b"
MAX_EXPANSION = 100  # plain text rarely shrinks to a tenth; a bomb shrinks to a thousandth
FREE_EXPANDED_BYTES = 16 * 2**20
LINE_BREAK = re.compile(r"\r\n|\r|\n")
MARK_BAD_BYTES = "robusttc-mark-bad-bytes"
FIRST_MARK = 0xDC00
BAD_BYTE = re.compile("[\udc00-\udcff]")


class ExpansionLimit(io.RawIOBase):
    """A stream that stops with a `FileFault` when it gives more bytes than allowed."""

    def __init__(self, stream: io.BufferedIOBase, limit_bytes: int) -> None:
        self._stream = stream
        self._left = limit_bytes
        self._limit = limit_bytes

    def readable(self) -> bool:
        """Say yes: `io.BufferedReader` asks."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer from the stream below."""
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise FileFault(
                "the gzip file expands beyond the limit",
                got=f"more than {self._limit:,} bytes",
                expected=f"at most {MAX_EXPANSION} times its size on disk",
                todo="check where the file comes from; unpack it yourself if it is really yours",
            )
        buffer[: len(data)] = data
        return len(data)


def is_gzipped(path: Path) -> bool:
    """Tell whether a file is gzipped, by its name."""
    return path.suffix.lower() == ".gz"


def ending_of(path: Path) -> str:
    """Give the ending that names the format of a file, in small letters; ``.gz`` is none."""
    return Path(path.stem if is_gzipped(path) else path.name).suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file, unpacked if its name ends in ``.gz``; what goes wrong on the way is a `FileFault`."""
    try:
        with path.open("rb") as raw:
            if not is_gzipped(path):
                yield raw
                return
            limit = max(FREE_EXPANDED_BYTES, MAX_EXPANSION * path.stat().st_size)
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield io.BufferedReader(ExpansionLimit(unpacked, limit), 2**17)
    except EOFError:
        raise FileFault("the gzip file is cut short", todo="copy it again from where it came") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FileFault("the gzip file is damaged", got=str(error), todo="copy it again") from None
    except OSError as error:
        raise FileFault("the file cannot be read", got=error.strerror or str(error)) from None


def read_bytes(path: Path) -> bytes:
    """Read a whole file."""
    with open_bytes(path) as stream:
        return stream.read()


def read_text(path: Path, encoding: str | None) -> str:
    """Read a whole text file; a byte that is not in the encoding is a `FileFault` with its place."""

    def stop(line: int, column: int, byte: str) -> None:
        raise FileFault(
            f"the file is not {encoding_name(encoding)} here",
            line=line,
            column=column,
            **bad_byte_details(byte),
        )

    return "".join(read_lines(path, encoding, stop))


def encoding_name(encoding: str | None) -> str:
    """Name the encoding that a file was read with."""
    return encoding or "UTF-8 (or UTF-16 with a byte-order mark)"


def bad_byte_details(byte: str) -> dict[str, str]:
    """Give what was got and what to do for a byte that is not in the encoding of its file."""
    return {
        "got": f"byte {byte}",
        "todo": "save the file as UTF-8, or name its encoding, for instance --encoding cp1252",
    }


def read_lines(path: Path, encoding: str | None, bad_line: Callable[[int, int, str], None]) -> Iterator[str]:
    """Go through the lines of a text file, each with its line end (LF, CR LF or CR).

    Parameters
    ----------
    path
        The file, also gzipped.
    encoding
        None for UTF-8 (with or without a byte-order mark) or UTF-16 (with one).
    bad_line
        Called with line, column and byte where a line is not in the encoding. The line is then given with
        lone surrogates in place of its bad bytes, and the caller must not keep it.
    """
    with open_bytes(path) as stream:
        start = stream.peek(4)[:4]
        if not start:
            raise FileFault("the file is empty", expected="task rows")
        encoding = codecs.lookup(encoding).name if encoding else detect_encoding(start)
        # newline="" finds CR and CR LF too, and keeps them as they are; no other character ends a line.
        lines = io.TextIOWrapper(stream, encoding, errors=MARK_BAD_BYTES, newline="")
        try:
            for number, line in enumerate(lines, start=1):
                text = line.removeprefix("\ufeff") if number == 1 else line
                if not text.isascii() and (mark := BAD_BYTE.search(text)):
                    bad_line(number, mark.start() + 1, f"0x{ord(mark[0]) - FIRST_MARK:02x}")
                yield text
        except UnicodeError as error:  # an encoding whose decoder does not ask what to do about a fault
            raise FileFault(f"the file is not {encoding}", got=str(error)[:200]) from None


def mark_bad_bytes(error: UnicodeError) -> tuple[str, int]:
    """Put a lone surrogate, which no text of any encoding has, in place of bytes that cannot be decoded."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(FIRST_MARK + error.object[error.start]), error.end


codecs.register_error(MARK_BAD_BYTES, mark_bad_bytes)


def detect_encoding(start: bytes) -> str:
    """Tell UTF-8 from UTF-16 by the first four bytes; refuse what is neither."""
    if start.startswith(GZIP_MAGIC):
        raise FileFault("the file is gzip data, but its name does not end in .gz", todo="rename the file")
    if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise FileFault("the file is UTF-32", expected="UTF-8 or UTF-16", todo="save it as UTF-8")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in start:
        raise FileFault(
            "the file begins with NUL bytes",
            got=quote(start),
            expected="text in UTF-8, or in UTF-16 with a byte-order mark",
            todo="save it as UTF-8, or name its encoding, for instance --encoding utf-16-le",
        )
    return "utf-8"


def place_of(text: str, position: int | None) -> tuple[int | None, int | None]:
    """Turn an offset into line and column, both from 1."""
    if position is None:
        return None, None
    before = text[:position]
    last_break = max(before.rfind("\n"), before.rfind("\r"))
    return len(LINE_BREAK.findall(before)) + 1, position - last_break
