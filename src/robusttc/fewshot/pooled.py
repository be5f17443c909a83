"""Identical label sets: one classifier for all tasks of a cluster, with one output layer (section 3.4).

Where sources and target have the same labels, a label means the same everywhere, so the rows of a cluster's
tasks are put together and one classifier learns them all; its probabilities are P(y | x; cluster) of Eq. 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from robusttc.encoders import DenseInputs, FrozenInputs
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.parts import LinearPart
from robusttc.fewshot.settings import FewShotSettings
from robusttc.models import fit_softmax, train_model
from robusttc.random import numpy_generator

__all__ = ["train_pooled"]

# The inverse strength of the penalty where thousands of rows of many tasks are put together.
POOLED_C = 3.0


def train_pooled(
    inputs: FrozenInputs,
    sources: Sequence[SourceRows],
    *,
    n_labels: int,
    settings: FewShotSettings,
    seed: int = 0,
) -> LinearPart | None:
    """Train one classifier on the rows of some tasks of identical label sets.

    For ready vectors it is softmax regression, for words a convolution with a softmax classifier (the
    paper's "standard CNN"). Labels count as often as they come: a support set is drawn so and so many rows a
    label, so only the sources tell how frequent a label is. The order of the tasks does not count.

    Returns
    -------
    LinearPart or None
        None where the tasks have rows of fewer than two labels.

    Examples
    --------
    >>> source = SourceRows("a", np.arange(4), np.array([0, 0, 1, 1]), np.array([-1, -1]))
    >>> inputs = DenseInputs(np.array([[1, 0], [1, 1], [-1, 0], [-1, 1]], dtype=np.float32))
    >>> part = train_pooled(inputs, [source], n_labels=2, settings=FewShotSettings())
    >>> part.probabilities(inputs).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    ordered = sorted(sources, key=lambda source: source.name)
    codes = np.concatenate([np.zeros(0, dtype=np.int64), *(source.codes for source in ordered)])
    if len(np.unique(codes)) < 2:
        return None
    own = inputs.take(np.concatenate([source.items for source in ordered]))
    with threadpool_limits(1):
        if isinstance(own, DenseInputs):
            fitted = fit_softmax(own.matrix, codes, n_labels=n_labels, C=POOLED_C, balanced=False)
            head = (np.asarray(fitted.weight, dtype=np.float32), np.asarray(fitted.bias, dtype=np.float32))
            return LinearPart(None, False, (1.0,), (head,))
        generator = numpy_generator(seed, "pooled", [source.name for source in ordered])
        model = train_model(own, codes, n_labels=n_labels, settings=settings.layer, generator=generator)
        return LinearPart(model.layer, False, (1.0,), ((model.head_weight, model.head_bias),))
