"""Scores of tasks whose clusters are known, for the demo and for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from robusttc.errors import UsageError, quote
from robusttc.random import RandomState, numpy_generator, run_seed
from robusttc.transfer import TransferScores

__all__ = ["make_planted_scores"]

N_EXAMPLES = 60


def make_planted_scores(
    task_names: Sequence[str],
    families: ArrayLike,
    *,
    density: float = 1.0,
    gain: float = 0.1,
    noise: float = 0.03,
    random_state: RandomState = 0,
) -> TransferScores:
    """Make accuracies in which tasks of one family serve each other better by `gain`.

    A target has its own difficulty, a source its own worth as a donor, and every score its own noise.

    Parameters
    ----------
    task_names
        The names of the tasks.
    families
        The family of each task.
    density
        The share of the pairs that is measured, both directions of each; above 0, at most 1.
    gain
        What a source of the target's own family adds to the accuracy.
    noise
        The standard deviation of the noise.
    random_state
        The seed.

    Examples
    --------
    >>> scores = make_planted_scores(["a", "b", "c"], [0, 0, 1])
    >>> len(scores), scores.kind
    (6, 'accuracy')
    """
    if not 0 < density <= 1:
        raise UsageError("density cannot be used", got=quote(density), expected="a number above 0, at most 1")
    family = np.asarray(families)
    n = len(task_names)
    generator = numpy_generator(run_seed(random_state), "planted scores")
    first, second = np.triu_indices(n, 1)
    kept = generator.random(len(first)) < density
    source = np.concatenate([first[kept], second[kept]])
    target = np.concatenate([second[kept], first[kept]])
    difficulty = generator.uniform(0.45, 0.75, size=n)
    worth = generator.normal(0.0, 0.4 * noise, size=n)
    score = difficulty[target] + worth[source] + gain * (family[source] == family[target])
    score = np.clip(score + generator.normal(0.0, noise, size=len(score)), 0.0, 1.0)
    return TransferScores(
        task_names=tuple(task_names),
        source=source,
        target=target,
        score=score,
        n_examples=np.full(len(score), N_EXAMPLES),
        kind="accuracy",
    )
