from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robusttc.data import LoadedTasks
from robusttc.errors import TaskFilesError

Read = Callable[..., LoadedTasks]
Row = tuple[str, str, str]
RowsOf = Callable[..., list[Row]]

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(str.strip)
LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)
ROWS = st.lists(st.tuples(TEXTS, LABELS, st.sampled_from(["train", "valid", "test"])), min_size=1, max_size=8)
GOOD = [("one", "a", "train"), ("two", "b", "train"), ("zwölf", "a", "valid")]


def write_parquet(columns: dict[str, Any], **how: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, **how)
    return stream.getvalue()


def columns_of(rows: list[Row]) -> dict[str, list[str]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(["text", "label", "split"])}


@given(rows=ROWS, use_dictionary=st.booleans(), compression=st.sampled_from(["none", "snappy", "zstd"]))
def test_every_text_and_label_survives(
    read_file: Read, rows_of: RowsOf, rows: list[Row], use_dictionary: bool, compression: str
) -> None:
    content = write_parquet(columns_of(rows), use_dictionary=use_dictionary, compression=compression)
    loaded = read_file("acme.parquet", content, allow_incomplete=True)
    assert rows_of(loaded.tasks["acme"]) == rows


@pytest.mark.parametrize("name", ["acme.parquet", "acme.parquet.gz"])
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_kinds_of_strings(read_file: Read, rows_of: RowsOf, name: str, kind: Any) -> None:
    columns = {column: pa.array(values, kind) for column, values in columns_of(GOOD).items()}
    assert rows_of(read_file(name, write_parquet(columns)).tasks["acme"]) == GOOD


def test_several_row_groups_and_thousands_of_rows(read_file: Read, rows_of: RowsOf) -> None:
    rows = [(f"text {row}", "ab"[row % 2], "train") for row in range(5_000)]
    content = write_parquet(columns_of(rows), row_group_size=700)
    assert rows_of(read_file("acme.parquet", content).tasks["acme"]) == rows
    rows[4_321] = (" ", "a", "train")
    with pytest.raises(TaskFilesError, match=r"acme\.parquet:row 4322: the text is empty"):
        read_file("acme.parquet", write_parquet(columns_of(rows), row_group_size=700))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
def test_whole_numbers_are_their_digits(read_file: Read, kind: Any) -> None:
    columns = {"text": ["one", "two"], "label": pa.array([0, 7], kind), "task": pa.array([5, 5], kind)}
    loaded = read_file("acme.parquet", write_parquet(columns))
    assert loaded.tasks["5"].labels.tolist() == ["0", "7"]


def test_names_with_a_dot_and_columns_that_begin_alike(read_file: Read) -> None:
    columns = {"text": ["one", "two"], "text.en": ["x", "y"], "label.v2": ["a", "b"], "other": [[1], [2]]}
    loaded = read_file("acme.parquet", write_parquet(columns), label_column="label.v2")
    assert list(loaded.tasks["acme"].texts) == ["one", "two"]
    assert loaded.tasks["acme"].labels.tolist() == ["a", "b"]


def test_rows_are_refused_by_number_and_the_others_kept(read_file: Read, rows_of: RowsOf) -> None:
    columns = {"text": ["one", None, "two", "three"], "label": ["a", "b", None, "b"], "split": ["train"] * 4}
    content = write_parquet(columns)
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.parquet", content)
    assert [(problem.line, problem.what) for problem in caught.value.problems] == [
        (2, "the text is empty"),
        (3, "the label is empty"),
    ]
    loaded = read_file("acme.parquet", content, skip_bad_rows=True)
    assert rows_of(loaded.tasks["acme"]) == [("one", "a", "train"), ("three", "b", "train")]
    assert loaded.n_skipped == 2


def test_a_string_that_is_not_utf8_is_found_in_its_row(read_file: Read) -> None:
    broken = pa.array([b"one", b"two", b"th\xffree"]).view(pa.string())
    columns = {"text": broken, "label": ["a", "b", "a"]}
    for use_dictionary in (False, True):
        with pytest.raises(TaskFilesError, match="a string is not UTF-8"):
            read_file("acme.parquet", write_parquet(columns, use_dictionary=use_dictionary))


def test_a_file_that_says_that_it_expands_without_measure(read_file: Read) -> None:
    content = write_parquet(
        {"text": ["x" * 10_000_000 + str(row) for row in range(8)], "label": ["a", "b"] * 4},
        compression="zstd",
        use_dictionary=False,
    )
    assert len(content) < 500_000
    with pytest.raises(TaskFilesError, match="expands beyond the limit"):
        read_file("acme.parquet", content)


def test_checksums_are_verified_where_the_file_has_them(read_file: Read) -> None:
    texts = [f"the text of row {row}" for row in range(100)]
    how: dict[str, Any] = {"write_page_checksum": True, "compression": "none", "use_dictionary": False}
    content = write_parquet({"text": texts, "label": ["a", "b"] * 50}, **how)
    assert len(read_file("acme.parquet", content).tasks["acme"]) == 100
    with pytest.raises(TaskFilesError, match="damaged"):
        read_file("acme.parquet", content.replace(b"of row 50", b"of row 05"))
