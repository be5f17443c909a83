"""The parts of an explanation, each by hand: pairs, cluster, neighbours, sharing, weak labels, the page."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from robusttc.cli.console import print_examples
from robusttc.cli.explain import best_first, show_explanation
from robusttc.clustering import RobustTaskClustering, make_planted_scores
from robusttc.data import Task
from robusttc.encoders import DenseInputs
from robusttc.multitask import HeldOutRows, MultiTaskSettings
from robusttc.run.explain import Explanation, LabelConflict, LabelMatch, measured_pairs
from robusttc.run.explain.cross_predictions import LabelComparison
from robusttc.run.explain.explain import as_json
from robusttc.run.explain.place import (
    Nearest,
    NearTask,
    explain_cluster,
    find_nearest,
    similarity_to_others,
)
from robusttc.run.explain.sharing import HarmfulSource, explain_sharing
from robusttc.run.explain.weak_labels import HeldOutPredictions, find_weak_labels, predict_held_out
from robusttc.run.outputs import similarity_of
from robusttc.stats import Estimate, share_interval
from robusttc.transfer import TransferScores

PLAIN = {"supported": True}


def relation(kind: str, label: str, other: str = "x", share: int = 10) -> LabelMatch:
    estimate = share_interval(share, 10)
    values: Any = (kind, label, "b", other, estimate, estimate, 0.0, 0.0, 0.01, 0, False)
    return LabelMatch(*values)


@pytest.mark.parametrize("seed", range(3))
def test_pairs_and_matrices_speak_for_planted_clusters(seed: int) -> None:
    names = [f"task {number:02d}" for number in range(24)]
    clusters = np.arange(24) % 2
    scores = make_planted_scores(names, clusters, random_state=seed)
    groups = RobustTaskClustering(2, random_state=seed).fit(scores)
    similarity = similarity_of(groups)
    partition = dict(zip(names, groups.labels_.tolist(), strict=True))
    pairs = measured_pairs("task 03", scores, partition, similarity=similarity)
    assert len(pairs) == 23
    sides = [pair.speaks for pair in pairs]
    assert sides == sorted(sides, key=["for", "against", "nothing"].index)
    assert sides.count("for") > 3 * sides.count("against")
    place = similarity.task_names.index("task 03")
    for pair in pairs:
        other = similarity.task_names.index(pair.other)
        assert pair.same_group == pytest.approx(similarity.same_group[place, other])
        clear = pair.same_group is not None and not 1 / 3 <= pair.same_group <= 2 / 3
        assert clear == (pair.verdict != "uncertain")
        assert pair.outlier == pytest.approx(similarity.outliers[place, other])
    to_others = similarity_to_others("task 03", similarity)
    reasons = explain_cluster("task 03", partition, confidence=0.9, supported=False, pairs=pairs)
    assert (reasons.size, reasons.n_mates_measured, reasons.next_number) == (12, 11, 1 - reasons.number)
    assert reasons.within is not None
    assert reasons.next_best is not None
    assert reasons.within.low > reasons.next_best.high
    assert "90% sure if the clusters are real, which held-out pairs do not confirm" in reasons.sentence
    assert "measured with 11 of them" in reasons.sentence
    nearest = find_nearest(pairs, to_others, partition)
    assert {near.cluster for near in nearest.by_similarity} == {reasons.number}
    json.dumps(as_json([reasons, nearest]), allow_nan=False)


def test_what_was_not_measured_is_not_there() -> None:
    assert measured_pairs("a", None, {}) == ()
    scores = TransferScores(["a", "b", "c"], source=[0], target=[1], score=[0.5])
    (pair,) = measured_pairs("a", scores, {"a": 0, "b": 0})
    assert pair.to_task is None
    assert pair.from_task is not None
    assert (pair.from_task.low, pair.from_task.n_examples, pair.outlier) == (None, None, None)
    assert pair.verdict == "uncertain"
    assert measured_pairs("nobody", scores, {}) == ()
    reasons = explain_cluster("a", {"a": 0, "b": 0}, confidence=None, pairs=(pair,), **PLAIN)
    assert reasons.sentence == (
        "It is in cluster 0 with 1 other task. It was measured with 1 of them; 0 help it more than the "
        "average task does. Of 1 measured pair 0 speak for its place and 0 against it; the others say "
        "neither."
    )
    (other,) = measured_pairs("b", scores, {"a": 1, "b": 0, "c": 0})
    reasons = explain_cluster("b", {"a": 1, "b": 0, "c": 0}, confidence=1.0, pairs=(other,), **PLAIN)
    assert "over 99% sure. It was measured with none of them." in reasons.sentence
    reasons = explain_cluster("b", {"a": -1, "b": 0}, confidence=0.5, supported=True, pairs=(other,))
    assert reasons.next_number is None
    reasons = explain_cluster("b", {"a": 1}, confidence=0.0, pairs=(other,), **PLAIN)
    assert reasons.sentence.startswith("It is in no cluster. Of 1 measured pair")
    assert explain_cluster("b", {"b": 3}, confidence=1.0, pairs=(), **PLAIN).sentence.startswith(
        "It is in cluster 3 alone"
    )


@pytest.mark.parametrize(
    ("gain", "shares", "words"),
    [
        (Estimate(0.1, 0.05, 0.2, 30), True, "Sharing helps it: +10.0 points [+5.0, +20.0] on 30 test rows."),
        (Estimate(-0.1, -0.2, 0.2, 30), True, "Whether sharing helps it cannot be told: -10.0 points"),
        (Estimate(0.0, -np.inf, np.inf, 1), True, "No row tells what sharing gave it."),
        (Estimate(-0.1, -0.2, -0.1, 30), False, "Its own model alone serves it"),
    ],
)
def test_sharing_in_words(gain: Estimate, shares: bool, words: str) -> None:
    half = share_interval(5, 10)
    figures = {"own": half, "shared": half, "served": half, "gain": gain}
    assert explain_sharing({"all": figures}, {}, shares=shares).sentence.startswith(words)


def test_an_added_task_that_does_not_share_says_what_it_forgoes() -> None:
    sharing = explain_sharing({}, {}, shares=False, expected_gain=Estimate(-0.02, -0.1, 0.04, 40))
    assert sharing.sentence == (
        "Its own model alone serves it: sharing would have given -2.0 points [-10.0, +4.0] on 40 held-out "
        "training rows."
    )
    assert not sharing.is_doubtful


def test_held_out_rows_are_those_of_the_training_or_of_own_models() -> None:
    texts, labels = [f"t{row}" for row in range(8)], ["x", "y"] * 4
    task = Task("a", texts, labels, ["train"] * 4 + ["valid"] * 4)
    inputs = DenseInputs(np.eye(2, dtype=np.float32)[np.arange(8) % 2])
    options: dict[str, Any] = {"seed": 0, "settings": MultiTaskSettings()}
    # An encoder that has seen the rows in train: those in valid are left.
    found = predict_held_out(task, inputs, None, n_folds=None, **options)
    assert found.rows.tolist() == found.predicted_rows.tolist() == [4, 5, 6, 7]
    assert found.predicted.tolist() == [0, 1, 0, 1]
    assert found.right.all()
    folded = predict_held_out(task, inputs, None, n_folds=2, **options)
    assert folded.rows.tolist() == list(range(8))
    kept = HeldOutRows(np.array([3, 1]), {"served": np.array([False, True])})
    found = predict_held_out(task, inputs, kept, n_folds=2, **options)
    assert found.rows.tolist() == [3, 1]
    assert found.right.tolist() == [False, True]
    assert found.predicted_rows.tolist() == list(range(8))
    # No label has two rows: there is nothing to hold out.
    single = Task("a", ["t1", "t2"], ["x", "y"])
    assert len(predict_held_out(single, inputs.take([0, 1]), None, n_folds=2, **options).rows) == 0


@pytest.mark.parametrize("seed", range(5))
def test_weak_labels_are_those_that_lose_most(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.permutation(["often"] * 40 + ["rare"] * 8 + ["good"] * 40).tolist()
    task = Task("a", [f"text {row}" for row in range(88)], labels, ["train", "valid"] * 44)
    chance = np.array([{"often": 0.4, "rare": 0.9, "good": 0.0}[label] for label in labels])
    wrong = generator.random(88) < chance
    codes = task.label_codes.astype(np.int64)
    predicted = np.where(wrong, (codes + 1) % 3, codes)
    rows = np.arange(88)
    found = find_weak_labels(task, HeldOutPredictions(rows, ~wrong, rows, predicted))
    assert [one.label for one in found] == ["often", "rare", "good"]
    for one in found:
        own = np.array(labels) == one.label
        assert one.recall == share_interval(int((own & ~wrong).sum()), int(own.sum()))
        assert set(one.missed) <= {f"text {row}" for row in np.flatnonzero(own & wrong)}
        assert one.n_confused == int((own & wrong).sum())
        share = own.mean() * (1 - one.recall.mean)
        assert one.lost_of_100 == pytest.approx(100 * share, abs=6)
    order = generator.permutation(88)
    again = find_weak_labels(task, HeldOutPredictions(order, ~wrong[order], order, predicted[order]))
    assert again == found


def test_labels_that_nothing_is_known_of() -> None:
    task = Task("a", ["t1", "t2", "t3"], ["x", "y", "z"], ["train", "train", "valid"])
    nothing = np.zeros(0, dtype=np.int64)
    found = {
        one.label: one
        for one in find_weak_labels(task, HeldOutPredictions(nothing, nothing.astype(bool), nothing, nothing))
    }
    assert found["x"].recall is None
    # Without a training row it is always lost, and a third of the texts have it.
    assert found["z"].lost_of_100 == pytest.approx(100 / 3)
    explanation = Explanation("a", "run", "learned", weak_labels=tuple(found.values()))
    assert explanation.sentences == (
        "Label more texts of 'z' next: none of its texts can be found without a training row.",
    )
    assert Explanation("a", "run", "learned", weak_labels=(found["x"],)).sentences == ()


def test_the_best_of_every_label_is_shown_first() -> None:
    relations = [
        relation("corresponds", "a"),
        relation("overlaps", "a", "y"),
        relation("overlaps", "b"),
        relation("contained", "c"),
    ]
    assert [(one.label, one.other_label) for one in best_first(relations, 3)] == [
        ("a", "x"),
        ("b", "x"),
        ("c", "x"),
    ]
    assert best_first(relations, 0) == relations


def test_conflicts_in_words() -> None:
    def conflict(whose: Any, goes_to: str | None, share: Estimate | None) -> str:
        reason: Any = "same name, other texts" if share else "same text, other label"
        return LabelConflict(reason, "pay", "b", "Pay", whose, goes_to, share, share, 8).sentence

    few = share_interval(1, 8)
    assert conflict("own", "send", few) == (
        "pay: most of its texts of that name are send in b (12% of 8 keep the name)"
    )
    assert conflict("other", "send", few) == (
        "pay: most of b's texts of that name are send here (12% of 8 keep the name)"
    )
    assert conflict("both", None, few).startswith("pay: the same name in b, but neither's texts are like")
    assert conflict("both", None, None) == "8 texts of both tasks: pay here, Pay in b"


def test_the_page_survives_any_name() -> None:
    odd = "[bold]東京 " + "long " * 30
    half = share_interval(5, 9)
    figures = {"own": half, "served": half, "gain": Estimate(-0.2, -0.3, -0.1, 9)}
    task = Task(odd, ["t1", "t2", "t3", "t4"], [odd, odd, "y", "y"])
    rows = np.arange(4)
    weak = find_weak_labels(task, HeldOutPredictions(rows, np.arange(4) > 0, rows, np.array([1, 0, 1, 1])))
    conflict = LabelConflict(
        "same text, other label", odd, odd, "y", "both", None, None, None, 7, tuple(["t"] * 7)
    )
    labels = LabelComparison((odd,), (relation("contains", odd),), (conflict,), 4, (odd,), "Compared.")
    explanation = Explanation(
        odd,
        "run",
        "adapted",
        why_not=("read: no",),
        label_names=task.label_names,
        cluster_weights={0: 0.25, 2: 0.75},
        nearest=Nearest((NearTask(odd, -1, 0.5, None),)),
        labels=labels,
        sharing=explain_sharing(
            {"all": figures}, {}, shares=True, sources=[HarmfulSource(odd, -0.6)], method="scores"
        ),
        weak_labels=weak,
    )
    for show_texts in (False, True):
        shown = io.StringIO()
        console = Console(file=shown, width=80, highlight=False)
        show_explanation(console, explanation, limit=1, show_texts=show_texts)
        text = shown.getvalue()
        assert "\x1b" not in text
        assert "[bold]" in text
        assert "Clusters that it mixes: 2 (75%), 0 (25%)." in text
        assert "(by measured scores): [bold]" in text
        assert ("… and 2 more (--json lists them)" in text) == show_texts
    scores = TransferScores.from_matrix(np.eye(6) + np.linspace(0, 1, 36).reshape(6, 6), list("abcdef"))
    pairs = measured_pairs("a", scores, dict.fromkeys("abcdef", 0))
    assert {pair.similarity for pair in pairs} == {None}
    cluster = explain_cluster("a", dict.fromkeys("abcdef", 0), confidence=0.5, pairs=pairs, **PLAIN)
    shown = io.StringIO()
    show_explanation(Console(file=shown, width=80), Explanation("a", "run", "learned", cluster=cluster))
    assert " X " not in shown.getvalue()
    good = find_weak_labels(
        task, HeldOutPredictions(rows, np.ones(4, bool), rows, task.label_codes.astype(int))
    )
    assert "No label stands out" in Explanation("a", "run", "learned", weak_labels=good).sentences[0]
    without = Explanation("a", "run", "learned", sharing=explain_sharing({"all": figures}, {}, shares=True))
    shown = io.StringIO()
    show_explanation(Console(file=shown, width=80), without)
    assert "No single task stands out" in shown.getvalue()
    print_examples(Console(file=shown, width=80), ["one"])
