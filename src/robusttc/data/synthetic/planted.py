"""Planted tasks: tasks whose families are known, for the demo and for tests.

A family is a way of labelling: by topic, by tone, by the kind of offer that is wanted and so on. Its tasks
depend on the same attribute of the text and can teach each other; tasks of other families want other
labels for the same kind of text, and a representation that suits them throws away what these need. That is
the conflict of the paper's introduction: the *fine intent* tells apart the kinds of offer that a *coarse
intent* puts together, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robusttc.data.splitting import split_rows
from robusttc.data.synthetic.attribute import Attribute
from robusttc.data.synthetic.grammar import ATTRIBUTES, write_utterances
from robusttc.data.synthetic.labelling import draw_labelling
from robusttc.data.synthetic.words_service import FIELDS
from robusttc.data.task import Task
from robusttc.data.taskset import TaskSet
from robusttc.errors import UsageError, quote
from robusttc.random import RandomState, numpy_generator, run_seed

__all__ = ["PlantedTasks", "make_planted_tasks"]

# Enough rows of each label for all three splits.
MIN_ROWS_PER_LABEL = 5
# Dirichlet concentration of the label sizes: the largest label is typically two to three times the smallest.
BALANCE = 6.0


@dataclass(frozen=True)
class PlantedTasks:
    """Tasks and the truth about them.

    Attributes
    ----------
    tasks
        The tasks.
    families
        The family of each task, in the order of the tasks, as a position in `family_names`.
    family_names
        The names of the families.
    fields
        The service field of each task, in the order of the tasks.
    """

    tasks: TaskSet
    families: NDArray[np.intp]
    family_names: tuple[str, ...]
    fields: tuple[str, ...]


def make_planted_tasks(
    n_tasks: int = 48,
    n_families: int = 6,
    *,
    label_noise: float = 0.05,
    rows: tuple[int, int] = (60, 400),
    labels: tuple[int, int] = (2, 12),
    random_state: RandomState = 0,
) -> PlantedTasks:
    """Make tasks with known families; a task is the same however many come after it.

    Parameters
    ----------
    n_tasks
        How many tasks; the families take turns.
    n_families
        How many families, 1 to 8.
    label_noise
        The part of the rows whose label is replaced by another label of the task, from 0 to below 1.
    rows
        The least and the greatest number of rows of a task.
    labels
        The least and the greatest number of labels of a task. A task has fewer where its family cannot tell
        so many apart, or where it has fewer than five rows for each.
    random_state
        The seed.

    Returns
    -------
    PlantedTasks
        The tasks, split 64/16/20 within each label, and their families.

    Raises
    ------
    UsageError
        If an argument is outside its range.

    Examples
    --------
    >>> planted = make_planted_tasks(12, 6, random_state=0)
    >>> len(planted.tasks), planted.families.tolist()
    (12, [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5])
    """
    check_integer("n_tasks", n_tasks, at_least=1)
    check_integer("n_families", n_families, at_least=1, at_most=len(ATTRIBUTES))
    attributes = ATTRIBUTES[:n_families]
    check_range("labels", labels, at_least=2, at_most=min(len(attribute.values) for attribute in attributes))
    check_range("rows", rows, at_least=MIN_ROWS_PER_LABEL * labels[0])
    is_number = isinstance(label_noise, int | float | np.floating) and not isinstance(label_noise, bool)
    if not is_number or not 0 <= label_noise < 1:
        raise UsageError("label_noise cannot be used", got=quote(label_noise), expected="a number in [0, 1)")
    seed = run_seed(random_state)

    tasks, fields = [], []
    for number in range(n_tasks):
        attribute = attributes[number % n_families]
        task, field = make_task(f"task-{number:04d}", attribute, label_noise, rows, labels, seed)
        tasks.append(task)
        fields.append(field)
    return PlantedTasks(
        tasks=TaskSet(tasks),
        families=np.arange(n_tasks) % n_families,
        family_names=tuple(attribute.name for attribute in attributes),
        fields=tuple(fields),
    )


def make_task(
    name: str,
    attribute: Attribute,
    label_noise: float,
    rows: tuple[int, int],
    labels: tuple[int, int],
    seed: int,
) -> tuple[Task, str]:
    """Make one task of a family, and say which service field it is of."""
    generator = numpy_generator(seed, "planted", [name])
    field = list(FIELDS)[generator.integers(len(FIELDS))]
    n_rows = int(generator.integers(rows[0], rows[1] + 1))
    most_labels = min(labels[1], len(attribute.values), n_rows // MIN_ROWS_PER_LABEL)
    # Even on the scale of ratios: few labels are as common as many.
    n_labels = int(labels[0] * ((most_labels + 1) / labels[0]) ** generator.random())
    labelling = draw_labelling(attribute, n_labels, generator)

    label_codes = draw_label_codes(n_labels, n_rows, generator)
    # Where a label stands for several values, any of them will do.
    places = generator.random(n_rows)
    values = np.array(
        [
            labelling.values[code][int(place * len(labelling.values[code]))]
            for code, place in zip(label_codes.tolist(), places.tolist(), strict=True)
        ],
        dtype=np.intp,
    )
    texts = write_utterances(FIELDS[field], attribute, values, generator)
    # A generator of its own: the noise changes labels and nothing else.
    noisy_codes = add_noise(label_codes, label_noise, numpy_generator(seed, "planted noise", [name]))
    label_column = [labelling.names[code] for code in noisy_codes.tolist()]
    splits = split_rows(name, texts, label_column, seed)
    return Task(name, texts, label_column, splits), field


def draw_label_codes(n_labels: int, n_rows: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Draw the label of every row: unequal sizes, with a least size for each label."""
    sure = np.repeat(np.arange(n_labels), MIN_ROWS_PER_LABEL)
    shares = generator.dirichlet(np.full(n_labels, BALANCE))
    rest = generator.choice(n_labels, size=n_rows - len(sure), p=shares)
    return generator.permutation(np.concatenate([sure, rest]))


def add_noise(
    label_codes: NDArray[np.intp], label_noise: float, generator: np.random.Generator
) -> NDArray[np.intp]:
    """Give a part of the rows another label; the first row of each label is spared, so none vanishes."""
    n_labels = int(label_codes.max()) + 1
    spared = np.unique(label_codes, return_index=True)[1]
    candidates = np.setdiff1d(np.arange(len(label_codes)), spared)
    n_wrong = min(round(label_noise * len(label_codes)), len(candidates))
    wrong = generator.choice(candidates, size=n_wrong, replace=False)
    # A step of 1 to n_labels - 1 round the circle of labels never comes back to the same one.
    steps = generator.integers(1, n_labels, size=n_wrong)
    noisy = label_codes.copy()
    noisy[wrong] = (noisy[wrong] + steps) % n_labels
    return noisy


def check_integer(name: str, number: int, *, at_least: int, at_most: int | None = None) -> None:
    """Refuse what is not an integer of the range."""
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not is_integer or number < at_least or (at_most is not None and number > at_most):
        upper = "" if at_most is None else f" and at most {at_most}"
        raise UsageError(
            f"{name} cannot be used", got=quote(number), expected=f"an integer of at least {at_least}{upper}"
        )


def check_range(name: str, bounds: tuple[int, int], *, at_least: int, at_most: int | None = None) -> None:
    """Refuse what is not a pair of integers, the lower one first and within its own limits."""
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise UsageError(f"{name} cannot be used", got=quote(bounds), expected="a pair of integers") from None
    check_integer(f"the lower end of {name}", low, at_least=at_least, at_most=at_most)
    check_integer(f"the upper end of {name}", high, at_least=low)
