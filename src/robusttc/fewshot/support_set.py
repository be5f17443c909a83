"""The rows of a new task before they are learned from, and the encoder they are read with."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task
from robusttc.encoders import Encoder
from robusttc.errors import DataError, DoubtWarning, quote
from robusttc.fewshot.settings import Tuned

__all__ = ["check_support", "find_tuning"]


def check_support(task: Task, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Give the labels of the training rows and their names; refuse what nothing can be learned from."""
    where = f"task {quote(task.name)}"
    present, codes = np.unique(task.label_codes[rows], return_inverse=True)
    if len(present) < 2:
        only = f", all of label {quote(task.label_names[present[0]])}" if len(present) else ""
        raise DataError(
            "the support set cannot be learned from",
            where=where,
            got=f"{len(rows):,} training rows{only}",
            expected="training rows of at least two labels",
            todo="add rows of another label",
        )
    first: dict[str, int] = {}
    for text, code in zip(task.texts_at(rows), codes.tolist(), strict=True):
        if first.setdefault(text, code) != code:
            names = [task.label_names[present[number]] for number in (first[text], code)]
            warnings.warn(
                f"{where}: the text {quote(text)} stands under two labels, {quote(names[0])} and "
                f"{quote(names[1])}; all rows are used as they are",
                DoubtWarning,
                stacklevel=3,
            )
            break
    return codes.astype(np.int64), tuple(task.label_names[code] for code in present)


def find_tuning(encoder: Encoder) -> Tuned | None:
    """Tell whether an encoder is a sentence encoder that was fine-tuned, or a pair with such a one."""
    from robusttc.encoders import PairedEncoder, SentenceEncoder

    if isinstance(encoder, PairedEncoder):
        return "paired" if any(find_tuning(one) for one in (encoder.first, encoder.second)) else None
    is_tuned = isinstance(encoder, SentenceEncoder) and encoder.weight_delta is not None
    return "alone" if is_tuned else None
