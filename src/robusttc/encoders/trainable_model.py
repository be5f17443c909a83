"""A sentence model that can be trained, without the padding that batches of texts usually have.

On a CPU, a BERT runs on packed rows: the tokens of all texts are stacked in one matrix, so that no padding
goes through the matrix products, and only attention has a padded view. That halves the time of a step. Any
other model runs its own forward pass; so does a BERT that pools or computes differently.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.errors import UsageError
from robusttc.params import Integer, check_param
from robusttc.progress import Progress, report

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

__all__ = ["TrainableModel"]

# Above this size the outputs of the frozen layers are not cached, and these layers run in every step.
CACHED_BYTES = 1_500_000_000
TOKENS_AT_ONCE = 2_048
# Texts on which packed rows must reproduce the vectors of the model: short, upper case, and truncated.
PROBES = ("ok", "Where is MY parcel?", "please tell me more about it " * 80)


class TrainableModel:
    """A copy of a sentence model that computes vectors with gradients, without dropout.

    `parameters` are the trained tensors, by their names in the transformer.
    """

    def __init__(self, model: Any, *, trained_layers: int, max_tokens: int) -> None:
        self.device = model.device
        self.transformer: Any = copy.deepcopy(model).requires_grad_(False)
        self.bert: Any = getattr(self.transformer[0], "auto_model", None)
        layers = getattr(getattr(self.bert, "encoder", None), "layer", None)
        if layers is None:
            raise UsageError(
                "the layers of this sentence model are not known, so it cannot be fine-tuned",
                got=type(self.bert).__name__,
                expected="a model with encoder.layer, as BERT, RoBERTa and MPNet have it",
            )
        check_param("trained_layers", trained_layers, Integer(1, len(layers)))
        self.frozen, self.trained = layers[:-trained_layers], layers[-trained_layers:]
        prefixes = tuple(f"encoder.layer.{number}." for number in range(len(self.frozen), len(layers)))
        self.parameters = {
            name: value.requires_grad_(True)
            for name, value in self.transformer[0].auto_model.named_parameters()
            if name.startswith(prefixes)
        }
        self.transformer.max_seq_length = min(max_tokens, self.transformer.max_seq_length or max_tokens)
        default = self.transformer.default_prompt_name
        self.prompt: str = self.transformer.prompts[default] if default else ""
        self._states: dict[tuple[int, ...], torch.Tensor] = {}
        self.tokenizer = self._make_tokenizer()
        if self.tokenizer is not None:
            own = self.transformer.encode(list(PROBES), normalize_embeddings=True, show_progress_bar=False)
            packed = self.encode(PROBES).detach().numpy()
            if packed.shape != own.shape or not np.allclose(packed, own, atol=1e-4):
                self.tokenizer = None

    def _make_tokenizer(self) -> Tokenizer | None:
        """Return a tokenizer that does not pad, if the model may run on packed rows."""
        from tokenizers import Tokenizer

        fast = getattr(self.transformer.tokenizer, "backend_tokenizer", None)
        is_bert = type(self.bert).__name__ == "BertModel" and str(self.bert.dtype) == "torch.float32"
        if fast is None or not is_bert or self.device.type != "cpu":
            return None
        tokenizer = Tokenizer.from_str(fast.to_str())
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.transformer.max_seq_length)
        return tokenizer

    def encode(self, texts: Sequence[str]) -> torch.Tensor:
        """Return vectors of length 1, with gradients."""
        import torch

        if self.tokenizer is None:
            # Older versions of the library have the method under its other name.
            tokenize = getattr(self.transformer, "preprocess", None) or self.transformer.tokenize
            features = {
                name: value.to(self.device) if isinstance(value, torch.Tensor) else value
                for name, value in tokenize([self.prompt + text for text in texts]).items()
            }
            kind = self.device.type
            with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda"):
                vectors = self.transformer(features)["sentence_embedding"].float()
        else:
            rows = self._tokenize(texts)
            packing = Packing([len(row) for row in rows])
            if all(row in self._states for row in rows):
                states = torch.cat([self._states[row] for row in rows])
            else:
                states = self._run_frozen(rows, packing)
            vectors = packing.means @ run_layers(self.trained, states, packing)
        return torch.nn.functional.normalize(vectors)

    def cache_frozen_states(
        self, texts: Iterable[str], *, max_bytes: int = CACHED_BYTES, progress: Progress | None = None
    ) -> bool:
        """Run all texts through the frozen layers once, if the result fits; return whether it did.

        Rounding depends on the other rows of a batch, so the batches depend on the set of texts alone.
        """
        import torch

        if self.tokenizer is None:
            return False
        rows = sorted(set(self._tokenize(sorted(texts))), key=lambda row: (-len(row), row))
        if 4 * self.bert.config.hidden_size * sum(map(len, rows)) > max_bytes:
            return False
        start = 0
        while start < len(rows):
            batch = rows[start : start + max(1, TOKENS_AT_ONCE // len(rows[start]))]
            lengths = [len(row) for row in batch]
            states = self._run_frozen(batch, Packing(lengths))
            self._states.update(zip(batch, torch.split(states, lengths), strict=True))
            start += len(batch)
            report(progress, "frozen layers", start, len(rows), "texts")
        return True

    def _tokenize(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        assert self.tokenizer is not None  # noqa: S101 - only packed rows come here
        found = self.tokenizer.encode_batch_fast([self.prompt + text for text in texts])
        return [tuple(encoding.ids) for encoding in found]

    def _run_frozen(self, rows: Sequence[tuple[int, ...]], packing: Packing) -> torch.Tensor:
        """Return the outputs of the embeddings and the frozen layers, one row per token."""
        import torch

        embeddings = self.bert.embeddings
        with torch.no_grad():
            x = embeddings.word_embeddings.weight[torch.tensor([token for row in rows for token in row])]
            x += embeddings.position_embeddings.weight[packing.positions]
            x = embeddings.LayerNorm(x + embeddings.token_type_embeddings.weight[0])
            return run_layers(self.frozen, x, packing)


class Packing:
    """The positions of the tokens of several texts in one matrix with a row per token."""

    def __init__(self, lengths: Sequence[int]) -> None:
        import torch

        counts = np.asarray(lengths)
        starts = np.cumsum(counts) - counts
        text_of_token = np.repeat(np.arange(len(counts)), counts)
        tokens = np.arange(len(text_of_token))
        columns = np.arange(counts.max())
        is_token = columns < counts[:, None]
        means = np.zeros((len(counts), len(tokens)), dtype=np.float32)
        means[text_of_token, tokens] = 1 / counts[text_of_token]
        # (tokens,): the position of each token in its text.
        self.positions = torch.from_numpy(tokens - starts[text_of_token])
        # (texts, longest): the row of each cell of the padded view, 0 where there is none.
        self.padded = torch.from_numpy(np.where(is_token, starts[:, None] + columns, 0))
        self.is_token = torch.from_numpy(is_token)
        # (texts, tokens): averages tokens; unlike sums by index, independent of the order of threads.
        self.means = torch.from_numpy(means)


def run_layers(layers: Any, x: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Run packed rows through layers of a BERT, with the arithmetic of transformers."""
    from torch.nn import functional

    mask = packing.is_token[:, None, None, :]
    for layer in layers:
        inner = layer.attention.self
        shape = (*packing.padded.shape, inner.num_attention_heads, inner.attention_head_size)
        query, key, value = (
            part(x)[packing.padded].view(shape).transpose(1, 2)
            for part in (inner.query, inner.key, inner.value)
        )
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended = attended.transpose(1, 2).flatten(2)[packing.is_token]
        x = layer.attention.output.LayerNorm(layer.attention.output.dense(attended) + x)
        wide = functional.gelu(layer.intermediate.dense(x))
        x = layer.output.LayerNorm(layer.output.dense(wide) + x)
    return x
