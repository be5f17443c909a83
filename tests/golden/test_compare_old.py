"""How `make compare-old` judges differences, and what it gives to both versions."""

from __future__ import annotations

import gzip
import json
from argparse import Namespace
from pathlib import Path

import pytest
from benchmarks.compare_old.__main__ import is_compared
from benchmarks.compare_old.differences import (
    Difference,
    Intended,
    compare_runs,
    compare_values,
    pair_accuracies,
    sort_differences,
)
from benchmarks.compare_old.inputs import prepare_set
from benchmarks.compare_old.parts import describe_refusal

RUN = {"took": {"fit": {"code": 0, "cpu": 10.0, "peak_mib": 900.0}}, "served": {"a": 0.5}, "few-shot": {}}


def test_what_is_dropped_added_and_changed_is_listed() -> None:
    found = compare_values({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "d": "5"})
    assert [(one.what, one.fate) for one in found] == [("b", "changed"), ("c", "dropped"), ("d", "added")]


@pytest.mark.parametrize(
    ("what", "fate", "explains"),
    [
        ("options/fit --n-random", "dropped", True),
        ("options/fit --n-*", "dropped", True),
        ("options/fit --n-random", "renamed", True),
        ("options/fit --n-random", "kept", True),
        ("options/fit --n-random", "added", False),
        ("options/fit --n-random", "changed", False),
        ("options/fit", "dropped", False),
    ],
)
def test_an_entry_explains_a_difference_of_its_name_and_fate(what: str, fate: str, explains: bool) -> None:
    difference = Difference("options/fit --n-random", "N, default 2", None)
    entry = Intended(what, fate, "It is gone.")
    unintended, explained, unused = sort_differences([difference], [entry])
    assert (not unintended, bool(explained), not unused) == (explains,) * 3


def test_brackets_in_an_entry_are_no_pattern() -> None:
    assert Intended("json/fit/tasks[].name", "dropped", "").matches(
        Difference("json/fit/tasks[].name", "", None)
    )
    assert not Intended("names/*[a]", "dropped", "").matches(Difference("names/a", "", None))


def test_an_entry_is_only_stale_where_it_was_looked_for() -> None:
    options = Namespace(only=["runs", "bad-files"], sets=["diverse"])
    assert is_compared("times/diverse/fit CPU s", options)
    assert is_compared("times/*/fit CPU s", options)
    assert is_compared("bad-files/a.csv", options)
    assert not is_compared("times/bots175/fit CPU s", options)
    assert not is_compared("options/fit --n-random", options)


def test_runs_are_the_same_or_their_differences_are_named() -> None:
    old = {**RUN, "sizes": {"scores.csv": 1_000_000}}
    assert compare_runs("set", old, old) == []
    slow = {"fit": {"code": 3, "cpu": 30.0, "peak_mib": 950.0}}
    new = {"took": slow, "served": {}, "few-shot": {}, "sizes": {"scores.csv": 9_000_000}}
    assert [one.what for one in compare_runs("set", old, new)] == [
        "runs/set/fit exit code",
        "times/set/fit CPU s",
        "sizes/set/scores.csv",
        "accuracies/set/a",
    ]


def test_the_bound_of_accuracy() -> None:
    old = {str(number): 0.8 for number in range(50)}
    same = pair_accuracies("set, served", old, old)
    assert same is not None
    assert same.holds
    assert (same.n_changed, same.low, same.high) == (0, 0, 0)
    worse = pair_accuracies("set, served", old, dict.fromkeys(old, 0.797))
    assert worse is not None
    assert not worse.holds
    noisy = {name: 0.8 + (0.02 if int(name) % 2 else -0.02) for name in old}
    served, few = (pair_accuracies(f"set, {kind}", old, noisy) for kind in ("served", "few-shot"))
    assert served is not None
    assert few is not None
    assert (served.holds, few.holds) == (False, True)


def test_a_refusal_is_its_exit_code_and_its_places() -> None:
    message = (
        "Error: 2 problems\n  tests/bad_files/folder/a.csv:3:7: bad\n  tests/bad_files/b.parquet:row 2: null"
    )
    assert describe_refusal(4, message) == "exit code 4, folder/a.csv:3:7, b.parquet:2"


def test_test_rows_are_given_to_nobody(tmp_path: Path) -> None:
    rows = [
        {"task": f"task {task}", "text": f"{split} {label} {row}", "label": label, "split": split}
        for task in range(40)
        for split, n_rows in (("train", 0 if task < 8 else 10), ("valid", 5), ("test", 3), ("train_full", 2))
        for label in ("yes", "no")
        for row in range(n_rows)
    ]
    source = tmp_path / "tasks.jsonl.gz"
    with gzip.open(source, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    given = prepare_set("some", source, tmp_path, quick=True)
    written = [json.loads(line) for line in given.tasks.read_text(encoding="utf-8").splitlines()]
    assert len({row["task"] for row in written}) == 24
    assert len(given.held_out) == 6
    assert not {row["task"] for row in written} & given.held_out.keys()
    texts = [row["text"] for row in written] + [
        path.read_text() for one in given.held_out.values() for path in one[:2]
    ]
    assert not any("test " in text or "train_full" in text for text in texts)
    splits = [
        {row["split"] for row in written if row["task"] == task} for task in {row["task"] for row in written}
    ]
    assert all(found == {"train", "valid", "test"} for found in splits)
    has_train = {row["task"] for row in rows if row["split"] == "train"}
    for row in written:
        if row["task"] in has_train:
            assert row["text"].startswith("valid") == (row["split"] == "test")
