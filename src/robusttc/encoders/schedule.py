"""What a training loop draws at random, and in which order, so that two loops can make the same steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.settings import TrainingSettings

__all__ = ["draw_batches", "new_head"]

Floats = NDArray[np.float32]


def new_head(width: int, n_labels: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Make the weight (width, n_labels) and the bias of a softmax classifier, from one draw."""
    bound = (6 / (width + n_labels)) ** 0.5
    weight = generator.uniform(-bound, bound, (width, n_labels)).astype(np.float32)
    return weight, np.zeros(n_labels, dtype=np.float32)


def draw_batches(
    n_rows: int, *, settings: TrainingSettings, generator: np.random.Generator, width: int | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Go through the batches of the whole training: the rows, and what of the representation is kept.

    For every epoch one draw of the order of rows, then for every batch one draw of 32-bit floats, shape
    (rows, `width`), where None is the width of the settings: a number is dropped where its draw is below the
    share to drop. Without dropout nothing is drawn for it.

    Examples
    --------
    >>> from robusttc.random import numpy_generator
    >>> settings = TrainingSettings(batch_size=2, epochs=1, min_steps=0, width=4, dropout=0)
    >>> [len(rows) for rows, _ in draw_batches(5, settings=settings, generator=numpy_generator(0, "batches"))]
    [2, 2, 1]
    """
    threshold = np.float32(settings.dropout)
    for _ in range(settings.count_epochs(n_rows)):
        order = generator.permutation(n_rows)
        for start in range(0, n_rows, settings.batch_size):
            rows = order[start : start + settings.batch_size]
            shape = (len(rows), settings.width if width is None else width)
            if settings.dropout == 0:
                yield rows, np.ones(shape, dtype=np.bool_)
            else:
                yield rows, generator.random(shape, dtype=np.float32) >= threshold
