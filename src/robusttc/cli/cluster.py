"""`robusttc cluster`: from anyone's scores to clusters, without any text or model."""

from __future__ import annotations

import csv
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.clustering_view import find_sources_only, show_clustering
from robusttc.cli.console import output_console, print_json, show_working
from robusttc.cli.reading import Seed
from robusttc.errors import DoubtWarning, ExitCode, UsageError, quote

if TYPE_CHECKING:
    from robusttc.transfer import TransferScores

__all__ = ["as_document", "cluster", "write_clusters"]


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
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> int:
    """Cluster tasks from their transfer scores, and test on held-out pairs whether the clusters are real.

    Ends with code 3 if the completion did not converge. That there are no groups is a result: code 0.
    """
    # Late, so that the other commands do not wait for SciPy and scikit-learn.
    from robusttc.clustering import RobustTaskClustering
    from robusttc.report.heatmap import check_format, draw_heatmap
    from robusttc.transfer import read_scores

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
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["task", "cluster", "confidence"])
            for name, label, confidence in zip(
                estimator.task_names_, estimator.labels_.tolist(), estimator.confidence_.tolist(), strict=True
            ):
                writer.writerow([name, label if label >= 0 else "", f"{confidence:.4f}"])
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        raise UsageError(
            "the clusters cannot be written", where=quote(str(path)), got=error.strerror or str(error)
        ) from None
    finally:
        beside.unlink(missing_ok=True)


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
