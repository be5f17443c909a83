"""Why a task of a run is where it is, what sharing gave it, and what would help it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from robusttc.data import Task
from robusttc.encoders import FrozenInputs
from robusttc.errors import UnknownTaskError, UsageError, quote
from robusttc.multitask import SharedModel
from robusttc.run.explain.cross_predictions import LabelComparison, compare_labels
from robusttc.run.explain.place import (
    ClusterReasons,
    Nearest,
    NearTask,
    explain_cluster,
    find_nearest,
    measured_pairs,
    similarity_to_others,
)
from robusttc.run.explain.sharing import Sharing, explain_sharing, figures_of, sharing_of
from robusttc.run.explain.weak_labels import (
    WeakLabel,
    find_weak_labels,
    predict_held_out,
    weakest_sentence,
)

if TYPE_CHECKING:
    import pandas as pd

    from robusttc.run.run import Run

__all__ = ["Explanation", "explain_task"]

State = Literal["learned", "added", "adapted", "private", "set aside"]
Part = Literal["pairs", "nearest", "matches", "conflicts", "accuracy", "weak_labels"]
PARTS: tuple[Part, ...] = ("pairs", "nearest", "matches", "conflicts", "accuracy", "weak_labels")
FORMAT, VERSION = "robusttc explanation", 2
MIN_NEAREST = 10

STATE_SENTENCES: dict[State, str] = {
    "learned": "",
    "added": "It was added to the run later.",
    "adapted": "It was learned from a handful of examples.",
    "private": "It is private: no other task learns from it, and it learns from none.",
    "set aside": "It was set aside when the run was made, and has no model.",
}
NO_EXAMPLES = "A handful of examples tells nothing of single labels; robusttc add takes all rows of a task."
NOT_COMPARED = "Private tasks are measured with no other, and their labels are compared with none."


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that a run knows of one task.

    Examples
    --------
    >>> explanation = Explanation("tiny", "run", "set aside", ("read: one label",))
    >>> explanation.sentences
    ('It was set aside when the run was made, and has no model.', 'Left out: read: one label')
    """

    task: str
    run: str  # the name of its folder
    state: State
    why_not: tuple[str, ...] = ()  # what was left out of the task, and why
    n_rows: Mapping[str, int] = field(default_factory=dict)  # by split
    label_names: tuple[str, ...] = ()
    cluster: ClusterReasons | None = None  # None for tasks that are not clustered
    cluster_weights: Mapping[int, float] = field(default_factory=dict)  # of the metrics of an adapted task
    nearest: Nearest = field(default_factory=Nearest)
    labels: LabelComparison | None = None
    sharing: Sharing | None = None
    weak_labels: tuple[WeakLabel, ...] = ()  # the one first that costs most
    notes: tuple[str, ...] = ()  # what else is to be known

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in plain words."""
        found = [
            STATE_SENTENCES[self.state],
            "" if self.cluster is None else self.cluster.sentence,
            "" if self.sharing is None else self.sharing.sentence,
            "" if self.labels is None else self.labels.sentence,
            weakest_sentence(self.weak_labels),
            *(f"Left out: {reason}" for reason in self.why_not),
            *self.notes,
        ]
        return tuple(sentence for sentence in found if sentence)

    def to_dict(self, *, show_texts: bool = False) -> dict[str, Any]:
        """Return it as values for JSON; missed texts, and those in dispute, only with `show_texts`."""
        found = as_json(self)
        if not show_texts:
            for one in found["weak_labels"]:
                one["missed"] = None
            for one in () if self.labels is None else found["labels"]["conflicts"]:
                one["texts"] = None
        return {"format": FORMAT, "version": VERSION, **found, "sentences": list(self.sentences)}

    def to_frame(self, part: Part = "pairs") -> pd.DataFrame:
        """Return one part as a pandas frame: the columns are the keys of `to_dict`, nested ones with a dot.

        Parameters
        ----------
        part
            ``pairs`` (measured, one row per other task), ``nearest``, ``matches`` and ``conflicts`` (one row
            per pair of labels), ``accuracy`` (one row per kind of rows and texts: all, novel, seen) or
            ``weak_labels`` (one row per label).

        Raises
        ------
        UsageError
            If there is no such part, or pandas is not installed.
        """
        if part not in PARTS:
            raise UsageError(
                "there is no such part of an explanation", got=quote(part), expected=", ".join(PARTS)
            )
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("to_frame needs pandas", todo="install it: pip install pandas") from None
        labels, sharing = self.labels or LabelComparison(), self.sharing
        near = {one.name: one for one in (*self.nearest.by_similarity, *self.nearest.by_scores)}
        kinds = {} if sharing is None else {"test": sharing.test, "held_out": sharing.held_out}
        parts: dict[Part, Any] = {
            "pairs": () if self.cluster is None else self.cluster.pairs,
            "nearest": list(near.values()),
            "matches": labels.matches,
            "conflicts": labels.conflicts,
            "accuracy": [
                {"rows": rows, "texts": texts, "n_rows": one["served"].n, **one}
                for rows, figures in kinds.items()
                for texts, one in figures.items()
            ],
            "weak_labels": self.weak_labels,
        }
        return pd.json_normalize(as_json(parts[part]))


def as_json(value: Any) -> Any:
    """Return values for JSON: of dataclasses their fields, unless they know better."""
    if hasattr(value, "to_dict") and not isinstance(value, Explanation):
        return value.to_dict()
    if is_dataclass(value):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(one) for key, one in value.items()}
    return (
        [as_json(one) for one in value]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
    )


def explain_task(run: Run, name: str, *, n_others: int = 8, by_gradients: bool = False) -> Explanation:
    """Explain one task of a finished run.

    Parameters
    ----------
    run
        The run.
    name
        A task of it: learned, added, adapted, private, or set aside.
    n_others
        With how many of the nearest tasks its labels are compared.
    by_gradients
        Whether to look for the sources of negative transfer by gradients also where that may take minutes.

    Raises
    ------
    UnknownTaskError
        If the run has no such task; the message names the nearest one.
    UsageError
        If `n_others` is no such number.
    StoreError
        If the run is damaged.
    """
    if not isinstance(n_others, int) or isinstance(n_others, bool) or n_others < 0:
        raise UsageError("n_others cannot be used", got=quote(n_others), expected="an integer from 0 up")
    learned = {one.task for one in run.evaluation.tasks}
    if name not in learned and name in run.adapted_names:
        return explain_adapted(run, name)
    why_not = tuple(f"{job['stage']}: {job['error']}" for job in run.quarantined if job["tasks"] == [name])
    if name not in learned and not why_not:
        raise UnknownTaskError(name, run.task_names)
    task = run.rows_of(name)
    counted = Counter(task.splits.tolist())
    facts: dict[str, Any] = {
        "why_not": why_not,
        "n_rows": {split: counted[split] for split in task.split_names},
        "label_names": task.label_names,
    }
    if name not in learned:
        return Explanation(name, run.folder.name, "set aside", **facts)
    facts["weak_labels"] = weak_labels_of(run, task)
    if not task.may_share:
        sharing = explain_sharing(figures_of(run, name), {}, shares=False)
        facts["notes"] = (NOT_COMPARED,)
        return Explanation(name, run.folder.name, "private", sharing=sharing, **facts)
    pairs = measured_pairs(name, run.scores, run.clusters, similarity=run.similarity)
    to_others = similarity_to_others(name, run.similarity)
    cluster = explain_cluster(
        name,
        run.clusters,
        confidence=run.confidence.get(name),
        supported=bool((run.verdict or {}).get("supported")),
        pairs=pairs,
    )
    nearest = find_nearest(pairs, to_others, run.clusters, n=max(MIN_NEAREST, n_others))
    return Explanation(
        name,
        run.folder.name,
        "added" if name in run.added else "learned",
        cluster=cluster,
        nearest=nearest,
        labels=labels_of(run, task, nearest.choose(n_others)),
        sharing=sharing_of(run, name, pairs, n_folds=folds_of(run), by_gradients=by_gradients),
        **facts,
    )


def explain_adapted(run: Run, name: str) -> Explanation:
    """Explain a task that was learned from a handful of examples: what its model says of itself."""
    model = run.adapted_model(name)
    near = tuple(NearTask(other, -1, float(likeness), None) for other, likeness in model.nearest_tasks_)
    accuracy = model.support_accuracy_
    notes = [
        f"Each example left out in its turn, {accuracy:.0%} of them are predicted right."
        if accuracy == accuracy  # not NaN
        else "How well it does is not known: no label has two examples.",
        "No cluster fits it: a model of its own serves." if model.out_of_cluster_ else "",
        NO_EXAMPLES,
    ]
    return Explanation(
        name,
        run.folder.name,
        "adapted",
        label_names=model.label_names,
        cluster_weights=dict(model.weights_),
        nearest=Nearest(by_similarity=near),
        notes=tuple(note for note in notes if note),
    )


def labels_of(run: Run, task: Task, others: tuple[str, ...]) -> LabelComparison:
    """Compare the labels of a task with those of others that the run keeps."""
    there = [run.rows_of(other) for other in others]
    known = dict(run.multitask.predictor_.own)
    for one in (task, *there):
        if one.name in run.added:
            known |= run.learned(one.name).predictor_.own
    # The paper's models of one task are not single-task models of the blend: those are quickly made.
    own_models = {name: own for name, own in known.items() if not isinstance(own, SharedModel)}
    return compare_labels(task, there, run.multitask, own_models)


def folds_of(run: Run) -> int | None:
    """Return into how many folds training rows were dealt; None where the encoder was tuned on them all."""
    settings = run.summary["configuration"]
    return None if settings["tune"] == "encoder" else int(settings["n_folds"])


def weak_labels_of(run: Run, task: Task) -> tuple[WeakLabel, ...]:
    """Judge the labels of a task by rows that were held out."""
    model, rows = run.multitask, task.rows("train", "valid")
    reader = model.predictor_.private_readers.get(task.name, model.predictor_.reader)
    inputs: FrozenInputs = reader.read(list(task.texts_at(rows)))
    held_out = predict_held_out(
        task,
        inputs,
        model.held_out_.get(task.name),
        n_folds=folds_of(run),
        seed=model.seed_,
        settings=model.settings_,
    )
    return find_weak_labels(task, held_out)
