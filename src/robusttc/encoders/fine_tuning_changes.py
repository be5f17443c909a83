"""What fine-tuning changed of a model: a few tensors by name, kept apart from the model they belong to.

``NAME`` is the new value of the tensor NAME of the transformer; ``NAME#up`` and ``NAME#down`` are two thin
matrices whose product is added to it (to its new value, if there is one). On disk they are a folder of
``changes.safetensors`` and ``changes.json``; the latter names the base model by its fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import DataError, StoreError, quote

__all__ = [
    "CHANGES_VERSION",
    "apply_changes",
    "compose_changes",
    "hash_changes",
    "read_changes",
    "write_changes",
]

Floats = NDArray[np.float32]

CHANGES_VERSION = 1
TENSORS_FILE = "changes.safetensors"
MANIFEST_FILE = "changes.json"
UP, DOWN = "#up", "#down"


def hash_changes(changes: Mapping[str, Floats]) -> str:
    """Give the SHA-256 over names, shapes and values.

    Examples
    --------
    >>> zeros = np.zeros(2, dtype=np.float32)
    >>> hash_changes({"a": zeros, "b": zeros}) == hash_changes({"b": zeros, "a": zeros})
    True
    """
    digest = hashlib.sha256(b"robusttc-changes-1")
    for name in sorted(changes):
        values = np.ascontiguousarray(changes[name], dtype="<f4")
        digest.update(f"{len(name)}:{name}:{values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def compose_changes(first: Mapping[str, Floats] | None, then: Mapping[str, Floats]) -> dict[str, Floats]:
    """Give the changes of a base model that has been changed once, and what came of it once more.

    Examples
    --------
    >>> one = np.ones((2, 2), dtype=np.float32)
    >>> sorted(compose_changes({"w": one, "v": one}, {"w": 2 * one, "v#up": one[:, :1], "v#down": one[:1]}))
    ['v', 'v#down', 'v#up', 'w']
    """
    result = dict(first or {})
    for name in sorted(then):  # a new value comes before what is added to it
        if name in result and name.endswith((UP, DOWN)):
            # The sum of two products is the product of the factors put side by side.
            result[name] = np.concatenate([result[name], then[name]], axis=1 if name.endswith(UP) else 0)
            continue
        result[name] = then[name]
        for factor in (name + UP, name + DOWN):
            result.pop(factor, None)
    return result


def apply_changes(bert: Any, changes: Mapping[str, Floats], *, where: str) -> None:
    """Change the tensors of a transformer in place.

    Raises
    ------
    DataError
        If a name is not one of the model's tensors, a shape is another, or a value is not finite.
    """
    import torch

    parameters = dict(bert.named_parameters())
    for name in sorted(changes):  # a new value comes before what is added to it
        target, _, factor = name.partition("#")
        if target not in parameters or factor not in ("", "up", "down"):
            raise DataError(
                "a change is of a tensor that the model does not have",
                where=where,
                got=quote(name),
                todo="the changes belong to another model: give the one they were made from",
            )
        if factor == "down" and target + UP in changes:
            continue
        parameter = parameters[target]
        values = np.asarray(changes[name])
        if factor:
            nothing = np.zeros((0, 0), dtype=np.float32)
            up, down = changes.get(target + UP, nothing), changes.get(target + DOWN, nothing)
            values = up @ down if up.shape[1:] == down.shape[:1] else nothing
        if values.shape != tuple(parameter.shape) or not np.isfinite(values).all():
            raise DataError(
                "a change does not fit the model",
                where=where,
                got=f"{quote(name)} of shape {values.shape}",
                expected=f"finite numbers of shape {tuple(parameter.shape)}",
                todo="the changes belong to another model, or are damaged",
            )
        with torch.no_grad():
            tensor = torch.from_numpy(values).to(device=parameter.device, dtype=parameter.dtype)
            parameter.copy_(parameter + tensor if factor else tensor)


def write_changes(
    folder: Path, changes: Mapping[str, Floats], *, base: str, about: Mapping[str, Any] | None = None
) -> None:
    """Keep changes in a folder that is not there yet; it appears complete or not at all.

    Parameters
    ----------
    folder
        The folder to make.
    changes
        The tensors.
    base
        The fingerprint of the model that they change.
    about
        More to be said in ``changes.json``: where the changes come from.
    """
    from safetensors.numpy import save_file

    beside = folder.with_name(f"{folder.name}.{os.getpid()}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        tensors = beside / TENSORS_FILE
        save_file({name: np.ascontiguousarray(values) for name, values in changes.items()}, tensors)
        manifest = {
            **(about or {}),
            "kind": "robusttc-model-changes",
            "version": CHANGES_VERSION,
            "base": base,
            "size_bytes": tensors.stat().st_size,
            "sha256": hash_bytes(tensors),
        }
        (beside / MANIFEST_FILE).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        for path in (tensors, beside / MANIFEST_FILE):
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def read_changes(folder: Path) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Give the tensors and the manifest of a folder of changes.

    Raises
    ------
    StoreError
        If a file is missing, damaged, or newer than this version reads.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    manifest_file, tensors_file = folder / MANIFEST_FILE, folder / TENSORS_FILE
    todo = "fine-tune again, or give a folder that fine-tuning made"
    try:
        manifest = json.loads(manifest_file.read_text(encoding="utf-8"))
        kind, version = manifest["kind"], manifest["version"]
        base, sha256 = manifest["base"], manifest["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "what was changed of a model cannot be read",
            where=str(manifest_file),
            got=f"{type(error).__name__}: {quote(str(error))}",
            todo=todo,
        ) from error
    if kind != "robusttc-model-changes" or version != CHANGES_VERSION or not isinstance(base, str):
        raise StoreError(
            "the folder holds something else, or is of another version",
            where=str(manifest_file),
            got=f"{quote(kind)}, version {quote(version)}",
            expected=f"'robusttc-model-changes', version {CHANGES_VERSION}",
            todo=todo,
        )
    try:
        if hash_bytes(tensors_file) != sha256:
            raise StoreError(
                "the file is damaged: its SHA-256 is another", where=str(tensors_file), todo=todo
            )
        changes = load_file(tensors_file)
    except (SafetensorError, FileNotFoundError) as error:
        raise StoreError(
            "the tensors cannot be read", where=str(tensors_file), got=quote(str(error)), todo=todo
        ) from error
    return changes, manifest


def hash_bytes(path: Path) -> str:
    """Give the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
