"""A small picture of a window and of where a value lies in it."""

from __future__ import annotations

from robusttc.report.figures import as_number
from robusttc.report.markup import Markup, element

__all__ = ["draw_window"]

HEIGHT = 22


def draw_window(value: float | None, low: float | None, high: float | None) -> Markup | None:
    """Draw the window from `low` to `high`, and `value` on the same scale from zero.

    An empty window, whose lower end is above its upper one, is drawn as two edges with nothing between.

    Examples
    --------
    >>> draw_window(None, 0.1, 0.2) is None
    True
    >>> "lambda 0.15 in the window from 0.10 to 0.20" in draw_window(0.15, 0.1, 0.2)
    True
    """
    if value is None or low is None or high is None:
        return None
    end = 1.15 * max(value, low, high) or 1.0
    marks = [element("line", {"class": "interval", "x1": "0%", "x2": "100%", "y1": 11, "y2": 11})]
    if low < high:
        sizes = {"x": f"{100 * low / end:.1f}%", "width": f"{100 * (high - low) / end:.1f}%"}
        marks.append(element("rect", {"class": "window", "y": 5, "height": 12, "rx": 2, **sizes}))
        where = f"in the window from {as_number(low)} to {as_number(high)}"
        where = where if low <= value <= high else f"not {where}"
    else:
        for edge in (low, high):
            at = f"{100 * edge / end:.1f}%"
            marks.append(element("line", {"class": "edge", "x1": at, "x2": at, "y1": 4, "y2": 18}))
        where = f"and no window: it would begin at {as_number(low)} and end at {as_number(high)}"
    shape = element("path", {"class": "shape served", "d": "M0 -6L6 0L0 6L-6 0z"})
    marks.append(element("svg", {"x": f"{100 * value / end:.1f}%", "y": 11, "overflow": "visible"}, shape))
    label = f"lambda {as_number(value)} {where}"
    return element(
        "svg",
        {"class": "strip", "role": "img", "aria-label": label, "height": HEIGHT, "width": "100%"},
        *marks,
    )
