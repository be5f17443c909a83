"""`robusttc measure`: how well the encoder of each task serves the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robusttc.cli.console import error_console, output_console, show_working
from robusttc.cli.inspection_view import say
from robusttc.cli.measuring_options import (
    DeviceName,
    EncoderName,
    ModelName,
    PairNumber,
    VectorsFile,
    Workers,
)
from robusttc.cli.progress_view import show_progress
from robusttc.cli.reading import (
    AllowIncomplete,
    Delimiter,
    Encoding,
    LabelColumn,
    Seed,
    Shares,
    SkipBadRows,
    SplitColumn,
    SplitValues,
    TaskColumn,
    TasksPath,
    TextColumn,
    parse_shares,
    parse_split_values,
    read_aloud,
)
from robusttc.cli.reliability_view import show_reliability
from robusttc.data import ReadOptions
from robusttc.encoders import DEFAULT_ENCODER
from robusttc.errors import UsageError, quote
from robusttc.formatting import command_line

if TYPE_CHECKING:
    from robusttc.transfer import TransferScores

__all__ = ["measure"]


def measure(
    tasks: TasksPath,
    out: Annotated[Path, typer.Option(metavar="SCORES.csv", help="The file that gets the scores.")],
    encoder: EncoderName = DEFAULT_ENCODER,
    vectors: VectorsFile = None,
    model: ModelName = None,
    pairs: PairNumber = "auto",
    kind: Annotated[
        str, typer.Option(help="What is measured: log_likelihood, brier, accuracy or overlap.")
    ] = "log_likelihood",
    workers: Workers = 1,
    device: DeviceName = "auto",
    extend: Annotated[
        Path | None,
        typer.Option(
            metavar="SCORES.csv",
            help="Scores of these tasks measured before: kept, and only others measured.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    split_column: SplitColumn = None,
    task_column: TaskColumn = None,
    split_value: SplitValues = None,
    shares: Shares = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    skip_bad_rows: SkipBadRows = False,
    allow_incomplete: AllowIncomplete = False,
    seed: Seed = 0,
) -> None:
    """Measure transfer between tasks, and write the scores for `robusttc cluster`.

    The cost is estimated first. Rows of test are never looked at.
    """
    check_place(out, extend=extend, force=force)
    options = ReadOptions(
        text_column=text_column,
        label_column=label_column,
        split_column=split_column,
        task_column=task_column,
        split_values=parse_split_values(split_value),
        shares=parse_shares(shares),
        delimiter=delimiter,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        allow_incomplete=allow_incomplete,
        seed=seed,
    )
    # Late, so that the other commands do not wait for SciPy and torch.
    from robusttc.clustering import StopRule
    from robusttc.encoders import make_encoder
    from robusttc.params import Integer, check_param
    from robusttc.transfer import (
        TransferSettings,
        count_entries,
        estimate_cost,
        measure_transfer,
        parse_pairs,
        read_scores,
    )

    settings = TransferSettings(kind=kind)
    chosen_pairs = parse_pairs(pairs)
    check_param("workers", workers, Integer(1))
    rule = StopRule()
    chosen = make_encoder(encoder, vectors=vectors, model=model, device=device)
    loaded = read_aloud(tasks, options).tasks
    measured = None if extend is None else read_scores(extend)
    try:
        with show_working("Estimating the cost"):
            cost = estimate_cost(
                loaded,
                encoder=chosen,
                pairs=chosen_pairs,
                settings=settings,
                measured=measured,
                stop=rule,
                n_workers=workers,
                device=device,
                random_state=seed,
            )
        say(error_console(), cost.describe())
        with show_progress() as progress:
            scores = measure_transfer(
                loaded,
                encoder=chosen,
                pairs=chosen_pairs,
                settings=settings,
                measured=measured,
                stop=rule,
                n_workers=workers,
                device=device,
                random_state=seed,
                progress=progress,
            )
    except KeyboardInterrupt:
        say(error_console(), "Stopped: no scores were written. Sentence vectors made so far are kept.")
        raise
    write(scores, out)
    console = output_console()
    new = "" if measured is None else f", {len(scores) - len(measured):,} of them new"
    say(console, f"{len(scores):,} scores between {scores.n_tasks:,} tasks in {out}{new}.")
    stopped = rule.summary(len(scores), count_entries(len(loaded), chosen_pairs))
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
