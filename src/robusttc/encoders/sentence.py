"""Frozen sentence vectors of a sentence-transformers model.

The vectors are those of ``SentenceTransformer.encode``. Batches hold texts of equally many tokens, so nothing
is padded, which saves a third of the time; and texts that are the same to the model (MiniLM, for one, ignores
case) are encoded once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.base import Arrays, Encoder, resolve_device
from robusttc.encoders.cache import VectorCache, default_cache
from robusttc.encoders.model_folder import check_model_folder, find_model_folder, hash_model_folder
from robusttc.encoders.weight_delta import (
    WeightDelta,
    apply_weight_delta,
    hash_weight_delta,
    read_weight_delta,
)
from robusttc.errors import DataError, quote

__all__ = ["SentenceEncoder", "SentenceModel"]

# Tokens that go through the model together: on a CPU more save nothing, on a GPU few leave it idle.
BATCH_TOKENS = {"cpu": 2_048, "cuda": 32_768, "mps": 16_384}


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SentenceModel:
    """A loaded sentence model.

    Attributes
    ----------
    folder
        Where its files are.
    device
        Where it runs.
    transformer
        The SentenceTransformer itself.
    """

    folder: Path
    device: str
    transformer: Any

    def __repr__(self) -> str:
        return f"SentenceModel({str(self.folder)!r}, {self.device})"


# The models of this process in use, by fingerprint and device: loading one takes seconds.
_loaded: WeakValueDictionary[tuple[str, str], SentenceModel] = WeakValueDictionary()


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
        The weights that fine-tuning changed: a file that `robusttc.encoders.fine_tune` wrote, or the arrays
        of another encoder's `load_weight_delta`.
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

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        *,
        weight_delta: str | PathLike[str] | WeightDelta | None = None,
        cache: VectorCache | None = None,
        device: str = "auto",
    ) -> None:
        self.model = model if model is None or isinstance(model, str) else Path(model)
        self.weight_delta = Path(weight_delta) if isinstance(weight_delta, str | PathLike) else weight_delta
        self.device = device
        self._cache = cache
        self._model: SentenceModel | None = None
        self._fingerprints: tuple[str, str] | None = None

    @property
    def cache(self) -> VectorCache:  # type: ignore[override]
        """Where vectors are kept."""
        return default_cache() if self._cache is None else self._cache

    @property
    def fingerprint(self) -> str:
        """The content of the model's files, and of the weights that were changed."""
        return self._identify()[0]

    @property
    def base_fingerprint(self) -> str:
        """The content of the model's files."""
        return self._identify()[1]

    def _identify(self) -> tuple[str, str]:
        # Without loading the model: importing the libraries takes ten seconds, hashing the files 0.1.
        if self._fingerprints is None:
            folder = find_model_folder(self.model)
            check_model_folder(folder)
            base = fingerprint = hash_model_folder(folder)
            delta = self.load_weight_delta(base=base)
            if delta:
                fingerprint = hashlib.sha256(f"{base}:{hash_weight_delta(delta)}".encode()).hexdigest()
            self._fingerprints = fingerprint, base
        return self._fingerprints

    def load_weight_delta(self, *, base: str | None = None) -> dict[str, NDArray[np.float32]] | None:
        """Return the weights that fine-tuning changed, or None; another encoder takes them as `weight_delta`.

        Raises
        ------
        DataError
            If they were made from a model of another fingerprint than `base`.
        """
        if not isinstance(self.weight_delta, Path):
            return None if self.weight_delta is None else dict(self.weight_delta)
        delta, its_base = read_weight_delta(self.weight_delta)
        if base is not None and its_base != base:
            raise DataError(
                "the fine-tuned weights belong to another model",
                where=str(self.weight_delta),
                got=f"a model of fingerprint {quote(base)}",
                expected=quote(its_base),
                todo="pass the model that was fine-tuned",
            )
        return delta

    def with_weight_delta(self, weight_delta: str | PathLike[str] | WeightDelta | None) -> SentenceEncoder:
        """Return an encoder of the same model with other fine-tuned weights."""
        return SentenceEncoder(self.model, weight_delta=weight_delta, cache=self._cache, device=self.device)

    def load(self) -> SentenceModel:
        """Load the model, unless this process has it already.

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
            found = _loaded.get(key)
            if found is None:
                delta = self.load_weight_delta(base=self.base_fingerprint)
                found = load_model(find_model_folder(self.model), key[1], delta)
                _loaded[key] = found
            self._model = found
        return self._model

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one per row; texts beyond the model's maximum length are cut."""
        if not texts:
            return self.encode([""])[:0]
        model = self.load()
        budget = BATCH_TOKENS[model.device.partition(":")[0]]
        distinct, text_of, lengths = tokenize(model.transformer, texts)
        by_length: dict[int, list[int]] = {}
        for number, length in enumerate(lengths):
            by_length.setdefault(length, []).append(number)
        vectors = np.empty(0, dtype=np.float32)
        for length in sorted(by_length, reverse=True):
            size = max(1, budget // length)
            for start in range(0, len(by_length[length]), size):
                batch = by_length[length][start : start + size]
                found = model.transformer.encode(
                    [distinct[number] for number in batch], batch_size=size, show_progress_bar=False
                )
                if not vectors.size:
                    vectors = np.empty((len(distinct), found.shape[1]), dtype=np.float32)
                vectors[batch] = found
        return vectors[text_of]

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return the model's name and fingerprint, and the changed weights."""
        delta = self.load_weight_delta()
        settings = {
            "encoder": "sentence",
            "model": None if self.model is None else str(self.model),
            "fingerprint": self.fingerprint,
            "dimension": self._dimension,
            "changed": delta is not None,
        }
        return settings, dict(delta or {})

    @classmethod
    def restore(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], device: str
    ) -> SentenceEncoder:
        """Return the encoder that was described."""
        delta = dict(arrays) if settings["changed"] else None
        return cls(check_model_name(settings), weight_delta=delta, device=device)

    def __getstate__(self) -> dict[str, Any]:
        # Another process loads the model for itself.
        return {**self.__dict__, "_model": None}

    def __repr__(self) -> str:
        parts = [] if self.model is None else [repr(str(self.model))]
        if self.weight_delta is not None:
            delta = self.weight_delta
            parts.append(
                f"weight_delta={str(delta) if isinstance(delta, Path) else f'{len(delta)} arrays'!r}"
            )
        return f"SentenceEncoder({', '.join(parts)})"


