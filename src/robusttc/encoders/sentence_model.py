"""Loading a sentence-transformers model: local, without pickled weights, without code of its own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.bert_forward import FastBert, recognise_bert
from robusttc.encoders.device import resolve_device
from robusttc.encoders.fine_tuning_changes import apply_changes, hash_changes
from robusttc.encoders.model_folder import check_model_folder, find_model_folder, hash_model_folder
from robusttc.errors import DataError, quote

__all__ = ["SentenceModel", "load_sentence_model"]


@dataclass(frozen=True, slots=True, eq=False)
class SentenceModel:
    """A loaded sentence model.

    Attributes
    ----------
    folder
        Where its files are.
    fingerprint
        SHA-256 over the contents of its files, and over its changes where there are some.
    dimension
        The length of its vectors.
    device
        Where it runs.
    transformer
        The SentenceTransformer itself.
    fast
        A faster way to the same vectors, for models that are recognised; None for the others.
    base_fingerprint
        SHA-256 over the contents of its files alone.
    """

    folder: Path
    fingerprint: str
    dimension: int
    device: str
    transformer: Any
    fast: FastBert | None
    base_fingerprint: str

    def __repr__(self) -> str:
        road = "fast" if self.fast is not None else "as it comes"
        return f"SentenceModel({str(self.folder)!r}, dimension {self.dimension}, {road}, {self.device})"


def load_sentence_model(
    name_or_folder: str | os.PathLike[str] | None = None,
    *,
    device: str = "cpu",
    changes: Mapping[str, NDArray[np.float32]] | None = None,
) -> SentenceModel:
    """Load a sentence-transformers model.

    Pickled weights are refused, and code that a model brings with it is never run.

    Parameters
    ----------
    name_or_folder
        A folder, or the name of a model on the hub; a name is taken from the local cache if it is there, so
        that no network is needed. None takes the MiniLM that an installed package ships.
    device
        ``cpu``, ``cuda``, ``mps`` and so on; ``auto`` takes a GPU if there is one.
    changes
        What fine-tuning changed of the model; see `robusttc.encoders.fine_tuning_changes`.

    Raises
    ------
    UsageError
        If the model or the device is not there.
    DataError
        If the folder is not a model, a file of it is missing, damaged or pickled, or the changes belong to
        another model.

    Examples
    --------
    >>> model = load_sentence_model()
    >>> model.dimension, model.fast is not None
    (384, True)
    """
    from sentence_transformers import SentenceTransformer

    place = resolve_device(device)
    folder = find_model_folder(name_or_folder)
    check_model_folder(folder)
    try:
        with silence_progress_bars():
            transformer = SentenceTransformer(
                str(folder),
                device=place,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        raise DataError(
            "the sentence model cannot be loaded",
            where=str(folder),
            got=f"{type(error).__name__}: {quote(str(error))}",
            todo="its files may be damaged or of another version: fetch or install the model again",
        ) from error
    transformer.eval()
    check_all_weights_read(transformer, folder)
    base_fingerprint = fingerprint = hash_model_folder(folder)
    if changes:
        # Before the fast road is looked for, which copies weights.
        apply_changes(transformer[0].auto_model, changes, where=str(folder))
        fingerprint = hashlib.sha256(f"{base_fingerprint}:{hash_changes(changes)}".encode()).hexdigest()
    return SentenceModel(
        folder=folder,
        fingerprint=fingerprint,
        dimension=vector_length(transformer),
        device=place,
        transformer=transformer,
        fast=recognise_bert(transformer),
        base_fingerprint=base_fingerprint,
    )


def vector_length(transformer: Any) -> int:
    """Give the length of the model's vectors, by its word or else by trying."""
    for name in ("get_embedding_dimension", "get_sentence_embedding_dimension"):
        length = getattr(transformer, name, lambda: None)()
        if length is not None:
            return int(length)
    return int(transformer.encode(["length"], show_progress_bar=False).shape[1])


def check_all_weights_read(transformer: Any, folder: Path) -> None:
    """Refuse a BERT whose file lacks weights: they would be random numbers, with no more than a log line."""
    from safetensors import safe_open

    model: Any = getattr(transformer[0], "auto_model", None)
    if type(model).__name__ != "BertModel":
        return  # others rename their weights on loading
    found: set[str] = set()
    for path in folder.rglob("*.safetensors"):
        with safe_open(path, framework="numpy") as file:
            found |= set(file.keys())
    # A head that mean pooling does not use may be missing; a prefix may be in front.
    missing = [
        name
        for name, _ in model.named_parameters()
        if not name.startswith("pooler.") and name not in found and f"bert.{name}" not in found
    ]
    # Files of the oldest models have other names for the weights of a normalisation.
    missing = [
        name
        for name in missing
        if name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        not in found
    ]
    if missing:
        raise DataError(
            "the file of the model's weights is not complete",
            where=str(folder),
            got=f"no {quote(missing[0])}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
            todo="fetch or install the model again",
        )


@contextmanager
def silence_progress_bars() -> Iterator[None]:
    """Keep transformers from drawing on the terminal, and leave its setting as it was."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
