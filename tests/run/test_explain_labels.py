"""Labels that correspond, contain and conflict: planted truths, chance, and laws."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from planted_labels import SETTINGS, World, kinds
from scipy.stats import binom, fisher_exact

from robusttc.data import Task, TokenArray
from robusttc.encoders import DenseInputs, WordInputs
from robusttc.multitask import uniform_model
from robusttc.run.explain import CrossTable, find_conflicts, find_matches
from robusttc.run.explain.cross_predictions import choose_texts, compare_labels, least_likeness
from robusttc.run.explain.labels import CommonText, adjust_together, judge_cells, name_kind
from robusttc.stats import share_interval

SEEDS = range(5)
CLIENT = {"pay": ["payment"], "send": ["parcel"], "hello": ["greeting"], "bye": ["farewell"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_renamed_labels_are_found_and_nothing_else(seed: int) -> None:
    world = World(seed)
    names = {"L1": ["parcel"], "L2": ["payment"], "L3": ["farewell"], "L4": ["greeting"]}
    own, other = world.task("own", CLIENT), world.task("other", names)
    matches, conflicts = world.compare(own, other)
    truth = {("pay", "L2"), ("send", "L1"), ("hello", "L4"), ("bye", "L3")}
    assert kinds(matches) == {("corresponds", mine, "other", theirs) for mine, theirs in truth}
    assert conflicts == ()
    for one in matches:
        assert (
            min(one.forward.low, one.backward.low) > 0.5 > 0.2 > max(one.forward_chance, one.backward_chance)
        )
        assert one.p_value < 1e-4
        assert one.n_common == 0
        assert not one.same_name


@pytest.mark.parametrize("seed", SEEDS)
def test_merged_labels_contain_their_parts(seed: int) -> None:
    world = World(seed)
    merged = {"talk": ["greeting", "farewell"], "money": ["payment"], "goods": ["parcel"]}
    own, other = world.task("own", CLIENT, n_texts=24), world.task("other", merged, n_texts=24)
    assert kinds(world.compare(own, other)[0]) == {
        ("contained", "hello", "other", "talk"),
        ("contained", "bye", "other", "talk"),
        ("corresponds", "pay", "other", "money"),
        ("corresponds", "send", "other", "goods"),
    }
    assert kinds(world.compare(other, own)[0]) == {
        ("contains", "talk", "own", "hello"),
        ("contains", "talk", "own", "bye"),
        ("corresponds", "money", "own", "pay"),
        ("corresponds", "goods", "own", "send"),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_swapped_names_conflict(seed: int) -> None:
    world = World(seed)
    swapped = {**CLIENT, "pay": ["parcel"], "send": ["payment"]}
    matches, conflicts = world.compare(world.task("own", CLIENT), world.task("other", swapped))
    assert ("corresponds", "pay", "other", "send") in kinds(matches)
    found = {(one.label, one.whose, one.goes_to) for one in conflicts}
    assert found == {
        ("pay", "own", "send"),
        ("pay", "other", "send"),
        ("send", "own", "pay"),
        ("send", "other", "pay"),
    }
    for one in conflicts:
        assert one.reason == "same name, other texts"
        assert one.share is not None
        assert one.share_elsewhere is not None
        assert one.share.high < one.share_elsewhere.low


@pytest.mark.parametrize("seed", SEEDS)
def test_a_name_for_quite_other_texts_conflicts_once(seed: int) -> None:
    world = World(seed)
    other = {**CLIENT, "bye": ["something else"]}
    matches, conflicts = world.compare(world.task("own", CLIENT), world.task("other", other))
    assert not [one for one in matches if "bye" in (one.label, one.other_label)]
    assert [(one.label, one.whose, one.goes_to) for one in conflicts] == [("bye", "both", None)]


def test_texts_in_common_count_by_their_labels_and_disputes_are_listed() -> None:
    world = World(0)
    own = world.task("own", CLIENT, first=0)
    other = world.task("other", {"pay": ["payment"], "send": ["parcel"]}, first=8)
    labels = other.labels.tolist()
    disputed = labels.index("pay")
    labels[disputed] = "send"
    other = Task("other", list(other.texts), labels, other.splits.tolist())
    matches, conflicts = world.compare(own, other)
    by_label = {one.label: one for one in matches}
    # 16 texts each, numbers 8 to 15 in common.
    assert (by_label["pay"].n_common, by_label["send"].n_common) == (7, 8)
    assert by_label["pay"].forward.n == 16
    (dispute,) = conflicts
    assert (dispute.reason, dispute.label, dispute.other_label) == ("same text, other label", "pay", "send")
    assert dispute.texts == (other.texts[disputed],)


def test_unrelated_tasks_and_unrelated_labels_give_nothing() -> None:
    """Two kinds of chance: quite other texts, and the same kinds of texts with labels that mean nothing."""
    n_draws, n_wrong = 40, 0
    for seed in range(n_draws):
        world = World(100 + seed)
        own = world.task("own", CLIENT)
        foreign = world.task("foreign", {"a": ["rain"], "b": ["snow"], "c": ["sun"]})
        mixed = world.task("mixed", {label: [*CLIENT["pay"], *CLIENT["send"]] for label in ("x", "y")})
        labels = world.generator.permutation(mixed.labels).tolist()
        random = Task("mixed", list(mixed.texts), labels, mixed.splits.tolist())
        matches, conflicts = world.compare(own, foreign, random)
        n_wrong += bool(matches) or bool(conflicts)
    # At the level of 5 % so many wrong explanations would be a matter of one in a thousand.
    assert n_wrong <= binom.isf(0.001, n_draws, 0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_label_that_catches_everything_corresponds_to_nothing(seed: int) -> None:
    generator = np.random.default_rng(seed)
    forward = np.column_stack([generator.integers(14, 20, 6), generator.integers(0, 2, (6, 2))])
    backward = generator.multinomial(20, np.full(7, 1 / 7), size=2)
    assert find_matches([tables_of(forward, backward)]) == ()


def tables_of(forward: np.ndarray, backward: np.ndarray, task: str = "b") -> CrossTable:
    n_own, n_other = len(forward), len(backward)
    return CrossTable(
        task,
        tuple(f"other {place}" for place in range(n_other)),
        tuple(f"own {place}" for place in range(n_own)),
        forward,
        backward,
        np.zeros((n_own, n_other), dtype=np.int64),
    )


def test_cells_are_judged_by_fishers_test() -> None:
    counts = np.random.default_rng(0).integers(0, 9, (5, 4))
    counts[0] = [1, 1, 0, 1]
    counts[:, 1] = 0
    values, tested = judge_cells(counts)
    assert not tested[0].any()
    assert not tested[:, 1].any()
    for row, column in zip(*np.nonzero(tested), strict=True):
        inside, whole = counts[row, column], counts[row].sum()
        outside = counts[:, column].sum() - inside
        table = [[inside, whole - inside], [outside, counts.sum() - whole - outside]]
        assert values[row, column] == pytest.approx(
            fisher_exact(np.array(table), alternative="greater").pvalue
        )


def test_one_family_of_tests() -> None:
    first, second = np.array([[0.01, 0.5]]), np.array([[0.02], [0.9]])
    adjusted = adjust_together([first, second], [np.ones((1, 2), bool), np.array([[True], [False]])])
    assert [values.tolist() for values in adjusted] == [[[0.03, 0.5]], [[0.03], [1.0]]]
    assert adjust_together([], []) == []


@pytest.mark.parametrize(
    ("forward", "backward", "kind"),
    [
        ((20, 20), (18, 20), "corresponds"),
        ((20, 20), (8, 20), "contained"),
        ((8, 20), (20, 20), "contains"),
        ((6, 6), (5, 6), "overlaps"),
        ((10, 20), (10, 20), None),
        ((3, 3), (20, 20), None),
    ],
)
def test_kinds(forward: tuple[int, int], backward: tuple[int, int], kind: str | None) -> None:
    assert name_kind(share_interval(*forward), share_interval(*backward)) == kind


@pytest.mark.parametrize("seed", SEEDS)
def test_neither_the_order_of_rows_nor_names_matter(seed: int) -> None:
    world = World(seed, noise=0.25)
    own = world.task("own", CLIENT, n_texts=12)
    other = world.task("other", {"talk": ["greeting", "farewell"], "money": ["payment"], "x": ["other"]})
    order = world.generator.permutation(len(own))
    shuffled = Task(
        "own", [own.texts[row] for row in order], own.labels[order].tolist(), own.splits[order].tolist()
    )
    matches, conflicts = world.compare(own, other)
    assert kinds(matches)
    assert world.compare(shuffled, other) == (matches, conflicts)
    new_name = {"pay": "zz", "send": "a", "hello": "m", "bye": "b"}
    renamed = Task("own", list(own.texts), [new_name[one] for one in own.labels], own.splits.tolist())
    found = {
        (one.kind, one.label, one.other_label, one.forward.mean, one.backward.mean)
        for one in world.compare(renamed, other)[0]
    }
    assert found == {
        (one.kind, new_name[one.label], one.other_label, one.forward.mean, one.backward.mean)
        for one in matches
    }


def test_the_order_of_tasks_does_not_matter() -> None:
    world = World(3)
    own = world.task("own", CLIENT)
    others = [world.task("b", {"L1": ["parcel"], "L2": ["payment"]}), world.task("c", CLIENT)]
    assert world.compare(own, *others) == world.compare(own, *reversed(others))


def test_texts_are_distinct_and_drawn_by_chance_where_there_are_many() -> None:
    task = Task(
        "a", ["Hi!", "hi", "bye", "HI", "so long"], ["x", "x", "y", "y", "y"], ["train"] * 4 + ["valid"]
    )
    texts = choose_texts(task)
    assert texts.keys == ("bye", "hi", "hi", "so long")
    assert texts.codes.tolist() == [1, 0, 1, 1]
    assert texts.is_held.tolist() == [False, False, False, True]
    many = Task("a", [f"text {n}" for n in range(50)], ["x", "y"] * 25)
    backwards = Task("a", list(many.texts)[::-1], ["y", "x"] * 25)
    assert choose_texts(many, n_most=20).shown == choose_texts(backwards, n_most=20).shown
    assert len(choose_texts(many, n_most=20).keys) == 20


def test_without_two_texts_of_a_label_nothing_is_like_it() -> None:
    assert least_likeness(np.eye(2, dtype=np.float32), np.array([0, 1])) > 1


def test_own_models_are_fitted_where_none_were_kept() -> None:
    world = World(0)
    own, other = world.task("own", CLIENT), world.task("other", {"L1": ["parcel"], "L2": ["payment"]})
    thin = Task("thin", ["parcel number 1"], ["x"])
    private = Task("private", list(other.texts), other.labels.tolist(), may_share=False)
    world.write("parcel", 1)
    reader = SimpleNamespace(read=lambda texts: DenseInputs(np.array([world.vectors[t] for t in texts])))
    fitted: Any = SimpleNamespace(
        predictor_=SimpleNamespace(reader=reader, shared=None), settings_=SETTINGS, seed_=0
    )
    found = compare_labels(own, [other, thin, private], fitted, {})
    assert found.compared == ("other",)
    assert kinds(found.matches) == {
        ("corresponds", "pay", "other", "L2"),
        ("corresponds", "send", "other", "L1"),
    }
    assert found.sentence == (
        "Compared with 1 task: 2 of its 4 labels correspond to, contain or lie within a label there, and "
        "there are 0 conflicts."
    )
    nobody = compare_labels(own, [], fitted, {})
    assert nobody.sentence == "Its labels were compared with no other task."


def test_words_are_represented_by_a_layer() -> None:
    """Of tasks of words, which have no vectors, own models must be there."""
    tasks = [
        Task(
            name, [f"{word} {place}" for word in ("pay", "send") for place in range(8)], ["x"] * 8 + ["y"] * 8
        )
        for name in ("a", "b")
    ]
    numbers = {word: 2 + place for place, word in enumerate(["pay", "send", *map(str, range(8))])}

    def read(texts: list[str]) -> WordInputs:
        ids = np.array([numbers[word] for text in texts for word in text.split()], dtype=np.int32)
        tokens = TokenArray(ids, np.arange(0, len(ids) + 1, 2))
        return WordInputs(tokens, np.eye(12, 3, k=-1, dtype=np.float32))

    own = {name: uniform_model(read(["pay 1"]), 2) for name in ("a", "b")}
    serving = SimpleNamespace(reader=SimpleNamespace(read=read), shared=None)
    fitted: Any = SimpleNamespace(predictor_=serving, settings_=SETTINGS, seed_=0)
    assert compare_labels(tasks[0], tasks[1:], fitted, {}).compared == ()
    found = compare_labels(tasks[0], tasks[1:], fitted, own)
    assert found.compared == ("b",)
    # All texts are in common.
    assert kinds(found.matches) == {("corresponds", "x", "b", "x"), ("corresponds", "y", "b", "y")}
    model: Any = own["a"]
    serving.shared = SimpleNamespace(layer=model.layer)
    assert compare_labels(tasks[0], tasks[1:], fitted, own) == found


def test_a_name_whose_texts_go_nowhere_in_particular_is_no_conflict() -> None:
    """Fewer than half keep the name, but no other label gets clearly more."""
    forward = np.array([[12, 14, 13, 1], [0, 40, 0, 0], [0, 0, 40, 0]])
    names = ("pay", "send", "greet")
    tables = CrossTable("b", names, names, forward, forward, 0 * forward[:, :3])
    assert find_conflicts([tables], {}, []) == ()


def test_numbers_as_names_are_no_names() -> None:
    forward = np.array([[0, 12, 0], [12, 0, 0]])
    tables = CrossTable("b", ("1", "2"), ("1", "2"), forward, forward, 0 * forward[:, :2])
    assert find_conflicts([tables], {}, []) == ()
    common = {"b": [CommonText("same", "1", "2")]}
    assert find_conflicts([tables], common, []) == ()
