"""The first sentences of a report and its advice, for every way in which a run can end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_facts import (
    make_facts,
    make_figures,
    make_scores,
    make_summary,
    make_verdict,
    real_verdict,
    without_rows,
)

from robusttc.formatting import command_line
from robusttc.report.document import describe_run, find_space
from robusttc.report.facts import RunFacts
from robusttc.report.harm_entries import find_harm
from robusttc.report.held_out import HeldOut
from robusttc.report.measure_next import advise_measuring
from robusttc.report.task_space import order_tasks
from robusttc.report.wording import command_place, list_names, say_name, say_points
from robusttc.run import AddedTask, Change
from robusttc.stats import Estimate

PARTITION = {f"task {number}": number % 2 for number in range(8)}


def headline(facts: RunFacts) -> str:
    """All sentences in one line."""
    return " ".join(describe_run(facts).values["headline"]["sentences"])


def commands(facts: RunFacts) -> list[str | None]:
    """The commands of the advice."""
    return [step["command"] for step in describe_run(facts).values["headline"]["next"]]


def with_cluster_verdict(**changes: Any) -> dict[str, Any]:
    """A summary whose verdict on the clusters says something else."""
    return make_summary(clusters__verdict={**real_verdict(), **changes})


def test_the_answer_comes_first() -> None:
    sentences = describe_run(make_facts(PARTITION)).values["headline"]["sentences"]
    assert sentences[0] == (
        "Sharing pays, but clusters do not: 60.0 % of the test rows are right, 50.0 % with each task's own "
        "model alone."
    )
    assert sentences[1] == "8 tasks with 80 rows fall into 2 clusters; the largest has 4 tasks."
    assert sentences[2].startswith(
        "With sharing, 60.0 % [60.0, 60.0] of the test rows are right (mean over 8 tasks"
    )
    assert "10.0 points [10.0, 10.0] more than each task's own model alone" in sentences[2]
    assert sentences[3].startswith(
        "Clusters do not pay here: 0.0 points [-1.0, 1.0] over one model of all tasks"
    )
    assert sentences[3].endswith("(0.0 points [-1.0, 1.0] over one model of all).")
    assert "harms none of 8 tasks" in sentences[5]


def test_the_first_sentence_says_whether_it_is_worth_it() -> None:
    for verdict, words in (
        (make_verdict(0.03, helps=True), "Sharing pays, and so do clusters: "),
        (make_verdict(0.002, helps=True), "Sharing pays, and clusters add a little: "),
        (make_verdict(0.0), "Sharing pays, but clusters do not: "),
        (make_verdict(0.0, n=0), "Sharing pays: "),
        (None, "Sharing pays: "),
    ):
        facts = make_facts(PARTITION, summary=make_summary(multitask__verdict=verdict))
        assert headline(facts).startswith(words)
    nobody = {name: without_rows(name, label) for name, label in PARTITION.items()}
    assert headline(make_facts(PARTITION, figures=nobody)).startswith("8 tasks with 80 rows")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (make_verdict(0.03, helps=True), "Clusters pay: 3.0 points [2.0, 4.0] over one model of all tasks"),
        (make_verdict(0.03), "Clusters do not pay more than chance"),
        (make_verdict(-0.03, random=False), "Clusters do harm here: -3.0 points [-4.0, -2.0]"),
        (make_verdict(0.0, n=4), "Whether clusters pay cannot be told from 4 tasks (6 are needed)"),
        (
            {**make_verdict(0.0, n=0), "over_random": None},
            "There is only one cluster, so clusters cannot pay",
        ),
        (None, "fall into 2 clusters"),
    ],
)
def test_whether_clusters_pay(verdict: dict[str, Any] | None, words: str) -> None:
    assert words in headline(make_facts(PARTITION, summary=make_summary(multitask__verdict=verdict)))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (
            {"own": 1.0, "shared": 0.5, "cluster": 0.7},
            "the model of each cluster serves, together with one model of",
        ),
        ({"own": 0.0, "shared": 1.0, "cluster": 0.0}, "; one model of all tasks serves."),
        ({"own": 1.0, "shared": 0.0, "cluster": 0.001}, "; each task's own model serves."),
    ],
)
def test_what_serves_is_said_by_its_weight(weights: dict[str, float], words: str) -> None:
    assert words in headline(make_facts(PARTITION, summary=make_summary(multitask__weights=weights)))


def test_sharing_that_does_nothing_or_harm_is_said_so() -> None:
    worse = {name: make_figures(name, label, own=30, served=18) for name, label in PARTITION.items()}
    said = headline(make_facts(PARTITION, figures=worse))
    assert "30.0 points [30.0, 30.0] fewer than each task's own model alone: sharing does harm here" in said
    assert "8 of 8 tasks are worse off" in said
    assert said.startswith("Sharing does harm here: 45.0 % of the test rows are right, 75.0 % with")
    mixed = {
        name: make_figures(name, label, own=20, served=20 + (-1) ** number)
        for number, (name, label) in enumerate(PARTITION.items())
    }
    said = headline(make_facts(PARTITION, figures=mixed))
    assert said.startswith(
        "Sharing does not clearly pay here: 50.0 % of the test rows are right, 50.0 % with"
    )
    assert "against 50.0 % with each task's own model alone: no clear difference" in said


def test_the_paper_strategy_was_not_tested() -> None:
    summary = make_summary(multitask__strategy="paper", multitask__verdict=None)
    assert "as in the paper; whether that pays was not tested" in headline(
        make_facts(PARTITION, summary=summary)
    )


def test_how_sure_the_clusters_are() -> None:
    for changes in ({}, {"supported": False, "sentence": "Groups do not predict unmeasured pairs."}):
        summary = with_cluster_verdict(**changes)
        assert summary["clusters"]["verdict"]["sentence"] in headline(make_facts(PARTITION, summary=summary))


def test_runs_without_clusters_or_test_rows() -> None:
    alone = make_facts({"only": -1}, has_clusters=False, figures={"only": without_rows("only")})
    assert headline(alone) == (
        "1 task with 10 rows, not clustered: it takes two tasks that may share. "
        "No task has test rows, so nobody can say how accurate the models are."
    )
    steps = describe_run(alone).values["headline"]["next"]
    assert any("1 task cannot be judged for want of test rows" in step["text"] for step in steps)
    partition = {"a": -1, "b": -1}
    private = headline(make_facts(partition, private=["a", "b"], has_clusters=False))
    assert "2 tasks are private: each learns alone" in private
    assert "nothing is shared between tasks" in private
    assert "harm" not in private
    failed = headline(make_facts({"a": -1, "b": -1}, has_clusters=False))
    assert "transfer between them could not be measured" in failed
    single = headline(make_facts({"a": 0, "b": 0, "c": -1, "d": -1}, private=["d"]))
    assert (
        "nothing that was measured tells 2 of them apart, so they are one cluster. 1 task fits no" in single
    )
    assert "1 task is private: it learns alone" in single
    assert "; the largest has 2 tasks, 1 has only one." in headline(make_facts({"a": 0, "b": 0, "c": 1}))


def test_what_was_left_out_is_named_with_what_to_do() -> None:
    unit = {"stage": "multitask", "tasks": [], "error": "killed", "key": "x"}
    facts = make_facts(
        {**PARTITION, "tiny": -1}, set_aside={"tiny": "one label"}, summary=make_summary(quarantined=[unit])
    )
    said = headline(facts)
    assert "1 task could not be learned: tiny." in said
    assert "1 piece of work failed and was left out." in said
    assert "robusttc inspect TASKS" in commands(facts)
    assert "robusttc fit TASKS --out '/runs/my run' --retry" in commands(facts)
    entries = {task["name"]: task for task in describe_run(facts).values["tasks"]}
    assert entries["tiny"]["why_not"] == "one label"
    assert entries["tiny"]["learned"] is False
    assert entries["task 0"]["why_not"] is None


def test_who_came_and_went_is_said() -> None:
    later = {**PARTITION, "new": 1, "odd": -1, "task 1": 0}
    del later["task 7"]
    added = {
        name: AddedTask(
            name,
            2,
            later[name],
            0.8,
            later[name] < 0,
            Estimate(0.05, 0.01, 0.09, 30),
            make_figures(name, 1),
            4,
            True,
        )
        for name in ("new", "odd")
    }
    history = (
        Change("add", ("new", "odd"), "Two came.", version=2, when=1_790_000_100.4),
        Change("remove", ("task 7",), "One went.", version=3, when=1_790_000_200.0),
    )
    second = {**PARTITION, "new": 1, "odd": -1}
    facts = make_facts(later, added=added, history=history, partitions={1: PARTITION, 2: second, 3: later})
    values = describe_run(facts).values
    assert values["headline"]["sentences"][-1] == (
        "Since the fit 2 tasks came later, 1 of them into no cluster and 1 task went; this is version 3."
    )
    assert values["run"]["version"] == 3
    assert [change["moved"] for change in values["history"]] == [
        [],
        [],
        [{"task": "task 1", "from": 1, "to": 0}],
    ]
    assert values["history"][1]["when"] == 1_790_000_100
    entries = {task["name"]: task for task in values["tasks"]}
    assert entries["task 1"]["moved"] == {"from": 1, "to": 0, "version": 3}
    assert entries["new"]["added"] == 2
    assert entries["new"]["expected_gain"]["mean"] == 0.05
    assert entries["odd"]["out_of_cluster"] is True
    assert "none fits" in entries["odd"]["why_not"]
    assert entries["new"]["accuracy"]["served"]["mean"] == pytest.approx(0.6)


def test_harmed_tasks_and_who_serves_them_badly() -> None:
    figures = {name: make_figures(name, label) for name, label in PARTITION.items()}
    figures["task 2"] = make_figures("task 2", 0, own=35, served=15)
    scores = make_scores(PARTITION)
    assert scores is not None
    matrix = scores.to_matrix()
    # Task 4 is a mate of task 2 and serves it far worse than it serves the others; task 1 is no mate.
    matrix[4, 2] -= 0.6
    matrix[1, 2] -= 0.3
    changed = type(scores).from_matrix(matrix, scores.task_names)
    facts = make_facts(PARTITION, figures=figures, scores=changed)
    harm = find_harm(facts, find_space(facts, order_tasks(PARTITION, {})))
    assert [task.task for task in harm.tasks] == ["task 2"]
    assert harm.tasks[0].evidence == "test rows"
    assert [name for name, _ in harm.tasks[0].culprits][:2] == ["task 4", "task 1"]
    assert all(effect < -0.5 for _, effect in harm.tasks[0].culprits)
    assert harm.n_judged == 8
    assert "1 of 8 tasks is worse off" in harm.sentence
    # If clusters serve, only the tasks of its own are to blame.
    summary = make_summary(multitask__clusters_serve=True)
    serving = make_facts(PARTITION, figures=figures, scores=changed, summary=summary)
    harm = find_harm(serving, find_space(serving, order_tasks(PARTITION, {})))
    assert [name for name, _ in harm.tasks[0].culprits] == ["task 4"]
    assert "robusttc explain '/runs/my run' --task 'task 2'" in commands(facts)
    assert "robusttc fit TASKS --out ANOTHER --private 'task 2'" in commands(facts)
    entry = next(task for task in describe_run(facts).values["tasks"] if task["name"] == "task 2")
    assert entry["harmed"] is True
    assert entry["culprits"][0] == "task 4"


def test_held_out_rows_speak_for_tasks_without_test_rows() -> None:
    figures = {name: without_rows(name, label) for name, label in PARTITION.items()}
    rows = np.zeros(60, dtype=np.int8)
    rows[:20] = -1
    facts = make_facts(PARTITION, figures=figures, held_out=HeldOut({"task 3": rows, "task 5": -rows}))
    harm = find_harm(facts, None)
    assert [(task.task, task.evidence) for task in harm.tasks] == [("task 3", "held-out training rows")]
    assert (harm.n_judged, harm.n_gaining) == (2, 1)
    assert harm.tasks[0].culprits == ()
    assert (
        "no task has test rows, or held-out rows"
        in find_harm(make_facts(PARTITION, figures=figures), None).sentence
    )


def test_few_harmed_tasks_among_many_may_be_chance() -> None:
    partition = {f"task {number:03}": number % 2 for number in range(120)}
    figures = {name: make_figures(name, label, own=20, served=20) for name, label in partition.items()}
    figures["task 007"] = make_figures("task 007", 1, own=35, served=15)
    facts = make_facts(partition, figures=figures, has_clusters=False)
    assert "about 3 would look so by chance alone" in find_harm(facts, None).sentence
    assert not any(command and "--private" in command for command in commands(facts))


def space_of(facts: RunFacts) -> Any:
    return find_space(facts, order_tasks(facts.partition, {}))


def test_what_to_measure_next() -> None:
    sparse = make_scores(PARTITION, density=0.3)
    assert sparse is not None
    facts = make_facts(PARTITION, scores=sparse, summary=with_cluster_verdict(supported=False))
    n_measured = len(sparse.pairs().first)
    assert 2 * n_measured <= 28
    found = advise_measuring(facts, space_of(facts))
    assert (found.n_more, found.n_scores) == (n_measured, 4 * n_measured)
    assert found.sentence.startswith(f"Measure about {n_measured:,} more pairs: {n_measured:,} of 28")
    assert f"robusttc fit TASKS --out ANOTHER --pairs {found.n_scores}" in commands(facts)
    most = make_scores(PARTITION, density=0.8)
    assert most is not None
    facts = make_facts(PARTITION, scores=most, summary=with_cluster_verdict(supported=False))
    found = advise_measuring(facts, space_of(facts))
    # No more than there are.
    assert (found.n_more, found.n_scores) == (28 - len(most.pairs().first), 56)
    sentence = "Measured 44 of 56 scores: more would hardly predict the rest better (21 % saved)."
    stopped = {"stopped_early": {"n_scores": 44, "n_planned": 56, "sentence": sentence}}
    summary = with_cluster_verdict(supported=False) | {"transfer": stopped}
    facts = make_facts(PARTITION, scores=most, summary=summary)
    found = advise_measuring(facts, space_of(facts))
    # To measure the rest was found not to help.
    assert found.sentence.startswith(f"{sentence} Scores with less chance in them would help")
    assert (found.n_more, found.n_scores) == (None, None)


def test_nothing_is_left_to_measure() -> None:
    few = make_scores(PARTITION, density=0.3)
    facts = make_facts(PARTITION, scores=few, summary=with_cluster_verdict(supported=True))
    space = space_of(facts)
    found = advise_measuring(facts, space)
    assert found.sentence.startswith("Nothing more needs to be measured")
    partners = np.diff(space.verdicts.indptr)
    assert set(found.tasks) == {name for name, n in zip(space.names, partners, strict=True) if n < 2}
    doubtful = with_cluster_verdict(supported=False)
    doubtful["multitask"]["clusters_serve"] = True
    confidence = dict.fromkeys(PARTITION, 0.9) | {"task 1": 0.4}
    facts = make_facts(PARTITION, summary=doubtful, confidence=confidence)
    found = advise_measuring(facts, space_of(facts))
    assert found.sentence.startswith("All 28 pairs are measured already.")
    assert found.sentence.endswith(" task 1 has no clear place.")
    assert found.tasks[0] == "task 1"
    steps = describe_run(facts).values["headline"]["next"]
    assert any("do not confirm them. All 28" in step["text"] for step in steps)
    assert "it takes two" in advise_measuring(make_facts({"a": -1}, has_clusters=False), None).sentence


def test_the_most_interesting_task_is_named() -> None:
    figures = {name: make_figures(name, label, own=20, served=20) for name, label in PARTITION.items()}
    confidence = dict.fromkeys(PARTITION, 0.9) | {"task 3": 0.4}
    facts = make_facts(PARTITION, figures=figures, confidence=confidence)
    assert "robusttc explain '/runs/my run' --task 'task 3'" in commands(facts)
    figures["task 5"] = make_figures("task 5", 1, own=10, served=30)
    assert "robusttc explain '/runs/my run' --task 'task 5'" in commands(
        make_facts(PARTITION, figures=figures)
    )
    lost = {**PARTITION, "task 6": -1}
    figures = {name: make_figures(name, label, own=20, served=20) for name, label in lost.items()}
    assert "robusttc explain '/runs/my run' --task 'task 6'" in commands(make_facts(lost, figures=figures))


@pytest.mark.parametrize("name", ["plain", "two words", "-dash", "it's", 'a "b" $(rm) `x`', "a\nb", "é 😀"])
def test_commands_survive_the_shell(name: str) -> None:
    words = shlex.split(command_line("explain", Path("run"), ("--task", name)))
    assert (words[3].partition("=")[2] if name.startswith("-") else words[4]) == name
    assert say_name(name).isprintable()


def test_words_for_numbers_and_names(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert say_points(Estimate(-0.0001, -0.0002, 0.0, 9)) == "0.0 points [0.0, 0.0]"
    assert list_names(["x" * 80]) == "x" * 39 + "…"
    monkeypatch.chdir(tmp_path)
    assert command_place(tmp_path / "run") == Path("run")
    assert command_place(tmp_path.parent / "other run") == tmp_path.parent / "other run"
