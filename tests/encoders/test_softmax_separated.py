"""Labels that are separated for good: the curvature is zero at the end of the precision."""

from __future__ import annotations

import numpy as np
import pytest

from robusttc.encoders.softmax import fit_softmax


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 100.0])
def test_separated_labels_are_fitted(scale: float) -> None:
    for seed in range(40):
        generator = np.random.default_rng(seed)
        n_labels, dimension, n_rows = (int(generator.integers(*ends)) for ends in ((2, 5), (12, 30), (5, 40)))
        n_rows = max(n_rows, n_labels)
        codes = np.arange(n_rows) % n_labels
        centres = scale * generator.normal(size=(n_labels, dimension))
        features = (centres[codes] + generator.normal(size=(n_rows, dimension))).astype(np.float32)
        for inverse_penalty in (1.0, 30.0, 300.0):
            fitted = fit_softmax(features, codes, n_labels=n_labels, C=inverse_penalty, balanced=True)
            assert np.isfinite(fitted.weight).all()
            if scale >= 3:
                assert (fitted.predict_codes(features) == codes).all()
