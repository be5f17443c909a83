"""What an encoder is: texts go in, one vector per text comes out (for the CNN, the numbers of its words).

An encoder is frozen: it knows nothing of labels, so computing it on all rows reveals nothing about them. What
is trained on top of it (layers, classifiers) takes the `FrozenInputs` that it returns.

To add an encoder, write one method:

>>> class TextLength(Encoder):
...     name = "length"
...
...     def encode(self, texts):
...         return np.array([[len(text)] for text in texts], dtype=np.float32)
>>> TextLength().read(["hi", "hello"]).matrix.tolist()
[[2.0], [5.0]]
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet, is_unicode
from robusttc.encoders.cache import VectorCache
from robusttc.encoders.inputs import DenseInputs, FrozenInputs, PreparedTasks, WordInputs, distinct_texts
from robusttc.errors import DataError, UsageError, nearest_name, quote
from robusttc.progress import Progress, report

__all__ = ["Arrays", "Encoder", "resolve_device"]

# The default fingerprint of an encoder is made of the vectors of these texts.
PROBES = ("", "Where is my parcel?", "¿Dónde está mi paquete?")

# Attributes that are not sent to another process.
LOADED = ("_model", "base_fingerprint", "fingerprint")

Arrays = dict[str, NDArray[Any]]


class Encoder(ABC):
    """Base class of encoders; a subclass must write `encode`.

    Attributes
    ----------
    name
        A short name for people.
    cache
        Where vectors are kept; None computes them whenever they are needed. Vectors are kept under the
        fingerprint, so an encoder with a cache should define one.
    """

    name: str = "custom"
    cache: VectorCache | None = None
    _dimension: int | None = None  # of the vectors, as far as it is known

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: it changes whenever the vectors of the same texts would change.

        By default it is a hash of the vectors of a few fixed texts.
        """
        matrix = self._dense(PROBES).matrix
        kind = type(self)
        identity = f"{kind.__module__}.{kind.__qualname__}:{matrix.shape}"
        return hashlib.sha256(identity.encode() + matrix.tobytes()).hexdigest()

    @property
    def keeps_vectors(self) -> bool:
        """Whether vectors are kept, so that computing them in advance pays."""
        return self.cache is not None and self.cache.keeps

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32] | WordInputs:
        """Return one vector per text, float32 of shape (texts, dimensions); nothing is kept."""

    def encode_cached(
        self, texts: Sequence[str], *, keep: bool = True, progress: Progress | None = None
    ) -> FrozenInputs:
        """Encode texts, looking up in the cache those that it has; with `keep`, it keeps the others."""

        def advance(n_done: int) -> None:
            report(progress, f"{self.name} vectors", n_done, len(texts), "texts")

        def compute(missing: Sequence[str]) -> NDArray[np.float32]:
            return self._dense(missing).matrix

        inputs: FrozenInputs
        if not texts:
            if self._dimension is not None:  # without loading a model
                return DenseInputs(np.empty((0, self._dimension), dtype=np.float32))
            return self._inputs(PROBES[:1]).take([])
        if self.cache is None:
            advance(0)
            inputs = self._inputs(texts)
        else:
            inputs = DenseInputs(
                self.cache.get_or_compute(self.fingerprint, texts, compute, keep=keep, advance=advance)
            )
        if isinstance(inputs, DenseInputs):
            self._dimension = inputs.dimension
        advance(len(texts))
        return inputs

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Encode the rows of all tasks, every distinct text once.

        Parameters
        ----------
        tasks
            The tasks.
        splits
            The splits whose rows are encoded; None encodes all rows.
        progress
            Progress callback, counted in texts.
        """
        texts, text_index = distinct_texts(tasks, splits)
        return PreparedTasks(self.encode_cached(texts, progress=progress), text_index)

    def for_new_texts(self, prepared: PreparedTasks) -> Encoder:
        """Return the encoder that encodes new texts as `prepared` was encoded; it can be saved."""
        del prepared  # only word numbers depend on the texts that were prepared
        return self

    def read(self, texts: Sequence[str]) -> FrozenInputs:
        """Encode texts that a trained model is to predict: checked, and kept nowhere.

        Raises
        ------
        UsageError
            If `texts` is not a list.
        DataError
            If a text is not a string of valid Unicode.
        """
        return self.encode_cached(check_texts(texts), keep=False)

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return what `load_encoder` needs: settings for JSON with the name of the encoder, and arrays.

        Raises
        ------
        UsageError
            If the encoder cannot be saved: then a model on top of it cannot, either.
        """
        raise UsageError(
            "a model on an encoder of your own cannot be saved",
            got=type(self).__name__,
            expected="one of the encoders of this package, or a FeatureEncoder",
            todo="save the vectors of your encoder, and pass them to a FeatureEncoder",
        )

    def __getstate__(self) -> dict[str, Any]:
        # Another process loads the model for itself, and may have another one under the same name.
        return {name: value for name, value in self.__dict__.items() if name not in LOADED}

    def _inputs(self, texts: Sequence[str]) -> FrozenInputs:
        encoded = self.encode(texts)
        if isinstance(encoded, WordInputs):
            return encoded
        inputs = DenseInputs(encoded)
        if len(inputs) != len(texts):
            raise UsageError(
                "the encoder did not return one vector per text",
                where=quote(self),
                got=f"shape {inputs.matrix.shape}",
                expected=f"({len(texts)}, dimensions)",
            )
        return inputs

    def _dense(self, texts: Sequence[str]) -> DenseInputs:
        inputs = self._inputs(texts)
        if not isinstance(inputs, DenseInputs):
            raise UsageError("this encoder does not return one vector per text", got=quote(self))
        return inputs


def resolve_device(device: str) -> str:
    """Return the name of an available device: ``cpu``, ``cuda:N`` or ``mps``.

    Parameters
    ----------
    device
        ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; ``auto`` takes a GPU if there is one.

    Raises
    ------
    UsageError
        If there is no such device; the message lists those that there are.

    Examples
    --------
    >>> resolve_device("cpu")
    'cpu'
    """
    if device == "cpu":
        return device  # without importing torch
    available = find_devices()
    wanted = {"auto": available[0], "cuda": "cuda:0"}.get(str(device), device)
    if wanted not in available:
        nearest = nearest_name(str(device), ("auto", "cuda", *available))
        raise UsageError(
            "the device is not available",
            got=quote(device),
            expected=f"auto or one of {', '.join(available)}",
            todo=f"did you mean {quote(nearest)}?" if nearest not in (None, device) else None,
        )
    return wanted


def find_devices() -> list[str]:
    """Return the devices that torch can use, the best first."""
    import torch

    gpus = [f"cuda:{n}" for n in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*gpus, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def check_texts(texts: object) -> list[str]:
    """Return the texts as a list; refuse what is not a list of valid Unicode strings."""
    if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
        raise UsageError("texts must be a list of strings", got=quote(texts))
    checked = list(texts)
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            raise DataError("a text is not a string", where=f"row {row}", got=quote(text))
        if not is_unicode(text):
            what = "a text is not valid Unicode: it has half of a surrogate pair"
            raise DataError(what, where=f"row {row}", got=quote(text))
    return checked
