"""Planted tasks: synthetic tasks whose families are known, for the demo and for tests.

A family is a way of labelling: by topic, by tone, by the kind of offer that is wanted and so on. Its tasks
depend on the same attribute of the text and can learn from each other; tasks of other families want other
labels for the same kind of text, and a representation that suits them discards what these need. That is the
conflict of the paper's introduction: the *fine intent* tells apart the kinds of offer that a *coarse intent*
puts together, and the other way round.

An utterance says something on every attribute that it must (what is wanted, of what, in which form) and on
some of the others. What it says on one attribute carries no information about another, so no task can read
its labels off the words of another family. The words are in ``words.toml``.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data.rows import split_rows
from robusttc.data.task import Task, TaskSet
from robusttc.errors import UsageError, quote
from robusttc.params import Integer, Number, check_param
from robusttc.random import RandomState, numpy_generator, run_seed

__all__ = ["PlantedTasks", "make_planted_tasks"]

REQUIRED = {"coarse_intent", "topic", "form"}  # no sentence without these
LINKS = ("for", "of", "concerning", "belonging to", "to do with")
# Enough rows of each label for all three splits.
MIN_ROWS_PER_LABEL = 5
# Dirichlet concentration of the label sizes: the largest label is typically two to three times the smallest.
BALANCE = 6.0
# How often an utterance says nothing on an attribute that it may leave out. More said: longer texts, in
# which the words that count are harder to find.
SILENCE = 0.75
# How strongly the customers of one service keep to their favourite words: they use the r favourite ones of n
# cues with probability (r / n)^(1 / SKEW). The favourites differ from task to task, so the rare words of one
# task are common in another of its family: that is what sharing can teach.
SKEW = 7.0


class Attribute:
    """Something that an utterance says, and one way of labelling; see ``words.toml``."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.name: str = entry["name"]
        self.phrasings: list[str] = entry["phrasings"]
        self.names: list[list[str]] = [value["names"] for value in entry["values"]]  # as a task may call it
        self.cues: list[list[str]] = [value["cues"] for value in entry["values"]]  # the words that mean it
        # Every phrase for each value: the first cue in all phrasings, the second in all, and so on.
        self.phrases = [
            [phrasing.replace("{}", cue) for cue in cues for phrasing in self.phrasings] for cues in self.cues
        ]


@dataclass(frozen=True)
class PlantedTasks:
    """Tasks and the truth about them."""

    tasks: TaskSet
    families: NDArray[np.intp]  # of each task, a position in `family_names`
    family_names: tuple[str, ...]
    fields: tuple[str, ...]  # the service field of each task


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
        The share of the rows whose label is replaced by another label of the task, from 0 to below 1.
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
    all_attributes = read_attributes()
    check_param("n_tasks", n_tasks, Integer(1))
    check_param("n_families", n_families, Integer(1, len(all_attributes)))
    attributes = all_attributes[:n_families]
    check_range("labels", labels, Integer(2, min(len(attribute.cues) for attribute in attributes)))
    check_range("rows", rows, Integer(MIN_ROWS_PER_LABEL * labels[0]))
    check_param("label_noise", label_noise, Number(0, 1, excludes=("high",)))
    seed = run_seed(random_state)
    made = [
        make_task(f"task-{number:04d}", attributes[number % n_families], label_noise, rows, labels, seed)
        for number in range(n_tasks)
    ]
    return PlantedTasks(
        tasks=TaskSet(task for task, _ in made),
        families=np.arange(n_tasks) % n_families,
        family_names=tuple(attribute.name for attribute in attributes),
        fields=tuple(field for _, field in made),
    )


def check_range(name: str, bounds: tuple[int, int], low: Integer) -> None:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise UsageError(f"{name} cannot be used", got=quote(bounds), expected="a pair of integers")
    check_param(f"the lower end of {name}", bounds[0], low)
    check_param(f"the upper end of {name}", bounds[1], Integer(bounds[0]))


@cache
def read_words() -> dict[str, Any]:
    return tomllib.loads((files("robusttc.data") / "words.toml").read_text(encoding="utf-8"))


@cache
def read_attributes() -> tuple[Attribute, ...]:
    return tuple(map(Attribute, read_words()["attributes"]))  # in the order of the families


