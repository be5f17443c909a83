"""Where training runs, settled once at the edge."""

from __future__ import annotations

import re

from robusttc.errors import UsageError, nearest_name, quote

__all__ = ["resolve_device"]


def resolve_device(device: str) -> str:
    """Give the name of a device that is there: ``cpu``, ``cuda:N`` or ``mps``.

    Parameters
    ----------
    device
        ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; ``auto`` takes a GPU if there is one.

    Raises
    ------
    UsageError
        If there is no such device; the message says what there is.

    Examples
    --------
    >>> resolve_device("cpu")
    'cpu'
    """
    if device == "cpu":
        return device  # torch need not be loaded for this
    there = find_devices()
    if device == "auto":
        return there[0]
    if device == "cuda":
        wanted = "cuda:0"
    elif device == "mps" or (isinstance(device, str) and re.fullmatch(r"cuda:\d{1,4}", device)):
        wanted = device
    else:
        nearest = nearest_name(device, ("auto", "cpu", "cuda", "mps")) if isinstance(device, str) else None
        raise UsageError(
            "there is no device of this name",
            got=quote(device),
            expected="auto, cpu, cuda, cuda:N or mps",
            todo=f"did you mean {quote(nearest)}?" if nearest else None,
        )
    if wanted not in there:
        raise UsageError(
            "the device is not there",
            got=quote(device),
            expected=f"one of {', '.join(there)}",
            todo="give auto to take the best device that is there",
        )
    return wanted


def find_devices() -> list[str]:
    """Name the devices that torch can use, the best first."""
    import torch

    there = (
        [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    if torch.backends.mps.is_available():
        there.append("mps")
    return [*there, "cpu"]
