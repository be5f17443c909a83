"""All that a run knows of one task, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from robusttc.errors import quote
from robusttc.run.explain.explained_cluster import ClusterReasons
from robusttc.run.explain.explained_labels import LabelMap
from robusttc.run.explain.explained_sharing import Sharing
from robusttc.run.explain.neighbours import Nearest
from robusttc.run.explain.weak_labels import WeakLabel

__all__ = ["Explanation", "State"]

State = Literal["learned", "added", "adapted", "private", "set aside"]
FORMAT, VERSION = "robusttc explanation", 1

STATE_WORDS: dict[State, str] = {
    "learned": "",
    "added": "It was added to the run later.",
    "adapted": "It was learned from a handful of examples.",
    "private": "It is private: no other task learns from it, and it learns from none.",
    "set aside": "It was set aside when the run was made, and has no model.",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that a run knows of one task.

    Attributes
    ----------
    task, run
        Its name, and the name of the run's folder.
    state
        ``learned``, ``added``, ``adapted``, ``private`` or ``set aside``.
    why_not
        What was left out of it, and why.
    n_rows
        How many rows it has in each split; empty where the run does not keep it.
    label_names
        Its labels.
    cluster
        Its cluster, and the measured pairs behind it; None for tasks that are not clustered.
    cluster_weights
        Of an adapted task, how much each cluster's metric counts; else empty.
    nearest
        The tasks that are most like it.
    labels
        How its labels stand to those of the nearest tasks; None where its texts are not there.
    sharing
        What sharing gave it.
    weak_labels
        Its labels, the one first that costs most: what to label next.
    notes
        What else there is to know, such as what cannot be said and why.

    Examples
    --------
    >>> explanation = Explanation("tiny", "run", "set aside", ("read: one label",))
    >>> explanation.sentences
    ('It was set aside when the run was made, and has no model.', 'Left out: read: one label')
    """

    task: str
    run: str
    state: State
    why_not: tuple[str, ...] = ()
    n_rows: Mapping[str, int] = field(default_factory=dict)
    label_names: tuple[str, ...] = ()
    cluster: ClusterReasons | None = None
    cluster_weights: Mapping[int, float] = field(default_factory=dict)
    nearest: Nearest = field(default_factory=Nearest)
    labels: LabelMap | None = None
    sharing: Sharing | None = None
    weak_labels: tuple[WeakLabel, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in plain words."""
        found = [
            STATE_WORDS[self.state],
            "" if self.cluster is None else self.cluster.sentence,
            "" if self.sharing is None else self.sharing.sentence,
            "" if self.labels is None else self.labels.sentence,
            say_weakest(self.weak_labels),
            *(f"Left out: {reason}" for reason in self.why_not),
            *self.notes,
        ]
        return tuple(sentence for sentence in found if sentence)

    def to_dict(self, *, show_texts: bool = False) -> dict[str, Any]:
        """Give it as values for JSON.

        Parameters
        ----------
        show_texts
            Whether the texts of the task are among them: missed ones, and those that two tasks dispute.
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "run": self.run,
            "task": self.task,
            "state": self.state,
            "sentences": list(self.sentences),
            "why_not": list(self.why_not),
            "n_rows": dict(self.n_rows),
            "label_names": list(self.label_names),
            "cluster": None if self.cluster is None else self.cluster.to_dict(),
            "cluster_weights": {str(number): weight for number, weight in self.cluster_weights.items()},
            "nearest": self.nearest.to_dict(),
            "labels": None if self.labels is None else self.labels.to_dict(show_texts=show_texts),
            "sharing": None if self.sharing is None else self.sharing.to_dict(),
            "weak_labels": [label.to_dict(show_texts=show_texts) for label in self.weak_labels],
            "notes": list(self.notes),
        }


def say_weakest(weak_labels: tuple[WeakLabel, ...]) -> str:
    """Say which label to label next; nothing where none was judged, or nothing is lost."""
    judged = [one for one in weak_labels if one.recall is not None or one.n_train == 0]
    if not judged:
        return ""
    worst = judged[0]
    if worst.recall is not None and worst.recall.mean == 1.0:
        return "No label stands out as weak: of the one that costs most, every held-out text is found."
    taken = "" if worst.confused_with is None else f"; most are taken for {quote(worst.confused_with)}"
    found = (
        "none of its texts can be found without a training row"
        if worst.recall is None
        else f"{worst.recall.mean:.0%} of its {worst.recall.n:,} held-out texts are found"
    )
    return f"Label more texts of {quote(worst.label)} next: {found}{taken}."
