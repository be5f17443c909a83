"""What the report says in plain words: the answer in a few sentences with figures, and what to do next."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from robusttc.clustering import MIN_PAIRS
from robusttc.formatting import command_line, count, format_interval, format_percent, format_points
from robusttc.models import FEWEST_TASKS
from robusttc.report.data import ReportData
from robusttc.stats import Estimate

__all__ = ["advise", "advise_measuring", "command_path", "make_title", "summarise", "summarise_harm"]

# Half a point is for sure where tasks are many, but nobody would notice less.
WORTHWHILE = 0.005
# A model that counts less than this in the blend is not worth mentioning.
MIN_WEIGHT = 0.02
# One end of a 95 % interval: of so many tasks that nothing harms, one looks harmed.
ONE_IN = 40
MAX_STEPS = 7
MAX_TASKS = 20
MAX_NAMES = 3
MAX_NAME_LENGTH = 40
# Names of folders that say nothing of what is in them.
PLAIN_FOLDERS = {
    "run",
    "runs",
    "out",
    "output",
    "result",
    "results",
    "model",
    "models",
    "tmp",
    "work",
    "current",
}

Step = tuple[str, str | None]


def make_title(folder: Path, when: float) -> str:
    """Return a title for the report of a run: the folder that says what it is of, and the date.

    >>> make_title(Path("/data/acme-bots/run"), 1_790_000_000), make_title(Path("/run"), 1_790_000_000)
    ('acme-bots, 21 September 2026', 'Task clusters, 21 September 2026')
    """
    parts = [part for part in reversed(folder.resolve().parts[1:]) if part.lower() not in PLAIN_FOLDERS]
    date = datetime.fromtimestamp(when, tz=UTC)
    return f"{parts[0] if parts else 'Task clusters'}, {date.day} {date:%B %Y}"


def summarise(data: ReportData) -> list[str]:
    """Return the sentences: the answer, what there is, who gains, whether clusters pay and are certain."""
    sentences = [
        answer(data),
        describe_tasks(data),
        describe_gain(data),
        describe_novel(data),
        describe_payoff(data),
        str(data.run.verdict["sentence"]) if data.run.verdict is not None and data.n_clusters else None,
        summarise_harm(data) if data.changes and is_shared(data) else None,
        describe_left_out(data),
        describe_changes(data),
    ]
    return [sentence for sentence in sentences if sentence]


def answer(data: ReportData) -> str | None:
    """Say whether it is worth it; None where nothing can be compared."""
    means, gain = data.run.evaluation.means, data.run.evaluation.gains.get("served")
    if gain is None or not {"served", "shared"} <= means.keys():
        return None
    figures = (
        f"{format_percent(means['served'].mean)} of the test rows are right, "
        f"{format_percent(means['own'].mean)} with each task's own model alone"
    )
    if not gain.above_zero:
        return f"Sharing {'does harm' if gain.below_zero else 'does not clearly pay'} here: {figures}."
    verdict = data.run.summary["multitask"]["verdict"]
    if verdict is None or not verdict["over_shared"]["n"] or not data.n_clusters:
        return f"Sharing pays: {figures}."
    clusters = "but clusters do not"
    if verdict["clusters_help"]:
        is_much = verdict["over_shared"]["mean"] >= WORTHWHILE
        clusters = "and so do clusters" if is_much else "and clusters add a little"
    return f"Sharing pays, {clusters}: {figures}."


def describe_tasks(data: ReportData) -> str:
    """Say how many tasks and clusters there are."""
    run = data.run
    what = f"{count(len(run.tasks), 'task')} with {count(run.tasks.n_rows, 'row')}"
    n_private = len(run.tasks) - len(run.tasks.shareable())
    private = ""
    if n_private:
        learns = "is private: it learns" if n_private == 1 else "are private: each learns"
        private = f" {count(n_private, 'task')} {learns} alone, and nobody learns from it."
    sizes = sorted(Counter(label for label in run.clusters.values() if label >= 0).values(), reverse=True)
    if not sizes:
        return f"{what}, not clustered: {why_no_clusters(data)}.{private}"
    n_without = sum(
        label < 0 and data.is_sharing(name) and name not in run.set_aside
        for name, label in run.clusters.items()
    )
    without = (
        f" {count(n_without, 'task')} fit{'s' if n_without == 1 else ''} no cluster." if n_without else ""
    )
    if len(sizes) == 1:
        alike = f"nothing that was measured tells {sizes[0]:,} of them apart, so they are one cluster"
        return f"{what}: {alike}.{without}{private}"
    n_alone = sum(size == 1 for size in sizes)
    shape = f"the largest has {count(sizes[0], 'task')}"
    if 0 < n_alone < len(sizes):
        shape += f", {n_alone:,} {'has' if n_alone == 1 else 'have'} only one"
    return f"{what} fall into {len(sizes):,} clusters; {shape}.{without}{private}"


def why_no_clusters(data: ReportData) -> str:
    """Say why there are no clusters."""
    if len(data.run.tasks.shareable()) < 2:
        return "it takes two tasks that may share"
    if data.run.scores is None or data.run.similarity is None:
        return "transfer between them could not be measured, or not clustered"
    return "what was measured does not say who belongs together"


def describe_gain(data: ReportData) -> str:
    """Say how much better off tasks are than alone."""
    means, gain = data.run.evaluation.means, data.run.evaluation.gains.get("served")
    if "served" not in means:
        return "No task has test rows, so nobody can say how accurate the models are."
    served = with_interval(format_percent(means["served"].mean), means["served"])
    basis = f"mean over {count(means['served'].n, 'task')}, 95 % interval in brackets"
    if gain is None or not {"shared", "cluster"} & means.keys():
        return f"The models get {served} of the test rows right ({basis}); nothing is shared between tasks."
    if gain.above_zero:
        comparison = f"{points(gain)} over each task's own model alone"
    elif gain.below_zero:
        comparison = f"{points(gain)} over each task's own model alone: sharing does harm here"
    else:
        own = f"{format_percent(means['own'].mean)} with each task's own model alone"
        comparison = f"against {own}: no clear difference ({points(gain)})"
    who = ""
    if len(data.changes) > 1:
        n_gaining = sum(change.above_zero for change, _ in data.changes.values())
        who = f" {n_gaining:,} of {count(len(data.changes), 'task')} gain for sure, taken one by one."
    return f"With sharing, {served} of the test rows are right ({basis}), {comparison}.{who}"


def describe_novel(data: ReportData) -> str | None:
    """Say how much of the gain is on texts that no other task has."""
    novel, seen = data.run.evaluation.novel, data.run.evaluation.seen
    if "gain" not in novel or "gain" not in seen:
        return None
    return (
        f"On texts that no other task learned from, {format_percent(novel['served'].mean)} are right, "
        f"{points(novel['gain'])} over the own models; on texts seen in another task "
        f"{format_percent(seen['served'].mean)}, {points(seen['gain'])}."
    )


def describe_payoff(data: ReportData) -> str | None:
    """Say whether clusters are worth having, for the tasks that are there and for new ones."""
    summary = data.run.summary
    if not data.n_clusters:
        return None
    if summary["multitask"]["strategy"] == "paper":
        return "Each cluster's own model serves, as in the paper; whether that pays was not tested."
    sentences = []
    verdict = summary["multitask"]["verdict"]
    if verdict is not None:
        sentences.append(
            describe_verdict(verdict, data.n_clusters, describe_serving(summary["multitask"]["weights"]))
        )
    fewshot = (summary["fewshot"] or {}).get("verdict")
    if fewshot is not None and fewshot["over_shared"]["n"]:
        over = Estimate.from_dict(fewshot["over_shared"])
        does = "pay" if fewshot["clusters_help"] else "do not pay"
        sentences.append(
            f"For new tasks with a handful of examples clusters {does} ({points(over)} over one model of "
            "all)."
        )
    return " ".join(sentences) or None


def describe_serving(weights: Mapping[str, float]) -> str:
    """Say which models predict, by their weights in the blend.

    >>> describe_serving({"own": 1.0, "shared": 0.5, "cluster": 0.0})
    "one model of all tasks serves, together with each task's own"
    """
    total = sum(weights.values()) or 1.0
    words = {
        "cluster": "the model of each cluster",
        "shared": "one model of all tasks",
        "own": "each task's own",
    }
    used = [words[kind] for kind in words if weights.get(kind, 0.0) / total > MIN_WEIGHT]
    first, *others = used or [words["own"]]
    first += " model" if first == words["own"] else ""
    return f"{first} serves" + (f", together with {' and '.join(others)}" if others else "")


def describe_verdict(verdict: Mapping[str, Any], n_clusters: int, serving: str) -> str:
    """Say whether clusters pay, in other words than the verdict's own."""
    over = Estimate.from_dict(verdict["over_shared"])
    if not over.n:
        why = "There is only one cluster" if n_clusters == 1 else "No cluster has a model of its own"
        return f"{why}, so clusters cannot pay: {serving}."
    if over.n < FEWEST_TASKS:
        needed = f"{count(over.n, 'task')} ({FEWEST_TASKS} are needed)"
        return f"Whether clusters pay cannot be told from {needed}: {serving}."
    figures = f"{points(over)} over one model of all tasks"
    if verdict["over_random"] is not None:
        figures += (
            f", {points(Estimate.from_dict(verdict['over_random']))} over random groups of the same sizes"
        )
    if verdict["clusters_help"]:
        return f"Clusters pay: {figures}; {serving}."
    if over.above_zero:
        return f"Clusters do not pay more than chance: {figures}; {serving}."
    return f"Clusters {'do harm' if over.below_zero else 'do not pay'} here: {figures}; {serving}."


