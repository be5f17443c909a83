"""The files of a version beside its models: scores, clusters, their similarities, and the summary.

``scores.csv``, ``clusters.csv``, ``similarity.safetensors`` and ``summary.json`` hold nothing that another
run of the same tasks, settings and seed would not have too: times and costs are in the manifest.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.data import TaskSet
from robusttc.errors import StoreError, quote
from robusttc.jobs import Result, pack, unpack
from robusttc.run.evaluation import TaskFigures
from robusttc.run.version import Version
from robusttc.stats import Estimate
from robusttc.version import __version__

if TYPE_CHECKING:
    from robusttc.clustering import RobustTaskClustering
    from robusttc.fewshot import ClusterFewShot
    from robusttc.multitask import ClusterMultiTask
    from robusttc.run.fit import Outcome
    from robusttc.run.settings import FitSettings
    from robusttc.run.store import Quarantined

__all__ = [
    "CLUSTERS",
    "FEWSHOT",
    "MULTITASK",
    "RETIRED",
    "SCORES",
    "SIMILARITY",
    "SUMMARY",
    "AddedTask",
    "ClusterRow",
    "Similarity",
    "make_summary",
    "pack_clusters",
    "pack_similarity",
    "pack_summary",
    "read_clusters",
    "read_similarity",
    "read_summary",
    "similarity_of",
]

MULTITASK, FEWSHOT = "models/multitask", "models/fewshot"
SCORES, CLUSTERS, SIMILARITY, SUMMARY = "scores.csv", "clusters.csv", "similarity.safetensors", "summary.json"
RETIRED = "retired"  # the entry of the summary that names tasks about to be removed
FORMAT, VERSION = "robusttc summary", 2
MATRICES = ("same_group", "outliers")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Similarity:
    """The matrices of a clustering, in the order of its tasks.

    Attributes
    ----------
    task_names
        The tasks.
    points
        The tasks as points of length 1, from the factors of the completed similarity X (rows and columns
        centred): the similarity of two tasks is the product of their points, from -1 to 1.
    same_group
        The posterior probability that a measured pair belongs to one group, by its own scores (with the
        strategy ``paper``: Y of Eq. 1). A pair that is not stored was not measured. Symmetric.
    outliers
        What the robust loss clipped of the scores of a pair, in standard deviations (``paper``: E of Eq. 2);
        pairs that the completion fits are not stored. Symmetric.
    """

    task_names: tuple[str, ...]
    points: NDArray[np.float64]
    same_group: sparse.csr_array
    outliers: sparse.csr_array

    def dense(self) -> NDArray[np.float64]:
        """Return the similarity of all pairs."""
        return np.asarray(self.points @ self.points.T)

    def row(self, name: str) -> NDArray[np.float64]:
        """Return the similarity of one task to all tasks."""
        return np.asarray(self.points @ self.points[self.task_names.index(name)])

    def between(self, first: str, second: str) -> float:
        """Return the similarity of two tasks."""
        one, other = (self.points[self.task_names.index(name)] for name in (first, second))
        return float(one @ other)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays for `from_arrays`."""
        found: dict[str, NDArray[Any]] = {"points": self.points}
        for name in MATRICES:
            entries = getattr(self, name).tocoo()
            found[f"{name}/row"] = entries.row.astype(np.int32)
            found[f"{name}/column"] = entries.col.astype(np.int32)
            found[f"{name}/value"] = entries.data
        return found

    @classmethod
    def from_arrays(cls, task_names: tuple[str, ...], arrays: Arrays) -> Similarity:
        """Read what `arrays` returned."""
        n = len(task_names)
        matrices = [
            sparse.csr_array(
                (arrays[f"{name}/value"], (arrays[f"{name}/row"], arrays[f"{name}/column"])), shape=(n, n)
            )
            for name in MATRICES
        ]
        return cls(task_names, arrays["points"], *matrices)


