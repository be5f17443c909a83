"""`robusttc demo`: the journey on planted tasks that the package makes by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robusttc.cli.console import output_console, show_working
from robusttc.cli.inspection_view import say, show_inspection
from robusttc.cli.reading import Seed, read_aloud
from robusttc.data.inspection import inspect_tasks
from robusttc.data.options import ReadOptions
from robusttc.data.synthetic import make_planted_tasks
from robusttc.data.writing import write_tasks
from robusttc.errors import UsageError, quote

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets the planted tasks.")] = Path("demo"),
    n_tasks: Annotated[int, typer.Option("--tasks", min=6, help="How many tasks to plant.")] = 48,
    seed: Seed = 0,
) -> None:
    """Plant tasks of known families, write them as files and inspect them. Needs no network."""
    console = output_console()
    with show_working("Writing planted tasks"):
        planted = make_planted_tasks(n_tasks=n_tasks, random_state=seed)
        folder = empty_or_own_folder(out / "tasks", planted.tasks.names)
        write_tasks(planted.tasks, folder)
    n_families = len(planted.family_names)
    say(console, f"Planted {n_tasks} tasks of {n_families} families in {folder}, one CSV file a task.")
    say(console, f"A family is a way of labelling: {', '.join(planted.family_names)}.\n")
    loaded = read_aloud(folder, ReadOptions(seed=seed))
    show_inspection(console, loaded, inspect_tasks(loaded.tasks), limit=12)
    say(console, f"\nLook again with: robusttc inspect {folder}")


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
