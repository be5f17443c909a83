"""What people read first: the answer in a few sentences of plain words, with figures, failures included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from robusttc.formatting import count
from robusttc.models import FEWEST_TASKS
from robusttc.report.facts import RunFacts
from robusttc.report.harm_entries import Harm
from robusttc.report.wording import WORTHWHILE, hundredths, list_names, say_percent, say_points
from robusttc.stats import Estimate

__all__ = ["write_headline"]

# A model that counts less than this in the blend is not worth mentioning.
LEAST_WEIGHT = 0.02


def write_headline(facts: RunFacts, harm: Harm) -> list[str]:
    """Give the sentences: the answer, what there is, who gains, whether clusters pay and are certain."""
    sentences = [
        say_answer(facts),
        say_tasks(facts),
        say_gain(facts, harm),
        say_clusters_pay(facts),
        say_certainty(facts),
        harm.sentence if harm.is_shared and (facts.evaluation.means or harm.tasks) else None,
        say_left_out(facts),
        say_later(facts),
    ]
    return [sentence for sentence in sentences if sentence]


def say_answer(facts: RunFacts) -> str | None:
    """Say whether it is worth it; None where nothing can be compared."""
    means, gains, verdict = (
        facts.evaluation.means,
        facts.evaluation.gains,
        facts.summary["multitask"]["verdict"],
    )
    gain = gains.get("served")
    if gain is None or not {"served", "shared"} <= means.keys():
        return None
    figures = (
        f"{hundredths(means['served'].mean)} % of the test rows are right, {hundredths(means['own'].mean)} % "
        "with each task's own model alone"
    )
    if not gain.above_zero:
        return f"Sharing {'does harm' if gain.below_zero else 'does not clearly pay'} here: {figures}."
    if verdict is None or not verdict["over_shared"]["n"]:
        return f"Sharing pays: {figures}."
    clusters = "but clusters do not"
    if verdict["clusters_help"]:
        is_much = verdict["over_shared"]["mean"] >= WORTHWHILE
        clusters = "and so do clusters" if is_much else "and clusters add a little"
    return f"Sharing pays, {clusters}: {figures}."


def say_tasks(facts: RunFacts) -> str:
    """Say how many tasks and clusters there are."""
    tasks = facts.tasks
    what = f"{count(len(tasks), 'task')} with {count(tasks.n_rows, 'row')}"
    sizes = sorted(Counter(label for label in facts.partition.values() if label >= 0).values(), reverse=True)
    n_private = len(tasks) - len(tasks.shareable())
    private = (
        f" {count(n_private, 'task')} {'is' if n_private == 1 else 'are'} private: "
        f"{'it learns' if n_private == 1 else 'each learns'} alone, and nobody learns from it."
        if n_private
        else ""
    )
    if not sizes:
        return f"{what}, not clustered: {say_no_clusters(facts)}.{private}"
    n_without = sum(
        label < 0 and tasks[name].may_share and name not in facts.set_aside
        for name, label in facts.partition.items()
        if name in tasks
    )
    without = (
        f" {count(n_without, 'task')} fit{'s' if n_without == 1 else ''} no cluster." if n_without else ""
    )
    if len(sizes) == 1:
        alike = f"nothing that was measured tells {sizes[0]:,} of them apart, so they are one cluster"
        return f"{what}: {alike}.{without}{private}"
    alone = sum(size == 1 for size in sizes)
    shape = f"the largest has {count(sizes[0], 'task')}"
    if 0 < alone < len(sizes):
        shape += f", {alone:,} {'has' if alone == 1 else 'have'} only one"
    return f"{what} fall into {len(sizes):,} clusters; {shape}.{without}{private}"


def say_no_clusters(facts: RunFacts) -> str:
    """Say why there are none."""
    if len(facts.tasks.shareable()) < 2:
        return "it takes two tasks that may share"
    return "transfer between them could not be measured, or not clustered"


def say_gain(facts: RunFacts, harm: Harm) -> str:
    """Say how much better off tasks are than alone."""
    means, gains = facts.evaluation.means, facts.evaluation.gains
    if "served" not in means:
        return "No task has test rows, so nobody can say how accurate the models are."
    served = say_percent(means["served"])
    basis = f"mean over {count(means['served'].n, 'task')}, 95 % interval in brackets"
    gain = gains.get("served")
    if gain is None or not {"shared", "cluster"} & means.keys():
        return f"The models get {served} of the test rows right ({basis}); nothing is shared between tasks."
    if gain.above_zero:
        said = f"{say_points(gain)} more than each task's own model alone"
    elif gain.below_zero:
        said = f"{say_points(flip(gain))} fewer than each task's own model alone: sharing does harm here"
    else:
        said = (
            f"against {hundredths(means['own'].mean)} % with each task's own model alone: no clear "
            f"difference ({say_points(gain)})"
        )
    who = ""
    if harm.n_judged > 1:
        who = f" {harm.n_gaining:,} of {count(harm.n_judged, 'task')} gain for sure, taken one by one."
    return f"With sharing, {served} of the test rows are right ({basis}), {said}.{who}"


def flip(estimate: Estimate) -> Estimate:
    """Give a difference the other way round."""
    return Estimate(-estimate.mean, -estimate.high, -estimate.low, estimate.n)


def say_clusters_pay(facts: RunFacts) -> str | None:
    """Say whether clusters are worth having, for the tasks that are there and for new ones."""
    summary = facts.summary
    if summary["clusters"] is None:
        return None
    if summary["multitask"]["strategy"] == "paper":
        return "Each cluster's own model serves, as in the paper; whether that pays was not tested."
    sentences = []
    verdict = summary["multitask"]["verdict"]
    if verdict is not None:
        sentences.append(say_verdict(verdict, say_serving(summary["multitask"]["weights"])))
    fewshot = (summary["fewshot"] or {}).get("verdict")
    if fewshot is not None and fewshot["over_shared"]["n"]:
        over = Estimate.from_dict(fewshot["over_shared"])
        does = "pay" if fewshot["clusters_help"] else "do not pay"
        sentences.append(
            f"For new tasks with a handful of examples clusters {does} ({say_points(over)} over one model of "
            "all)."
        )
    return " ".join(sentences) or None


def say_serving(weights: Mapping[str, float]) -> str:
    """Say which models predict, by their weights in the blend.

    >>> say_serving({"own": 1.0, "shared": 0.5, "cluster": 0.0})
    "one model of all tasks serves, together with each task's own"
    """
    total = sum(weights.values()) or 1.0
    words = {
        "cluster": "the model of each cluster",
        "shared": "one model of all tasks",
        "own": "each task's own",
    }
    used = [words[kind] for kind in words if weights.get(kind, 0.0) / total > LEAST_WEIGHT]
    first, *others = used or [words["own"]]
    first += " model" if first == words["own"] else ""
    return f"{first} serves" + (f", together with {' and '.join(others)}" if others else "")


def say_verdict(verdict: Mapping[str, Any], what_serves: str) -> str:
    """Say whether clusters pay, in other words than the verdict's own.

    Parameters
    ----------
    verdict
        The verdict, as values.
    what_serves
        Which models predict.
    """
    over = Estimate.from_dict(verdict["over_shared"])
    random = None if verdict["over_random"] is None else Estimate.from_dict(verdict["over_random"])
    if not over.n:
        return f"There is only one cluster, so clusters cannot pay: {what_serves}."
    if over.n < FEWEST_TASKS:
        return (
            f"Whether clusters pay cannot be told from {count(over.n, 'task')} ({FEWEST_TASKS} are needed): "
            f"{what_serves}."
        )
    figures = f"{say_points(over)} over one model of all tasks"
    if random is not None:
        figures += f", {say_points(random)} over random groups of the same sizes"
    if verdict["clusters_help"]:
        return f"Clusters pay: {figures}; {what_serves}."
    if over.above_zero:
        return f"Clusters do not pay more than chance: {figures}; {what_serves}."
    if over.below_zero:
        return f"Clusters do harm here: {figures}; {what_serves}."
    return f"Clusters do not pay here: {figures}; {what_serves}."


def say_certainty(facts: RunFacts) -> str | None:
    """Say whether the clusters themselves are real."""
    return None if facts.verdict is None else str(facts.verdict["sentence"])


def say_left_out(facts: RunFacts) -> str | None:
    """Say what could not be done."""
    said = []
    set_aside = facts.set_aside
    if set_aside:
        said.append(f"{count(len(set_aside), 'task')} could not be learned: {list_names(sorted(set_aside))}.")
    n_units = sum(unit["stage"] != "read" for unit in facts.summary["quarantined"])
    if n_units:
        said.append(f"{count(n_units, 'piece')} of work failed and was left out.")
    return " ".join(said) or None


def say_later(facts: RunFacts) -> str | None:
    """Say what happened after the fit."""
    later = facts.history[1:]
    if not later:
        return None
    came = [name for name in facts.added if name in facts.partition]
    n_gone = sum(len(change.tasks) for change in later if change.kind == "remove")
    said = []
    if came:
        n_out = sum(facts.added[name].out_of_cluster for name in came)
        out = f", {n_out:,} of them into no cluster" if n_out else ""
        said.append(f"{count(len(came), 'task')} came later{out}")
    if n_gone:
        said.append(f"{count(n_gone, 'task')} went")
    return f"Since the fit {' and '.join(said)}; this is version {later[-1].version}." if said else None
