"""The report as values: everything that the page shows, and `robusttc report --json` prints.

The form is described in docs/report.md; `VERSION` counts its changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from robusttc.formatting import shell_word
from robusttc.progress import Progress, report
from robusttc.report.cluster_entries import describe_clusters, measure_blocks
from robusttc.report.facts import STAGE, RunFacts, read_facts
from robusttc.report.harm_entries import find_harm
from robusttc.report.headline import write_headline
from robusttc.report.matrices import MatrixLayers, make_layers
from robusttc.report.measure_next import MeasureNext, advise_measuring
from robusttc.report.neighbours import find_nearest
from robusttc.report.next_steps import advise
from robusttc.report.plain_values import as_estimate, as_json_value
from robusttc.report.task_entries import describe_tasks, find_moves
from robusttc.report.task_space import TaskSpace, make_space, order_tasks
from robusttc.report.wording import command_place
from robusttc.run.evaluation import KINDS
from robusttc.version import __version__

if TYPE_CHECKING:
    from robusttc.run import Run

__all__ = ["ReportDocument", "describe_run", "make_document"]

FORMAT, VERSION = "robusttc report", 1


@dataclass(frozen=True, slots=True, eq=False)
class ReportDocument:
    """A report, before it is a page.

    Attributes
    ----------
    values
        Everything but the matrices, as JSON has it: no NaN, no infinity.
    matrices
        What is drawn; None where tasks were not clustered.
    """

    values: dict[str, Any]
    matrices: MatrixLayers | None


def make_document(opened: Run, *, progress: Progress | None = None) -> ReportDocument:
    """Put together the report of a finished run.

    Parameters
    ----------
    opened
        The run.
    progress
        Told how far it is.

    Raises
    ------
    StoreError
        If a file of the run is damaged, or the run was made before runs kept their tasks.
    """
    return describe_run(read_facts(opened, progress=progress), progress=progress)


def describe_run(facts: RunFacts, *, progress: Progress | None = None) -> ReportDocument:
    """Put together the report of a run that is read."""
    report(progress, STAGE, 2, 3, "steps", "putting it together")
    names = tuple(name for name in order_tasks(facts.partition, facts.confidence) if name in facts.tasks)
    space = find_space(facts, names)
    harm = find_harm(facts, space)
    measuring = advise_measuring(facts, space)
    summary = facts.summary
    values = {
        "format": FORMAT,
        "version": VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "robusttc": __version__,
        "run": describe_size(facts),
        "headline": {"sentences": write_headline(facts, harm), "next": advise(facts, harm, measuring)},
        "tasks": describe_tasks(facts, names, harm, {} if space is None else find_nearest(space)),
        "clusters": describe_clusters(facts, names, space),
        "means": describe_means(facts),
        "verdicts": {part: (summary[part] or {}).get("verdict") for part in ("multitask", "fewshot")},
        "harm": harm.to_dict(),
        "trust": describe_trust(facts, measuring),
        "blocks": measure_blocks(space),
        "history": describe_history(facts),
        "adapted": list(facts.adapted),
        "quarantined": [
            {name: unit[name] for name in ("stage", "tasks", "error")} for unit in summary["quarantined"]
        ],
        "doubts": list(summary["doubts"]),
        "costs": [
            {name: cost[name] for name in ("stage", "wall_seconds", "cpu_seconds", "peak_bytes", "units")}
            for cost in summary["costs"]
        ],
        "configuration": dict(summary["configuration"]),
        "versions": dict(facts.versions),
    }
    matrices = make_layers(space)
    report(progress, STAGE, 3, 3, "steps")
    return ReportDocument(as_json_value(values), matrices)


def find_space(facts: RunFacts, names: tuple[str, ...]) -> TaskSpace | None:
    """Give what lies between the tasks that were clustered or came later; None without clusters."""
    if facts.scores is None or facts.similarity is None:
        return None
    known = {*facts.similarity.task_names, *facts.added}
    return make_space(
        [name for name in names if name in known and facts.tasks[name].may_share],
        facts.partition,
        facts.scores,
        facts.similarity,
    )


def describe_size(facts: RunFacts) -> dict[str, Any]:
    """Say how large the run is."""
    tasks, scores = facts.tasks, facts.scores
    share = None
    if scores is not None and scores.n_tasks > 1:
        share = int(scores.off_diagonal.sum()) / (scores.n_tasks * (scores.n_tasks - 1))
    return {
        "name": facts.folder.name,
        # As a command line takes it.
        "place": shell_word(command_place(facts.folder)),
        "version": facts.history[-1].version,
        "n_tasks": len(tasks),
        "n_learned": sum(name in facts.figures for name in tasks.names),
        "n_private": len(tasks) - len(tasks.shareable()),
        "n_rows": tasks.n_rows,
        "n_labels": sum(len(task.label_names) for task in tasks),
        "n_scores": None if scores is None else len(scores),
        "kind": None if scores is None else scores.kind,
        "pairs_share": share,
    }


def describe_means(facts: RunFacts) -> dict[str, Any]:
    """Give the mean accuracies over tasks, and the mean differences to the own models."""
    means, gains = facts.evaluation.means, facts.evaluation.gains
    return {
        **{kind: as_estimate(means.get(kind)) for kind in KINDS},
        **{f"gain_{kind}": as_estimate(gains.get(kind)) for kind in KINDS if kind != "own"},
        "n_tasks": next((mean.n for mean in means.values()), 0),
    }


def describe_trust(facts: RunFacts, measuring: MeasureNext) -> dict[str, Any]:
    """Say how far scores, clusters and probabilities can be trusted."""
    clusters: Mapping[str, Any] = facts.summary["clusters"] or {}
    return {
        "reliability": None if facts.scores is None else asdict(facts.scores.reliability()),
        "certificate": clusters.get("certificate"),
        "verdict": clusters.get("verdict"),
        "reason": clusters.get("reason"),
        "measure_next": measuring.to_dict(),
        "calibration": facts.held_out.trust,
    }


def describe_history(facts: RunFacts) -> list[dict[str, Any]]:
    """Give all versions of the run, each with the tasks that moved."""
    found = []
    for change in facts.history:
        before = facts.partitions.get(change.version - 1, {})
        found.append(
            {
                "version": change.version,
                "kind": change.kind,
                "when": round(change.when),
                "tasks": list(change.tasks),
                "sentence": change.sentence,
                "moved": find_moves(before, facts.partitions.get(change.version, {})),
            }
        )
    return found
