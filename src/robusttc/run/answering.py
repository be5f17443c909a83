"""What answers for one task of a run, wherever its model comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.errors import UsageError
from robusttc.fewshot.model import FewShotModel
from robusttc.learning.answers import check_threshold, pick_labels
from robusttc.multitask.estimator import ClusterMultiTask

__all__ = ["Answer", "Answers", "answer_adapted", "answer_learned"]

Ask = Callable[[Sequence[str]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one text.

    Attributes
    ----------
    label
        The most probable label; None where its probability is below the threshold.
    probability
        The probability of the most probable label.
    out_of_scope
        How likely the text is to belong to none of the labels; None where that was not learned.
    probabilities
        The probability of every label, in the order of `Answers.label_names`.
    """

    label: str | None
    probability: float
    out_of_scope: float | None
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers for one task.

    Attributes
    ----------
    task, label_names
        The task, and its labels.
    ask, ask_scope
        Give the probabilities of texts, and how likely each is out of scope; None where that is not known.
    """

    task: str
    label_names: tuple[str, ...]
    ask: Ask
    ask_scope: Ask | None

    def answer(self, texts: Sequence[str], *, abstain_below: float | None = None) -> list[Answer]:
        """Answer some texts.

        Raises
        ------
        UsageError
            If `abstain_below` is no probability.
        """
        threshold = check_threshold(abstain_below)
        if not texts:
            return []
        table = self.ask(texts)
        labels = pick_labels(table, self.label_names, threshold=threshold)
        scopes = [None] * len(texts) if self.ask_scope is None else self.ask_scope(texts).tolist()
        return [
            Answer(label, max(row), scope, tuple(row))
            for label, row, scope in zip(labels.tolist(), table.tolist(), scopes, strict=True)
        ]


def answer_learned(model: ClusterMultiTask, task: str) -> Answers:
    """Answer for a task of the run."""

    def ask_scope(texts: Sequence[str]) -> NDArray[np.float64]:
        return model.scope_score(task, texts)

    return Answers(
        task,
        model.label_names(task),
        lambda texts: model.predict_proba(task, texts),
        ask_scope if knows_scope(ask_scope) else None,
    )


def answer_adapted(model: FewShotModel) -> Answers:
    """Answer for a task that was added with a handful of examples."""
    scope = model.scope_score if knows_scope(model.scope_score) else None
    return Answers(model.name, model.label_names, model.predict_proba, scope)


def knows_scope(ask_scope: Ask) -> bool:
    """Tell whether the out-of-scope score was learned, by asking about no text at all."""
    try:
        ask_scope([])
    except UsageError:
        return False
    return True