def similarity_of(clustering: RobustTaskClustering) -> Similarity:
    """Return the matrices of a fitted clustering."""
    pairs = clustering.pairs_
    told, clipped = np.isfinite(pairs.same_group), pairs.outlier != 0
    n = len(clustering.task_names_)
    return Similarity(
        clustering.task_names_,
        clustering.embedding_,
        symmetric(n, pairs.first[told], pairs.second[told], pairs.same_group[told]),
        symmetric(n, pairs.first[clipped], pairs.second[clipped], pairs.outlier[clipped]),
    )


def symmetric(
    n: int, first: NDArray[np.int64], second: NDArray[np.int64], values: NDArray[np.float64]
) -> sparse.csr_array:
    """Return a sparse matrix with each value at both places of its pair."""
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    return sparse.csr_array((np.concatenate([values, values]), ends), shape=(n, n))


def pack_similarity(similarity: Similarity) -> bytes:
    """Return the matrices with the names of their tasks as one file."""
    return pack(Result({"tasks": list(similarity.task_names)}, similarity.arrays()))


def read_similarity(version: Version) -> Similarity:
    """Read the matrices of a version."""
    where = repr(str(version.path(SIMILARITY)))
    stored = unpack(version.read(SIMILARITY), where=where)
    try:
        return Similarity.from_arrays(tuple(stored.values["tasks"]), stored.arrays)
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError("these are no similarities of a run", where=where) from error


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A line of ``clusters.csv``.

    Attributes
    ----------
    task
        The task.
    cluster
        Its cluster; -1 for none.
    confidence
        The posterior probability of its cluster; None for a task that was not clustered.
    private
        Whether no other task may learn from it.
    learned
        Whether it has a model.
    why
        Why something about it was left out; else empty.
    """

    task: str
    cluster: int = -1
    confidence: float | None = None
    private: bool = False
    learned: bool = True
    why: str = ""


def pack_clusters(rows: Sequence[ClusterRow]) -> bytes:
    """Return ``clusters.csv``, sorted by task."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["task", "cluster", "confidence", "private", "learned", "quarantined"])
    for row in sorted(rows, key=lambda row: row.task):
        confidence = "" if row.confidence is None else f"{row.confidence:.4f}"
        flags = ("yes" if flag else "no" for flag in (row.private, row.learned))
        cluster = str(row.cluster) if row.cluster >= 0 else ""
        writer.writerow([row.task, cluster, confidence, *flags, " ".join(row.why.split())])
    return stream.getvalue().encode()


def read_clusters(version: Version) -> dict[str, ClusterRow]:
    """Read ``clusters.csv``, by task."""
    content = version.read(CLUSTERS).decode()
    try:
        return {
            row["task"]: ClusterRow(
                row["task"],
                int(row["cluster"] or -1),
                float(row["confidence"]) if row["confidence"] else None,
                row["private"] == "yes",
                row["learned"] == "yes",
                row["quarantined"],
            )
            for row in csv.DictReader(io.StringIO(content, newline=""))
        }
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        where = repr(str(version.path(CLUSTERS)))
        raise StoreError("the clusters cannot be read", where=where, got=quote(error)) from error


