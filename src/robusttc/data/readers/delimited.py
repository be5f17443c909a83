"""CSV and TSV files, with any one-character delimiter."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from robusttc.data.problems import FileFault
from robusttc.data.readers.columns import find_columns
from robusttc.data.readers.files import bad_byte_details, encoding_name, ending_of, read_lines
from robusttc.data.rows import MISSING, FileRows
from robusttc.errors import quote

__all__ = ["read_delimited"]

# Tried in this order; the first with which the header has the columns that are needed is taken.
DELIMITERS = (",", ";", "\t", "|")


def read_delimited(path: Path, rows: FileRows) -> None:
    """Read a file of rows with a header; quoted fields may hold delimiters and line breaks."""
    bad_lines: dict[int, tuple[int, str]] = {}

    def note_bad_line(line: int, column: int, byte: str) -> None:
        bad_lines[line] = (column, byte)

    lines = Lines(read_lines(path, rows.options.encoding, note_bad_line))
    first_line = lines.find_header()
    delimiter = rows.options.delimiter or find_delimiter(first_line, path, rows)
    records = read_records(lines, delimiter, rows)
    header_line, header_end, header = next(records, (lines.number, lines.number, []))
    for line in range(header_line, header_end + 1):
        if line in bad_lines:
            column, byte = bad_lines[line]
            what = f"the header is not {encoding_name(rows.options.encoding)}"
            raise FileFault(what, line=line, column=column, **bad_byte_details(byte))
    places = find_columns(header, rows.options, line=header_line)
    # Positions of the four fields; -1 stands for a column that the file does not have.
    text, label, split, task = (places.get(role, -1) for role in ("text", "label", "split", "task"))
    width = len(header)

    for start, end, record in records:
        if bad_lines and (found := [line for line in range(start, end + 1) if line in bad_lines]):
            column, byte = bad_lines.pop(found[0])
            what = f"the line is not {encoding_name(rows.options.encoding)}"
            rows.refuse(found[0], what, column=column, **bad_byte_details(byte))
        elif len(record) != width:
            rows.refuse(
                start,
                "ragged row: its number of fields is not that of the header",
                got=f"{len(record)} fields",
                expected=f"{width}",
                todo="put quotes around a field that holds the delimiter or a quote",
            )
        else:
            rows.add(
                start,
                record[text],
                record[label],
                MISSING if split < 0 else record[split],
                MISSING if task < 0 else record[task],
            )


class Lines(Iterator[str]):
    """The lines of a file; knows which one the csv module was given last."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._waiting: str | None = None
        self.number = 0
        self.last = ""

    def find_header(self) -> str:
        """Look at the first line that is not blank, without taking it."""
        for line in self._lines:
            if line.strip("\r\n"):
                self._waiting = line
                return line
            self.number += 1
        return ""

    def __next__(self) -> str:
        waiting, self._waiting = self._waiting, None
        self.last = next(self._lines) if waiting is None else waiting
        self.number += 1
        return self.last


def find_delimiter(first_line: str, path: Path, rows: FileRows) -> str:
    """Find the delimiter with which the header has the columns that are needed."""
    if ending_of(path) == ".tsv":
        return "\t"
    options = rows.options
    for delimiter in DELIMITERS:
        try:
            header = next(csv.reader([first_line], delimiter=delimiter), [])
        except csv.Error:  # a header of a hundred thousand characters; it is refused when it is read
            continue
        if options.text_column in header and options.label_column in header:
            return delimiter
    return ","


def read_records(lines: Lines, delimiter: str, rows: FileRows) -> Iterator[tuple[int, int, list[str]]]:
    """Go through the records with their first and last line; blank lines between them are passed over."""
    # Strict, because the lenient reader takes a stray quote as it comes and shifts the fields in silence.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header_line = lines.number + 1
    while True:
        start = lines.number + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if start == header_line:
                raise FileFault("the header cannot be read as CSV", line=start, got=str(error)) from None
            refuse_record(start, lines, str(error), rows)
        else:
            if record:
                yield start, lines.number, record


def refuse_record(start: int, lines: Lines, reason: str, rows: FileRows) -> None:
    """Say what is wrong with a record that the csv module does not take.

    Where the quotes of its line are in pairs the fault ends with the line, and the next one is a row again.
    Where they are not, nobody can tell which of the lines around are rows and which are inside of a field:
    the rest of the file cannot be read.
    """
    if "unexpected end" in reason:
        what = "a quote that is opened in this row is never closed"
    elif "field limit" in reason:
        what = "a field is too long, or a quote that is opened in this row is not closed"
    else:
        what = "the quotes of this row are not right"
    todo = f"write a quote inside a quoted field twice ({quote(chr(34) * 2)})"
    if lines.number == start and lines.last.count('"') % 2 == 0:
        rows.refuse(start, what, got=reason, todo=todo)
        return
    got = f"{reason}, reading lines {start} to {lines.number}" if lines.number > start else reason
    raise FileFault(what, line=start, got=got, todo=todo)
