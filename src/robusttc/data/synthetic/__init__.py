"""Planted tasks: tasks whose families are known, written by a grammar that ships with the package."""

from __future__ import annotations

from robusttc.data.synthetic.planted import PlantedTasks, make_planted_tasks

__all__ = ["PlantedTasks", "make_planted_tasks"]
