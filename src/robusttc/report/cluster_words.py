"""Words and labels that tell a cluster's tasks from all others.

A word counts by the share of a task's texts that have it, and the shares of a cluster's tasks are summed up:
each task counts alike, however many rows it has. The log-odds of the cluster against the rest of the tasks,
with a prior that pulls rare words towards what is usual, is divided by its standard deviation (Monroe,
Colaresi and Quinn, 2008). A word that is frequent everywhere has log-odds of about 0, so no list of stop
words is needed, in any language.

A word must stand in two tasks of a cluster, or in several rows of its only task: what a single person wrote
is nobody else's business. Tasks that may not share are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.data import UNKNOWN_ID, Task, TaskSet, Vocabulary
from robusttc.errors import DataError
from robusttc.models import label_words

__all__ = ["find_labels", "find_words"]

MAX_LISTED = 12
# Rows that are read altogether, dealt evenly to the tasks, and the fewest of a task.
MAX_ROWS = 60_000
FEWEST_ROWS = 40
# A task counts as so many texts, however many it has: its texts are alike.
TEXTS_A_TASK = 10.0
# So many texts of usual words are added to each side: rare words need more to stand out.
PRIOR_TEXTS = 10.0
# Standard deviations below which a difference may be chance.
CLEAR = 2.0
MIN_TASKS = 2
MIN_ROWS = 3
# Languages without spaces make whole sentences one token; those are not words to show.
LONGEST_WORD = 24

Words = list[tuple[str, float]]


def find_words(tasks: TaskSet, members: Mapping[int, Sequence[str]]) -> dict[int, Words]:
    """Give, for each cluster, the words that tell it from all others, the clearest first.

    Parameters
    ----------
    tasks
        The tasks. Those that may not share are left out, whatever `members` says.
    members
        The tasks of each cluster.

    Returns
    -------
    dict
        For each cluster at most 12 words, with their log-odds in standard deviations. Empty lists where there
        are not two clusters.

    Examples
    --------
    >>> tasks = TaskSet(
    ...     Task(name, [f"my {word} is late", f"the {word}"] * 3, ["a", "b"] * 3)
    ...     for name, word in [("one", "parcel"), ("two", "parcel"), ("three", "song"), ("four", "song")]
    ... )
    >>> found = find_words(tasks, {0: ["one", "two"], 1: ["three", "four"]})
    >>> [[word for word, weight in words] for words in found.values()]
    [['parcel'], ['song']]
    """
    shared = {
        number: [name for name in names if name in tasks and tasks[name].may_share]
        for number, names in members.items()
    }
    shared = {number: names for number, names in shared.items() if names}
    nothing: dict[int, Words] = {number: [] for number in members}
    if len(shared) < 2:
        return nothing
    names = [name for own in shared.values() for name in own]
    limit = max(FEWEST_ROWS, MAX_ROWS // len(names))
    sample = TaskSet(take_evenly(tasks[name], limit) for name in names)
    try:
        words, counts = count_rows(sample)
    except DataError:  # the tokenizer gave up on a text; words are an ornament
        return nothing
    n_rows = np.array([len(task) for task in sample], dtype=np.float64)
    shares = sparse.csr_array(sparse.diags_array(1 / n_rows) @ counts)
    ends = np.cumsum([0, *(len(own) for own in shared.values())])
    found = dict(nothing)
    everywhere = sum_columns(shares)
    for place, number in enumerate(shared):
        own = slice(ends[place], ends[place + 1])
        size = ends[place + 1] - ends[place]
        inside = sum_columns(shares[own])
        weight = weigh(inside, size, everywhere - inside, len(names) - size)
        rows = counts[own]
        if size >= MIN_TASKS:
            usual = np.bincount(rows.indices, minlength=len(words)) >= MIN_TASKS
        else:
            usual = sum_columns(rows) >= MIN_ROWS
        weight[~usual] = -np.inf
        found[number] = pick(words, weight)
    return found


def sum_columns(matrix: sparse.csr_array) -> NDArray[np.float64]:
    """Give the sum of each column."""
    return np.asarray(matrix.sum(axis=0), dtype=np.float64).ravel()


def weigh(
    inside: NDArray[np.float64], n_inside: int, outside: NDArray[np.float64], n_outside: int
) -> NDArray[np.float64]:
    """Give the log-odds of each word, in standard deviations.

    Parameters
    ----------
    inside, outside
        The sums of shares over the tasks of the cluster, and over all others.
    n_inside, n_outside
        How many tasks these are.
    """
    # A share of all tasks, kept off 0 and 1 so that all odds are finite.
    usual = (inside + outside + 0.5 / TEXTS_A_TASK) / (n_inside + n_outside + 1 / TEXTS_A_TASK)
    odds, variance = [], np.zeros(len(usual))
    for total, number in ((inside, n_inside), (outside, n_outside)):
        texts = TEXTS_A_TASK * total + PRIOR_TEXTS * usual
        odds.append(np.log(texts) - np.log(TEXTS_A_TASK * number + PRIOR_TEXTS - texts))
        variance += 1 / texts
    found: NDArray[np.float64] = (odds[0] - odds[1]) / np.sqrt(variance)
    return found


def pick(words: Sequence[str], weight: NDArray[np.float64]) -> Words:
    """Take the words that stand out clearly, the clearest first."""
    order = np.lexsort((np.arange(len(words)), -weight))
    chosen: Words = []
    for place in order:
        if weight[place] < CLEAR or len(chosen) == MAX_LISTED:
            break
        if is_word(words[place]):
            chosen.append((words[place], float(weight[place])))
    return chosen


def is_word(token: str) -> bool:
    """Tell whether a token is worth showing: letters, no digits (numbers may be anybody's), not too long.

    >>> is_word("parcel"), is_word("n't"), is_word("?"), is_word("a1b2")
    (True, True, False, False)
    """
    return (
        len(token) <= LONGEST_WORD
        # The tokenizer leaves the full stop of a sentence at its last word, where another one follows.
        and not token.endswith(".")
        and any(character.isalpha() for character in token)
        and not any(character.isdigit() or character in "@/\\" for character in token)
    )


def take_evenly(task: Task, limit: int) -> Task:
    """Give at most so many rows of a task, evenly spread over it; training rows where there are any."""
    rows = task.rows("train")
    if not len(rows):
        rows = np.arange(len(task))
    if len(rows) > limit:
        rows = rows[np.linspace(0, len(rows) - 1, limit).astype(np.intp)]
    return task.take(rows)


def count_rows(tasks: TaskSet) -> tuple[tuple[str, ...], sparse.csr_array]:
    """Count in how many rows of each task every word stands."""
    vocabulary = Vocabulary.build(tasks)
    n_words = len(vocabulary)
    found, counts = [], []
    for tokens in vocabulary.encode_tasks(tasks).values():
        row = np.repeat(np.arange(len(tokens)), tokens.lengths)
        known = tokens.ids > UNKNOWN_ID
        once = np.unique(row[known] * n_words + tokens.ids[known]) % n_words
        own, number = np.unique(once, return_counts=True)
        found.append(own)
        counts.append(number)
    ends = np.cumsum([0, *(len(own) for own in found)])
    values = np.concatenate(counts).astype(np.float64)
    shape = (len(tasks), n_words)
    return vocabulary.words, sparse.csr_array((values, np.concatenate(found), ends), shape=shape)


def find_labels(tasks: TaskSet, names: Sequence[str]) -> list[tuple[str, int]]:
    """Give the labels that most tasks of a cluster have, with how many have it.

    Labels whose names have the same words count as one and are shown in their most frequent spelling. A label
    must be in two tasks, unless the cluster has one.

    Examples
    --------
    >>> tasks = TaskSet(
    ...     Task(name, ["x", "y"], labels)
    ...     for name, labels in [("a", ["Say-hi", "no"]), ("b", ["say_hi", "yes"]), ("c", ["say_hi", "z"])]
    ... )
    >>> find_labels(tasks, ["a", "b", "c"])
    [('say_hi', 3)]
    """
    spellings: dict[str, Counter[str]] = {}
    shared = [tasks[name] for name in names if name in tasks and tasks[name].may_share]
    for task in shared:
        # Two labels of one task that differ in spelling alone are one task all the same.
        for words, label in {label_words(label): label for label in task.label_names}.items():
            spellings.setdefault(words, Counter())[label] += 1
    fewest = min(MIN_TASKS, len(shared))
    counted = [
        (min(found, key=lambda label: (-found[label], label)), found.total()) for found in spellings.values()
    ]
    usual = [(label, number) for label, number in counted if number >= fewest]
    return sorted(usual, key=lambda entry: (-entry[1], entry[0]))[:MAX_LISTED]
