"""The weights that fine-tuning changed: a few tensors by name, kept without the model they belong to.

On disk they are one safetensors file, whose header names the base model by its fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import DataError, StoreError, quote
from robusttc.files import write_file

__all__ = [
    "WeightDelta",
    "apply_weight_delta",
    "hash_weight_delta",
    "read_weight_delta",
    "write_weight_delta",
]

# New values of tensors, by their names in the transformer.
WeightDelta = Mapping[str, NDArray[np.float32]]

FORMAT = "robusttc-weight-delta-2"


def hash_weight_delta(delta: WeightDelta) -> str:
    """Return the SHA-256 of names, shapes and values.

    >>> zeros = np.zeros(2, dtype=np.float32)
    >>> hash_weight_delta({"a": zeros, "b": zeros}) == hash_weight_delta({"b": zeros, "a": zeros})
    True
    """
    # The prefix is part of fingerprints that are stored with fitted models.
    digest = hashlib.sha256(b"robusttc-changes-1")
    for name in sorted(delta):
        values = np.ascontiguousarray(delta[name], dtype="<f4")
        digest.update(f"{len(name)}:{name}:{values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def apply_weight_delta(transformer: Any, delta: WeightDelta, *, where: str) -> None:
    """Replace tensors of a transformer in place; those of another model raise a DataError."""
    import torch

    parameters = dict(transformer.named_parameters())
    for name in sorted(delta):
        values = np.asarray(delta[name])
        shape = tuple(parameters[name].shape) if name in parameters else None
        if values.shape != shape or not np.isfinite(values).all():
            raise DataError(
                "the fine-tuned weights do not fit the model",
                where=where,
                got=f"{quote(name)} of shape {values.shape}",
                expected="a tensor of the model" if shape is None else f"finite numbers of shape {shape}",
                todo="pass the model that was fine-tuned",
            )
        with torch.no_grad():
            parameters[name].copy_(torch.from_numpy(values))


def write_weight_delta(path: Path, delta: WeightDelta, *, base: str) -> None:
    """Write the file completely or not at all; `base` is the fingerprint of the model that was fine-tuned."""
    from safetensors.numpy import save

    header = {"format": FORMAT, "base": base, "sha256": hash_weight_delta(delta)}
    write_file(path, save({name: np.ascontiguousarray(values) for name, values in delta.items()}, header))


def read_weight_delta(path: Path) -> tuple[dict[str, NDArray[np.float32]], str]:
    """Return the tensors and the fingerprint of their base model; a damaged file raises a StoreError."""
    from safetensors import SafetensorError, safe_open

    problem = None
    try:
        with safe_open(path, framework="numpy") as file:
            header = dict(file.metadata() or {})
            delta = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except (SafetensorError, OSError) as error:
        problem = quote(str(error))
    else:
        if header.get("format") != FORMAT:
            problem = f"a file of format {quote(header.get('format'))}"
        elif header["sha256"] != hash_weight_delta(delta):
            problem = "a damaged file: its SHA-256 is another"
    if problem is not None:
        raise StoreError(
            "the fine-tuned weights cannot be read",
            where=str(path),
            got=problem,
            expected=f"a file of format {quote(FORMAT)}",
            todo="fine-tune again, or pass a file that fine_tune wrote",
        )
    return delta, header["base"]
