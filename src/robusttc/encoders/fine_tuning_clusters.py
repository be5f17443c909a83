"""One fine-tuned encoder a cluster, each a small step from the one that all share.

Not a gain to count on: on 44 held-out tasks of different kinds, few-shot, clusters of the true kinds added
0.2 points [-0.7, 1.1] to the encoder that all share, and random clusters of the same sizes 0.3 [-0.2, 0.8].
So no estimator does this by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from robusttc.data import TaskSet
from robusttc.encoders.fine_tuning import check_arguments, fine_tune
from robusttc.encoders.fine_tuning_batches import usable_texts
from robusttc.encoders.fine_tuning_settings import FineTuningSettings
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.progress import Progress, report

__all__ = ["SPECIALISING", "specialise"]

# Added matrices of rank 8 in the upper two layers of MiniLM: 110,592 numbers a cluster, less than half a MB.
SPECIALISING = FineTuningSettings(steps=150, trained_layers=2, rank=8, learning_rate=5e-4)


def specialise(
    encoder: SentenceEncoder,
    tasks: TaskSet,
    labels: Sequence[int],
    *,
    settings: FineTuningSettings | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    label_texts: Callable[[str], str | None] | None = None,
    progress: Progress | None = None,
) -> dict[int, SentenceEncoder]:
    """Go on with the fine-tuning of an encoder for every cluster of tasks on its own.

    What a cluster adds is a low-rank change of the upper layers, relative to the base model together with
    what `encoder` itself changed of it. A cluster that has nothing to train on (no task of it may be shared)
    is served by `encoder`.

    Parameters
    ----------
    encoder
        What all clusters start from; as a rule from `fine_tune` on all tasks.
    tasks
        The tasks of all clusters.
    labels
        One cluster number a task, in the order of `tasks`.
    settings
        How each is fine-tuned; None takes `SPECIALISING`.
    seed, label_texts
        As in `fine_tune`.
    folder
        Where the outcomes are kept, a folder ``cluster-NUMBER`` each; None takes the user's cache folder.
    progress
        Told of every cluster that is done, and of the steps of each.

    Returns
    -------
    dict
        The encoder of each cluster, by its number.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from robusttc.data import Task
    >>> rows = ["hi", "hello", "bye", "see you"], ["greet", "greet", "leave", "leave"]
    >>> tasks = TaskSet([Task("a", *rows), Task("b", *rows)])
    >>> settings = FineTuningSettings(steps=1, trained_layers=1, rank=2)
    >>> with TemporaryDirectory() as folder:
    ...     encoder = SentenceEncoder(device="cpu")
    ...     found = specialise(encoder, tasks, [0, 1], settings=settings, folder=folder)
    ...     sorted(found), sum(array.size for array in found[0].changed_arrays().values())
    ([0, 1], 13824)
    """
    chosen = check_arguments(encoder, tasks, labels, SPECIALISING if settings is None else settings)
    members: dict[int, list[str]] = {}
    for name, label in zip(tasks.names, labels, strict=True):
        members.setdefault(int(label), []).append(name)
    encoders: dict[int, SentenceEncoder] = {}
    for number in sorted(members):
        of_cluster = tasks.subset(members[number])
        place = None if folder is None else Path(folder) / f"cluster-{number}"
        if not usable_texts(of_cluster, label_texts):
            encoders[number] = encoder
        else:
            encoders[number] = fine_tune(
                encoder,
                of_cluster,
                settings=chosen,
                seed=seed,
                folder=place,
                label_texts=label_texts,
                progress=progress,
            )
        report(progress, "specialising", len(encoders), len(members), "clusters")
    return encoders
