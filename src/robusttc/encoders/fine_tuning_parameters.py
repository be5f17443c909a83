"""Which tensors of a transformer are trained: those of its upper layers, or thin matrices added to them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from robusttc.random import torch_generator

__all__ = ["LowRank", "choose_parameters"]


class LowRank(nn.Module):
    """A weight matrix that stays as it is, plus a trained product of two thin matrices, which starts at 0."""

    def __init__(self, weight: torch.Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        n_out, n_in = weight.shape
        down = torch.randn(rank, n_in, generator=generator) / n_in**0.5
        self.down = nn.Parameter(down.to(weight.device))
        self.up = nn.Parameter(torch.zeros(n_out, rank, device=weight.device))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Give the changed weight."""
        return weight + self.up @ self.down


def choose_parameters(bert: Any, first_layer: int, rank: int | None, seed: int) -> dict[str, nn.Parameter]:
    """Switch gradients off for all but the chosen parameters, and give those by name."""
    for parameter in bert.parameters():
        parameter.requires_grad_(False)
    prefixes = tuple(f"encoder.layer.{number}." for number in range(first_layer, len(bert.encoder.layer)))
    if rank is None:
        chosen = {name: value for name, value in bert.named_parameters() if name.startswith(prefixes)}
        for parameter in chosen.values():
            parameter.requires_grad_(True)
        return chosen
    matrices = [
        (name, module)
        for name, module in bert.named_modules()
        if name.startswith(prefixes) and isinstance(module, nn.Linear)
    ]
    factors: dict[str, nn.Parameter] = {}
    for name, module in matrices:
        added = LowRank(module.weight, rank, torch_generator(seed, "low rank", [name]))
        parametrize.register_parametrization(module, "weight", added)
        factors |= {f"{name}.weight#up": added.up, f"{name}.weight#down": added.down}
    return factors
