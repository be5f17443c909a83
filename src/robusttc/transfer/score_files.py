"""Transfer scores in files and pandas frames: one score per row, or a square table with names.

All problems of a file are collected and reported with their lines.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.data import MISSING, ProblemList, Table, normalise_name, open_tables
from robusttc.errors import Problem, ScoresError, quote, suggest
from robusttc.files import write_file
from robusttc.params import Choice, Nothing, check_param
from robusttc.transfer.score_columns import HALVES, find_faults, is_task_name
from robusttc.transfer.scores import DUPLICATES, KINDS, TransferScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["make_frame", "read_frame", "read_scores", "write_scores"]

NEEDED = ("source", "target", "score")
NUMBERS = ("score", "n_examples", "standard_error", *HALVES)
COLUMNS = (*NEEDED, "n", *NUMBERS[1:], "kind")  # "n" is another name of "n_examples"
NOT_MEASURED = {"nan", "na"}  # as NumPy, pandas and R write it
FORMS = (
    "a file of scores has the columns source, target and score, or is a square table with the same names in "
    "its first row and its first column"
)


def read_scores(path: str | Path, *, kind: str | None = None, duplicates: str = "error") -> TransferScores:
    r"""Read scores from a file: CSV, TSV, JSON Lines, Parquet or Excel.

    One score per row: a header with the columns ``source``, ``target`` and ``score``, in any order and case,
    and where they are known ``n`` (or ``n_examples``; an empty cell is 0, not known), ``standard_error``,
    ``first_half`` and ``second_half`` (both or neither), and ``kind`` (the same in all rows); other columns
    are ignored. Tasks are in the order in which they first occur as a source, then those that never do. A row
    of a task with itself may have an empty score: it only says that there is such a task.

    Or a square table: the first row and the first column have the same names, rows are sources and columns
    targets, an empty cell is a pair that was not measured. Tasks are in the order of the first row.

    Cells that hold ``NaN``, ``NA`` or null are pairs that were not measured. Fields of a CSV file are
    separated by commas, semicolons, tabs or bars; the text is UTF-8, or UTF-16 with a byte-order mark; a name
    that ends in ``.gz`` is unpacked.

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
    return ScoreReader(str(path), kind, duplicates).read(Path(path))


def read_frame(frame: pd.DataFrame, *, kind: str | None = None, duplicates: str = "error") -> TransferScores:
    """Return the scores of a pandas frame; see `TransferScores.from_frame`."""
    is_long = set(NEEDED) <= {normalise_name(str(name)) for name in frame.columns}
    return ScoreReader("DataFrame", kind, duplicates).read(frame if is_long else frame.reset_index(names=""))


