"""Fine-tuned weights: their hash, and where they do not fit a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from robusttc.encoders.sentence import apply_weight_delta, hash_weight_delta
from robusttc.errors import DataError

DELTA = {
    "weight": np.arange(12, dtype=np.float32).reshape(4, 3),
    "bias": np.ones(4, dtype=np.float32),
}


def test_weights_are_replaced_in_place() -> None:
    layer = torch.nn.Linear(3, 4)
    apply_weight_delta(layer, DELTA, where="here")
    np.testing.assert_array_equal(layer.weight.detach(), DELTA["weight"])
    np.testing.assert_array_equal(layer.bias.detach(), DELTA["bias"])


def test_the_hash_is_of_names_shapes_and_values() -> None:
    weight, bias = DELTA["weight"], DELTA["bias"]
    others = (
        {"weight": weight, "bias": bias + np.float32(1e-6)},
        {"weight": weight.reshape(3, 4), "bias": bias},
        {"weight": weight, "other": bias},
        {"weight": weight},
    )
    assert len({hash_weight_delta(delta) for delta in (DELTA, *others)}) == 5


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        (
            {"other": DELTA["bias"]},
            r"here: .*'other' of shape \(4,\); expected a tensor of the model",
        ),
        (
            {"weight": DELTA["weight"].T},
            r"shape \(3, 4\); expected finite numbers of shape \(4, 3\)",
        ),
        ({"bias": DELTA["bias"] * np.float32(np.nan)}, "expected finite numbers"),
    ],
)
def test_weights_that_do_not_fit(delta: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DataError, match=message):
        apply_weight_delta(torch.nn.Linear(3, 4), delta, where="here")
