"""What the multi-task model of a run says of itself, without loading the model.

Its folder holds, beside the models, which rows were predicted right when they were held out, and how far
probabilities can be trusted. Both are read alone: the models may be gigabytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import StoreError, quote
from robusttc.stats import Estimate, mean_interval

__all__ = ["HeldOut", "read_held_out"]

SETTINGS, ARRAYS = "settings.json", "arrays.safetensors"
ARRAY = "__array__"  # the number of an array, see `robusttc.models.split_arrays`


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """What held-out training rows say.

    Attributes
    ----------
    differences
        For each task that shares, a number a held-out training row: 1 where what serves is right and the
        task's own model is not, -1 the other way round, else 0. Empty where nothing was held out (strategy
        ``paper``, a single task).
    trust
        How far probabilities can be trusted; see `robusttc.models.TrustReport`.
    """

    differences: dict[str, NDArray[np.int8]] = field(default_factory=dict)
    trust: dict[str, Any] | None = None

    def gain(self, task: str) -> Estimate | None:
        """Give how much more rows are right with what serves than with the task's own model.

        >>> HeldOut({"acme": np.array([1, 0, 0, 0], dtype=np.int8)}).gain("acme").mean
        0.25
        """
        rows = self.differences.get(task)
        return None if rows is None or not len(rows) else mean_interval(rows.astype(np.float64))


def read_held_out(folder: Path) -> HeldOut:
    """Read it from the folder of a multi-task model; whoever asks has checked the manifest of the run.

    Raises
    ------
    StoreError
        If the files are not those of a model.
    """
    # Late, as everywhere: reading arrays is not what imports wait for.
    from safetensors import SafetensorError, safe_open

    try:
        settings = json.loads((folder / SETTINGS).read_bytes())
        differences: dict[str, NDArray[np.int8]] = {}
        with safe_open(folder / ARRAYS, framework="numpy") as arrays:
            for name, held in sorted(settings["held_out"].items()):
                kinds = [held["right"][kind][ARRAY] for kind in ("served", "own")]
                served, own = (arrays.get_tensor(number).astype(np.int8) for number in kinds)
                differences[name] = served - own
        return HeldOut(differences, settings["trust"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError) as error:
        raise StoreError(
            "the model cannot be read", where=repr(str(folder)), got=quote(str(error)), todo="fit again"
        ) from error
