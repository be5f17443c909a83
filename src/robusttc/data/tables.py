"""One reader for every kind of table: CSV, TSV, JSON Lines, Parquet, Excel and pandas frames.

`open_tables` yields the tables of a source (the sheets of a workbook, else one), each with the names of its
columns. The rows are then read by column name, as (line, cells)::

    problems = ProblemList()
    with problems.collecting(path):
        for table in open_tables(path, problems, known=("source", "target", "score")):
            for line, (source, target, score) in table.rows(["source", "target", None]):
                ...

* ``line`` counts what ``table.unit`` says: lines of the file, rows of a Parquet file or a sheet, positions
  (iloc) of a frame. It is the line on which a row begins.
* Cells are strings in text formats and Python values elsewhere (None for null, NaN and empty cells of a
  sheet); `MISSING` where the row has no such field, and for a column that is None. What a cell may be is up
  to the caller, who adds to the same `ProblemList`.
* A row that cannot be read (ragged, not UTF-8, not JSON …) is added to the problems and left out. Where the
  rest of a file cannot be read a `ReadError` is raised, which `ProblemList.collecting` adds as well.
* The delimiter of CSV files is found from the header: the one with which it has most of the `known` names,
  then the most columns. In tab-separated files a quote has a meaning only if it is closed.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robusttc.data.text_files import (
    FREE_EXPANDED_BYTES,
    MAX_EXPANSION,
    ProblemList,
    ReadError,
    bad_line,
    decode_lines,
    is_gzipped,
    open_bytes,
    read_bytes,
)
from robusttc.errors import quote
from robusttc.files import InvalidJSONError, decode_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MISSING",
    "TABLE_ENDINGS",
    "Row",
    "Table",
    "arrow_errors",
    "arrow_rows",
    "ending_of",
    "normalise_name",
    "open_tables",
]

MISSING: Any = object()  # the row has no such field at all
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".xlsm")

BATCH_ROWS = 1_024
MAX_QUOTED_LINES = 1_000  # of one record in a tab-separated file
KEYS_FROM_ROWS = 50  # JSON Lines have no header: the keys of the first objects are the columns

DELIMITERS = (",", ";", "\t", "|")

Row = tuple[int, Sequence[Any]]


@dataclass(frozen=True)
class Table:
    """The header of one table, and its rows.

    Attributes
    ----------
    path
        The file, as messages name it.
    columns
        The names in the header; of JSON Lines the keys of the first objects.
    rows
        Takes column names (or None) and yields each row as its line and these cells.
    line
        The line of the header, where there is one.
    unit
        What lines count: ``line``, ``row`` or ``iloc``.
    sheet
        The name of the sheet, of a workbook.
    is_keyed
        Whether each row names its fields itself, so that a row may have fields which the first ones lack.
    types
        The Arrow types of the columns, where the file declares them.
    """

    path: str
    columns: tuple[str, ...]
    rows: Callable[[Sequence[str | None]], Iterator[Row]]
    line: int | None = None
    unit: str = "line"
    sheet: str | None = None
    is_keyed: bool = False
    types: dict[str, str] = field(default_factory=dict)


def open_tables(
    source: Path | pd.DataFrame,
    problems: ProblemList,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    known: Iterable[str] = (),
) -> Iterator[Table]:
    """Yield the tables of a file or a pandas frame; rows must be read before the next table is asked for.

    Parameters
    ----------
    source
        A file, whose ending (also with ``.gz``) is one of `TABLE_ENDINGS`, or a frame.
    problems
        Where rows that cannot be read are added.
    delimiter
        The delimiter of CSV and TSV files; None finds it.
    encoding
        The encoding of text files; None means UTF-8, or UTF-16 where the file begins with its mark.
    known
        Names that the header probably has, in the form of `normalise_name`.

    Raises
    ------
    ReadError
        If (the rest of) the source cannot be read.
    """
    if not isinstance(source, Path):
        yield read_frame(source)
        return
    ending = ending_of(source)
    if ending == ".parquet":
        yield from read_parquet(source)
    elif ending in {".xlsx", ".xlsm"}:
        yield from read_excel(source)
    elif ending in {".jsonl", ".ndjson"}:
        yield from read_json_lines(source, problems, encoding)
    else:
        yield from read_delimited(source, problems, delimiter, encoding, frozenset(known))


def normalise_name(name: str) -> str:
    """Return a column name in the form in which names are compared.

    >>> normalise_name(" User-Query ")
    'user_query'
    """
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def ending_of(path: Path) -> str:
    """Return the ending that names the format of a file, in lower case, without ``.gz``."""
    return Path(path.stem if is_gzipped(path) else path.name).suffix.lower()


# --- CSV and TSV


class Lines(Iterator[str]):
    """Lines that can be put back; `number` is that of the last one, `last` is its text."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._waiting: list[str] = []
        self.number = 0
        self.last = ""

    def __next__(self) -> str:
        self.last = self._waiting.pop() if self._waiting else next(self._lines)
        self.number += 1
        return self.last

    def put_back(self, lines: list[str]) -> None:
        """Put the last lines back, in their order."""
        self._waiting += reversed(lines)
        self.number -= len(lines)


