"""The settings of measuring: what they take, what they refuse, and their fingerprint."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from robusttc.errors import UsageError
from robusttc.models import TrainingSettings
from robusttc.transfer.pair_scores import MEASURES, TransferSettings


@pytest.mark.parametrize("kind", MEASURES)
def test_every_kind_is_taken(kind: str) -> None:
    settings = TransferSettings(kind=kind)
    assert settings.kind == kind
    assert settings.uses_leave_one_out == (kind in ("log_likelihood", "brier"))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("kind", "log_likelyhood", r"kind.*'log_likelyhood'.*Did you mean 'log_likelihood'"),
        ("kind", "acuracy", r"Did you mean 'accuracy'"),
        ("kind", None, "kind"),
        ("kind", ["brier"], "kind"),
        ("label_sets", "identicle", r"label_sets.*Did you mean 'identical'"),
        ("measure_width", 0, "measure_width cannot be used; got 0; expected an integer from 1 up or None"),
        ("measure_width", True, "measure_width"),
        ("measure_width", 2.0, "measure_width"),
        ("measure_width", "6", "measure_width"),
        ("training", {"epochs": 3}, "training cannot be used.*expected a TrainingSettings"),
    ],
)
def test_bad_values_are_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TransferSettings(**{option: value})
    with pytest.raises(UsageError, match=message):
        TransferSettings().replace(**{option: value})


def test_unknown_setting_has_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"no such setting; got 'label_set'.*Did you mean 'label_sets'"):
        TransferSettings().replace(label_set=1.0)


OTHER_VALUES: dict[str, Any] = {
    "kind": "brier",
    "measure_width": None,
    "label_sets": "different",
    "training": TrainingSettings(epochs=3),
}


def test_fingerprint_tells_every_setting() -> None:
    assert set(OTHER_VALUES) == {field.name for field in dataclasses.fields(TransferSettings)}
    settings = TransferSettings()
    prints = {settings.replace(**{name: value}).fingerprint for name, value in OTHER_VALUES.items()}
    assert len(prints | {settings.fingerprint}) == len(OTHER_VALUES) + 1


def test_equal_settings_have_equal_fingerprints() -> None:
    assert TransferSettings().replace() == TransferSettings()
    numpy_width = TransferSettings(measure_width=np.int64(5))  # type: ignore[arg-type]
    assert numpy_width == TransferSettings(measure_width=5)
    assert numpy_width.fingerprint == TransferSettings(measure_width=5).fingerprint
