from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robusttc.data import LoadedTasks
from robusttc.errors import TaskFilesError

Read = Callable[..., LoadedTasks]
Row = tuple[str, str, str]
RowsOf = Callable[..., list[Row]]

AWKWARD = [
    '"',
    "'",
    ",",
    ";",
    "\t",
    "|",
    "\n",
    "\r",
    "\r\n",
    "\ufeff",
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1c",
]
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.lists(st.sampled_from(AWKWARD) | CHARACTERS, max_size=12).map("".join).filter(str.strip)
LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)
SPLITS = st.sampled_from(["train", "valid", "test"])
ROWS = st.lists(st.tuples(TEXTS, LABELS, SPLITS), min_size=1, max_size=8)

GOOD = [
    ("one", "a", "train"),
    ('say "hi", twice', "b", "train"),
    ("two\r\nlines", "a", "valid"),
    ("tab\there; pipe|there", "b", "test"),
]


def write_csv(rows: list[Row], header: tuple[str, ...] = ("text", "label", "split"), **dialect: Any) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, **dialect)
    writer.writerows([header, *rows])
    return stream.getvalue()


@given(
    rows=ROWS,
    delimiter=st.sampled_from(",;\t|"),
    lineterminator=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    quote_all=st.booleans(),
)
def test_every_text_and_label_survives(
    read_file: Read,
    rows_of: RowsOf,
    rows: list[Row],
    delimiter: str,
    lineterminator: str,
    encoding: str,
    quote_all: bool,
) -> None:
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    content = write_csv(rows, delimiter=delimiter, lineterminator=lineterminator, quoting=quoting)
    if not quote_all:
        # The csv module forgets to quote a line break that is not the one it writes itself.
        rows = [row for row in rows if "\r" not in row[0] and "\n" not in row[0]] or [("x", "y", "train")]
        content = write_csv(rows, delimiter=delimiter, lineterminator=lineterminator)
    loaded = read_file("acme.csv", content.encode(encoding), allow_incomplete=True)
    assert loaded.tasks.names == ("acme",)
    assert rows_of(loaded.tasks["acme"]) == rows


NAMES = ["acme.csv", "acme.CSV", "acme.csv.gz"]


@pytest.mark.parametrize(
    ("name", "delimiter"),
    [*itertools.product(NAMES, ",;\t|"), ("acme.tsv", "\t"), ("acme.tsv.gz", "\t")],
)
def test_the_delimiter_is_found(read_file: Read, rows_of: RowsOf, name: str, delimiter: str) -> None:
    content = write_csv(GOOD, delimiter=delimiter)
    assert rows_of(read_file(name, content).tasks["acme"]) == GOOD


def test_a_delimiter_of_the_callers_own(read_file: Read, rows_of: RowsOf) -> None:
    content = write_csv(GOOD, delimiter="¦")
    assert rows_of(read_file("acme.csv", content, delimiter="¦").tasks["acme"]) == GOOD


@pytest.mark.parametrize(
    ("encoding", "option"),
    [
        ("utf-8", "UTF8"),
        ("utf-8", "utf_8"),
        ("utf-8-sig", "utf-8"),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-32", "utf-32"),
        ("cp1252", "cp1252"),
        ("gb18030", "gb18030"),
    ],
)
def test_encodings(read_file: Read, rows_of: RowsOf, encoding: str, option: str | None) -> None:
    rows = [("é ü", "ä", "train"), ("ö", "ß", "train")]
    content = write_csv(rows).encode(encoding)
    assert rows_of(read_file("acme.csv", content, encoding=option).tasks["acme"]) == rows


def test_columns_in_any_order_with_others_between(read_file: Read, rows_of: RowsOf) -> None:
    content = "id,split,label,more,text\n1,train,a,x,one\n2,train,b,y,two\n"
    expected = [("one", "a", "train"), ("two", "b", "train")]
    assert rows_of(read_file("acme.csv", content).tasks["acme"]) == expected


def test_columns_by_other_names(read_file: Read, rows_of: RowsOf) -> None:
    content = "utterance,intent,part,client\none,a,train,x\ntwo,b,dev,x\nthree,b,train,x\n"
    names = {
        "text_column": "utterance",
        "label_column": "intent",
        "split_column": "part",
        "task_column": "client",
    }
    loaded = read_file("acme.csv", content, **names)
    assert rows_of(loaded.tasks["x"]) == [
        ("one", "a", "train"),
        ("two", "b", "valid"),
        ("three", "b", "train"),
    ]


def test_a_column_that_another_role_took_is_not_taken_twice(read_file: Read, rows_of: RowsOf) -> None:
    content = "text,split\none,train\ntwo,test\n"
    loaded = read_file("acme.csv", content, label_column="split", allow_incomplete=True)
    assert {label for _, label, _ in rows_of(loaded.tasks["acme"])} == {"train", "test"}
    content = "task,label\none,a\ntwo,b\n"
    assert read_file("acme.csv", content, text_column="task").tasks.names == ("acme",)


