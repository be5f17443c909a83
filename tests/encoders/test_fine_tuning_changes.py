"""Changes of a model: what they add up to, and what is refused of a folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from robusttc.encoders.fine_tuning_changes import (
    apply_changes,
    compose_changes,
    hash_changes,
    read_changes,
    write_changes,
)
from robusttc.errors import DataError, StoreError
from robusttc.random import numpy_generator

Floats = NDArray[np.float32]


def random_changes(kind: str, seed: int) -> dict[str, Floats]:
    generator = numpy_generator(seed, kind)

    def draw(*shape: int) -> Floats:
        return generator.normal(size=shape).astype(np.float32)

    if kind == "full":
        return {"weight": draw(4, 3), "bias": draw(4)}
    if kind == "thin":
        return {"weight#up": draw(4, 2), "weight#down": draw(2, 3)}
    return {"weight": draw(4, 3), "weight#up": draw(4, 1), "weight#down": draw(1, 3)}


def changed(layer: torch.nn.Linear, changes: dict[str, Floats]) -> Floats:
    copy = torch.nn.Linear(3, 4)
    copy.load_state_dict(layer.state_dict())
    apply_changes(copy, changes, where="here")
    values: Floats = copy.weight.detach().numpy()
    return values


@pytest.mark.parametrize("first", ["full", "thin", "both"])
@pytest.mark.parametrize("then", ["full", "thin", "both"])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_after_the_other_is_their_composition(first: str, then: str, seed: int) -> None:
    layer = torch.nn.Linear(3, 4)
    one, two = random_changes(first, seed), random_changes(then, seed + 10)
    once = torch.nn.Linear(3, 4)
    once.load_state_dict(layer.state_dict())
    apply_changes(once, one, where="here")
    np.testing.assert_allclose(
        changed(once, two), changed(layer, compose_changes(one, two)), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(changed(layer, compose_changes(None, two)), changed(layer, two))


def test_changes_that_do_not_fit() -> None:
    layer = torch.nn.Linear(3, 4)
    zeros = np.zeros((4, 3), dtype=np.float32)
    for changes, message in (
        ({"other": zeros}, r"here: .*does not have; got 'other'"),
        ({"weight": zeros.T}, r"got 'weight' of shape \(3, 4\); expected finite numbers of shape \(4, 3\)"),
        ({"weight": zeros + np.nan}, "finite"),
        ({"weight#up": zeros, "weight#down": zeros}, "a change does not fit"),
        ({"weight#up": zeros}, "a change does not fit"),
        ({"weight#down": zeros}, "a change does not fit"),
        ({"weight#sideways": zeros}, "does not have"),
    ):
        with pytest.raises(DataError, match=message):
            apply_changes(layer, changes, where="here")


def test_kept_and_read(tmp_path: Path) -> None:
    changes = random_changes("both", 0)
    write_changes(tmp_path / "kept", changes, base="abc", about={"seed": 3})
    read, manifest = read_changes(tmp_path / "kept")
    assert (manifest["base"], manifest["seed"]) == ("abc", 3)
    assert hash_changes(read) == hash_changes(changes)
    changes["weight"] = changes["weight"] + np.float32(1e-6)
    assert hash_changes(read) != hash_changes(changes)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    with pytest.raises(OSError, match="kept"):
        write_changes(tmp_path / "kept", changes, base="abc")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_damaged_folders(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with pytest.raises(StoreError, match=r"changes\.json: .*cannot be read"):
        read_changes(folder)
    write_changes(folder, random_changes("full", 0), base="abc")
    good = (folder / "changes.safetensors").read_bytes()
    (folder / "changes.safetensors").write_bytes(good[:-1])
    with pytest.raises(StoreError, match=r"changes\.safetensors: the file is damaged"):
        read_changes(folder)
    (folder / "changes.safetensors").unlink()
    with pytest.raises(StoreError, match=r"changes\.safetensors: the tensors cannot be read"):
        read_changes(folder)
    manifest = json.loads((folder / "changes.json").read_text())
    for values in ({"version": 99}, {"kind": "other"}, {"base": 3}):
        (folder / "changes.json").write_text(json.dumps({**manifest, **values}))
        with pytest.raises(StoreError, match="another version"):
            read_changes(folder)
    (folder / "changes.json").write_text("[]")
    with pytest.raises(StoreError, match="cannot be read"):
        read_changes(folder)
