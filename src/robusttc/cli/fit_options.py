"""The options of `robusttc fit`. None is "not given": then environment, file or default count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robusttc.encoders import DEFAULT_ENCODER

__all__ = [
    "ClusterModels",
    "Clusters",
    "ConfigFile",
    "Delimiter",
    "Device",
    "Encoder",
    "Encoding",
    "ExecutorName",
    "Folds",
    "Kind",
    "LabelColumn",
    "LabelNames",
    "Model",
    "Pairs",
    "Private",
    "RandomDraws",
    "Rule",
    "Seed",
    "Shares",
    "SkipBadRows",
    "SplitColumn",
    "SplitValues",
    "Strategy",
    "TaskColumn",
    "TextColumn",
    "Tune",
    "Vectors",
    "WorkerNumber",
]

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.yaml", help="A file of settings, NAME: VALUE a line."),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Text encoder: sentence, static, multilingual, both, cnn or remote:URL."
        f"  [default: {DEFAULT_ENCODER}]",
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Word vectors for cnn, as of GloVe.  [default: some that come with the package]"
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FOLDER", help="A sentence-transformers model.  [default: MiniLM, which is installed]"
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="DEVICE", help="Where a sentence model runs: cpu, cuda, mps.  [default: auto]"),
]
Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="What is measured between tasks: log_likelihood, brier, accuracy or overlap."
        "  [default: log_likelihood]",
    ),
]
Pairs = Annotated[
    str | None,
    typer.Option(metavar="auto|all|N", help="How many scores to measure.  [default: auto, as many as help]"),
]
Clusters = Annotated[str | None, typer.Option(metavar="K|auto", help="How many clusters.  [default: auto]")]
Rule = Annotated[
    str | None,
    typer.Option(metavar="both|any", help="The filter of scores (Eq. 1) of strategy paper.  [default: both]"),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="blend|paper",
        help="Averages of own, shared and cluster models, or all as in the paper.  [default: blend]",
    ),
]
ClusterModels = Annotated[
    str | None,
    typer.Option(
        metavar="auto|always|never", help="Whether cluster models serve.  [default: auto, if they help]"
    ),
]
Tune = Annotated[
    str | None,
    typer.Option(
        metavar="none|encoder",
        help="Fine-tune the sentence model itself on the tasks first.  [default: none]",
    ),
]
Folds = Annotated[
    str | None, typer.Option("--n-folds", metavar="N", help="Folds of the comparison.  [default: 3]")
]
RandomDraws = Annotated[
    str | None,
    typer.Option("--n-random", metavar="N", help="Draws of random clusters to compare with.  [default: 1]"),
]
LabelNames = Annotated[
    bool | None,
    typer.Option(
        "--use-label-names/--no-label-names",
        help="Whether few-shot learning reads the names of labels.  [default: it does]",
    ),
]
Private = Annotated[
    list[str] | None,
    typer.Option(
        "--private",
        metavar="NAME",
        help="A task that no other may learn from; it gets a model of its own. Can be given several times.",
    ),
]
Seed = Annotated[
    str | None, typer.Option("--seed", metavar="N", help="The seed of everything random.  [default: 0]")
]
TextColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="The column of the text.  [default: text, or a usual name]")
]
LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The column of the label.  [default: label, or a usual name]"),
]
SplitColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The column that has the split.  [default: split, if there is one]"),
]
TaskColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The column that names the task.  [default: task, if there is one]"),
]
SplitValues = Annotated[
    list[str] | None,
    typer.Option(
        "--split-value",
        metavar="VALUE[=MEANING]",
        help="A further value of the split column, as in `robusttc inspect`. Can be given several times.",
    ),
]
Shares = Annotated[
    str | None,
    typer.Option(
        metavar="TRAIN,VALID,TEST",
        help="The shares of the splits where files have none.  [default: 0.64,0.16,0.2]",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(metavar="CHARACTER", help="The delimiter of CSV files.  [default: found from the header]"),
]
Encoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The encoding of text files.  [default: UTF-8, or UTF-16]"),
]
SkipBadRows = Annotated[
    bool | None,
    typer.Option(
        "--skip-bad-rows/--no-skip-bad-rows", help="Leave out bad rows, and say how many.  [default: stop]"
    ),
]
WorkerNumber = Annotated[
    str | None,
    typer.Option(
        "--workers", metavar="N", help="How many processes work; no result depends on it.  [default: 1]"
    ),
]
ExecutorName = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="local|ray",
        help="Who works: processes of this machine, or a Ray cluster (RAY_ADDRESS).  [default: local]",
    ),
]