def make_task(
    name: str,
    attribute: Attribute,
    label_noise: float,
    rows: tuple[int, int],
    labels: tuple[int, int],
    seed: int,
) -> tuple[Task, str]:
    """Return one task of a family, and its service field."""
    generator = numpy_generator(seed, "planted", [name])
    fields = read_words()["fields"]
    field = list(fields)[generator.integers(len(fields))]
    n_rows = int(generator.integers(rows[0], rows[1] + 1))
    most_labels = min(labels[1], len(attribute.cues), n_rows // MIN_ROWS_PER_LABEL)
    # Even on the scale of ratios: few labels are as common as many.
    n_labels = int(labels[0] * ((most_labels + 1) / labels[0]) ** generator.random())
    names, groups = draw_labelling(attribute, n_labels, generator)

    # Unequal label sizes, with a least size for each.
    sure = np.repeat(np.arange(n_labels), MIN_ROWS_PER_LABEL)
    shares = generator.dirichlet(np.full(n_labels, BALANCE))
    rest = generator.choice(n_labels, size=n_rows - len(sure), p=shares)
    label_codes = generator.permutation(np.concatenate([sure, rest]))
    # Where a label stands for several values, any of them will do.
    places = generator.random(n_rows).tolist()
    drawn = zip((groups[code] for code in label_codes), places, strict=True)
    values = np.array([group[int(place * len(group))] for group, place in drawn], dtype=np.intp)
    texts = write_utterances(fields[field], attribute, values, generator)
    # A generator of its own: the noise changes labels and nothing else.
    noisy_codes = add_noise(label_codes, label_noise, numpy_generator(seed, "planted noise", [name]))
    label_column = [names[code] for code in noisy_codes.tolist()]
    return Task(name, texts, label_column, split_rows(name, texts, label_column, seed)), field


def add_noise(
    label_codes: NDArray[np.intp], label_noise: float, generator: np.random.Generator
) -> NDArray[np.intp]:
    """Replace the labels of a part of the rows; the first row of each label is spared, so none vanishes."""
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


# --- Labels: which values a task tells apart, and what it calls them


def draw_labelling(
    attribute: Attribute, n_labels: int, generator: np.random.Generator
) -> tuple[list[str], list[list[int]]]:
    """Return the label names of a task, and for each label the values that it stands for.

    Tasks of one family label by the same attribute and agree on nothing else: each uses some of the values,
    cuts them into its own number of labels, and has names of its own. A label stands for neighbouring values,
    and a task uses at least half of all values however few its labels are. Otherwise two tasks of two labels
    each would mostly be about different values, with nothing to learn from each other.
    """
    n_values = len(attribute.cues)
    n_used = int(generator.integers(max(n_labels, math.ceil(n_values / 2)), n_values + 1))
    used = np.sort(generator.choice(n_values, size=n_used, replace=False))
    groups = [group.tolist() for group in np.array_split(used, n_labels)]
    plain_names = []
    for group in groups:
        # Named after the only value, both, or the first and the last.
        ends = group[:1] if len(group) == 1 else [group[0], group[-1]]
        chosen = [str(generator.choice(attribute.names[value])) for value in ends]
        plain_names.append((" or " if len(group) == 2 else " to ").join(chosen))
    style = STYLES[generator.integers(len(STYLES))]
    return style(plain_names, generator), groups


def in_paths(names: Sequence[str], generator: np.random.Generator) -> list[str]:
    """``faq/give-up``."""
    folder = generator.choice(["faq", "intent", "help", "inbox", "v2", "customer"])
    return [f"{folder}/{name.replace(' ', '-')}" for name in names]


def in_codes(names: Sequence[str], generator: np.random.Generator) -> list[str]:
    """``G-407``: the initial, and a number without a meaning."""
    numbers = generator.choice(1000, size=len(names), replace=False)
    return [f"{name[0].upper()}-{number:03d}" for name, number in zip(names, numbers, strict=True)]


STYLES: tuple[Callable[[Sequence[str], np.random.Generator], list[str]], ...] = (
    lambda names, _: list(names),  # give up
    lambda names, _: [name.capitalize() for name in names],  # Give up
    lambda names, _: [name.replace(" ", "_") for name in names],  # give_up
    lambda names, _: [name.title().replace(" ", "") for name in names],  # GiveUp
    in_paths,
    in_codes,
)


# --- Texts: one sentence that asks for something, with what the customer adds to it


def write_utterances(
    things: Sequence[str], attribute: Attribute, values: NDArray[np.intp], generator: np.random.Generator
) -> list[str]:
    """Return one utterance for each of `values` (of `attribute`), which it says in some way."""
    n_rows = len(values)
    drawn = [
        draw_phrases(other, values if other is attribute else None, n_rows, generator)
        for other in read_attributes()
    ]
    links = generator.integers(len(LINKS), size=n_rows).tolist()
    drawn_things = generator.integers(len(things), size=n_rows).tolist()
    # Which of the orders of the additions, and whether the mood comes first.
    turns = generator.integers(3, size=n_rows).tolist()
    mood_first = (generator.random(n_rows) < 0.5).tolist()

    utterances = []
    for row, phrases in enumerate(zip(*drawn, strict=True)):
        said = {other.name: phrase for other, phrase in zip(read_attributes(), phrases, strict=True)}
        additions = [said["beneficiary"], said["channel"], said["urgency"]]
        turn = turns[row]
        request = [said["coarse_intent"], said["topic"], LINKS[links[row]], things[drawn_things[row]]]
        request += additions[turn:] + additions[:turn]
        sentence = said["form"].replace("*", " ".join(filter(None, request)))
        sentence = sentence[0].upper() + sentence[1:]
        sentences = [sentence, said["fine_intent"]]
        sentences.insert(0 if mood_first[row] else 2, said["tone"])
        utterances.append(" ".join(filter(None, sentences)))
    return utterances


def draw_phrases(
    attribute: Attribute, values: NDArray[np.intp] | None, n_rows: int, generator: np.random.Generator
) -> list[str]:
    """Draw what each row says on an attribute: its given value, or any value, or nothing (empty)."""
    n_values, n_phrasings = len(attribute.cues), len(attribute.phrasings)
    # The same number of draws in every case, so that what is said on the others does not depend on it.
    drawn = generator.integers(n_values, size=n_rows)
    silent = generator.random(n_rows) < SILENCE
    favourites = generator.random(n_values)
    ranks = generator.random(n_rows) ** SKEW
    phrasings = generator.integers(n_phrasings, size=n_rows)
    if values is not None:
        drawn = values
    if values is not None or attribute.name in REQUIRED:
        silent[:] = False
    # The rank counts from the favourite cue on, and round to the first.
    n_cues = np.array([len(cues) for cues in attribute.cues])[drawn]
    cues = ((favourites[drawn] + ranks) * n_cues).astype(np.intp) % n_cues
    columns = zip(drawn.tolist(), silent.tolist(), (cues * n_phrasings + phrasings).tolist(), strict=True)
    return ["" if is_silent else attribute.phrases[value][place] for value, is_silent, place in columns]
