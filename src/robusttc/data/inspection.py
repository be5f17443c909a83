"""What is in a set of tasks, and which problems of data quality to fix before anything is trained on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.data.synthetic import read_words
from robusttc.data.task import Task, TaskSet

if TYPE_CHECKING:
    from scipy import sparse

__all__ = [
    "ConflictingText",
    "DuplicateRows",
    "Inspection",
    "Leak",
    "LongTexts",
    "OtherLanguage",
    "SimilarLabels",
    "SimilarTasks",
    "TaskSummary",
    "ThinLabels",
    "inspect_tasks",
]

FEW_TRAINING_ROWS = 3
MOST_TEXTS = 0.5
TASKS_PER_BLOCK = 256

# MiniLM reads 256 word pieces, 254 of them text; an English word is about 1.3 pieces.
MAX_ENCODED_WORDS = 190

MIN_FUNCTION_WORDS = 20  # in a task, before its language is judged
OTHER_SCRIPT_SHARE = 0.3  # of the letters of a task
WORD = re.compile(r"[^\W\d_]+")
OTHER_SCRIPT = re.compile(r"[^\W\d_\x00-\u024f]")  # letters that are not Latin, with or without accents


@dataclass(frozen=True)
class TaskSummary:
    """The size of one task; `median_words` counts words between spaces."""

    task: str
    n_rows: int
    n_labels: int
    rows_by_split: dict[str, int]
    median_words: float


@dataclass(frozen=True)
class ConflictingText:
    """One text that has several labels in one task."""

    task: str
    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class DuplicateRows:
    """Rows of one task that repeat the text and the label of an earlier row."""

    task: str
    n_duplicates: int
    example: str


@dataclass(frozen=True)
class ThinLabels:
    """The labels of one task that have hardly any training rows, with how many they have."""

    task: str
    training_rows: dict[str, int]


@dataclass(frozen=True)
class SimilarLabels:
    """Labels of one task that differ only in case, spaces or punctuation."""

    task: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class SimilarTasks:
    """Two tasks that share most of the distinct texts of the smaller one."""

    first: str
    second: str
    n_shared_texts: int
    share_of_smaller: float
    share_of_larger: float


@dataclass(frozen=True)
class Leak:
    """Test rows of one task whose text is also in its train."""

    task: str
    n_leaked: int
    n_test: int
    example: str


@dataclass(frozen=True)
class LongTexts:
    """Texts of one task that are longer than MiniLM reads, estimated by their words."""

    task: str
    n_long: int
    most_words: int
    example: str


@dataclass(frozen=True)
class OtherLanguage:
    """A task whose texts are probably not English, which MiniLM was trained on.

    `share` is that of the language's function words among those of all languages, or of letters that are not
    Latin (then `language` is ``another script``).
    """

    task: str
    language: str
    share: float
    example: str


@dataclass(frozen=True)
class Inspection:
    """What is there, and what to fix."""

    tasks: tuple[TaskSummary, ...]
    n_rows: int
    n_labels: int
    n_distinct_texts: int
    rows_by_split: dict[str, int]
    same_label_sets: bool
    conflicting_texts: tuple[ConflictingText, ...]
    duplicate_rows: tuple[DuplicateRows, ...]
    thin_labels: tuple[ThinLabels, ...]
    similar_labels: tuple[SimilarLabels, ...]
    similar_tasks: tuple[SimilarTasks, ...]
    leaks: tuple[Leak, ...]
    long_texts: tuple[LongTexts, ...]
    other_languages: tuple[OtherLanguage, ...]


def inspect_tasks(tasks: TaskSet) -> Inspection:
    """Look at a set of tasks before anything is trained. Texts are the same where they are equal exactly.

    Examples
    --------
    >>> task = Task("acme", ["hi", "hi", "bye"], ["greet", "leave", "leave"])
    >>> inspect_tasks(TaskSet([task])).conflicting_texts
    (ConflictingText(task='acme', text='hi', labels=('greet', 'leave')),)
    """

    def find(finder: Callable[[Task], Iterator[Any]]) -> tuple[Any, ...]:
        return tuple(found for task in tasks for found in finder(task))

    summaries = tuple(summarise(task) for task in tasks)
    rows_by_split: Counter[str] = Counter()
    for summary in summaries:
        rows_by_split.update(summary.rows_by_split)
    incidence = text_incidence(tasks)
    return Inspection(
        tasks=summaries,
        n_rows=tasks.n_rows,
        n_labels=sum(summary.n_labels for summary in summaries),
        n_distinct_texts=incidence.shape[1],
        rows_by_split=dict(rows_by_split),
        same_label_sets=tasks.same_label_sets,
        conflicting_texts=find(find_conflicts),
        duplicate_rows=find(find_duplicates),
        thin_labels=find(find_thin_labels),
        similar_labels=find(find_similar_labels),
        similar_tasks=tuple(find_similar_tasks(tasks.names, incidence)),
        leaks=find(find_leaks),
        long_texts=find(find_long_texts),
        other_languages=find(find_other_language),
    )


def summarise(task: Task) -> TaskSummary:
    """Return the numbers of rows, labels and words of one task."""
    counts = np.bincount(task.split_codes, minlength=len(task.split_names)).tolist()
    rows_by_split = dict(zip(task.split_names, counts, strict=True))
    median_words = float(np.median([len(text.split()) for text in task.texts])) if len(task) else 0.0
    return TaskSummary(task.name, len(task), len(task.label_names), rows_by_split, median_words)


def find_conflicts(task: Task) -> Iterator[ConflictingText]:
    """Yield the texts of a task that have several labels."""
    labels_of_text: dict[str, set[int]] = {}
    for text, code in zip(task.texts, task.label_codes.tolist(), strict=True):
        labels_of_text.setdefault(text, set()).add(code)
    for text, codes in labels_of_text.items():
        if len(codes) > 1:
            labels = tuple(task.label_names[code] for code in sorted(codes))
            yield ConflictingText(task.name, text, labels)


def find_duplicates(task: Task) -> Iterator[DuplicateRows]:
    """Find rows that repeat the text and label of an earlier one."""
    counts = Counter(zip(task.texts, task.label_codes.tolist(), strict=True))
    if len(counts) < len(task):
        (text, _), _ = counts.most_common(1)[0]
        yield DuplicateRows(task.name, len(task) - len(counts), text)


def find_thin_labels(task: Task) -> Iterator[ThinLabels]:
    """Find the labels of a task that have fewer than three training rows."""
    counts = np.bincount(task.label_codes[task.rows("train")], minlength=len(task.label_names)).tolist()
    labels = zip(task.label_names, counts, strict=True)
    if thin := {label: count for label, count in labels if count < FEW_TRAINING_ROWS}:
        yield ThinLabels(task.name, thin)


def find_similar_labels(task: Task) -> Iterator[SimilarLabels]:
    """Yield labels that read the same: most often one label, written in two ways."""
    written: dict[str, list[str]] = {}
    for label in task.label_names:
        bare = "".join(character for character in label.casefold() if character.isalnum())
        # A label of punctuation alone ("+", "-") means something by it.
        written.setdefault(bare or label, []).append(label)
    for labels in written.values():
        # "1" and "-1" differ in sign, not in writing.
        if len(labels) > 1 and not all(is_number(label) for label in labels):
            yield SimilarLabels(task.name, tuple(labels))


def is_number(label: str) -> bool:
    """Return whether a label is a number."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def find_leaks(task: Task) -> Iterator[Leak]:
    """Find test rows whose text is also in train."""
    training = set(task.texts_at(task.rows("train")))
    test = task.texts_at(task.rows("test"))
    if leaked := [text for text in test if text in training]:
        yield Leak(task.name, len(leaked), len(test), leaked[0])


