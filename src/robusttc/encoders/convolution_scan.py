"""The maximum over time of one text with all sums in vector registers, for the usual window of five words."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

__all__ = ["LANES", "SCANNED_WINDOW", "scan_text"]

cgutils: Any = untyped_cgutils

# So many filters are scanned at a time; the compiler maps them to what registers the machine has.
LANES = 16
SCANNED_WINDOW = 5
BEFORE = SCANNED_WINDOW // 2


def generate_scan(
    typing_context: Any,  # noqa: ARG001
    words: Any,  # noqa: ARG001
    n_words: Any,  # noqa: ARG001
    table: Any,  # noqa: ARG001
    word_stride: Any,  # noqa: ARG001
    place_stride: Any,  # noqa: ARG001
    bias: Any,  # noqa: ARG001
    target: Any,  # noqa: ARG001
) -> Any:
    """Generate `scan_text`, which writes ReLU(max over a text's positions of what the words add, plus bias).

    What a word adds for a place of the window is in the table at ``word * word_stride + place *
    place_stride``, LANES numbers. ``words`` (32-bit), ``table``, ``bias`` and ``target`` are given by
    address. A text without words has the maximum 0. Words are added to a position from first to last.

    A word is looked at once: it completes the oldest open position and adds to the others. The positions
    before the text begin at minus infinity, which no word can lift.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        word_address, length, table_address, stride, place, bias_address, target_address = arguments
        number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), LANES)
        index = length.type
        word_start = builder.inttoptr(word_address, ir.IntType(32).as_pointer())
        table_start = builder.inttoptr(table_address, number.as_pointer())
        zero, lowest = (
            ir.Constant(vector, [ir.Constant(number, value)] * LANES) for value in (0.0, float("-inf"))
        )
        n_open = SCANNED_WINDOW - 1
        # Open position 0 is the oldest: the one that the next word completes.
        open_sums = [
            cgutils.alloca_once_value(builder, lowest if slot < n_open - BEFORE else zero)
            for slot in range(n_open)
        ]
        is_empty = builder.icmp_signed("==", length, index(0))
        highest = cgutils.alloca_once_value(builder, builder.select(is_empty, zero, lowest))

        def larger(first: Any, second: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", first, second), first, second)

        def raise_to(value: Any) -> None:
            builder.store(larger(value, builder.load(highest)), highest)

        with cgutils.for_range(builder, length) as loop:
            word = builder.zext(builder.load(builder.gep(word_start, [loop.index])), index)
            offset = builder.mul(word, stride)
            added = []
            for slot in range(SCANNED_WINDOW):
                # The word is last under the window of the oldest position.
                steps = builder.mul(place, index(SCANNED_WINDOW - 1 - slot))
                start = builder.gep(table_start, [builder.add(offset, steps)])
                added.append(builder.load(builder.bitcast(start, vector.as_pointer()), align=4))
            sums = [builder.fadd(builder.load(open_sums[slot]), added[slot]) for slot in range(n_open)]
            raise_to(sums[0])
            for slot in range(n_open - 1):
                builder.store(sums[slot + 1], open_sums[slot])
            builder.store(builder.fadd(zero, added[n_open]), open_sums[n_open - 1])
        # The last positions have no words left to wait for.
        for slot in range(n_open - BEFORE):
            raise_to(builder.load(open_sums[slot]))
        shift = builder.load(builder.inttoptr(bias_address, vector.as_pointer()), align=4)
        value = larger(builder.fadd(builder.load(highest), shift), zero)
        builder.store(value, builder.inttoptr(target_address, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), generate


scan_text: Any = intrinsic(generate_scan)
