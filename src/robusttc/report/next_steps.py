"""What to do next, by what was found: the most useful first, each with the command where there is one."""

from __future__ import annotations

from collections.abc import Iterator

from robusttc.formatting import command_line, count
from robusttc.report.facts import RunFacts
from robusttc.report.harm_entries import Harm
from robusttc.report.measure_next import MeasureNext
from robusttc.report.wording import command_place, list_names, say_name, say_points

__all__ = ["advise"]

MAX_STEPS = 7
Step = dict[str, str | None]


def advise(facts: RunFacts, harm: Harm, measuring: MeasureNext) -> list[Step]:
    """Give the next steps."""
    steps: list[Step] = []
    for text, command in (
        *after_failures(facts),
        *after_harm(facts, harm),
        *after_doubt(facts, measuring),
        *after_rows(facts),
        *to_look_closer(facts, harm),
        *to_go_on(facts),
    ):
        steps.append({"text": text, "command": command})
    return steps[:MAX_STEPS]


Found = Iterator[tuple[str, str | None]]


def after_failures(facts: RunFacts) -> Found:
    """Mend what could not be done."""
    run = command_place(facts.folder)
    set_aside = sorted(facts.set_aside)
    if set_aside:
        yield (
            f"Mend the rows of {list_names(set_aside)} (a task needs training rows of two labels), then fit "
            "again in another folder.",
            command_line("inspect", "TASKS"),
        )
    if any(unit["stage"] != "read" for unit in facts.summary["quarantined"]):
        yield (
            "Try again what failed; what is finished is not done again.",
            command_line("fit", "TASKS", "--out", run, "--retry"),
        )


def after_harm(facts: RunFacts, harm: Harm) -> Found:
    """Look after tasks that are worse off."""
    if not harm.tasks:
        return
    worst = harm.tasks[0]
    run = command_place(facts.folder)
    yield (
        f"See why {say_name(worst.task)} loses with sharing ({say_points(worst.change)}).",
        command_line("explain", run, ("--task", worst.task)),
    )
    if len(harm.tasks) > harm.n_by_chance:
        private = [("--private", task.task) for task in harm.tasks[:3]]
        yield (
            "If that is no accident, let it learn alone: fit again in another folder with the task kept "
            "private.",
            command_line("fit", "TASKS", "--out", "ANOTHER", *private),
        )


def after_doubt(facts: RunFacts, measuring: MeasureNext) -> Found:
    """Measure more where that makes clusters surer, and where they matter."""
    verdict = facts.verdict
    if verdict is None or verdict["supported"]:
        return
    if measuring.n_scores is not None:
        yield (
            f"For surer clusters measure {count(measuring.n_more or 0, 'more pair')}, in another folder; "
            "those of this run are among them.",
            command_line("fit", "TASKS", "--out", "ANOTHER", "--pairs", str(measuring.n_scores)),
        )
    elif facts.clusters_serve:
        yield "The clusters serve, though held-out pairs do not confirm them. " + measuring.sentence, None


def after_rows(facts: RunFacts) -> Found:
    """Ask for the rows that judgements need."""
    figures = facts.figures.values()
    n_without = sum(not one.n_rows for one in figures)
    if n_without:
        yield (
            f"{count(n_without, 'task')} cannot be judged for want of test rows: give some in a column "
            "'split', or leave that column out, and a fifth of the rows become test rows.",
            None,
        )


def to_look_closer(facts: RunFacts, harm: Harm) -> Found:
    """Name the task that is worth a look."""
    run = command_place(facts.folder)
    if harm.tasks:
        return
    gains = [
        (one.gain.mean, one.task)
        for one in facts.figures.values()
        if one.gain is not None and one.gain.above_zero
    ]
    if gains:
        gain, name = max(gains)
        yield (
            f"See where {say_name(name)} gets its gain from, the greatest of all ({100 * gain:.1f} points).",
            command_line("explain", run, ("--task", name)),
        )
        return
    lost = [name for name in facts.tasks.shareable().names if is_lost(facts, name)]
    if lost:
        yield (
            f"See why {say_name(lost[0])} fits no cluster.",
            command_line("explain", run, ("--task", lost[0])),
        )
    elif facts.confidence:
        name = min(facts.confidence, key=lambda one: (facts.confidence[one], one))
        yield (
            f"See why {say_name(name)} is in its cluster, and what it shares with the others.",
            command_line("explain", run, ("--task", name)),
        )


def is_lost(facts: RunFacts, name: str) -> bool:
    """Tell whether a task was compared with others, and is in no cluster."""
    known = facts.similarity is not None and name in facts.similarity.task_names
    return known and facts.partition.get(name, -1) < 0


def to_go_on(facts: RunFacts) -> Found:
    """Use what is there."""
    run = command_place(facts.folder)
    if facts.summary["fewshot"] is not None:
        yield (
            "Bring a new client on board from a handful of examples, in seconds.",
            command_line("adapt", run, "EXAMPLES.csv", "--name", "NAME"),
        )
    if facts.similarity is not None:
        yield (
            "Add tasks with more rows: only a few pairs are measured, and nobody else's model changes.",
            command_line("add", run, "TASKS"),
        )
    yield "Label new texts.", command_line("predict", run, "--task", "NAME", "TEXTS.txt")
