"""One reader for every kind of table: CSV, TSV, JSON Lines, Parquet, Excel and pandas frames.

`open_tables` yields the tables of a source (the sheets of a workbook, else one), each with the names of its
columns. The rows are then read by column name, as (line, cells)::

    problems = ProblemList()
    with problems.collecting(path):
        for table in open_tables(path, problems, known=("source", "target", "score")):
            for line, (source, target, score) in table.rows(["source", "target", "score"]):
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
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robusttc.data.text_files import (
    ProblemList,
    ReadError,
    check_expansion,
    is_gzipped,
    read_bytes,
    read_lines,
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
EXCEL_ENDINGS = (".xlsx", ".xlsm")
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", *EXCEL_ENDINGS)

BATCH_ROWS = 1_024
MAX_QUOTED_LINES = 1_000  # of one record in a tab-separated file
KEYS_FROM_ROWS = 50  # JSON Lines have no header: the keys of the first objects are the columns
DELIMITERS = (",", ";", "\t", "|")

Row = tuple[int, Sequence[Any]]
Record = tuple[int, int, list[Any]]  # its first line, its last line, its fields


@dataclass(frozen=True)
class Table:
    """The header of one table, and its rows."""

    path: str  # as messages name the file
    columns: tuple[str, ...]  # of JSON Lines the keys of the first objects
    rows: Callable[[Sequence[str | None]], Iterator[Row]]  # takes column names, yields line and cells
    line: int | None = None  # of the header
    unit: str = "line"  # what lines count: line, row or iloc
    sheet: str | None = None
    is_keyed: bool = False  # each row names its fields itself, and may have some that the first ones lack
    types: dict[str, str] = field(default_factory=dict)  # the Arrow types, where the file declares them


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
    elif ending in EXCEL_ENDINGS:
        yield from read_excel(source)
    elif ending in {".jsonl", ".ndjson"}:
        yield read_json_lines(source, problems, encoding)
    else:
        yield read_delimited(source, problems, delimiter, encoding, frozenset(known))


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


def read_delimited(
    path: Path, problems: ProblemList, delimiter: str | None, encoding: str | None, known: frozenset[str]
) -> Table:
    """Read a file of rows with a header; quoted fields may hold delimiters and line breaks."""
    lines, bad = read_lines(path, encoding)
    refuse = partial(problems.add_row, str(path))
    if delimiter is None:
        header = next((line for line in lines if line.strip("\r\n")), "")
        delimiter = "\t" if ending_of(path) == ".tsv" else find_delimiter(header, known)
    records = tab_records(lines) if delimiter == "\t" else csv_records(lines, delimiter, refuse)
    start, end, names = next(records, (len(lines), len(lines), []))
    for line in bad.keys() & range(start, end + 1):
        what = "the header" + bad[line].pop("what").removeprefix("the line")
        raise ReadError(what, line=line, **bad[line])

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        # MISSING is put behind the last field, for the columns that are None.
        places = [-1 if column is None else names.index(column) for column in columns]
        select = itemgetter(*places) if len(places) > 1 else lambda record: [record[at] for at in places]
        width = len(names)
        for start, end, record in records:
            if bad and (found := next((line for line in range(start, end + 1) if line in bad), None)):
                refuse(line=found, **bad[found])
            elif len(record) != width:
                refuse(
                    start,
                    "ragged row: the number of fields differs from the header",
                    got=f"{len(record)} fields",
                    expected=f"{width}",
                    todo="put quotes around a field that holds the delimiter",
                )
            else:
                record.append(MISSING)
                yield start, select(record)

    return Table(str(path), tuple(names), rows, start)


def find_delimiter(header: str, known: frozenset[str]) -> str:
    """Return the delimiter that gives the header most of the known names, then the most columns."""

    def fit(delimiter: str) -> tuple[int, int]:
        try:
            names = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:  # a header of a hundred thousand characters; it is refused when it is read
            return 0, 0
        return len(known & {normalise_name(name) for name in names}), len(names)

    return max(DELIMITERS, key=fit)


def csv_records(lines: list[str], delimiter: str, refuse: Callable[..., None]) -> Iterator[Record]:
    """Yield the records of a CSV text; blank lines between them are skipped.

    A record that the csv module does not accept is reported. Where the quotes of its line are in pairs the
    fault ends with the line. Where they are not, nobody can tell which of the lines around are rows and which
    are inside of a field: the rest cannot be read.
    """
    # Strict, because the lenient reader accepts a stray quote and silently shifts the fields.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    is_header = True
    while True:
        start = reader.line_num + 1
        try:
            record: list[Any] = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            end = reader.line_num
            if is_header:
                raise ReadError("the header cannot be read as CSV", line=start, got=str(error)) from None
            got = str(error) if end == start else f"{error}, reading lines {start} to {end}"
            todo = f"write a quote inside a quoted field twice ({quote(chr(34) * 2)})"
            if end > start or lines[start - 1].count('"') % 2:
                raise ReadError(quotes_problem(str(error)), line=start, got=got, todo=todo) from None
            refuse(start, quotes_problem(str(error)), got=got, todo=todo)
        else:
            if record:
                is_header = False
                yield start, reader.line_num, record


def quotes_problem(reason: str) -> str:
    """Return what is wrong with a record, by the message of the csv module."""
    if "unexpected end" in reason:
        return "a quote that is opened in this row is never closed"
    if "field limit" in reason:
        return "a field is too long, or a quote that is opened in this row is not closed"
    return "the quotes of this row are wrong"


def tab_records(lines: list[str]) -> Iterator[Record]:
    """Yield the records of a tab-separated text; a quote that is not closed is a character like others."""
    width = end = 0
    while end < len(lines):
        content = lines[end].rstrip("\r\n")
        start = end = end + 1
        if not content:
            continue
        record: list[Any] = content.split("\t")
        if '"' in content:
            # A field whose quotes hold tabs or line breaks makes the plain fields too few or too many.
            reader = csv.reader(lines[start - 1 : start + MAX_QUOTED_LINES], delimiter="\t", strict=True)
            try:
                record = [unquote(cell) for cell in record] if len(record) == width else next(reader)
                end = start - 1 + max(reader.line_num, 1)
            except csv.Error:
                record = [unquote(cell) for cell in record]
        width = width or len(record)
        yield start, end, record


def unquote(cell: str) -> str:
    """Return a field without its quotes, if it is quoted as in CSV."""
    inner = cell[1:-1]
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if is_quoted else cell


# --- JSON Lines


def read_json_lines(path: Path, problems: ProblemList, encoding: str | None) -> Table:
    """Read one JSON object per line; blank lines are skipped."""
    records = json_records(path, partial(problems.add_row, str(path)), encoding)
    first = list(islice(records, KEYS_FROM_ROWS))
    names = dict.fromkeys(key for _, record in first for key in record)

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        for line, record in chain(first, records):
            get = record.get
            yield line, [get(column, MISSING) for column in columns]

    return Table(str(path), tuple(names), rows, first[0][0] if first else None, is_keyed=True)


def json_records(
    path: Path, refuse: Callable[..., None], encoding: str | None
) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yield the objects with their lines."""
    lines, bad = read_lines(path, encoding)
    for number, line in enumerate(lines, start=1):
        if number in bad:
            refuse(line=number, **bad[number])
            continue
        try:
            record = decode_json(line)
        except InvalidJSONError as error:
            if line.strip():
                column = None if error.position is None else error.position + 1
                expected = "one complete JSON object per line"
                refuse(number, "the line is not JSON", column=column, got=error.what, expected=expected)
            continue
        if type(record) is dict:
            yield number, record
        else:
            refuse(number, "the line is not a JSON object", got=quote(record))


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
        metadata = pq.read_metadata(source)
        # Not the sum of the columns: to ask for a damaged column ends the process, pyarrow does not catch it.
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        check_expansion(sum(group.total_byte_size for group in groups), source.size())
        with pq.ParquetFile(source, page_checksum_verification=True) as file:

            def rows(columns: Sequence[str | None]) -> Iterator[Row]:
                wanted = [column for column in columns if column is not None]
                with arrow_errors(damaged):
                    batches = file.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False)
                    yield from arrow_rows(batches, columns)

            schema = file.schema_arrow
            types = {column.name: str(column.type) for column in schema}
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
            check_expansion(sum(member.file_size for member in archive.infolist()), len(content))
        workbook = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    for sheet in workbook.worksheets:
        if sheet.sheet_state == "visible":
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
