"""The options of every command that reads a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["DeviceOfModels", "RunFolder"]

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
DeviceOfModels = Annotated[
    str,
    typer.Option("--device", metavar="DEVICE", help="Where a sentence model runs: auto, cpu, cuda, mps."),
]
