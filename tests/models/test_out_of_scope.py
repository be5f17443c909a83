"""Out-of-scope scores: planted texts from outside, a reference for the fit, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from sklearn.linear_model import LogisticRegression

from robusttc.errors import DataError, StoreError, UsageError
from robusttc.models import ScopeExample, ScopeModel, auroc, fit_logistic, fit_scope, nearest_cosines
from robusttc.models.out_of_scope import PENALTY

DIMENSION = 24


def draw_example(seed: int, n_outside: int = 60, noise: float = 0.4) -> ScopeExample:
    """Draw a task of five kinds of text, with texts of five other kinds."""
    generator = np.random.default_rng(seed)
    own, other = generator.normal(size=(2, 5, DIMENSION))
    reference = own[np.arange(40) % 5] + noise * generator.normal(size=(40, DIMENSION))
    inside = own[np.arange(30) % 5] + noise * generator.normal(size=(30, DIMENSION))
    outside = other[np.arange(n_outside) % 5] + noise * generator.normal(size=(n_outside, DIMENSION))
    is_outside = np.arange(30 + n_outside) >= 30
    return ScopeExample(reference, np.concatenate([inside, outside]), is_outside)


def score(model: ScopeModel, example: ScopeExample) -> Any:
    return model.score(example.reference, example.representation)


@pytest.mark.parametrize("seed", range(5))
def test_texts_from_outside_are_told_in_tasks_never_seen(seed: int) -> None:
    model = fit_scope([draw_example(100 * seed + number) for number in range(6)])
    new = draw_example(7_000 + seed)
    found = score(model, new)
    assert ((found >= 0) & (found <= 1)).all()
    assert auroc(found[~new.is_outside], found[new.is_outside]) > 0.97
    # It is a probability where both kinds are as frequent.
    assert found[new.is_outside].mean() > 0.75
    assert found[~new.is_outside].mean() < 0.25


@pytest.mark.parametrize("seed", range(3))
def test_without_structure_there_is_no_scope(seed: int) -> None:
    generator = np.random.default_rng(seed)
    examples = [
        ScopeExample(
            generator.normal(size=(20, DIMENSION)),
            generator.normal(size=(200, DIMENSION)),
            np.arange(200) % 2 == 0,
        )
        for _ in range(6)
    ]
    model = fit_scope(examples[:5])
    found = score(model, examples[5])
    assert 0.35 < auroc(found[1::2], found[::2]) < 0.65


def test_nearer_is_more_in_scope() -> None:
    assert fit_scope([draw_example(number) for number in range(6)]).slope < 0


def test_many_texts_from_outside_or_large_tasks_do_not_tip_the_scale() -> None:
    few = fit_scope([draw_example(0), draw_example(1)])
    doubled = draw_example(1)
    twice = ScopeExample(
        doubled.reference,
        np.repeat(doubled.representation, 2, axis=0),
        np.repeat(doubled.is_outside, 2),
    )
    many = fit_scope([draw_example(0), twice])
    assert many.slope == pytest.approx(few.slope, rel=1e-6)
    inside = np.flatnonzero(~doubled.is_outside)
    more_own = np.concatenate([inside, np.arange(len(doubled.is_outside))])
    tipped = ScopeExample(
        doubled.reference,
        doubled.representation[more_own],
        doubled.is_outside[more_own],
    )
    assert fit_scope([tipped]).intercept == pytest.approx(fit_scope([doubled]).intercept, rel=1e-6)


def test_a_text_alone_is_the_text_in_company() -> None:
    model, example = fit_scope([draw_example(0)]), draw_example(3)
    whole = score(model, example)
    for row in range(0, len(whole), 7):
        alone = model.score(example.reference, example.representation[row : row + 1])
        assert alone[0] == whole[row]


def test_the_cosines_by_hand() -> None:
    reference = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0], [-1.0, 0.0]])
    cosines = nearest_cosines(reference, np.array([[5.0, 0.0], [0.0, 0.0]]))
    assert cosines == pytest.approx([(1 + np.sqrt(0.5) + 0) / 3, 0.0], abs=1e-6)
    # With fewer than three training texts, those there are.
    assert nearest_cosines(reference[:1], reference[:2]) == pytest.approx([1.0, 0.0])
    # Neither very small nor very large numbers are lost.
    assert nearest_cosines(reference * 1e-200, reference[:1] * 1e200) == pytest.approx(
        nearest_cosines(reference, reference[:1])
    )
    assert nearest_cosines(reference, np.zeros((0, 2))).shape == (0,)


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_that_of_scikit_learn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    feature = generator.normal(size=200) * 5 + 3
    target = feature - 3 + generator.logistic(size=200) > 0
    weight = generator.uniform(0.5, 2.0, 200)
    weight /= weight.sum()
    slope, intercept = fit_logistic(feature, target, weight)
    centre = weight @ feature
    spread = np.sqrt(weight @ (feature - centre) ** 2)
    reference = LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=1000)
    reference.fit(((feature - centre) / spread)[:, None], target, sample_weight=weight)
    assert slope == pytest.approx(reference.coef_[0, 0] / spread, rel=1e-4)
    assert intercept == pytest.approx(reference.intercept_[0] - slope * centre, rel=1e-4)


def test_classes_that_are_apart_and_a_feature_that_does_not_vary() -> None:
    slope, intercept = fit_logistic(np.array([0.0, 1.0]), np.array([False, True]), np.full(2, 0.5))
    assert 1 < slope < np.inf
    assert np.isfinite(intercept)
    assert fit_logistic(np.full(2, 7.0), np.array([False, True]), np.full(2, 0.5))[0] == pytest.approx(0.0)


def test_examples_without_both_kinds_are_left_out() -> None:
    whole = draw_example(0)
    inside = ScopeExample(whole.reference, whole.representation[:30], whole.is_outside[:30])
    assert fit_scope([inside, whole]) == fit_scope([whole])
    with pytest.raises(DataError, match="nothing to learn the scope from"):
        fit_scope([inside])
    with pytest.raises(DataError, match="nothing to learn"):
        fit_scope([])


@pytest.mark.parametrize("rejects", [0.05, 0.1, 0.2])
def test_the_promised_share_of_own_texts_is_rejected(rejects: float) -> None:
    """Over all tasks; and about for those whose texts are alike, and for those whose texts are not."""
    noises = np.tile([0.2, 0.6], 40)
    model = fit_scope([draw_example(number, noise=noise) for number, noise in enumerate(noises)])
    rates: dict[float, list[float]] = {0.2: [], 0.6: []}
    for number, noise in enumerate(noises):
        new = draw_example(1_000 + number, noise=noise)
        own = score(model, new)[~new.is_outside]
        rates[noise].append(float((own > model.threshold(new.reference, rejects=rejects)).mean()))
    assert abs(float(np.mean(list(rates.values()))) - rejects) < 0.02
    for of_noise in rates.values():
        assert rejects / 3 < float(np.mean(of_noise)) < 2 * rejects


def test_a_task_of_one_example_rejects_nothing_that_is_like_it() -> None:
    model, new = fit_scope([draw_example(number) for number in range(6)]), draw_example(9)
    alone = new.reference[:1]
    assert (model.score(alone, alone * 2.0) <= model.threshold(alone)).all()


def test_models_go_through_arrays() -> None:
    model = fit_scope([draw_example(0)])
    assert ScopeModel.from_arrays(model.arrays()) == model
    for damaged in (
        {},
        {"slope": np.zeros(1)},
        {"slope": np.zeros(2), "intercept": np.zeros(1)},
        {"slope": np.zeros(1), "intercept": np.array([np.nan])},
    ):
        with pytest.raises(StoreError, match="out-of-scope model is damaged"):
            ScopeModel.from_arrays(damaged)


EYE = np.eye(2)


@pytest.mark.parametrize(
    ("reference", "representation", "error"),
    [
        (EYE[:0], EYE, UsageError),
        (np.eye(3), EYE, UsageError),
        (EYE[0], EYE, UsageError),
        (EYE, EYE * np.nan, DataError),
    ],
)
def test_what_cannot_be_scored_is_refused(reference: Any, representation: Any, error: Any) -> None:
    with pytest.raises(error):
        ScopeModel(-1.0, 0.0).score(reference, representation)


@pytest.mark.parametrize("is_outside", [np.array([0, 1]), np.array([True])])
def test_wrong_truths_are_refused(is_outside: Any) -> None:
    with pytest.raises(UsageError, match="example 0: is_outside"):
        fit_scope([ScopeExample(EYE, EYE, is_outside)])


@pytest.mark.parametrize("seed", range(5))
def test_the_area_is_that_of_the_rank_test(seed: int) -> None:
    generator = np.random.default_rng(seed)
    inside, outside = generator.integers(0, 8, 30) / 8, generator.integers(2, 10, 20) / 8
    expected = mannwhitneyu(outside, inside).statistic / 600
    assert auroc(inside, outside) == pytest.approx(expected)
    assert auroc(outside, inside) == pytest.approx(1 - expected)


@pytest.mark.parametrize(
    ("inside", "outside", "error"),
    [([], [0.5], UsageError), ([0.5], [[0.5]], UsageError), ([0.5], [np.nan], DataError)],
)
def test_wrong_scores(inside: Any, outside: Any, error: Any) -> None:
    with pytest.raises(error):
        auroc(inside, outside)
