"""Where things are in the folder of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["ADAPTED", "CLUSTERS", "FEWSHOT", "MULTITASK", "SCORES", "SUMMARY", "remove_half_saved"]

MULTITASK = Path("models/multitask")
FEWSHOT = Path("models/fewshot")
# Not under models/: the manifest of the run does not list them, they check themselves.
ADAPTED = Path("adapted")
SCORES = "scores.csv"
CLUSTERS = "clusters.csv"
SUMMARY = "summary.json"


def remove_half_saved(folder: Path) -> None:
    """Remove what killed processes left beside the models; the owner of a run is alone in its folder."""
    for model in (MULTITASK, FEWSHOT):
        # Between two renamings, the only whole model stands aside under such a name.
        if (folder / model).is_dir():
            for path in (folder / model).parent.glob(f".{model.name}.*"):
                shutil.rmtree(path, ignore_errors=True)