def find_long_texts(task: Task) -> Iterator[LongTexts]:
    """Find texts of which MiniLM would read only the beginning."""
    if long := {text: n for text in task.texts if (n := len(text.split())) > MAX_ENCODED_WORDS}:
        longest = max(long, key=lambda text: long[text])
        yield LongTexts(task.name, sum(text in long for text in task.texts), long[longest], longest)


def find_other_language(task: Task) -> Iterator[OtherLanguage]:
    """Find out by script and function words whether the texts of a task are probably not English.

    English of which the function words were removed has hardly any of another language either, and is not
    reported; nor are languages in Latin script whose function words are not in ``words.toml``.
    """
    everything = "\n".join(task.texts)
    n_foreign = len(OTHER_SCRIPT.findall(everything))
    n_letters = sum(map(str.isalpha, everything)) if n_foreign else 0
    if n_foreign > OTHER_SCRIPT_SHARE * n_letters:
        example = max(task.texts, key=lambda text: len(OTHER_SCRIPT.findall(text)))
        yield OtherLanguage(task.name, "another script", n_foreign / n_letters, example)
        return
    words = Counter(WORD.findall(everything.lower()))
    known = function_words()
    hits = {language: sum(words[word] for word in known[language]) for language in known}
    language = max(hits, key=lambda name: hits[name])
    n_hits = sum(hits.values())
    if language != "English" and n_hits >= MIN_FUNCTION_WORDS and hits[language] >= 2 * hits["English"]:

        def count_words(text: str) -> int:
            return sum(word in known[language] for word in WORD.findall(text.lower()))

        yield OtherLanguage(task.name, language, hits[language] / n_hits, max(task.texts, key=count_words))


