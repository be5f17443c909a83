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

__all__ = ["Inspection", "inspect_tasks"]

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
    task: str
    n_rows: int
    n_labels: int
    rows_by_split: dict[str, int]
    median_words: float  # between spaces


@dataclass(frozen=True)
class ConflictingText:
    task: str
    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class DuplicateRows:
    task: str
    n_duplicates: int  # rows that repeat the text and the label of an earlier row
    example: str


@dataclass(frozen=True)
class ThinLabels:
    task: str
    training_rows: dict[str, int]  # of the labels with hardly any


@dataclass(frozen=True)
class SimilarLabels:
    task: str
    labels: tuple[str, ...]  # that differ only in case, spaces or punctuation


@dataclass(frozen=True)
class SimilarTasks:
    first: str
    second: str
    n_shared_texts: int  # most of the distinct texts of the smaller task
    share_of_smaller: float
    share_of_larger: float


@dataclass(frozen=True)
class Leak:
    task: str
    n_leaked: int  # test rows whose text is also in train
    n_test: int
    example: str


@dataclass(frozen=True)
class LongTexts:
    task: str
    n_long: int  # texts longer than MiniLM reads, estimated by their words
    most_words: int
    example: str


@dataclass(frozen=True)
class OtherLanguage:
    task: str
    language: str  # or "another script"
    share: float  # of its function words among those of all languages, or of letters that are not Latin
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
    """Return sizes and data-quality problems of a set of tasks; texts are compared exactly.

    Examples
    --------
    >>> task = Task("acme", ["hi", "hi", "bye"], ["greet", "leave", "leave"])
    >>> inspect_tasks(TaskSet([task])).conflicting_texts
    (ConflictingText(task='acme', text='hi', labels=('greet', 'leave')),)
    """

    def find(finder: Callable[[Task], Iterator[Any]]) -> tuple[Any, ...]:
        return tuple(found for task in tasks for found in finder(task))

    summaries = find(summarise)
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


def summarise(task: Task) -> Iterator[TaskSummary]:
    counts = np.bincount(task.split_codes, minlength=len(task.split_names)).tolist()
    rows_by_split = dict(zip(task.split_names, counts, strict=True))
    median_words = float(np.median([len(text.split()) for text in task.texts])) if len(task) else 0.0
    yield TaskSummary(task.name, len(task), len(task.label_names), rows_by_split, median_words)


def find_conflicts(task: Task) -> Iterator[ConflictingText]:
    labels_of_text: dict[str, set[int]] = {}
    for text, code in zip(task.texts, task.label_codes.tolist(), strict=True):
        labels_of_text.setdefault(text, set()).add(code)
    for text, codes in labels_of_text.items():
        if len(codes) > 1:
            yield ConflictingText(task.name, text, tuple(task.label_names[code] for code in sorted(codes)))


def find_duplicates(task: Task) -> Iterator[DuplicateRows]:
    counts = Counter(zip(task.texts, task.label_codes.tolist(), strict=True))
    if len(counts) < len(task):
        (text, _), _ = counts.most_common(1)[0]
        yield DuplicateRows(task.name, len(task) - len(counts), text)


def find_thin_labels(task: Task) -> Iterator[ThinLabels]:
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
    try:
        float(label)
    except ValueError:
        return False
    return True


def find_leaks(task: Task) -> Iterator[Leak]:
    training = set(task.texts_at(task.rows("train")))
    test = task.texts_at(task.rows("test"))
    if leaked := [text for text in test if text in training]:
        yield Leak(task.name, len(leaked), len(test), leaked[0])


def find_long_texts(task: Task) -> Iterator[LongTexts]:
    if long := [(n, text) for text in task.texts if (n := len(text.split())) > MAX_ENCODED_WORDS]:
        most_words, longest = max(long, key=lambda found: found[0])
        yield LongTexts(task.name, len(long), most_words, longest)


def find_other_language(task: Task) -> Iterator[OtherLanguage]:
    """Decide by script and function words whether the texts of a task are probably not English.

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
    hits = {language: sum(words[word] for word in known) for language, known in function_words().items()}
    language = max(hits, key=lambda name: hits[name])
    n_hits = sum(hits.values())
    if language != "English" and n_hits >= MIN_FUNCTION_WORDS and hits[language] >= 2 * hits["English"]:
        known = function_words()[language]
        example = max(task.texts, key=lambda text: sum(word in known for word in WORD.findall(text.lower())))
        yield OtherLanguage(task.name, language, hits[language] / n_hits, example)


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
    codes = [[code_of_text.setdefault(text, len(code_of_text)) for text in set(task.texts)] for task in tasks]
    starts = np.cumsum([0, *map(len, codes)])
    columns = np.array([code for of_task in codes for code in of_task], dtype=np.int64)
    ones = np.ones(len(columns), dtype=np.int64)
    return sparse.csr_array((ones, columns, starts), shape=(len(tasks), len(code_of_text)))


def find_similar_tasks(names: tuple[str, ...], incidence: sparse.csr_array) -> Iterator[SimilarTasks]:
    """Yield the pairs of tasks that share at least half of the smaller one's distinct texts."""
    from scipy import sparse

    sizes = np.diff(incidence.indptr)
    # A block of tasks with all others at a time, which bounds the memory.
    for start in range(0, len(names), TASKS_PER_BLOCK):
        shared = incidence[start : start + TASKS_PER_BLOCK] @ incidence.T.tocsc()
        first, second, n_texts = sparse.find(sparse.triu(shared, k=start + 1))
        sizes_of_pair = np.sort([sizes[first + start], sizes[second]], axis=0)
        keep = np.flatnonzero(n_texts >= MOST_TEXTS * sizes_of_pair[0])
        for pair in keep[np.lexsort((second[keep], first[keep]))].tolist():
            one, other, n = names[first[pair] + start], names[second[pair]], int(n_texts[pair])
            small, large = sizes_of_pair[:, pair].tolist()
            yield SimilarTasks(one, other, n, n / small, n / large)
