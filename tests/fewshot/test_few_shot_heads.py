"""Classifiers on a few vectors, and where names stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.heads import fit_prototypes, fit_regression, leave_one_out_prototypes
from robusttc.fewshot.losses import softmax_rows, sum_rows, unit_rows
from robusttc.fewshot.name_map import fit_name_map, place_names

SEEDS = [0, 1, 2]


def make_case(seed: int) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(seed)
    vectors = unit_rows(generator.normal(size=(9, 6)).astype(np.float32))
    names = unit_rows(generator.normal(size=(4, 6)).astype(np.float32))
    return vectors, np.array([0, 1, 1, 2, 2, 2, 0, 3, 1]), names


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("with_names", [False, True])
def test_leave_one_out_prototypes_are_those_fitted_without_the_row(seed: int, with_names: bool) -> None:
    vectors, codes, names = make_case(seed)
    chosen = names if with_names else None
    left_out = leave_one_out_prototypes(vectors, codes, n_labels=4, scale=7.0, names=chosen)
    for row in range(len(codes)):
        others = np.arange(len(codes)) != row
        weight, bias = fit_prototypes(vectors[others], codes[others], n_labels=4, scale=7.0, names=chosen)
        logits = (vectors[row : row + 1] @ weight + bias).astype(np.float64)
        if not with_names and (codes == codes[row]).sum() == 1:
            logits[0, codes[row]] = -np.inf
        np.testing.assert_allclose(left_out[row], softmax_rows(logits)[0], atol=1e-5)


def test_names_are_one_more_vector_of_their_label() -> None:
    vectors, codes, names = make_case(0)
    by_names = fit_prototypes(vectors, codes, n_labels=4, scale=3.0, names=names)
    by_rows = fit_prototypes(
        np.concatenate([vectors, names]), np.concatenate([codes, np.arange(4)]), n_labels=4, scale=3.0
    )
    np.testing.assert_allclose(by_names[0], by_rows[0], atol=1e-5)
    first = fit_regression(vectors, codes, n_labels=4, C=10.0, names=names)
    second = fit_regression(
        np.concatenate([vectors, names]), np.concatenate([codes, np.arange(4)]), n_labels=4, C=10.0
    )
    assert (first[0] == second[0]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_of_labels(seed: int) -> None:
    vectors, codes, _ = make_case(seed)
    expected = np.array([vectors[codes == label].sum(axis=0) for label in range(5)])
    np.testing.assert_allclose(sum_rows(vectors, codes, 5), expected, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_name_map_learns_a_planted_turn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    names: Any = unit_rows(generator.normal(size=(300, 8)).astype(np.float32))
    turn = np.linalg.qr(generator.normal(size=(8, 8)))[0].astype(np.float32)
    texts = unit_rows(names @ turn + 0.05 * generator.normal(size=(300, 8)).astype(np.float32))
    vectors = np.concatenate([names, texts])
    sources = [
        SourceRows(
            f"t{number}", 300 + np.arange(10) + 10 * number, np.arange(10), np.arange(10) + 10 * number
        )
        for number in range(25)
    ]
    name_map = fit_name_map(lambda items: vectors[items], sources, strength=0.1)
    again = fit_name_map(lambda items: vectors[items], sources[::-1], strength=0.1)
    assert name_map is not None
    assert (name_map == again).all()
    # On the 50 labels that were not shown.
    placed = (place_names(names[250:], name_map) * texts[250:]).sum(axis=1)
    plain = (place_names(names[250:], None) * texts[250:]).sum(axis=1)
    assert placed.mean() > 0.95 > plain.mean()


def test_few_or_no_names_leave_names_where_they_are() -> None:
    vectors = np.eye(8, dtype=np.float32)
    few = SourceRows("a", np.arange(4), np.arange(4), np.arange(4, 8))
    none = SourceRows("b", np.arange(4), np.arange(4), np.full(4, -1))
    assert fit_name_map(lambda items: vectors[items], [few, none], strength=1.0) is None
