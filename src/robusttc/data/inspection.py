"""What is in a set of tasks, and which problems of data quality to fix before anything is trained on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

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

# The default encoder reads 256 word pieces, 254 of them text; an English word is about 1.3 pieces.
MAX_ENCODED_WORDS = 190

# A language is told by its function words. Words that two of the languages share (or that are names of
# things in English, such as "die") are left out, and so is nothing said of a text with few of either.
FUNCTION_WORDS = {
    "English": "the and of to is that for you with my are this have not be your what can how please was it",
    "German": "der das und ist nicht ich ein eine zu den mit auf für wie kann bitte mein meine sie wir auch",
    "French": "le les des est je pas une pour dans que vous mon ma avec sur du puis veux comment nous et",
    "Spanish": "el los las es que por para una con mi como del quiero puedo gracias está por un y yo se",
    "Italian": "il che di è per una con mio mia sono come della vorrei posso grazie nel gli anche questo ho",
    "Portuguese": "o os que é para uma com meu minha não como quero posso obrigado do da em eu você está",
    "Dutch": "het een van is ik niet mijn op voor met dat hoe kan graag wil naar te zijn ook deze",
}
MIN_FUNCTION_WORDS = 20  # in a task, before its language is judged
OTHER_SCRIPT_SHARE = 0.3  # of the letters of a task
WORD = re.compile(r"[^\W\d_]+")
Finding = TypeVar("Finding")
LATIN = 0x250  # letters below are Latin, with or without accents


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
    """Texts of one task that are longer than the default encoder reads, estimated by their words."""

    task: str
    n_long: int
    most_words: int
    example: str


@dataclass(frozen=True)
class OtherLanguage:
    """A task whose texts are probably not English, which the default encoder was trained on.

    Attributes
    ----------
    task
        The name of the task.
    language
        The language by function words, or ``another script`` where letters are not Latin.
    share
        The share of its function words among those of all languages, or of letters in other scripts.
    example
        One of the texts.
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
    words = {task.name: [len(text.split()) for text in task.texts] for task in tasks}
    summaries = tuple(summarise(task, words[task.name]) for task in tasks)
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
        conflicting_texts=tuple(conflict for task in tasks for conflict in find_conflicts(task)),
        duplicate_rows=present(find_duplicates(task) for task in tasks),
        thin_labels=present(find_thin_labels(task) for task in tasks),
        similar_labels=tuple(similar for task in tasks for similar in find_similar_labels(task)),
        similar_tasks=tuple(find_similar_tasks(tasks.names, incidence)),
        leaks=present(find_leak(task) for task in tasks),
        long_texts=present(find_long_texts(task, words[task.name]) for task in tasks),
        other_languages=present(find_other_language(task) for task in tasks),
    )


def present(found: Iterable[Finding | None]) -> tuple[Finding, ...]:
    """Return what is not None."""
    return tuple(one for one in found if one is not None)


def summarise(task: Task, words: list[int]) -> TaskSummary:
    """Return the numbers of rows, labels and words of one task."""
    counts = np.bincount(task.split_codes, minlength=len(task.split_names)).tolist()
    return TaskSummary(
        task=task.name,
        n_rows=len(task),
        n_labels=len(task.label_names),
        rows_by_split=dict(zip(task.split_names, counts, strict=True)),
        median_words=float(np.median(words)) if words else 0.0,
    )


def find_conflicts(task: Task) -> Iterator[ConflictingText]:
    """Yield the texts of a task that have several labels."""
    labels_of_text: dict[str, set[int]] = {}
    for text, code in zip(task.texts, task.label_codes.tolist(), strict=True):
        labels_of_text.setdefault(text, set()).add(code)
    for text, codes in labels_of_text.items():
        if len(codes) > 1:
            labels = tuple(task.label_names[code] for code in sorted(codes))
            yield ConflictingText(task.name, text, labels)


def find_duplicates(task: Task) -> DuplicateRows | None:
    """Find rows that repeat the text and label of an earlier one."""
    counts = Counter(zip(task.texts, task.label_codes.tolist(), strict=True))
    if len(counts) == len(task):
        return None
    (text, _), _ = counts.most_common(1)[0]
    return DuplicateRows(task.name, len(task) - len(counts), text)


def find_thin_labels(task: Task) -> ThinLabels | None:
    """Find the labels of a task that have fewer than three training rows."""
    counts = np.bincount(task.label_codes[task.rows("train")], minlength=len(task.label_names)).tolist()
    labels = zip(task.label_names, counts, strict=True)
    thin = {label: count for label, count in labels if count < FEW_TRAINING_ROWS}
    return ThinLabels(task.name, thin) if thin else None


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


def find_leak(task: Task) -> Leak | None:
    """Find test rows whose text is also in train."""
    training = set(task.texts_at(task.rows("train")))
    test = task.texts_at(task.rows("test"))
    leaked = [text for text in test if text in training]
    return Leak(task.name, len(leaked), len(test), leaked[0]) if leaked else None


def find_long_texts(task: Task, words: list[int]) -> LongTexts | None:
    """Find texts of which the default encoder would read only the beginning."""
    n_long = sum(count > MAX_ENCODED_WORDS for count in words)
    longest = int(np.argmax(words)) if words else 0
    return LongTexts(task.name, n_long, words[longest], task.texts[longest]) if n_long else None


def find_other_language(task: Task) -> OtherLanguage | None:
    """Find out by script and function words whether the texts of a task are probably not English.

    English of which the function words were removed has hardly any of another language either, and is not
    reported; nor are languages in Latin script that are not in `FUNCTION_WORDS`.
    """
    everything = "\n".join(task.texts)
    # Letters that are not Latin, per text: one text is the example.
    foreign = [] if everything.isascii() else [sum(map(is_other_script, text)) for text in task.texts]
    n_letters = sum(map(str.isalpha, everything)) if sum(foreign) else 0
    if n_letters and sum(foreign) > OTHER_SCRIPT_SHARE * n_letters:
        example = task.texts[int(np.argmax(foreign))]
        return OtherLanguage(task.name, "another script", sum(foreign) / n_letters, example)
    words = Counter(WORD.findall(everything.lower()))
    hits = {language: sum(words[word] for word in known) for language, known in function_words().items()}
    language = max(hits, key=lambda name: hits[name])
    n_hits = sum(hits.values())
    if language == "English" or n_hits < MIN_FUNCTION_WORDS or hits[language] < 2 * hits["English"]:
        return None
    known = function_words()[language]
    example = max(task.texts, key=lambda text: sum(word in known for word in WORD.findall(text.lower())))
    return OtherLanguage(task.name, language, hits[language] / n_hits, example)


def is_other_script(character: str) -> bool:
    """Return whether a character is a letter outside of the Latin script."""
    return ord(character) >= LATIN and character.isalpha()


@cache
def function_words() -> dict[str, frozenset[str]]:
    """Return the function words of each language that no other one has."""
    lists = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
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
