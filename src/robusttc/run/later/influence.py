"""What tasks of a run have influenced: named before they are removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from robusttc.formatting import count
from robusttc.run.adapted import AdaptedModels
from robusttc.run.later.later_outputs import Row, names_added, read_now
from robusttc.run.store import RunStore

__all__ = ["RETRAINED", "Influence", "find_influence"]

# The stages that are done again.
RETRAINED = ("multitask", "fewshot", "evaluate")


@dataclass(frozen=True, slots=True)
class Influence:
    """What tasks have influenced.

    Attributes
    ----------
    fitted, added
        Those of the tasks that others have learned from at the fit, and all others.
    retrains
        What is trained again, a phrase each; nothing where nobody learned from the tasks.
    stays
        What is not trained again, though it may have learned from the tasks; a sentence each.
    seconds
        About how long it takes, by what the fit took.
    """

    fitted: tuple[str, ...]
    added: tuple[str, ...]
    retrains: tuple[str, ...]
    stays: tuple[str, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON; the names are in the change itself."""
        values = asdict(self)
        return {"retrains": list(values["retrains"]), "stays": list(values["stays"])}


def find_influence(
    store: RunStore, names: Sequence[str], *, before: tuple[Mapping[str, Any], Sequence[Row]] | None = None
) -> Influence:
    """Tell what tasks have influenced.

    Parameters
    ----------
    store
        The run.
    names
        The tasks.
    before
        What `read_before` gives, once a removal has begun: from then on, the files of the run may be without
        the tasks. None reads the files of the run.
    """
    summary, rows = read_now(store.folder) if before is None else before
    later = names_added(summary)
    learned = {figures["task"] for figures in summary["evaluation"]["tasks"]}
    private = {row["task"] for row in rows if row["private"] == "yes"}
    fitted = tuple(name for name in names if name in learned and name not in {*later, *private})
    added = tuple(name for name in names if name not in fitted)
    adapted = AdaptedModels(store.folder)
    n_adapted = sum(path.is_dir() for path in adapted.folder.iterdir()) if adapted.folder.is_dir() else 0
    if not fitted:
        return Influence((), added, (), (), 0.0)
    stays = []
    groups = {
        figures["group"]
        for figures in summary["evaluation"]["tasks"]
        if figures["task"] in fitted and figures["group"] >= 0
    }
    retrains = ["the model of all tasks", "own models, weights, temperatures and the out-of-scope score"]
    if groups and summary["multitask"]["clusters_serve"]:
        numbers = ", ".join(str(number) for number in sorted(groups))
        retrains.insert(1, f"the model of cluster {numbers}, and those of all clusters that start from it")
    if summary["fewshot"] is not None:
        retrains.append("what learns new tasks from a handful of examples")
    n_sharing = sum(values["shares"] for values in summary.get("added", []) if values["name"] not in names)
    if n_sharing:
        retrains.append(f"classifiers of {count(n_sharing, 'task')} that came later")
    if n_adapted:
        stays.append(
            f"{count(n_adapted, 'task')} made by robusttc adapt may have learned from it and stay as they "
            "are: adapt them again with --replace."
        )
    seconds = sum(cost.wall_seconds for cost in store.costs() if cost.stage in RETRAINED)
    return Influence(fitted, added, tuple(retrains), tuple(stays), seconds)
