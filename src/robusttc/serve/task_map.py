"""A map of the tasks: clusters that are similar lie side by side, and within them similar tasks do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["place_tasks"]

Floats = NDArray[np.float64]
GAP = 1.15  # between circles, in units of their radii
STEPS = 300


def place_tasks(points: Floats, labels: NDArray[np.int_]) -> Floats:
    """Return a place in the unit square for every task.

    Parameters
    ----------
    points
        The tasks as points whose products are their similarities.
    labels
        Their clusters; each task that is in none (-1) is a circle of its own.

    Examples
    --------
    >>> places = place_tasks(np.eye(4)[[0, 0, 1, 1]], np.array([0, 0, 1, 1]))
    >>> bool(np.linalg.norm(places[0] - places[1]) < np.linalg.norm(places[0] - places[2]))
    True
    """
    if len(points) == 0:
        return np.zeros((0, 2))
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels[labels >= 0])]
    groups += [np.array([alone]) for alone in np.flatnonzero(labels < 0)]
    radii = np.sqrt([len(group) for group in groups])
    centres = np.array([points[group].mean(axis=0) for group in groups])
    circles = push_apart(project(centres) * radii.sum(), radii)
    places = np.empty((len(points), 2))
    for group, circle, radius in zip(groups, circles, radii, strict=True):
        places[group] = circle + spread(project(points[group]), radius)
    places = lay_wide(places)
    low, high = places.min(axis=0), places.max(axis=0)
    size = max(float((high - low).max()), 1e-9)
    return np.asarray(0.5 + (places - (low + high) / 2) / (size * 1.06))


def lay_wide(places: Floats) -> Floats:
    """Turn the map so that its longest axis lies."""
    centred = places - places.mean(axis=0)
    if len(places) < 2:
        return np.asarray(centred)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ axes.T)


def project(points: Floats) -> Floats:
    """Return the first two principal components, within the unit circle."""
    centred = points - points.mean(axis=0)
    if len(points) < 2 or not centred.any():
        return np.zeros((len(points), 2))
    left, values, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(right[np.arange(len(values)), np.abs(right).argmax(axis=1)])
    found = (left * (values * signs))[:, :2]
    found = np.pad(found, ((0, 0), (0, 2 - found.shape[1])))
    return np.asarray(found / max(float(np.linalg.norm(found, axis=1).max()), 1e-12))


def spread(places: Floats, radius: float) -> Floats:
    """Fill a circle: directions stay, and the order of distances from the centre does."""
    n = len(places)
    if n == 1:
        return np.zeros((1, 2))
    rank = np.linalg.norm(places, axis=1).argsort(kind="stable").argsort(kind="stable")
    # Tasks in the very same place are set side by side.
    angle = np.where(
        places.any(axis=1), np.arctan2(places[:, 1], places[:, 0]), rank * np.pi * (3 - np.sqrt(5))
    )
    reach = 0.85 * radius * np.sqrt((rank + 0.5) / n)
    return np.column_stack([reach * np.cos(angle), reach * np.sin(angle)])


def push_apart(circles: Floats, radii: Floats) -> Floats:
    """Move circles until none overlaps another, and pull them together again."""
    found = circles + 1e-3 * np.column_stack([np.cos(np.arange(len(radii))), np.sin(np.arange(len(radii)))])
    needed = GAP * (radii[:, None] + radii[None, :])
    for step in range(STEPS):
        found *= 1 - 0.02 * (1 - step / STEPS)
        between = found[:, None] - found[None, :]
        distance = np.maximum(np.linalg.norm(between, axis=2), 1e-9)
        overlap = np.maximum(needed - distance, 0.0)
        np.fill_diagonal(overlap, 0.0)
        found = found + (between / distance[:, :, None] * overlap[:, :, None]).sum(axis=1) / 4
    return found
