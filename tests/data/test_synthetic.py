"""Planted tasks: the same for the same seed, of the asked shape, and neither too easy nor too hard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score

from robusttc.data import PlantedTasks, Task, make_planted_tasks
from robusttc.data.synthetic import STYLES, read_attributes, read_words
from robusttc.errors import UsageError

SEEDS = (0, 1, 2, 3, 4)
ATTRIBUTES, FIELDS = read_attributes(), read_words()["fields"]


@pytest.fixture(scope="module", params=SEEDS)
def planted(request: pytest.FixtureRequest) -> PlantedTasks:
    return make_planted_tasks(random_state=request.param)


# --- The same for the same seed


def test_same_seed_gives_the_same_tasks() -> None:
    first, second = make_planted_tasks(12, random_state=7), make_planted_tasks(12, random_state=7)
    assert first.tasks.content_hash == second.tasks.content_hash
    assert first.fields == second.fields


def test_other_seed_gives_other_tasks() -> None:
    hashes = {make_planted_tasks(6, random_state=seed).tasks.content_hash for seed in range(5)}
    assert len(hashes) == 5


def test_task_does_not_depend_on_how_many_follow() -> None:
    few, many = make_planted_tasks(7, random_state=3), make_planted_tasks(40, random_state=3)
    assert list(few.tasks) == list(many.tasks)[:7]
    assert few.fields == many.fields[:7]


def test_random_state_may_be_a_generator() -> None:
    first = make_planted_tasks(6, random_state=np.random.default_rng(5))
    second = make_planted_tasks(6, random_state=np.random.default_rng(5))
    assert first.tasks == second.tasks


# --- The asked shape


def test_default_is_48_tasks_of_6_families_in_turn(planted: PlantedTasks) -> None:
    assert len(planted.tasks) == len(planted.families) == len(planted.fields) == 48
    assert np.bincount(planted.families).tolist() == [8] * 6
    assert len(set(planted.family_names)) == 6
    assert {"fine_intent", "coarse_intent"} <= set(planted.family_names)


def test_families_are_balanced_when_they_do_not_divide_the_tasks() -> None:
    sizes = np.bincount(make_planted_tasks(21, 8).families)
    assert len(sizes) == 8
    assert sizes.max() - sizes.min() == 1


def test_sizes_and_labels_fill_their_ranges(planted: PlantedTasks) -> None:
    sizes = [len(task) for task in planted.tasks]
    n_labels = [len(task.label_names) for task in planted.tasks]
    assert 60 <= min(sizes) < 120
    assert 340 < max(sizes) <= 400
    assert min(n_labels) == 2
    assert 8 <= max(n_labels) <= 12


def test_ranges_can_be_chosen() -> None:
    planted = make_planted_tasks(30, 3, rows=(20, 25), labels=(3, 4))
    assert {len(task) for task in planted.tasks} == set(range(20, 26))
    assert {len(task.label_names) for task in planted.tasks} == {3, 4}


def test_class_balance_differs(planted: PlantedTasks) -> None:
    ratios = [
        sizes.max() / sizes.min() for sizes in (np.bincount(task.label_codes) for task in planted.tasks)
    ]
    assert min(ratios) < 1.5
    assert max(ratios) > 3


def test_tasks_of_every_field_occur() -> None:
    fields = make_planted_tasks(200, rows=(20, 30)).fields
    assert set(fields) == set(FIELDS)
    assert len(FIELDS) >= 8


def test_label_names_differ_between_tasks_of_a_family(planted: PlantedTasks) -> None:
    for family in range(6):
        label_sets = [
            task.label_names
            for task, own in zip(planted.tasks, planted.families, strict=True)
            if own == family
        ]
        assert len(set(label_sets)) == len(label_sets)


def test_rows_are_split_within_each_label(planted: PlantedTasks) -> None:
    for task in planted.tasks:
        for code in range(len(task.label_names)):
            splits = task.splits[task.label_codes == code].tolist()
            assert splits.count("train") >= 1
            # Rounding moves at most two rows of a label.
            assert splits.count("train") == pytest.approx(0.64 * len(splits), abs=2)
            assert splits.count("test") == pytest.approx(0.20 * len(splits), abs=2)


@pytest.mark.parametrize("label_noise", [0.05, 0.3])
def test_noise_changes_that_part_of_the_labels_and_nothing_else(label_noise: float) -> None:
    clean = make_planted_tasks(24, label_noise=0, random_state=1)
    noisy = make_planted_tasks(24, label_noise=label_noise, random_state=1)
    for before, after in zip(clean.tasks, noisy.tasks, strict=True):
        assert before.texts == after.texts
        assert before.label_names == after.label_names
        wrong = int((before.label_codes != after.label_codes).sum())
        assert wrong == round(label_noise * len(before))


def test_extreme_noise_keeps_every_label() -> None:
    for task in make_planted_tasks(12, label_noise=0.99, rows=(20, 30)).tasks:
        assert len(task.label_names) >= 2


# --- The language


def test_utterances_hardly_ever_repeat() -> None:
    texts = [text for task in make_planted_tasks(200).tasks for text in task.texts]
    assert len(texts) > 40_000
    assert len(set(texts)) > 0.999 * len(texts)


def test_utterances_are_short_sentences(planted: PlantedTasks) -> None:
    texts = [text for task in planted.tasks for text in task.texts]
    assert np.mean([len(text.split()) for text in texts]) < 30
    for text in texts:
        assert text[0].isupper()
        assert text[-1] in ".?"
        assert not {"{", "}", "*"} & set(text)
        assert "  " not in text


def test_other_families_say_the_same_things_by_chance(planted: PlantedTasks) -> None:
    (fine_intent,) = (attribute for attribute in ATTRIBUTES if attribute.name == "fine_intent")
    phrases = [phrase for ways in fine_intent.phrases for phrase in ways]
    by_fine_intent = planted.family_names.index("fine_intent")
    for family in range(6):
        tasks = [task for task, own in zip(planted.tasks, planted.families, strict=True) if own == family]
        texts = [text for task in tasks for text in task.texts[::10]]
        said = np.mean([any(phrase in text for phrase in phrases) for text in texts])
        if family == by_fine_intent:
            assert said == 1
        else:
            assert 0.12 < said < 0.38


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.name)
def test_words_of_an_attribute_are_unambiguous(attribute: Any) -> None:
    names = [name for of_value in attribute.names for name in of_value]
    cues = [cue for of_value in attribute.cues for cue in of_value]
    assert len(set(names)) == len(names)
    assert len(set(cues)) == len(cues)
    assert all(names)
    assert all(cues)
    assert len(attribute.names) == len(attribute.cues) >= 8
    assert all(len(of_value) >= 12 for of_value in attribute.cues)


@pytest.mark.parametrize("style", STYLES)
def test_every_style_keeps_label_names_apart(style: Any) -> None:
    names = [name for attribute in ATTRIBUTES for of_value in attribute.names for name in of_value]
    distinct = sorted(set(names))
    assert len(set(style(distinct, np.random.default_rng(0)))) == len(distinct)


# --- The difficulty


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Problems as small as these take ten times as long when two BLAS threads share busy cores."""
    with threadpoolctl.threadpool_limits(1):
        yield


