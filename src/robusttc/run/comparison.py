"""Compare: a run beside what is in use today, by the labels that both predict for the same texts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robusttc.data import ProblemList, Task, normalise_name, open_tables
from robusttc.errors import DataError, Problem, UsageError, quote
from robusttc.formatting import count
from robusttc.run.task_files import read_examples
from robusttc.stats import Estimate, mean_interval, share_interval
from robusttc.transfer import normalise_text

if TYPE_CHECKING:
    import pandas as pd

    from robusttc.run.run import Run

__all__ = ["Comparison", "TaskComparison", "compare_run"]

COLUMNS = ("task", "text", "label", "predicted")
MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """One task: the run beside what is in use today.

    Attributes
    ----------
    task
        The task.
    n_texts, n_learned
        How many texts were compared, and how many were left out since the run has learned them.
    run, today
        The shares of them that each predicts right, with Wilson's interval; None without texts.
    wins, losses
        How many only the run predicts right, and how many only the other.
    difference
        The mean paired difference, the run less the other, with its interval; None without texts.
    unknown_labels
        Labels of the texts that the run does not know, so that it cannot be right there.
    """

    task: str
    n_texts: int
    n_learned: int
    run: Estimate | None
    today: Estimate | None
    wins: int
    losses: int
    difference: Estimate | None
    unknown_labels: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """One of ``better``, ``worse`` (95 % intervals), ``no difference`` and ``nothing to compare``."""
        if self.difference is None:
            return "nothing to compare"
        if self.difference.above_zero:
            return "better"
        return "worse" if self.difference.below_zero else "no difference"

    def to_dict(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        estimates = {"run": self.run, "today": self.today, "difference": self.difference}
        return {
            "task": self.task,
            "state": self.state,
            "n_texts": self.n_texts,
            "n_learned": self.n_learned,
            **{name: None if value is None else value.to_dict() for name, value in estimates.items()},
            "wins": self.wins,
            "losses": self.losses,
            "unknown_labels": list(self.unknown_labels),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run beside what is in use today: one entry per task, and the tasks that the run does not have."""

    tasks: tuple[TaskComparison, ...]
    not_in_run: tuple[str, ...] = ()

    @property
    def stay(self) -> tuple[str, ...]:
        """The tasks that should not move to the run: it is worse there for sure."""
        return tuple(one.task for one in self.tasks if one.state == "worse")

    @property
    def sentences(self) -> tuple[str, ...]:
        """All this in words."""
        judged = [one for one in self.tasks if one.difference is not None]
        if not judged:
            return (
                "No text can be compared: the run has learned them all. Use texts that it was not given.",
            )
        n_texts = sum(one.n_texts for one in judged)
        n_better = sum(one.state == "better" for one in judged)
        found = [
            f"On {count(n_texts, 'text')} the run is better for {n_better:,} of "
            f"{count(len(judged), 'task')} and worse for {len(self.stay):,} (95 % intervals); for the others "
            "it cannot be told."
        ]
        if len(judged) > 1:
            means = mean_interval([one.difference.mean for one in judged if one.difference is not None])
            points = " ".join(f"{100 * value:+.1f}" for value in (means.mean, means.low, means.high)).split()
            found.append(
                f"The mean over tasks: {points[0]} points [{points[1]}, {points[2]}], the run less today's."
            )
        if self.stay:
            more = f" and {len(self.stay) - MAX_NAMED:,} more" if len(self.stay) > MAX_NAMED else ""
            names = ", ".join(quote(name) for name in self.stay[:MAX_NAMED])
            found.append(f"These should not move: {names}{more}.")
        n_learned = sum(one.n_learned for one in self.tasks)
        if n_learned:
            found.append(
                f"Left out: {count(n_learned, 'text')} that the run has learned, so it would look too good."
            )
        return tuple(found)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per task, with the keys of `TaskComparison.to_dict`; nested ones have a dot."""
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("to_frame needs pandas", todo="install it: pip install pandas") from None
        return pd.json_normalize([one.to_dict() for one in self.tasks])

    def to_dict(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        return {
            "sentences": list(self.sentences),
            "stay": list(self.stay),
            "not_in_run": list(self.not_in_run),
            "tasks": [one.to_dict() for one in self.tasks],
        }


def compare_run(run: Run, predictions: str | os.PathLike[str] | pd.DataFrame) -> Comparison:
    """Compare a run with what is in use today.

    Texts in ``test`` rows of the run's tasks count by what models predicted that had not seen them; other
    texts that the run has learned are left out; all others are predicted now.

    Parameters
    ----------
    run
        The run.
    predictions
        A table (CSV, TSV, JSON Lines, Parquet, Excel or a frame) with the columns ``task``, ``text``,
        ``label`` (the right one) and ``predicted`` (today's).

    Raises
    ------
    DataError
        If the table cannot be read, or none of its tasks is in the run.
    """
    rows = read_predictions(predictions)
    known = {name: entries for name, entries in rows.items() if name in run.task_names}
    missing = tuple(sorted(rows.keys() - known.keys()))
    if not known:
        raise DataError("no task of the table is in the run", got=", ".join(map(quote, missing[:MAX_NAMED])))
    return Comparison(tuple(compare_task(run, name, known[name]) for name in sorted(known)), missing)


def compare_task(run: Run, name: str, rows: Sequence[tuple[str, str, str]]) -> TaskComparison:
    """Compare one task by its texts, labels and today's labels."""
    task = read_examples(run.version, name) if name in run.adapted_names else run.rows_of(name)
    unseen = predicted_unseen(run, task)
    learned = {normalise_text(text) for text in task.texts_at(task.rows("train", "valid"))}
    keys = [normalise_text(text) for text, _, _ in rows]
    kept = [place for place, key in enumerate(keys) if key in unseen or key not in learned]
    asked = [place for place in kept if keys[place] not in unseen]
    labels = run.predict(name, [rows[place][0] for place in asked]).labels.tolist() if asked else []
    ours = dict(zip(asked, labels, strict=True))
    ours |= {place: unseen[keys[place]] for place in kept if keys[place] in unseen}
    right = np.array([ours[place] == rows[place][1] for place in kept], dtype=np.bool_)
    today = np.array([rows[place][2] == rows[place][1] for place in kept], dtype=np.bool_)
    n_texts = len(kept)
    unknown = tuple(sorted({label for _, label, _ in rows} - set(run.predictor(name).label_names)))
    return TaskComparison(
        name,
        n_texts,
        len(rows) - n_texts,
        share_interval(int(right.sum()), n_texts) if n_texts else None,
        share_interval(int(today.sum()), n_texts) if n_texts else None,
        int((right & ~today).sum()),
        int((today & ~right).sum()),
        mean_interval(right.astype(np.float64) - today) if n_texts else None,
        unknown,
    )


def predicted_unseen(run: Run, task: Task) -> dict[str, str]:
    """Return what was predicted for the test texts of a task of the fit, by models that had not seen them."""
    if task.name in run.added or task.name in run.adapted_names:
        return {}
    held = run.multitask.evaluation_.get(task.name)
    if held is None:
        return {}
    codes = held.predicted["served"].tolist()
    texts = map(normalise_text, task.texts_at(held.rows))
    return {text: task.label_names[code] for text, code in zip(texts, codes, strict=True)}


def read_predictions(
    source: str | os.PathLike[str] | pd.DataFrame,
) -> Mapping[str, list[tuple[str, str, str]]]:
    """Return text, label and predicted label of every row, by task."""
    path = Path(source) if isinstance(source, str | os.PathLike) else source
    where = str(path) if isinstance(path, Path) else "DataFrame"
    problems = ProblemList()
    found: dict[str, list[tuple[str, str, str]]] = {}
    with problems.collecting(where):
        for table in open_tables(path, problems, known=COLUMNS):
            names = {normalise_name(name): name for name in table.columns}
            missing = [name for name in COLUMNS if name not in names]
            if missing:
                raise DataError(
                    "the table has no such column",
                    where=where,
                    got=", ".join(map(quote, table.columns)) or "no header",
                    expected=", ".join(map(quote, missing)),
                )
            for line, cells in table.rows([names[name] for name in COLUMNS]):
                values = [cell if cell is None or isinstance(cell, str) else str(cell) for cell in cells]
                if not all(isinstance(value, str) and value.strip() for value in values):
                    place = Problem(where, "", line, unit=table.unit).place
                    raise DataError(
                        "a cell is empty", where=place, expected=f"{', '.join(COLUMNS)} in every row"
                    )
                name, text, label, predicted = map(str, values)
                found.setdefault(name, []).append((text, label, predicted))
    for problem in problems.first[:1]:
        raise DataError(problem.what, where=problem.place, got=problem.got, expected=problem.expected)
    return found