def is_shared(data: ReportData) -> bool:
    """Return whether there are two tasks that share."""
    return sum(data.is_sharing(name) for name in data.figures) > 1


def summarise_harm(data: ReportData) -> str:
    """Say how many tasks lose by sharing, and how many would look so by chance."""
    harmed, n_judged = data.negative_transfer, len(data.changes)
    if not is_shared(data):
        return "Nothing is shared between tasks, so sharing harms nobody."
    if not n_judged:
        return "Nobody can tell whether sharing harms a task: no task has test rows, or held-out rows."
    if not harmed:
        return f"Sharing harms none of {count(n_judged, 'task')} for sure (95 % intervals)."
    verb = "is" if len(harmed) == 1 else "are"
    n_by_chance = n_judged / ONE_IN
    chance = (
        f"; about {max(1, round(n_by_chance)):,} would look so by chance alone" if n_by_chance >= 0.5 else ""
    )
    return (
        f"{len(harmed):,} of {count(n_judged, 'task')} {verb} worse off with sharing than alone "
        f"(95 % intervals): {list_names([one.task for one in harmed])}{chance}."
    )


def describe_left_out(data: ReportData) -> str | None:
    """Say what could not be done."""
    sentences = []
    if data.run.set_aside:
        names = list_names(sorted(data.run.set_aside))
        sentences.append(f"{count(len(data.run.set_aside), 'task')} could not be learned: {names}.")
    n_jobs = sum(unit["stage"] != "read" for unit in data.run.quarantined)
    if n_jobs:
        sentences.append(f"{count(n_jobs, 'job')} failed and {'was' if n_jobs == 1 else 'were'} left out.")
    return " ".join(sentences) or None


