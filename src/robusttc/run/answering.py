"""What answers for one task of a run, wherever its model comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.fewshot import FewShotModel
from robusttc.models import check_threshold, pick_labels
from robusttc.multitask import ClusterMultiTask

__all__ = ["Answer", "Answers", "answer_adapted", "answer_learned"]

Floats = NDArray[np.float64]
AskWithScope = Callable[[Sequence[str]], tuple[Floats, Floats]]


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
    ask
        Gives the probabilities of texts.
    ask_with_scope
        Gives these, and how likely each text is out of scope; the texts are encoded once. None where the
        latter is not known.
    """

    task: str
    label_names: tuple[str, ...]
    ask: Callable[[Sequence[str]], Floats]
    ask_with_scope: AskWithScope | None

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
        table, scopes = (self.ask(texts), None) if self.ask_with_scope is None else self.ask_with_scope(texts)
        labels = pick_labels(table, self.label_names, threshold=threshold)
        known = [None] * len(texts) if scopes is None else scopes.tolist()
        return [
            Answer(label, max(row), scope, tuple(row))
            for label, row, scope in zip(labels.tolist(), table.tolist(), known, strict=True)
        ]


def answer_learned(model: ClusterMultiTask, task: str) -> Answers:
    """Answer for a task of the run."""

    def ask_with_scope(texts: Sequence[str]) -> tuple[Floats, Floats]:
        table, scope = model.predict_with_scope(task, texts)
        assert scope is not None  # noqa: S101 - it is known, see below
        return table, scope

    return Answers(
        task,
        model.label_names(task),
        lambda texts: model.predict_proba(task, texts),
        ask_with_scope if model.predictor_.scope is not None else None,
    )


def answer_adapted(model: FewShotModel) -> Answers:
    """Answer for a task that was added with a handful of examples."""

    def ask_with_scope(texts: Sequence[str]) -> tuple[Floats, Floats]:
        table, scope = model.predict_with_scope(texts)
        assert scope is not None  # noqa: S101 - it is known, see below
        return table, scope

    known = ask_with_scope if model.scope_ is not None else None
    return Answers(model.name, model.label_names, model.predict_proba, known)
