"""Where things are in the folder of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = [
    "ADAPTED",
    "ADDED_MODELS",
    "CLUSTERS",
    "FEWSHOT",
    "MULTITASK",
    "PAGE",
    "SCORES",
    "SIMILARITY",
    "SUMMARY",
    "TASKS",
    "VERSIONS",
    "remove_half_saved",
]

MULTITASK = Path("models/multitask")
FEWSHOT = Path("models/fewshot")
# Tasks that came later, one folder each.
ADDED_MODELS = Path("models/added")
# Not under models/: the manifest of the run does not list them, they check themselves.
ADAPTED = Path("adapted")
SCORES = "scores.csv"
CLUSTERS = "clusters.csv"
SUMMARY = "summary.json"
# What people look at; it can be made again at any time.
PAGE = "report.html"
# What completion made of the scores, in matrices.
SIMILARITY = "similarity.safetensors"
# The tasks themselves.
TASKS = "tasks"
# The clusters of every version, and what changed.
VERSIONS = "versions"


def remove_half_saved(folder: Path) -> None:
    """Remove what killed processes left beside the models; the owner of a run is alone in its folder."""
    for model in (MULTITASK, FEWSHOT):
        # Between two renamings, the only whole model stands aside under such a name.
        if (folder / model).is_dir():
            for path in (folder / model).parent.glob(f".{model.name}.*"):
                shutil.rmtree(path, ignore_errors=True)