def bag_of_words_accuracy(task: Task) -> float:
    train, test = task.rows("train"), task.rows("test")
    vectorizer = CountVectorizer()
    classifier = LogisticRegression(max_iter=500)
    classifier.fit(vectorizer.fit_transform(task.texts_at(train)), task.label_codes[train])
    return float(classifier.score(vectorizer.transform(task.texts_at(test)), task.label_codes[test]))


@pytest.mark.usefixtures("one_thread")
def test_bag_of_words_is_neither_hopeless_nor_enough(planted: PlantedTasks) -> None:
    accuracies = np.array([bag_of_words_accuracy(task) for task in planted.tasks])
    majorities = np.array([np.bincount(task.label_codes).max() / len(task) for task in planted.tasks])
    assert 0.60 < accuracies.mean() < 0.80
    for family in range(6):
        own = planted.families == family
        assert 0.45 < accuracies[own].mean() < 0.92
        assert accuracies[own].mean() > majorities[own].mean() + 0.12


def leave_one_out_brier_score(features: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    """Fit the targets by ridge regression, leaving out each row in turn (in closed form)."""
    centred = features - features.mean(axis=0)
    scaled = centred / np.sqrt((centred**2).mean() + 1e-9)
    design = np.column_stack([scaled, np.ones(len(scaled))])
    hat = design @ np.linalg.solve(design.T @ design + np.eye(design.shape[1]), design.T)
    errors = (targets - hat @ targets) / (1 - np.diag(hat)[:, None])
    return float((errors**2).sum(axis=1).mean())


@pytest.mark.usefixtures("one_thread")
def test_tasks_transfer_within_their_family(planted: PlantedTasks) -> None:
    """The label scores of one task, as the only features of another, help most within the family."""
    tasks = list(planted.tasks)
    vectorizer = CountVectorizer(binary=True).fit(text for task in tasks for text in task.texts)
    words = [vectorizer.transform(task.texts) for task in tasks]
    encoders = [
        LogisticRegression(max_iter=500).fit(counts, task.label_codes).coef_.T
        for counts, task in zip(words, tasks, strict=True)
    ]
    scores = np.full((len(tasks), len(tasks)), np.nan)
    for target, task in enumerate(tasks):
        one_hot = np.eye(len(task.label_names))[task.label_codes]
        for source, encoder in enumerate(encoders):
            if source != target:
                features = words[target] @ encoder
                scores[source, target] = -leave_one_out_brier_score(features, one_hot)
    # What makes a target easy and a source good is not about the pair.
    scores = (scores - np.nanmean(scores, axis=0)) / np.nanstd(scores, axis=0)
    scores -= np.nanmean(scores, axis=1, keepdims=True)
    similarity = scores + scores.T
    nearest = np.nanargmax(similarity, axis=1)
    assert np.mean(planted.families[nearest] == planted.families) >= 0.9
    together = planted.families[:, None] == planted.families
    assert np.nanmean(similarity[together]) > np.nanmean(similarity[~together]) + 2


@pytest.mark.usefixtures("one_thread")
def test_texts_alone_show_the_fields_and_not_the_families(planted: PlantedTasks) -> None:
    """Who clusters tasks by their texts gets the wrong answer: only the labels make a family."""
    vectorizer = TfidfVectorizer().fit(text for task in planted.tasks for text in task.texts)
    means = np.array([np.asarray(vectorizer.transform(task.texts).mean(axis=0))[0] for task in planted.tasks])

    def agreement(truth: Sequence[object] | NDArray[np.intp]) -> float:
        found = KMeans(len(set(truth)), n_init=20, random_state=0).fit_predict(means)
        return float(adjusted_rand_score(truth, found))

    assert agreement(planted.fields) > 0.6
    assert agreement(planted.families) < 0.4


# --- Wrong arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_tasks": 0},
        {"n_tasks": 2.5},
        {"n_tasks": True},
        {"n_families": 0},
        {"n_families": 9},
        {"label_noise": -0.1},
        {"label_noise": 1.0},
        {"label_noise": float("nan")},
        {"label_noise": "some"},
        {"rows": (400, 60)},
        {"rows": (5, 60)},
        {"rows": 60},
        {"rows": (60, 100, 400)},
        {"labels": (1, 5)},
        {"labels": (9, 12)},
        {"labels": (4, 3)},
        {"labels": ("2", "3")},
        {"random_state": -1},
        {"random_state": None},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        make_planted_tasks(**{"n_tasks": 2, **arguments})
    assert raised.value.got is not None
    assert raised.value.expected is not None
