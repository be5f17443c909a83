"""Words and labels of clusters: those that tell them apart, and nobody's secrets."""

from __future__ import annotations

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.errors import DataError
from robusttc.report import cluster_words
from robusttc.report.cluster_words import find_labels, find_words, take_evenly, weigh


def task_of(name: str, texts: list[str], *, may_share: bool = True) -> Task:
    return Task(name, texts, [f"label {row % 2}" for row in range(len(texts))], may_share=may_share)


def words_of(found: dict[int, list[tuple[str, float]]], number: int) -> list[str]:
    return [word for word, _ in found[number]]


def texts_with(word: str, n: int = 20) -> list[str]:
    return [f"where is the {word} please", "and now this"] * (n // 2)


def test_words_tell_clusters_apart_and_common_words_do_not() -> None:
    tasks = TaskSet(
        task_of(f"{word} {number}", texts_with(word)) for word in ("parcel", "song") for number in range(4)
    )
    members = {3: [f"parcel {number}" for number in range(4)], 7: [f"song {number}" for number in range(4)]}
    found = find_words(tasks, members)
    assert (words_of(found, 3), words_of(found, 7)) == (["parcel"], ["song"])
    assert all(weight > 2 for words in found.values() for _, weight in words)


def test_one_large_task_does_not_decide() -> None:
    small = [task_of(f"small {number}", texts_with("parcel")) for number in range(6)]
    large = task_of("large", texts_with("invoice", 4000))
    others = [task_of(f"other {number}", texts_with("song")) for number in range(6)]
    members = {0: ["large", *(task.name for task in small)], 1: [task.name for task in others]}
    found = find_words(TaskSet([*small, large, *others]), members)
    assert words_of(found, 0)[0] == "parcel"
    assert "invoice" not in words_of(found, 0)


def test_what_only_one_task_says_is_nobodys_business() -> None:
    tasks = TaskSet(
        task_of(name, [*texts_with("parcel", 40), *[f"ask {name}x about it"] * 20])
        for name in ("anna", "bert")
    )
    others = [task_of(f"other {number}", texts_with("song")) for number in range(2)]
    found = find_words(TaskSet([*tasks, *others]), {0: ["anna", "bert"], 1: ["other 0", "other 1"]})
    assert "parcel" in words_of(found, 0)
    assert not {"annax", "bertx"} & set(words_of(found, 0))
    # A cluster of one task has only its own words; what a single row says is left out all the same.
    alone = task_of("alone", [*texts_with("parcel"), "call mister secret"])
    found = find_words(TaskSet([alone, *others]), {0: ["alone"], 1: ["other 0", "other 1"]})
    assert words_of(found, 0) == ["parcel"]


def test_private_texts_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    private = [task_of(f"private {number}", texts_with("secret"), may_share=False) for number in range(3)]
    tasks = TaskSet(
        [
            *private,
            *(
                task_of(f"{word} {number}", texts_with(word))
                for word in ("parcel", "song")
                for number in (1, 2)
            ),
        ]
    )
    seen: list[str] = []
    count_rows = cluster_words.count_rows

    def spy(sample: TaskSet) -> object:
        seen.extend(sample.names)
        return count_rows(sample)

    monkeypatch.setattr(cluster_words, "count_rows", spy)
    members = {0: ["parcel 1", "parcel 2", "private 0"], 1: ["song 1", "song 2", "private 1"]}
    found = find_words(tasks, members)
    assert set(seen) == {"parcel 1", "parcel 2", "song 1", "song 2"}
    assert words_of(found, 0) == ["parcel"]
    assert find_labels(tasks, ["private 0", "private 1"]) == []


def test_numbers_addresses_and_whole_sentences_are_no_words() -> None:
    odd = f"see 4711 a@b.example http://x.example/y {'我的包裹现在到底在哪里' * 4} parcel"
    tasks = [task_of(f"odd {number}", [odd] * 10) for number in range(3)]
    others = [task_of(f"other {number}", ["see the song"] * 10) for number in range(3)]
    members = {0: [task.name for task in tasks], 1: [task.name for task in others]}
    found = words_of(find_words(TaskSet([*tasks, *others]), members), 0)
    assert "parcel" in found
    assert all(len(word) <= 24 and not any(c.isdigit() or c in "@/" for c in word) for word in found)


def test_nothing_tells_a_single_cluster_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = TaskSet([task_of("a", texts_with("parcel")), task_of("b", texts_with("song"))])
    assert find_words(tasks, {0: ["a", "b"]}) == {0: []}
    assert find_words(tasks, {}) == {}

    def give_up(_: TaskSet) -> object:
        raise DataError("the tokenizer took too long")

    monkeypatch.setattr(cluster_words, "count_rows", give_up)
    assert find_words(tasks, {0: ["a"], 1: ["b"]}) == {0: [], 1: []}


def test_log_odds_are_those_of_the_formula() -> None:
    inside, outside = np.array([2.0, 0.0]), np.array([1.0, 3.0])
    first, second = weigh(inside, 4, outside, 6).tolist()
    usual = (3 + 0.05) / (10 + 0.1)
    yes, rest_yes = 20 + 10 * usual, 10 + 10 * usual
    expected = np.log(yes / (50 - yes)) - np.log(rest_yes / (70 - rest_yes))
    assert first == pytest.approx(expected / np.sqrt(1 / yes + 1 / rest_yes))
    assert second < 0


def test_labels_are_those_that_most_tasks_have() -> None:
    sets = [["greet", "a"], ["Greet", "b"], ["greet", "bye"], ["bye", "c"]]
    tasks = TaskSet(Task(f"task {n}", ["x", "y"], labels) for n, labels in enumerate(sets))
    assert find_labels(tasks, tasks.names) == [("greet", 3), ("bye", 2)]
    assert find_labels(tasks, ["task 0"]) == [("a", 1), ("greet", 1)]
    many = TaskSet([Task("many", [f"t{n}" for n in range(30)], [f"x{n:02}y" for n in range(30)])])
    assert len(find_labels(many, ["many"])) == 12


def test_rows_are_taken_evenly_from_those_for_training() -> None:
    splits = ["train"] * 50 + ["test"] * 50
    task = Task("a", [f"text {row}" for row in range(100)], ["x", "y"] * 50, splits)
    taken = list(take_evenly(task, 10).texts)
    assert len(taken) == 10
    assert (taken[0], taken[-1]) == ("text 0", "text 49")
    only_test = Task("b", ["s", "t"], ["x", "y"], ["test", "test"])
    assert len(take_evenly(only_test, 10)) == 2
