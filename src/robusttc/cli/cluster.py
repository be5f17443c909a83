"""`robusttc cluster`: from anyone's scores to clusters, without any text or model."""

from __future__ import annotations

import csv
import os
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from robusttc.cli.clustering_view import show_clustering
from robusttc.cli.console import output_console, print_json, show_working
from robusttc.cli.reading import Seed
from robusttc.errors import DoubtWarning, ExitCode, UsageError, quote

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
    rule: Annotated[
        str, typer.Option(help="The filter: both (Eq. 1) or any (the paper's largest set).")
    ] = "both",
    remove_donor_effect: Annotated[
        bool, typer.Option("--remove-donor-effect", help="Take out that some tasks serve everybody well.")
    ] = False,
    average_duplicates: Annotated[
        bool, typer.Option("--average-duplicates", help="Average a pair that is measured twice.")
    ] = False,
    lam: Annotated[
        str, typer.Option("--lambda", metavar="X|auto", help="The weight of errors in Eq. 2.")
    ] = "auto",
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> int:
    """Cluster tasks from their transfer scores, and say how sure that is.

    Ends with code 3 where the clusters are not certified.
    """
    # Late, so that the other commands do not wait for SciPy and scikit-learn.
    from robusttc.clustering.old.estimator import RobustTaskClustering
    from robusttc.report.heatmap import check_format, draw_heatmap
    from robusttc.scores import read_scores

    if plot is not None:
        check_format(plot)
    estimator = RobustTaskClustering(
        n_clusters=parse_number("--clusters", clusters, int),
        rule=rule,
        remove_donor_effect=remove_donor_effect,
        lam=parse_number("--lambda", lam, float),
        random_state=seed,
    )
    measured = read_scores(scores, duplicates="average" if average_duplicates else "error")
    with show_working(f"Clustering {len(measured.task_names):,} tasks"), warnings.catch_warnings():
        # What is doubtful is part of the diagnosis and of the exit code.
        warnings.simplefilter("ignore", DoubtWarning)
        estimator.fit(measured)
    write_clusters(estimator, out)
    if plot is not None:
        with show_working(f"Drawing {plot}"):
            draw_heatmap(measured, estimator, plot)
    if json:
        print_json(as_document(estimator))
    else:
        show_clustering(output_console(), estimator, [str(out)] + ([str(plot)] if plot else []))
    sure = estimator.certificate_.converged and estimator.diagnosis_.verdict == "certified"
    return int(ExitCode.DONE if sure else ExitCode.DOUBT)


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


def as_document(estimator: Any) -> dict[str, Any]:
    """Give the clustering as a JSON document."""
    certificate = estimator.certificate_
    window = certificate.window
    return {
        "n_clusters": int(estimator.n_clusters_),
        "why_this_number": estimator.n_clusters_reason_,
        "tasks": [
            {"task": name, "cluster": label if label >= 0 else None, "confidence": confidence}
            for name, label, confidence in zip(
                estimator.task_names_, estimator.labels_.tolist(), estimator.confidence_.tolist(), strict=True
            )
        ],
        "certificate": {
            "gap": certificate.gap,
            "converged": bool(certificate.converged),
            "method": certificate.method,
            "lambda": certificate.lam,
            "lambda_window": None if window is None else [finite(window.low), finite(window.high)],
            "message": certificate.message,
        },
        "diagnosis": estimator.diagnosis_.as_dict(),
    }


def finite(number: float) -> float | None:
    """Give a number that JSON has."""
    return number if abs(number) < float("inf") else None