class ScoreReader:
    """Reads the scores of one file or frame, and collects what is wrong with it."""

    def __init__(self, path: str, kind: str | None, duplicates: str) -> None:
        check_param("kind", kind, Choice(*KINDS), Nothing())
        check_param("duplicates", duplicates, Choice(*DUPLICATES))
        self.path, self.kind, self.duplicates = path, kind, duplicates
        self.kind_of_file: str | None = None
        self.problems = ProblemList()
        self.unit = "line"
        self.names: list[str] = []
        self.numbers: list[str] = ["score"]  # the columns of numbers that the table has
        self.lines: list[int] = []
        self.ends: list[tuple[str, str]] = []  # source and target
        self.values: list[list[float]] = []  # one list of `numbers` per score

    def read(self, source: Path | pd.DataFrame) -> TransferScores:
        """Return the scores, or raise all problems."""
        with self.problems.collecting(self.path):
            for table in open_tables(source, self.problems, known=COLUMNS):
                self.unit = table.unit
                self.read_table(table)
                break  # of a workbook the first sheet
        kind = self.kind or self.kind_of_file or "other"
        if not self.names and not self.problems.n_all:
            self.refuse(None, "the file has no scores", expected=FORMS)
        columns: dict[str, Any] = dict(
            zip(self.numbers, np.array(self.values).reshape(-1, len(self.numbers)).T, strict=True)
        )
        self.check_scores(columns, kind)
        if self.problems.n_all:
            first = sorted(self.problems.first, key=lambda problem: problem.line or 0)
            raise ScoresError(first, self.problems.n_all)
        if "n_examples" in columns:
            columns["n_examples"] = columns["n_examples"].astype(np.int64)
        number_of = {name: number for number, name in enumerate(self.names)}
        columns["source"] = [number_of[source] for source, _ in self.ends]
        columns["target"] = [number_of[target] for _, target in self.ends]
        return TransferScores(self.names, **columns, kind=kind, duplicates=self.duplicates)

    def refuse(self, line: int | None, what: str, **details: Any) -> bool:
        """Add a problem; return False: what has one is not good."""
        self.problems.add(Problem(self.path, what, line, unit=self.unit, **details))
        return False

    def read_table(self, table: Table) -> None:
        """Read a table in whichever form it has."""
        header, names = table.columns, [normalise_name(name) for name in table.columns]
        missing = [column for column in NEEDED if column not in names]
        if not header:
            self.refuse(None, "the file is empty", expected=FORMS)
        elif not missing:
            if self.check_header(table.line, names):
                self.read_long(table, dict(zip(names, header, strict=True)))
        elif len(header) == 1:
            self.refuse(table.line, "the header has only one field", got=quote(header[0]), expected=FORMS)
        else:
            rows = ((line, [as_text(cell) for cell in cells]) for line, cells in table.rows(header))
            first = list(islice(rows, 1))
            if len(missing) == len(NEEDED) or (first and first[0][1][0] in header[1:]):
                self.read_square(table, chain(first, rows))
                return
            for column in missing:
                self.refuse(
                    table.line,
                    f"missing column {quote(column)}",
                    got=f"columns {', '.join(map(quote, header[:12]))}",
                    expected=FORMS,
                    todo=suggest(column, header),
                )

    def check_header(self, line: int | None, names: list[str]) -> bool:
        """Report columns that cannot be there together, or not alone; return whether there are none."""
        n_before = self.problems.n_all
        for column in COLUMNS:
            if names.count(column) > 1:
                self.refuse(line, f"the column {quote(column)} is there {names.count(column)} times")
        if "n" in names and "n_examples" in names:
            self.refuse(line, "the columns 'n' and 'n_examples' are both there", expected="one of them")
        halves = [column for column in HALVES if column in names]
        if len(halves) == 1:
            self.refuse(
                line,
                f"of the two columns of halves only {quote(halves[0])} is there",
                expected=" and ".join(map(quote, HALVES)),
                todo="give both, or neither",
            )
        return self.problems.n_all == n_before

    def read_long(self, table: Table, column_of: dict[str, str]) -> None:
        """Read one score per row."""
        if "n" in column_of:
            column_of["n_examples"] = column_of.pop("n")
        self.numbers = [name for name in NUMBERS if name in column_of]
        sources: dict[str, None] = {}
        targets: dict[str, None] = {}
        wanted = ["source", "target", "kind", *self.numbers]
        for line, cells in table.rows([column_of.get(name) for name in wanted]):
            source, target, kind, *texts = (as_text(cell) for cell in cells)
            is_good = self.check_name(line, "source", source) & self.check_name(line, "target", target)
            if "kind" in column_of:
                is_good &= self.check_kind(line, kind)
            if is_measured(texts[0]) or (not texts[0].strip() and source != target):
                values = self.parse_cells(line, texts)
                is_good &= values is not None
                self.add(line, source, target, values if is_good else None)
            if is_good:
                sources[source] = targets[target] = None
        self.names = list(sources | targets)

    def read_square(self, table: Table, rows: Iterable[tuple[int, list[str]]]) -> None:
        """Read a square table with names."""
        names = table.columns[1:]
        twice = dict.fromkeys(name for name in names if table.columns.count(name) > 1)
        for name in twice:
            self.refuse(table.line, "a column name is there twice", got=quote(name), expected="unique names")
        if not all([not twice, *(self.check_name(table.line, "column", name) for name in names)]):
            return
        self.names = list(names)
        line_of: dict[str, int] = {}
        for line, (source, *cells) in rows:
            if source in line_of:
                what = f"a row name is there twice: {self.unit} {line_of[source]} has it too"
                self.refuse(line, what, got=quote(source), expected="unique names")
            elif source not in names:
                self.refuse(line, "a row name is not a column name", got=quote(source), expected=FORMS)
            else:
                for target, cell in zip(names, cells, strict=True):
                    if is_measured(cell):
                        values = self.parse_cells(line, [cell], what=f"score for {quote(target)}")
                        self.add(line, source, target, values)
            line_of.setdefault(source, line)
        for name in names if not self.problems.n_rows else ():  # its row may be one that cannot be read
            if name not in line_of:
                self.refuse(None, "a column name is not a row name", got=quote(name), expected=FORMS)

    def add(self, line: int, source: str, target: str, values: list[float] | None) -> None:
        """Add a score; None is one that cannot be used."""
        if values is not None:
            self.lines.append(line)
            self.ends.append((source, target))
            self.values.append(values)

    def check_name(self, line: int | None, role: str, name: str) -> bool:
        """Report a cell that is not the name of a task; return whether it is one."""
        return is_task_name(name) or self.refuse(
            line, f"the {role} has no name", got=quote(name), expected="the name of a task"
        )

    def check_kind(self, line: int, kind: str) -> bool:
        """Report a kind that is unknown or not that of the rows before; return whether it can be used."""
        if kind not in KINDS:
            return self.refuse(line, "unknown kind of score", got=quote(kind), expected=", ".join(KINDS))
        if self.kind_of_file not in (None, kind):
            expected = quote(self.kind_of_file)
            return self.refuse(line, "scores of two kinds in one file", got=quote(kind), expected=expected)
        self.kind_of_file = kind
        return True

    def parse_cells(self, line: int, texts: list[str], *, what: str = "") -> list[float] | None:
        """Return the numbers of a score; report cells that have none, and return None."""
        values = [self.parse_cell(line, *cell, what) for cell in zip(self.numbers, texts, strict=True)]
        numbers = [value for value in values if value is not None]
        return numbers if len(numbers) == len(values) else None

    def parse_cell(self, line: int, column: str, cell: str, what: str) -> float | None:
        text, is_count = cell.strip(), column == "n_examples"
        if is_count and not is_measured(text):
            return 0  # not known
        try:
            number = math.nan if "_" in text else float(text)  # Python accepts 1_000; no other program does
        except ValueError:
            number = math.nan
        if number.is_integer() or not (is_count or math.isnan(number)):
            return number
        if not text:
            todo = "fill it in, or leave out the row" + (" or the column" if column != "score" else "")
            self.refuse(line, f"missing {what or column}", todo=todo)
            return None
        has_comma = re.fullmatch(r"-?\d*,\d+", text)
        self.refuse(
            line,
            f"the {what or column} is not a {'whole ' if is_count else ''}number",
            got=quote(cell),
            expected=f"a number such as {120 if is_count else 0.75}",
            todo="write a point, not a comma, before the decimals" if has_comma else None,
        )
        return None

    def check_scores(self, columns: dict[str, Any], kind: str) -> None:
        """Report what only shows when all rows are there: values out of range, and duplicates."""
        for name, places, expected in find_faults(columns, len(self.names), kind):
            for place in places:
                got = f"{columns[name][place]:g}"
                self.refuse(self.lines[place], f"the {name} is out of its range", got=got, expected=expected)
        first_of: dict[tuple[str, str], int] = {}
        for place, (source, target) in enumerate(self.ends if self.duplicates == "error" else ()):
            first = first_of.setdefault((source, target), place)
            if first != place:
                self.refuse(
                    self.lines[place],
                    f"the pair {quote(source)} → {quote(target)} has a score already, in "
                    f"{self.unit} {self.lines[first]}",
                    got=f"{columns['score'][first]} and {columns['score'][place]}",
                    expected="one score per pair",
                    todo='leave out all but one, or average them with duplicates="average"',
                )


def as_text(cell: object) -> str:
    """Return a cell as a CSV file would have it; null is a pair that was not measured."""
    return "nan" if cell is None else "" if cell is MISSING else str(cell)


def is_measured(cell: str) -> bool:
    """Return whether a cell holds anything."""
    text = cell.strip()
    return bool(text) and text.casefold() not in NOT_MEASURED


def write_scores(scores: TransferScores, path: str | Path, *, owner_only: bool) -> None:
    """Write scores to a CSV file; see `TransferScores.write_csv`."""
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
    columns = {name: column.tolist() for name, column in scores.columns.items()}
    kind = {} if scores.kind == "other" else {"kind": scores.kind}
    names, blanks = scores.task_names, [blank] * (len(columns) - 2)
    rows: list[tuple[int, tuple[object, ...]]] = [
        (source, (names[source], names[target], *values, *kind.values()))
        for source, target, *values in zip(*columns.values(), strict=True)
    ]
    without = set(range(scores.n_tasks)).difference(columns["source"])
    rows += [(task, (names[task], names[task], *blanks, *kind.values())) for task in without]
    rows.sort(key=itemgetter(0))
    return [*columns, *kind], [row for _, row in rows]
