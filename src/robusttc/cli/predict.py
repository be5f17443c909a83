"""`robusttc predict`: labels and probabilities of texts."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robusttc.cli.console import print_json
from robusttc.cli.options import DeviceOption, RunFolder
from robusttc.data import TABLE_ENDINGS, ProblemList, ending_of, normalise_name, open_tables
from robusttc.errors import DataError, Problem, quote

if TYPE_CHECKING:
    from robusttc.run import Prediction, TaskPredictor

__all__ = ["predict", "read_texts"]

TEXTS_AT_ONCE = 1024
STANDARD_INPUT = Path("-")


def predict(
    run: RunFolder,
    task: Annotated[str, typer.Option(metavar="NAME", help="A task of the run, or an added one.")],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="One text a line, or a table (CSV, TSV, JSON Lines …); - is standard input."
        ),
    ] = STANDARD_INPUT,
    text_column: Annotated[str, typer.Option(help="The column of a table that has the text.")] = "text",
    proba: Annotated[bool, typer.Option("--proba", help="Print the probability of every label.")] = False,
    abstain_below: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Give no label where the highest probability is below this one, from 0 to 1."
        ),
    ] = None,
    device: DeviceOption = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print a line a text: its label, the probability, and how likely it is that no label fits.

    The output is CSV with a header: label, probability, out_of_scope, and with --proba a column a label.
    """
    # Late, so that --help does not wait for SciPy and torch.
    from robusttc.models import check_threshold
    from robusttc.run import Run

    check_threshold(abstain_below)
    predictor = Run(run, device=device).predictor(task)
    texts = read_texts(file, text_column)
    if json:
        print_document(predictor, texts, abstain_below)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    labels = [f"p({label})" for label in predictor.label_names] if proba else []
    writer.writerow(["label", "probability", "out_of_scope", *labels])
    while batch := list(islice(texts, TEXTS_AT_ONCE)):
        writer.writerows(lines_of(predictor.predict(batch, abstain_below=abstain_below), proba=proba))
        sys.stdout.flush()


def lines_of(prediction: Prediction, *, proba: bool) -> Iterator[list[str]]:
    """Yield the lines of the output, one per text."""
    for k, label in enumerate(prediction.labels.tolist()):
        scope = "" if prediction.out_of_scope is None else f"{prediction.out_of_scope[k]:.4f}"
        shares = [f"{share:.4f}" for share in prediction.probabilities[k].tolist()] if proba else []
        yield [label or "", f"{prediction.confidence[k]:.4f}", scope, *shares]


def print_document(predictor: TaskPredictor, texts: Iterator[str], abstain_below: float | None) -> None:
    """Print all predictions as one JSON document."""
    found: list[dict[str, Any]] = []
    while batch := list(islice(texts, TEXTS_AT_ONCE)):
        said = predictor.predict(batch, abstain_below=abstain_below)
        scopes = [None] * len(batch) if said.out_of_scope is None else said.out_of_scope.tolist()
        for k, text in enumerate(batch):
            found.append(
                {
                    "text": text,
                    "label": said.labels[k],
                    "probability": float(said.confidence[k]),
                    "out_of_scope": scopes[k],
                    "probabilities": dict(zip(said.label_names, said.probabilities[k].tolist(), strict=True)),
                }
            )
    print_json({"task": predictor.task, "predictions": found})


def read_texts(file: Path, text_column: str = "text") -> Iterator[str]:
    """Give the texts of a file one by one: one a line, or the cells of a column.

    Raises
    ------
    DataError
        If the file cannot be read, is not UTF-8, has no such column, or a text is empty; it names the line.
    """
    found = read_column(file, text_column) if ending_of(file) in TABLE_ENDINGS else read_lines(file)
    for place, text in found:
        # Every line of the output belongs to one of the input.
        if not isinstance(text, str) or not text.strip():
            got = None if isinstance(text, str) else "no text"
            raise DataError("the text is empty", where=place, got=got, expected="one text a line")
        yield text


def read_lines(file: Path) -> Iterator[tuple[str, str]]:
    """Give every line with its place."""
    where = "standard input" if file == STANDARD_INPUT else str(file)
    try:
        source = sys.stdin.buffer if file == STANDARD_INPUT else file.open("rb")
        with io.TextIOWrapper(source, "utf-8-sig") as stream:
            for number, line in enumerate(stream, start=1):
                yield f"{where}:{number}", line.rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError("the texts are not UTF-8", where=where) from None
    except OSError as error:
        raise DataError("the texts cannot be read", where=where, got=error.strerror or str(error)) from None


def read_column(file: Path, column: str) -> Iterator[tuple[str, Any]]:
    """Give every cell of a column with its place."""
    problems = ProblemList()
    with problems.collecting(str(file)):
        for table in islice(open_tables(file, problems, known=[normalise_name(column)]), 1):
            if column not in table.columns:
                raise DataError(
                    "the file has no such column",
                    where=str(file),
                    got=", ".join(quote(name) for name in table.columns) or "no header",
                    expected=quote(column),
                    todo="name the column of the texts with --text-column",
                )
            for line, (text,) in table.rows([column]):
                if problems.n_all:
                    break
                yield Problem(str(file), "", line, unit=table.unit).place, text
    for problem in problems.first[:1]:
        raise DataError(problem.what, where=problem.place, got=problem.got, expected=problem.expected)
