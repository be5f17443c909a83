"""Words, labels and names of clusters: those that tell them apart, and nobody's secrets."""

from __future__ import annotations

import pytest

from robusttc import make_planted_tasks
from robusttc.data import Task, TaskSet
from robusttc.errors import DataError
from robusttc.report import words
from robusttc.report.words import describe_clusters


def task_of(
    name: str, texts: list[str], *, labels: tuple[str, str] = ("x1", "x2"), may_share: bool = True
) -> Task:
    return Task(name, texts, [labels[row % 2] for row in range(len(texts))], may_share=may_share)


def texts_with(word: str, n: int = 20) -> list[str]:
    return [f"where is the {word} please", "and now this"] * (n // 2)


def words_of(tasks: TaskSet, members: dict[int, list[str]]) -> list[list[str]]:
    return [[word for word, _ in found.words] for found in describe_clusters(tasks, members).values()]


def test_words_tell_clusters_apart_and_common_words_do_not() -> None:
    tasks = TaskSet(
        task_of(f"{word} {number}", texts_with(word)) for word in ("parcel", "song") for number in range(4)
    )
    members = {3: [f"parcel {number}" for number in range(4)], 7: [f"song {number}" for number in range(4)]}
    assert words_of(tasks, members) == [["parcel"], ["song"]]
    found = describe_clusters(tasks, members)
    assert [found[3].name, found[7].name] == ["parcel", "song"]


def test_a_word_that_many_clusters_have_names_none() -> None:
    # Twice as often in one cluster as elsewhere: clear of chance, but it tells nothing.
    counts = {"a": 12, "b": 6, "c": 6, "d": 6}
    tasks = TaskSet(
        task_of(f"{name} {number}", ["maybe so"] * n + [f"{name}word"] * 4 + ["and this"] * (20 - n))
        for name, n in counts.items()
        for number in range(5)
    )
    members = {place: [f"{name} {number}" for number in range(5)] for place, name in enumerate(counts)}
    assert words_of(tasks, members) == [["aword"], ["bword"], ["cword"], ["dword"]]


def test_planted_clusters_are_called_by_what_they_are_about() -> None:
    planted = make_planted_tasks(n_tasks=36, random_state=0)
    members: dict[int, list[str]] = {}
    for name, family in zip(planted.tasks.names, planted.families, strict=True):
        members.setdefault(int(family), []).append(name)
    found = describe_clusters(planted.tasks, members)
    names = [found[number].name for number in members]
    assert all(names)
    assert len(set(names)) == len(names)
    stop_words = {
        "am",
        "i",
        "honestly",
        "yes",
        "really",
        "know",
        "should",
        "now",
        "so",
        "the",
        "over",
        "as",
        "to",
        "of",
    }
    shown = {
        word for one in found.values() for word in [*one.name.split(", "), *(word for word, _ in one.words)]
    }
    assert not shown & stop_words


def test_one_large_task_does_not_decide() -> None:
    small = [task_of(f"small {number}", texts_with("parcel")) for number in range(6)]
    large = task_of("large", texts_with("invoice", 4000))
    others = [task_of(f"other {number}", texts_with("song")) for number in range(6)]
    members = {0: ["large", *(task.name for task in small)], 1: [task.name for task in others]}
    assert words_of(TaskSet([*small, large, *others]), members)[0] == ["parcel"]


def test_what_only_one_task_says_is_nobodys_business() -> None:
    pair = [
        task_of(
            name,
            [*texts_with("parcel", 40), *[f"ask {name}x about it"] * 20],
            labels=(f"{name}a", f"{name}b"),
        )
        for name in ("anna", "bert")
    ]
    others = [task_of(f"other {number}", texts_with("song")) for number in range(2)]
    members = {0: ["anna", "bert"], 1: ["other 0", "other 1"]}
    found = describe_clusters(TaskSet([*pair, *others]), members)[0]
    assert {word for word, _ in found.words} == {"ask", "parcel"}
    assert found.labels == ()
    assert not {"anna", "bert"} & set(found.name.split(", "))
    # A cluster of one task has only its own words; what a single row says is left out all the same.
    alone = task_of("alone", [*texts_with("parcel"), "call mister secret"])
    assert words_of(TaskSet([alone, *others]), {0: ["alone"], 1: ["other 0", "other 1"]})[0] == ["parcel"]


def test_private_tasks_and_codes_are_not_shown() -> None:
    private = [task_of(f"private {number}", texts_with("secret"), may_share=False) for number in range(3)]
    first = [
        task_of(f"first {number}", [*texts_with("parcel"), "order a1b2 for x@y.z"]) for number in range(3)
    ]
    others = [task_of(f"other {number}", texts_with("song")) for number in range(3)]
    members = {0: [task.name for task in [*private, *first]], 1: [task.name for task in others]}
    assert words_of(TaskSet([*private, *first, *others]), members) == [["parcel"], ["song"]]


def test_labels_are_those_that_most_tasks_have_and_name_the_cluster() -> None:
    sets = [["greet", "a"], ["Greet", "b"], ["greet", "bye"], ["bye", "c"]]
    tasks = TaskSet(Task(f"task {n}", ["x", "y"], labels) for n, labels in enumerate(sets))
    found = describe_clusters(tasks, {0: list(tasks.names)})[0]
    assert found.labels == (("greet", 3), ("bye", 2))
    assert found.name == "greet, bye"
    assert describe_clusters(tasks, {0: ["task 0"]})[0].labels == (("a", 1), ("greet", 1))
    assert describe_clusters(tasks, {}) == {}


def test_words_are_an_ornament(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = TaskSet([task_of("a", texts_with("parcel")), task_of("b", texts_with("song"))])
    assert words_of(tasks, {0: ["a", "b"]}) == [[]]

    def give_up(_: TaskSet) -> object:
        raise DataError("the tokenizer took too long")

    monkeypatch.setattr(words, "count_rows", give_up)
    assert words_of(tasks, {0: ["a"], 1: ["b"]}) == [[], []]
