"""`robusttc cluster`: from anyone's scores to clusters, without any text or model."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robusttc.cli.console import output_console, print_json, say, show_working
from robusttc.cli.options import JsonOption, SeedOption
from robusttc.errors import DoubtWarning, ExitCode, StoreError, UsageError, quote
from robusttc.files import write_file
from robusttc.formatting import count

if TYPE_CHECKING:
    from robusttc.transfer import TransferScores

__all__ = ["cluster"]

MAX_NAMES = 12
DOUBTFUL = 0.5  # confidence below which a task is named


def cluster(
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES.csv", help="source,target,score[,n] in long form, or a square table with names."
        ),
    ],
    clusters: Annotated[str, typer.Option(metavar="K|auto", help="How many clusters.")] = "auto",
    out: Annotated[Path, typer.Option(help="The file that gets task, cluster and confidence.")] = Path(
        "clusters.csv"
    ),
    plot: Annotated[Path | None, typer.Option(help="A picture of the clustering: .png or .svg.")] = None,
    strategy: Annotated[
        str, typer.Option(metavar="default|paper", help="Complete the scores, or Algorithm 1 of the paper.")
    ] = "default",
    rule: Annotated[
        str, typer.Option(metavar="both|any", help="The filter of Eq. 1, for strategy paper.")
    ] = "both",
    average_duplicates: Annotated[
        bool, typer.Option("--average-duplicates", help="Average a pair that is measured twice.")
    ] = False,
    lam: Annotated[
        str,
        typer.Option("--lambda", metavar="X|auto", help="The weight of errors in Eq. 2, for strategy paper."),
    ] = "auto",
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> int:
    """Cluster tasks from their transfer scores, and test on held-out pairs whether the clusters are real.

    Ends with code 3 if the completion did not converge. That there are no groups is a result: code 0.
    """
    # Late, so that the other commands do not wait for SciPy and scikit-learn.
    from robusttc.clustering import RobustTaskClustering
    from robusttc.report import check_format, draw_heatmap
    from robusttc.transfer import read_scores

    check_folder(out)
    if plot is not None:
        check_format(plot)
    estimator = RobustTaskClustering(
        n_clusters=parse_number("--clusters", clusters, int),
        strategy=strategy,
        rule=rule,
        lam=parse_number("--lambda", lam, float),
        random_state=seed,
    )
    measured = read_scores(scores, duplicates="average" if average_duplicates else "error")
    with show_working(f"Clustering {len(measured.task_names):,} tasks"), warnings.catch_warnings():
        # What is doubtful is part of the certificate and of the exit code.
        warnings.simplefilter("ignore", DoubtWarning)
        estimator.fit(measured)
    write_clusters(estimator, out)
    if plot is not None:
        with show_working(f"Drawing {plot}"):
            draw_heatmap(measured, estimator, plot)
    if json:
        print_json(as_document(estimator, measured))
    else:
        show_clustering(output_console(), estimator, measured, [str(out)] + ([str(plot)] if plot else []))
    return int(ExitCode.DONE if estimator.certificate_.converged else ExitCode.DOUBT)


def check_folder(out: Path) -> None:
    """Refuse a place that cannot be written to, before any work is done."""
    if out.is_dir() or not out.parent.is_dir():
        raise UsageError(
            "the clusters cannot be written",
            where=quote(str(out)),
            got="a folder" if out.is_dir() else f"no folder {quote(str(out.parent))}",
            expected="a file in a folder that is there",
        )


def parse_number(option: str, given: str, kind: type) -> Any:
    """Read a number, or auto."""
    if given == "auto":
        return given
    try:
        return kind(given)
    except ValueError:
        raise UsageError(f"{option} cannot be read", got=quote(given), expected="auto or a number") from None


def write_clusters(estimator: Any, path: Path) -> None:
    """Write task, cluster (empty where there is none) and confidence as CSV, whole or not at all."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["task", "cluster", "confidence"])
    for name, label, confidence in zip(
        estimator.task_names_, estimator.labels_.tolist(), estimator.confidence_.tolist(), strict=True
    ):
        writer.writerow([name, label if label >= 0 else "", f"{confidence:.4f}"])
    try:
        write_file(path, stream.getvalue().encode(), owner_only=False)
    except StoreError as error:
        raise UsageError("the clusters cannot be written", where=quote(str(path)), got=error.got) from None


def show_clustering(console: Console, estimator: Any, scores: TransferScores, written: Sequence[str]) -> None:
    """Print the clusters, the verdict, the certificate, and what to do next."""
    for number, names in estimator.clusters_.items():
        say(console, f"cluster {number} ({count(len(names), 'task')}): {list_some(names)}")
    alone = [name for name, label in zip(estimator.task_names_, estimator.labels_, strict=True) if label < 0]
    if alone:
        say(console, f"no cluster ({count(len(alone), 'task')}, too few measured pairs): {list_some(alone)}")
    one_way = find_sources_only(scores)
    if one_way:
        say(
            console,
            f"Sources only ({count(len(one_way), 'task')}): {list_some(one_way)}. No score has one of them "
            "as its target: they are clustered by how well they serve the others alone.",
        )
    say(console, f"\nNumber of clusters: {estimator.n_clusters_} ({estimator.n_clusters_reason_}).")
    doubtful = [
        name
        for name, label, confidence in zip(
            estimator.task_names_, estimator.labels_, estimator.confidence_, strict=True
        )
        if label >= 0 and confidence < DOUBTFUL
    ]
    if doubtful:
        say(console, f"Doubtful: {list_some(doubtful)} (the measured pairs fit another cluster better).")
    say(console, f"Verdict: {estimator.verdict_.sentence}")
    for advice in estimator.verdict_.advice:
        say(console, f"  • {advice}")
    say(console, f"Certificate: {estimator.certificate_.sentence}")
    say(console, f"\nWritten: {', '.join(written)}")


def list_some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = len(names) if len(names) <= MAX_NAMES + 1 else MAX_NAMES
    more = f" and {len(names) - shown:,} more" if shown < len(names) else ""
    return ", ".join(names[:shown]) + more


def find_sources_only(scores: TransferScores) -> tuple[str, ...]:
    """Return the tasks that are sources of scores and never a target, where others are both."""
    off = scores.off_diagonal
    sources, targets = set(scores.source[off].tolist()), set(scores.target[off].tolist())
    return tuple(scores.task_names[task] for task in sorted(sources - targets)) if sources & targets else ()


def as_document(estimator: Any, scores: TransferScores) -> dict[str, Any]:
    """Return the clustering as a JSON document."""
    return {
        "n_clusters": int(estimator.n_clusters_),
        "why_this_number": estimator.n_clusters_reason_,
        "tasks": [
            {"task": name, "cluster": label if label >= 0 else None, "confidence": confidence}
            for name, label, confidence in zip(
                estimator.task_names_, estimator.labels_.tolist(), estimator.confidence_.tolist(), strict=True
            )
        ],
        "sources_only": list(find_sources_only(scores)),
        "certificate": estimator.certificate_.as_dict(),
        "verdict": estimator.verdict_.as_dict(),
    }
