"""The settings of measuring: what they take, what they refuse, and their fingerprint."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from robusttc.errors import UsageError
from robusttc.models import TrainingSettings
from robusttc.transfer.plan import MEASURES, TransferSettings


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
        ("train_layer", "yes", "train_layer cannot be used; got 'yes'; expected True or False"),
        ("train_layer", 1, "train_layer cannot be used; got 1"),
        ("train_layer", None, "train_layer"),
        ("measure_width", 0, "measure_width cannot be used; got 0; expected an integer from 1 up or None"),
        ("measure_width", True, "measure_width"),
        ("measure_width", 2.0, "measure_width"),
        ("measure_width", "6", "measure_width"),
        ("shrinkage", -0.1, "shrinkage cannot be used; got -0.1; expected a number from 0 to 1"),
        ("shrinkage", 1.1, "shrinkage"),
        ("shrinkage", float("nan"), "shrinkage"),
        ("shrinkage", True, "shrinkage"),
        ("ridge", 0, "ridge cannot be used; got 0; expected a positive number"),
        ("ridge", float("inf"), "ridge"),
        ("ridge", float("nan"), "ridge"),
        ("ridge", "1", "ridge"),
        ("classifier_c", -1.0, "classifier_c"),
        ("training", {"epochs": 3}, "training cannot be used.*expected a TrainingSettings"),
    ],
)
def test_bad_values_are_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TransferSettings(**{option: value})
    with pytest.raises(UsageError, match=message):
        TransferSettings().replace(**{option: value})


def test_unknown_setting_has_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"no such setting; got 'rigde'.*Did you mean 'ridge'"):
        TransferSettings().replace(rigde=1.0)


OTHER_VALUES: dict[str, Any] = {
    "kind": "brier",
    "measure_width": None,
    "shrinkage": 0.5,
    "ridge": 2.0,
    "classifier_c": 3.0,
    "label_sets": "different",
    "train_layer": True,
    "training": TrainingSettings(epochs=3),
}


def test_fingerprint_tells_every_setting() -> None:
    assert set(OTHER_VALUES) == {field.name for field in dataclasses.fields(TransferSettings)}
    settings = TransferSettings()
    prints = {settings.replace(**{name: value}).fingerprint for name, value in OTHER_VALUES.items()}
    assert len(prints | {settings.fingerprint}) == len(OTHER_VALUES) + 1


def test_equal_settings_have_equal_fingerprints() -> None:
    assert TransferSettings(ridge=1, shrinkage=1) == TransferSettings(ridge=1.0, shrinkage=1.0)
    assert TransferSettings(ridge=1).fingerprint == TransferSettings(ridge=1.0).fingerprint
    assert TransferSettings().replace() == TransferSettings()


def test_numbers_of_numpy_are_numbers() -> None:
    values: dict[str, Any] = {"measure_width": np.int64(5), "ridge": np.float32(2), "train_layer": np.True_}
    plain = TransferSettings(measure_width=5, ridge=2.0, train_layer=True)
    assert TransferSettings(**values) == plain
    assert TransferSettings(**values).fingerprint == plain.fingerprint
