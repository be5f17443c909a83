"""`robusttc measure`: how well the encoder of each task serves the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robusttc.cli.console import error_console, output_console, say, show_working
from robusttc.cli.options import AllowIncomplete, TasksPath, with_settings
from robusttc.cli.progress import show_progress
from robusttc.cli.reading import read_aloud
from robusttc.errors import UsageError, quote
from robusttc.formatting import command_line
from robusttc.run.settings import Execution, MeasureSettings, read_settings

if TYPE_CHECKING:
    from robusttc.transfer import TransferScores

__all__ = ["measure"]


@with_settings(MeasureSettings, Execution, leave_out=["executor"])
def measure(
    tasks: TasksPath,
    out: Annotated[Path, typer.Option(metavar="SCORES.csv", help="The file that gets the scores.")],
    given: dict[str, Any],
    extend: Annotated[
        Path | None,
        typer.Option(
            metavar="SCORES.csv",
            help="Scores of these tasks measured before: kept, and only others measured.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    allow_incomplete: AllowIncomplete = False,
) -> None:
    """Measure transfer between tasks, and write the scores for `robusttc cluster`.

    The cost is estimated first. Rows of test are never looked at.
    """
    check_place(out, extend=extend, force=force)
    chosen, execution = read_settings(MeasureSettings, environment={}, options=given)
    # Late, so that the other commands do not wait for SciPy and torch.
    from robusttc.clustering import StopRule
    from robusttc.encoders import make_encoder
    from robusttc.transfer import (
        TransferSettings,
        count_entries,
        estimate_cost,
        measure_transfer,
        read_scores,
    )

    rule = StopRule()
    encoder = make_encoder(chosen.encoder, vectors=chosen.vectors, model=chosen.model, device=chosen.device)
    loaded = read_aloud(tasks, chosen.read_options(allow_incomplete=allow_incomplete)).tasks
    measured = None if extend is None else read_scores(extend)
    options: dict[str, Any] = {
        "encoder": encoder,
        "pairs": chosen.pairs,
        "settings": TransferSettings(kind=chosen.kind),
        "measured": measured,
        "stop": rule,
        "n_workers": execution.workers,
        "device": chosen.device,
        "random_state": chosen.seed,
    }
    try:
        with show_working("Estimating the cost"):
            cost = estimate_cost(loaded, **options)
        say(error_console(), cost.describe())
        with show_progress() as progress:
            scores = measure_transfer(loaded, **options, progress=progress)
    except KeyboardInterrupt:
        say(error_console(), "Stopped: no scores were written. Sentence vectors made so far are kept.")
        raise
    write(scores, out)
    console = output_console()
    new = "" if measured is None else f", {len(scores) - len(measured):,} of them new"
    say(console, f"{len(scores):,} scores between {scores.n_tasks:,} tasks in {out}{new}.")
    stopped = rule.summary(len(scores), count_entries(len(loaded), chosen.pairs))
    if stopped is not None:
        say(console, f"{stopped['sentence']} --pairs all --extend measures the rest.")
    show_reliability(console, scores)
    following = command_line("cluster", out, "--plot", "clusters.png")
    say(console, f"\nNext: {following}")


def check_place(out: Path, *, extend: Path | None, force: bool) -> None:
    """Refuse a place that cannot be written to, or holds something else, before any work is done."""
    is_own = extend is not None and extend.exists() and out.exists() and extend.samefile(out)
    if out.exists() and not is_own and not force:
        raise UsageError(
            "the file is there already",
            where=quote(str(out)),
            todo="give another --out, add scores to it with --extend, or write over it with --force",
        )
    if out.is_dir() or not out.parent.is_dir():
        raise UsageError(
            "the scores cannot be written",
            where=quote(str(out)),
            got="a folder" if out.is_dir() else f"no folder {quote(str(out.parent))}",
            expected="a file in a folder that is there",
        )


def write(scores: TransferScores, out: Path) -> None:
    """Write the scores, whole or not at all."""
    try:
        scores.write_csv(out)
    except OSError as error:
        raise UsageError(
            "the scores cannot be written", where=quote(str(out)), got=error.strerror or str(error)
        ) from None


def show_reliability(console: Console, scores: TransferScores) -> None:
    """Print how well halves and directions agree, and how much belongs to the donor alone."""
    found = scores.reliability()
    if found.split_half is not None:
        say(
            console,
            "Halves: scores on one half of the rows correlate with those on the other half by "
            f"{say_both(found.split_half, found.split_half_without_donors)}.",
        )
    if found.reciprocity is not None:
        say(
            console,
            "Directions: how well A serves B correlates with how well B serves A by "
            f"{say_both(found.reciprocity, found.reciprocity_without_donors)}.",
        )
    if found.donor_share is not None:
        say(
            console,
            f"Donors: {found.donor_share:.0%} of the differences are tasks that serve every other task well, "
            "or badly, which says nothing about families.",
        )


def say_both(whole: float, without_donors: float | None) -> str:
    """Give a correlation, and that without the donor effect."""
    rest = "" if without_donors is None else f", {without_donors:.2f} without the donor effect"
    return f"{whole:.2f}{rest} (1 is perfect, 0 is chance)"
