"""Devices by their names."""

from __future__ import annotations

from typing import Any

import pytest

from robusttc.encoders import resolve_device, sentence
from robusttc.errors import UsageError


def test_devices_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_device("cpu") == "cpu"
    monkeypatch.setattr(sentence, "find_devices", lambda: ["cuda:0", "cuda:1", "cpu"])
    assert resolve_device("auto") == "cuda:0"
    assert resolve_device("cuda") == "cuda:0"
    assert resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(UsageError, match="expected auto or one of cuda:0, cuda:1, cpu"):
        resolve_device("mps")
    with pytest.raises(UsageError, match="expected auto or one of cuda:0, cuda:1, cpu"):
        resolve_device("cuda:2")
    monkeypatch.setattr(sentence, "find_devices", lambda: ["cpu"])
    assert resolve_device("auto") == "cpu"


@pytest.mark.parametrize("wrong", ["cud", "cuda:x", "gpu", "", "CPU", 3, ["cpu"]])
def test_a_device_of_another_name_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="the device is not available"):
        resolve_device(wrong)
    with pytest.raises(UsageError, match="Did you mean 'cuda'"):
        resolve_device("cud")


def test_the_devices_of_this_machine_end_in_the_cpu() -> None:
    assert sentence.find_devices()[-1] == "cpu"
