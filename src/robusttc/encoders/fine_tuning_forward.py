"""Sentence vectors with gradients: a copy of the model whose upper layers are trained.

Recognised models (see `find_tokenizer`) run on packed rows: the tokens of all texts of a batch stand under
each other, so no padding goes through the matrix products, and only attention sees a padded view. All others
run as they come. There is no dropout on either road, so nothing is drawn at random here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from robusttc.encoders import SentenceModel
from robusttc.encoders.fine_tuning_parameters import choose_parameters
from robusttc.errors import UsageError, quote
from robusttc.progress import Progress, report

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TrainableModel", "contrastive_loss"]

# What the frozen layers make of all texts of a run may take so much memory; beyond, they run in every step.
REMEMBERED_BYTES = 1_500_000_000
TOKENS_AT_ONCE = 2_048


class TrainableModel:
    """A copy of a sentence model, with the parameters that are trained.

    Parameters
    ----------
    model
        The model to start from; it is left alone.
    trained_layers
        How many of its upper layers are trained.
    max_tokens
        Texts are cut after so many tokens.
    rank
        None trains the weights of these layers, a number only added matrices of this rank.
    seed
        What low-rank matrices start from.

    Attributes
    ----------
    parameters
        The trained tensors by name; names are those of the transformer inside, and ``NAME#up``, ``NAME#down``
        for the two factors of what is added to NAME.
    """

    def __init__(
        self, model: SentenceModel, *, trained_layers: int, max_tokens: int, rank: int | None, seed: int
    ) -> None:
        self.device = model.device
        self.fast = find_tokenizer(model.transformer)
        self.transformer: Any = copy.deepcopy(model.transformer).eval()
        bert: Any = getattr(self.transformer[0], "auto_model", None)
        layers = getattr(getattr(bert, "encoder", None), "layer", None)
        if layers is None or not isinstance(layers, nn.ModuleList):
            raise UsageError(
                "the layers of this sentence model are not known, so it cannot be fine-tuned",
                where=str(model.folder),
                got=type(bert).__name__,
                expected="a model with encoder.layer, as BERT, RoBERTa and MPNet have it",
            )
        if trained_layers > len(layers):
            raise UsageError(
                "trained_layers is more than the model has",
                got=quote(trained_layers),
                expected=f"an integer from 1 to {len(layers)}",
            )
        longest = self.transformer.max_seq_length
        self.max_tokens = max_tokens if longest is None else min(max_tokens, int(longest))
        self.transformer.max_seq_length = self.max_tokens
        default = self.transformer.default_prompt_name
        self.prompt: str = self.transformer.prompts[default] if default else ""
        self.bert = bert
        self.first_trained = len(layers) - trained_layers
        self.parameters = choose_parameters(bert, self.first_trained, rank, seed)
        self._remembered: dict[tuple[int, ...], torch.Tensor] = {}

    def encode(self, texts: Sequence[str]) -> torch.Tensor:
        """Give the vectors of texts, of length 1, with gradients."""
        if self.fast is not None:
            rows = self.tokenize(texts)
            known = [self._remembered.get(row) for row in rows]
            found = [states for states in known if states is not None]
            places = Places([len(row) for row in rows])
            states = torch.cat(found) if len(found) == len(rows) else self._run_frozen(rows, places)
            upper = self.bert.encoder.layer[self.first_trained :]
            vectors = places.means @ run_layers(upper, states, places, self.bert.config.num_attention_heads)
        else:
            # The newer name of a method that older versions have under the other.
            tokenize = getattr(self.transformer, "preprocess", None) or self.transformer.tokenize
            features = tokenize([self.prompt + text for text in texts])
            features = {
                name: value.to(self.device) if isinstance(value, torch.Tensor) else value
                for name, value in features.items()
            }
            kind = torch.device(self.device).type
            with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda"):
                vectors = self.transformer(features)["sentence_embedding"]
        return functional.normalize(vectors.float(), dim=1)

    def remember(
        self, texts: Sequence[str], *, max_bytes: int = REMEMBERED_BYTES, progress: Progress | None = None
    ) -> bool:
        """Run texts through the frozen layers once and for all, if the outcome fits into so many bytes.

        Rounding depends on what is beside a text, so the batches are made from the set of all texts: a run
        that goes on from a checkpoint gets the same states.
        """
        if self.fast is None:
            return False
        rows = sorted(set(self.tokenize(texts)), key=lambda row: (-len(row), row))
        width = self.bert.config.hidden_size
        if 4 * width * sum(map(len, rows)) > max_bytes:
            return False
        start = 0
        while start < len(rows):
            stop = start + max(1, TOKENS_AT_ONCE // len(rows[start]))
            batch = rows[start:stop]
            states = self._run_frozen(batch, Places([len(row) for row in batch]))
            pieces = torch.split(states, [len(row) for row in batch])
            self._remembered.update(zip(batch, pieces, strict=True))
            start += len(batch)
            report(progress, "frozen layers", start, len(rows), "texts")
        return True

    def _run_frozen(self, rows: Sequence[tuple[int, ...]], places: Places) -> torch.Tensor:
        assert self.fast is not None  # noqa: S101 - only called on the fast road
        embeddings = self.bert.embeddings
        with torch.no_grad():
            ids = torch.tensor([token for row in rows for token in row])
            x = functional.embedding(ids, embeddings.word_embeddings.weight)
            x += embeddings.position_embeddings.weight[places.of_tokens]
            x = embeddings.LayerNorm(x + embeddings.token_type_embeddings.weight[0])
            n_heads = self.bert.config.num_attention_heads
            return run_layers(self.bert.encoder.layer[: self.first_trained], x, places, n_heads)

    def tokenize(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Give the token numbers of texts, cut; for recognised models alone."""
        assert self.fast is not None  # noqa: S101 - only called on the fast road
        found = self.fast.encode_batch_fast([self.prompt + text for text in texts])
        rows = [tuple(encoding.ids) for encoding in found]
        # The last token closes the text, and is kept.
        return [
            row if len(row) <= self.max_tokens else (*row[: self.max_tokens - 1], row[-1]) for row in rows
        ]


