"""Frozen sentence vectors of a sentence-transformers model.

The vectors are those of ``SentenceTransformer.encode``. Batches hold texts of equally many tokens, so nothing
is padded, which saves a third of the time; and texts that are the same to the model (MiniLM, for one, ignores
case) are encoded once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.base import Arrays, Encoder, ModelSize
from robusttc.encoders.cache import VectorCache, default_cache
from robusttc.encoders.model_folder import (
    check_model_folder,
    find_model_folder,
    hash_model_folder,
    model_name,
)
from robusttc.errors import DataError, UsageError, quote, suggest

__all__ = ["SentenceEncoder", "resolve_device"]

# Tokens that go through the model together: on a CPU more save nothing, on a GPU few leave it idle.
BATCH_TOKENS = {"cpu": 2_048, "cuda": 32_768, "mps": 16_384}

TRANSFORMER_SIZES = ("num_hidden_layers", "hidden_size", "intermediate_size")

# New values of tensors, by their names in the transformer.
WeightDelta = Mapping[str, NDArray[np.float32]]

# The models of this process in use, by fingerprint and device: loading one takes seconds.
_loaded: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()


class SentenceEncoder(Encoder):
    """Texts as frozen sentence vectors.

    Every vector is computed once and kept on disk (see `VectorCache`), for this run and all later ones; those
    of texts to predict are not kept. Pickled weights are refused, and code in a model's folder is never run.

    Parameters
    ----------
    model
        A folder, or the name of a model on the hub, which is taken from the local cache if it is there. None
        takes the MiniLM that comes with the package.
    weight_delta
        The weights that `robusttc.encoders.fine_tune` changed, by their names in the transformer.
    cache
        Where vectors are kept; None takes the user's cache folder, `VectorCache.disabled()` keeps none.
    device
        Where the model runs: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:N``, ``mps``.

    Examples
    --------
    >>> encoder = SentenceEncoder(device="cpu")
    >>> vectors = encoder.encode(["Where is my parcel?", "WHERE is my parcel?"])
    >>> vectors.shape, bool((vectors[0] == vectors[1]).all())
    ((2, 384), True)
    """

    name = "sentence"
    _options = ("model",)
    cache: VectorCache
    _model: Any = None

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        *,
        weight_delta: WeightDelta | None = None,
        cache: VectorCache | None = None,
        device: str = "auto",
    ) -> None:
        self.model = model_name(model)
        self.weight_delta = weight_delta
        self.device = device
        self.cache = default_cache() if cache is None else cache

    @cached_property
    def base_fingerprint(self) -> str:
        """The content of the model's files."""
        # Without loading the model: importing the libraries takes ten seconds, hashing the files 0.1.
        folder = find_model_folder(self.model)
        check_model_folder(folder)
        return hash_model_folder(folder)

    @cached_property
    def fingerprint(self) -> str:
        """The content of the model's files, and of the weights that were changed."""
        base = self.base_fingerprint
        if not self.weight_delta:
            return base
        return hashlib.sha256(f"{base}:{hash_weight_delta(self.weight_delta)}".encode()).hexdigest()

    @property
    def model_size(self) -> ModelSize | None:
        """The size by the model's configuration; None on a GPU, whose speed is not known."""
        if resolve_device(self.device) != "cpu":
            return None
        try:
            configuration = json.loads((find_model_folder(self.model) / "config.json").read_bytes())
            layers, width, inner = (int(configuration[name]) for name in TRANSFORMER_SIZES)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return ModelSize(layers * (4 * width**2 + 2 * width * inner), width)

    def load(self) -> Any:
        """Return the SentenceTransformer, which is loaded unless this process has it already.

        Raises
        ------
        UsageError
            If the model or the device is not available.
        DataError
            If the folder is not a model, a file of it is missing, damaged or pickled, or the changed weights
            belong to another model.
        """
        if self._model is None:
            key = self.fingerprint, resolve_device(self.device)
            self._model = _loaded.get(key)
            if self._model is None:
                self._model = load_model(find_model_folder(self.model), key[1], self.weight_delta)
                _loaded[key] = self._model
        return self._model

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one per row; texts beyond the model's maximum length are cut."""
        if not texts:
            return self.encode([""])[:0]
        model = self.load()
        if len(texts) == 1:  # there is nothing to sort: tokenizing it twice would only take time
            return run_model(model, list(texts))
        # Texts of the same tokens are encoded once: the first of them.
        tokens = tokenize(model, texts)
        first_of: dict[tuple[int, ...] | str, int] = {}
        for number, row in enumerate(tokens):
            first_of.setdefault(row, number)
        by_length: dict[int, list[int]] = {}
        for row, number in first_of.items():
            by_length.setdefault(max(1, len(row)), []).append(number)
        vector_of: dict[int, NDArray[np.float32]] = {}
        for length in sorted(by_length, reverse=True):
            size = max(1, BATCH_TOKENS[model.device.type] // length)
            for start in range(0, len(by_length[length]), size):
                batch = by_length[length][start : start + size]
                vectors = run_model(model, [texts[number] for number in batch])
                vector_of.update(zip(batch, vectors, strict=True))
        return np.stack([vector_of[first_of[row]] for row in tokens])

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return the model's name and fingerprint, and the changed weights."""
        return super().describe()[0], dict(self.weight_delta or {})

    def __repr__(self) -> str:
        changed = f"weight_delta=<{len(self.weight_delta)} arrays>" if self.weight_delta else ""
        model = "" if self.model is None else f"model={self.model!r}"
        return f"SentenceEncoder({', '.join(filter(None, (model, changed)))})"


def tokenize(model: Any, texts: Sequence[str]) -> Sequence[tuple[int, ...] | str]:
    """Return the tokens of every text as the model reads it; texts themselves if nothing is known of them."""
    from transformers import PreTrainedTokenizerBase

    if not isinstance(model.tokenizer, PreTrainedTokenizerBase):
        return texts
    longest = model.max_seq_length
    rows = model.tokenizer(
        list(texts), truncation=longest is not None, max_length=longest, return_attention_mask=False
    )
    return [tuple(ids) for ids in rows["input_ids"]]


def run_model(model: Any, texts: list[str]) -> NDArray[np.float32]:
    """Return the vectors of one batch."""
    vectors = model.encode(texts, batch_size=len(texts), show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)


def load_model(folder: Path, device: str, delta: WeightDelta | None) -> Any:
    """Load a model from its folder, which has been checked."""
    from sentence_transformers import SentenceTransformer

    try:
        with silence_progress_bars():
            model = SentenceTransformer(
                str(folder),
                device=device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            ).eval()
        missing = find_missing_weights(model, folder)
    except Exception as error:  # the libraries raise almost any kind for a damaged file
        raise DataError(
            "the sentence model cannot be loaded",
            where=str(folder),
            got=f"{type(error).__name__}: {' '.join(str(error).split())}",
            todo="its files may be damaged or of another version: download or install the model again",
        ) from error
    if missing:
        raise DataError(
            "the file of the model's weights is not complete",
            where=str(folder),
            got=f"no {quote(missing[0])}",
        )
    if delta:
        apply_weight_delta(model[0].auto_model, delta, where=str(folder))
    return model


def find_missing_weights(model: Any, folder: Path) -> list[str]:
    """Return the weights of a BERT that its file lacks; the library only logs that they are random."""
    from safetensors import safe_open

    bert: Any = getattr(model[0], "auto_model", None)
    if type(bert).__name__ != "BertModel":
        return []  # others rename their weights on loading
    found: set[str] = set()
    for path in folder.rglob("*.safetensors"):
        with safe_open(path, framework="numpy") as file:
            # Files of the oldest models have other names, and there may be a prefix.
            names = [name.removeprefix("bert.") for name in file.keys()]  # noqa: SIM118 - not a dict
            found |= {name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in names}
    # A head that mean pooling does not use may be missing.
    names = [name for name, _ in bert.named_parameters() if not name.startswith("pooler.")]
    return [name for name in names if name not in found]


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
            )
        with torch.no_grad():
            parameters[name].copy_(torch.from_numpy(values))


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


def resolve_device(device: str) -> str:
    """Return an available device, ``cpu``, ``cuda:N`` or ``mps``; ``auto`` takes a GPU if there is one.

    Raises
    ------
    UsageError
        If there is no such device; the message lists those that there are.
    """
    if device == "cpu":
        return device  # without importing torch
    available = find_devices()
    wanted = {"auto": available[0], "cuda": "cuda:0"}.get(str(device), device)
    if wanted not in available:
        raise UsageError(
            "the device is not available",
            got=quote(device),
            expected=f"auto or one of {', '.join(available)}",
            todo=suggest(device, {"auto", "cuda", *available} - {str(device)}),
        )
    return wanted


def find_devices() -> list[str]:
    """Return the devices that torch can use, the best first."""
    if metadata.version("torch").endswith("+cpu"):
        return ["cpu"]  # importing torch takes seconds
    import torch

    gpus = [f"cuda:{n}" for n in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*gpus, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]
