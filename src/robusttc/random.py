"""Randomness that does not depend on the order of work.

Every job takes its own seed, made from the run's seed, the name of its stage and the names of its tasks by a
stable hash. So the order of jobs, the number of workers and restarts cannot change a number.
Nothing here, and nothing in this package, seeds a global generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from robusttc.errors import UsageError, quote

__all__ = ["RandomState", "child_seed", "numpy_generator", "run_seed"]

RandomState = int | np.random.Generator

# 63 bits: the largest seed that NumPy, torch and a signed SQLite integer all take.
SEED_BITS = 63


def run_seed(random_state: RandomState) -> int:
    """Return the seed of the run for the `random_state` of a public function; a generator spends one draw."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**SEED_BITS))
    is_integer = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not is_integer or not 0 <= random_state < 2**SEED_BITS:
        raise UsageError(
            "random_state cannot be used",
            got=quote(random_state),
            expected="an integer from 0 to 2**63 - 1, or a numpy.random.Generator",
        )
    return int(random_state)


def child_seed(seed: int, stage: str, names: Iterable[str] = ()) -> int:
    """Return the seed of one job.

    The same arguments give the same seed on every machine, in every process and in every version of Python.
    The order of `names` counts (a pair of tasks is source and target): sort them where a set is meant.

    Parameters
    ----------
    seed
        The seed of the run, any integer.
    stage
        What is being done, for instance ``"split"``.
    names
        The tasks (or whatever else) that the job is about.

    Examples
    --------
    >>> child_seed(0, "pair", ["ab", "c"]) == child_seed(0, "pair", ["a", "bc"])
    False
    """
    digest = hashlib.blake2b(digest_size=8, person=b"robusttc-seed")
    for part in (str(int(seed)), stage, *names):
        encoded = part.encode("utf-8", "surrogatepass")
        # The length in front keeps ("ab", "c") apart from ("a", "bc").
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return int.from_bytes(digest.digest(), "little") >> (64 - SEED_BITS)


def numpy_generator(seed: int, stage: str, names: Iterable[str] = ()) -> np.random.Generator:
    """Return the NumPy generator of one job; see `child_seed`."""
    return np.random.Generator(np.random.PCG64(child_seed(seed, stage, names)))