def read_delimited(
    path: Path,
    problems: ProblemList,
    delimiter: str | None,
    encoding: str | None,
    known: frozenset[str],
) -> Iterator[Table]:
    """Read a file of rows with a header; quoted fields may hold delimiters and line breaks."""
    bad: dict[int, tuple[int, str]] = {}
    with open_bytes(path) as stream:
        lines = Lines(decode_lines(stream, encoding, bad))
        header = next((line for line in lines if line.strip("\r\n")), None)
        if header is not None:
            lines.put_back([header])
            if delimiter is None:
                delimiter = "\t" if ending_of(path) == ".tsv" else find_delimiter(header, known)
        refuse = Refusal(str(path), problems)
        records = tab_records(lines) if delimiter == "\t" else csv_records(lines, delimiter or ",", refuse)
        start, end, names = next(records, (max(lines.number, 1), lines.number, []))
        for line in range(start, end + 1):
            if line in bad:
                raise ReadError(**bad_line("header", line, bad[line], encoding))

        def rows(columns: Sequence[str | None]) -> Iterator[Row]:
            # MISSING is put behind the last field, for the columns that are None.
            places = [-1 if column is None else names.index(column) for column in columns]
            select = itemgetter(*places) if len(places) > 1 else lambda record: [record[at] for at in places]
            width = len(names)
            for start, end, record in records:
                if bad and (found := [line for line in range(start, end + 1) if line in bad]):
                    refuse(**bad_line("line", found[0], bad.pop(found[0]), encoding))
                elif len(record) != width:
                    refuse(
                        "ragged row: the number of fields differs from the header",
                        line=start,
                        got=f"{len(record)} fields",
                        expected=f"{width}",
                        todo="put quotes around a field that holds the delimiter",
                    )
                else:
                    record.append(MISSING)
                    yield start, select(record)

        yield Table(str(path), tuple(names), rows, start)


@dataclass(frozen=True)
class Refusal:
    """Adds problems of the rows of one file."""

    path: str
    problems: ProblemList

    def __call__(self, what: str, line: int, **details: Any) -> None:
        """Add the problem of one row."""
        self.problems.add_row(self.path, line, what, **details)


def find_delimiter(header: str, known: frozenset[str]) -> str:
    """Return the delimiter that gives the header most of the known names, then the most columns."""

    def fit(delimiter: str) -> tuple[int, int]:
        try:
            names = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:  # a header of a hundred thousand characters; it is refused when it is read
            return 0, 0
        return len(known & {normalise_name(name) for name in names}), len(names)

    return max(DELIMITERS, key=fit)


