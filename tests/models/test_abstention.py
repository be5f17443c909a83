"""From probabilities to answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.errors import UsageError
from robusttc.models import check_threshold, pick_labels


def test_answers_below_the_threshold_are_none() -> None:
    table = np.array([[0.2, 0.8], [0.55, 0.45], [0.5, 0.5]])
    assert pick_labels(table, ["1", "2"]).tolist() == ["2", "1", "1"]
    assert pick_labels(table, ["1", "2"], threshold=0.55).tolist() == ["2", "1", None]
    assert pick_labels(np.zeros((0, 2)), ["1", "2"], threshold=0.5).tolist() == []


@pytest.mark.parametrize("wrong", [-0.1, 1.5, True, "0.5", float("nan")])
def test_a_threshold_that_is_no_probability_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="abstain_below"):
        check_threshold(wrong)


def test_no_threshold_is_zero() -> None:
    assert check_threshold(None) == 0.0
    assert check_threshold(1) == 1.0
