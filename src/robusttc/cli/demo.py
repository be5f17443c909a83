"""`robusttc demo`: the journey on planted tasks that the package makes by itself."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robusttc.cli.clustering_view import show_clustering
from robusttc.cli.console import output_console, show_working
from robusttc.cli.inspection_view import say, show_inspection
from robusttc.cli.progress_view import show_progress
from robusttc.cli.reading import Seed, read_aloud
from robusttc.cli.reliability_view import show_reliability
from robusttc.data.inspection import inspect_tasks
from robusttc.data.options import ReadOptions
from robusttc.data.synthetic import PlantedTasks, make_planted_tasks
from robusttc.data.taskset import TaskSet
from robusttc.data.writing import write_tasks
from robusttc.errors import DoubtWarning, UsageError, quote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from robusttc.scores import TransferScores

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets everything the demo makes.")] = Path("demo"),
    n_tasks: Annotated[int, typer.Option("--tasks", min=12, help="How many tasks to plant.")] = 48,
    seed: Seed = 0,
) -> None:
    """Plant tasks of known families, inspect them, measure transfer, cluster them, and train on the clusters.

    Ends with two tables: multi-task and few-shot learning, beside models without clusters. Needs no network.
    The first time much of it is sentence vectors, which are kept.
    """
    console = output_console()
    with show_working("Writing planted tasks"):
        planted = make_planted_tasks(n_tasks=n_tasks, random_state=seed)
        folder = empty_or_own_folder(out / "tasks", planted.tasks.names)
        write_tasks(planted.tasks, folder)
    n_families = len(planted.family_names)
    say(console, f"1. Planted {n_tasks} tasks of {n_families} families in {folder}, one CSV file a task.")
    say(console, f"   A family is a way of labelling: {', '.join(planted.family_names)}.\n")
    say(console, f"2. robusttc inspect {folder}\n")
    loaded = read_aloud(folder, ReadOptions(seed=seed))
    show_inspection(console, loaded, inspect_tasks(loaded.tasks), limit=6)
    scores = measure_aloud(console, loaded.tasks, out, seed)
    labels = cluster_aloud(console, scores, planted, out, seed)
    learn_aloud(console, loaded.tasks, scores, labels, seed)


def learn_aloud(
    console: Console, tasks: TaskSet, scores: TransferScores, labels: NDArray[np.intp], seed: int
) -> None:
    """Train on the clusters, and compare with models without them."""
    # Late, so that the other commands do not wait for SciPy and torch.
    from robusttc.cli.learning_demo import show_learning

    show_learning(console, tasks, scores, labels, seed)


def measure_aloud(console: Console, tasks: TaskSet, out: Path, seed: int) -> TransferScores:
    """Measure transfer between all tasks, and say how far the scores can be trusted."""
    # Late, so that the other commands do not wait for SciPy and torch.
    from robusttc.transfer.measure import measure_transfer

    file = out / "scores.csv"
    say(console, f"\n3. robusttc measure {out / 'tasks'} --pairs all --out {file}\n")
    with show_progress() as progress:
        scores = measure_transfer(
            tasks, encoder="sentence", pairs="all", random_state=seed, progress=progress
        )
    scores.write_csv(file)
    say(console, f"{len(scores):,} scores between {scores.n_tasks:,} tasks in {file}.")
    show_reliability(console, scores)
    return scores


def cluster_aloud(
    console: Console, scores: TransferScores, planted: PlantedTasks, out: Path, seed: int
) -> NDArray[np.intp]:
    """Cluster by the scores, compare with the truth, and give the clusters."""
    # Late, so that the other commands do not wait for SciPy and scikit-learn.
    from sklearn.metrics import adjusted_rand_score

    from robusttc.cli.cluster import write_clusters
    from robusttc.clustering.estimator import RobustTaskClustering
    from robusttc.report.heatmap import draw_heatmap

    plot = out / "clusters.png"
    say(console, f"\n4. robusttc cluster {out / 'scores.csv'} --remove-donor-effect --plot {plot}\n")
    with show_working("Clustering"), warnings.catch_warnings():
        # What is doubtful is part of the diagnosis.
        warnings.simplefilter("ignore", DoubtWarning)
        clustering = RobustTaskClustering(random_state=seed, remove_donor_effect=True).fit(scores)
        write_clusters(clustering, out / "clusters.csv")
        draw_heatmap(scores, clustering, plot)
    written = [str(out / name) for name in ("scores.csv", "clusters.csv", "clusters.png")]
    show_clustering(console, clustering, written)
    agreement = adjusted_rand_score(planted.families, clustering.labels_)
    say(console, f"Agreement with the planted families (adjusted Rand index, 1 is perfect): {agreement:.2f}")
    return clustering.labels_


def empty_or_own_folder(folder: Path, task_names: tuple[str, ...]) -> Path:
    """Refuse a folder that holds anything but an earlier demo of the same tasks."""
    own = {f"{name}.csv" for name in task_names}
    foreign = (
        sorted(file.name for file in folder.iterdir() if file.name not in own) if folder.is_dir() else []
    )
    if foreign:
        raise UsageError(
            "the folder holds other files",
            where=quote(str(folder)),
            got=quote(foreign[0]),
            todo="give an empty folder with --out",
        )
    return folder
