"""The loop of fine-tuning: batch, loss, step, checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from robusttc.encoders import SentenceModel
from robusttc.encoders.fine_tuning_batches import LabelledTexts, draw_batch
from robusttc.encoders.fine_tuning_checkpoint import read_checkpoint, write_checkpoint
from robusttc.encoders.fine_tuning_forward import TrainableModel, contrastive_loss
from robusttc.encoders.fine_tuning_settings import FineTuningSettings
from robusttc.errors import DataError, quote
from robusttc.progress import Progress, report

__all__ = ["train_upper_layers"]


def train_upper_layers(
    start_from: SentenceModel,
    tasks: Sequence[LabelledTexts],
    shares: NDArray[np.float64],
    *,
    settings: FineTuningSettings,
    seed: int,
    checkpoint: Path | None,
    key: str,
    progress: Progress | None,
) -> dict[str, NDArray[np.float32]]:
    """Take all steps, and give the trained tensors.

    Parameters
    ----------
    start_from
        The model to start from; it is left alone.
    tasks, shares
        What is trained on, and the probability with which each task is drawn.
    settings, seed
        How it is done; see `FineTuningSettings`.
    checkpoint
        The file in which the state is kept, and from which a stopped run goes on; None keeps none.
    key
        What tells this run from others: the checkpoint of another is passed over.
    progress
        Told of every step.

    Raises
    ------
    DataError
        If the loss is no longer finite.
    """
    model = TrainableModel(
        start_from,
        trained_layers=settings.trained_layers,
        max_tokens=settings.max_tokens,
        rank=settings.rank,
        seed=seed,
    )
    device = torch.device(model.device)
    optimiser = torch.optim.Adam(
        model.parameters.values(), lr=settings.learning_rate, fused=device.type in ("cpu", "cuda")
    )
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with more, sums are rounded in another order
    try:
        start = 0
        if checkpoint is not None:
            start = read_checkpoint(checkpoint, model.parameters, optimiser, key=key)
        remember_all(model, tasks, shares, settings=settings, seed=seed, progress=progress)
        for step in range(start, settings.steps):
            batch = draw_batch(tasks, shares, step=step, settings=settings, seed=seed)
            codes = torch.from_numpy(batch.codes).to(device)
            loss = contrastive_loss(model.encode(batch.texts), codes, temperature=settings.temperature)
            for group in optimiser.param_groups:
                group["lr"] = settings.rate_at(step)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            value = loss.item()
            if not np.isfinite(value):
                raise DataError(
                    "fine-tuning diverged",
                    where=f"step {step + 1}, task {quote(batch.task)}",
                    got=f"a loss of {value}",
                    todo="give a smaller learning_rate, or more warm_up",
                )
            done = step + 1
            if checkpoint is not None and done % settings.checkpoint_every == 0 and done < settings.steps:
                write_checkpoint(checkpoint, model.parameters, optimiser, step=done, key=key)
            report(progress, "fine-tuning", done, settings.steps, "steps", f"loss {value:.3f}")
    finally:
        torch.set_num_threads(n_threads)
    return {name: value.detach().cpu().numpy().copy() for name, value in model.parameters.items()}


def remember_all(
    model: TrainableModel,
    tasks: Sequence[LabelledTexts],
    shares: NDArray[np.float64],
    *,
    settings: FineTuningSettings,
    seed: int,
    progress: Progress | None,
) -> None:
    """Run the texts of all batches, which are known beforehand, through the frozen layers once."""
    if model.first_trained == 0:
        return
    texts: set[str] = set()
    for step in range(settings.steps):
        texts.update(draw_batch(tasks, shares, step=step, settings=settings, seed=seed).texts)
    model.remember(sorted(texts), progress=progress)
