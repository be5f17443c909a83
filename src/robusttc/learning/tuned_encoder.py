"""Fine-tuning the encoder of an estimator on the tasks that may share."""

from __future__ import annotations

from collections.abc import Callable

from robusttc.data import TaskSet
from robusttc.encoders.encoder import Encoder
from robusttc.errors import UsageError, quote
from robusttc.progress import Progress

__all__ = ["tune_encoder"]


def tune_encoder(
    encoder: Encoder,
    tasks: TaskSet,
    *,
    seed: int,
    label_texts: Callable[[str], str | None] | None,
    progress: Progress | None = None,
) -> Encoder:
    """Fine-tune a sentence encoder; see `robusttc.encoders.fine_tuning.fine_tune`.

    Raises
    ------
    UsageError
        If it is an encoder of another kind.
    """
    # Late: both load torch.
    from robusttc.encoders.fine_tuning import fine_tune
    from robusttc.encoders.sentence import SentenceEncoder

    if not isinstance(encoder, SentenceEncoder):
        raise UsageError(
            "only a sentence encoder can be tuned", got=quote(encoder), expected="encoder 'sentence'"
        )
    return fine_tune(encoder, tasks.shareable(), seed=seed, label_texts=label_texts, progress=progress)
