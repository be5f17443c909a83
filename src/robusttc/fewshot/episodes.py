"""Episodes: source tasks played as if they were few-shot targets, to train a metric on.

An episode takes some labels of one task, a support set as a target would have it (one row a label and twenty
more), and queries among the task's other rows of these labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.fewshot.protocol import EXTRA_ROWS, pick_rows

__all__ = ["Episode", "SourceRows", "draw_episode", "usable_sources"]


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """The rows of a source task, as training sees them.

    Attributes
    ----------
    name
        The name of the task.
    items
        For every row, its item of the frozen inputs.
    codes
        For every row, its label, from 0 up to the number of labels less one.
    name_items
        For every label, the item of its name's words; -1 where the name carries none.
    """

    name: str
    items: NDArray[np.int64]
    codes: NDArray[np.int64]
    name_items: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One small few-shot problem; labels are numbered from 0.

    Attributes
    ----------
    support, support_codes
        Items of the support set and their labels; label names that are used stand among them.
    queries, query_codes
        Items to tell the label of, and their labels.
    n_labels
        How many labels the episode has.
    """

    support: NDArray[np.int64]
    support_codes: NDArray[np.int64]
    queries: NDArray[np.int64]
    query_codes: NDArray[np.int64]
    n_labels: int


def usable_sources(sources: Sequence[SourceRows]) -> tuple[SourceRows, ...]:
    """Keep the tasks that an episode can be drawn from: at least two labels have two rows or more.

    Examples
    --------
    >>> one = SourceRows("a", np.arange(3), np.array([0, 0, 1]), np.array([-1, -1]))
    >>> len(usable_sources([one]))
    0
    """
    return tuple(source for source in sources if (np.bincount(source.codes) >= 2).sum() >= 2)


def draw_episode(
    source: SourceRows,
    *,
    generator: np.random.Generator,
    max_labels: int,
    max_queries: int,
    extra: int = EXTRA_ROWS,
    with_names: bool = False,
) -> Episode:
    """Draw an episode of a usable source.

    Labels of a single row are left out: it cannot be support and query at once. At least one row of some
    label is always left for the queries, even in tasks with fewer than `extra` spare rows.

    Parameters
    ----------
    source
        The task; see `usable_sources`.
    generator
        Where the draws come from.
    max_labels
        The greatest number of labels; of more, so many are drawn.
    max_queries
        The greatest number of queries.
    extra
        How many support rows there are besides one a label; at most half of the rows that are left, so that
        small tasks have queries too.
    with_names
        Whether a label's name is one more support item of the label.

    Examples
    --------
    >>> source = SourceRows("a", np.arange(10), np.repeat([0, 1], 5), np.array([-1, -1]))
    >>> episode = draw_episode(source, generator=np.random.default_rng(0), max_labels=5, max_queries=3)
    >>> len(episode.support), len(episode.queries), episode.n_labels
    (6, 3, 2)
    """
    counts = np.bincount(source.codes)
    labels = np.flatnonzero(counts >= 2)
    if len(labels) > max_labels:
        labels = np.sort(generator.permutation(labels)[:max_labels])
    place_of = np.full(len(counts), -1, dtype=np.int64)
    place_of[labels] = np.arange(len(labels))
    rows = np.flatnonzero(place_of[source.codes] >= 0)
    codes = place_of[source.codes[rows]]
    n_extra = min(extra, (len(rows) - len(labels)) // 2)
    picked = pick_rows(codes, per_label=1, extra=n_extra, generator=generator)
    is_query = np.ones(len(rows), dtype=np.bool_)
    is_query[picked] = False
    queries = np.flatnonzero(is_query)
    if len(queries) > max_queries:
        queries = generator.permutation(queries)[:max_queries]
    support, support_codes = source.items[rows[picked]], codes[picked]
    if with_names:
        names = source.name_items[labels]
        support = np.concatenate([support, names[names >= 0]])
        support_codes = np.concatenate([support_codes, np.flatnonzero(names >= 0)])
    return Episode(support, support_codes, source.items[rows[queries]], codes[queries], len(labels))