@cache
def function_words() -> dict[str, frozenset[str]]:
    """Return the function words of each language that no other one has."""
    lists = {language: frozenset(words.split()) for language, words in read_words()["function_words"].items()}
    shared = Counter(word for words in lists.values() for word in words)
    return {language: frozenset(w for w in words if shared[w] == 1) for language, words in lists.items()}


def text_incidence(tasks: TaskSet) -> sparse.csr_array:
    """Return the 0/1 matrix of tasks x distinct texts."""
    from scipy import sparse

    code_of_text: dict[str, int] = {}
    rows_of_task = [
        np.unique([code_of_text.setdefault(text, len(code_of_text)) for text in task.texts]) for task in tasks
    ]
    starts = np.cumsum([0, *(len(rows) for rows in rows_of_task)])
    columns = np.concatenate([np.empty(0, dtype=np.int64), *rows_of_task]).astype(np.int64)
    ones = np.ones(len(columns), dtype=np.int64)
    return sparse.csr_array((ones, columns, starts), shape=(len(tasks), len(code_of_text)))


def find_similar_tasks(names: tuple[str, ...], incidence: sparse.csr_array) -> Iterator[SimilarTasks]:
    """Yield the pairs of tasks that share at least half of the smaller one's distinct texts."""
    sizes = np.diff(incidence.indptr)
    transposed = incidence.T.tocsc()
    # A block of tasks with all others at a time, which bounds the memory.
    for start in range(0, len(names), TASKS_PER_BLOCK):
        shared = (incidence[start : start + TASKS_PER_BLOCK] @ transposed).tocoo()
        first, second = shared.coords[0] + start, shared.coords[1]
        smaller = np.minimum(sizes[first], sizes[second])
        keep = np.flatnonzero((first < second) & (shared.data >= MOST_TEXTS * smaller))
        order = np.lexsort((second[keep], first[keep]))
        for place in keep[order].tolist():
            one, other = int(first[place]), int(second[place])
            n_shared = int(shared.data[place])
            small, large = sorted((int(sizes[one]), int(sizes[other])))
            yield SimilarTasks(names[one], names[other], n_shared, n_shared / small, n_shared / large)
