"""JSON Lines: one object a line."""

from __future__ import annotations

from pathlib import Path

from robusttc.data.readers.files import bad_byte_details, encoding_name, read_lines
from robusttc.data.rows import MISSING, FileRows
from robusttc.errors import quote
from robusttc.files import InvalidJSONError, decode_json

__all__ = ["read_jsonl"]


def read_jsonl(path: Path, rows: FileRows) -> None:
    """Read a file of one JSON object a line; blank lines are passed over, further keys are left alone."""
    options = rows.options
    text_key, label_key = options.text_column, options.label_column
    split_key, task_key = options.column_for("split"), options.column_for("task")
    bad_lines: dict[int, tuple[int, str]] = {}

    def note_bad_line(line: int, column: int, byte: str) -> None:
        bad_lines[line] = (column, byte)

    # The first object decides whether the file names its tasks, so that no row falls under the file's name
    # by an oversight.
    tasks_named: bool | None = None if options.task_column is None else True
    for number, line in enumerate(read_lines(path, options.encoding, note_bad_line), start=1):
        if number in bad_lines:
            column, byte = bad_lines.pop(number)
            what = f"the line is not {encoding_name(options.encoding)}"
            rows.refuse(number, what, column=column, **bad_byte_details(byte))
            continue
        try:
            record = decode_json(line)
        except InvalidJSONError as fault:
            if line.strip():
                refuse_broken(number, fault, rows)
            continue
        if type(record) is not dict:
            rows.refuse(number, "the line is not a JSON object", got=quote(record))
            continue
        task = MISSING if task_key is None else record.get(task_key, MISSING)
        if tasks_named is None:
            tasks_named = task is not MISSING
        split = MISSING if split_key is None else record.get(split_key, MISSING)
        if tasks_named is (task is MISSING):
            refuse_task(number, task_key, task, rows)
        elif split is MISSING and options.split_column is not None:
            rows.refuse(number, f"missing split: the row has no field {quote(split_key)}")
        else:
            rows.add(number, record.get(text_key, MISSING), record.get(label_key, MISSING), split, task)


def refuse_task(line: int, key: str | None, task: object, rows: FileRows) -> None:
    """Say that a row names a task where others do not, or the other way round."""
    if task is MISSING:
        rows.refuse(line, f"missing task: the row has no field {quote(key)}")
    else:
        rows.refuse(line, "the row names a task, but the first row of the file does not", got=quote(task))


def refuse_broken(line: int, fault: InvalidJSONError, rows: FileRows) -> None:
    """Say what is wrong with a line that is not JSON."""
    rows.refuse(
        line,
        "the line is not JSON",
        column=None if fault.position is None else fault.position + 1,
        got=fault.what,
        expected="one complete JSON object a line",
    )
