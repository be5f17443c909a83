"""Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robusttc.data.problems import FileFault
from robusttc.data.readers.arrow import ARROW_ERRORS, add_batches, choose_columns, reason_of
from robusttc.data.readers.files import FREE_EXPANDED_BYTES, MAX_EXPANSION, is_gzipped, read_bytes
from robusttc.data.rows import FileRows

__all__ = ["read_parquet"]

MAX_DICTIONARY_VALUE_BYTES = 2**20  # in a thousand rows a gigabyte
BATCH_ROWS = 1_024  # small, so that rows that expand are seen before they fill the memory


def read_parquet(path: Path, rows: FileRows) -> None:
    """Read a Parquet file, also gzipped as a whole; only the columns that are needed are read."""
    try:
        with open_parquet(path) as source:
            schema = pq.read_schema(source)
            columns = choose_columns(schema, rows)
            strings = [name for name in columns.values() if is_string(schema.field(name).type)]
            check_size(pq.read_metadata(source), source.size())
            with pq.ParquetFile(
                source,
                read_dictionary=strings if has_long_values(source, strings) else None,
                page_checksum_verification=True,
            ) as file:
                batches = file.iter_batches(BATCH_ROWS, columns=list(columns.values()), use_threads=False)
                add_batches(batches, columns, rows)
    except ARROW_ERRORS as error:
        raise FileFault("the file is not a Parquet file, or it is damaged", got=reason_of(error)) from None


def open_parquet(path: Path) -> Any:
    """Open the file for random access, which takes a gzipped one into memory."""
    return pa.BufferReader(read_bytes(path)) if is_gzipped(path) else pa.OSFile(str(path))


def is_string(column_type: Any) -> bool:
    """Tell whether a column holds strings that can be read as a dictionary."""
    return bool(pa.types.is_string(column_type) or pa.types.is_large_string(column_type))


def has_long_values(source: Any, columns: list[str]) -> bool:
    """Tell whether a dictionary of the file has a value that, repeated in many rows, would fill the memory.

    Such a file is read with its dictionaries as they are. Any other is not, for that takes time that grows
    with the square of its rows.
    """
    with pq.ParquetFile(source, read_dictionary=columns) as file:
        for group in range(file.num_row_groups):
            # The first row of a group brings the dictionary of the group with it.
            for batch in file.iter_batches(1, row_groups=[group], columns=columns, use_threads=False):
                lengths = [
                    pc.max(pc.binary_length(batch.column(name).dictionary)).as_py()
                    for name in columns
                    if pa.types.is_dictionary(batch.column(name).type)
                ]
                if any(length > MAX_DICTIONARY_VALUE_BYTES for length in lengths if length is not None):
                    return True
                break
    return False


def check_size(metadata: Any, size_bytes: int) -> None:
    """Refuse a file that says itself that it expands without measure."""
    # Not the sum of the columns: to ask for a damaged column ends the process, pyarrow does not catch it.
    expanded = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if expanded > max(FREE_EXPANDED_BYTES, MAX_EXPANSION * size_bytes):
        raise FileFault(
            "the Parquet file expands beyond the limit",
            got=f"{expanded:,} bytes",
            expected=f"at most {MAX_EXPANSION} times its size on disk",
            todo="check where the file comes from; write it without compression if it is really yours",
        )
