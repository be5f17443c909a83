"""Scenes of a rehearsal: held-out tasks with support sets and queries drawn from their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import FrozenInputs
from robusttc.fewshot.adapting import Support
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.protocol import EXTRA_ROWS, pick_rows
from robusttc.random import numpy_generator

__all__ = ["Scene", "set_scene", "set_scenes"]

MAX_QUERIES = 200


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A held-out task with a support set, before it is played.

    Attributes
    ----------
    source
        The task.
    support
        Its support set.
    queries, codes
        Items of the frozen inputs, and their labels.
    label_names
        Those of all sources, if the task has all of them; else none.
    number
        In which round it is held out, from 0 up.
    """

    source: SourceRows
    support: Support
    queries: NDArray[np.int64]
    codes: NDArray[np.int64]
    label_names: tuple[str, ...]
    number: int


def set_scenes(
    inputs: FrozenInputs,
    held: Sequence[SourceRows],
    shared_labels: tuple[str, ...] | None,
    *,
    n_draws: int,
    number: int,
    seed: int,
) -> list[Scene]:
    """Draw so many support sets of each task that is held out in a round; tasks without a query have none."""
    drawn = (
        set_scene(inputs, source, shared_labels, number=number, draw=draw, seed=seed)
        for source in held
        for draw in range(n_draws)
    )
    return [scene for scene in drawn if scene is not None]


def set_scene(
    inputs: FrozenInputs,
    source: SourceRows,
    shared_labels: tuple[str, ...] | None,
    *,
    number: int,
    draw: int,
    seed: int,
) -> Scene | None:
    """Draw the support set and the queries of a held-out task; None if no row is left for a query."""
    generator = numpy_generator(seed, "rehearsal", [source.name, str(draw)])
    present, codes = np.unique(source.codes, return_inverse=True)
    picked = pick_rows(codes, per_label=1, extra=EXTRA_ROWS, generator=generator)
    others = np.setdiff1d(generator.permutation(len(codes)), picked)
    if len(others) > MAX_QUERIES:
        others = np.sort(generator.permutation(others)[:MAX_QUERIES])
    if len(others) == 0 or len(present) < 2:
        return None
    name_items = source.name_items[present]
    support = Support(
        source.name,
        inputs.take(source.items[picked]),
        codes[picked].astype(np.int64),
        len(present),
        inputs.take(name_items) if (name_items >= 0).all() else None,
    )
    is_whole = shared_labels is not None and len(present) == len(shared_labels)
    label_names = shared_labels if is_whole and shared_labels is not None else ()
    return Scene(source, support, source.items[others], codes[others], label_names, number)
