"""Contrastive fine-tuning of a sentence encoder on many tasks at once, so that new tasks need few examples.

Each step takes texts of one task, since labels of different tasks may mean the same, and minimises the
supervised contrastive loss (`contrastive_loss`): texts of one label move together, texts of different labels
apart. The name of a label, where it is made of words, can be one more text of it. Only the upper layers are
trained; the layers below run once for each text.

Deviation: the paper has no sentence encoder. Fine-tuning adds much on small intent tasks where sentences of
other tasks come again, and little on new ones.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders.cache import load_or_compute
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.errors import DataError, UsageError, quote
from robusttc.files import encode_json
from robusttc.params import Integer, Number, Settings, check_param
from robusttc.progress import Progress, report
from robusttc.random import numpy_generator

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

__all__ = ["FineTuningSettings", "fine_tune"]

WARM_UP = 0.1  # the share of the steps in which the learning rate rises
TASK_POWER = 0.5  # the probability of a task is proportional to this power of its number of texts
MAX_TOKENS = 64  # longer texts are truncated, in training only
# Above this size the outputs of the frozen layers are not cached, and these layers run in every step.
CACHED_BYTES = 1_500_000_000
TOKENS_AT_ONCE = 2_048
# Texts on which packed rows must reproduce the vectors of the model: short, upper case, and truncated.
PROBES = ("ok", "Where is MY parcel?", "please tell me more about it " * 80)

LabelTexts = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuningSettings(Settings):
    """The hyperparameters of `fine_tune`.

    Parameters
    ----------
    steps
        The number of batches.
    labels_per_batch, texts_per_label
        The size of a batch, which is of one task; the names of labels are not counted.
    temperature
        What cosines are divided by in the loss.
    learning_rate
        The learning rate of Adam rises to this value in the first tenth of the steps, then it falls to 0,
        both linearly.
    trained_layers
        How many of the upper layers are trained; those below and the word vectors are frozen.

    Examples
    --------
    >>> settings = FineTuningSettings(steps=100)
    >>> [round(settings.rate_at(step), 7) for step in (0, 9, 99)]
    [5e-06, 5e-05, 6e-07]
    """

    steps: int = 700
    labels_per_batch: int = 14
    texts_per_label: int = 4
    temperature: float = 0.07
    learning_rate: float = 5e-5
    trained_layers: int = 3

    def __post_init__(self) -> None:
        self._check(
            {
                **dict.fromkeys(("steps", "trained_layers"), (Integer(1),)),
                **dict.fromkeys(("labels_per_batch", "texts_per_label"), (Integer(2),)),
                **dict.fromkeys(("temperature", "learning_rate"), (Number(0, excludes=("low",)),)),
            }
        )

    def rate_at(self, step: int) -> float:
        """Return the learning rate at a step, counted from 0."""
        n_rising = math.ceil(WARM_UP * self.steps)
        if step < n_rising:
            return self.learning_rate * (step + 1) / n_rising
        return self.learning_rate * (self.steps - step) / max(self.steps - n_rising, 1)


def fine_tune(
    encoder: SentenceEncoder,
    tasks: TaskSet,
    *,
    settings: FineTuningSettings | None = None,
    seed: int = 0,
    label_texts: LabelTexts | None = None,
    progress: Progress | None = None,
) -> SentenceEncoder:
    """Return a sentence encoder that separates the labels of these tasks better.

    The trained weights are stored in the user's cache folder under a key of the model, the training rows, the
    settings and the seed, so a second call with the same arguments takes no time.

    Parameters
    ----------
    encoder
        The encoder to start from, which is not changed; it may itself be fine-tuned.
    tasks
        The tasks. Only training rows of tasks that may be shared are read.
    settings
        The hyperparameters; None takes the defaults.
    seed
        The seed of the batches, an integer from 0 up.
    label_texts
        Returns the words of a label, or None where its name has none. Without it, names are not used.
    progress
        Called after every step.

    Raises
    ------
    DataError
        If no task has enough texts, or the training diverges.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> task = Task("a", ["hi", "hello", "bye", "see you"], ["greet", "greet", "leave", "leave"])
    >>> settings = FineTuningSettings(steps=2, trained_layers=1)
    >>> tuned = fine_tune(SentenceEncoder(device="cpu"), TaskSet([task]), settings=settings)
    >>> len(tuned.weight_delta)
    16
    """
    settings = FineTuningSettings() if settings is None else settings
    if not isinstance(encoder, SentenceEncoder):
        raise UsageError("only a sentence encoder can be fine-tuned", got=quote(encoder))
    check_param("seed", seed, Integer(0))
    collected = collect_texts(tasks, label_texts)
    # Everything that the weights depend on.
    identity = {
        "version": 2,
        "encoder": encoder.fingerprint,
        "tasks": [[task.task, task.texts, task.names] for task in collected],
        "settings": settings.fingerprint,
        "seed": int(seed),
    }
    trained = load_or_compute(
        "tuned",
        hashlib.sha256(encode_json(identity).encode()).hexdigest(),
        lambda: train(encoder.load(), collected, settings=settings, seed=seed, progress=progress),
    )
    delta = {**(encoder.weight_delta or {}), **trained}
    return SentenceEncoder(encoder.model, weight_delta=delta, cache=encoder.cache, device=encoder.device)


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """The usable training texts of one task: the distinct texts of each label, and the text of its name."""

    task: str
    texts: tuple[tuple[str, ...], ...]
    names: tuple[str | None, ...]


class Batch(NamedTuple):
    """Texts of one task with the number of their label within the batch."""

    task: str
    texts: list[str]
    codes: list[int]


def collect_texts(tasks: TaskSet, label_texts: LabelTexts | None = None) -> list[LabelledTexts]:
    """Return the usable texts of every task that has some, sorted by name.

    Only training rows of tasks that may be shared count. Texts with two labels are left out, and then labels
    with a single text and no name, and tasks with fewer than two labels.
    """
    collected = []
    for task in sorted(tasks, key=lambda task: task.name):
        if not task.may_share:
            continue
        rows = task.rows("train")
        labels_of: dict[str, set[int]] = {}
        for text, code in zip(task.texts_at(rows), task.label_codes[rows].tolist(), strict=True):
            labels_of.setdefault(text, set()).add(code)
        texts_of: dict[int, list[str]] = {}
        for text, codes in labels_of.items():
            if len(codes) == 1:
                texts_of.setdefault(codes.pop(), []).append(text)
        named = [
            (tuple(texts_of[code]), label_texts(task.label_names[code]) if label_texts is not None else None)
            for code in sorted(texts_of)
        ]
        kept = [(texts, name) for texts, name in named if len(texts) + (name is not None) > 1]
        if len(kept) > 1:
            texts, names = zip(*kept, strict=True)
            collected.append(LabelledTexts(task.name, texts, names))
    if not collected:
        raise DataError(
            "no task has enough texts for fine-tuning",
            got=f"{len(tasks):,} tasks",
            expected="a task that may be shared, with two labels of two training texts each",
        )
    return collected


def draw_batch(
    tasks: Sequence[LabelledTexts],
    shares: NDArray[np.float64],
    *,
    step: int,
    settings: FineTuningSettings,
    seed: int,
) -> Batch:
    """Draw a task by its share, then labels and their texts uniformly; only seed and step decide."""
    generator = numpy_generator(seed, "fine-tuning batch", [str(step)])
    task = tasks[int(generator.choice(len(tasks), p=shares))]
    texts: list[str] = []
    codes: list[int] = []
    labels = generator.permutation(len(task.texts))[: settings.labels_per_batch]
    for code, label in enumerate(labels.tolist()):
        rows = generator.permutation(len(task.texts[label]))[: settings.texts_per_label]
        texts += [task.texts[label][row] for row in rows.tolist()]
        name = task.names[label]
        if name is not None:
            texts.append(name)
        codes += [code] * (len(texts) - len(codes))
    return Batch(task.task, texts, codes)


def train(
    start: Any,
    tasks: Sequence[LabelledTexts],
    *,
    settings: FineTuningSettings,
    seed: int,
    progress: Progress | None,
) -> dict[str, NDArray[np.float32]]:
    """Train the upper layers of a copy of the model, and return their weights by name."""
    import torch

    weights = np.array([sum(map(len, task.texts)) for task in tasks], dtype=np.float64) ** TASK_POWER
    shares = weights / weights.sum()
    batches = [
        draw_batch(tasks, shares, step=step, settings=settings, seed=seed) for step in range(settings.steps)
    ]
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with more, sums are rounded in another order
    try:
        model = TrainableModel(start, trained_layers=settings.trained_layers, max_tokens=MAX_TOKENS)
        optimiser = torch.optim.Adam(model.parameters.values(), fused=model.device.type in ("cpu", "cuda"))
        model.cache_frozen_states({text for batch in batches for text in batch.texts}, progress=progress)
        for step, batch in enumerate(batches):
            codes = torch.tensor(batch.codes, device=model.device)
            loss = contrastive_loss(model.encode(batch.texts), codes, temperature=settings.temperature)
            for group in optimiser.param_groups:
                group["lr"] = settings.rate_at(step)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            value = loss.item()
            if not math.isfinite(value):
                raise DataError(
                    "fine-tuning diverged",
                    where=f"step {step + 1}, task {quote(batch.task)}",
                    got=f"a loss of {value}",
                    todo="use a smaller learning_rate",
                )
            report(progress, "fine-tuning", step + 1, settings.steps, "steps", f"loss {value:.3f}")
    finally:
        torch.set_num_threads(n_threads)
    return {name: value.detach().cpu().numpy().copy() for name, value in model.parameters.items()}


def contrastive_loss(vectors: torch.Tensor, codes: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """Return the supervised contrastive loss of vectors of length 1.

    For each text i whose label has other texts in the batch, with P(i) these texts and s = cosine / T:

        loss_i = - mean over p in P(i) of  log( exp(s_ip) / sum over j != i of exp(s_ij) )

    and the loss is the mean over such i.

    >>> import torch
    >>> codes = torch.tensor([0, 0, 1, 1])
    >>> round(contrastive_loss(torch.eye(2)[codes], codes, temperature=0.5).item(), 4)
    0.2395
    """
    import torch

    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    similarity = (vectors @ vectors.T / temperature).masked_fill(itself, -torch.inf)
    log_share = similarity - similarity.logsumexp(dim=1, keepdim=True)
    same = (codes[:, None] == codes[None, :]) & ~itself
    n_same = same.sum(dim=1)
    per_text = -log_share.masked_fill(~same, 0.0).sum(dim=1) / n_same.clamp(min=1)
    return per_text.sum() / (n_same > 0).sum().clamp(min=1)


class TrainableModel:
    """A copy of a sentence model that computes vectors with gradients, without dropout.

    On a CPU, a BERT runs on packed rows: the tokens of all texts are stacked in one matrix, so no padding
    goes through the matrix products, and only attention has a padded view. That halves the time of a step.
    Other models, and a BERT that pools or computes differently, run their own forward pass. `parameters` are
    the trained tensors, by their names in the transformer.
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
        self.parameters = {
            f"encoder.layer.{number}.{name}": value.requires_grad_(True)
            for number, layer in enumerate(self.trained, len(self.frozen))
            for name, value in layer.named_parameters()
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
