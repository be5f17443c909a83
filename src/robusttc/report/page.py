"""The report as one file that opens anywhere: no request leaves it, and no name in it can do anything.

What can be read without a script is written by the templates; the script adds the matrix, the table that
sorts and searches, and the details of tasks. The policy in the page's head allows this very script and style
alone, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from robusttc.errors import StoreError, UsageError
from robusttc.files import write_file
from robusttc.formatting import (
    format_bytes,
    format_duration,
    format_interval,
    format_number,
    format_percent,
    format_points,
    format_small,
)
from robusttc.progress import Progress
from robusttc.report.document import KINDS, ReportDocument, make_document
from robusttc.report.plots import Picture, draw_matrix, find_axis, place_on
from robusttc.report.sentences import WORTHWHILE

if TYPE_CHECKING:
    from robusttc.report.data import TaskMatrices
    from robusttc.run import Run

__all__ = ["REPORT", "WrittenReport", "make_page", "write_report"]

# In the folder of the run. No manifest lists it: it can be made again at any time.
REPORT = "report.html"
# So many tasks take about five megabytes.
MAX_DRAWN = 2_000
MAX_CONFUSIONS = 6
LAYERS = ("measured", "verdicts", "completed", "errors")
NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
# What no parser of HTML takes: all control characters but tab and new line. They are shown as a box.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
NUMBER_WITH_MINUS = re.compile(r"(?<![\w.\-])-(?=\d+\.\d)")
MAX_NAME_LENGTH = 72
END_LENGTH = 16  # what is kept of the end of a long name: names often differ there
# Of a task, what is written for the script only where it is there.
PLAIN = ("confidence", "why_not", "added", "n_labels", "moved")
FLAGS = ("private", "harmed", "out_of_cluster")

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report that is written: where, how large it is, how long it took, and what it says."""

    path: Path
    n_bytes: int
    seconds: float
    document: ReportDocument


def write_report(
    run: Run,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    progress: Progress | None = None,
) -> WrittenReport:
    """Write the report of a finished run as one HTML file, wholly or not at all.

    Parameters
    ----------
    run
        The run. Nothing in its folder changes but the report.
    path
        The page; None takes ``report.html`` in the folder.
    title
        What the report is called; None makes a title of the run's folder and the date.
    progress
        Called with how far it is.

    Raises
    ------
    StoreError
        If the run is damaged, or the disk does not take the page.
    UsageError
        If the page cannot be written to the place that was given.
    """
    started = time.perf_counter()
    place = run.folder / REPORT if path is None else Path(path)
    document = make_document(run, title=title, progress=progress)
    content = make_page(document)
    try:
        write_file(place, content)
    except StoreError as error:
        if path is None:
            raise
        # The run is whole: it is the place that was given that cannot be used.
        raise UsageError(error.what, where=error.where, got=error.got, todo=error.todo) from None
    return WrittenReport(place, len(content), time.perf_counter() - started, document)


def make_page(document: ReportDocument) -> bytes:
    """Return the page of a document."""
    matrices = None if document.matrices is None else document.matrices.thinned(MAX_DRAWN)
    pictures = {} if matrices is None else draw_layers(matrices)
    data = pack(document.values, matrices, pictures)
    if matrices is not None and document.matrices is not None:
        data["matrix"]["left_out"] = len(document.matrices.names) - len(matrices.names)
    style, script = read_asset("report.css"), read_asset("report.js")
    page = environment().get_template("page.html.j2")
    text = page.render(
        {
            **document.values,
            "policy": make_policy(style, script),
            "style": style,
            "script": script,
            "data": encode_json(data),
            "pictures": {name: encode_picture(picture) for name, picture in pictures.items()},
        }
    )
    # A name may hold half of a character that takes two codes; JSON reads this way of writing it.
    return text.encode("utf-8", errors="backslashreplace")


@cache
def environment() -> Environment:
    """Return the templates with their filters; everything that they are given is escaped."""
    made = Environment(
        loader=PackageLoader("robusttc.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=clean,
    )
    made.filters |= {
        "bytes": or_nothing(format_bytes),
        "count": or_nothing(lambda value: format_number(value, 0)),
        "difference": show_difference,
        "duration": or_nothing(format_duration),
        "interval": show_interval,
        "moment": show_moment,
        "number": or_nothing(format_number),
        "percent": or_nothing(format_percent),
        "place": place_on,
        "points": or_nothing(format_points),
        "setting": show_setting,
        "short": shorten,
        "small": or_nothing(format_small),
        "typeset": typeset,
    }
    made.globals |= {
        "KINDS": KINDS,
        "LAYERS": LAYERS,
        "WORTHWHILE": WORTHWHILE,
        "axis_of": find_axis,
        "grade": grade,
    }
    return made


def clean(value: Any) -> Any:
    """Return what an expression of a template gives without what HTML cannot hold; None as nothing."""
    if value is None:
        return ""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def or_nothing(write: Any) -> Any:
    """Return a filter for figures: a dash where there is none, a true minus, no break before the unit."""

    def show(value: float | None, *arguments: Any, **options: Any) -> str:
        if value is None:
            return NOTHING
        return str(write(value, *arguments, **options)).replace("-", MINUS).replace(" ", "\N{NO-BREAK SPACE}")

    return show


def show_interval(estimate: Values | None, *, signed: bool = False) -> str:
    """Return the 95 % interval of an estimate."""
    if estimate is None:
        return ""
    return format_interval(estimate["low"], estimate["high"], signed=signed).replace("-", MINUS)


def show_difference(estimate: Values | None) -> str:
    """Return a difference in points with its interval."""
    if estimate is None:
        return NOTHING
    text = f"{format_points(estimate['mean'])} {show_interval(estimate, signed=True)}"
    return text.rstrip().replace("-", MINUS)


def typeset(sentence: str) -> str:
    """Return a sentence with a true minus in its figures.

    >>> typeset("task-17 loses: -1.2 points [-2.0, 0.1]")
    'task-17 loses: −1.2 points [−2.0, 0.1]'
    """
    return NUMBER_WITH_MINUS.sub(MINUS, sentence)


def shorten(name: str) -> str:
    """Shorten a very long name in its middle; the details of the task show the whole of it.

    >>> shorten("orders"), len(shorten("orders" * 100))
    ('orders', 72)
    """
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[: MAX_NAME_LENGTH - END_LENGTH - 1]}…{name[-END_LENGTH:]}"


