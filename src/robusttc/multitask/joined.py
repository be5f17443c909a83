"""What is kept of a task that joined trained models later, and how it is served on top of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Vocabulary
from robusttc.encoders import Encoder, WordEncoder, load_encoder
from robusttc.errors import RobustTCError, StoreError, quote
from robusttc.jobs import Result
from robusttc.models import read_model_folder, write_model_folder
from robusttc.multitask.components import OwnModel, Shared, describe_own, own_from_description
from robusttc.multitask.joining import joined, with_words
from robusttc.multitask.new_heads import Head
from robusttc.multitask.persistence import weights_from
from robusttc.multitask.serving import ServedTask, Serving
from robusttc.multitask.shared_model import SharedModel

__all__ = ["JoinedTask", "load_joined", "longer_reader", "parts_of", "save_joined", "serve_joined"]

KIND, VERSION = "robusttc-joined", 1

Floats = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTask:
    """A task that joined later.

    Attributes
    ----------
    task
        What is known of it, with its weights and its temperature.
    own, alone
        Its own model, or one that was trained for it alone like that of a cluster.
    heads
        Its classifiers on the copies of the ``shared`` and ``cluster`` model, where there are such models.
    reference
        Training representations for the out-of-scope score.
    words, vectors
        Words that the models had not seen, and their vectors; none where inputs are no words.
    reader
        For a task that may not share, where inputs are words: a reader of its own.
    """

    task: ServedTask
    own: OwnModel | None
    alone: Shared | None
    heads: Mapping[str, tuple[Head, ...]]
    reference: Floats | None = None
    words: tuple[str, ...] = ()
    vectors: Floats | None = None
    reader: Encoder | None = field(default=None)


def parts_of(payload: Result) -> tuple[OwnModel | None, Shared | None, dict[str, tuple[Head, ...]]]:
    """Give the own model, the one trained alone, and the classifiers that a unit of joining made."""
    values = payload.values
    own = None if values["is_alone"] else own_from_description(under(payload.arrays, "own/"))
    alone = alone_from(values["alone"], payload.arrays) if values["is_alone"] else None
    return own, alone, heads_from(values["epochs"], payload.arrays)


def alone_from(described: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]]) -> Shared:
    """Make the model of a task alone again."""
    return Shared(
        [
            SharedModel.from_description(values, under(arrays, f"alone/{number}/"))
            for number, values in enumerate(described)
        ]
    )


def heads_from(
    epochs: Mapping[str, Sequence[int]], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, tuple[Head, ...]]:
    """Make classifiers again."""
    return {
        kind: tuple(
            Head.from_arrays(under(arrays, f"{kind}/{number}/"), int(n_epochs))
            for number, n_epochs in enumerate(of_copies)
        )
        for kind, of_copies in epochs.items()
    }


def under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    """Give the arrays whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def longer_reader(reader: Encoder, words: Sequence[str], vectors: Floats | None) -> Encoder:
    """Give a reader that knows more words."""
    if not words or vectors is None:
        return reader
    assert isinstance(reader, WordEncoder)  # noqa: S101 - only words have words
    vocabulary = Vocabulary((*reader.vocabulary.words, *words), reader.vocabulary.lower)
    return WordEncoder(vocabulary, np.concatenate([reader.vectors, vectors]))


def serve_joined(base: Serving, later: JoinedTask) -> Serving:
    """Give what serves a task that joined: its own parts, on the layers of the models that it joined."""
    name, cluster = later.task.name, later.task.cluster
    reader = longer_reader(base.reader, later.words, later.vectors) if later.reader is None else later.reader
    serving = Serving({name: later.task}, reader, familiar=base.familiar, scope=base.scope)
    if later.own is not None:
        serving.own[name] = later.own
    if later.alone is not None:
        serving.alone[name] = later.alone
    if "shared" in later.heads and base.shared is not None:
        serving.shared = joined(with_words(base.shared, later.vectors), later.heads["shared"], name)
    if "cluster" in later.heads and cluster in base.clusters:
        model = with_words(base.clusters[cluster], later.vectors)
        serving.clusters = {cluster: joined(model, later.heads["cluster"], name)}
    if later.reference is not None:
        serving.references[name] = later.reference
    return serving


def save_joined(later: JoinedTask, folder: str | PathLike[str], *, base: str) -> None:
    """Write all of it; see `robusttc.models.write_model_folder`.

    Parameters
    ----------
    later
        The task.
    folder
        Where to.
    base
        What the models are known by that it joined.
    """
    arrays: Arrays = {}
    reader = None
    if later.own is not None:
        arrays |= {f"own/{key}": array for key, array in describe_own(later.own).items()}
    described: list[dict[str, Any]] = []
    if later.alone is not None:
        for number, copy in enumerate(later.alone.copies):
            values, of_copy = copy.describe()
            described.append(values)
            arrays |= {f"alone/{number}/{key}": array for key, array in of_copy.items()}
    for kind, heads in later.heads.items():
        for number, head in enumerate(heads):
            arrays |= {f"{kind}/{number}/{key}": array for key, array in head.arrays().items()}
    if later.reference is not None:
        arrays["reference"] = later.reference
    if later.vectors is not None:
        arrays["vectors"] = later.vectors
    if later.reader is not None:
        reader, of_reader = later.reader.describe()
        arrays |= {f"reader/{key}": array for key, array in of_reader.items()}
    settings = {
        "base": base,
        "task": dataclasses.asdict(later.task),
        "epochs": {kind: [head.n_epochs for head in heads] for kind, heads in later.heads.items()},
        "alone": described,
        "words": list(later.words),
        "reader": reader,
    }
    write_model_folder(folder, kind=KIND, version=VERSION, settings=settings, arrays=arrays)


def load_joined(folder: str | PathLike[str], *, base: str | None, device: str = "cpu") -> JoinedTask:
    """Read what `save_joined` wrote; `base` must be what it was given then, None does not ask.

    Raises
    ------
    StoreError
        If something is missing, damaged, from a later version, or belongs to other models.
    """
    settings, arrays = read_model_folder(folder, kind=KIND, version=VERSION)
    if base is not None and settings.get("base") != base:
        raise StoreError(
            "the model of an added task belongs to other models than those of the run",
            where=quote(str(folder)),
            got=quote(settings.get("base")),
            expected=quote(base),
            todo="bring the folder of the run back from a copy",
        )
    try:
        values = settings["task"]
        task = ServedTask(
            **{
                **values,
                "label_names": tuple(values["label_names"]),
                "weights": weights_from(values["weights"]),
                "offsets": tuple(values.get("offsets", ())),
            }
        )
        of_own, reader = under(arrays, "own/"), settings["reader"]
        return JoinedTask(
            task,
            own_from_description(of_own) if of_own else None,
            alone_from(settings["alone"], arrays) if settings["alone"] else None,
            heads_from(settings["epochs"], arrays),
            arrays.get("reference"),
            tuple(settings["words"]),
            arrays.get("vectors"),
            None if reader is None else load_encoder(reader, under(arrays, "reader/"), device=device),
        )
    except StoreError:
        raise
    except (RobustTCError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StoreError(
            "the model cannot be read", where=quote(str(folder)), got=quote(str(error)), todo="add it again"
        ) from error
