"""What the demo shows besides what the commands themselves show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from robusttc.cli.inspection_view import say
from robusttc.cli.run_view import percent
from robusttc.formatting import command_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robusttc.data import PlantedTasks
    from robusttc.run.evaluation import Evaluation

__all__ = ["begin_step", "say_what_next", "show_families", "show_new_tasks", "show_planted"]

MAX_NAMES = 6
WAY_WORDS = {
    "own": "own: logistic regression",
    "shared": "shared: one metric of all",
    "ours": "ours: what adapt gives",
}
NEXT = (
    "robusttc inspect clients",
    "robusttc fit clients --out run",
    "robusttc adapt run new-client.csv --name new-client",
    "robusttc predict run --task new-client texts.txt",
)


def begin_step(console: Console, title: str, *arguments: str | Path) -> None:
    """Print the title of a step, and the command that does the same.

    Examples
    --------
    >>> begin_step(Console(), "2. What is there", "inspect", Path("my tasks"))
    <BLANKLINE>
    2. What is there
       $ robusttc inspect 'my tasks'
    <BLANKLINE>
    """
    say(console, f"\n{title}")
    say(console, f"   $ {command_line(*arguments)}\n")


def show_planted(console: Console, planted: PlantedTasks, n_tasks: int, folder: Path) -> None:
    """Say what was planted."""
    say(console, f"1. {n_tasks} tasks, planted in {folder}: one CSV file each.")
    say(console, f"   They are of {len(planted.family_names)} families, which are ways of labelling texts:")
    say(console, f"   {', '.join(planted.family_names)}.")
    say(console, "   Tasks of one family can help each other. Nobody is told which are of one family.")


def show_families(console: Console, evaluation: Evaluation, planted: PlantedTasks) -> None:
    """Print the clusters that were found beside the families that were planted."""
    from sklearn.metrics import adjusted_rand_score

    family_of = dict(zip(planted.tasks.names, planted.families.tolist(), strict=True))
    clusters: dict[int, list[str]] = {}
    for figures in evaluation.tasks:
        clusters.setdefault(figures.group, []).append(figures.task)
    for number, names in sorted(clusters.items()):
        shown = ", ".join(names[:MAX_NAMES]) + (" …" if len(names) > MAX_NAMES else "")
        counts = Counter(planted.family_names[family_of[name]] for name in names)
        truth = ", ".join(f"{n} of {family}" for family, n in counts.most_common())
        say(console, f"  {f'cluster {number}' if number >= 0 else 'none'}: {shown} (planted: {truth})")
    agreement = adjusted_rand_score(
        [family_of[figures.task] for figures in evaluation.tasks],
        [figures.group for figures in evaluation.tasks],
    )
    say(console, f"Agreement with the planted families (adjusted Rand index, 1 is perfect): {agreement:.2f}")


def show_new_tasks(
    console: Console, accuracies: Mapping[str, NDArray[np.float64]], *, n_rows: int, texts: Path
) -> None:
    """Print how well the first new task is predicted, and a table of the means over all of them.

    Parameters
    ----------
    console
        Where.
    accuracies
        The accuracy on each new task of ``own``, ``shared`` and ``ours``.
    n_rows, texts
        How many test rows the first one has, and where they are.
    """
    from robusttc.stats import mean_interval

    own, ours = accuracies["own"], accuracies["ours"]
    say(console, f"\nOf {n_rows} other rows of it, in {texts}, {ours[0]:.1%} are predicted right;")
    say(console, f"by logistic regression on its examples alone, {own[0]:.1%}.\n")
    title = f"Test accuracy: mean over {len(own)} new tasks [95 % interval]"
    table = Table(title=title, title_justify="left")
    for heading in ("model", "accuracy in %", "over own"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for way, values in accuracies.items():
        gain = "" if way == "own" else percent(mean_interval(values - own), sign="+")
        table.add_row(WAY_WORDS[way], percent(mean_interval(values)), gain)
    console.print(table)


def say_what_next(console: Console) -> None:
    """Say what to try with one's own data."""
    say(console, "\n6. What to try next with your own data")
    say(console, "   Put it into a folder, here clients, with one CSV file a task: text,label.\n")
    for command in NEXT:
        say(console, f"   {command}")
