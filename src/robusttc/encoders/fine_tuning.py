"""Fine-tuning a sentence encoder on many tasks at once, so that new tasks need few examples.

Every step takes texts of ONE task (labels of different tasks may mean the same, and are never told apart) and
pulls those of one label together and those of different labels asunder: the supervised contrastive loss of
`robusttc.encoders.fine_tuning_forward.contrastive_loss`. The name of a label, where it carries words, can be
one more text of it.

Deviation: the paper keeps no encoder of sentences, so there is nothing of this kind in it. On small intent
tasks it adds much where sentences of other tasks come again, and little on new ones.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from robusttc.data import TaskSet
from robusttc.encoders.cache_folder import CACHE_VARIABLE, default_cache_folder
from robusttc.encoders.fine_tuning_batches import LabelledTexts, collect_texts, task_shares
from robusttc.encoders.fine_tuning_changes import compose_changes, read_changes, write_changes
from robusttc.encoders.fine_tuning_settings import FineTuningSettings
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.errors import DataWarning, StoreError, UsageError, quote
from robusttc.files import create_folder, restrict
from robusttc.progress import Progress

__all__ = ["fine_tune"]


def fine_tune(
    encoder: SentenceEncoder,
    tasks: TaskSet,
    *,
    labels: Sequence[int] | None = None,
    settings: FineTuningSettings | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    label_texts: Callable[[str], str | None] | None = None,
    progress: Progress | None = None,
) -> SentenceEncoder:
    """Give a sentence encoder that tells the labels of these tasks apart better.

    The result is kept under a key made of the model, the training rows, the settings and the seed: asking for
    the same once more costs nothing. A run that was stopped goes on from its last checkpoint, and ends with
    the same weights, bit for bit, as one that was not.

    Parameters
    ----------
    encoder
        The encoder to start from; it is left alone. It may be fine-tuned itself.
    tasks
        The tasks. Only their rows in ``train`` are read, and only tasks that may be shared.
    labels
        One cluster number a task, in the order of `tasks`: then all clusters have the same share of the
        steps. None draws from all tasks.
    settings
        How it is done; None takes the defaults.
    seed
        What the batches are drawn from.
    folder
        Where the outcome is kept; None takes the user's cache folder.
    label_texts
        Gives the words of a label, or None where its name carries no words. None uses no names.
    progress
        Told of every step.

    Raises
    ------
    DataError
        If no task has anything to train on, or the training diverged.
    UsageError
        If an argument cannot be used.
    StoreError
        If `folder` cannot be written, or holds something else.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from robusttc.data import Task
    >>> task = Task("a", ["hi", "hello", "bye", "see you"], ["greet", "greet", "leave", "leave"])
    >>> settings = FineTuningSettings(steps=2, trained_layers=1)
    >>> with TemporaryDirectory() as folder:
    ...     place = Path(folder) / "tuned"
    ...     tuned = fine_tune(SentenceEncoder(device="cpu"), TaskSet([task]), settings=settings, folder=place)
    ...     len(tuned.changed_arrays())
    16
    """
    from robusttc.encoders.fine_tuning_training import train_upper_layers  # imports torch

    settings = check_arguments(encoder, tasks, labels, settings)
    found = collect_texts(tasks, label_texts)
    groups = None
    if labels is not None:
        group_of = dict(zip(tasks.names, labels, strict=True))
        groups = [int(group_of[task.task]) for task in found]
    key = make_key(encoder, found, groups, settings, seed)
    place = default_cache_folder().parent / "tuned" / key if folder is None else Path(folder)
    if is_kept(place, key, can_be_remade=folder is None):
        return encoder.with_changes(place)
    can_keep = make_room(place, must_work=folder is not None)
    checkpoint = place.with_name(f"{place.name}.checkpoint.safetensors") if can_keep else None
    shares = task_shares(found, power=settings.task_power, groups=groups)
    added = train_upper_layers(
        encoder._load(),
        found,
        shares,
        settings=settings,
        seed=seed,
        checkpoint=checkpoint,
        key=key,
        progress=progress,
    )
    changes = compose_changes(encoder.changed_arrays(), added)
    if checkpoint is None:
        return encoder.with_changes(changes)
    about = {
        "key": key,
        "seed": seed,
        "settings": dataclasses.asdict(settings),
        "n_tasks": len(found),
        "n_texts": sum(task.n_texts for task in found),
    }
    try:
        write_changes(place, changes, base=encoder.base_fingerprint, about=about)
    except OSError as error:
        if not place.exists():
            raise StoreError(
                "the fine-tuned encoder cannot be written",
                where=str(place),
                got=quote(str(error)),
                todo="make room and start again: it goes on from the last checkpoint",
            ) from error
        check_kept(place, key)  # another process was faster
    checkpoint.unlink(missing_ok=True)
    return encoder.with_changes(place)


def make_key(
    encoder: SentenceEncoder,
    tasks: Sequence[LabelledTexts],
    groups: Sequence[int] | None,
    settings: FineTuningSettings,
    seed: int,
) -> str:
    """Hash all that the outcome depends on."""
    # Groups that are numbered in another way are the same groups.
    numbers: dict[int, int] = {}
    parts = {
        "version": 1,
        "encoder": encoder.fingerprint,
        "tasks": [[task.task, task.texts, task.names] for task in tasks],
        "groups": None if groups is None else [numbers.setdefault(group, len(numbers)) for group in groups],
        "settings": settings.replace(checkpoint_every=1).fingerprint,
        "seed": seed,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def check_arguments(
    encoder: object, tasks: TaskSet, labels: Sequence[int] | None, settings: object
) -> FineTuningSettings:
    """Refuse what cannot be used, before any work."""
    if not isinstance(encoder, SentenceEncoder):
        raise UsageError(
            "only a sentence encoder can be fine-tuned", got=quote(encoder), expected="a SentenceEncoder"
        )
    if settings is not None and not isinstance(settings, FineTuningSettings):
        raise UsageError("settings cannot be used", got=quote(settings), expected="a FineTuningSettings")
    if labels is not None and len(labels) != len(tasks):
        raise UsageError(
            "labels do not fit the tasks",
            got=f"{len(labels)} labels",
            expected=f"one for each of {len(tasks)}",
        )
    return FineTuningSettings() if settings is None else settings


def is_kept(place: Path, key: str, *, can_be_remade: bool) -> bool:
    """Tell whether the outcome that is asked for is there; in the user's cache, damage is made good."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return False
    try:
        check_kept(place, key)
    except StoreError as error:
        if not can_be_remade:
            raise
        warnings.warn(f"{error}. It is made anew", DataWarning, stacklevel=3)
        shutil.rmtree(place)
        return False
    return True


def check_kept(place: Path, key: str) -> None:
    """Refuse a folder that holds something else than the outcome that is asked for."""
    _, manifest = read_changes(place)
    if manifest.get("key") != key:
        raise StoreError(
            "the folder holds an encoder that was fine-tuned in another way",
            where=str(place),
            got=f"key {quote(manifest.get('key'))}",
            expected=f"key {quote(key)}",
            todo="give another folder, or remove this one",
        )


def make_room(place: Path, *, must_work: bool) -> bool:
    """Make the folder above, before minutes of work: a place that cannot be written is told of at once."""
    try:
        create_folder(place.parent)
        if not must_work:  # the user's cache
            restrict(place.parent)
        if place.exists():  # and is empty: the whole folder will be moved there
            place.rmdir()
        probe = place.with_name(f"{place.name}.{os.getpid()}.probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        if must_work:
            raise StoreError(
                "the folder for the fine-tuned encoder cannot be written",
                where=str(place),
                got=quote(str(error)),
            ) from error
        warnings.warn(
            f"{place.parent}: fine-tuned encoders cannot be kept ({error}). Set {CACHE_VARIABLE} to a folder "
            "that can be written",
            DataWarning,
            stacklevel=3,
        )
        return False
    return True
