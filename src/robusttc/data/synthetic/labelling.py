"""What a client makes of an attribute: which values it tells apart, and what it calls them.

Tasks of one family label by the same attribute and agree on nothing else: each uses some of the values, cuts
them into its own number of labels, and has names of its own. A label stands for neighbouring values, and a
task uses at least half of all values however few its labels are. Otherwise two tasks of two labels each would
mostly be about different values, and with nothing to learn from each other they would be no family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robusttc.data.synthetic.attribute import Attribute

__all__ = ["Labelling", "draw_labelling"]

CODES = 1000


@dataclass(frozen=True)
class Labelling:
    """The labels of one task.

    Attributes
    ----------
    names
        The label names, all different.
    values
        For each label the positions of the values of the attribute that it stands for.
    """

    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]


def draw_labelling(attribute: Attribute, n_labels: int, generator: np.random.Generator) -> Labelling:
    """Draw which values the labels of a task stand for, and how they are called."""
    n_values = len(attribute.values)
    n_used = int(generator.integers(max(n_labels, math.ceil(n_values / 2)), n_values + 1))
    used = np.sort(generator.choice(n_values, size=n_used, replace=False))
    values = tuple(tuple(group.tolist()) for group in np.array_split(used, n_labels))
    plain_names = [name_group(attribute, group, generator) for group in values]
    style = STYLES[generator.integers(len(STYLES))]
    return Labelling(tuple(style(plain_names, generator)), values)


def name_group(attribute: Attribute, group: Sequence[int], generator: np.random.Generator) -> str:
    """Name a label after its values: the only one, both, or the first and the last."""
    ends = [group[0]] if len(group) == 1 else [group[0], group[-1]]
    names = [str(generator.choice(attribute.values[value].names)) for value in ends]
    return (" or " if len(group) == 2 else " to ").join(names)


def in_words(names: Sequence[str], _: np.random.Generator) -> list[str]:
    """``give up``."""
    return list(names)


def in_title_case(names: Sequence[str], _: np.random.Generator) -> list[str]:
    """``Give up``."""
    return [name.capitalize() for name in names]


def in_snake_case(names: Sequence[str], _: np.random.Generator) -> list[str]:
    """``give_up``."""
    return [name.replace(" ", "_") for name in names]


def in_camel_case(names: Sequence[str], _: np.random.Generator) -> list[str]:
    """``GiveUp``."""
    return [name.title().replace(" ", "") for name in names]


def in_paths(names: Sequence[str], generator: np.random.Generator) -> list[str]:
    """``faq/give-up``."""
    folder = generator.choice(["faq", "intent", "help", "inbox", "v2", "customer"])
    return [f"{folder}/{name.replace(' ', '-')}" for name in names]


def in_codes(names: Sequence[str], generator: np.random.Generator) -> list[str]:
    """``G-407``: the initial, and a number that tells nothing."""
    numbers = generator.choice(CODES, size=len(names), replace=False)
    return [f"{name[0].upper()}-{number:03d}" for name, number in zip(names, numbers, strict=True)]


STYLES: tuple[Callable[[Sequence[str], np.random.Generator], list[str]], ...] = (
    in_words,
    in_title_case,
    in_snake_case,
    in_camel_case,
    in_paths,
    in_codes,
)
