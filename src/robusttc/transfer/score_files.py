"""Transfer scores in files and pandas frames: one score per row, or a square table with names.

All problems of a file are collected and reported with their lines.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.data import MISSING, ProblemList, Table, normalise_name, open_tables
from robusttc.errors import Problem, ScoresError, nearest_name, quote
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
FORMS = (
    "a file of scores has the columns source, target and score, or is a square table with the same names in "
    "its first row and its first column"
)

Refuse = Callable[..., None]  # takes the line, what is wrong, and further fields of a `Problem`


@dataclass
class Found:
    """Scores as they are read, with the line of each; tasks are numbered in the order of `names`."""

    names: dict[str, int] = field(default_factory=dict)
    line: list[int] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    kind: str | None = None
    unit: str = "line"
    without_row: list[str] = field(default_factory=list)  # tasks that a square table only has as a column


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
    return read_source(Path(path), str(path), kind, duplicates)


def read_frame(frame: pd.DataFrame, *, kind: str | None = None, duplicates: str = "error") -> TransferScores:
    """Return the scores of a pandas frame; see `TransferScores.from_frame`."""
    is_long = set(NEEDED) <= {normalise_name(str(name)) for name in frame.columns}
    return read_source(frame if is_long else frame.reset_index(names=""), "DataFrame", kind, duplicates)


def read_source(source: Path | pd.DataFrame, path: str, kind: str | None, duplicates: str) -> TransferScores:
    """Return the scores of a file or frame, or raise all of its problems."""
    check_param("kind", kind, Choice(*KINDS), Nothing())
    check_param("duplicates", duplicates, Choice(*DUPLICATES))
    problems = ProblemList()
    found = Found()

    def refuse(line: int | None, what: str, **details: Any) -> None:
        problems.add(Problem(path, what, line, unit=found.unit, **details))

    with problems.collecting(path):
        for table in open_tables(source, problems, known=COLUMNS):
            found.unit = table.unit
            read_table(table, found, refuse)
            break  # of a workbook the first sheet
    kind = kind or found.kind or "other"
    if not found.names and not problems.n_all:
        refuse(None, "the file has no scores", expected=FORMS)
    for name in found.without_row if not problems.n_rows else []:  # its row may be one that cannot be read
        refuse(None, "a column name is not a row name", got=quote(name), expected=FORMS)
    if found.names:
        check_rows(found, kind, duplicates, refuse)
    if problems.n_all:
        raise ScoresError(sorted(problems.first, key=lambda problem: problem.line or 0), problems.n_all)
    columns: dict[str, Any] = {
        name: np.array(values, dtype=np.float64 if name in NUMBERS else np.int64)
        for name, values in found.columns.items()
    }
    return TransferScores(tuple(found.names), **columns, kind=kind, duplicates=duplicates)


def read_table(table: Table, found: Found, refuse: Refuse) -> None:
    """Read a table in whichever form it has."""
    header = table.columns
    if not header:
        refuse(None, "the file is empty", expected=FORMS)
        return
    lowered = [normalise_name(name) for name in header]
    missing = [column for column in NEEDED if column not in lowered]
    if not missing:
        read_long(table, found, refuse)
        return
    rows = ((line, [as_text(cell) for cell in cells]) for line, cells in table.rows(header))
    first = next(rows, None)
    looks_square = first is not None and first[1][0] in header[1:]
    if len(missing) < len(NEEDED) and not looks_square:
        for column in missing:
            nearest = nearest_name(column, header)
            refuse(
                table.line,
                f"missing column {quote(column)}",
                got=f"columns {', '.join(map(quote, header[:12]))}",
                expected=FORMS,
                todo=f"did you mean {quote(nearest)}?" if nearest else None,
            )
    elif len(header) == 1:
        refuse(table.line, "the header has only one field", got=quote(header[0]), expected=FORMS)
    else:
        read_square(table, chain([] if first is None else [first], rows), found, refuse)


def as_text(cell: object) -> str:
    """Return a cell as a CSV file would have it; null is a pair that was not measured."""
    return "nan" if cell is None else "" if cell is MISSING else str(cell)


def check_header(line: int | None, header: Sequence[str], refuse: Refuse) -> bool:
    """Report columns that cannot be there together, or not alone; return whether there are none."""
    n_bad = 0
    for column in COLUMNS:
        if header.count(column) > 1:
            refuse(line, f"the column {quote(column)} is there {header.count(column)} times")
            n_bad += 1
    if all(column in header for column in COUNTS):
        refuse(line, "the columns 'n' and 'n_examples' are both there", expected="one of them")
        n_bad += 1
    halves = [column for column in HALVES if column in header]
    if len(halves) == 1:
        refuse(
            line,
            f"of the two columns of halves only {quote(halves[0])} is there",
            expected=" and ".join(map(quote, HALVES)),
            todo="give both, or neither",
        )
        n_bad += 1
    return n_bad == 0


def read_long(table: Table, found: Found, refuse: Refuse) -> None:
    """Read one score per row."""
    header = [normalise_name(name) for name in table.columns]
    if not check_header(table.line, header, refuse):
        return
    column_of = {
        "n_examples" if name in COUNTS else name: table.columns[header.index(name)] for name in header
    }
    numbers = [name for name in ("score", "n_examples", "standard_error", *HALVES) if name in column_of]
    found.columns = {name: [] for name in ("source", "target", *numbers)}
    sources: dict[str, None] = {}
    seen: dict[str, None] = {}
    ends: list[tuple[str, str]] = []
    wanted = ["source", "target", "kind", *numbers]
    for line, cells in table.rows([column_of.get(name) for name in wanted]):
        source, target, kind, *texts = (as_text(cell) for cell in cells)
        is_good = True
        for role, name in (("source", source), ("target", target)):
            if name not in seen:
                is_good &= check_name(line, role, name, refuse)
                seen.update({name: None} if is_good else {})
        if "kind" in column_of:
            is_good &= check_kind(line, kind, found, refuse)
        score = texts[0].strip()
        if score.casefold() not in NOT_MEASURED and (score or source != target):
            values = [parse_cell(line, name, text, refuse) for name, text in zip(numbers, texts, strict=True)]
            if not is_good or None in values:
                continue
            ends.append((source, target))
            found.line.append(line)
            for name, value in zip(numbers, values, strict=True):
                found.columns[name].append(value)
        if is_good:
            sources.setdefault(source)
    found.names = {name: number for number, name in enumerate({**sources, **seen})}
    found.columns["source"] = [found.names[source] for source, _ in ends]
    found.columns["target"] = [found.names[target] for _, target in ends]


def read_square(table: Table, rows: Iterable[tuple[int, list[str]]], found: Found, refuse: Refuse) -> None:
    """Read a square table with names."""
    names = table.columns[1:]
    twice = [name for name in names if table.columns.count(name) > 1]
    for name in dict.fromkeys(twice):
        refuse(table.line, "a column name is there twice", got=quote(name), expected="unique names")
    unusable = [name for name in names if not check_name(table.line, "column", name, refuse)]
    if twice or unusable:
        return
    found.names = {name: number for number, name in enumerate(names)}
    found.columns = {name: [] for name in NEEDED}
    line_of: dict[str, int] = {}
    for line, (source, *cells) in rows:
        if source in line_of:
            what = f"a row name is there twice: {found.unit} {line_of[source]} has it too"
            refuse(line, what, got=quote(source), expected="unique names")
        elif source not in found.names:
            refuse(line, "a row name is not a column name", got=quote(source), expected=FORMS)
        else:
            read_cells(line, source, cells, found, refuse)
        line_of.setdefault(source, line)
    found.without_row = [name for name in names if name not in line_of]


def read_cells(line: int, source: str, cells: Sequence[str], found: Found, refuse: Refuse) -> None:
    """Read one row of a square table."""
    for target, cell in zip(found.names, cells, strict=True):
        if cell.strip() and cell.strip().casefold() not in NOT_MEASURED:
            score = parse_cell(line, f"score for {quote(target)}", cell, refuse)
            if score is not None:
                found.line.append(line)
                entry = found.names[source], found.names[target], score
                for name, value in zip(NEEDED, entry, strict=True):
                    found.columns[name].append(value)


def check_name(line: int | None, role: str, name: str, refuse: Refuse) -> bool:
    """Report a cell that is not the name of a task; return whether it is one."""
    if not is_task_name(name):
        refuse(line, f"the {role} has no name", got=quote(name), expected="the name of a task")
        return False
    return True


def check_kind(line: int, kind: str, found: Found, refuse: Refuse) -> bool:
    """Report a kind that is unknown or not that of the rows before; return whether it can be used."""
    if kind not in KINDS:
        refuse(line, "unknown kind of score", got=quote(kind), expected=", ".join(KINDS))
    elif found.kind not in (None, kind):
        refuse(line, "scores of two kinds in one file", got=quote(kind), expected=quote(found.kind))
    else:
        found.kind = kind
        return True
    return False


def parse_cell(line: int, column: str, cell: str, refuse: Refuse) -> float | None:
    """Return the number in a cell; report what cannot be used, and return None."""
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
    refuse(line, what, got=quote(cell), expected=expected, todo=todo)
    return None


def check_rows(found: Found, kind: str, duplicates: str, refuse: Refuse) -> None:
    """Report what only shows when all rows are there."""
    names, scores = list(found.names), found.columns.get("score", [])
    first_of: dict[tuple[int, int], int] = {}
    for place, line in enumerate(found.line):
        if kind == "accuracy" and not 0 <= scores[place] <= 1:
            expected = "from 0 to 1, or another kind of score"
            refuse(line, "an accuracy is out of its range", got=f"{scores[place]}", expected=expected)
        ends = found.columns["source"][place], found.columns["target"][place]
        first = first_of.setdefault(ends, place)
        if first != place and duplicates == "error":
            refuse(
                line,
                f"the pair {quote(names[ends[0]])} → {quote(names[ends[1]])} has a score already, in "
                f"{found.unit} {found.line[first]}",
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
