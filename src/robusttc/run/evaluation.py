"""The stage `evaluate`: every task's accuracy on its test rows, by each kind of model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet
from robusttc.errors import DoubtWarning, UsageError, WorkError
from robusttc.jobs import Runner
from robusttc.progress import Progress, report
from robusttc.stats import Estimate, difference_interval, mean_interval, share_interval

if TYPE_CHECKING:
    import pandas as pd

    from robusttc.multitask import ClusterMultiTask

__all__ = ["KINDS", "Evaluation", "TaskFigures", "compare_models", "judge", "paired_gain"]

STAGE = "evaluate"

# The models that are told apart, each compared with the first.
KINDS = ("own", "shared", "cluster", "served")
# Test rows apart: texts that no other task learned from, and those that another did.
PARTS = ("novel", "seen")
Hits = NDArray[np.bool_]
Codes = NDArray[np.int32]
Rows = NDArray[np.intp]
# The label, what is predicted in its place, how often, and how many test rows have the label.
Confusion = tuple[str, str, int, int]
MAX_CONFUSIONS = 12
MIN_PART_ROWS = 5
OF_ALL = ("means", "gains", "macro_f1", "novel", "seen")
# Returns the estimator of the run, with another policy for cluster models; None keeps it.
MakeEstimator = Callable[[Literal["auto", "always", "never"] | None], "ClusterMultiTask"]


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What the test rows of one task say.

    Attributes
    ----------
    task, group
        The task, and its cluster; -1 for none.
    n_rows
        How many test rows it has.
    own, shared, cluster, served
        The share of them that its own model, the model of all tasks, the model of its cluster, and what
        serves predict right, with Wilson's interval; None for what the task does not have.
    gain
        The mean over rows of what serves less the own model, with the interval of the paired difference;
        None without test rows.
    macro_f1
        The mean F1 over the labels of the test rows, of each kind of model that the task has.
    novel, seen
        The same shares (and ``gain``) of the rows whose text is not in the training of any other task, and of
        those whose text is; case and punctuation do not count. Empty without such rows.
    held_out_gain
        What serves less the own model on training rows that were held out; None where there are none.
    confusion
        Which labels what serves takes for others, the most frequent first: label, predicted label, number of
        such rows, number of rows of the label.
    """

    task: str
    group: int
    n_rows: int
    own: Estimate | None
    shared: Estimate | None
    cluster: Estimate | None
    served: Estimate | None
    gain: Estimate | None
    held_out_gain: Estimate | None = None
    macro_f1: Mapping[str, float] = field(default_factory=dict)
    novel: Mapping[str, Estimate] = field(default_factory=dict)
    seen: Mapping[str, Estimate] = field(default_factory=dict)
    confusion: tuple[Confusion, ...] = ()

    @property
    def state(self) -> str:
        """One of ``gains``, ``harmed`` (95 % intervals), ``no difference`` and ``no test rows``."""
        if self.gain is None:
            return "no test rows" if not self.n_rows else "not compared"
        return "gains" if self.gain.above_zero else "harmed" if self.gain.below_zero else "no difference"

    def to_row(self) -> dict[str, Any]:
        """Return it as a row of a table; what the task does not have is None."""
        row: dict[str, Any] = {"task": self.task, "cluster": self.group, "n_rows": self.n_rows}
        whole = {name: getattr(self, name) for name in (*KINDS, "gain")}
        for prefix, found in (("", whole), ("novel_", self.novel), ("seen_", self.seen)):
            for name in (*KINDS, "gain"):
                one: Estimate | None = found.get(name)
                row[f"{prefix}{name}"] = None if one is None else one.mean
                row[f"{prefix}{name}_low"] = None if one is None else one.low
                row[f"{prefix}{name}_high"] = None if one is None else one.high
        for part in PARTS:
            served = getattr(self, part).get("served")
            row[f"n_{part}_rows"] = 0 if served is None else served.n
        row |= {f"{kind}_macro_f1": self.macro_f1.get(kind) for kind in KINDS}
        return {**row, "state": self.state}

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        plain = {
            name: value.to_dict() if isinstance(value, Estimate) else value for name, value in values.items()
        }
        parts = {part: estimates_to_dict(plain[part]) for part in PARTS}
        listed = {"macro_f1": dict(self.macro_f1), "confusion": [list(entry) for entry in self.confusion]}
        return {**plain, **parts, **listed, "state": self.state}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskFigures:
        """Make it from what `to_dict` gave."""
        estimates: dict[str, Any] = {
            name: None if values[name] is None else Estimate.from_dict(values[name])
            for name in (*KINDS, "gain", "held_out_gain")
        }
        return cls(
            str(values["task"]),
            int(values["group"]),
            int(values["n_rows"]),
            **estimates,
            macro_f1=dict(values["macro_f1"]),
            novel=estimates_from_dict(values["novel"]),
            seen=estimates_from_dict(values["seen"]),
            confusion=tuple((str(a), str(b), int(n), int(of)) for a, b, n, of in values["confusion"]),
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the test rows of all tasks say.

    Attributes
    ----------
    tasks
        The figures of every task, in the order of the tasks.
    means
        The mean accuracy over tasks of each kind of model, over the tasks that have all kinds.
    gains
        The mean difference of each kind to the own models, over the same tasks.
    macro_f1
        The mean macro-F1 of each kind, over the same tasks.
    novel, seen
        The mean accuracy of each kind, and ``gain`` (served less own), on novel texts and on texts seen in
        another task: over the tasks that have at least `MIN_PART_ROWS` such rows, and all kinds.
    """

    tasks: tuple[TaskFigures, ...]
    means: Mapping[str, Estimate]
    gains: Mapping[str, Estimate]
    macro_f1: Mapping[str, Estimate] = field(default_factory=dict)
    novel: Mapping[str, Estimate] = field(default_factory=dict)
    seen: Mapping[str, Estimate] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Sequence[TaskFigures]) -> Evaluation:
        """Take the means over tasks."""
        judged = [task for task in tasks if task.served is not None]
        # A kind that no task has (no clusters, no sharing) has no mean; else the tasks must be the same.
        kinds = [kind for kind in KINDS if any(getattr(task, kind) is not None for task in judged)]
        whole = [task for task in judged if all(getattr(task, kind) is not None for kind in kinds)]
        if not whole:
            return cls(tuple(tasks), {}, {})
        table = {kind: [getattr(task, kind).mean for task in whole] for kind in kinds}
        means = {kind: within(mean_interval(values), 0.0) for kind, values in table.items()}
        gains = {
            kind: within(difference_interval(values, table["own"]), -1.0)
            for kind, values in table.items()
            if kind != "own" and "own" in table
        }
        macro_f1 = {
            kind: within(mean_interval([task.macro_f1[kind] for task in whole]), 0.0)
            for kind in kinds
            if all(kind in task.macro_f1 for task in whole)
        }
        parts = {part: mean_part(whole, part, kinds) for part in PARTS}
        return cls(tuple(tasks), means, gains, macro_f1, **parts)

    def count(self, state: str) -> int:
        """Count the tasks of a state; see `TaskFigures.state`."""
        return sum(task.state == state for task in self.tasks)

    @property
    def sentence(self) -> str:
        """Who gains and who is harmed, in one sentence."""
        n_judged = sum(task.gain is not None for task in self.tasks)
        if not n_judged:
            return "No task has test rows to tell by."
        return (
            f"On test rows sharing helps {self.count('gains'):,} of {n_judged:,} tasks for sure and harms "
            f"{self.count('harmed'):,} (95 % intervals)."
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a row per task: accuracies on all, novel and seen texts with intervals, and macro-F1.

        Raises
        ------
        UsageError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("to_frame needs pandas", todo="install it: pip install pandas") from None
        return pd.DataFrame([task.to_row() for task in self.tasks])

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            **{name: estimates_to_dict(getattr(self, name)) for name in OF_ALL},
            "sentence": self.sentence,
            "tasks": [task.to_dict() for task in self.tasks],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """Make it from what `to_dict` gave."""
        return cls(
            tuple(TaskFigures.from_dict(task) for task in values["tasks"]),
            **{name: estimates_from_dict(values[name]) for name in OF_ALL},
        )


def estimates_to_dict(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """Return estimates as values for JSON."""
    return {name: estimate.to_dict() for name, estimate in estimates.items()}


def estimates_from_dict(values: Mapping[str, Any]) -> dict[str, Estimate]:
    """Return what `estimates_to_dict` was given."""
    return {name: Estimate.from_dict(value) for name, value in values.items()}


def mean_part(tasks: Sequence[TaskFigures], part: str, kinds: Sequence[str]) -> dict[str, Estimate]:
    """Return the means over tasks on novel or seen texts; a share of very few rows says nothing."""
    found = [getattr(task, part) for task in tasks]
    judged = [
        one
        for one in found
        if one and one["served"].n >= MIN_PART_ROWS and all(kind in one for kind in kinds)
    ]
    if not judged:
        return {}
    means = {kind: within(mean_interval([one[kind].mean for one in judged]), 0.0) for kind in kinds}
    if "own" in kinds:
        pairs = [[one[kind].mean for one in judged] for kind in ("served", "own")]
        means["gain"] = within(difference_interval(*pairs), -1.0)
    return means


def within(estimate: Estimate, lowest: float) -> Estimate:
    """Cut an interval where accuracies, or differences of them, end; that of few values reaches beyond.

    >>> within(Estimate(0.9, 0.7, 1.1, 3), 0.0)
    Estimate(mean=0.9, low=0.7, high=1.0, n=3)
    """
    if estimate.n < 2:  # nothing is known of the spread
        return estimate
    return Estimate(estimate.mean, max(lowest, estimate.low), min(1.0, estimate.high), estimate.n)


def judge(
    task: Task,
    cluster: int,
    rows: Rows,
    predicted: Mapping[str, Codes],
    seen: Hits | None,
    held_out_gain: Estimate | None = None,
) -> TaskFigures:
    """Return the figures of a task.

    Parameters
    ----------
    task, cluster
        The task, and its cluster; -1 for none.
    rows
        Its test rows.
    predicted
        The label codes that each kind of model predicts for them.
    seen
        Which of their texts are in the training of another task; None where nothing is shared.
    held_out_gain
        See `TaskFigures`.
    """
    codes = task.label_codes[rows].astype(np.int32)
    if not len(rows):
        return TaskFigures(task.name, cluster, 0, None, None, None, None, None, held_out_gain)
    is_seen = np.zeros(len(rows), dtype=np.bool_) if seen is None else seen
    right = {kind: found == codes for kind, found in predicted.items()}
    whole = judge_part(right, np.ones(len(rows), dtype=np.bool_))
    return TaskFigures(
        task.name,
        cluster,
        len(rows),
        **{name: whole.get(name) for name in (*KINDS, "gain")},
        held_out_gain=held_out_gain,
        macro_f1={kind: macro_f1(codes, found) for kind, found in predicted.items()},
        novel=judge_part(right, ~is_seen),
        seen=judge_part(right, is_seen),
        confusion=count_confusions(task.label_names, codes, predicted["served"]),
    )


def judge_part(right: Mapping[str, Hits], chosen: Hits) -> dict[str, Estimate]:
    """Return the shares of some rows that each kind predicts right, and the paired gain; {} for no rows."""
    n_rows = int(chosen.sum())
    if not n_rows:
        return {}
    found = {kind: share_interval(int(hits[chosen].sum()), n_rows) for kind, hits in right.items()}
    gain = paired_gain({kind: hits[chosen] for kind, hits in right.items()})
    return found if gain is None else {**found, "gain": gain}


def paired_gain(right: Mapping[str, Hits]) -> Estimate | None:
    """Return how much more rows are right with what serves than with the own model; None without the two."""
    if not {"own", "served"} <= right.keys() or not len(right["own"]):
        return None
    return within(mean_interval(right["served"].astype(np.float64) - right["own"]), -1.0)


def macro_f1(codes: Codes, predicted: Codes) -> float:
    """Return the mean F1 over the labels that rows have or are predicted to have.

    >>> macro_f1(np.array([0, 0, 1, 2]), np.array([0, 0, 1, 1]))
    0.5555555555555555
    """
    n_labels = int(max(codes.max(), predicted.max())) + 1
    right = np.bincount(codes[codes == predicted], minlength=n_labels)
    either = np.bincount(codes, minlength=n_labels) + np.bincount(predicted, minlength=n_labels)
    return float(np.mean(2 * right[either > 0] / either[either > 0]))


def count_confusions(labels: Sequence[str], codes: Codes, predicted: Codes) -> tuple[Confusion, ...]:
    """Return the most frequent wrong answers; see `TaskFigures.confusion`."""
    wrong = codes != predicted
    pairs, counts = np.unique(np.stack([codes[wrong], predicted[wrong]]), axis=1, return_counts=True)
    of = np.bincount(codes, minlength=len(labels))
    order = np.lexsort((pairs[1], pairs[0], -counts))[:MAX_CONFUSIONS]
    return tuple(
        (labels[pairs[0][i]], labels[pairs[1][i]], int(counts[i]), int(of[pairs[0][i]])) for i in order
    )


def compare_models(
    tasks: TaskSet,
    labels: dict[str, int] | None,
    estimator: ClusterMultiTask,
    make: MakeEstimator,
    *,
    runner: Runner,
    name: str,
    progress: Progress | None = None,
) -> Evaluation:
    """Return what the test rows say of a trained model, beside single-task, shared and cluster models.

    All figures are of models that have not seen the test rows, before any refit. A blend has single-task and
    shared models; cluster models that do not serve are trained here, under the names of the stage
    ``multitask``: its folds come from the store. The paper's models have no components: tasks alone, and all
    tasks as one cluster, are trained in the same way.

    Parameters
    ----------
    tasks, labels
        What the model was trained on.
    estimator
        The model.
    make
        Makes the estimator of the run, with another policy for cluster models; None keeps it.
    runner, name
        Runs the jobs, and the name under which the stage ``multitask`` ran them.
    progress
        Called with the progress of training.
    """
    from robusttc.multitask import clusters_to_train

    shared = runner.with_prefix(name, cost_stage=STAGE)
    predicted: dict[str, dict[str, Codes]] = {
        task: dict(held.predicted) for task, held in estimator.evaluation_.items()
    }

    def compare_with(
        kind: str, of: str, key: str, clusters: Mapping[str, int] | None, policy: Literal["always"] | None
    ) -> None:
        """Train other models, and take what their component `of` predicts as that of a `kind`."""
        # Under another name, unless it is the very computation of the stage multitask.
        own = runner.with_prefix(f"{name}/{key}", stage=STAGE) if key else shared
        try:
            other = make(policy).fit(tasks, clusters, progress=progress, runner=own)
        except WorkError as error:
            # Figures that are missing are no reason to have no models.
            warnings.warn(f"{kind} models cannot be compared with: {error}", DoubtWarning, stacklevel=2)
            return
        for task, held in other.evaluation_.items():
            if of in held.predicted:
                predicted[task][kind] = held.predicted[of]

    if estimator.strategy == "paper":
        for codes in predicted.values():
            codes.pop("own", None)
        compare_with("own", "own", "alone", dict.fromkeys(tasks.names, -1), None)
        compare_with("shared", "cluster", "together", None, None)
    elif (
        not estimator.predictor_.clusters
        and labels is not None
        and clusters_to_train({task: labels[task] for task in tasks.shareable().names})
    ):
        compare_with("cluster", "cluster", "", labels, "always")
    report(progress, STAGE, len(predicted), len(predicted), "tasks")
    figures = []
    for task, codes in predicted.items():
        cluster, test = estimator.predictor_.tasks[task].cluster, estimator.evaluation_[task]
        held_out = estimator.held_out_.get(task)
        gain = None if held_out is None else paired_gain(held_out.right)
        figures.append(judge(tasks[task], cluster, test.rows, codes, test.seen, gain))
    return Evaluation.of(figures)