@dataclass(frozen=True, slots=True)
class AddedTask:
    """A task that was added to a finished run.

    Attributes
    ----------
    name, version
        The task, and the version of the run that it came with.
    cluster, confidence
        Its cluster (-1 for none), and how probable it is by the measured pairs.
    out_of_cluster
        Whether it was measured, and no cluster fits.
    expected_gain
        How much more of its own held-out training rows are right with sharing than with its own model; None
        for a task that may not share, or has nothing to hold out.
    figures
        What its test rows say.
    n_measured
        The number of tasks that it was compared with.
    shares
        Whether models of other tasks help to serve it.
    """

    name: str
    version: int
    cluster: int
    confidence: float
    out_of_cluster: bool
    expected_gain: Estimate | None
    figures: TaskFigures
    n_measured: int
    shares: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it as values for JSON, without the figures: these are in the evaluation."""
        names = ("name", "version", "cluster", "confidence", "out_of_cluster", "n_measured", "shares")
        gain = None if self.expected_gain is None else self.expected_gain.to_dict()
        return {**{name: getattr(self, name) for name in names}, "expected_gain": gain}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], figures: TaskFigures) -> AddedTask:
        """Return what `to_dict` described, with its figures."""
        gain = values["expected_gain"]
        estimate = None if gain is None else Estimate.from_dict(gain)
        return cls(**{**values, "expected_gain": estimate, "figures": figures})


def make_summary(
    tasks: TaskSet, settings: FitSettings, outcome: Outcome, quarantined: Sequence[Quarantined]
) -> dict[str, Any]:
    """Return what a fit found: `tasks` are all tasks of the run, `quarantined` what was left out."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "robusttc": __version__,
        "configuration": settings.to_dict(),
        "tasks": {
            "n": len(tasks),
            "n_learned": len(outcome.multitask.task_names_),
            "n_private": len(tasks) - len(tasks.shareable()),
            "n_rows": tasks.n_rows,
        },
        "transfer": None
        if outcome.scores is None
        else {
            "n_scores": len(outcome.scores),
            "kind": outcome.scores.kind,
            "stopped_early": outcome.stopped_early,
        },
        "clusters": describe_clusters(outcome),
        "multitask": describe_multitask(outcome.multitask),
        "fewshot": describe_fewshot(outcome.fewshot),
        "evaluation": outcome.evaluation.to_dict(),
        "doubts": list(outcome.doubts),
        "quarantined": [asdict(job) for job in quarantined],
    }


def describe_clusters(outcome: Outcome) -> dict[str, Any] | None:
    """Say what the clusters are, and how sure that is."""
    found = outcome.clustering
    if found is None:
        return None
    return {
        "n": found.n_clusters,
        "reason": found.reason,
        "sizes": [int((found.labels == number).sum()) for number in range(found.n_clusters)],
        "n_without": int((found.labels < 0).sum()),
        "sentence": found.verdict["sentence"],
        "certificate": dict(found.certificate),
        "verdict": dict(found.verdict),
    }


def describe_multitask(model: ClusterMultiTask) -> dict[str, Any]:
    """Say what serves the tasks, and why."""
    return {
        "strategy": model.strategy,
        "verdict": None if model.verdict_ is None else model.verdict_.to_dict(),
        "clusters_serve": model.clusters_serve_,
        "weights": model.weights_,
        "components": {name: estimate.to_dict() for name, estimate in model.held_out_accuracy_.items()},
        "trust": model.trust_.to_dict(),
    }


def describe_fewshot(learner: ClusterFewShot | None) -> dict[str, Any] | None:
    """Say what new tasks are learned with, and why."""
    if learner is None:
        return None
    return {
        "verdict": None if learner.verdict_ is None else learner.verdict_.to_dict(),
        "clusters_serve": learner.clusters_serve_,
        "threshold": learner.threshold_,
        "n_sources": len(learner.source_names_),
        "trust": learner.trust_.to_dict(),
    }


def pack_summary(summary: Mapping[str, Any]) -> bytes:
    """Return ``summary.json``."""
    return json.dumps(summary, ensure_ascii=False, indent=1, allow_nan=False).encode() + b"\n"


def read_summary(version: Version) -> dict[str, Any]:
    """Read ``summary.json``.

    Raises
    ------
    StoreError
        If it is damaged, or from another version of robusttc.
    """
    where = repr(str(version.path(SUMMARY)))
    try:
        values = json.loads(version.read(SUMMARY))
    except (ValueError, RecursionError) as error:
        raise StoreError("the summary cannot be read", where=where, got=quote(error)) from error
    if not isinstance(values, dict) or (values.get("format"), values.get("version")) != (FORMAT, VERSION):
        raise StoreError(
            "the summary is of another version of robusttc",
            where=where,
            todo="use the robusttc that made the run",
        )
    return values
