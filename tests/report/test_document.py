"""What a report says, for every way in which a run can end; its form is that of docs/report.md."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_runs import (
    make_added,
    make_change,
    make_figures,
    make_large_run,
    make_run,
    make_scores,
    make_summary,
    make_verdict,
    real_verdict,
    without_rows,
)

from robusttc.report import ReportDocument, make_document, make_page, write_csv
from robusttc.stats import Estimate, share_interval
from robusttc.transfer import measure_transfer

sys.path.append(str(Path(__file__).parents[1] / "multitask"))
from page_reader import PageReader
from planted_vectors import make_planted_vectors

PARTITION = {f"task {number}": number % 2 for number in range(8)}
PARTS = (
    "format version title made robusttc run headline tasks clusters means verdicts negative_transfer trust "
    "blocks history adapted quarantined doubts costs configuration versions"
)
OF_TASK = (
    "name cluster confidence private learned added out_of_cluster why_not n_train n_valid n_test n_labels "
    "accuracy macro_f1 gain novel seen confusion harmed sources nearest moved expected_gain"
)
OF_CLUSTER = "number name size tasks words labels accuracy gain within between confidence representatives"


def check_document(document: ReportDocument) -> None:
    """Refuse a document that is not of the form that docs/report.md describes."""
    values = document.values
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values.keys() == set(PARTS.split())
    assert all(isinstance(sentence, str) and sentence for sentence in values["headline"]["sentences"])
    assert all(step.keys() == {"text", "command"} and step["text"] for step in values["headline"]["next"])
    assert len(values["tasks"]) == values["run"]["n_tasks"]
    names = [task["name"] for task in values["tasks"]]
    for task in values["tasks"]:
        assert task.keys() == set(OF_TASK.split())
        assert {name for name, _ in task["nearest"]} <= set(names) - {task["name"]}
        assert all(similarity >= 0.005 for _, similarity in task["nearest"])
        assert set(task["sources"]) <= set(names)
        assert task["cluster"] is not None or task["why_not"]
    in_clusters = []
    for cluster in values["clusters"]:
        assert cluster.keys() == set(OF_CLUSTER.split())
        assert cluster["size"] == len(cluster["tasks"]) > 0
        assert all(values["tasks"][place]["cluster"] == cluster["number"] for place in cluster["tasks"])
        assert set(cluster["representatives"]) <= {names[place] for place in cluster["tasks"]}
        in_clusters += cluster["tasks"]
    assert sorted(in_clusters) == [n for n, task in enumerate(values["tasks"]) if task["cluster"] is not None]
    harmed = {task["task"] for task in values["negative_transfer"]["tasks"]}
    assert harmed == {task["name"] for task in values["tasks"] if task["harmed"]}
    said = " ".join(values["headline"]["sentences"])
    assert not ("not clustered" in said and ("one cluster" in said or "Clusters " in said)), said
    rows = list(csv.DictReader(io.StringIO(write_csv(document))))
    assert [row["task"] for row in rows] == names


@st.composite
def any_run(draw: Any) -> Any:
    """Any run: few tasks or one, private ones, set aside, added, moved; with clusters or without."""
    names = draw(
        st.lists(
            st.text(
                st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12
            ).filter(str.strip),
            min_size=1,
            max_size=9,
            unique=True,
        )
    )
    roles = ["plain", "plain", "plain", "private", "aside", "added"]
    role = {name: draw(st.sampled_from(roles)) for name in names}
    partition = {name: draw(st.integers(-1, 3)) if role[name] in ("plain", "added") else -1 for name in names}
    fitted = {name: label for name, label in partition.items() if role[name] == "plain"}
    scores = make_scores(fitted, density=draw(st.sampled_from([0.0, 0.4, 1.0])), one_way=draw(st.booleans()))
    has_clusters = scores is not None and draw(st.booleans())
    if not has_clusters:
        partition = dict.fromkeys(partition, -1)
    figures = {}
    for name, label in partition.items():
        n_rows = draw(st.integers(0, 6))
        right = [draw(st.integers(0, n_rows)) for _ in range(2)]
        if n_rows:
            part = {"served": share_interval(right[0], n_rows)} if draw(st.booleans()) else {}
            figures[name] = make_figures(
                name, label, own=right[0], served=right[1], n_rows=n_rows, novel=part
            )
        else:
            gain = draw(
                st.sampled_from([None, Estimate(-0.2, -0.3, -0.1, 9), Estimate(0.1, -math.inf, math.inf, 1)])
            )
            figures[name] = without_rows(name, label, gain)
    numbers = [key for key, value in real_verdict().items() if isinstance(value, float)]
    unknown = {key: None for key in numbers if draw(st.booleans())}
    added = {name: make_added(partition[name]) for name in names if role[name] == "added"}
    return make_run(
        partition,
        private=[name for name in names if role[name] == "private"],
        set_aside={name: "It cannot be." for name in names if role[name] == "aside"},
        added=added,
        figures=figures,
        scores=scores,
        has_clusters=has_clusters,
        history=[make_change(2, "add", list(added), "They came.")] if added else [],
        partitions={1: {name: 0 for name in names if name not in added}, 2: partition},
        summary=make_summary(
            clusters__verdict={**real_verdict(), **unknown, "supported": draw(st.booleans())},
            multitask__strategy=draw(st.sampled_from(["blend", "paper"])),
            multitask__verdict=draw(st.sampled_from([None, make_verdict(0.0), make_verdict(0.0, n=0)])),
            multitask__clusters_serve=draw(st.booleans()),
            fewshot=draw(st.sampled_from([None, {"verdict": make_verdict(0.1, helps=True)}])),
        ),
        confidence={name: draw(st.floats(0, 1)) for name in names if partition[name] >= 0},
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_run())
def test_any_run_has_a_whole_document_and_a_page(run: Any) -> None:
    document = make_document(run)
    check_document(document)
    page = make_page(document).decode()
    assert PageReader(page).open == []
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [task["name"] for task in data["tasks"]] == [task["name"] for task in document.values["tasks"]]
    assert (data["matrix"] is None) == (document.matrices is None)


def values_of(*arguments: Any, **options: Any) -> dict[str, Any]:
    return make_document(make_run(*arguments, **options)).values


def headline(*arguments: Any, **options: Any) -> str:
    """All sentences in one line."""
    return " ".join(values_of(*arguments, **options)["headline"]["sentences"])


def commands(values: dict[str, Any]) -> list[str | None]:
    return [step["command"] for step in values["headline"]["next"]]


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (make_verdict(0.03, helps=True), "Sharing pays, and so do clusters: "),
        (make_verdict(0.002, helps=True), "Sharing pays, and clusters add a little: "),
        (make_verdict(0.0), "Sharing pays, but clusters do not: "),
        (None, "Sharing pays: "),
    ],
)
def test_the_first_sentence_says_whether_it_is_worth_it(verdict: dict[str, Any] | None, words: str) -> None:
    said = headline(PARTITION, summary=make_summary(multitask__verdict=verdict))
    assert said.startswith(
        words + "60.0 % of the test rows are right, 50.0 % with each task's own model alone."
    )
    assert "8 tasks with 80 rows fall into 2 clusters; the largest has 4 tasks." in said
    assert (
        "(mean over 8 tasks, 95 % interval in brackets), +10.0 points [+10.0, +10.0] over each task's own"
        in said
    )


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (
            make_verdict(0.03, helps=True),
            "Clusters pay: +3.0 points [+2.0, +4.0] over one model of all tasks",
        ),
        (make_verdict(0.03), "Clusters do not pay more than chance"),
        (make_verdict(-0.03, random=False), "Clusters do harm here: -3.0 points [-4.0, -2.0]"),
        (make_verdict(0.0, n=4), "Whether clusters pay cannot be told from 4 tasks (6 are needed)"),
        (
            {**make_verdict(0.0, n=0), "over_random": None},
            "No cluster has a model of its own, so clusters cannot",
        ),
        (None, "fall into 2 clusters"),
    ],
)
def test_whether_clusters_pay(verdict: dict[str, Any] | None, words: str) -> None:
    assert words in headline(PARTITION, summary=make_summary(multitask__verdict=verdict))


def test_what_serves_is_told_by_its_weight_and_the_paper_was_not_tested() -> None:
    weights = {"own": 1.0, "shared": 0.0, "cluster": 0.001}
    assert "; each task's own model serves." in headline(
        PARTITION, summary=make_summary(multitask__weights=weights)
    )
    summary = make_summary(multitask__strategy="paper", multitask__verdict=None)
    assert "as in the paper; whether that pays was not tested" in headline(PARTITION, summary=summary)


def test_sharing_that_does_nothing_or_harm_is_called_so() -> None:
    worse = {name: make_figures(name, label, own=30, served=18) for name, label in PARTITION.items()}
    said = headline(PARTITION, figures=worse)
    assert said.startswith("Sharing does harm here: 45.0 % of the test rows are right, 75.0 % with")
    assert "-30.0 points [-30.0, -30.0] over each task's own model alone: sharing does harm here" in said
    assert "8 of 8 tasks are worse off" in said
    mixed = {
        name: make_figures(name, label, own=20, served=20 + (-1) ** number)
        for number, (name, label) in enumerate(PARTITION.items())
    }
    said = headline(PARTITION, figures=mixed)
    assert said.startswith("Sharing does not clearly pay here: 50.0 %")
    assert "against 50.0 % with each task's own model alone: no clear difference" in said


def test_novel_texts_are_told_apart_from_those_seen_elsewhere() -> None:
    part = {"own": share_interval(5, 10), "shared": share_interval(5, 10), "cluster": share_interval(5, 10)}
    novel, seen = {**part, "served": share_interval(6, 10)}, {**part, "served": share_interval(9, 10)}
    figures = {
        name: make_figures(name, label, novel=novel, seen=seen, macro_f1={"own": 0.4, "served": 0.5})
        for name, label in PARTITION.items()
    }
    values = values_of(PARTITION, figures=figures)
    assert "On texts that no other task learned from, 60.0 % are right, +10.0 points" in " ".join(
        values["headline"]["sentences"]
    )
    assert values["means"]["seen"]["gain"]["mean"] == pytest.approx(0.4)
    assert values["tasks"][0]["macro_f1"]["served"] == 0.5


def test_runs_without_clusters_or_test_rows_do_not_contradict_themselves() -> None:
    alone = {"only": without_rows("only")}
    assert headline({"only": -1}, has_clusters=False, figures=alone) == (
        "1 task with 10 rows, not clustered: it takes two tasks that may share. "
        "No task has test rows, so nobody can say how accurate the models are."
    )
    steps = values_of({"only": -1}, has_clusters=False, figures=alone)["headline"]["next"]
    assert any("1 task cannot be judged for want of test rows" in step["text"] for step in steps)
    private = headline({"a": -1, "b": -1}, private=["a", "b"], has_clusters=False)
    assert "2 tasks are private: each learns alone" in private
    assert "transfer between them could not be measured" in headline({"a": -1, "b": -1}, has_clusters=False)
    # Clustered, but nothing belongs anywhere: no word of what clusters are worth.
    only_one = make_summary(multitask__verdict={**make_verdict(0.0, n=0), "over_random": None})
    nowhere = headline(dict.fromkeys("abcd", -1), summary=only_one)
    assert "not clustered: what was measured does not say who belongs together." in nowhere
    assert "There is only one cluster" not in nowhere
    single = headline({"a": 0, "b": 0, "c": -1, "d": -1}, private=["d"], summary=only_one)
    assert (
        "nothing that was measured tells 2 of them apart, so they are one cluster. 1 task fits no" in single
    )
    assert "There is only one cluster, so clusters cannot pay" in single
    assert "; the largest has 2 tasks, 1 has only one." in headline({"a": 0, "b": 0, "c": 1})


def test_what_was_left_out_is_named_with_what_to_do() -> None:
    unit = {"stage": "multitask", "tasks": [], "error": "killed", "key": "x"}
    values = values_of(
        {**PARTITION, "tiny": -1}, set_aside={"tiny": "one label"}, summary=make_summary(quarantined=[unit])
    )
    said = " ".join(values["headline"]["sentences"])
    assert "1 task could not be learned: tiny. 1 job failed and was left out." in said
    assert "robusttc inspect TASKS" in commands(values)
    assert "robusttc fit TASKS --out '/runs/my run' --retry" in commands(values)
    tiny = next(task for task in values["tasks"] if task["name"] == "tiny")
    assert (tiny["why_not"], tiny["learned"]) == ("one label", False)


def test_who_came_and_went_and_moved() -> None:
    later = {**PARTITION, "new": 1, "odd": -1, "task 1": 0}
    del later["task 7"]
    added = {
        name: make_added(later[name], expected_gain=Estimate(0.05, 0.01, 0.09, 30)) for name in ("new", "odd")
    }
    history = [
        make_change(2, "add", ("new", "odd"), "Two came."),
        make_change(3, "remove", ("task 7",), "One went."),
    ]
    second = {**PARTITION, "new": 1, "odd": -1}
    document = make_document(
        make_run(later, added=added, history=history, partitions={1: PARTITION, 2: second, 3: later})
    )
    values = document.values
    assert values["headline"]["sentences"][-1] == (
        "Since the fit 2 tasks came later, 1 of them into no cluster and 1 task went; this is version 3."
    )
    assert values["run"]["version"] == 3
    assert [change["moved"] for change in values["history"]] == [
        [],
        [],
        [{"task": "task 1", "from": 1, "to": 0}],
    ]
    tasks = {task["name"]: task for task in values["tasks"]}
    assert tasks["task 1"]["moved"] == {"from": 1, "to": 0, "version": 3}
    assert (tasks["new"]["added"], tasks["new"]["expected_gain"]["mean"]) == (2, 0.05)
    assert "none fits" in tasks["odd"]["why_not"]
    # An added task stands where its cluster is; one that fits none has no neighbours.
    assert [similarity for _, similarity in tasks["new"]["nearest"]] == [pytest.approx(1.0)] * 2
    assert tasks["odd"]["nearest"] == []


def test_harmed_tasks_and_who_serves_them_badly() -> None:
    figures = {"task 2": make_figures("task 2", 0, own=35, served=15)}
    scores = make_scores(PARTITION)
    assert scores is not None
    matrix = scores.to_matrix()
    # Task 4 is a mate of task 2 and serves it far worse than it serves the others; task 1 is no mate.
    matrix[4, 2] -= 0.6
    matrix[1, 2] -= 0.3
    changed = type(scores).from_matrix(matrix, scores.task_names)
    values = values_of(PARTITION, figures=figures, scores=changed)
    harm = values["negative_transfer"]
    assert "1 of 8 tasks is worse off" in harm["sentence"]
    assert [(one["task"], one["evidence"]) for one in harm["tasks"]] == [("task 2", "test rows")]
    assert [source["task"] for source in harm["tasks"][0]["sources"]][:2] == ["task 4", "task 1"]
    assert all(source["effect"] < -0.5 for source in harm["tasks"][0]["sources"])
    assert "robusttc explain '/runs/my run' --task 'task 2'" in commands(values)
    assert "robusttc fit TASKS --out ANOTHER --private 'task 2'" in commands(values)
    # If clusters serve, only the tasks of its own can be the cause.
    summary = make_summary(multitask__clusters_serve=True)
    values = values_of(PARTITION, figures=figures, scores=changed, summary=summary)
    assert [one["task"] for one in values["negative_transfer"]["tasks"][0]["sources"]] == ["task 4"]


def test_held_out_rows_speak_for_tasks_without_test_rows() -> None:
    figures = {name: without_rows(name, label) for name, label in PARTITION.items()}
    assert (
        "no task has test rows, or held-out"
        in values_of(PARTITION, figures=figures)["negative_transfer"]["sentence"]
    )
    figures["task 3"] = without_rows("task 3", 1, Estimate(-0.3, -0.5, -0.1, 60))
    figures["task 5"] = without_rows("task 5", 1, Estimate(0.3, 0.1, 0.5, 60))
    harm = values_of(PARTITION, figures=figures)["negative_transfer"]
    assert [(one["task"], one["evidence"]) for one in harm["tasks"]] == [("task 3", "held-out training rows")]
    assert (harm["n_judged"], harm["n_gaining"]) == (2, 1)


def test_few_harmed_tasks_among_many_may_be_chance() -> None:
    partition = {f"task {number:03}": number % 2 for number in range(120)}
    figures = {"task 007": make_figures("task 007", 1, own=35, served=15)}
    values = values_of(partition, figures=figures, has_clusters=False)
    assert "about 3 would look so by chance alone" in values["negative_transfer"]["sentence"]
    assert not any(command and "--private" in command for command in commands(values))


@pytest.mark.parametrize("seed", range(3))
def test_only_tasks_of_another_kind_are_named_as_sources(seed: int) -> None:
    # Clusters that are wrong: two kinds in each.
    planted = make_planted_vectors(12, 4, seed=seed, n_train=36)
    kind_of = dict(zip(planted.tasks.names, planted.kinds.tolist(), strict=True))
    partition = {name: kind // 2 for name, kind in kind_of.items()}
    scores = measure_transfer(planted.tasks, encoder=planted.encoder, pairs="all", random_state=0)
    figures = {name: make_figures(name, label, own=35, served=15) for name, label in partition.items()}
    harm = values_of(partition, scores=scores, figures=figures)["negative_transfer"]
    assert len(harm["tasks"]) == 12
    found = [(task["task"], source["task"]) for task in harm["tasks"] for source in task["sources"]]
    assert len(found) > 12
    # By chance two of eleven would be of the same kind.
    assert np.mean([kind_of[task] == kind_of[source] for task, source in found]) < 0.05


def doubtful(**changes: Any) -> dict[str, Any]:
    return make_summary(clusters__verdict={**real_verdict(), "supported": False}, **changes)


def test_what_to_measure_next() -> None:
    sparse = make_scores(PARTITION, density=0.3)
    assert sparse is not None
    values = values_of(PARTITION, scores=sparse, summary=doubtful())
    found, n_measured = values["trust"]["measure_next"], len(sparse.pairs().first)
    assert (found["n_more"], found["n_scores"]) == (n_measured, 4 * n_measured)
    assert found["sentence"].startswith(f"Measure about {n_measured:,} more pairs: {n_measured:,} of 28")
    assert f"robusttc fit TASKS --out ANOTHER --pairs {found['n_scores']}" in commands(values)
    # What was found not to help is not advised.
    stopped = {"stopped_early": {"sentence": "More would hardly predict the rest better."}}
    found = values_of(PARTITION, scores=sparse, summary=doubtful(transfer=stopped))["trust"]["measure_next"]
    assert found["sentence"].startswith("More would hardly predict the rest better. Scores with less chance")
    assert found["n_more"] is None
    whole = values_of(PARTITION, summary=doubtful(multitask__clusters_serve=True))
    assert whole["trust"]["measure_next"]["sentence"].startswith("All 28 pairs are measured already.")
    assert any("held-out pairs do not confirm them" in step["text"] for step in whole["headline"]["next"])
    unclear = {**dict.fromkeys(PARTITION, 0.9), "task 5": 0.3}
    found = values_of(PARTITION, confidence=unclear)["trust"]["measure_next"]
    assert found["sentence"] == (
        "Nothing more needs to be measured: held-out pairs confirm the clusters. task 5 has no clear place."
    )
    assert found["tasks"] == ["task 5"]


@pytest.mark.parametrize("seed", range(3))
def test_matrices_are_those_of_the_run_in_another_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    partition = {f"task {n:02}": int(label) for n, label in enumerate(random.integers(-1, 3, 24))}
    run = make_run(
        {**partition, "secret": -1}, private=["secret"], scores=make_scores(partition, density=0.6, seed=seed)
    )
    document = make_document(run)
    layers, scores, similarity = document.matrices, run.scores, run.similarity
    assert layers is not None
    assert "secret" not in layers.names
    place = [scores.task_names.index(name) for name in layers.names]
    raw = scores.to_matrix()[np.ix_(place, place)]
    found = np.full(raw.shape, np.nan)
    found[layers.raw.tocoo().coords] = layers.raw.data
    np.testing.assert_array_equal(found, raw)
    # Every measured score has a standardised one.
    assert (layers.measured.indices == layers.raw.indices).all()
    posterior = similarity.same_group.toarray()[np.ix_(place, place)]
    entries = layers.verdicts.tocoo()
    np.testing.assert_allclose(entries.data, 2 * posterior[entries.coords] - 1)
    X = (similarity.points @ similarity.points.T)[np.ix_(place, place)]
    np.testing.assert_allclose(layers.similarity(), X, atol=1e-12)
    assert layers.labels.tolist() == sorted(layers.labels.tolist(), key=lambda label: (label < 0, label))
    assert [int(layers.labels[at]) for at in layers.boundaries] == [0, 1, 2, -1]
    check_blocks(document.values["blocks"], layers, X)
    check_nearest(document.values["tasks"], layers, X)


def check_blocks(blocks: dict[str, Any], layers: Any, X: Any) -> None:
    """Means over blocks are those of a plain loop over pairs."""
    measured, verdicts = layers.measured.tocoo(), layers.verdicts.toarray()
    for row, first in enumerate(blocks["clusters"]):
        for column, second in enumerate(blocks["clusters"]):
            inside = [np.flatnonzero(layers.labels == number) for number in (first, second)]
            pairs = {(i, j) for i in inside[0] for j in inside[1] if i != j}
            assert blocks["completed"][row][column] == pytest.approx(
                np.mean([X[pair] for pair in pairs]), abs=1e-6
            )
            entries = zip(measured.row, measured.col, measured.data, strict=True)
            values = [value for i, j, value in entries if (i, j) in pairs]
            assert blocks["observed"][row][column] == len(values)
            assert blocks["measured"][row][column] == pytest.approx(np.mean(values), abs=1e-6)
            half = 2 if first == second else 1
            assert blocks["similar"][row][column] == sum(verdicts[pair] > 0 for pair in pairs) / half


def check_nearest(tasks: list[dict[str, Any]], layers: Any, X: Any) -> None:
    """The nearest tasks are those of a plain sort: by similarity, then by what was measured."""
    measured = np.full(X.shape, np.nan)
    measured[layers.measured.tocoo().coords] = layers.measured.data
    found = {task["name"]: task["nearest"] for task in tasks}
    for place, name in enumerate(layers.names):

        def rank(other: int, place: int = place) -> tuple[float, float]:
            known = [
                value for value in (measured[place, other], measured[other, place]) if np.isfinite(value)
            ]
            return -round(float(X[place, other]), 3), -float(np.clip(np.mean(known), -4, 4)) if known else 0.0

        others = sorted(
            (other for other in range(len(X)) if other != place and X[place, other] >= 0.005), key=rank
        )
        assert [other for other, _ in found[name]] == [layers.names[other] for other in others[:5]]


def test_clusters_are_described_by_their_own_tasks() -> None:
    # Cluster 1 is gone: its last task was removed.
    partition = {"a": 0, "b": 0, "c": 2, "d": 2, "alone": 5}
    confidence = {"a": 0.5, "b": 0.7, "c": 1.0, "d": 0.8, "alone": 0.2}
    values = values_of(partition, confidence=confidence)
    first, second, last = values["clusters"]
    assert [first["number"], second["number"], last["number"]] == [0, 2, 5]
    assert [values["tasks"][place]["name"] for place in first["tasks"]] == ["b", "a"]
    assert first["confidence"] == pytest.approx(0.6)
    assert (first["within"], first["between"]) == (pytest.approx(1.0), pytest.approx(0.0))
    assert (last["within"], last["size"]) == (None, 1)
    assert set(second["representatives"]) == {"c", "d"}
    assert first["gain"]["mean"] == pytest.approx(0.1)
    assert values["blocks"]["clusters"] == [0, 2, 5]


def test_a_title_is_given_or_tells_what_the_run_is_of() -> None:
    run = make_run(PARTITION, folder=Path("/data/acme bots/run"))
    assert make_document(run).values["title"].startswith("acme bots, 2")
    assert make_document(run, title="All our bots").values["title"] == "All our bots"
    assert (
        make_document(make_run(PARTITION, folder=Path("/run"))).values["title"].startswith("Task clusters, ")
    )


def test_the_table_of_tasks_as_csv() -> None:
    document = make_document(make_large_run(40))
    rows = list(csv.DictReader(io.StringIO(write_csv(document))))
    for row, task in zip(rows, document.values["tasks"], strict=True):
        assert row["task"] == task["name"]
        assert row["cluster"] == ("" if task["cluster"] is None else str(task["cluster"]))
        served = task["accuracy"]["served"]
        assert row["served"] == ("" if served is None else f"{served['mean']:.4f}")
        assert row["harmed"] == ("yes" if task["harmed"] else "no")
        assert int(row["novel_rows"]) == (task["novel"]["served"]["n"] if task["novel"] else 0)
