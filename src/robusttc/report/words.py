"""Names for clusters: the labels and words that tell a cluster's tasks from all others.

A word counts by the share of a task's texts that have it, and every task counts alike, however many rows it
has. Two conditions make a word telling. First its log-odds in the cluster against the other tasks, with a
prior that pulls rare words towards what is usual, is clear of chance (Monroe, Colaresi and Quinn, 2008).
Then, as in tf-idf with clusters for documents, it is rare among the other clusters: words that are in all of
them, such as stop words in any language, have an inverse document frequency near 0.

A word must stand in two tasks of a cluster, or in several rows of its only task: what a single person wrote
is nobody else's business. Tasks that may not share are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from robusttc.data import UNKNOWN_ID, Task, TaskSet, Vocabulary
from robusttc.errors import DataError
from robusttc.models import label_words

__all__ = ["ClusterWords", "describe_clusters"]

MAX_LISTED = 12
# Rows that are read altogether, dealt evenly to the tasks, and the fewest of a task.
MAX_ROWS = 60_000
MIN_ROWS_READ = 40
# A task counts as so many texts, however many it has: its texts are alike.
TEXTS_PER_TASK = 10.0
# So many texts of usual words are added to each side: rare words need more to stand out.
PRIOR_TEXTS = 10.0
MIN_DEVIATIONS = 2.0  # below which a difference may be chance
FILLERS = {"actually", "going", "honestly", "just", "like", "need", "okay", "please", "really", "want", "yes"}
STOP_WORDS = ENGLISH_STOP_WORDS | FILLERS
MIN_IDF = 0.5  # of the idf of a word that only one cluster has
MIN_TASKS = 2
MIN_ROWS = 3
# Languages without spaces make whole sentences one token; those are not words to show.
MAX_WORD_LENGTH = 24
NAME_PARTS = 3
MAX_NAME_LENGTH = 48

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClusterWords:
    """What a cluster can be called by.

    Attributes
    ----------
    words
        The words that tell it from all others with their weights, the clearest first.
    labels
        The labels that most of its tasks have with how many have each, those that few other clusters have
        first.
    name
        The most telling of them in a few words; empty where nothing tells the cluster from the others.
    """

    words: tuple[tuple[str, float], ...]
    labels: tuple[tuple[str, int], ...]
    name: str


def describe_clusters(tasks: TaskSet, members: Mapping[int, Sequence[str]]) -> dict[int, ClusterWords]:
    """Return the words, the labels and a name of every cluster.

    Parameters
    ----------
    tasks
        The tasks. Those that may not share are left out, whatever `members` says.
    members
        The names of the tasks of each cluster.

    Examples
    --------
    >>> tasks = TaskSet(
    ...     Task(name, [f"my {word} is late", f"the {word}"] * 3, ["a", "b"] * 3)
    ...     for name, word in [("one", "parcel"), ("two", "parcel"), ("three", "song"), ("four", "song")]
    ... )
    >>> found = describe_clusters(tasks, {0: ["one", "two"], 1: ["three", "four"]})
    >>> found[0].name, found[1].name, found[0].labels
    ('parcel', 'song', (('a', 2), ('b', 2)))
    """
    shared = {
        number: [name for name in names if name in tasks and tasks[name].may_share]
        for number, names in members.items()
    }
    used = {number: names for number, names in shared.items() if names}
    words = find_words(tasks, used)
    labels, telling = find_labels(tasks, used)
    return {
        number: ClusterWords(
            tuple(words.get(number, ())),
            tuple(labels.get(number, ())),
            join_name(telling.get(number, []), [word for word, _ in words.get(number, ())]),
        )
        for number in members
    }


def join_name(labels: Sequence[str], words: Sequence[str]) -> str:
    """Return a name of a few parts: labels first, then words that are in none of these."""
    parts: list[str] = []
    used: set[str] = set()
    for part in (*labels, *words):
        new = set(label_words(part).split()) or {part}
        stems = {word[:5] for word in new}
        length = len(", ".join([*parts, part]))
        if len(parts) == NAME_PARTS or stems & used or (parts and length > MAX_NAME_LENGTH):
            continue
        parts.append(part)
        used |= stems
    return ", ".join(parts)


def find_words(tasks: TaskSet, members: Mapping[int, Sequence[str]]) -> dict[int, list[tuple[str, float]]]:
    """Return the telling words of each cluster; none where there are not two clusters."""
    if len(members) < 2:
        return {}
    names = [name for own in members.values() for name in own]
    limit = max(MIN_ROWS_READ, MAX_ROWS // len(names))
    sample = TaskSet(take_evenly(tasks[name], limit) for name in names)
    try:
        words, counts = count_rows(sample)
    except DataError:  # the tokenizer gave up on a text; words are an ornament
        return {}
    n_rows = np.array([len(task) for task in sample], dtype=np.float64)
    shares = sparse.csr_array(sparse.diags_array(1 / n_rows) @ counts)
    ends = np.cumsum([0, *(len(own) for own in members.values())])
    parts = [slice(begin, end) for begin, end in pairwise(ends.tolist())]
    sums = np.array([shares[part].sum(axis=0) for part in parts])  # cluster x word
    sizes = np.diff(ends)
    idf = rarity(sums / sizes[:, None])
    is_usable = np.array([is_word(word) for word in words])
    found = {}
    for place, (number, part) in enumerate(zip(members, parts, strict=True)):
        weight = log_odds(
            sums[place], sizes[place], sums.sum(axis=0) - sums[place], sizes.sum() - sizes[place]
        )
        own = counts[part]
        if sizes[place] >= MIN_TASKS:
            is_usual = np.bincount(own.indices, minlength=len(words)) >= MIN_TASKS
        else:
            is_usual = np.asarray(own.sum(axis=0)).ravel() >= MIN_ROWS
        is_telling = is_usable & is_usual & (weight >= MIN_DEVIATIONS) & (idf >= MIN_IDF)
        weight = np.where(is_telling, weight * idf, -np.inf)
        order = np.lexsort((np.arange(len(words)), -weight))[: min(MAX_LISTED, is_telling.sum())]
        found[number] = [(words[word], float(weight[word])) for word in order]
    return found


def rarity(shares: Floats) -> Floats:
    """Return the inverse document frequency of words among clusters, as a share of the greatest.

    How many clusters have a word is the sum of its shares (rows are clusters), over its greatest share: so a
    word that is here and there in every cluster is one that all have.

    >>> rarity(np.array([[0.4, 0.3], [0.0, 0.3]])).tolist()
    [1.0, 0.0]
    """
    n_having = shares.sum(axis=0) / np.maximum(shares.max(axis=0), 1e-12)
    return np.asarray(1 - np.log(np.maximum(n_having, 1)) / np.log(len(shares)), dtype=np.float64)


def log_odds(inside: Floats, n_inside: int, outside: Floats, n_outside: int) -> Floats:
    """Return the log-odds of each word in standard deviations.

    `inside` and `outside` are sums of shares over the tasks of the cluster, and over all others.
    """
    # A share of all tasks, kept off 0 and 1 so that all odds are finite.
    usual = (inside + outside + 0.5 / TEXTS_PER_TASK) / (n_inside + n_outside + 1 / TEXTS_PER_TASK)
    odds, variance = [], np.zeros(len(usual))
    for total, number in ((inside, n_inside), (outside, n_outside)):
        texts = TEXTS_PER_TASK * total + PRIOR_TEXTS * usual
        odds.append(np.log(texts) - np.log(TEXTS_PER_TASK * number + PRIOR_TEXTS - texts))
        variance += 1 / texts
    return np.asarray((odds[0] - odds[1]) / np.sqrt(variance), dtype=np.float64)


def is_word(token: str) -> bool:
    """Return whether a token is worth showing: letters, no stop word, no digits (they may be anybody's).

    >>> is_word("parcel"), is_word("n't"), is_word("?"), is_word("a1b2"), is_word("should")
    (True, False, False, False, False)
    """
    return (
        # Two letters are a word where there is no alphabet.
        (3 if token.isascii() else 2) <= len(token) <= MAX_WORD_LENGTH
        # The tokenizer leaves the full stop of a sentence at its last word, where another one follows.
        and not token.endswith(".")
        and any(character.isalpha() for character in token)
        and not any(
            character.isdigit() or character in "@/\\'\N{RIGHT SINGLE QUOTATION MARK}" for character in token
        )
        and token.lower() not in STOP_WORDS
    )


def take_evenly(task: Task, limit: int) -> Task:
    """Return at most so many rows of a task, evenly spread over it; training rows where there are any."""
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


def find_labels(
    tasks: TaskSet, members: Mapping[int, Sequence[str]]
) -> tuple[dict[int, list[tuple[str, int]]], dict[int, list[str]]]:
    """Return the labels that most tasks of each cluster have, and the labels and parts of them that name it.

    Labels whose names have the same words count as one and are shown in their most frequent spelling. A label
    must be in two tasks, unless the cluster has one.
    """
    counted = {number: count_labels(tasks, names) for number, names in members.items()}
    sizes = {number: len(names) for number, names in members.items()}
    whole = {number: {key: n for key, (_, n) in found.items()} for number, found in counted.items()}
    naming = most_telling(whole, sizes, least_share=1 / 2)
    parts = most_telling(
        {n: count_label_words(tasks, own) for n, own in members.items()}, sizes, least_share=1 / 4
    )
    labels: dict[int, list[tuple[str, int]]] = {}
    telling: dict[int, list[str]] = {}
    for number, found in counted.items():
        usual = [(label, n) for label, n in found.values() if n >= min(MIN_TASKS, sizes[number])]
        labels[number] = sorted(usual, key=lambda entry: (-entry[1], entry[0]))[:MAX_LISTED]
        telling[number] = [*(found[key][0] for key in naming[number]), *parts[number]]
    return labels, telling


def most_telling(
    counted: Mapping[int, Mapping[str, int]], sizes: Mapping[int, int], *, least_share: float
) -> dict[int, list[str]]:
    """Return what many tasks of a cluster have and few other clusters do, by tf-idf."""
    keys = sorted({key for found in counted.values() for key in found})
    shares = np.array(
        [[found.get(key, 0) / sizes[number] for key in keys] for number, found in counted.items()]
    )
    idf = dict(zip(keys, rarity(shares) if len(counted) > 1 else np.ones(len(keys)), strict=True))
    telling = {}
    for number, found in counted.items():
        weights = {
            key: idf[key] * n
            for key, n in found.items()
            if idf[key] >= MIN_IDF and n >= max(MIN_TASKS, least_share * sizes[number])
        }
        telling[number] = sorted(weights, key=lambda key: (-weights[key], key))
    return telling


def count_labels(tasks: TaskSet, names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return for the words of each label its most frequent spelling, and how many tasks have it."""
    spellings: dict[str, Counter[str]] = {}
    for name in names:
        # Two labels of one task that differ in spelling alone are one task all the same.
        for words, label in {label_words(label): label for label in tasks[name].label_names}.items():
            spellings.setdefault(words, Counter())[label] += 1
    return {
        words: (min(found, key=lambda label: (-found[label], label)), found.total())
        for words, found in spellings.items()
    }


def count_label_words(tasks: TaskSet, names: Sequence[str]) -> Counter[str]:
    """Count in the labels of how many tasks each word stands; stop words are left out."""
    return Counter(
        word
        for name in names
        for word in {word for label in tasks[name].label_names for word in label_words(label).split()}
        if is_word(word)
    )
