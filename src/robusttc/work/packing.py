"""The result of a unit as bytes: one safetensors block, the same bytes for the same result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from robusttc.errors import StoreError, UsageError, quote
from robusttc.work.units import Payload

__all__ = ["pack", "unpack"]

VALUES = "values"
# safetensors refuses a file without arrays in some versions; this one says that there are none.
NOTHING = "no arrays"


def pack(payload: Payload) -> bytes:
    """Turn a result into bytes.

    Raises
    ------
    UsageError
        If a value cannot be JSON (NaN and infinity among them: those go into arrays).

    Examples
    --------
    >>> unpack(pack(Payload({"a": 1}, {"b": np.arange(2)}))).arrays["b"].tolist()
    [0, 1]
    """
    from safetensors.numpy import save

    try:
        values = json.dumps(dict(payload.values), sort_keys=True, allow_nan=False, ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise UsageError("a result cannot be written as JSON", got=str(error)) from error
    arrays = {name: as_block(array) for name, array in sorted(payload.arrays.items())}
    return bytes(save(arrays or {NOTHING: np.zeros(1, dtype=np.uint8)}, metadata={VALUES: values}))


def as_block(array: Any) -> np.ndarray[Any, Any]:
    """Give an array in one block of memory, in the usual order of bytes."""
    found = np.asarray(array)
    return np.array(found, dtype=found.dtype.newbyteorder("<"), order="C")


def unpack(content: bytes, *, where: str = "a stored result") -> Payload:
    """Turn bytes of `pack` into the result; arrays are new and can be written to.

    Raises
    ------
    StoreError
        If the bytes are no such result.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        header_bytes = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + header_bytes])
        values = json.loads(header["__metadata__"][VALUES])
        loaded: Mapping[str, Any] = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError("a stored result is damaged", where=where, got=quote(error)) from error
    if not isinstance(values, dict):
        raise StoreError("a stored result is damaged", where=where, got=quote(values), expected="values")
    # Copies: those of safetensors are read-only, which compiled loops take for another type.
    arrays = {name: np.array(array) for name, array in loaded.items() if name != NOTHING}
    return Payload(values, arrays)