def test_values_are_taken_as_they_are(read_file: Read, rows_of: RowsOf) -> None:
    lines = ["text,label,split", '  padded  ," a",train', "007,1.50,train", "NULL,NaN,train"]
    lines += ['"a""b",x,train', 'in "side,x,train']
    content = "\n".join(lines)
    assert rows_of(read_file("acme.csv", content).tasks["acme"]) == [
        ("  padded  ", " a", "train"),
        ("007", "1.50", "train"),
        ("NULL", "NaN", "train"),
        ('a"b', "x", "train"),
        ('in "side', "x", "train"),
    ]


def test_blank_lines_are_passed_over_and_counted(read_file: Read, rows_of: RowsOf) -> None:
    content = "\n\r\ntext;label;split\n\none;a;train\n\r\n\ntwo;b;train\n\n"
    expected = [("one", "a", "train"), ("two", "b", "train")]
    assert rows_of(read_file("acme.csv", content).tasks["acme"]) == expected
    with pytest.raises(TaskFilesError, match=r"acme\.csv:10: the text is empty"):
        read_file("acme.csv", content + ";b;train\n")


def test_tasks_by_a_column_in_the_order_of_their_first_rows(read_file: Read, rows_of: RowsOf) -> None:
    content = "task,text,label,split\nz,one,a,train\na,one,b,train\nz,two,b,train\na,two,c,train\n"
    loaded = read_file("any.csv", content)
    assert loaded.tasks.names == ("z", "a")
    assert rows_of(loaded.tasks["z"]) == [("one", "a", "train"), ("two", "b", "train")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_through_quoted_fields(read_file: Read, line_end: str) -> None:
    lines = ["text,label", '"one', "", 'more",a', ",a", "two,b", '"x', 'y",', "three,b,c"]
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.csv", line_end.join(lines))
    assert [(problem.line, problem.what.split(":")[0]) for problem in caught.value.problems] == [
        (5, "the text is empty"),
        (7, "the label is empty"),
        (9, "ragged row"),
    ]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_byte_that_is_not_utf8_is_found_on_its_line_and_takes_no_other_row_with_it(
    read_file: Read, rows_of: RowsOf, line_end: bytes
) -> None:
    lines = [b"text,label,split", b"one,a,train", b"tw\xc3\xb6 \xff,b,train", b"three,b,train"]
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.csv", line_end.join(lines))
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(3, 5)]
    assert "byte 0xff" in str(caught.value)
    loaded = read_file("acme.csv", line_end.join(lines), skip_bad_rows=True)
    assert rows_of(loaded.tasks["acme"]) == [("one", "a", "train"), ("three", "b", "train")]
    assert loaded.n_skipped == 1


def test_bytes_of_other_encodings_are_found_on_their_lines_too(read_file: Read) -> None:
    content = "text,label\n" + "one,a\n" * 50 + "é,b\n"
    with pytest.raises(TaskFilesError, match=r"acme\.csv:52:1: the line is not ascii"):
        read_file("acme.csv", content, encoding="ascii")
    odd = "text,label\none,a\ntwo,b\n".encode("utf-16") + b"x"
    with pytest.raises(TaskFilesError, match=r"acme\.csv:4:1: the line is not UTF-8 \(or UTF-16"):
        read_file("acme.csv", odd)


def test_wrong_quotes_within_a_line_cost_that_line_alone(read_file: Read, rows_of: RowsOf) -> None:
    content = 'text,label,split\none,a,train\n"two" x,b,train\nthree,b,train\n'
    loaded = read_file("acme.csv", content, skip_bad_rows=True)
    assert rows_of(loaded.tasks["acme"]) == [("one", "a", "train"), ("three", "b", "train")]
    assert (loaded.n_skipped, loaded.skipped[0].line) == (1, 3)


@pytest.mark.parametrize("field", ['"two', '"two" x,"', '"two\nmore" x', '"two" "'])
def test_rows_that_a_stray_quote_may_have_swallowed_are_not_skipped_in_silence(
    read_file: Read, field: str
) -> None:
    content = f"text,label,split\none,a,train\n{field},b,train\nthree,b,train\nfour,a,train\n"
    with pytest.raises(TaskFilesError, match=r"acme\.csv:3: .*quote"):
        read_file("acme.csv", content, skip_bad_rows=True)


def test_a_field_of_a_hundred_thousand_characters_is_too_long(read_file: Read) -> None:
    longest = "x" * 131_072
    assert len(read_file("acme.csv", f"text,label\n{longest},a\ntwo,b\n").tasks["acme"]) == 2
    with pytest.raises(TaskFilesError, match=r"acme\.csv:3: a field is too long"):
        read_file("acme.csv", f"text,label\none,a\n{longest}x,a\ntwo,b\n")
    with pytest.raises(TaskFilesError, match=r"acme\.csv:1: the header cannot be read"):
        read_file("acme.csv", f"{longest}x,text,label\none,a\n")
