"""The options of every command that measures transfer, or says what measuring costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["DeviceName", "EncoderName", "ModelName", "PairNumber", "VectorsFile", "Workers"]

EncoderName = Annotated[
    str, typer.Option(help="Text encoder: sentence, static, multilingual, both, cnn or remote:URL.")
]
VectorsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Word vectors for cnn, as of GloVe.  [default: some that come with the package]"
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FOLDER", help="A sentence-transformers model.  [default: MiniLM, which is installed]"
    ),
]
PairNumber = Annotated[
    str,
    typer.Option(
        metavar="auto|all|N",
        help="How many scores to measure; auto is as many as help to predict the others.",
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="How many processes share the work.")]
DeviceName = Annotated[
    str, typer.Option(help="Where a sentence model runs: auto, cpu, cuda, mps.  auto takes a GPU if it can.")
]
