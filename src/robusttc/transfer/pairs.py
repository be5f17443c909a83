"""Which entries of the transfer matrix to measure.

Pairs of tasks are drawn, and each is measured in both directions: 2 entries a pair.

Deviation: the paper draws pairs uniformly. Here the draw is a random graph in which all tasks have the same
number of partners, give or take one, because a uniform draw of few pairs leaves some tasks with hardly any.

What holds of the pairs drawn for n tasks, nothing being measured before:

* They depend on the set of the names and on the seed, not on the order of the tasks.
* A larger number keeps all pairs of a smaller one with the same seed.
* With n - 1 pairs or more (2 n - 2 entries), the graph is connected.
* The numbers of partners of two tasks differ by at most 1 up to half of all pairs, by at most 2 up to two
  thirds, and by a few more after that, where few pairs are left to choose from.
* Every pair is as likely as every other one.

The rounds of a tournament (the circle method) would never repeat a pair, but they cannot continue from known
pairs, and their graph mixes worse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, starmap
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import UsageError, quote
from robusttc.params import Choice, Integer, check_param
from robusttc.random import RandomState, child_seed, numpy_generator, run_seed

__all__ = ["PairChoice", "PairList", "choose_pairs", "count_entries", "parse_pairs"]

PairChoice = int | Literal["all", "auto"]

Numbers = NDArray[np.int64]

# Up to here all pairs are measured by default: 89,700 entries.
MAX_TASKS_FOR_ALL = 300


@dataclass(frozen=True, slots=True, eq=False)
class PairList:
    """Unordered pairs of tasks, given as positions with first < second."""

    first: Numbers
    second: Numbers

    def __init__(self, first: ArrayLike, second: ArrayLike) -> None:
        first, second = (np.array(side, dtype=np.int64) for side in (first, second))
        is_pairs = first.ndim == second.ndim == 1 and len(first) == len(second)
        if not is_pairs or not bool(((first >= 0) & (first < second)).all()):
            raise UsageError(
                "these are no pairs of tasks",
                got=f"first {quote(first.tolist())}, second {quote(second.tolist())}",
                expected="two lists of positions of one length, each first below its second",
            )
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "second", second)

    @classmethod
    def from_entries(cls, source: ArrayLike, target: ArrayLike) -> PairList:
        """Collect the pairs of which one direction at least is there; the diagonal has no pairs."""
        ends = np.array([source, target], dtype=np.int64)
        return cls(*np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1))

    def __len__(self) -> int:
        return len(self.first)

    def entries(self) -> tuple[Numbers, Numbers]:
        """Return the sources and the targets: all pairs in one direction, then all in the other."""
        return np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])

    def codes(self, n_tasks: int) -> Numbers:
        """Return a number for each pair, in the order of first and second."""
        return self.first * n_tasks + self.second

    @classmethod
    def from_codes(cls, codes: Numbers, n_tasks: int) -> PairList:
        """Return the pairs of these numbers."""
        return cls(codes // n_tasks, codes % n_tasks)


def choose_pairs(
    names: Sequence[str],
    pairs: PairChoice,
    *,
    random_state: RandomState = 0,
    already: PairList | None = None,
) -> PairList:
    """Return the pairs of tasks to measure, sorted; see the module for what holds of them.

    Parameters
    ----------
    names
        The names of the tasks, no two alike.
    pairs
        ``"all"``, ``"auto"`` or how many entries of the transfer matrix to measure; see `count_entries`.
    random_state
        The seed of the draw.
    already
        Pairs measured before, as positions in `names`. They are kept, even where they are more than asked
        for, and count towards the number. What is new first links the parts that do not hang together; after
        that, each new pair gives a partner to a task with the fewest.

    Examples
    --------
    >>> chosen = choose_pairs(["a", "b", "c", "d", "e", "f"], 18)
    >>> np.bincount(chosen.entries()[0]).tolist()
    [3, 3, 3, 3, 3, 3]
    """
    n = len(names)
    if len(set(names)) != n:
        raise UsageError("two tasks have one name", got=f"{n:,} names", expected="distinct names")
    seed = run_seed(random_state)
    known = PairList([], []) if already is None else already
    check_known(known, n)
    n_pairs = max(count_entries(n, pairs) // 2, len(known))
    if n_pairs == n * (n - 1) // 2:
        return PairList(*np.triu_indices(n, 1))
    # A task's place in the draw comes from its name alone: the order of the tasks must not count.
    keys = [(child_seed(seed, "pairs", [name]), name) for name in names]
    task_at = np.array(sorted(range(n), key=keys.__getitem__), dtype=np.int64)
    chosen = draw(task_at, n_pairs, known=PairList([], []), seed=seed)
    # A draw that grows by its own next pairs must come out as if it had been drawn at once.
    if np.isin(known.codes(n), chosen.codes(n)).all():
        return chosen
    return draw(task_at, n_pairs, known=known, seed=seed)


def draw(task_at: Numbers, n_pairs: int, *, known: PairList, seed: int) -> PairList:
    """Add pairs to the known ones; `task_at` has the task at each place of the draw."""
    n = len(task_at)
    places = np.argsort(task_at)[np.stack([known.first, known.second], axis=1)]
    known_places = sorted(map(tuple, np.sort(places, axis=1).tolist()))
    rounds = draw_rounds(n, known_places, numpy_generator(seed, "rounds of pairs"))
    new = np.array(list(islice(rounds, n_pairs - len(known))), dtype=np.int64).reshape(-1, 2)
    drawn = PairList(*np.sort(task_at[new], axis=1).T)
    return PairList.from_codes(np.sort(np.concatenate([known.codes(n), drawn.codes(n)])), n)


def draw_rounds(
    n_tasks: int, known: Sequence[tuple[int, int]], generator: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Yield pairs that are not known yet, without end; every beginning is balanced.

    First the connected components are linked into a ring (of single tasks, where nothing is known yet), so
    that the graph is connected. Then every round gives each task with the fewest partners one more.
    """
    partners: list[set[int]] = [{task} for task in range(n_tasks)]  # nobody is paired with itself

    def connect(one: int, other: int) -> tuple[int, int]:
        partners[one].add(other)
        partners[other].add(one)
        return one, other

    for one, other in known:
        connect(one, other)
    yield from starmap(connect, link_components(partners, generator.permutation(n_tasks).tolist()))
    while True:
        order = generator.permutation(n_tasks).tolist()
        level = min(map(len, partners)) + 1
        needy = [task for task in order if len(partners[task]) < level]
        # As many of them are paired with each other as would be if partners were drawn from all tasks: tasks
        # that were added to a run are not an island among themselves.
        n_inside = -(-(len(needy) ** 2) // n_tasks) // 2 * 2
        others = [task for task in order if len(partners[task]) >= level]
        matched, left = match_inside(needy[:n_inside], partners)
        yield from starmap(connect, matched)
        waiting = needy[n_inside:] + left
        for pool in (others, order):
            pool = sorted(pool, key=lambda task: len(partners[task]))
            for task in waiting:
                place = next((i for i, other in enumerate(pool) if other not in partners[task]), None)
                # It may have become the partner of another one meanwhile.
                if place is not None and len(partners[task]) < level:
                    pool.append(pool.pop(place))  # the one that was just used comes last
                    yield connect(task, pool[-1])
            waiting = [task for task in waiting if len(partners[task]) < level]


def link_components(partners: Sequence[set[int]], order: Sequence[int]) -> list[tuple[int, int]]:
    """Return the links of a ring of the connected components, through their tasks with the fewest partners.

    Every other link comes first, so that each component has one before any has two; the one that closes the
    ring comes last.
    """
    ranked = sorted(order, key=lambda task: len(partners[task]))
    component_of: dict[int, int] = {}
    members: list[list[int]] = []
    for task in ranked:
        if task not in component_of:
            waiting = [task]
            component_of[task] = len(members)
            while waiting:
                for other in partners[waiting.pop()].difference(component_of):
                    component_of[other] = len(members)
                    waiting.append(other)
            members.append([])
        members[component_of[task]].append(task)
    n = len(members)
    # Backwards the second time: of an odd number of components, the last one has no link yet.
    links = [*range(0, n - 1, 2), *reversed(range(1, n - 1, 2)), *([n - 1] if n > 2 else [])]
    return [(members[link][:2][-1], members[(link + 1) % n][0]) for link in links]


def match_inside(tasks: list[int], partners: Sequence[set[int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Pair tasks with each other in their (random) order; return the pairs and who is left over."""
    matched: list[tuple[int, int]] = []
    left: list[int] = []
    waiting = tasks[::-1]
    while waiting:
        task = waiting.pop()
        place = next((i for i in reversed(range(len(waiting))) if waiting[i] not in partners[task]), None)
        if place is None:
            left.append(task)
        else:
            matched.append((task, waiting.pop(place)))
    alone: list[int] = []
    for one, other in zip(left[::2], left[1::2], strict=False):
        # Two left over are partners already: they break up a pair of this round, and each takes one of it.
        for place, (c, d) in enumerate(matched):
            first, second = (c, d) if c not in partners[one] and d not in partners[other] else (d, c)
            if first not in partners[one] and second not in partners[other]:
                matched[place] = (one, first)
                matched.append((other, second))
                break
        else:
            alone += [one, other]
    return matched, alone + left[len(left) // 2 * 2 :]


def count_entries(n_tasks: int, pairs: PairChoice) -> int:
    """Count the entries of the transfer matrix that a choice of pairs measures.

    ``"auto"`` is all entries up to 300 tasks, and n log(n)^2 beyond (natural logarithm, rounded up). A number
    is rounded up to whole pairs; it must give each task a partner.

    >>> [count_entries(n, "auto") for n in (1, 300, 1491)]
    [0, 89700, 79614]
    >>> count_entries(1491, 99_999)
    100000
    """
    most = n_tasks * max(n_tasks - 1, 0)
    fewest = max(n_tasks - (n_tasks + 1) % 2, 0)  # rounded up, it gives each task a partner
    check_param("pairs", pairs, Choice("all", "auto"), Integer(min(fewest, most), most))
    if pairs == "all" or (pairs == "auto" and n_tasks <= MAX_TASKS_FOR_ALL):
        return most
    if pairs == "auto":
        return min(math.ceil(n_tasks * math.log(n_tasks) ** 2 / 2) * 2, most)
    return int(pairs) + int(pairs) % 2


def check_known(known: PairList, n_tasks: int, *, what: str = "already") -> None:
    """Check that given pairs are about these tasks, each once."""
    if len(known) and int(known.second.max()) >= n_tasks:
        raise UsageError(
            f"a pair in `{what}` is of a task that is not there",
            got=f"position {int(known.second.max()):,}",
            expected=f"positions below {n_tasks:,}",
        )
    if len(np.unique(known.codes(n_tasks))) < len(known):
        raise UsageError(f"a pair is in `{what}` twice", todo="make it with PairList.from_entries")


def parse_pairs(text: str) -> PairChoice:
    """Read what the command line says about the pairs to measure.

    >>> parse_pairs("auto"), parse_pairs("100,000"), parse_pairs("100000")
    ('auto', 100000, 100000)
    """
    word = text.strip()
    # 18 digits: what int64 holds, and far below where Python refuses to read a number.
    if re.fullmatch(r"[0-9]{1,18}|[0-9]{1,3}(,[0-9]{3}){1,5}", word):
        return int(word.replace(",", ""))
    check_param("pairs", word, Choice("all", "auto"), Integer(0))
    return "all" if word == "all" else "auto"
