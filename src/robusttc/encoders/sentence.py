"""Frozen sentence vectors under a trained layer: what most people would start from today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders.encoder import PreparedTasks, distinct_texts
from robusttc.encoders.fine_tuning_changes import read_changes
from robusttc.encoders.inputs import DenseInputs
from robusttc.encoders.model_folder import (
    check_model_folder,
    find_model_folder,
    hash_model_folder,
    read_dimension,
)
from robusttc.encoders.sentence_model import SentenceModel, load_sentence_model
from robusttc.encoders.sentence_vectors import encode_sentences
from robusttc.encoders.vector_cache import VectorCache
from robusttc.errors import DataError, quote
from robusttc.progress import Progress, report

__all__ = ["SentenceEncoder"]


class SentenceEncoder:
    """Texts as frozen sentence vectors; the trained layer is dense.

    Every vector is computed once and kept on disk (see `VectorCache`), for this run and all later ones; those
    of texts that a trained model is asked about are not kept.

    Parameters
    ----------
    model
        A sentence-transformers model, by name or folder. None takes the MiniLM that comes with the package.
    changes
        What fine-tuning changed of the model: a folder that `robusttc.encoders.fine_tuning.fine_tune` made,
        or the arrays of another encoder's `changed_arrays`. None takes the model as it comes.
    cache
        Where vectors are kept; None takes the user's cache folder. `VectorCache.disabled()` keeps none.
    device
        Where the model runs: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``mps``.
    """

    name = "sentence"

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        *,
        changes: str | PathLike[str] | Mapping[str, NDArray[np.float32]] | None = None,
        cache: VectorCache | None = None,
        device: str = "auto",
    ) -> None:
        self.model = model if model is None or isinstance(model, str) else Path(model)
        self.changes = changes if changes is None or isinstance(changes, Mapping) else Path(changes)
        self.device = device
        self._cache = cache
        self._loaded: SentenceModel | None = None
        self._identity: tuple[str, int | None] | None = None

    def _load(self) -> SentenceModel:
        if self._loaded is None:
            changes, base = self._read_changes()
            loaded = load_sentence_model(self.model, device=self.device, changes=changes)
            if base is not None and base != loaded.base_fingerprint:
                raise DataError(
                    "the changes were made from another model",
                    where=str(self.changes),
                    got=f"a model of fingerprint {quote(loaded.base_fingerprint)}",
                    expected=quote(base),
                    todo="give the model that was fine-tuned",
                )
            self._loaded = loaded
        return self._loaded

    def open_cache(self) -> VectorCache:
        """Give the cache where the vectors are kept."""
        return VectorCache() if self._cache is None else self._cache

    def _read_changes(self) -> tuple[dict[str, NDArray[np.float32]] | None, str | None]:
        if isinstance(self.changes, Path):
            changes, manifest = read_changes(self.changes)
            return changes, str(manifest["base"])
        return (None if self.changes is None else dict(self.changes)), None

    @property
    def fingerprint(self) -> str:
        """The content of the model's files, and of what was changed of it."""
        if self._loaded is None and self.changes is None:
            # Loading the libraries takes ten seconds, reading the files a tenth of one.
            return self._identify()[0]
        return self._load().fingerprint

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        if self._loaded is None and self.changes is None and (found := self._identify()[1]) is not None:
            return found
        return self._load().dimension

    def _identify(self) -> tuple[str, int | None]:
        """Give the fingerprint of the unchanged model, and the length of its vectors if its files say it."""
        if self._identity is None:
            folder = find_model_folder(self.model)
            check_model_folder(folder)
            self._identity = hash_model_folder(folder), read_dimension(folder)
        return self._identity

    @property
    def base_fingerprint(self) -> str:
        """The content of the model's files, whatever was changed of it."""
        return self._load().base_fingerprint

    def changed_arrays(self) -> dict[str, NDArray[np.float32]] | None:
        """Give what fine-tuning changed of the model, or None; another encoder takes it as `changes`."""
        return self._read_changes()[0]

    def with_changes(
        self, changes: str | PathLike[str] | Mapping[str, NDArray[np.float32]] | None
    ) -> SentenceEncoder:
        """Give an encoder of the same model with other changes in place of its own."""
        return SentenceEncoder(self.model, changes=changes, cache=self._cache, device=self.device)

    def prepare(
        self,
        tasks: TaskSet,
        *,
        splits: Sequence[str] | None = None,
        progress: Progress | None = None,
        keep: bool = True,
    ) -> PreparedTasks:
        """Give every distinct text its vector, from the cache where it is there.

        Parameters
        ----------
        tasks, splits, progress
            As in `Encoder.prepare`.
        keep
            Whether the cache keeps the vectors that it lacked.

        Raises
        ------
        UsageError
            If the model is not there, or the device is not.
        """
        texts, items = distinct_texts(tasks, splits)
        cache = self.open_cache()
        n_texts, n_done = len(texts), 0

        def compute(missing: list[str]) -> object:
            nonlocal n_done
            start = n_done

            def tell(done: int, _total: int) -> None:
                report(progress, "sentence vectors", start + done, n_texts, "texts")

            vectors = encode_sentences(self._load(), missing, progress=tell)
            n_done += len(missing)
            return vectors

        matrix = cache.get_or_compute(self.fingerprint, texts, compute, self.dimension, keep=keep)
        report(progress, "sentence vectors", n_texts, n_texts, "texts")
        return PreparedTasks(DenseInputs(matrix), items)

    def __repr__(self) -> str:
        parts = [] if self.model is None else [repr(str(self.model))]
        if self.changes is not None:
            held = f"{len(self.changes)} arrays" if isinstance(self.changes, Mapping) else str(self.changes)
            parts.append(f"changes={held!r}")
        return f"SentenceEncoder({', '.join(parts)})"
