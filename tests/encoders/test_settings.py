"""Training settings are checked, hashable, and tell a misspelt name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robusttc.encoders.settings import TrainingSettings
from robusttc.errors import UsageError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("width", 2.0),
        ("window", True),
        ("epochs", -1),
        ("min_steps", -1),
        ("batch_size", "32"),
        ("learning_rate", 0),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("learning_rate", "fast"),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("dropout", False),
        ("embeddings", "glove"),
        ("activation", None),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be used"):
        TrainingSettings(**{name: value})


def test_a_misspelt_word_or_name_is_told() -> None:
    with pytest.raises(UsageError, match="Did you mean 'frozen'"):
        TrainingSettings(embeddings="frozn")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Did you mean 'learning_rate'"):
        TrainingSettings().replace(learning_rat=1)


def test_fingerprint_depends_on_values_alone() -> None:
    plain = TrainingSettings()
    assert plain.fingerprint == TrainingSettings(width=np.int64(200), dropout=np.float32(0.5)).fingerprint  # type: ignore[arg-type]
    assert len({plain.replace(width=n).fingerprint for n in range(1, 50)}) == 49
    assert len(plain.fingerprint) == 64
    assert {plain: 1}[TrainingSettings()] == 1
    assert plain.replace(learning_rate=1) == plain.replace(learning_rate=1.0)


def test_small_tasks_get_whole_epochs_until_min_steps() -> None:
    settings = TrainingSettings(epochs=40, min_steps=200, batch_size=32)
    assert settings.count_epochs(10) == 200
    assert settings.count_epochs(33) == 100
    assert settings.count_epochs(1000) == 40