def csv_records(lines: Lines, delimiter: str, refuse: Refusal) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield the records with their first and last line; blank lines between them are skipped."""
    # Strict, because the lenient reader accepts a stray quote and silently shifts the fields.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header_line = lines.number + 1
    while True:
        start = lines.number + 1
        try:
            record: list[Any] = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if start == header_line:
                raise ReadError("the header cannot be read as CSV", line=start, got=str(error)) from None
            refuse_quotes(start, lines, str(error), refuse)
        else:
            if record:
                yield start, lines.number, record


def refuse_quotes(start: int, lines: Lines, reason: str, refuse: Refusal) -> None:
    """Report a record that the csv module does not accept.

    Where the quotes of its line are in pairs the fault ends with the line. Where they are not, nobody can
    tell which of the lines around are rows and which are inside of a field: the rest cannot be read.
    """
    if "unexpected end" in reason:
        what = "a quote that is opened in this row is never closed"
    elif "field limit" in reason:
        what = "a field is too long, or a quote that is opened in this row is not closed"
    else:
        what = "the quotes of this row are wrong"
    todo = f"write a quote inside a quoted field twice ({quote(chr(34) * 2)})"
    if lines.number == start and lines.last.count('"') % 2 == 0:
        refuse(what, line=start, got=reason, todo=todo)
        return
    got = f"{reason}, reading lines {start} to {lines.number}" if lines.number > start else reason
    raise ReadError(what, line=start, got=got, todo=todo)


def tab_records(lines: Lines) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield the records of a tab-separated text; a quote that is not closed is a character like others."""
    width = None
    for line in lines:
        start = lines.number
        content = line.rstrip("\r\n")
        if not content:
            continue
        record: list[Any] = content.split("\t")
        if '"' in content:
            quoted = None if len(record) == width else read_quoted(line, lines)
            record = quoted or [unquote(cell) for cell in record]
        width = len(record) if width is None else width
        yield start, lines.number, record


def unquote(cell: str) -> str:
    """Return a field without its quotes, if it is quoted as in CSV."""
    inner = cell[1:-1]
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if is_quoted else cell


def read_quoted(line: str, lines: Lines) -> list[Any] | None:
    """Read a record whose quoted fields hold tabs or line breaks; None, and no line is used, if none are."""
    used: list[str] = []

    def take() -> Iterator[str]:
        yield line
        for more in islice(lines, MAX_QUOTED_LINES):
            used.append(more)
            yield more

    try:
        return next(csv.reader(take(), delimiter="\t", strict=True))
    except csv.Error:
        lines.put_back(used)
        return None


# --- JSON Lines


def read_json_lines(path: Path, problems: ProblemList, encoding: str | None) -> Iterator[Table]:
    """Read one JSON object per line; blank lines are skipped."""
    with open_bytes(path) as stream:
        records = json_records(stream, Refusal(str(path), problems), encoding)
        first = list(islice(records, KEYS_FROM_ROWS))
        names = dict.fromkeys(key for _, record in first for key in record)

        def rows(columns: Sequence[str | None]) -> Iterator[Row]:
            for line, record in chain(first, records):
                get = record.get
                yield line, [get(column, MISSING) for column in columns]

        yield Table(str(path), tuple(names), rows, first[0][0] if first else None, is_keyed=True)


def json_records(
    stream: io.BufferedReader, refuse: Refusal, encoding: str | None
) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yield the objects with their lines."""
    bad: dict[int, tuple[int, str]] = {}
    for number, line in enumerate(decode_lines(stream, encoding, bad), start=1):
        if bad:
            refuse(**bad_line("line", number, bad.pop(number), encoding))
            continue
        try:
            record = decode_json(line)
        except InvalidJSONError as error:
            if line.strip():
                refuse(
                    "the line is not JSON",
                    line=number,
                    column=None if error.position is None else error.position + 1,
                    got=error.what,
                    expected="one complete JSON object per line",
                )
            continue
        if type(record) is dict:
            yield number, record
        else:
            refuse("the line is not a JSON object", line=number, got=quote(record))


# --- Parquet and other Arrow data


def read_parquet(path: Path) -> Iterator[Table]:
    """Read a Parquet file, also gzipped as a whole; only the columns that are asked for are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    damaged = "the file is not a Parquet file, or it is damaged"
    with (
        arrow_errors(damaged),
        pa.BufferReader(read_bytes(path)) if is_gzipped(path) else pa.OSFile(str(path)) as source,
    ):
        check_expansion(pq.read_metadata(source), source.size())
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            schema = file.schema_arrow

            def rows(columns: Sequence[str | None]) -> Iterator[Row]:
                wanted = [column for column in columns if column is not None]
                with arrow_errors(damaged):
                    batches = file.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False)
                    yield from arrow_rows(batches, columns)

            types = {name: str(schema.field(at).type) for at, name in enumerate(schema.names)}
            yield Table(str(path), tuple(schema.names), rows, unit="row", types=types)


