"""Short names for the inputs of a stage, for the keys of its jobs.

What a job's key does not contain, the stage's inputs, is put into the key (`Runner.with_prefix`): clusters
that were found again after jobs were retried must not get the models of the old ones.
"""

from __future__ import annotations

import hashlib
from typing import Any

from robusttc.files import encode_json

__all__ = ["digest_values"]


def digest_values(*values: Any) -> str:
    """Return a short name for JSON values.

    >>> digest_values({"a": 0, "b": 1}) == digest_values({"b": 1, "a": 0})
    True
    """
    return hashlib.sha256(encode_json(list(values), where="a stage's inputs").encode()).hexdigest()[:12]
