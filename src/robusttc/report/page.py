"""The report as one file that opens anywhere: no request leaves it, and no name in it can do anything.

What can be read without a program is written by Python; the program of the page adds the matrix, the table
that sorts and searches, and the details of tasks. The policy in its head allows this very program and style
alone, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from robusttc.files import write_file
from robusttc.report.markup import Markup, element, join, shorten
from robusttc.report.page_data import gather_data
from robusttc.report.pictures import draw_matrix
from robusttc.report.sections.after import show_configuration, show_costs, show_history
from robusttc.report.sections.clusters import show_clusters
from robusttc.report.sections.frame import note, section
from robusttc.report.sections.harm import show_harm
from robusttc.report.sections.summary import show_summary
from robusttc.report.sections.tasks import show_tasks
from robusttc.report.sections.trust import show_trust
from robusttc.report.thinning import thin_layers

if TYPE_CHECKING:
    from robusttc.report.document import ReportDocument
    from robusttc.report.matrices import MatrixLayers

__all__ = ["make_page", "write_page"]

# In this order they are one program; see the first of them.
PROGRAMS = (
    "start",
    "words",
    "pixels",
    "palettes",
    "strips",
    "grid",
    "layers",
    "matrix",
    "details",
    "gains",
    "tasks",
    "end",
)
# So many tasks take about five megabytes.
MOST_DRAWN = 2_000
LAYERS = ("measured", "verdicts", "completed", "errors")
TITLES = {
    "summary": "In short",
    "matrix": "Who helps whom",
    "clusters": "Clusters",
    "tasks": "Every task",
    "harm": "Who is harmed",
    "trust": "Trust",
    "history": "What changed",
    "costs": "Costs",
    "configuration": "How it was made",
}
MATRIX_INTRO = (
    "Each row is a task that gives, each column one that receives. Tasks of a cluster stand side by side."
)


def write_page(document: ReportDocument, path: str | os.PathLike[str]) -> int:
    """Write the report of a run as one HTML file, wholly or not at all.

    Parameters
    ----------
    document
        What the report says.
    path
        The file.

    Returns
    -------
    The number of bytes written.

    Raises
    ------
    StoreError
        If the disk does not take it.
    """
    content = make_page(document)
    write_file(path, content)
    return len(content)


def make_page(document: ReportDocument) -> bytes:
    """Make the page.

    Parameters
    ----------
    document
        What the report says.
    """
    values, whole = document.values, document.matrices
    matrices = None if whole is None else thin_layers(whole, MOST_DRAWN)
    style = read_asset("report.css")
    program = "\n".join(read_asset(f"{name}.js") for name in PROGRAMS)
    pictures = {} if matrices is None else {name: draw_matrix(getattr(matrices, name)) for name in LAYERS}
    data = gather_data(values, matrices, pictures)
    if matrices is not None and whole is not None:
        data["matrix"]["left_out"] = len(whole.task_names) - len(matrices.task_names)
    shown = {name: encode(picture.png) for name, picture in pictures.items()}
    parts = [
        show_summary(values),
        show_matrix(matrices, shown),
        show_clusters(values),
        show_tasks(values),
        show_harm(values),
        show_trust(values),
        show_history(values),
        show_costs(values),
        show_configuration(values),
    ]
    page = read_asset("report.html")
    replacements: dict[str, str] = {
        "policy": make_policy(style, program),
        "title": element("title", None, f"{shorten(values['run']['name'])} · robusttc report"),
        "style": style,
        "heading": show_heading(values),
        "contents": show_contents([part for part in parts if part]),
        "parts": join(parts),
        "data": write_json(data),
        "program": program,
    }
    # All at once: what stands in for one place is never searched for another.
    pieces = page.split("%%")
    pieces[1::2] = [replacements[name] for name in pieces[1::2]]
    # A name may hold half of a character that takes two codes; JSON reads this way of writing it.
    return "".join(pieces).encode("utf-8", errors="backslashreplace")


def read_asset(name: str) -> str:
    """Read a part of the page that comes with the package."""
    return resources.files("robusttc.report").joinpath("assets", name).read_text(encoding="utf-8")


def make_policy(style: str, program: str) -> str:
    """Allow this style, this program and pictures within the page; nothing else, from nowhere else."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, program)]
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{hashes[0]}'; "
        f"script-src 'sha256-{hashes[1]}'; base-uri 'none'; form-action 'none'"
    )


def encode(png: bytes) -> str:
    """Write a picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def write_json(data: Mapping[str, Any]) -> str:
    """Write values so that nothing in them ends the element that they stand in.

    Examples
    --------
    >>> "<" in write_json({"name": "</script>"})
    False
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def show_heading(values: Mapping[str, Any]) -> Markup:
    """Name the run, and when this was made."""
    made = str(values.get("made") or "").replace("T", " ")[:16]
    version = values["run"].get("version")
    below = f"Version {version}, report of {made} UTC" if made else f"Version {version}"
    return join(
        (
            element("h1", None, element("bdi", None, shorten(values["run"]["name"]))),
            element("p", {"class": "soft"}, below),
        )
    )


def show_contents(parts: list[Markup]) -> Markup:
    """List the parts of the page."""
    there = [key for key in TITLES if any(part.startswith(f'<section id="{key}"') for part in parts)]
    links = [element("li", None, element("a", {"href": f"#{key}"}, TITLES[key])) for key in there]
    return element("nav", {"aria-label": "Parts of this report"}, element("ul", None, *links))


def show_matrix(matrices: MatrixLayers | None, pictures: Mapping[str, str]) -> Markup:
    """Show the matrices: a place for the page's program, and the pictures as they are where none runs."""
    if matrices is None or not matrices.task_names:
        return section(
            "matrix",
            TITLES["matrix"],
            None,
            note("plain", "No transfer between tasks was measured in this run."),
        )
    shown = [
        element(
            "figure",
            {"class": "without-program"},
            element("figcaption", None, f"{name} (the lighter, the more)"),
            # Its address is all that the program needs; it is drawn only where there is none.
            element(
                "img", {"id": f"picture-{name}", "alt": f"matrix: {name}", "loading": "lazy", "src": source}
            ),
        )
        for name, source in pictures.items()
    ]
    return section(
        "matrix",
        TITLES["matrix"],
        MATRIX_INTRO,
        element("div", {"class": "by-program", "id": "matrix-view"}),
        *shown,
    )
