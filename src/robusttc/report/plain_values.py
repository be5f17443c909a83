"""Values as JSON has them: no NaN, no infinity, no NumPy, and no more digits than anybody reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from robusttc.stats import Estimate

__all__ = ["as_estimate", "as_json_value"]

# A page of 1,500 tasks has a hundred thousand numbers; seven digits are more than any of them deserves.
DIGITS = 7


def as_json_value(value: Any) -> Any:
    """Give a value as JSON can hold it; a number that is not finite becomes None.

    Examples
    --------
    >>> as_json_value({"a": (np.float64("nan"), np.int64(3)), 4: [1 / 3]})
    {'a': [None, 3], '4': [0.3333333]}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json_value(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return as_json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json_value(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.{DIGITS}g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, str) else str(value)


def as_estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    """Give an estimate as ``mean``, ``low``, ``high`` and ``n``; None for one without a mean.

    >>> as_estimate(Estimate(0.5, float("-inf"), float("inf"), 1))
    {'mean': 0.5, 'low': None, 'high': None, 'n': 1}
    """
    if estimate is None or not math.isfinite(estimate.mean):
        return None
    found: dict[str, Any] = as_json_value(estimate.to_dict())
    return found
