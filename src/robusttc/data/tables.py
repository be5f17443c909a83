"""One reader for every kind of table: CSV, TSV, JSON Lines, Parquet, Excel and pandas frames.

`open_tables` yields the tables of a source (the sheets of a workbook, else one), each with the names of its
columns. The rows are then read by column name::

    problems = ProblemList()
    with problems.collecting(path):
        for table in open_tables(path, problems, known=("source", "target", "score")):
            for line, (source, target, score) in table.rows(["source", "target", "score"]):
                ...

Cells are strings in text formats and Python values elsewhere (None for null, NaN and empty cells), and
`MISSING` where the row has no such field or the column is None. A row that cannot be read (ragged, not UTF-8,
not JSON …) is added to the problems and left out. Where the rest of a file cannot be read a `ReadError` is
raised, which `ProblemList.collecting` adds as well.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
import zipfile
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
    "arrow_rows",
    "damage_reported",
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
NO_WORKBOOK = "the file is not an Excel workbook (.xlsx), or it is damaged"

Row = tuple[int, Sequence[Any]]
Record = tuple[int, int, list[Any]]  # its first line, its last line, its fields


@dataclass(frozen=True)
class Table:
    """The header of one table, and its rows."""

    path: str  # as messages name the file
    columns: tuple[str, ...]  # of JSON Lines the keys of the first objects
    rows: Callable[[Sequence[str | None]], Iterator[Row]]  # column names -> the line a row begins on, cells
    line: int | None = None  # of the header
    unit: str = "line"  # what lines count: line, row (of a sheet or Parquet file) or iloc
    sheet: str | None = None
    is_keyed: bool = False  # each row names its fields itself, and may have some that the first ones lack
    types: dict[str, str] = field(default_factory=dict)  # the Arrow types, where the file declares them

    def error(self, what: str, **details: Any) -> ReadError:
        """Return the error of the header."""
        return ReadError(what, line=self.line, unit=self.unit, **details)


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
        The delimiter of CSV and TSV files. None takes the one with which the header has most of the `known`
        names, then the most columns.
    encoding
        The encoding of text files; None means UTF-8, or UTF-16 where the file begins with its mark.
    known
        Names that the header probably has, in the form of `normalise_name`.

    Raises
    ------
    ReadError
        If (the rest of) the source cannot be read.
    """
    ending = ending_of(source) if isinstance(source, Path) else None
    if ending is None:
        yield read_frame(source)
    elif ending == ".parquet":
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


def selector(names: Sequence[str], columns: Sequence[str | None]) -> Callable[[Any], Sequence[Any]]:
    """Return what selects the cells of columns from a record that has `MISSING` behind its last field."""
    places = [len(names) if column is None else names.index(column) for column in columns]
    return itemgetter(*places) if len(places) > 1 else lambda record: [record[at] for at in places]


# --- CSV and TSV


def read_delimited(
    path: Path, problems: ProblemList, delimiter: str | None, encoding: str | None, known: frozenset[str]
) -> Table:
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
        select, width = selector(names, columns), len(names)
        for start, end, record in records:
            if bad and (found := next((line for line in range(start, end + 1) if line in bad), None)):
                refuse(line=found, **bad[found])
            elif len(record) != width:
                what = "ragged row: the number of fields differs from the header"
                todo = "put quotes around a field that holds the delimiter"
                refuse(start, what, got=f"{len(record)} fields", expected=f"{width}", todo=todo)
            else:
                record.append(MISSING)
                yield start, select(record)

    return Table(str(path), tuple(names), rows, start)


def find_delimiter(header: str, known: frozenset[str]) -> str:
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
            reason, end = str(error), reader.line_num
            if is_header:
                raise ReadError("the header cannot be read as CSV", line=start, got=reason) from None
            what = "the quotes of this row are wrong"
            if "unexpected end" in reason:
                what = "a quote that is opened in this row is never closed"
            elif "field limit" in reason:
                what = "a field is too long, or a quote that is opened in this row is not closed"
            got = reason if end == start else f"{reason}, reading lines {start} to {end}"
            todo = f"write a quote inside a quoted field twice ({quote(chr(34) * 2)})"
            if end > start or lines[start - 1].count('"') % 2:
                raise ReadError(what, line=start, got=got, todo=todo) from None
            refuse(start, what, got=got, todo=todo)
        else:
            if record:
                is_header = False
                yield start, reader.line_num, record


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
    inner = cell[1:-1]
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if is_quoted else cell


# --- JSON Lines


