"""Small plots of means with their 95 % intervals, of any width: places are in per cent of it.

Every model has a shape of its own, so that no colour is needed to tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from robusttc.report.figures import number_of
from robusttc.report.markup import Markup, element

__all__ = ["MODELS", "Axis", "draw_legend", "draw_strip", "find_axis"]

# The models of a report: how they are called, and their shapes around (0, 0).
MODELS = {"own": "Own model", "shared": "Shared model", "cluster": "Cluster model", "served": "Served"}
SHAPES = {
    "own": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "shared": "M-4 -4H4V4H-4z",
    "cluster": "M0 -5L5 4H-5z",
    "served": "M0 -6L6 0L0 6L-6 0z",
    "gain": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
}
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
MOST_STEPS = 8
# Room at both ends for the shapes, in per cent.
MARGIN = 4.0

Axis = tuple[float, float]


def find_axis(estimates: Iterable[Mapping[str, Any] | None], *, around: float | None = None) -> Axis:
    """Give round ends of an axis for estimates with their intervals.

    Parameters
    ----------
    estimates
        What will be drawn; None is left out.
    around
        A value that must be on the axis, such as 0.

    Examples
    --------
    >>> find_axis([{"mean": 0.71, "low": 0.65, "high": 0.77}, None])
    (0.64, 0.78)
    """
    found = [] if around is None else [around]
    for estimate in estimates:
        found += [value for key in ("mean", "low", "high") if (value := number_of(estimate, key)) is not None]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    step = next((step for step in STEPS if (high - low) / step <= MOST_STEPS), STEPS[-1])
    begin, end = step * (low // step), step * -(-high // step)
    return round(begin, 4), round(end if end > begin else begin + step, 4)


def place(value: float, axis: Axis) -> str:
    """Give a place on an axis in per cent of the width."""
    share = (min(max(value, axis[0]), axis[1]) - axis[0]) / (axis[1] - axis[0])
    return f"{MARGIN + (100 - 2 * MARGIN) * share:.2f}%"


def draw_strip(
    estimates: Sequence[tuple[str, Mapping[str, Any] | None]], axis: Axis, *, label: str, zero: bool = False
) -> Markup | None:
    """Draw estimates above each other on one axis.

    Parameters
    ----------
    estimates
        The kind of each (its shape) and the estimate.
    axis
        The ends of the axis.
    label
        What a screen reader says in place of the plot.
    zero
        Whether to mark zero.

    Examples
    --------
    >>> draw_strip([("own", None)], (0.0, 1.0), label="own") is None
    True
    """
    known = [(kind, found) for kind, found in estimates if number_of(found, "mean") is not None]
    if not known:
        return None
    height = 18 * len(known)
    marks = []
    if zero and axis[0] <= 0 <= axis[1]:
        at = place(0.0, axis)
        marks.append(element("line", {"class": "zero", "x1": at, "x2": at, "y1": 0, "y2": height}))
    for row, (kind, found) in enumerate(known):
        marks += draw_mark(kind, found or {}, axis, 18 * row + 9)
    return element(
        "svg",
        {"class": "strip", "role": "img", "aria-label": label, "height": height, "width": "100%"},
        *marks,
    )


def draw_mark(kind: str, estimate: Mapping[str, Any], axis: Axis, height: int) -> list[Markup]:
    """Draw one mean and its interval."""
    marks = []
    low, high, mean = (number_of(estimate, key) for key in ("low", "high", "mean"))
    if low is not None and high is not None:
        ends = {"x1": place(low, axis), "x2": place(high, axis), "y1": height, "y2": height}
        marks.append(element("line", {"class": f"interval {kind}", **ends}))
    shape = element("path", {"class": f"shape {kind}", "d": SHAPES[kind]})
    marks.append(element("svg", {"x": place(mean or 0.0, axis), "y": height, "overflow": "visible"}, shape))
    return marks


def draw_legend(kinds: Iterable[str]) -> Markup:
    """Say which shape is which model."""
    entries = []
    for kind in kinds:
        shape = element("path", {"class": f"shape {kind}", "d": SHAPES[kind]})
        icon = element(
            "svg", {"width": 16, "height": 16, "viewBox": "-8 -8 16 16", "aria-hidden": "true"}, shape
        )
        entries.append(element("li", None, icon, f" {MODELS[kind]}"))
    return element("ul", {"class": "legend"}, *entries)
