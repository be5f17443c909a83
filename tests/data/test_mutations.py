"""Good files damaged in two thousand ways: each is refused, or read as a plain parser reads it.

"No silent change of content" is checked: whatever loads from a damaged file must be, row for row, what
another parser reads from the same bytes, and with `skip_bad_rows` the rows that were loaded and those that
were counted as left out must be all records of the file.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from robusttc.data import LoadedTasks, ReadOptions, read_tasks
from robusttc.data.rasa import remove_entities
from robusttc.errors import DataError, TaskFilesError

Row = tuple[str, str, str]  # task, text, label
MAX_SECONDS = 5
LINE_BREAK = re.compile(r"\r\n|\r|\n")
KNOWN_NAMES = {"task", "text", "label"}

TEXTS = [
    "where is my parcel?",
    'she said "no", twice',
    "zwölf — größer",
    "a\tb;c|d",
    "two\nlines",
    "ok\u2028ok",
    "é",
]
LABELS = ["delivery", "refusal", "size", "delivery", "refusal", "size", "delivery"]
TASKS = ["acme", "acme", "acme", "other", "other", "other", "other"]


def decode(data: bytes) -> str:
    """Decode as the reader promises to; bad bytes become lone surrogates."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").removeprefix("\ufeff")
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


# --- the good files


def good_csv() -> bytes:
    stream = io.StringIO()
    csv.writer(stream).writerows([("task", "text", "label"), *zip(TASKS, TEXTS, LABELS, strict=True)])
    return stream.getvalue().encode()


def good_tsv() -> bytes:
    stream = io.StringIO()
    rows = [("text", "label"), *zip(TEXTS, LABELS, strict=True)]
    csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(rows)
    return b"\xef\xbb\xbf" + stream.getvalue().encode()


def good_jsonl() -> bytes:
    rows = zip(TASKS, TEXTS, LABELS, strict=True)
    objects = [{"task": task, "text": text, "label": label} for task, text, label in rows]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects).encode()


def good_parquet() -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"task": TASKS, "text": TEXTS, "label": LABELS}), stream)
    return stream.getvalue()


def good_arrow() -> bytes:
    table = pa.table({"text": TEXTS, "label": LABELS})
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def good_yaml() -> bytes:
    plain = [text.replace("\n", " ").replace("\u2028", " ") for text in TEXTS]
    first = "".join(f"    - {text}\n" for text in plain)
    second = "".join(f"  - text: {json.dumps(text)}\n" for text in plain)
    content = f"version: '3.1'\nnlu:\n- intent: a\n  examples: |\n{first}- intent: b\n  examples:\n{second}"
    return content.encode()


def good_markdown() -> bytes:
    plain = "".join(f"- {text} [Rome](city:roma)\n" for text in TEXTS if "\n" not in text)
    return f"<!-- data -->\n## intent:a\n{plain}\n## synonym:x\n- y\n## intent:b\n* one\n+ two\n".encode()


