"""BERT with mean pooling, as a plain function of equally long rows: no padding, no mask, no dropout.

The largest part of the time of a small BERT goes into its matrix products, so what counts is to put no
padding through them. Rows of one batch all have the same length; queries, keys and values come out of one
product. `recognise_bert` takes this road only for the exact module types whose arithmetic is written down
here, and only if it reproduces the model's own vectors on a few texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

__all__ = ["FastBert", "recognise_bert"]

# Lengths from nothing to beyond the longest that a model takes, accents, other scripts, special tokens.
PROBES = ("", "ok", "Where's my parcel (No. 7)?", "Ärger [SEP] 東京 naïve 🙂", "the quick brown fox " * 200)
PROBE_TOLERANCE = 1e-4

# With fewer rows some BLAS libraries take another road through a product, with other rounding: then the
# vector of a text would depend on the texts beside it.
MIN_BATCH_TOKENS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The weights of one layer; ``joint`` is queries, keys and values under each other."""

    joint: tuple[torch.Tensor, torch.Tensor]
    attention: tuple[torch.Tensor, torch.Tensor]
    attention_norm: torch.nn.LayerNorm
    widen: tuple[torch.Tensor, torch.Tensor]
    narrow: tuple[torch.Tensor, torch.Tensor]
    norm: torch.nn.LayerNorm


@dataclass(frozen=True, slots=True, eq=False)
class FastBert:
    """What the fast road needs of a recognised model.

    Attributes
    ----------
    tokenizer
        Cuts at the model's maximum length, and does not pad.
    prompt
        Text put in front of every text; mostly empty.
    max_length
        The number of tokens kept, special ones included.
    cuts_at_spaces
        Whether no token reaches over a space, so that the beginning of a text can be tokenised alone.
    """

    tokenizer: Tokenizer
    prompt: str
    max_length: int
    cuts_at_spaces: bool
    words: torch.Tensor
    places: torch.Tensor
    norm: torch.nn.LayerNorm
    layers: tuple[Layer, ...]
    n_heads: int
    normalize: bool

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Give the vectors (rows, d) of token numbers (rows, length); call it in inference mode."""
        from torch.nn import functional

        n_rows, length = ids.shape
        n_repeats = -(-MIN_BATCH_TOKENS // max(1, n_rows * length))
        if n_repeats > 1:
            ids = ids.repeat(n_repeats, 1)
        x = self.norm(functional.embedding(ids, self.words) + self.places[:length])
        batch, _, width = x.shape
        x = x.view(batch * length, width)
        for layer in self.layers:
            joint = functional.linear(x, *layer.joint).view(
                batch, length, 3, self.n_heads, width // self.n_heads
            )
            query, key, value = joint.permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(query, key, value)
            seen = seen.transpose(1, 2).reshape(batch * length, width)
            x = layer.attention_norm(functional.linear(seen, *layer.attention).add_(x))
            wide = functional.gelu(functional.linear(x, *layer.widen))
            x = layer.norm(functional.linear(wide, *layer.narrow).add_(x))
        pooled = x.view(batch, length, width)[:n_rows].mean(dim=1)
        return functional.normalize(pooled, p=2, dim=-1) if self.normalize else pooled


def recognise_bert(model: Any) -> FastBert | None:
    """Give the fast road of a sentence-transformers model, or None if it has none.

    Parameters
    ----------
    model
        A SentenceTransformer, loaded.
    """
    import torch

    try:
        fast = take_apart(model)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # another version or kind of model, whose parts have other names
    if fast is None:
        return None
    expected = model.encode(list(PROBES), show_progress_bar=False, convert_to_numpy=True)
    with torch.inference_mode():
        rows = [fast.tokenizer.encode(fast.prompt + text).ids for text in PROBES]
        got = np.concatenate([fast.forward(torch.tensor([row])).numpy() for row in rows])
    size = np.linalg.norm(expected, axis=1, keepdims=True)
    return fast if bool((np.abs(got - expected) <= PROBE_TOLERANCE * size).all()) else None


def take_apart(model: Any) -> FastBert | None:
    """Check every part of the model, and collect its weights."""
    import torch
    from tokenizers import Tokenizer
    from transformers import BertModel

    kinds = [type(module).__name__ for module in model]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return None
    transformer, pooling = model[0], model[1]
    bert = transformer.auto_model
    prompt = model.prompts[model.default_prompt_name] if model.default_prompt_name else ""
    config = bert.config
    is_plain = (
        type(bert) is BertModel
        and model.device.type == "cpu"
        and all(parameter.dtype == torch.float32 for parameter in bert.parameters())
        and config.hidden_act == "gelu"
        and not config.is_decoder
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and is_mean(pooling)
        and (not prompt or pooling.include_prompt)
        and not getattr(transformer, "do_lower_case", False)
        and model.truncate_dim is None
        and model.max_seq_length is not None
        and model.max_seq_length <= config.max_position_embeddings
    )
    if not is_plain:
        return None
    layers = tuple(take_layer(layer) for layer in bert.encoder.layer)
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_seq_length)
    embeddings = bert.embeddings
    kinds_of_place = embeddings.token_type_embeddings.weight[0]
    return FastBert(
        tokenizer=tokenizer,
        prompt=prompt or "",
        max_length=int(model.max_seq_length),
        cuts_at_spaces=type(tokenizer.pre_tokenizer).__name__ == "BertPreTokenizer",
        words=embeddings.word_embeddings.weight.detach(),
        places=(embeddings.position_embeddings.weight + kinds_of_place).detach(),
        norm=plain_norm(embeddings.LayerNorm),
        layers=layers,
        n_heads=int(config.num_attention_heads),
        normalize=len(kinds) == 3,
    )


def is_mean(pooling: Any) -> bool:
    """Tell whether the vectors of the tokens are averaged; older versions spell it in another way."""
    if hasattr(pooling, "pooling_mode"):
        return bool(pooling.pooling_mode == "mean")
    return bool(pooling.get_pooling_mode_str() == "mean")


def take_layer(layer: Any) -> Layer:
    """Collect the weights of one layer."""
    import torch

    inner = layer.attention.self
    parts = [plain_weights(linear) for linear in (inner.query, inner.key, inner.value)]
    return Layer(
        joint=(torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])),
        attention=plain_weights(layer.attention.output.dense),
        attention_norm=plain_norm(layer.attention.output.LayerNorm),
        widen=plain_weights(layer.intermediate.dense),
        narrow=plain_weights(layer.output.dense),
        norm=plain_norm(layer.output.LayerNorm),
    )


def plain_weights(linear: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Give weight and bias; a layer that is more than linear (an adapter, a quantised one) is turned away."""
    import torch

    if type(linear) is not torch.nn.Linear or linear.bias is None:
        raise TypeError("not a plain linear layer")
    return linear.weight.detach(), linear.bias.detach()


def plain_norm(norm: Any) -> torch.nn.LayerNorm:
    """Give the normalisation, if it is the usual one."""
    import torch

    if type(norm) is not torch.nn.LayerNorm:
        raise TypeError("not a plain normalisation")
    return norm