@contextmanager
def arrow_errors(what: str) -> Iterator[None]:
    """Turn what pyarrow raises on a damaged file into a `ReadError`."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError) as error:
        # pyarrow may quote the bytes of the file.
        got = quote(str(error).splitlines()[0][:200]) if str(error) else type(error).__name__
        raise ReadError(what, got=got) from None


def check_expansion(metadata: Any, size_bytes: int) -> None:
    """Refuse a Parquet file that itself declares an enormous size."""
    # Not the sum of the columns: to ask for a damaged column ends the process, pyarrow does not catch it.
    expanded = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if expanded > max(FREE_EXPANDED_BYTES, MAX_EXPANSION * size_bytes):
        raise ReadError(
            "the Parquet file expands beyond the limit",
            got=f"{expanded:,} bytes",
            expected=f"at most {MAX_EXPANSION} times its size on disk",
            todo="check where the file comes from; write it without compression if you trust it",
        )


def arrow_rows(batches: Iterable[Any], columns: Sequence[str | None], first_row: int = 1) -> Iterator[Row]:
    """Yield the rows of Arrow record batches."""
    number = first_row
    for batch in batches:
        cells = [
            [MISSING] * batch.num_rows if column is None else arrow_values(batch.column(column), number)
            for column in columns
        ]
        yield from enumerate(zip(*cells, strict=True), start=number)
        number += batch.num_rows


def arrow_values(column: Any, first_row: int) -> list[Any]:
    """Return the Python values of a column; a string that is not UTF-8 is a `ReadError` with its row."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        for row, value in enumerate(column, start=first_row):
            try:
                value.as_py()
            except UnicodeDecodeError as error:
                raise ReadError("a string is not UTF-8", line=row, got=str(error)) from None
        raise


# --- Excel and pandas


def read_excel(path: Path) -> Iterator[Table]:
    """Read the visible sheets of a workbook that are not empty; formulas are read as their stored values."""
    try:
        import openpyxl
    except ImportError:
        raise ReadError("Excel files need openpyxl", todo="pip install 'robusttc[excel]'") from None
    content = read_bytes(path)
    with excel_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on features of the workbook that are not read
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            expanded = sum(member.file_size for member in archive.infolist())
        if expanded > max(FREE_EXPANDED_BYTES, MAX_EXPANSION * len(content)):
            raise ReadError("the Excel file expands beyond the limit", got=f"{expanded:,} bytes")
        workbook = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    for sheet in sheets:
        yield from read_sheet(str(path), sheet)


@contextmanager
def excel_errors() -> Iterator[None]:
    """Turn what openpyxl and its parsers raise on a damaged file into a `ReadError`."""
    try:
        yield
    except (
        *(zipfile.BadZipFile, zlib.error, OSError, EOFError, SyntaxError, NotImplementedError),
        *(ValueError, LookupError, TypeError, AttributeError),
    ) as error:
        what = "the file is not an Excel workbook (.xlsx), or it is damaged"
        raise ReadError(what, got=quote(str(error))) from None


def read_sheet(path: str, sheet: Any) -> Iterator[Table]:
    """Read one sheet; its first row that is not blank is the header."""
    with excel_errors():
        sheet.reset_dimensions()  # some programs write wrong ones, which would cut rows off
        records = (
            (row, cells)
            for row, cells in enumerate(sheet.iter_rows(values_only=True), start=1)
            if any(cell is not None for cell in cells)
        )
        header_row, header = next(records, (0, ()))
    names = ["" if cell is None else str(cell) for cell in header]
    while names and not names[-1]:
        names.pop()

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        places = [-1 if column is None else names.index(column) for column in columns]
        padding = [None] * len(names)
        with excel_errors():
            for row, cells in records:
                padded = [*cells[: len(names)], *padding[len(cells) :], MISSING]
                yield row, [padded[at] for at in places]

    if names:
        yield Table(path, tuple(names), rows, header_row, unit="row", sheet=str(sheet.title))


def read_frame(frame: pd.DataFrame) -> Table:
    """Read a pandas frame; NaN, NaT and NA are None."""
    names = [str(name) for name in frame.columns]

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        cells: list[Iterable[Any]] = []
        for column in columns:
            if column is None:
                cells.append([MISSING] * len(frame))
                continue
            series = frame.iloc[:, names.index(column)]
            values = zip(series.tolist(), series.isna().tolist(), strict=True)
            cells.append([None if is_missing else value for value, is_missing in values])
        return enumerate(zip(*cells, strict=True))

    return Table("DataFrame", tuple(names), rows, unit="iloc")