def good_rasa_json() -> bytes:
    examples = [{"text": text, "intent": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    return json.dumps({"rasa_nlu_data": {"common_examples": examples}}, indent=1, ensure_ascii=False).encode()


# --- the other parsers: all records, None for one that they cannot read


def parse_delimited(data: bytes) -> list[Row | None]:
    text = decode(data)
    first = next((line for line in LINE_BREAK.split(text) if line), "")
    found = {mark: next(csv.reader([first], delimiter=mark), []) for mark in ",;\t|"}
    delimiter = max(found, key=lambda mark: (len(KNOWN_NAMES & set(found[mark])), len(found[mark])))
    if delimiter == "\t":
        return parse_tabs(data)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records: list[list[str] | None] = []
    while True:
        try:
            records.append(next(reader))
        except StopIteration:
            break
        except csv.Error:
            records.append(None)
    return by_column([record for record in records if record != []])


def by_column(records: list[list[str] | None]) -> list[Row | None]:
    header, *rest = records
    assert header is not None
    places = [header.index(name) if name in header else None for name in ("task", "text", "label")]
    return [
        None
        if record is None or len(record) != len(header)
        else (
            "file" if places[0] is None else record[places[0]],
            record[places[1] or 0],
            record[places[2] or 0],
        )
        for record in rest
    ]


def parse_tabs(data: bytes) -> list[Row | None]:
    """Split at tabs; a field is quoted if its quotes are closed, over as many lines as that takes."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", decode(data))
    records: list[list[str] | None] = []
    while lines:
        line = lines.pop(0)
        fields = line.rstrip("\r\n").split("\t")
        if fields == [""]:
            continue
        if '"' in line and not (records and len(fields) == len(records[0] or [])):
            reader = csv.reader([line, *lines], delimiter="\t", strict=True)
            try:
                records.append(next(reader))
                lines = lines[reader.line_num - 1 :]
                continue
            except csv.Error:
                pass
        quoted = [re.fullmatch(r'"((?:[^"]|"")*)"', field, flags=re.DOTALL) for field in fields]
        pairs = zip(fields, quoted, strict=True)
        records.append([match[1].replace('""', '"') if match else field for field, match in pairs])
    return by_column(records)


def parse_jsonl(data: bytes) -> list[Row | None]:
    rows: list[Row | None] = []
    for line in LINE_BREAK.split(decode(data)):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            values = (record.get("task", "file"), record.get("text"), record.get("label"))
            rows.append(tuple(str(value) for value in values))  # type: ignore[arg-type]
        else:
            rows.append(None)
    return rows


def parse_table(table: Any) -> list[Row | None]:
    return [
        (str(row.get("task", "file")), row["text"], str(row["label"]))
        for row in table.select(
            [name for name in table.column_names if name in {"task", "text", "label"}]
        ).to_pylist()
    ]


def parse_parquet(data: bytes) -> list[Row | None]:
    return parse_table(pq.read_table(pa.BufferReader(data), use_threads=False))


def parse_arrow(data: bytes) -> list[Row | None]:
    with pa.ipc.open_stream(data) as stream:
        return parse_table(stream.read_all())


def parse_yaml(data: bytes) -> list[Row | None]:
    rows: list[Row | None] = []
    # The parser in Python, not the one in C; every word stays a string.
    try:
        found = yaml.load(decode(data), yaml.BaseLoader)  # noqa: S506 - it constructs strings alone
    except yaml.scanner.ScannerError:
        # It refuses a tab before a value, which YAML allows.
        found = yaml.load(decode(data), yaml.CBaseLoader)  # noqa: S506
    for item in found["nlu"]:
        if "intent" not in item:
            continue
        examples = item["examples"]
        if isinstance(examples, str):
            texts = [line[1:].strip() for line in examples.split("\n") if line.strip()]
        else:
            texts = [example["text"].strip() for example in examples]
        rows += [("file", remove_entities(text), item["intent"]) for text in texts]
    return rows


def unescape(text: str) -> str:
    return re.sub(r"\\[bfnrt]", lambda match: str(json.loads(f'"{match[0]}"')), text)


def parse_markdown(data: bytes) -> list[Row | None]:
    text = re.sub(
        r"<!--.*?-->", lambda match: "\n" * len(LINE_BREAK.findall(match[0])), decode(data), flags=re.DOTALL
    )
    rows: list[Row | None] = []
    section, title = "", ""
    for line in (line.strip() for line in LINE_BREAK.split(text)):
        if line.startswith("##"):
            section, _, title = (part.strip() for part in line[2:].partition(":"))
        elif section == "intent" and line and not line.startswith("# "):
            item = re.fullmatch(r"[-*+]\s*(.*)", line, flags=re.DOTALL)
            rows.append(("file", remove_entities(unescape(item[1])), title) if item else None)
        elif not section and line[:1] in {"-", "*", "+"}:
            rows.append(None)
    return rows


def parse_rasa_json(data: bytes) -> list[Row | None]:
    found = json.loads(decode(data))["rasa_nlu_data"]
    examples = [*found.get("common_examples", []), *found.get("intent_examples", [])]
    return [
        ("file", str(example.get("text")), str(example.get("intent"))) if isinstance(example, dict) else None
        for example in examples
    ]


@dataclass(frozen=True)
class Kind:
    """A format: its file, a good one, and another parser for it."""

    name: str
    good: Callable[[], bytes]
    parse: Callable[[bytes], list[Row | None]]
    counts_rows: bool = True


KINDS = {
    "csv": Kind("file.csv", good_csv, parse_delimited),
    "tsv": Kind("file.tsv", good_tsv, parse_tabs),
    "csv-utf-16": Kind(
        "file.csv",
        lambda: good_csv().decode().encode("utf-16"),
        parse_delimited,
    ),
    "csv.gz": Kind(
        "file.csv.gz",
        lambda: gzip.compress(good_csv(), mtime=0),
        lambda data: parse_delimited(gzip.decompress(data)),
    ),
    "jsonl": Kind("file.jsonl", good_jsonl, parse_jsonl),
    "parquet": Kind("file.parquet", good_parquet, parse_parquet),
    "hugging-face": Kind("file/data.arrow", good_arrow, parse_arrow),
    "yaml": Kind("file.yml", good_yaml, parse_yaml, counts_rows=False),
    "markdown": Kind("file.md", good_markdown, parse_markdown),
    "json": Kind("file.json", good_rasa_json, parse_rasa_json),
}


PIECES = [
    *(bytes([byte]) for byte in b"\"'\n\r\0\xff,{}[]-: \t\xc3\\"),
    *(b"NaN", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"##", b"&a ", b"*a", b"\\ud800", b"null", b"1e999"),
]


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Damage a file in one to three ways."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        at = draw.randrange(len(data) + 1)
        to = min(len(data), at + draw.choice([1, 1, 2, 5, 30]))
        piece = draw.choice(PIECES)
        lines = data.split(b"\n")
        kind = draw.randrange(9)
        if kind == 0 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + piece + data[at:]
        elif kind == 2:
            data = data[:at] + data[to:]
        elif kind == 3:
            data = data[:to] + data[at:]
        elif kind == 4:
            data = data[:at]
        elif kind == 5:
            data = data[:at] + draw.randbytes(to - at) + data[to:]
        elif kind == 6 and len(lines) > 1:
            first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            data = b"\n".join(lines)
        elif kind == 7:
            source = draw.randrange(len(data) + 1)
            data = data[:at] + data[source : source + (to - at)] + data[to:]
        else:
            data = data[:at] + piece * draw.choice([2, 50]) + data[to:]
    return data


def rows_of(loaded: LoadedTasks) -> dict[str, list[tuple[str, str]]]:
    return {task.name: list(zip(task.texts, task.labels.tolist(), strict=True)) for task in loaded.tasks}


def by_task(rows: list[Row | None]) -> dict[str, list[tuple[str, str]]]:
    tasks: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        assert row is not None
        tasks.setdefault(row[0], []).append(row[1:])
    return tasks


def is_part_of(part: list[tuple[str, str]], whole: list[tuple[str, str]]) -> bool:
    remaining: Iterator[tuple[str, str]] = iter(whole)
    return all(row in remaining for row in part)


def check_mutation(kind: Kind, data: bytes, folder: Path) -> str:
    """Read a damaged file in both ways and compare; gives what became of it."""
    path = folder / kind.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    source = path
    if path.suffix == ".arrow":
        source = path.parent
        (source / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
        (source / "dataset_info.json").write_text('{"features": {}}')
    outcome = "refused"
    start = time.perf_counter()
    try:
        loaded = read_tasks(source, ReadOptions(allow_incomplete=True))
    except DataError:
        pass
    else:
        outcome = "loaded"
        assert rows_of(loaded) == by_task(kind.parse(data))
    try:
        loaded = read_tasks(source, ReadOptions(allow_incomplete=True, skip_bad_rows=True))
    except TaskFilesError:
        pass
    else:
        outcome = "skipped" if loaded.n_skipped else outcome
        if kind.counts_rows:
            records = kind.parse(data)
            assert loaded.tasks.n_rows + loaded.n_skipped == len(records)
            readable = by_task([row for row in records if row is not None])
            assert all(is_part_of(rows, readable[task]) for task, rows in rows_of(loaded).items())
    assert time.perf_counter() - start < MAX_SECONDS
    return outcome


@pytest.mark.parametrize("name", KINDS)
def test_the_good_file_is_read_whole_by_both(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert check_mutation(KINDS[name], KINDS[name].good(), Path(folder)) == "loaded"


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_refused_or_read_as_another_parser_reads_it(name: str) -> None:
    kind = KINDS[name]
    good = kind.good()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [
            check_mutation(kind, mutate(good, random.Random(f"{name} {seed}")), Path(folder))
            for seed in range(200)
        ]
    # The damage is real, and not so great that nothing is left to compare.
    assert len(outcomes) - outcomes.count("loaded") > 50
    assert outcomes.count("loaded") > 0
