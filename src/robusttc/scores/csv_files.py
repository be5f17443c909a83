"""Scores as CSV files, both ways: one score a row, or a square table with names.

Everything that is wrong with a file is looked for and told with its line.
"""

from __future__ import annotations

import csv
import os
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import ScoresError, nearest_name, quote
from robusttc.files import open_private
from robusttc.scores.checks import DUPLICATES, HALVES, KINDS, check_choice
from robusttc.scores.csv_cells import Found, Rows, take_count, take_error, take_kind, take_name, take_number
from robusttc.scores.transfer_scores import TransferScores

__all__ = ["read_scores", "write_scores"]

NEEDED = ("source", "target", "score")
COUNTS = ("n", "n_examples")  # two names of one column
OPTIONAL = (*COUNTS, "standard_error", *HALVES, "kind")
FORMS = (
    "a file of scores has the columns source, target and score, or is a square table with the same names in "
    "its first row and its first column"
)
BAD_BYTE = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of a byte that is not UTF-8
ROWS_A_BLOCK = 2**16


def read_scores(path: str | Path, *, kind: str | None = None, duplicates: str = "error") -> TransferScores:
    r"""Read scores from a CSV file in UTF-8.

    One score a row: a header with the columns ``source``, ``target`` and ``score``, in any order, and where
    they are known ``n`` (or ``n_examples``; an empty cell is 0, not known), ``standard_error``,
    ``first_half`` and ``second_half`` (both or neither), and ``kind`` (the same in all rows); other columns
    are not looked at. Tasks are in the order in which they first occur as a source, then those that never do.
    A row of a task with itself may have an empty score: it only says that there is such a task.

    Or a square table: the first row and the first column have the same names, rows are sources and columns
    targets, an empty cell is a pair that was not measured. Tasks are in the order of the first row. A file
    whose header has the three columns above is not taken for one.

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
    if kind is not None:
        check_choice("kind", kind, KINDS)
    check_choice("duplicates", duplicates, DUPLICATES)
    found = Found(str(path))
    rows = Rows()
    try:
        with Path(path).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            rows = read_rows(Records(stream, found), found)
    except OSError as error:
        found.add("the file cannot be read", got=error.strerror or str(error))
    kind = kind or rows.kind or "other"
    if not rows.number_of and not found.n_problems:
        found.add("the file has no scores", expected=FORMS)
    check_rows(rows, kind, duplicates, found)
    if found.n_problems:
        found.kept.sort(key=lambda problem: problem.line or 0)
        raise ScoresError(found.kept, found.n_problems)
    first_half, second_half = (None, None) if rows.halves is None else map(np.array, rows.halves)
    return TransferScores(
        tuple(rows.number_of),
        source=np.array(rows.source, dtype=np.int64),
        target=np.array(rows.target, dtype=np.int64),
        score=np.array(rows.score),
        n_examples=None if rows.n_examples is None else np.array(rows.n_examples, dtype=np.int64),
        standard_error=None if rows.standard_error is None else np.array(rows.standard_error),
        first_half=first_half,
        second_half=second_half,
        kind=kind,
        duplicates=duplicates,
    )


class Records:
    """The records of a CSV file, each with its line; what cannot be read is noted and left out."""

    def __init__(self, stream: TextIO, found: Found) -> None:
        self._stream = stream
        self._found = found
        self._last_line = ""
        self._last_bad_line = 0
        # Strict, because the lenient reader takes a stray quote as it comes and shifts the fields in silence.
        self._reader = csv.reader(self._lines(), strict=True)

    def _lines(self) -> Iterator[str]:
        for number, line in enumerate(self._stream, start=1):
            self._last_line = line
            if not line.isascii() and (bad := BAD_BYTE.search(line)):
                self._last_bad_line = number
                got = f"byte 0x{ord(bad[0]) - 0xDC00:02x} at column {bad.start() + 1}"
                self._found.add("the line is not UTF-8", number, got=got, todo="save the file as UTF-8")
            yield line

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while True:
            start = self._reader.line_num + 1
            try:
                record = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                if not self._refuse(start, str(error)):
                    return
            else:
                if record and self._last_bad_line < start:
                    yield start, record

    def _refuse(self, start: int, reason: str) -> bool:
        """Note a record that cannot be read; say whether the next line is one again."""
        if "unexpected end" in reason:
            what = "a quote that is opened in this row is never closed"
        elif "field limit" in reason:
            what = "a field is too long, or a quote that is opened in this row is not closed"
        else:
            what = "the quotes of this row are not right"
        self._found.add(what, start, got=reason, todo="write a quote inside a quoted field twice")
        # Where quotes are not in pairs nobody can tell what is inside of a field: the rest is not readable.
        return self._reader.line_num == start and self._last_line.count('"') % 2 == 0


def read_rows(records: Records, found: Found) -> Rows:
    """Find out which form the file has, and read it."""
    stream = iter(records)
    line, header = next(stream, (0, []))
    if not header and not found.n_problems:
        found.add("the file is empty", expected=FORMS)
    if found.n_problems:  # if it is in the header, what comes behind would be taken for one
        return Rows()
    named = [column for column in NEEDED if column in header]
    if len(named) == len(NEEDED):
        return read_long(line, header, stream, found)
    first = next(stream, None)
    looks_square = first is not None and first[1][0] in header[1:]
    if named and not looks_square:
        refuse_header(line, header, found)
        return Rows()
    if len(header) == 1:
        todo = "put commas between the fields" if re.search("[;\t|]", header[0]) else None
        found.add("the header has only one field", line, got=quote(header[0]), expected=FORMS, todo=todo)
        return Rows()
    return read_square(line, header, ([] if first is None else [first]), stream, found)


def refuse_header(line: int, header: list[str], found: Found) -> None:
    """Note each column that the header should have and has not."""
    for column in NEEDED:
        if column not in header:
            nearest = nearest_name(column, header)
            found.add(
                f"missing column {quote(column)}",
                line,
                got=f"columns {', '.join(map(quote, header[:12]))}",
                expected=FORMS,
                todo=f"did you mean {quote(nearest)}?" if nearest else None,
            )


def check_header(line: int, header: list[str], found: Found) -> None:
    """Note columns of the form with one score a row that cannot be there together, or not alone."""
    for column in (*NEEDED, *OPTIONAL):
        if header.count(column) > 1:
            found.add(f"the column {quote(column)} is there {header.count(column)} times", line)
    if all(column in header for column in COUNTS):
        found.add("the columns 'n' and 'n_examples' are both there", line, expected="one of them")
    halves = [column for column in HALVES if column in header]
    if len(halves) == 1:
        found.add(
            f"of the two columns of halves only {quote(halves[0])} is there",
            line,
            expected=" and ".join(map(quote, HALVES)),
            todo="give both, or neither",
        )


def read_long(line: int, header: list[str], records: Iterable[tuple[int, list[str]]], found: Found) -> Rows:
    """Read one score a row."""
    check_header(line, header, found)
    if found.n_problems:
        return Rows()
    place = {"n" if column in COUNTS else column: header.index(column) for column in header}
    source_at, target_at, score_at = (place[column] for column in NEEDED)
    n_at, error_at, kind_at = (place.get(column, -1) for column in ("n", "standard_error", "kind"))
    first_at, second_at = (place.get(column, -1) for column in HALVES)
    rows = Rows(
        n_examples=array("q") if n_at >= 0 else None,
        standard_error=array("d") if error_at >= 0 else None,
        halves=(array("d"), array("d")) if first_at >= 0 else None,
    )
    sources: dict[int, None] = {}
    for line, record in records:
        n_before = found.n_problems
        if len(record) != len(header):
            refuse_ragged(line, record, len(header), found)
            continue
        source = take_name(line, "source", record[source_at], rows, found)
        target = take_name(line, "target", record[target_at], rows, found)
        if kind_at >= 0:
            take_kind(line, record[kind_at], rows, found)
        if source == target and not record[score_at].strip():
            sources.setdefault(source)
            continue
        score = take_number(line, "score", record[score_at], found)
        n = take_count(line, record[n_at], found) if n_at >= 0 else 0
        error = take_error(line, record[error_at], found) if error_at >= 0 else 0.0
        first = take_number(line, HALVES[0], record[first_at], found) if first_at >= 0 else 0.0
        second = take_number(line, HALVES[1], record[second_at], found) if second_at >= 0 else 0.0
        if found.n_problems == n_before:
            sources.setdefault(source)
            rows.add(line, source, target, score, n, error, (first, second))
    order_by_source(rows, sources)
    return rows


def order_by_source(rows: Rows, sources: Iterable[int]) -> None:
    """Give the tasks new numbers: as they first occur as a source, then the others."""
    names = list(rows.number_of)
    order = [number for number in dict.fromkeys([*sources, *range(len(names))]) if number >= 0]
    new_number = np.empty(len(names), dtype=np.int64)
    new_number[order] = np.arange(len(names))
    rows.number_of = {names[old]: new for new, old in enumerate(order)}
    rows.source = array("q", new_number[np.array(rows.source, dtype=np.int64)].tobytes())
    rows.target = array("q", new_number[np.array(rows.target, dtype=np.int64)].tobytes())


def read_square(
    line: int,
    header: list[str],
    first: list[tuple[int, list[str]]],
    records: Iterable[tuple[int, list[str]]],
    found: Found,
) -> Rows:
    """Read a square table with names."""
    rows = Rows()
    for name in header[1:]:
        if name in rows.number_of:
            found.add("a column name is there twice", line, got=quote(name), expected="unique names")
        else:
            take_name(line, "column", name, rows, found)
    if found.n_problems:
        return Rows()
    line_of_source: dict[str, int] = {}
    for line, record in [*first, *records]:
        name = record[0]
        if name in line_of_source:
            what = f"a row name is there twice: line {line_of_source[name]} has it too"
            found.add(what, line, got=quote(name), expected="unique names")
        elif name not in rows.number_of:
            found.add("a row name is not a column name", line, got=quote(name), expected=FORMS)
        elif len(record) != len(header):
            refuse_ragged(line, record, len(header), found)
        else:
            read_cells(line, header, record, rows, found)
        line_of_source.setdefault(name, line)
    for name in rows.number_of:
        if name not in line_of_source:
            found.add("a column name is not a row name", got=quote(name), expected=FORMS)
    return rows


def read_cells(line: int, header: list[str], record: list[str], rows: Rows, found: Found) -> None:
    """Read one row of a square table."""
    source = rows.number_of[record[0]]
    for name, cell in zip(header[1:], record[1:], strict=True):
        if cell and not cell.isspace():
            n_before = found.n_problems
            score = take_number(line, "score", cell, found, target=name)
            if found.n_problems == n_before:
                rows.add(line, source, rows.number_of[name], score)


def refuse_ragged(line: int, record: list[str], width: int, found: Found) -> None:
    """Note a row with more or fewer fields than the header."""
    found.add(
        "ragged row: its number of fields is not that of the header",
        line,
        got=f"{len(record)} fields",
        expected=f"{width}",
        todo="put quotes around a field that holds a comma or a quote",
    )


def check_rows(rows: Rows, kind: str, duplicates: str, found: Found) -> None:
    """Look for what only shows when all rows are there."""
    score, line = np.array(rows.score), np.array(rows.line, dtype=np.int64)
    if kind == "accuracy":
        for place in np.flatnonzero((score < 0) | (score > 1)):
            expected = "from 0 to 1, or another kind of score"
            found.add(
                "an accuracy is out of its range", int(line[place]), got=f"{score[place]}", expected=expected
            )
    if duplicates == "average":
        return
    names = list(rows.number_of)
    source, target = np.array(rows.source, dtype=np.int64), np.array(rows.target, dtype=np.int64)
    order, first_of_group = group_equal(source * max(len(names), 1) + target)
    for place in np.flatnonzero(first_of_group != np.arange(len(order))):
        entry, first = order[place], order[first_of_group[place]]
        found.add(
            f"the pair {quote(names[source[entry]])} → {quote(names[target[entry]])} has a score already, "
            f"in line {line[first]}",
            int(line[entry]),
            got=f"{score[first]} and {score[entry]}",
            expected="one score a pair",
            todo='leave out all but one, or average them with duplicates="average"',
        )


def group_equal(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort keys; give the order, and for each sorted place the first place with the same key."""
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    starts = np.ones(len(keys), dtype=np.bool_)
    starts[1:] = sorted_keys[1:] != sorted_keys[:-1]
    return order, np.maximum.accumulate(np.where(starts, np.arange(len(keys)), 0))


