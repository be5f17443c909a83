"""What all parts of the page have in common: a heading with its answer, tables, notes, commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from robusttc.report.markup import Markup, element, shorten

__all__ = ["copyable", "list_names", "name_of", "note", "section", "table"]


def section(key: str, title: str, intro: str | None, *content: object) -> Markup:
    """Make a part of the page that can be reached by its key.

    Examples
    --------
    >>> section("costs", "Costs", None, "5 s")
    '<section id="costs" aria-labelledby="costs-title"><h2 id="costs-title">Costs</h2>5 s</section>'
    """
    heading = element("h2", {"id": f"{key}-title"}, title)
    said = None if intro is None else element("p", {"class": "intro"}, intro)
    return element("section", {"id": key, "aria-labelledby": f"{key}-title"}, heading, said, *content)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "") -> Markup:
    """Make a table whose first column names its rows; on a narrow screen its rows become cards.

    Examples
    --------
    >>> "<caption>Stages</caption>" in table("Stages", ["stage", "time"], [["encode", "5 s"]])
    True
    """
    body = []
    for row in rows:
        cells = [element("th", {"scope": "row"}, row[0])]
        for title, cell in zip(header[1:], row[1:], strict=True):
            cells.append(element("td", {"data-title": title}, element("span", None, cell)))
        body.append(element("tr", None, *cells))
    titles = [element("th", {"scope": "col"}, title) for title in header]
    return element(
        "table",
        {"class": f"cards {kind}".strip()},
        element("caption", None, caption),
        element("thead", None, element("tr", None, *titles)),
        element("tbody", None, *body),
    )


def note(kind: str, *content: object) -> Markup:
    """Make a note that stands out; its kind is ``good``, ``doubt`` or ``plain``."""
    return element("div", {"class": f"note {kind}"}, *content)


def copyable(command: str) -> Markup:
    """Show a command; the page's program adds a button that copies it."""
    return element("div", {"class": "command"}, element("code", None, command))


def name_of(task: str) -> Markup:
    """Show the name of a task; the page's program opens its details.

    Names are kept apart from what is around them: one may be written from right to left.
    """
    return element("bdi", {"class": "task", "data-task": task}, shorten(task))


def list_names(names: Iterable[str]) -> Markup:
    """List names of tasks beside each other."""
    return element("ul", {"class": "names"}, *(element("li", None, name_of(name)) for name in names))
