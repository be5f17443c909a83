"""Weights for novel texts and for those seen in other tasks, label frequencies, and held-out predictions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_vectors import make_planted_vectors

from robusttc.data import Task, TaskSet
from robusttc.encoders import FeatureEncoder
from robusttc.errors import DataError
from robusttc.multitask import (
    BlendWeights,
    ClusterMultiTask,
    MultiTaskSettings,
    assess_multitask,
    clusters_to_train,
)
from robusttc.multitask.blending import SeenTexts, blend_rows, learn_blend
from robusttc.multitask.validation import make_folds

QUICK = MultiTaskSettings(width=16, epochs=2, min_steps=20, head_c=3.0)
WORDS = ["lamp", "chair", "book", "phone", "shirt", "cup", "ball", "desk", "film", "song"]
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
    seen = {name: generator.random(300) < 0.5 for name in "ab"}
    # The first model is right on novel texts nine times in ten, the second on those seen elsewhere.
    luck = {name: generator.random(300) for name in "ab"}
    own = {
        name: answers(np.where(seen[name], luck[name] < 0.5, luck[name] < 0.9), codes[name]) for name in "ab"
    }
    shared = {
        name: answers(np.where(seen[name], luck[name] < 0.9, luck[name] < 0.5), codes[name]) for name in "ab"
    }
    tables = {"own": own, "shared": shared}
    learned = learn_blend(tables, codes, seen)
    weights, served = learned.weights, learned.blended
    assert weights.novel[0] > 2 * weights.novel[1]
    assert weights.seen[1] > 2 * weights.seen[0]
    together = learn_blend(tables, codes, None).blended
    for name in "ab":
        assert (served[name].argmax(axis=1) == codes[name]).mean() > 0.85
        assert (together[name].argmax(axis=1) == codes[name]).mean() < 0.85
    few = {name: np.arange(300) < 20 for name in "ab"}
    assert learn_blend(tables, codes, few).weights == learn_blend(tables, codes, None).weights


@pytest.mark.parametrize("seed", range(3))
def test_the_tasks_of_a_cluster_follow_the_model_that_knows_them(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = {name: generator.integers(0, 2, 200) for name in "abcd"}
    luck = {name: generator.random(200) for name in "abcd"}
    # The first model knows one cluster, the second the other.
    own = {name: answers(luck[name] < (0.9 if name in "ab" else 0.5), codes[name]) for name in "abcd"}
    shared = {name: answers(luck[name] < (0.5 if name in "ab" else 0.9), codes[name]) for name in "abcd"}
    clusters = {0: "ab", 1: "cd"}
    tables = {"own": own, "shared": shared}
    learned = learn_blend(tables, codes, None, clusters=clusters)
    assert learned.weights == learn_blend(tables, codes, None).weights
    assert learned.of_cluster[0].novel[0] > 2 * learned.of_cluster[0].novel[1]
    assert learned.of_cluster[1].novel[1] > 2 * learned.of_cluster[1].novel[0]
    assert all((learned.blended[name].argmax(axis=1) == codes[name]).mean() > 0.8 for name in "abcd")
    # Half of the rows do not know their own labels: with random ones nothing is gained.
    noise = {name: generator.dirichlet(np.ones(2), 200) for name in "abcd"}
    fitted = learn_blend({"own": noise, "shared": own}, codes, None, clusters=clusters)
    one = {name: (fitted.blended[name].argmax(axis=1) == codes[name]).mean() for name in "cd"}
    assert max(one.values()) < 0.65


def test_few_rows_hardly_move_the_weights_of_a_cluster() -> None:
    generator = np.random.default_rng(0)
    codes = {name: generator.integers(0, 2, size) for name, size in (("many", 500), ("few", 4))}
    own = {name: answers(generator.random(len(codes[name])) < 0.9, codes[name]) for name in codes}
    shared = {name: answers(generator.random(len(codes[name])) < 0.6, codes[name]) for name in codes}
    learned = learn_blend({"own": own, "shared": shared}, codes, None, clusters={0: ["few"], 1: ["none"]})
    assert learned.of_cluster[0].novel == pytest.approx(learned.weights.novel, abs=0.2)
    assert learned.of_cluster[1] == learned.weights


def test_weights_without_anything_held_out_are_equal() -> None:
    equal = (0.5, 0.5, 0.0, 0.0)
    assert learn_blend({"own": {}, "shared": {}, "prior": {}}, {}, None).weights == BlendWeights(equal, equal)
    useless = {"a": answers(np.zeros(10, dtype=np.bool_), np.zeros(10, dtype=np.int64))}
    tables = {"own": useless, "shared": useless}
    assert learn_blend(tables, {"a": np.zeros(10, dtype=np.int64)}, None).weights.novel == equal


def test_rows_are_blended_alone() -> None:
    generator = np.random.default_rng(0)
    tables = {kind: generator.dirichlet(np.ones(4), 20) for kind in ("own", "shared")}
    weights, seen = BlendWeights((0.3, 0.9, 0, 0), (1.2, 0.1, 0, 0)), generator.random(20) < 0.5
    whole = blend_rows(tables, weights, seen)
    for row in range(20):
        one = {kind: table[row : row + 1] for kind, table in tables.items()}
        assert np.array_equal(blend_rows(one, weights, seen[row : row + 1])[0], whole[row])


@cache
def fit_common() -> tuple[ClusterMultiTask, list[str]]:
    generator = np.random.default_rng(0)
    verbs, things = ["open", "close", "lock", "paint"], [f"thing{number}" for number in range(30)]
    common = [f"{verb} the {thing}" for verb in verbs for thing in things]
    tasks = []
    for name in "abcdef":
        texts = [common[row] for row in generator.permutation(len(common))[:60]]
        texts += [f"{verb} my {name}{number}" for verb in verbs for number in range(10)]
        tasks.append(Task(name, texts, [text.split()[0] for text in texts]))
    settings = MultiTaskSettings(width=16, activation="relu", epochs=2, min_steps=30, learning_rate=1e-2)
    return ClusterMultiTask("cnn", settings=settings).fit(TaskSet(tasks)), common


def test_a_text_seen_elsewhere_gets_its_own_weights() -> None:
    model, common = fit_common()
    assert model.weights_ != model.seen_weights_
    texts = [common[0], common[0].upper() + "!", "open my a1", "say no"]
    flags = model.predictor_.find_seen("a", texts)
    assert flags is not None
    # A text of the task alone is not seen elsewhere, nor is one that nobody has.
    assert flags.tolist()[2:] == [False, False]
    assert flags[0] == flags[1]


def test_lists_arrays_and_iterators_give_the_same_probabilities() -> None:
    model, common = fit_common()
    texts = [*common[:20], "open my a1", "say no"]
    expected = model.predict_proba("a", texts)
    assert np.array_equal(model.predict_proba("a", tuple(texts)), expected)
    assert np.array_equal(model.predict_proba("a", np.array(texts, dtype=object)), expected)
    assert np.array_equal(model.predict_proba("a", (text for text in texts)), expected)
    table, scope = model.predict_with_scope("a", iter(texts))
    assert np.array_equal(table, expected)
    assert scope is not None
    assert np.array_equal(scope, model.scope_score("a", iter(texts)))


def test_seen_texts_are_those_of_other_tasks() -> None:
    tasks = TaskSet([Task("a", ["hi", "only mine"], ["x", "y"]), Task("b", ["Hi!", "hers"], ["x", "y"])])
    found = SeenTexts.of(tasks, {task.name: task.rows("train") for task in tasks}).find(
        "a", ["HI", "only mine", "hers"]
    )
    assert found.tolist() == [True, False, True]


def make_reviews(number: int, n_rows: int = 80) -> Task:
    """Nine of ten are good; of most texts nobody can tell."""
    generator = np.random.default_rng(number)
    texts, labels = [], []
    for row in range(n_rows):
        is_bad = bool(generator.random() < 0.12)
        word, other = generator.choice(WORDS, size=2)
        mood = ("broken, I want my money back" if is_bad else "wonderful") if row % 4 == 0 else "as described"
        texts.append(f"{word} and {other}, number {row} of {number}: {mood}")
        labels.append("bad" if is_bad else "good")
    splits = ["train"] * (n_rows // 2) + ["valid"] * 10 + ["test"] * (n_rows - n_rows // 2 - 10)
    return Task(f"shop {number:02d}", texts, labels, splits)


def test_skewed_tasks_are_served_with_how_frequent_labels_are() -> None:
    tasks = TaskSet(make_reviews(number) for number in range(12))
    model = ClusterMultiTask(settings=QUICK, cluster_models="never").fit(tasks)
    assert model.weights_["prior"] > 0
    found = []
    for task in tasks:
        texts = list(task.texts_at(task.rows("test")))
        found.append(float((model.predict(task.name, texts) == "bad").mean()))
    assert np.mean(found) < 0.2


def test_even_tasks_have_no_prior() -> None:
    planted = make_planted_vectors(8, 1, seed=0)
    model = ClusterMultiTask(planted.encoder, settings=QUICK).fit(planted.tasks)
    assert model.weights_["prior"] == pytest.approx(0.0, abs=1e-6)


def test_held_out_rows_are_predicted_by_models_that_have_not_seen_them() -> None:
    planted = make_planted_vectors(4, 1, seed=0)
    folds = make_folds(planted.tasks, n_folds=3, splits=("train", "valid"), seed=0)
    for train, held in zip(folds.train, folds.held, strict=True):
        for name in planted.tasks.names:
            assert len(held[name])
            assert not set(held[name].tolist()) & set(train[name].tolist())
    for task in planted.tasks:
        assert sorted(folds.rows(task.name).tolist()) == task.rows("train", "valid").tolist()
    tuned = make_folds(planted.tasks, n_folds=None, splits=("train",), seed=0)
    for task in planted.tasks:
        assert tuned.rows(task.name).tolist() == task.rows("valid").tolist()
        assert tuned.train[0][task.name].tolist() == task.rows("train").tolist()


def test_random_labels_are_not_learned_out_of_fold() -> None:
    generator = np.random.default_rng(0)
    features = {name: generator.normal(size=(40, 10)) for name in "abcd"}
    tasks = TaskSet(
        Task(name, [f"{name} {row}" for row in range(40)], [f"L{generator.integers(2)}" for _ in range(40)])
        for name in "abcd"
    )
    model = ClusterMultiTask(FeatureEncoder(features), settings=QUICK, n_folds=4).fit(tasks)
    for name in ("own", "shared", "blend without clusters"):
        assert abs(model.held_out_accuracy_[name].mean - 0.5) < 0.15


def test_which_clusters_can_be_told_apart() -> None:
    assert clusters_to_train(None) == {}
    assert clusters_to_train({"a": -1, "b": -1}) == {}
    assert clusters_to_train({"a": 2, "b": 2}) == {}
    assert clusters_to_train({"a": 2, "b": 2, "c": -1}) == {2: ("a", "b")}


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