def write_scores(scores: TransferScores, path: str | Path, *, owner_only: bool = False) -> None:
    """Write scores, one a row, so that `read_scores` gives them back to the letter.

    A task that is the source of no score has a row of its own without a score, to keep its place. The file is
    written beside its place and then moved there whole.

    Parameters
    ----------
    scores
        The scores.
    path
        The file.
    owner_only
        Whether only its owner may read the file.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        opener = open_private if owner_only else None
        with open(beside, "w", encoding="utf-8", newline="", opener=opener) as stream:
            # Names in quotes, numbers as Python writes them: with all the digits that they need.
            writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            for block in make_rows(scores):
                writer.writerows(block)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def make_rows(scores: TransferScores) -> Iterator[Iterable[tuple[object, ...]]]:
    """Make the header and the rows, in blocks."""
    known = {
        "n" if column in COUNTS else column: values
        for column, values in scores.columns.items()
        if column not in NEEDED
    }
    kind = () if scores.kind == "other" else (scores.kind,)
    yield [(*NEEDED, *known, *(["kind"] if kind else []))]
    names = np.array([*scores.task_names, ""], dtype=object)[:-1]
    no_score = np.setdiff1d(np.arange(scores.n_tasks), scores.source)
    order = np.argsort(np.concatenate([scores.source, no_score]), kind="stable")
    for start in range(0, len(order), ROWS_A_BLOCK):
        block = order[start : start + ROWS_A_BLOCK]
        given = block[block < len(scores)]
        columns = [names[scores.source[given]], names[scores.target[given]], scores.score[given]]
        columns += [values[given] for values in known.values()]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        blank = ("",) * (1 + len(known))
        yield [
            (*next(rows), *kind)
            if entry < len(scores)
            else (*(scores.task_names[no_score[entry - len(scores)]],) * 2, *blank, *kind)
            for entry in block.tolist()
        ]
