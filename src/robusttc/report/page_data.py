"""What the program of the page works with: tasks, clusters and matrices, as few bytes as it needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from robusttc.report.figures import number_of
from robusttc.report.strips import MODELS

if TYPE_CHECKING:
    from robusttc.report.matrices import MatrixLayers
    from robusttc.report.pictures import Picture

__all__ = ["gather_data"]

Values = Mapping[str, Any]

# Exact values are written up to so many; beyond, they are read from the picture, to a 254th of the scale.
MOST_EXACT_VALUES = 40_000
# Of a task, what is written only where it is there.
PLAIN = ("confidence", "why_not", "added", "n_labels", "moved")
FLAGS = ("private", "harmed", "out_of_cluster")


def gather_data(
    values: Values, matrices: MatrixLayers | None, pictures: Mapping[str, Picture]
) -> dict[str, Any]:
    """Gather what the program needs.

    Parameters
    ----------
    values
        The document.
    matrices, pictures
        Its matrices, and those of them that are drawn.
    """
    position = {task["name"]: place for place, task in enumerate(values["tasks"])}
    return {
        "place": values["run"]["place"],
        "kind": values["run"].get("kind"),
        "tasks": [pack_task(task, position) for task in values["tasks"]],
        "clusters": [
            {
                "number": cluster["number"],
                "size": cluster["size"],
                "labels": [[str(label), count] for label, count in cluster.get("labels") or []],
            }
            for cluster in values["clusters"]
        ],
        "matrix": None if matrices is None else pack_matrices(matrices, pictures, position),
    }


def pack_task(task: Values, position: Mapping[str, int]) -> dict[str, Any]:
    """Pack one task; other tasks are named by their position."""
    packed: dict[str, Any] = {
        "name": task["name"],
        "cluster": task.get("cluster"),
        "rows": [task.get(key) or 0 for key in ("n_train", "n_valid", "n_test")],
        "accuracy": {
            kind: accuracy
            for kind in MODELS
            if (accuracy := pack_estimate((task.get("accuracy") or {}).get(kind))) is not None
        },
        "gain": pack_estimate(task.get("gain")),
        "expected": pack_estimate(task.get("expected_gain")),
        "culprits": [position[name] for name in task.get("culprits") or [] if name in position],
        "nearest": [
            [position[name], round_number(similarity)]
            for name, similarity in task.get("nearest") or []
            if name in position
        ],
        "unlearned": not task.get("learned", True),
    }
    packed |= {key: round_number(task.get(key)) for key in PLAIN}
    packed |= {key: bool(task.get(key)) for key in FLAGS}
    # What is empty or not so is left out; zeros stay.
    return {key: value for key, value in packed.items() if value or (value == 0 and value is not False)}


def pack_estimate(estimate: Values | None) -> list[float | None] | None:
    """Pack a mean and its interval."""
    if number_of(estimate, "mean") is None:
        return None
    return [round_number(number_of(estimate, key)) for key in ("mean", "low", "high")]


def round_number(value: Any) -> Any:
    """Round a number to four digits after the point; leave everything else as it is."""
    return round(value, 4) if isinstance(value, float) else value


def pack_matrices(
    matrices: MatrixLayers, pictures: Mapping[str, Picture], position: Mapping[str, int]
) -> dict[str, Any]:
    """Pack what the pictures do not say: the order of the tasks, scales, exact values where they are few."""
    exact = {
        name: pack_entries(entries)
        for name, entries in (("raw", matrices.raw), ("errors", matrices.errors))
        if entries.nnz <= MOST_EXACT_VALUES
    }
    return {
        "order": [position[name] for name in matrices.task_names],
        "begins": [int(begin) for begin in matrices.boundaries],
        "layers": {
            name: {"low": picture.low, "high": picture.high, "symmetric": picture.is_symmetric}
            for name, picture in pictures.items()
        },
        "exact": exact,
    }


def pack_entries(entries: sparse.csr_array) -> dict[str, list[Any]]:
    """Pack a sparse matrix row by row: where each row begins, and its columns and values."""
    rows = sparse.csr_array(entries)
    rows.sort_indices()
    return {
        "begins": rows.indptr.tolist(),
        "columns": rows.indices.tolist(),
        "values": [float(f"{value:.4g}") if np.isfinite(value) else None for value in rows.data.tolist()],
    }
