from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from robusttc.baselines.sparse_softmax import fit_sparse_softmax
from robusttc.models import NEVER, fit_softmax


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_labels", [2, 5])
@pytest.mark.parametrize("balanced", [True, False])
def test_it_is_the_dense_classifier(seed: int, n_labels: int, balanced: bool) -> None:
    generator = np.random.default_rng(seed)
    dense = generator.normal(3.0, 1.0, size=(60, 4))
    thin = sparse.csr_array(generator.random((60, 30)) * (generator.random((60, 30)) < 0.1))
    codes = np.concatenate([np.arange(n_labels), generator.integers(n_labels, size=60 - n_labels)])
    C = float(10 ** generator.uniform(-1, 2))
    both = np.hstack([dense, thin.toarray()])
    first, second, bias = fit_sparse_softmax(
        dense, thin, codes, n_labels=n_labels, C=C, balanced=balanced, tol=1e-12
    )
    reference = fit_softmax(both, codes, n_labels=n_labels, C=C, balanced=balanced, tol=1e-8)
    assert np.vstack([first, second]) == pytest.approx(reference.weight, abs=0.02)
    logits = dense @ first + thin @ second + bias
    expected = both @ reference.weight + reference.bias
    # Adding a number to all logits of a row changes nothing.
    logits -= logits.mean(axis=1, keepdims=True)
    assert logits == pytest.approx(expected - expected.mean(axis=1, keepdims=True), abs=0.02)


def test_a_label_that_does_not_occur_is_never_predicted() -> None:
    dense = np.array([[0.0], [1.0]])
    first, second, bias = fit_sparse_softmax(
        dense, sparse.csr_array((2, 3)), np.array([0, 2]), n_labels=3, C=1.0, balanced=True
    )
    assert (first.shape, second.shape) == ((1, 3), (3, 3))
    assert bias[1] == NEVER
    assert not first[:, 1].any()
    assert not second.any()