def show_moment(when: float) -> str:
    """Return a moment in UTC, to the minute."""
    return datetime.fromtimestamp(when, tz=UTC).strftime("%Y-%m-%d %H:%M UTC") if when else ""


def show_setting(value: Any) -> str:
    """Return the value of a setting."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(show_setting(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {show_setting(item)}" for key, item in value.items()) or "none"
    return str(value)


def grade(value: float | None, good: float, fair: float) -> str:
    """Return the grade of a figure of which more is better."""
    if value is None:
        return "unknown"
    return "good" if value >= good else "fair" if value >= fair else "poor"


def read_asset(name: str) -> str:
    """Return a part of the page that comes with the package."""
    return resources.files("robusttc.report").joinpath("assets", name).read_text(encoding="utf-8")


def make_policy(style: str, script: str) -> str:
    """Allow this style, this script and pictures within the page; nothing else, from nowhere else."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{style_hash}'; "
        f"script-src 'sha256-{script_hash}'; base-uri 'none'; form-action 'none'"
    )


def draw_layers(matrices: TaskMatrices) -> dict[str, Picture]:
    """Return the pictures of the page: the four layers, and the scores as they were measured."""
    drawn: dict[str, Any] = {
        name: getattr(matrices, name) for name in ("measured", "verdicts", "errors", "raw")
    }
    drawn["completed"] = matrices.similarity()
    return {name: draw_matrix(drawn[name]) for name in (*LAYERS, "raw")}


def encode_picture(picture: Picture) -> str:
    """Return a picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(picture.png).decode()}"


def encode_json(data: Values) -> str:
    """Write values so that nothing in them ends the element that they stand in.

    >>> "<" in encode_json({"name": "</script>"})
    False
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def pack(values: Values, matrices: TaskMatrices | None, pictures: Mapping[str, Picture]) -> dict[str, Any]:
    """Return what the script works with, as few bytes as it needs; tasks are named by their position."""
    position = {task["name"]: place for place, task in enumerate(values["tasks"])}
    packed: dict[str, Any] = {
        "place": values["run"]["place"],
        "kind": values["run"]["kind"],
        "tasks": [pack_task(task, position) for task in values["tasks"]],
        "clusters": [
            {key: cluster[key] for key in ("number", "name", "size", "labels")}
            for cluster in values["clusters"]
        ],
        "matrix": None,
    }
    if matrices is not None:
        packed["matrix"] = {
            "order": [position[name] for name in matrices.names],
            "begins": matrices.boundaries,
            "layers": {
                name: {"low": picture.low, "high": picture.high, "symmetric": picture.is_symmetric}
                for name, picture in pictures.items()
            },
        }
    return packed


def pack_task(task: Values, position: Mapping[str, int]) -> dict[str, Any]:
    """Return one task as the script reads it."""
    packed: dict[str, Any] = {
        "name": task["name"],
        "cluster": task["cluster"],
        "rows": [task[f"n_{split}"] for split in ("train", "valid", "test")],
        "accuracy": pack_estimates(task["accuracy"]),
        "f1": [rounded(task["macro_f1"][kind]) for kind in ("own", "served")],
        "gain": pack_estimate(task["gain"]),
        "expected": pack_estimate(task["expected_gain"]),
        "sources": [position[name] for name in task["sources"] if name in position],
        "nearest": [[position[name], rounded(near)] for name, near in task["nearest"] if name in position],
        "confusion": task["confusion"][:MAX_CONFUSIONS],
        "unlearned": not task["learned"],
        **{key: rounded(task[key]) for key in PLAIN},
        **{key: bool(task[key]) for key in FLAGS},
    }
    for part in ("novel", "seen"):
        if task[part] is not None:
            kinds = {kind: task[part][kind] for kind in ("own", "served", "gain")}
            packed[part] = {"n": task[part]["served"]["n"], **pack_estimates(kinds)}
    if packed["f1"] == [None, None]:
        del packed["f1"]
    # What is empty or not so is left out; zeros stay.
    return {key: value for key, value in packed.items() if value or (value == 0 and value is not False)}


def pack_estimates(estimates: Mapping[str, Values | None]) -> dict[str, list[float | None]]:
    """Return the estimates that are there."""
    packed = {kind: pack_estimate(estimate) for kind, estimate in estimates.items()}
    return {kind: estimate for kind, estimate in packed.items() if estimate is not None}


def pack_estimate(estimate: Values | None) -> list[float | None] | None:
    """Return a mean and its interval."""
    return None if estimate is None else [rounded(estimate[key]) for key in ("mean", "low", "high")]


def rounded(value: Any) -> Any:
    """Round a number to four digits after the point; leave everything else as it is."""
    return round(value, 4) if isinstance(value, float) and math.isfinite(value) else value
