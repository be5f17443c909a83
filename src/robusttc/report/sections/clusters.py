"""The clusters, a card each: what its tasks have in common, and what sharing gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from robusttc.report.figures import as_count, as_difference, as_number, as_percent, number_of
from robusttc.report.markup import Markup, element, join, shorten
from robusttc.report.sections.frame import list_names, note, section
from robusttc.report.strips import Axis, draw_strip, find_axis

__all__ = ["show_clusters"]

Values = Mapping[str, Any]

INTRO = (
    "Tasks of a cluster help each other, as far as was measured. Words are those that tell a cluster's texts "
    "from those of the others; labels are those that most of its tasks have."
)
MOST_WORDS = 10
MOST_LABELS = 6


def show_clusters(values: Values) -> Markup:
    """Show all clusters."""
    clusters = values["clusters"]
    if not clusters:
        return section("clusters", "Clusters", None, note("plain", "No clusters were made in this run."))
    axis = find_axis([cluster.get("gain") for cluster in clusters], around=0.0)
    cards = [show_card(cluster, axis) for cluster in clusters]
    return section("clusters", "Clusters", INTRO, element("div", {"class": "cards-of-clusters"}, *cards))


def show_card(cluster: Values, axis: Axis) -> Markup:
    """Show one cluster."""
    number, size = cluster["number"], cluster["size"]
    title = element(
        "h3",
        None,
        f"Cluster {number}",
        element("span", {"class": "size"}, f"{as_count(size)} task{'' if size == 1 else 's'}"),
    )
    words = [word for word, _ in cluster.get("words") or []][:MOST_WORDS]
    return element(
        "article",
        {"class": "cluster-card", "data-cluster": number},
        title,
        chips("Words", words) or element("p", {"class": "soft"}, "No words tell it from the others."),
        show_gain(cluster, axis),
        describe(cluster),
    )


def show_gain(cluster: Values, axis: Axis) -> Markup | None:
    """Show what sharing gives the tasks of a cluster."""
    gain = cluster.get("gain")
    if number_of(gain, "mean") is None:
        return None
    text = as_difference(gain)
    said = element("p", None, "Gain: ", element("b", {"class": "nowrap"}, text), " points")
    strip = draw_strip([("gain", gain)], axis, label=f"gain {text} points", zero=True)
    return element("div", {"class": "gain"}, said, strip)


def describe(cluster: Values) -> Markup:
    """List what else is known of a cluster."""
    said: list[tuple[str, object]] = []
    if cluster.get("labels"):
        title = "Labels, and how many of its tasks have each" if cluster["size"] > 1 else "Labels"
        said.append((title, list_labels(cluster["labels"], cluster["size"])))
    if cluster.get("representatives"):
        said.append(("Typical tasks", list_names(cluster["representatives"])))
    figures = [
        ("Right on test rows", as_percent(number_of((cluster.get("accuracy") or {}).get("served"), "mean"))),
        ("Alike inside", as_number(number_of(cluster, "within"))),
        ("to others", as_number(number_of(cluster, "between"))),
    ]
    return join((define("about", said), define("small-figures", figures, apart=True)))


def define(kind: str, facts: Sequence[tuple[str, object]], *, apart: bool = False) -> Markup:
    """List facts under their titles, one below the other or side by side."""
    shown = [join((element("dt", None, title), element("dd", None, fact))) for title, fact in facts]
    return element("dl", {"class": kind}, *(element("div", None, fact) if apart else fact for fact in shown))


def chips(title: str, words: Sequence[str]) -> Markup | None:
    """Show words beside each other."""
    if not words:
        return None
    shown = [element("li", None, shorten(str(word))) for word in words]
    return element("ul", {"class": "chips", "aria-label": title}, *shown)


def list_labels(labels: Iterable[Sequence[Any]], size: int) -> Markup:
    """List labels, with the number of tasks that have each."""
    shown = []
    for label, count in [(str(label), count) for label, count in labels][:MOST_LABELS]:
        number = element("small", None, f" {as_count(count)}") if size > 1 else None
        shown.append(element("li", None, element("bdi", None, shorten(label)), number))
    return element("ul", {"class": "names"}, *shown)
