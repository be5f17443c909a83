"""Matrices as pictures: PNG files of 8-bit grey, in which 0 is what was not measured.

A picture is the smallest form of a matrix of 1,500 tasks that a browser reads by itself. The page colours it,
so that one picture serves light and dark, and palettes for every eye.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Picture", "draw_matrix"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LEVELS = 254  # steps from the lowest value, which is level 1, to the highest
COMPRESSION = 6  # the highest takes ten times as long for a tenth less
DENSE = 0.3  # of a symmetric matrix half is written
PLAIN, UP = 0, 2  # the filters of PNG that are used: the value itself, and the difference to the row above

Matrix = NDArray[Any] | sparse.csr_array


@dataclass(frozen=True)
class Picture:
    """A matrix as a picture.

    Attributes
    ----------
    png
        The file. Level 0 is an entry that is not there; level v is ``low + (v - 1) / 254 * (high - low)``.
    low, high
        The lowest and the highest value.
    is_symmetric
        Whether the picture has the lower half alone, its diagonal included: the other is the same.
    """

    png: bytes
    low: float
    high: float
    is_symmetric: bool


def draw_matrix(matrix: Matrix) -> Picture:
    """Draw a square matrix.

    Parameters
    ----------
    matrix
        A sparse matrix, of which the stored entries are there, also zeros; or a dense one, of which NaN are
        not.

    Examples
    --------
    >>> picture = draw_matrix(np.array([[1.0, np.nan], [np.nan, 0.0]]))
    >>> picture.png[1:4], picture.low, picture.high, picture.is_symmetric
    (b'PNG', 0.0, 1.0, True)
    """
    rows, columns, values = entries_of(matrix)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    levels = np.zeros(matrix.shape, dtype=np.uint8)
    if len(values):
        step = (high - low) / LEVELS or 1.0
        levels[rows, columns] = 1 + np.rint((values - low) / step).astype(np.uint8)
    is_symmetric = bool((levels == levels.T).all())
    if is_symmetric:
        levels = np.tril(levels)
    return Picture(write_png(levels), low, high, is_symmetric)


def entries_of(matrix: Matrix) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Give the entries that are there: rows, columns and values."""
    if sparse.issparse(matrix):
        entries = matrix.tocoo()
        there = np.isfinite(entries.data)
        return entries.row[there], entries.col[there], entries.data[there].astype(np.float64)
    dense = np.asarray(matrix, dtype=np.float64)
    rows, columns = np.nonzero(np.isfinite(dense))
    return rows, columns, dense[rows, columns]


def write_png(levels: NDArray[np.uint8]) -> bytes:
    """Write levels of grey as a PNG file."""
    height, width = levels.shape
    # Rows of a cluster are alike where all is known, and not at all where a few entries are.
    kind = UP if np.count_nonzero(levels) > DENSE * levels.size else PLAIN
    above = np.vstack([np.zeros((1, width), dtype=np.uint8), levels[:-1]])
    rows = np.hstack([np.full((height, 1), kind, dtype=np.uint8), levels - above if kind == UP else levels])
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = zlib.compress(rows.tobytes(), COMPRESSION)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def chunk(kind: bytes, content: bytes) -> bytes:
    """Write one chunk of a PNG file."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
