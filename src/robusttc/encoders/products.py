"""A matrix product whose rows do not know of each other.

The library's product may sum up in another order when a matrix has another number of rows, so the last bit of
a row's result depends on the rows beside it, and on the number of threads. Here every number is the sum over
the inner dimension from first to last, each step one fused multiply-add, on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from robusttc.compiling import compiled

__all__ = ["multiply_into", "multiply_rows"]

Floats = NDArray[np.float32]
cgutils: Any = untyped_cgutils

# The inner loop keeps the sums of so many rows and columns in registers: 4 rows of 2 vectors of 16 numbers.
TILE_ROWS = 4
VECTOR = 16
TILE_COLUMNS = 2 * VECTOR
# So many rows stay in the cache while all tiles pass them.
BLOCK_ROWS = 64


def multiply_rows(matrix: Floats, weight: Floats) -> Floats:
    """Multiply two matrices; bit for bit, a row of the result depends on its own row only.

    Parameters
    ----------
    matrix
        Shape (rows, inner).
    weight
        Shape (inner, columns).

    Examples
    --------
    >>> multiply_rows(np.array([[1, 2]], dtype=np.float32), np.eye(2, dtype=np.float32)).tolist()
    [[1.0, 2.0]]
    """
    result = np.empty((len(matrix), weight.shape[1]), dtype=np.float32)
    multiply_into(np.ascontiguousarray(matrix), np.ascontiguousarray(weight), result)
    return result


def generate_product(
    typing_context: Any,  # noqa: ARG001
    rows: Any,  # noqa: ARG001
    tile: Any,  # noqa: ARG001
    n_inner: Any,  # noqa: ARG001
    sums: Any,  # noqa: ARG001
    stride: Any,  # noqa: ARG001
) -> Any:
    """Generate `multiply_tile`, which writes rows x tile to `sums`; the three are given by address.

    ``rows`` has TILE_ROWS rows of `n_inner` numbers, ``tile`` `n_inner` rows of TILE_COLUMNS, ``sums``
    TILE_ROWS rows of TILE_COLUMNS which begin `stride` numbers from each other. Written as Python loops, the
    compiler would leave the sums in memory, which takes twice the time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        row_address, tile_address, length, sum_address, stride_length = arguments
        number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), VECTOR)
        index = length.type
        row_start = builder.inttoptr(row_address, number.as_pointer())
        tile_start = builder.inttoptr(tile_address, number.as_pointer())
        sum_start = builder.inttoptr(sum_address, number.as_pointer())
        fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{VECTOR}f32"
        )
        places = [(row, half) for row in range(TILE_ROWS) for half in range(2)]
        zero = ir.Constant(vector, [ir.Constant(number, 0.0)] * VECTOR)
        totals = {place: cgutils.alloca_once_value(builder, zero) for place in places}

        def vector_at(start: Any, offset: Any) -> Any:
            return builder.bitcast(builder.gep(start, [offset]), vector.as_pointer())

        with cgutils.for_range(builder, length) as loop:
            offset = builder.mul(loop.index, index(TILE_COLUMNS))
            columns = [
                builder.load(vector_at(tile_start, builder.add(offset, index(half * VECTOR))), align=4)
                for half in range(2)
            ]
            for row in range(TILE_ROWS):
                place_in_row = builder.add(builder.mul(length, index(row)), loop.index)
                value = builder.load(builder.gep(row_start, [place_in_row]))
                single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
                everywhere = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), [ir.IntType(32)(0)] * VECTOR)
                spread = builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), everywhere)
                for half in range(2):
                    total = totals[row, half]
                    builder.store(builder.call(fused, [spread, columns[half], builder.load(total)]), total)
        for row, half in places:
            offset = builder.add(builder.mul(stride_length, index(row)), index(half * VECTOR))
            builder.store(builder.load(totals[row, half]), vector_at(sum_start, offset), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


multiply_tile: Any = intrinsic(generate_product)


@compiled
def multiply_into(matrix: Floats, weight: Floats, result: Floats) -> None:
    """Write the product to the first rows of `result`; see `multiply_rows`."""
    n_rows, inner = matrix.shape
    n_columns = weight.shape[1]
    n_tiles = (n_columns + TILE_COLUMNS - 1) // TILE_COLUMNS
    tiles = np.zeros((n_tiles, inner, TILE_COLUMNS), dtype=np.float32)
    for k in range(inner):
        for c in range(n_columns):
            tiles[c // TILE_COLUMNS, k, c % TILE_COLUMNS] = weight[k, c]
    # The last rows are filled up with zeros to a whole tile; what is beyond the result goes to `sums`.
    n_whole = n_rows // TILE_ROWS * TILE_ROWS
    rest = np.zeros((TILE_ROWS, inner), dtype=np.float32)
    rest[: n_rows - n_whole] = matrix[n_whole:]
    sums = np.empty((TILE_ROWS, TILE_COLUMNS), dtype=np.float32)
    size = matrix.itemsize
    for start in range(0, n_rows, BLOCK_ROWS):
        for number in range(n_tiles):
            first = number * TILE_COLUMNS
            tile = tiles.ctypes.data + number * inner * TILE_COLUMNS * size
            for row in range(start, min(start + BLOCK_ROWS, n_rows), TILE_ROWS):
                rows = matrix.ctypes.data + row * inner * size if row < n_whole else rest.ctypes.data
                if row < n_whole and first + TILE_COLUMNS <= n_columns:
                    target = result.ctypes.data + (row * n_columns + first) * size
                    multiply_tile(rows, tile, inner, target, n_columns)
                    continue
                multiply_tile(rows, tile, inner, sums.ctypes.data, TILE_COLUMNS)
                for i in range(min(TILE_ROWS, n_rows - row)):
                    for c in range(min(TILE_COLUMNS, n_columns - first)):
                        result[row + i, first + c] = sums[i, c]