def check_model_name(settings: Mapping[str, Any]) -> str | None:
    """Return the model of a description; refuse one that is damaged."""
    model = settings["model"]
    if not isinstance(settings["fingerprint"], str) or not (model is None or isinstance(model, str)):
        raise TypeError("the model or its fingerprint is not a string")
    return model


def tokenize(transformer: Any, texts: Sequence[str]) -> tuple[list[str], NDArray[np.intp], list[int]]:
    """Find the texts that differ to the model.

    Returns
    -------
    tuple
        The first text of each distinct sequence of tokens, for each text its number among them, and the
        length of each (of a model without a tokenizer of transformers, the number of characters).
    """
    from transformers import PreTrainedTokenizerBase

    distinct = list(dict.fromkeys(texts))
    tokenizer = transformer.tokenizer
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        number_of_text = {text: number for number, text in enumerate(distinct)}
        lengths = [max(1, len(text)) for text in distinct]
        return distinct, np.array([number_of_text[text] for text in texts], dtype=np.intp), lengths
    longest = transformer.max_seq_length
    rows = tokenizer(
        distinct, truncation=longest is not None, max_length=longest, return_attention_mask=False
    )
    first_of: dict[tuple[int, ...], int] = {}
    number_of = {
        text: first_of.setdefault(tuple(ids), len(first_of))
        for text, ids in zip(distinct, rows["input_ids"], strict=True)
    }
    representative: dict[int, str] = {}
    for text, number in number_of.items():
        representative.setdefault(number, text)
    return (
        list(representative.values()),
        np.array([number_of[text] for text in texts], dtype=np.intp),
        [max(1, len(ids)) for ids in first_of],
    )


def load_model(folder: Path, device: str, delta: WeightDelta | None) -> SentenceModel:
    """Load a model from its folder, which has been checked."""
    from sentence_transformers import SentenceTransformer

    try:
        with silence_progress_bars():
            transformer = SentenceTransformer(
                str(folder),
                device=device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        raise DataError(
            "the sentence model cannot be loaded",
            where=str(folder),
            got=f"{type(error).__name__}: {quote(str(error))}",
            todo="its files may be damaged or of another version: download or install the model again",
        ) from error
    transformer.eval()
    check_all_weights_read(transformer, folder)
    if delta:
        apply_weight_delta(transformer[0].auto_model, delta, where=str(folder))
    return SentenceModel(folder, device, transformer)


def check_all_weights_read(transformer: Any, folder: Path) -> None:
    """Refuse a BERT whose file lacks weights: they would be random numbers, with no more than a log line."""
    from safetensors import safe_open

    model: Any = getattr(transformer[0], "auto_model", None)
    if type(model).__name__ != "BertModel":
        return  # others rename their weights on loading
    found: set[str] = set()
    for path in folder.rglob("*.safetensors"):
        with safe_open(path, framework="numpy") as file:
            # Files of the oldest models have other names for the weights of a normalisation.
            names = list(file.keys())
            found |= {name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in names}
    # A head that mean pooling does not use may be missing; a prefix may be in front.
    missing = [
        name
        for name, _ in model.named_parameters()
        if not name.startswith("pooler.") and name not in found and f"bert.{name}" not in found
    ]
    if missing:
        raise DataError(
            "the file of the model's weights is not complete",
            where=str(folder),
            got=f"no {quote(missing[0])}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
            todo="download or install the model again",
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
