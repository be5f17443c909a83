"""Transfer scores in CSV files and pandas frames: one score per row, or a square table with names.

All problems of a file are collected and reported with their lines.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.data.problems import FileFault
from robusttc.data.readers.delimited import Lines, read_records
from robusttc.data.readers.files import bad_byte_details, encoding_name, ending_of, read_lines
from robusttc.errors import MAX_LISTED_PROBLEMS, Problem, ScoresError, nearest_name, quote
from robusttc.files import write_file
from robusttc.params import Choice, Nothing, check_param
from robusttc.transfer.score_columns import HALVES, MAX_EXAMPLES, MAX_SCORE, is_task_name
from robusttc.transfer.scores import DUPLICATES, KINDS, TransferScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["make_frame", "read_frame", "read_scores", "write_scores"]

NEEDED = ("source", "target", "score")
COUNTS = ("n", "n_examples")  # two names of one column
NUMBERS = ("score", "standard_error", *HALVES)
COLUMNS = (*NEEDED, *COUNTS, "standard_error", *HALVES, "kind")
NOT_MEASURED = {"nan", "na"}  # as NumPy, pandas and R write it
DELIMITERS = (",", ";", "\t", "|")
FORMS = (
    "a file of scores has the columns source, target and score, or is a square table with the same names in "
    "its first row and its first column"
)

Cells = list[str]
Rows = Iterator[tuple[int, Cells]]


@dataclass
class Problems:
    """The problems of one source: all counted, the first kept."""

    path: str
    unit: str = "line"
    n_all: int = 0
    kept: list[Problem] = field(default_factory=list)

    def refuse(self, line: int | None, what: str, **details: Any) -> None:
        """Add a problem; `details` are further fields of a `Problem`."""
        self.n_all += 1
        if len(self.kept) < MAX_LISTED_PROBLEMS:
            self.kept.append(Problem(self.path, what, line, unit=self.unit, **details))


@dataclass
class Found:
    """Scores as they are read, with the line of each; tasks are numbered in the order of `names`."""

    names: dict[str, int] = field(default_factory=dict)
    line: list[int] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    kind: str | None = None


def read_scores(path: str | Path, *, kind: str | None = None, duplicates: str = "error") -> TransferScores:
    r"""Read scores from a CSV file.

    One score per row: a header with the columns ``source``, ``target`` and ``score``, in any order and case,
    and where they are known ``n`` (or ``n_examples``; an empty cell is 0, not known), ``standard_error``,
    ``first_half`` and ``second_half`` (both or neither), and ``kind`` (the same in all rows); other columns
    are ignored. Tasks are in the order in which they first occur as a source, then those that never do. A row
    of a task with itself may have an empty score: it only says that there is such a task.

    Or a square table: the first row and the first column have the same names, rows are sources and columns
    targets, an empty cell is a pair that was not measured. Tasks are in the order of the first row.

    Cells that hold ``NaN`` or ``NA`` are pairs that were not measured. Fields are separated by commas,
    semicolons, tabs or bars; the text is UTF-8, or UTF-16 with a byte-order mark; a name that ends in ``.gz``
    is unpacked.

    Parameters
    ----------
    path
        The file.
    kind
        What was measured, see `TransferScores`; None takes the column ``kind``, or else ``other``.
    duplicates
        What to do with a pair that has more than one row: ``error`` or ``average``.

    Raises
    ------
    ScoresError
        If anything is wrong with the file; it lists the problems with their lines.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.csv")
    ...     _ = path.write_text("source,target,score\nacme,globex,0.5\nglobex,acme,0.75\n")
    ...     read_scores(path)
    TransferScores(2 tasks, 2 scores, kind 'other')
    """
    check_param("kind", kind, Choice(*KINDS), Nothing())
    check_param("duplicates", duplicates, Choice(*DUPLICATES))
    problems = Problems(str(path))
    return make_scores(read_file(Path(path), problems), problems, kind, duplicates)


def read_frame(frame: pd.DataFrame, *, kind: str | None = None, duplicates: str = "error") -> TransferScores:
    """Return the scores of a pandas frame; see `TransferScores.from_frame`."""
    import pandas as pd

    check_param("kind", kind, Choice(*KINDS), Nothing())
    check_param("duplicates", duplicates, Choice(*DUPLICATES))
    names = [str(column) for column in frame.columns]
    is_long = set(NEEDED) <= {column_name(name) for name in names}
    cells = frame.itertuples(index=not is_long, name=None)
    texts = (["nan" if pd.isna(cell) else str(cell) for cell in row] for row in cells)
    header = (0, names if is_long else ["", *names])
    problems = Problems("frame", unit="iloc")
    return make_scores(iter([header, *enumerate(texts)]), problems, kind, duplicates)


def read_file(path: Path, problems: Problems) -> Rows:
    """Yield the header and the records of a file with their lines; what cannot be read is a problem."""
    bad_lines: dict[int, tuple[int, str]] = {}

    def note_bad_line(line: int, column: int, byte: str) -> None:
        bad_lines[line] = (column, byte)

    collector: Any = problems  # the reader of task files only calls `refuse`
    try:
        lines = Lines(read_lines(path, None, note_bad_line))
        delimiter = "\t" if ending_of(path) == ".tsv" else find_delimiter(lines.find_header())
        for start, end, record in read_records(lines, delimiter, collector):
            bad = [line for line in range(start, end + 1) if line in bad_lines]
            if bad:
                column, byte = bad_lines[bad[0]]
                what = f"the line is not {encoding_name(None)}"
                problems.refuse(bad[0], what, column=column, **bad_byte_details(byte))
            else:
                yield start, record
    except FileFault as fault:
        problems.refuse(fault.line, fault.what, got=fault.got, expected=fault.expected, todo=fault.todo)


def find_delimiter(header: str) -> str:
    """Return the delimiter with which the header has most of the known columns, then most fields."""

    def count_columns(delimiter: str) -> tuple[int, int]:
        try:
            fields = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:  # it is refused when it is read
            return 0, 0
        return len({column_name(name) for name in fields} & set(COLUMNS)), len(fields)

    return max(DELIMITERS, key=count_columns)


def column_name(name: str) -> str:
    """Return a column name in the form in which names are compared."""
    return name.strip().casefold()


def make_scores(rows: Rows, problems: Problems, kind: str | None, duplicates: str) -> TransferScores:
    """Return the scores of a table, or raise all of its problems."""
    found = read_table(rows, problems)
    kind = kind or found.kind or "other"
    if not found.names and not problems.n_all:
        problems.refuse(None, "the file has no scores", expected=FORMS)
    check_rows(found, kind, duplicates, problems)
    if problems.n_all:
        raise ScoresError(sorted(problems.kept, key=lambda problem: problem.line or 0), problems.n_all)
    columns: dict[str, Any] = {
        name: np.array(values, dtype=np.float64 if name in NUMBERS else np.int64)
        for name, values in found.columns.items()
    }
    return TransferScores(tuple(found.names), **columns, kind=kind, duplicates=duplicates)


def read_table(rows: Rows, problems: Problems) -> Found:
    """Read a table in whichever form it has."""
    line, header = next(rows, (0, []))
    if not header and not problems.n_all:
        problems.refuse(None, "the file is empty", expected=FORMS)
    if problems.n_all:  # of the header: the next record would be taken for it
        list(rows)
        return Found()
    lowered = [column_name(name) for name in header]
    missing = [column for column in NEEDED if column not in lowered]
    if not missing:
        return read_long(line, lowered, rows, problems)
    first = next(rows, None)
    looks_square = first is not None and first[1][0] in header[1:]
    if len(missing) < len(NEEDED) and not looks_square:
        for column in missing:
            nearest = nearest_name(column, header)
            problems.refuse(
                line,
                f"missing column {quote(column)}",
                got=f"columns {', '.join(map(quote, header[:12]))}",
                expected=FORMS,
                todo=f"did you mean {quote(nearest)}?" if nearest else None,
            )
        return Found()
    if len(header) == 1:
        problems.refuse(line, "the header has only one field", got=quote(header[0]), expected=FORMS)
        return Found()
    return read_square(line, header, [] if first is None else [first, *rows], problems)


def check_header(line: int, header: Sequence[str], problems: Problems) -> None:
    """Report columns that cannot be there together, or not alone."""
    for column in COLUMNS:
        if header.count(column) > 1:
            problems.refuse(line, f"the column {quote(column)} is there {header.count(column)} times")
    if all(column in header for column in COUNTS):
        problems.refuse(line, "the columns 'n' and 'n_examples' are both there", expected="one of them")
    halves = [column for column in HALVES if column in header]
    if len(halves) == 1:
        problems.refuse(
            line,
            f"of the two columns of halves only {quote(halves[0])} is there",
            expected=" and ".join(map(quote, HALVES)),
            todo="give both, or neither",
        )


def read_long(line: int, header: list[str], rows: Rows, problems: Problems) -> Found:
    """Read one score per row."""
    check_header(line, header, problems)
    if problems.n_all:
        return Found()
    place = {"n_examples" if name in COUNTS else name: header.index(name) for name in header}
    present = [name for name in ("score", "n_examples", "standard_error", *HALVES) if name in place]
    found = Found(columns={name: [] for name in ("source", "target", *present)})
    sources: dict[str, None] = {}
    seen: dict[str, None] = {}
    ends: list[tuple[str, str]] = []
    for line, cells in rows:
        n_before = problems.n_all
        if refuse_ragged(line, cells, len(header), problems):
            continue
        source, target = cells[place["source"]], cells[place["target"]]
        for role, name in (("source", source), ("target", target)):
            if name not in seen and check_name(line, role, name, problems):
                seen[name] = None
        if "kind" in place:
            check_kind(line, cells[place["kind"]], found, problems)
        score = cells[place["score"]].strip()
        is_measured = score.casefold() not in NOT_MEASURED and not (source == target and not score)
        values = [parse_cell(line, name, cells[place[name]], problems) for name in present if is_measured]
        if problems.n_all == n_before:
            sources.setdefault(source)
            if is_measured:
                ends.append((source, target))
                found.line.append(line)
                for name, value in zip(present, values, strict=True):
                    found.columns[name].append(value)
    found.names = {name: number for number, name in enumerate({**sources, **seen})}
    found.columns["source"] = [found.names[source] for source, _ in ends]
    found.columns["target"] = [found.names[target] for _, target in ends]
    return found


def read_square(line: int, header: list[str], rows: Iterable[tuple[int, Cells]], problems: Problems) -> Found:
    """Read a square table with names."""
    names = header[1:]
    for place, name in enumerate(names):
        if name in names[:place]:
            problems.refuse(line, "a column name is there twice", got=quote(name), expected="unique names")
        else:
            check_name(line, "column", name, problems)
    if problems.n_all:
        return Found()
    found = Found({name: number for number, name in enumerate(names)}, columns={name: [] for name in NEEDED})
    line_of: dict[str, int] = {}
    for line, cells in rows:
        source = cells[0]
        if source in line_of:
            what = f"a row name is there twice: {problems.unit} {line_of[source]} has it too"
            problems.refuse(line, what, got=quote(source), expected="unique names")
        elif source not in found.names:
            problems.refuse(line, "a row name is not a column name", got=quote(source), expected=FORMS)
        elif not refuse_ragged(line, cells, len(header), problems):
            read_cells(line, cells, found, problems)
        line_of.setdefault(source, line)
    for name in names:
        if name not in line_of:
            problems.refuse(None, "a column name is not a row name", got=quote(name), expected=FORMS)
    return found


def read_cells(line: int, cells: Cells, found: Found, problems: Problems) -> None:
    """Read one row of a square table."""
    for target, cell in zip(found.names, cells[1:], strict=True):
        if cell.strip() and cell.strip().casefold() not in NOT_MEASURED:
            score = parse_cell(line, f"score for {quote(target)}", cell, problems)
            entry = found.names[cells[0]], found.names[target], score
            found.line.append(line)
            for name, value in zip(NEEDED, entry, strict=True):
                found.columns[name].append(value)


def refuse_ragged(line: int, cells: Cells, width: int, problems: Problems) -> bool:
    """Report a row with more or fewer fields than the header."""
    if len(cells) == width:
        return False
    problems.refuse(
        line,
        "ragged row: its number of fields is not that of the header",
        got=f"{len(cells)} fields",
        expected=f"{width}",
        todo="put quotes around a field that holds the delimiter or a quote",
    )
    return True


def check_name(line: int, role: str, name: str, problems: Problems) -> bool:
    """Report a cell that is not the name of a task."""
    if not is_task_name(name):
        problems.refuse(line, f"the {role} has no name", got=quote(name), expected="the name of a task")
        return False
    return True


def check_kind(line: int, kind: str, found: Found, problems: Problems) -> None:
    """Report a kind that is unknown or not that of the rows before."""
    if kind not in KINDS:
        problems.refuse(line, "unknown kind of score", got=quote(kind), expected=", ".join(KINDS))
    elif found.kind not in (None, kind):
        problems.refuse(line, "scores of two kinds in one file", got=quote(kind), expected=quote(found.kind))
    else:
        found.kind = kind


def parse_cell(line: int, column: str, cell: str, problems: Problems) -> float:
    """Return the number in a cell; report what cannot be used."""
    text = cell.strip()
    if column == "n_examples" and (not text or text.casefold() in NOT_MEASURED):
        return 0  # not known
    try:
        number = math.nan if "_" in text else float(text)  # Python accepts 1_000; no other program does
    except ValueError:
        number = math.nan
    todo: str | None = None
    if column == "n_examples":
        if 0 <= number <= MAX_EXAMPLES and number.is_integer():
            return int(number)
        what, expected = "the number of examples is not a whole number, 0 or more", "a number such as 120"
    elif math.isnan(number):
        what, expected = f"the {column} is not a number", "a number such as 0.75"
        if not text:
            what = f"missing {column}"
            or_column = {"standard_error": " or the column", **dict.fromkeys(HALVES, " or both columns")}
            todo = "fill it in, or leave out the row" + or_column.get(column, "")
        elif re.fullmatch(r"-?\d*,\d+", text):
            todo = "write a point, not a comma, before the decimals"
    elif abs(number) > MAX_SCORE:
        what, expected = f"the {column} is not a finite number", "a finite number"
    elif column == "standard_error" and number < 0:
        what, expected = "a standard error cannot be negative", "0 or more"
    else:
        return number
    problems.refuse(line, what, got=quote(cell), expected=expected, todo=todo)
    return 0


def check_rows(found: Found, kind: str, duplicates: str, problems: Problems) -> None:
    """Report what only shows when all rows are there."""
    scores = found.columns.get("score", [])
    first_of: dict[tuple[int, int], int] = {}
    for place, line in enumerate(found.line):
        if kind == "accuracy" and not 0 <= scores[place] <= 1:
            expected = "from 0 to 1, or another kind of score"
            problems.refuse(
                line, "an accuracy is out of its range", got=f"{scores[place]}", expected=expected
            )
        ends = found.columns["source"][place], found.columns["target"][place]
        first = first_of.setdefault(ends, place)
        if first != place and duplicates == "error":
            names = list(found.names)
            problems.refuse(
                line,
                f"the pair {quote(names[ends[0]])} → {quote(names[ends[1]])} has a score already, in "
                f"{problems.unit} {found.line[first]}",
                got=f"{scores[first]} and {scores[place]}",
                expected="one score per pair",
                todo='leave out all but one, or average them with duplicates="average"',
            )


def write_scores(scores: TransferScores, path: str | Path, *, owner_only: bool = False) -> None:
    """Write scores to a CSV file, one per row, so that `read_scores` reads them back exactly.

    A task that is the source of no score has a row of its own without a score, to keep its position. The file
    is written completely or not at all. Names are written as they are, in quotes: a program that takes a cell
    beginning with ``=`` for a formula will take such a name for one.

    Parameters
    ----------
    scores
        The scores.
    path
        The file.
    owner_only
        Whether only its owner may read the file.
    """
    stream = io.StringIO(newline="")
    # Names in quotes, numbers as Python writes them: with all the digits that they need.
    writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    names, rows = make_rows(scores, blank="")
    writer.writerow("n" if name == "n_examples" else name for name in names)
    writer.writerows(rows)
    write_file(path, stream.getvalue().encode(), owner_only=owner_only)


def make_frame(scores: TransferScores) -> pd.DataFrame:
    """Return the scores as a pandas frame; see `TransferScores.to_frame`."""
    import pandas as pd

    names, rows = make_rows(scores, blank=math.nan)
    return pd.DataFrame.from_records(rows, columns=names)


def make_rows(scores: TransferScores, *, blank: object) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the column names and the rows, including those of tasks that are the source of no score."""
    columns = scores.columns
    kind = () if scores.kind == "other" else (scores.kind,)
    without = np.setdiff1d(np.arange(scores.n_tasks), scores.source)
    names = scores.task_names
    lists = [column.tolist() for name, column in columns.items() if name not in NEEDED[:2]]
    rows: list[tuple[object, ...]] = [
        (names[source], names[target], *values, *kind)
        for source, target, *values in zip(
            scores.source.tolist(), scores.target.tolist(), *lists, strict=True
        )
    ]
    rows += [(names[task], names[task], *(blank,) * len(lists), *kind) for task in without]
    order = np.argsort(np.concatenate([scores.source, without]), kind="stable")
    return [*columns, *(["kind"] if kind else [])], [rows[place] for place in order]
