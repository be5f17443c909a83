"""Fine-tuned weights as a file: written whole, and refused where they are damaged or of another model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from robusttc.encoders.weight_delta import (
    apply_weight_delta,
    hash_weight_delta,
    read_weight_delta,
    write_weight_delta,
)
from robusttc.errors import DataError, StoreError

DELTA = {
    "weight": np.arange(12, dtype=np.float32).reshape(4, 3),
    "bias": np.ones(4, dtype=np.float32),
}


def test_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "delta.safetensors"
    write_weight_delta(path, {"bias": DELTA["bias"]}, base="other")
    write_weight_delta(path, DELTA, base="abc")
    delta, base = read_weight_delta(path)
    assert base == "abc"
    assert hash_weight_delta(delta) == hash_weight_delta(DELTA)
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o077 == 0
    layer = torch.nn.Linear(3, 4)
    apply_weight_delta(layer, delta, where="here")
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


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "delta.safetensors"
    with pytest.raises(StoreError, match=r"delta\.safetensors: .*cannot be read"):
        read_weight_delta(path)
    write_weight_delta(path, DELTA, base="abc")
    good = path.read_bytes()
    for damaged in (good[:-1], b"junk", b"", good[:-1] + bytes([good[-1] ^ 1])):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="cannot be read"):
            read_weight_delta(path)
    with pytest.raises(StoreError, match="SHA-256 is another"):
        read_weight_delta(path)
    save_file(DELTA, path)
    with pytest.raises(StoreError, match="a file of format None; expected a file of format 'robusttc"):
        read_weight_delta(path)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        write_weight_delta(tmp_path / "taken", DELTA, base="abc")
    assert [found.name for found in tmp_path.iterdir()] == ["taken"]
