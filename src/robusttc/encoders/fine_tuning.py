"""Contrastive fine-tuning of a sentence encoder on many tasks at once, so that new tasks need few examples.

Each step takes texts of one task, since labels of different tasks may mean the same, and minimises the
supervised contrastive loss (`contrastive_loss`): texts of one label move together, texts of different labels
apart. The name of a label, where it is made of words, can be one more text of it. Only the upper layers are
trained; the layers below run once for each text.

Deviation: the paper has no sentence encoder. Fine-tuning adds much on small intent tasks where sentences of
other tasks come again, and little on new ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet
from robusttc.encoders.cache import load_or_compute
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.encoders.trainable_model import TrainableModel
from robusttc.errors import DataError, UsageError, quote
from robusttc.files import encode_json
from robusttc.params import Integer, Number, Settings, check_param
from robusttc.progress import Progress, report
from robusttc.random import numpy_generator

if TYPE_CHECKING:
    import torch

__all__ = ["FineTuningSettings", "fine_tune"]

WARM_UP = 0.1  # the share of the steps in which the learning rate rises
TASK_POWER = 0.5  # the probability of a task is proportional to this power of its number of texts
MAX_TOKENS = 64  # longer texts are truncated, in training only

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
    key = run_key(encoder, collected, settings, seed)
    trained = load_or_compute(
        "tuned",
        key,
        lambda: train(encoder.load(), collected, settings=settings, seed=seed, progress=progress),
    )
    delta = {**(encoder.weight_delta or {}), **trained}
    return SentenceEncoder(encoder.model, weight_delta=delta, cache=encoder.cache, device=encoder.device)


def run_key(
    encoder: SentenceEncoder, tasks: Sequence[LabelledTexts], settings: FineTuningSettings, seed: int
) -> str:
    """Hash everything that the weights depend on."""
    parts = {
        "version": 2,
        "encoder": encoder.fingerprint,
        "tasks": [[task.task, task.texts, task.names] for task in tasks],
        "settings": settings.fingerprint,
        "seed": int(seed),
    }
    return hashlib.sha256(encode_json(parts).encode()).hexdigest()


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
        name_of = {
            code: None if label_texts is None else label_texts(task.label_names[code])
            for code in sorted(texts_of)
        }
        kept = [code for code in name_of if len(texts_of[code]) + (name_of[code] is not None) > 1]
        if len(kept) > 1:
            texts = tuple(tuple(texts_of[code]) for code in kept)
            collected.append(LabelledTexts(task.name, texts, tuple(name_of[code] for code in kept)))
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
        chosen = [task.texts[label][row] for row in rows.tolist()]
        name = task.names[label]
        if name is not None:
            chosen.append(name)
        texts += chosen
        codes += [code] * len(chosen)
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
