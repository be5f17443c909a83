"""The same training in torch gives the same models; devices that are not there are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from robusttc.data import TokenArray
from robusttc.encoders import device as device_module
from robusttc.encoders.device import resolve_device
from robusttc.encoders.inputs import DenseInputs, FrozenInputs, WordInputs
from robusttc.encoders.settings import TrainingSettings
from robusttc.encoders.torch_training import train_with_torch
from robusttc.encoders.training import train_model
from robusttc.errors import UsageError
from robusttc.random import numpy_generator


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_inputs(kind: str, seed: int) -> FrozenInputs:
    generator = np.random.default_rng(seed)
    if kind == "dense":
        return DenseInputs(generator.normal(size=(50, 12)).astype(np.float32))
    lengths = generator.integers(0, 8, 50)
    vectors = generator.normal(size=(40, 12)).astype(np.float32)
    vectors[0] = 0
    ids = generator.integers(0, 40, lengths.sum())
    return WordInputs(TokenArray(ids, np.concatenate([[0], np.cumsum(lengths)])), vectors)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("words", {}),
        ("words", {"embeddings": "pretrained"}),
        ("words", {"embeddings": "random"}),
        ("words", {"window": 4, "dropout": 0.0}),
        ("dense", {}),
        ("dense", {"activation": "linear", "dropout": 0.0}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_both_loops_make_the_same_model(kind: str, changes: dict[str, Any], seed: int) -> None:
    inputs = make_inputs(kind, seed)
    codes = np.random.default_rng(seed).integers(0, 4, 50)
    settings = TrainingSettings(width=20, epochs=5, min_steps=0, batch_size=16).replace(**changes)
    ours, reference = (
        train(inputs, codes, n_labels=4, settings=settings, generator=numpy_generator(seed, "train"))
        for train in (train_model, train_with_torch)
    )
    start = train_model(
        inputs,
        codes,
        n_labels=4,
        settings=settings.replace(learning_rate=1e-12),
        generator=numpy_generator(seed, "train"),
    )
    for name, array in ours.layer.parameters().items():
        np.testing.assert_allclose(array, reference.layer.parameters()[name], atol=1e-3)
        assert np.abs(array - start.layer.parameters()[name]).max() > 0.01, "it was trained"
    np.testing.assert_allclose(ours.head_weight, reference.head_weight, atol=1e-3)
    np.testing.assert_allclose(ours.head_bias, reference.head_bias, atol=1e-3)
    assert np.array_equal(ours.predict_codes(inputs), reference.predict_codes(inputs))


def test_the_device_decides_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def spy(*arguments: Any, device: str, **options: Any) -> Any:
        used.append(device)
        return train_with_torch(*arguments, device="cpu", **options)

    monkeypatch.setattr("robusttc.encoders.torch_training.train_with_torch", spy)
    monkeypatch.setattr(device_module, "find_devices", lambda: ["cuda:0", "cpu"])
    inputs = make_inputs("dense", 0)
    settings = TrainingSettings(width=4, epochs=1, min_steps=0)
    for device in ("auto", "cuda", "cpu"):
        train_model(
            inputs,
            np.arange(50) % 2,
            n_labels=2,
            settings=settings,
            generator=numpy_generator(0, "x"),
            device=device,
        )
    assert used == ["cuda:0", "cuda:0"]


def test_devices_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_device("cpu") == "cpu"
    monkeypatch.setattr(device_module, "find_devices", lambda: ["cuda:0", "cuda:1", "cpu"])
    assert resolve_device("auto") == "cuda:0"
    assert resolve_device("cuda") == "cuda:0"
    assert resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(UsageError, match="one of cuda:0, cuda:1, cpu"):
        resolve_device("mps")
    with pytest.raises(UsageError, match="one of cuda:0, cuda:1, cpu"):
        resolve_device("cuda:2")
    monkeypatch.setattr(device_module, "find_devices", lambda: ["cpu"])
    assert resolve_device("auto") == "cpu"


@pytest.mark.parametrize("wrong", ["cud", "cuda:x", "gpu", "", "CPU"])
def test_a_device_of_another_name_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="no device of this name"):
        resolve_device(wrong)
    with pytest.raises(UsageError, match="Did you mean 'cuda'"):
        resolve_device("cud")


def test_the_devices_of_this_machine_end_in_the_cpu() -> None:
    assert device_module.find_devices()[-1] == "cpu"
