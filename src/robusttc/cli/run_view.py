"""A finished run as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from robusttc.cli.console import percent, say, without_controls
from robusttc.formatting import command_line, count, format_duration

if TYPE_CHECKING:
    from robusttc.run import Evaluation, Run, TaskFigures

__all__ = ["KIND_WORDS", "show_doubts", "show_means", "show_run", "show_tasks"]

MAX_SIZES = 12
MAX_LEFT_OUT = 5
KIND_WORDS = {
    "own": "own: each task alone",
    "shared": "shared: one model of all",
    "cluster": "cluster: one a cluster",
    "served": "served: what predicts",
}


PART_WORDS = {"novel": "texts that no other task has", "seen": "texts that another task has too"}


def show_run(console: Console, folder: Path, run: Run) -> None:
    """Print what a person wants to know at the end of a fit."""
    summary = run.summary
    tasks = summary["tasks"]
    private = f", {tasks['n_private']:,} of them private" if tasks["n_private"] else ""
    say(console, f"{count(tasks['n'], 'task')}{private}, {count(tasks['n_rows'], 'row')}.")
    stopped = (summary["transfer"] or {}).get("stopped_early")
    if stopped is not None:
        say(console, stopped["sentence"])
    show_clusters(console, summary)
    for part, title in (("multitask", "Multi-task"), ("fewshot", "Few-shot")):
        verdict = (summary[part] or {}).get("verdict")
        if verdict is not None:
            say(console, f"{title}: {verdict['sentence']}")
    evaluation = run.evaluation
    say(console, "")
    show_means(console, evaluation)
    say(console, evaluation.sentence)
    show_doubts(console, summary)
    show_costs(console, summary)
    files = ["models/", "clusters.csv", "summary.json"] + (["scores.csv"] if summary["transfer"] else [])
    say(console, f"\nIn {folder / 'current'}: {', '.join(files)}.")
    say(console, f"Next: {command_line('evaluate', folder)}")
    say(console, f"      {command_line('predict', folder, '--task', 'NAME', 'TEXTS.txt')}")
    if summary["fewshot"] is not None:
        say(console, f"      {command_line('adapt', folder, 'EXAMPLES.csv', '--name', 'NAME')}")


def show_clusters(console: Console, summary: Mapping[str, Any]) -> None:
    """Print how many clusters there are, and how sure that is."""
    clusters = summary["clusters"]
    if clusters is None:
        say(console, "No clusters: there are not two tasks that may share, or they could not be clustered.")
        return
    sizes = ", ".join(f"{size:,}" for size in clusters["sizes"][:MAX_SIZES])
    more = " …" if len(clusters["sizes"]) > MAX_SIZES else ""
    alone = f"; {count(clusters['n_without'], 'task')} in none" if clusters["n_without"] else ""
    of_sizes = f" of {sizes}{more} tasks" if sizes else ""
    say(console, f"{count(clusters['n'], 'cluster')}{of_sizes}{alone} ({clusters['reason']}).")
    say(console, clusters["sentence"])


def show_means(console: Console, evaluation: Evaluation) -> None:
    """Print the mean accuracy of each kind of model over tasks."""
    if not evaluation.means:
        return
    n_tasks = next(iter(evaluation.means.values())).n
    table = Table(
        title=f"Test accuracy: mean over {count(n_tasks, 'task')} [95 % interval]", title_justify="left"
    )
    for heading in ("model", "accuracy in %", "over own"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for kind, mean in evaluation.means.items():
        gain = evaluation.gains.get(kind)
        table.add_row(KIND_WORDS[kind], percent(mean), "" if gain is None else percent(gain, sign="+"))
    console.print(table)
    if "served" in evaluation.macro_f1:
        say(console, f"Macro-F1 of what predicts: {percent(evaluation.macro_f1['served'])} %.")
    for part, words in PART_WORDS.items():
        found = getattr(evaluation, part)
        if found:
            over_own = f", {percent(found['gain'], sign='+')} over own" if "gain" in found else ""
            judged = count(found["served"].n, "task")
            say(console, f"On {words}: {percent(found['served'])} %{over_own} ({judged}).")


def show_task(console: Console, task: TaskFigures) -> None:
    """Print the figures of one task, and which labels what predicts takes for others."""
    table = Table(title=without_controls(task.task), title_justify="left", box=None, pad_edge=False)
    for heading in ("model", "all texts", "novel texts", "seen elsewhere", "macro-F1"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for kind, words in KIND_WORDS.items():
        if getattr(task, kind) is not None:
            parts = (percent(part.get(kind)) for part in (task.novel, task.seen))
            f1 = f"{100 * task.macro_f1[kind]:.1f}" if kind in task.macro_f1 else ""
            table.add_row(words, percent(getattr(task, kind)), *parts, f1)
    console.print(table)
    say(console, f"{count(task.n_rows, 'test row')}; shares in % [95 % interval].")
    if task.confusion:
        confusions = Table("label", "predicted", box=None, pad_edge=False)
        confusions.add_column("rows", justify="right")
        for label, predicted, n, of in task.confusion:
            cells = (Text(without_controls(name)) for name in (label, predicted))
            confusions.add_row(*cells, f"{n:,} of {of:,}")
        console.print(confusions)


def show_tasks(console: Console, evaluation: Evaluation, limit: int) -> None:
    """Print a row a task, those that lose most first."""
    table = Table("task", box=None, pad_edge=False)
    for heading in ("cluster", "rows", *KIND_WORDS, "served - own", ""):
        table.add_column(heading, justify="right")
    ordered = sorted(evaluation.tasks, key=by_gain)
    shown = ordered[:limit] if limit else ordered
    for task in shown:
        cells = [percent(getattr(task, kind), interval=False) for kind in KIND_WORDS]
        gain = percent(task.gain, sign="+")
        group = str(task.group) if task.group >= 0 else ""
        state = "" if task.state == "no difference" else task.state
        table.add_row(Text(without_controls(task.task)), group, f"{task.n_rows:,}", *cells, gain, state)
    console.print(table)
    if len(shown) < len(ordered):
        say(console, f"… and {len(ordered) - len(shown):,} more tasks (--limit 0 shows all)")


def by_gain(task: TaskFigures) -> tuple[float, str]:
    """Sort by gain; tasks without one last."""
    return (float("inf") if task.gain is None else task.gain.mean), task.task


def show_doubts(console: Console, summary: Mapping[str, Any]) -> None:
    """Print what is doubtful, and what was left out."""
    for doubt in summary["doubts"]:
        say(console, f"Doubtful: {doubt}")
    left_out = summary["quarantined"]
    if not left_out:
        return
    say(console, f"Left out: {count(len(left_out), 'unit')} of work (--retry tries again):")
    for unit in left_out[:MAX_LEFT_OUT]:
        say(console, f"  {unit['key']}: {unit['error']}")
    if len(left_out) > MAX_LEFT_OUT:
        say(console, f"  … and {len(left_out) - MAX_LEFT_OUT:,} more in summary.json")


def show_costs(console: Console, summary: Mapping[str, Any]) -> None:
    """Print the time of every stage."""
    from robusttc.formatting import format_bytes

    costs = summary["costs"]
    if not costs:
        return
    times = ", ".join(f"{cost['stage']} {format_duration(cost['wall_seconds'])}" for cost in costs)
    peak = max(cost["peak_bytes"] for cost in costs)
    memory = f"; {format_bytes(peak)} a worker" if peak else ""
    say(console, f"Took {times}{memory}.")