def find_tokenizer(model: Any) -> Tokenizer | None:
    """Give a tokenizer that does not pad, for a model whose arithmetic is that of `run_layers`; else None."""
    from tokenizers import Tokenizer
    from transformers import BertModel

    kinds = [type(module).__name__ for module in model]
    bert = getattr(model[0], "auto_model", None)
    if type(bert) is not BertModel or kinds not in (
        ["Transformer", "Pooling"],
        ["Transformer", "Pooling", "Normalize"],
    ):
        return None
    config, pooling = bert.config, model[1]
    is_plain = (
        model.device.type == "cpu"
        and all(parameter.dtype == torch.float32 for parameter in bert.parameters())
        and config.hidden_act == "gelu"
        and not config.is_decoder
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and getattr(pooling, "pooling_mode", None) == "mean"
        and (not model.default_prompt_name or pooling.include_prompt)
        and not getattr(model[0], "do_lower_case", False)
        and model.truncate_dim is None
        and model.max_seq_length is not None
        and model.max_seq_length <= config.max_position_embeddings
    )
    if not is_plain:
        return None
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_seq_length)
    return tokenizer


class Places:
    """Where the tokens of texts stand that are packed under each other.

    Attributes
    ----------
    of_tokens
        The place of each token in its text.
    padded, is_own
        Shape (texts, longest): where a padded view takes each place from, and which of its places there are;
        the others take the first token, and are masked.
    means
        Shape (texts, tokens): the matrix that averages the tokens of each text. A product in place of sums by
        index: its result does not depend on the order of threads.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        counts = np.asarray(lengths)
        starts = np.cumsum(counts) - counts
        text_of_token = np.repeat(np.arange(len(counts)), counts)
        tokens = np.arange(len(text_of_token))
        columns = np.arange(counts.max())
        own = columns < counts[:, None]
        means = np.zeros((len(counts), len(tokens)), dtype=np.float32)
        means[text_of_token, tokens] = 1 / counts[text_of_token]
        self.of_tokens = torch.from_numpy(tokens - starts[text_of_token])
        self.padded = torch.from_numpy(np.where(own, starts[:, None] + columns, 0))
        self.is_own = torch.from_numpy(own)
        self.means = torch.from_numpy(means)


def run_layers(layers: Any, x: torch.Tensor, places: Places, n_heads: int) -> torch.Tensor:
    """Run packed tokens through layers of a BERT; the arithmetic is that of transformers' own."""
    shape = (*places.padded.shape, n_heads, x.shape[1] // n_heads)
    mask = places.is_own[:, None, None, :]
    for layer in layers:
        inner = layer.attention.self
        query, key, value = (
            part(x)[places.padded].view(shape).transpose(1, 2)
            for part in (inner.query, inner.key, inner.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        seen = seen.transpose(1, 2).flatten(2)[places.is_own]
        x = layer.attention.output.LayerNorm(layer.attention.output.dense(seen) + x)
        wide = functional.gelu(layer.intermediate.dense(x))
        x = layer.output.LayerNorm(layer.output.dense(wide) + x)
    return x


def contrastive_loss(vectors: torch.Tensor, codes: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """Give the supervised contrastive loss of vectors of length 1.

    For each text i whose label has another text in the batch, with P(i) these others and s = cosine / T:

        loss_i = - mean over p in P(i) of  log( exp(s_ip) / sum over j != i of exp(s_ij) )

    and the loss is the mean over such i.

    Examples
    --------
    >>> vectors = torch.eye(2)[[0, 0, 1, 1]]
    >>> round(float(contrastive_loss(vectors, torch.tensor([0, 0, 1, 1]), temperature=0.5)), 4)
    0.2395
    """
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    similarity = (vectors @ vectors.T / temperature).masked_fill(itself, -torch.inf)
    log_share = similarity - similarity.logsumexp(dim=1, keepdim=True)
    same = (codes[:, None] == codes[None, :]) & ~itself
    n_same = same.sum(dim=1)
    per_text = -log_share.masked_fill(~same, 0.0).sum(dim=1) / n_same.clamp(min=1)
    return per_text.sum() / (n_same > 0).sum().clamp(min=1)
