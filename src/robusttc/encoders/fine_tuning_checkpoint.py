"""The state of a fine-tuning run on disk: one safetensors file, replaced as a whole."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import torch

from robusttc.errors import DataWarning

__all__ = ["read_checkpoint", "write_checkpoint"]

MOMENTS = ("exp_avg", "exp_avg_sq")


def write_checkpoint(
    path: Path, parameters: dict[str, torch.nn.Parameter], optimiser: torch.optim.Adam, *, step: int, key: str
) -> None:
    """Keep parameters and moments after so many steps; whoever is stopped meanwhile finds the old ones."""
    from safetensors.torch import save_file

    tensors = {f"value:{name}": parameter.detach().contiguous() for name, parameter in parameters.items()}
    for name, parameter in parameters.items():
        state = optimiser.state[parameter]
        tensors |= {f"{moment}:{name}": state[moment].contiguous() for moment in MOMENTS}
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        save_file(tensors, beside, metadata={"step": str(step), "key": key})
        with beside.open("rb") as stream:
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_checkpoint(
    path: Path, parameters: dict[str, torch.nn.Parameter], optimiser: torch.optim.Adam, *, key: str
) -> int:
    """Put a kept state into parameters and optimiser, and give the number of steps done.

    0 if there is none, or if it belongs to another run. A damaged file is told of and passed over.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return 0
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("key") != key:
                return 0
            step = int(about["step"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        warnings.warn(
            f"{path}: a checkpoint cannot be read ({error}); beginning anew", DataWarning, stacklevel=2
        )
        return 0
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"value:{name}"])
            state = optimiser.state[parameter]
            state["step"] = torch.tensor(float(step))
            for moment in MOMENTS:
                state[moment] = tensors[f"{moment}:{name}"].to(parameter.device)
    return step