def describe_changes(data: ReportData) -> str | None:
    """Say what happened after the fit."""
    later = data.run.history[1:]
    came = [name for name in data.run.added if name in data.run.clusters]
    n_gone = sum(len(change.tasks) for change in later if change.kind == "remove")
    parts = []
    if came:
        n_out = sum(data.run.added[name].out_of_cluster for name in came)
        out = f", {n_out:,} of them into no cluster" if n_out else ""
        parts.append(f"{count(len(came), 'task')} came later{out}")
    if n_gone:
        parts.append(f"{count(n_gone, 'task')} went")
    return (
        f"Since the fit {' and '.join(parts)}; this is version {later[-1].version}."
        if parts and later
        else None
    )


def advise(data: ReportData, measuring: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """Return what to do next, the most useful first, each with the command where there is one."""
    run = command_path(data.run.folder)
    steps = [
        *mend_failures(data, run),
        *look_at_harm(data, run),
        *settle_doubts(data, measuring),
        *look_closer(data, run),
        *use_it(data, run),
    ]
    return [{"text": text, "command": command} for text, command in steps[:MAX_STEPS]]


def mend_failures(data: ReportData, run: Path) -> Iterator[Step]:
    """Mend what could not be done."""
    if data.run.set_aside:
        yield (
            f"Mend the rows of {list_names(sorted(data.run.set_aside))} (a task needs training rows of two "
            "labels), then fit again in another folder.",
            command_line("inspect", "TASKS"),
        )
    if any(unit["stage"] != "read" for unit in data.run.quarantined):
        yield (
            "Try again what failed; what is finished is not done again.",
            command_line("fit", "TASKS", "--out", run, "--retry"),
        )
    n_without = sum(not figures.n_rows for figures in data.figures.values())
    if n_without:
        yield (
            f"{count(n_without, 'task')} cannot be judged for want of test rows: give some in a column "
            "'split', or leave that column out, and a fifth of the rows become test rows.",
            None,
        )


def look_at_harm(data: ReportData, run: Path) -> Iterator[Step]:
    """Look after tasks that are worse off."""
    harmed = data.negative_transfer
    if not harmed:
        return
    worst = harmed[0]
    yield (
        f"See why {short_name(worst.task)} loses with sharing ({points(worst.change)}).",
        command_line("explain", run, ("--task", worst.task)),
    )
    if len(harmed) > len(data.changes) / ONE_IN:
        private = [("--private", one.task) for one in harmed[:MAX_NAMES]]
        yield (
            "If that is no accident, let it learn alone: fit again in another folder with the task kept "
            "private.",
            command_line("fit", "TASKS", "--out", "ANOTHER", *private),
        )


def settle_doubts(data: ReportData, measuring: Mapping[str, Any]) -> Iterator[Step]:
    """Measure more where that makes clusters surer, and where they matter."""
    if data.run.verdict is None or data.run.verdict["supported"]:
        return
    if measuring["n_scores"] is not None:
        yield (
            f"For surer clusters measure {count(measuring['n_more'], 'more pair')}, in another folder; "
            "those of this run are among them.",
            command_line("fit", "TASKS", "--out", "ANOTHER", "--pairs", str(measuring["n_scores"])),
        )
    elif data.clusters_serve:
        yield "The clusters serve, though held-out pairs do not confirm them. " + measuring["sentence"], None


def look_closer(data: ReportData, run: Path) -> Iterator[Step]:
    """Name the task that is worth a look."""
    if data.negative_transfer:
        return
    gains = [
        (one.gain.mean, name)
        for name, one in data.figures.items()
        if one.gain is not None and one.gain.above_zero
    ]
    unplaced = [] if data.matrices is None else [n for n in data.matrices.names if data.run.clusters[n] < 0]
    if gains:
        gain, name = max(gains)
        greatest = f"the greatest of all ({format_points(gain)} points)"
        text = f"See where {short_name(name)} gets its gain from, {greatest}."
    elif unplaced:
        name = min(unplaced)
        text = f"See why {short_name(name)} fits no cluster."
    elif data.run.confidence:
        name = min(data.run.confidence, key=lambda one: (data.run.confidence[one], one))
        text = f"See why {short_name(name)} is in its cluster, and what it shares with the others."
    else:
        return
    yield text, command_line("explain", run, ("--task", name))


def use_it(data: ReportData, run: Path) -> Iterator[Step]:
    """Use what is there."""
    if data.run.summary["fewshot"] is not None:
        yield (
            "Bring a new client on board from a handful of examples, in seconds.",
            command_line("adapt", run, "EXAMPLES.csv", "--name", "NAME"),
        )
    if data.run.similarity is not None:
        yield (
            "Add tasks with more rows: only a few pairs are measured, and nobody else's model changes.",
            command_line("add", run, "TASKS"),
        )
    yield "Label new texts.", command_line("predict", run, "--task", "NAME", "TEXTS.txt")


def advise_measuring(data: ReportData) -> dict[str, Any]:
    """Return what to measure next so that clusters are surer.

    A ``sentence``, the number of more pairs (``n_more``) and of scores altogether (``n_scores``, for the
    option ``--pairs``), or None where none are needed or no number would do, and the unclear ``tasks``.
    """
    run, matrices = data.run, data.matrices
    found: dict[str, Any] = {"sentence": "", "n_more": None, "n_scores": None, "tasks": []}
    if run.scores is None or run.verdict is None or matrices is None:
        return {**found, "sentence": "Nothing was measured between tasks: it takes two that may share."}
    partners = dict(zip(matrices.names, np.diff(matrices.verdicts.indptr).tolist(), strict=True))
    few = [name for name in matrices.names if partners[name] < MIN_PAIRS and name not in run.added]
    few.sort(key=lambda name: partners[name])
    unclear = [
        name for name, sure in run.confidence.items() if sure < 0.5 and run.clusters.get(name, -1) >= 0
    ]
    unclear.sort(key=lambda name: (run.confidence[name], name))
    which = ""
    if few:
        compared = f"can be compared with fewer than {MIN_PAIRS} others"
        which = f" {count(len(few), 'task')} {compared}: {list_names(few)}."
    if unclear:
        which += f" {list_names(unclear)} {'has' if len(unclear) == 1 else 'have'} no clear place."
    found["tasks"] = list(dict.fromkeys([*unclear, *few]))[:MAX_TASKS]
    help_otherwise = (
        "Scores with less chance in them would help: more validation and training rows a task, or another "
        "kind of score."
    )
    if run.verdict["supported"]:
        sentence = "Nothing more needs to be measured: held-out pairs confirm the clusters."
        return {**found, "sentence": sentence + which}
    # Of tasks that came later only a few pairs are measured, and that is meant so.
    at_fit = [name for name in run.scores.task_names if name in run.tasks and name not in run.added]
    n_pairs = len(at_fit) * (len(at_fit) - 1) // 2
    n_measured = len(run.scores.subset(at_fit).pairs().first) if at_fit else 0
    if n_measured >= n_pairs:
        return {**found, "sentence": f"All {n_pairs:,} pairs are measured already. {help_otherwise}{which}"}
    stopped = (run.summary.get("transfer") or {}).get("stopped_early")
    if stopped is not None:
        return {**found, "sentence": f"{stopped['sentence']} {help_otherwise}{which}"}
    n_more = min(n_measured, n_pairs - n_measured)
    sentence = (
        f"Measure about {n_more:,} more pairs: {n_measured:,} of {n_pairs:,} are measured, and groups that "
        f"are weak show only with more of them.{which}"
    )
    return {**found, "sentence": sentence, "n_more": n_more, "n_scores": 2 * (n_measured + n_more)}


def points(estimate: Estimate) -> str:
    """Return a difference of shares in points with its interval.

    >>> points(Estimate(-0.012, -0.02, 0.001, 40))
    '-1.2 points [-2.0, +0.1]'
    """
    return with_interval(f"{format_points(estimate.mean)} points", estimate, signed=True)


def with_interval(text: str, estimate: Estimate, *, signed: bool = False) -> str:
    """Return a figure with its interval, if there is one."""
    return f"{text} {format_interval(estimate.low, estimate.high, signed=signed)}".rstrip()


def short_name(name: str) -> str:
    r"""Return a name as it can stand in a sentence: on one line, and not too long.

    >>> short_name("a\nb"), len(short_name("a" * 100))
    ('a b', 40)
    """
    shown = " ".join("".join(character if character.isprintable() else " " for character in name).split())
    return shown if len(shown) <= MAX_NAME_LENGTH else shown[: MAX_NAME_LENGTH - 1] + "…"


def list_names(names: Sequence[str]) -> str:
    """Name the first few, and say how many more there are.

    >>> list_names(list("abcde"))
    'a, b, c and 2 more'
    """
    shown = ", ".join(short_name(name) for name in names[:MAX_NAMES])
    return f"{shown} and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else shown


def command_path(folder: Path) -> Path:
    """Return a folder as it stands in commands: from here where it is below, else as it is."""
    try:
        short = os.path.relpath(folder)
    except ValueError:  # pragma: no cover - another drive
        return folder
    return folder if short.startswith(os.pardir) else Path(short)
