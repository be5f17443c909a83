"""Very fast sentence vectors: the mean of token vectors that are distilled from a sentence model.

At first use, every token of the model's vocabulary goes through the model alone; the vectors are reduced by
PCA and weighted by how rare the token is (SIF: Arora, Liang and Ma, "A simple but tough-to-beat baseline for
sentence embeddings", 2017; frequencies by Zipf's law from the order of the vocabulary, as in model2vec). That
takes half a minute of CPU time once; the table is kept in the cache folder. Vectors are then a hundred times
as fast as the model's own, and less accurate: good for drafts, and for very many tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.base import Encoder
from robusttc.encoders.cache import load_or_compute
from robusttc.encoders.cnn import project
from robusttc.encoders.model_folder import find_model_folder, model_name, read_tokenizer
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.errors import UsageError, quote
from robusttc.params import Integer, check_param

__all__ = ["StaticEncoder"]

SIF_COEFFICIENT = 1e-4
BATCH_TOKENS = 1_024
MAX_CHARACTERS = 20_000

# The tables of this process, by fingerprint.
_tables: dict[str, NDArray[np.float32]] = {}


class StaticEncoder(Encoder):
    """Texts as means of token vectors that are distilled from a sentence model.

    Vectors are not cached: computing them is faster. Texts are cut after 20,000 characters.

    Parameters
    ----------
    model
        The sentence model, as in `SentenceEncoder`.
    dimension
        The length of a vector, from 1 to that of the model's own.
    device
        Where the model runs when it is distilled.

    Examples
    --------
    >>> StaticEncoder(dimension=128)
    StaticEncoder(dimension=128)
    """

    name = "static"
    _options = ("model", "dimension")
    _tokenizer: Any = None

    def __init__(
        self, model: str | PathLike[str] | None = None, *, dimension: int = 256, device: str = "auto"
    ) -> None:
        check_param("dimension", dimension, Integer(1))
        self.model = model_name(model)
        self.dimension = int(dimension)
        self.device = device

    @cached_property
    def fingerprint(self) -> str:
        """The content of the sentence model's files, and how it is distilled."""
        base = SentenceEncoder(self.model).fingerprint
        identity = f"robusttc-static-1 {self.dimension} {SIF_COEFFICIENT} {base}"
        return hashlib.sha256(identity.encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one per row, of length 1; zeros for a text without tokens."""
        table = self.load()
        if self._tokenizer is None:
            self._tokenizer = read_tokenizer(find_model_folder(self.model))
        encodings = self._tokenizer.encode_batch_fast(
            [text[:MAX_CHARACTERS] for text in texts], add_special_tokens=False
        )
        vectors = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        rows = [row for row, encoding in enumerate(encodings) if encoding.ids]
        if rows:
            ids = np.concatenate([encodings[row].ids for row in rows])
            starts = np.cumsum([0, *(len(encodings[row].ids) for row in rows[:-1])])
            # Sums, not means: the length is made 1 below.
            vectors[rows] = np.add.reduceat(table[ids], starts, axis=0)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def load(self) -> NDArray[np.float32]:
        """Return the table of token vectors: from memory, from the cache folder, or distilled now."""
        if self.fingerprint not in _tables:
            encoder = SentenceEncoder(self.model, device=self.device)
            arrays = load_or_compute(
                "static", self.fingerprint, lambda: {"table": distil(encoder, self.dimension)}
            )
            _tables[self.fingerprint] = arrays["table"]
        return _tables[self.fingerprint]


def distil(encoder: SentenceEncoder, dimension: int) -> NDArray[np.float32]:
    """Return one vector per token of a sentence model; zeros for its special tokens."""
    import torch
    from transformers import PreTrainedTokenizerBase

    model = encoder.load()
    tokenizer = model.tokenizer
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise UsageError("this sentence model has no tokenizer to distil", got=quote(encoder))
    # The special tokens that the model expects around a text, for instance [CLS] and [SEP].
    bare, marked = (tokenizer("a", add_special_tokens=mark)["input_ids"] for mark in (False, True))
    start = marked.index(bare[0])
    before, after = marked[:start], marked[start + len(bare) :]
    wrapped = torch.tensor([[*before, number, *after] for number in range(len(tokenizer))])
    size = max(1, BATCH_TOKENS // wrapped.shape[1])
    vectors = []
    with torch.inference_mode():
        for batch in torch.split(wrapped.to(model.device), size):
            features = {"input_ids": batch, "attention_mask": torch.ones_like(batch)}
            vectors.append(model(features)["sentence_embedding"].float().cpu().numpy())
    table = np.concatenate(vectors).astype(np.float64)
    if dimension > table.shape[1]:
        raise UsageError(
            "dimension is larger than that of the sentence model",
            got=quote(dimension),
            expected=f"an integer from 1 to {table.shape[1]}",
        )
    projected = project(table, dimension)
    # Zipf's law: the probability of a token falls with its rank, which is about its number.
    inverse_rank = 1 / np.arange(2, len(table) + 2)
    probability = inverse_rank / inverse_rank.sum()
    projected *= (SIF_COEFFICIENT / (SIF_COEFFICIENT + probability))[:, None]
    projected[tokenizer.all_special_ids] = 0
    return projected.astype(np.float32)
