"""Weights for new and for familiar texts, out-of-fold predictions, and shared parts of labels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, FeatureEncoder
from robusttc.errors import DataError
from robusttc.multitask.assessment import assess_multitask
from robusttc.multitask.choosing import choose, has_clusters
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.multitask.familiar import FamiliarTexts
from robusttc.multitask.joint import TaskPart, train_jointly
from robusttc.multitask.label_sharing import label_groups
from robusttc.multitask.out_of_fold import ClusterModels, OutOfFold
from robusttc.multitask.settings import MultiTaskSettings
from robusttc.multitask.weighing import Weights, learn, mix, weigh
from robusttc.random import numpy_generator

QUICK = MultiTaskSettings(width=16, epochs=2, min_steps=20, head_c=3.0)
Table = NDArray[np.float64]


def answers(right: NDArray[np.bool_], codes: NDArray[np.int64]) -> Table:
    """Give tables of two labels that are sure of the right or of the wrong one."""
    table = np.full((len(codes), 2), 0.1)
    table[np.arange(len(codes)), np.where(right, codes, 1 - codes)] = 0.9
    return table


@pytest.mark.parametrize("seed", range(3))
def test_each_side_follows_the_model_that_knows_it(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = {name: generator.integers(0, 2, 300) for name in "ab"}
    familiar = {name: generator.random(300) < 0.5 for name in "ab"}
    # The first model is right on new texts nine times in ten, the second on familiar ones.
    luck = {name: generator.random(300) for name in "ab"}
    own = {
        name: answers(np.where(familiar[name], luck[name] < 0.5, luck[name] < 0.9), codes[name])
        for name in "ab"
    }
    shared = {
        name: answers(np.where(familiar[name], luck[name] < 0.9, luck[name] < 0.5), codes[name])
        for name in "ab"
    }
    weights = learn([own, shared], codes, familiar)
    assert weights.new[0] > 2 * weights.new[1]
    assert weights.familiar[1] > 2 * weights.familiar[0]
    served = mix([own, shared], weights, familiar)
    together = mix([own, shared], learn([own, shared], codes), familiar)
    for name in "ab":
        assert (served[name].argmax(axis=1) == codes[name]).mean() > 0.85
        assert (together[name].argmax(axis=1) == codes[name]).mean() < 0.85
    few = {name: np.arange(300) < 20 for name in "ab"}
    assert learn([own, shared], codes, few).new == learn([own, shared], codes).new


def test_weights_without_anything_held_out_are_equal() -> None:
    assert learn([{}, {}], {}) == Weights((0.5, 0.5), (0.5, 0.5))
    useless = {"a": answers(np.zeros(10, dtype=np.bool_), np.zeros(10, dtype=np.int64))}
    assert learn([useless, useless], {"a": np.zeros(10, dtype=np.int64)}).new == (0.5, 0.5)


def test_rows_are_weighed_alone() -> None:
    generator = np.random.default_rng(0)
    tables = [generator.dirichlet(np.ones(4), 20) for _ in range(2)]
    weights, familiar = Weights((0.3, 0.9), (1.2, 0.1)), generator.random(20) < 0.5
    whole = weigh(tables, weights, familiar)
    for row in range(20):
        one = weigh([table[row : row + 1] for table in tables], weights, familiar[row : row + 1])
        assert np.array_equal(one[0], whole[row])


def test_a_familiar_text_gets_its_own_weights() -> None:
    generator = np.random.default_rng(0)
    verbs, things = ["open", "close", "lock", "paint"], [f"thing{number}" for number in range(30)]
    common = [f"{verb} the {thing}" for verb in verbs for thing in things]
    tasks = []
    for name in "abcdef":
        texts = [common[row] for row in generator.permutation(len(common))[:60]]
        texts += [f"{verb} my {name}{number}" for verb in verbs for number in range(10)]
        labels = [text.split()[0] for text in texts]
        tasks.append(Task(name, texts, labels))
    settings = MultiTaskSettings(width=16, activation="relu", epochs=2, min_steps=30, learning_rate=1e-2)
    model = ClusterMultiTask("cnn", settings=settings).fit(TaskSet(tasks))
    assert model.weights_ != model.familiar_weights_
    flags = model._serving.find_familiar("a", [common[0], common[0].upper() + "!", "open my a1", "say no"])
    assert flags is not None
    # A text of the task alone is not familiar, nor is one that nobody has.
    assert flags.tolist()[2:] == [False, False]
    assert flags[0] == flags[1]


def test_held_out_rows_are_predicted_by_models_that_have_not_seen_them() -> None:
    planted = make_planted_vectors(4, 1, seed=0)
    prepared = planted.encoder.prepare(planted.tasks)
    rows = OutOfFold(planted.tasks, prepared, n_folds=3, settings=QUICK, seed=0)
    for fold in rows.folds:
        for task in planted.tasks:
            held = set(prepared.items_of(task.name, fold.held[task.name]).tolist())
            assert held
            assert not held & set(fold.parts[task.name].items.tolist())
    for task in planted.tasks:
        assert sorted(rows.held[task.name].rows.tolist()) == task.rows("train").tolist()
    own, shared = rows.predict("own", "shared")
    # Tasks alone in their clusters are asked of their own models.
    (alone,) = rows.predict(ClusterModels(dict.fromkeys(planted.tasks.names, -1), from_shared=True))
    assert all(np.array_equal(alone[name], own[name]) for name in own)
    assert not any(np.array_equal(shared[name], own[name]) for name in own)


def test_validation_rows_can_be_held_out_in_place_of_folds() -> None:
    planted = make_planted_vectors(4, 1, seed=0)
    prepared = planted.encoder.prepare(planted.tasks)
    rows = OutOfFold(planted.tasks, prepared, n_folds=None, settings=QUICK, seed=0)
    (own,) = rows.predict("own")
    for task in planted.tasks:
        assert rows.held[task.name].rows.tolist() == task.rows("valid").tolist()
        assert len(rows.folds[0].parts[task.name].items) == len(task.rows("train"))
        assert own[task.name].shape == (12, 3)


def test_random_labels_are_not_learned_out_of_fold() -> None:
    generator = np.random.default_rng(0)
    features = {name: generator.normal(size=(40, 10)) for name in "abcd"}
    tasks = TaskSet(
        Task(name, [f"{name} {row}" for row in range(40)], [f"L{generator.integers(2)}" for _ in range(40)])
        for name in "abcd"
    )
    prepared = FeatureEncoder(features).prepare(tasks)
    rows = OutOfFold(tasks, prepared, n_folds=4, settings=QUICK, seed=0)
    choice = choose(rows, None, clusters="auto", n_random=0, seed=0)
    for name in ("own", "shared", "blend without clusters"):
        assert abs(choice.components[name].mean - 0.5) < 0.15


def test_which_clusters_can_be_told_apart() -> None:
    assert not has_clusters(None)
    assert not has_clusters({"a": -1, "b": -1})
    assert not has_clusters({"a": 2, "b": 2})
    assert has_clusters({"a": 2, "b": 2, "c": -1})


def test_assessment_is_the_verdict_of_the_fit() -> None:
    planted = make_planted_vectors(8, 2, seed=0)
    verdict = assess_multitask(
        planted.tasks, planted.kinds, encoder=planted.encoder, settings=QUICK, n_random=1, seed=3
    )
    model = ClusterMultiTask(planted.encoder, settings=QUICK, n_random=1, random_state=3)
    assert model.fit(planted.tasks, planted.kinds).verdict_ == verdict
    private = planted.tasks.keep_private(planted.tasks.names[1:])
    with pytest.raises(DataError, match="at least two"):
        assess_multitask(private, planted.kinds, encoder=planted.encoder, settings=QUICK)


def test_namesakes_learn_from_each_other() -> None:
    # Of each task only half of the labels have many rows; namesakes in the other task have the rest.
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(6, 12))
    names = tuple(f"label_{number}" for number in range(6))
    sizes = {"a": [30, 30, 30, 1, 1, 1], "b": [1, 1, 1, 30, 30, 30]}
    blocks, parts, start = [], [], 0
    for name, own in sizes.items():
        codes = np.repeat(np.arange(6), own)
        blocks.append(centres[codes] + 0.9 * generator.normal(size=(len(codes), 12)))
        parts.append(TaskPart(name, 6, np.arange(start, start + len(codes)), codes, label_names=names))
        start += len(codes)
    inputs = DenseInputs(np.concatenate(blocks).astype(np.float32))
    asked_codes = np.repeat(np.arange(3, 6), 40)
    asked = DenseInputs((centres[asked_codes] + 0.9 * generator.normal(size=(120, 12))).astype(np.float32))
    accuracy = {}
    for share in (False, True):
        settings = MultiTaskSettings(width=16, epochs=5, min_steps=150, head_c=0.0, share_labels=share)
        model = train_jointly(inputs, parts, settings=settings, generator=numpy_generator(0, "x"))
        accuracy[share] = (model.probabilities("a", asked).argmax(axis=1) == asked_codes).mean()
    assert accuracy[True] > accuracy[False] + 0.05


def test_label_names_are_compared_by_their_words() -> None:
    groups = label_groups(["order_status", "orderStatus", "1", "-1", "ORDER status", "2"])
    assert groups[0] == groups[1] == groups[4]
    assert len(set(groups.tolist())) == 4


def test_familiar_texts_are_those_of_other_tasks() -> None:
    tasks = TaskSet([Task("a", ["hi", "only mine"], ["x", "y"]), Task("b", ["Hi!", "hers"], ["x", "y"])])
    assert FamiliarTexts.of(tasks).find("a", ["HI", "only mine", "hers"]).tolist() == [True, False, True]
