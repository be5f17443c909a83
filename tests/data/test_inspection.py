"""What `inspect_tasks` finds, on tasks whose truth is written by hand, and against a brute-force count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.data import Task, TaskSet, inspect_tasks
from robusttc.data import inspection as module
from robusttc.data.inspection import (
    DuplicateRows,
    Leak,
    SimilarLabels,
    SimilarTasks,
    ThinLabels,
)


def test_counts() -> None:
    task = Task(
        "a",
        ["one two", "three", "four five six"],
        ["x", "y", "x"],
        ["train", "valid", "extra"],
        other_splits=["extra"],
    )
    found = inspect_tasks(TaskSet([task, Task("b", ["three"], ["z"])]))
    assert found.n_rows == 4
    assert found.n_labels == 3
    assert found.n_distinct_texts == 3
    assert found.rows_by_split == {"train": 2, "valid": 1, "test": 0, "extra": 1}
    assert not found.same_label_sets
    assert found.tasks[0].median_words == 2
    assert found.tasks[0].rows_by_split == {"train": 1, "valid": 1, "test": 0, "extra": 1}


def test_conflicting_texts() -> None:
    task = Task("a", ["hi", "hi", "hi", "bye", "bye"], ["y", "x", "x", "z", "z"])
    (conflict,) = inspect_tasks(TaskSet([task])).conflicting_texts
    assert (conflict.task, conflict.text, conflict.labels) == ("a", "hi", ("x", "y"))


def test_conflict_is_within_one_task() -> None:
    tasks = TaskSet([Task("a", ["hi"], ["x"]), Task("b", ["hi"], ["y"])])
    assert inspect_tasks(tasks).conflicting_texts == ()


def test_thin_labels() -> None:
    labels = ["x"] * 3 + ["y"] * 2 + ["z"]
    task = Task("a", [f"t{i}" for i in range(6)], labels, ["train"] * 5 + ["test"])
    assert inspect_tasks(TaskSet([task])).thin_labels == (ThinLabels("a", {"y": 2, "z": 0}),)


def test_similar_labels() -> None:
    labels = ["Book flight", "book_flight", "cancel", "+", "-", "1", "-1", "ok", "OK"]
    task = Task("a", [f"t{i}" for i in range(9)], labels)
    assert inspect_tasks(TaskSet([task])).similar_labels == (
        SimilarLabels("a", ("Book flight", "book_flight")),
        SimilarLabels("a", ("OK", "ok")),
    )


def test_leak() -> None:
    task = Task("a", ["t", "t", "u", "v"], ["x", "x", "y", "y"], ["train", "test", "test", "train"])
    assert inspect_tasks(TaskSet([task])).leaks == (Leak("a", 1, 2, "t"),)
    assert inspect_tasks(TaskSet([Task("b", ["t", "u"], ["x", "y"])])).leaks == ()


def test_similar_tasks() -> None:
    tasks = TaskSet(
        [
            Task("a", ["1", "2", "3", "4"], ["x"] * 4),
            Task("b", ["3", "4", "5", "6", "6"], ["x"] * 5),
            Task("c", ["1", "7", "8"], ["x"] * 3),
        ]
    )
    assert inspect_tasks(tasks).similar_tasks == (SimilarTasks("a", "b", 2, 0.5, 0.5),)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=6), min_size=1, max_size=9))
def test_similar_tasks_against_brute_force(contents: list[list[int]]) -> None:
    tasks = TaskSet(
        Task(f"task {number}", [f"text {text}" for text in texts], ["x"] * len(texts))
        for number, texts in enumerate(contents)
    )
    expected = []
    for one, first in enumerate(contents):
        for other in range(one + 1, len(contents)):
            shared = len(set(first) & set(contents[other]))
            small, large = sorted((len(set(first)), len(set(contents[other]))))
            if shared and shared >= 0.5 * small:
                pair = (f"task {one}", f"task {other}")
                expected.append(SimilarTasks(*pair, shared, shared / small, shared / large))
    assert inspect_tasks(tasks).similar_tasks == tuple(expected)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "TASKS_PER_BLOCK", 2)
        assert inspect_tasks(tasks).similar_tasks == tuple(expected)


def test_duplicate_rows() -> None:
    task = Task("a", ["hi", "hi", "hi", "bye", "bye"], ["x", "x", "y", "y", "y"])
    assert inspect_tasks(TaskSet([task, Task("b", ["hi"], ["x"])])).duplicate_rows == (
        DuplicateRows("a", 2, "hi"),
    )


def test_texts_longer_than_the_default_encoder_reads() -> None:
    task = Task("a", ["word " * 190, "word " * 191, "longer " * 400], ["x", "y", "x"])
    (found,) = inspect_tasks(TaskSet([task, Task("b", ["short"], ["x"])])).long_texts
    assert (found.task, found.n_long, found.most_words) == ("a", 2, 400)
    assert found.example.startswith("longer")


SENTENCES = {
    "English": "Where is my parcel and what can I do about it? Please help me with this, thank you.",
    "German": "Wo ist mein Paket und was kann ich tun? Bitte helfen Sie mir mit der Bestellung.",
    "French": "Où est mon colis et que puis-je faire? Je ne veux pas attendre, merci pour votre aide.",
    "Spanish": "¿Dónde está mi paquete y qué puedo hacer? Quiero el dinero, gracias por la ayuda.",
    "Italian": "Dove è il mio pacco e che cosa posso fare? Vorrei il rimborso, grazie per una risposta.",
    "Dutch": "Waar is mijn pakket en wat kan ik doen? Ik wil graag een antwoord van het team.",
    "another script": "Где моя посылка и что мне делать? Пожалуйста, помогите.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_texts_that_are_not_english(language: str) -> None:
    task = Task("a", [f"{SENTENCES[language]} {number}" for number in range(10)], ["x", "y"] * 5)
    found = inspect_tasks(TaskSet([task])).other_languages
    assert [(one.task, one.language) for one in found] == ([] if language == "English" else [("a", language)])
    assert all(one.share > 0.5 and one.example in task.texts for one in found)


def test_english_without_function_words_is_no_other_language() -> None:
    texts = [f"parcel late refund order number {number}" for number in range(30)]
    assert inspect_tasks(TaskSet([Task("a", texts, ["x", "y"] * 15)])).other_languages == ()


def test_no_tasks() -> None:
    found = inspect_tasks(TaskSet([]))
    assert found.n_rows == 0
    assert found.similar_tasks == ()