def read_json_lines(path: Path, problems: ProblemList, encoding: str | None) -> Table:
    lines, bad = read_lines(path, encoding)
    refuse = partial(problems.add_row, str(path))

    def objects() -> Iterator[tuple[int, dict[str, Any]]]:
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
                    what = "the line is not JSON"
                    refuse(number, what, column=column, got=error.what, expected=expected)
                continue
            if type(record) is dict:
                yield number, record
            else:
                refuse(number, "the line is not a JSON object", got=quote(record))

    records = objects()
    first = list(islice(records, KEYS_FROM_ROWS))

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        for line, record in chain(first, records):
            yield line, [record.get(column, MISSING) for column in columns]  # type: ignore[arg-type]

    names = dict.fromkeys(key for _, record in first for key in record)
    return Table(str(path), tuple(names), rows, first[0][0] if first else None, is_keyed=True)


# --- Binary formats: Parquet and other Arrow data, Excel


@contextmanager
def damage_reported(what: str) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file into a `ReadError`."""
    try:
        yield
    except ReadError:
        raise
    except Exception as error:
        # The parser may quote the bytes of the file.
        got = quote(str(error).splitlines()[0][:200]) if str(error) else type(error).__name__
        raise ReadError(what, got=got) from None


def read_parquet(path: Path) -> Iterator[Table]:
    """Read a Parquet file, also gzipped as a whole; only the columns that are asked for are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    damaged = "the file is not a Parquet file, or it is damaged"
    with (
        damage_reported(damaged),
        pa.BufferReader(read_bytes(path)) if is_gzipped(path) else pa.OSFile(str(path)) as source,
    ):
        metadata = pq.read_metadata(source)
        # Not the sum of the columns: to ask for a damaged column ends the process, pyarrow does not catch it.
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        check_expansion(sum(group.total_byte_size for group in groups), source.size())
        with pq.ParquetFile(source, page_checksum_verification=True) as file:

            def rows(columns: Sequence[str | None]) -> Iterator[Row]:
                wanted = [column for column in columns if column is not None]
                with damage_reported(damaged):
                    batches = file.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False)
                    yield from arrow_rows(batches, columns)

            types = {column.name: str(column.type) for column in file.schema_arrow}
            yield Table(str(path), tuple(file.schema_arrow.names), rows, unit="row", types=types)


def arrow_rows(batches: Iterable[Any], columns: Sequence[str | None], first_row: int = 1) -> Iterator[Row]:
    """Yield the rows of Arrow record batches; a string that is not UTF-8 is a `ReadError` with its row."""
    number = first_row
    for batch in batches:
        found = [None if column is None else batch.column(column) for column in columns]
        try:
            cells = [[MISSING] * batch.num_rows if one is None else one.to_pylist() for one in found]
        except UnicodeDecodeError:
            for row, values in enumerate(zip(*(one for one in found if one is not None), strict=True)):
                try:
                    [value.as_py() for value in values]
                except UnicodeDecodeError as error:
                    raise ReadError("a string is not UTF-8", line=number + row, got=str(error)) from None
            raise
        yield from enumerate(zip(*cells, strict=True), start=number)
        number += batch.num_rows


def read_excel(path: Path) -> Iterator[Table]:
    """Read the visible sheets of a workbook that are not empty; formulas are read as their stored values."""
    try:
        import openpyxl
    except ImportError:
        raise ReadError("Excel files need openpyxl", todo="pip install 'robusttc[excel]'") from None
    content = read_bytes(path)
    with damage_reported(NO_WORKBOOK), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on features of the workbook that are not read
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_expansion(sum(member.file_size for member in archive.infolist()), len(content))
        workbook = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    for sheet in workbook.worksheets:
        with damage_reported(NO_WORKBOOK):
            if sheet.sheet_state == "visible" and (table := read_sheet(str(path), sheet)).columns:
                yield table


def read_sheet(path: str, sheet: Any) -> Table:
    """Read one sheet; its first row that is not blank is the header."""
    sheet.reset_dimensions()  # some programs write wrong ones, which would cut rows off
    all_records = enumerate(sheet.iter_rows(values_only=True), start=1)
    records = ((row, cells) for row, cells in all_records if any(cell is not None for cell in cells))
    header_row, header = next(records, (0, ()))
    names = ["" if cell is None else str(cell) for cell in header]
    while names and not names[-1]:
        names.pop()

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        select, padding = selector(names, columns), [None] * len(names)
        with damage_reported(NO_WORKBOOK):
            for row, cells in records:
                yield row, select([*cells[: len(names)], *padding[len(cells) :], MISSING])

    return Table(path, tuple(names), rows, header_row, unit="row", sheet=str(sheet.title))


def read_frame(frame: pd.DataFrame) -> Table:
    names = [str(name) for name in frame.columns]

    def cells_of(column: str | None) -> list[Any]:
        if column is None:
            return [MISSING] * len(frame)
        series = frame.iloc[:, names.index(column)]
        return list(series.astype(object).where(series.notna(), None))

    def rows(columns: Sequence[str | None]) -> Iterator[Row]:
        return enumerate(zip(*map(cells_of, columns), strict=True))

    return Table("DataFrame", tuple(names), rows, unit="iloc")
