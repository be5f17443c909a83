"""Where recovery begins: planted clusters, the number of entries beside n log^2 n, and what is certified.

``python -m benchmarks.paper.theorem [--quick] [--only LINE ...] [--seeds DRAWS] [--out FILE]``

For n tasks in k clusters, m entries of the similarity matrix (both directions of m/2 pairs, drawn uniformly)
are observed, a share of the pairs is wrong, and the whole of Algorithm 1 runs on them: lambda and the number
of clusters are found, nothing is told. A cell is (n, k, share of wrong pairs, m / (n log^2 n)), with several
draws. Figures of a cell, as shares of its draws:

* ``x_exact``: the X of Eq. 2 is the true similarity matrix, no entry off by more than 0.01. This is what the
  theorem promises. Where no lambda would do, X is not that of Eq. 2 and this is 0;
* ``x_rounds``: the same after rounding X to 0 and 1;
* ``clusters_exact``: the clusters are the planted ones, each task;
* ``certified_right``, ``certified_not_all``, ``certified_wrong``, ``not_certified``: what the certificate
  says, beside whether the clusters are exact: of all tasks; of those that it covers, which are the assigned
  ones that X separates (99 % at least), while one that it does not cover is not where it was planted; not
  even of those. The last must be 0. ``least_agreement_certified`` is the lowest adjusted Rand index of a
  certified draw, all tasks counted;
* ``likely_right``, ``likely_wrong``: of the draws that are called likely.

Deviation: the theorem speaks of X for a lambda in its interval, which is empty unless hardly anything is
wrong (`robusttc.clustering.old.incoherence`); here lambda is chosen by the library. Its constant C is not
known, so multiples of n log^2 n are the unit. Correct entries are m times one less the share of wrong ones.

A transition (group ``transitions``) is the multiple of n log^2 n at which half of the draws are exact,
between the two multiples measured next to it. If it is the same for all n, n log^2 n is the right order; if
it falls with n, fewer entries will do. ``order`` is the slope of log m over log n at the transition, beside
that of n log^2 n and n log n over the same n. 500 tasks, more clusters and the signal-to-noise ratio are in
the table of `benchmarks.completion`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.paper.figure_table import FigureTable, Measured, Options, parse_options
from benchmarks.paper.table import Way
from benchmarks.paper.theorem_cells import FIGURES, Cell, judge_draw, measure_cell

__all__ = ["find_transition", "main"]

TABLE = "theorem"


@dataclass(frozen=True)
class Grid:
    """The cells of a setting, and how many draws each has."""

    sizes: tuple[int, ...]
    clusters: tuple[int, ...]
    flips: tuple[float, ...]
    multiples: tuple[float, ...]
    draws: int

    def cells(self) -> Iterator[Cell]:
        """Give the cells there are entries enough for."""
        for k, flips, n, multiple in product(self.clusters, self.flips, self.sizes, self.multiples):
            cell = Cell(n, k, flips, multiple)
            if cell.is_possible:
                yield cell


FULL = Grid(
    (50, 100, 200, 400, 800),
    (2, 4),
    (0.0, 0.05, 0.1, 0.2),
    (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8),
    10,
)
QUICK = Grid((50, 100), (2,), (0.05,), (0.5, 1, 2, 3), 3)


def find_transition(shares: Mapping[float, float]) -> float | None:
    """Give the multiple at which half of the draws succeed: from there on they always do.

    Between the last multiple with less than half and the next one it is found on a straight line; None where
    half is never reached, and the lowest multiple where it always is.

    Examples
    --------
    >>> find_transition({0.5: 0.0, 1.0: 0.25, 2.0: 0.75, 3.0: 1.0})
    1.5
    """
    multiples = sorted(shares)
    below = [place for place, one in enumerate(multiples) if shares[one] < 0.5]
    if not below:
        return multiples[0] if multiples else None
    last = below[-1]
    if last + 1 == len(multiples):
        return None
    low, high = multiples[last], multiples[last + 1]
    way = (0.5 - shares[low]) / (shares[high] - shares[low])
    return low + way * (high - low)


def summarise(records: Sequence[dict[str, Any]], figure: str) -> Measured:
    """Give the transition of every n of one line of cells, and the order of m in n."""
    shares: dict[int, dict[float, float]] = {}
    for one in records:
        own = one["figures"]
        shares.setdefault(int(own["n"]), {})[float(own["multiple"])] = float(own[figure])
    figures: dict[str, float | None] = {}
    points = []
    for n, by_multiple in sorted(shares.items()):
        found = find_transition(by_multiple)
        figures[f"n = {n}"] = found
        # The lowest multiple bounds the transition, it is not the place of it.
        if found is not None and found > min(by_multiple):
            points.append((math.log(n), math.log(found * n * math.log(n) ** 2)))
    figures["order"] = slope(points)
    figures["order_n_log2_n"] = slope([(x, x + 2 * math.log(x)) for x, _ in points])
    figures["order_n_log_n"] = slope([(x, x + math.log(x)) for x, _ in points])
    return Measured(figures=figures, extra={"of": figure, "sizes_in_order": len(points)})


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Give the slope of a straight line through points; None for fewer than two."""
    if len(points) < 2:
        return None
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def run(options: Options) -> FigureTable:
    """Make all records that are not there yet."""
    grid = QUICK if options.quick else FULL
    draws = options.seeds or grid.draws
    table = FigureTable(options.out, TABLE, "quick" if options.quick else "full")
    table.data = {"name": "planted clusters", "sha256": None, "n_tasks": max(grid.sizes), "n_rows": 0}
    cells = [cell for cell in grid.cells() if not options.only or cell.line in options.only]
    judge_draw(cells[0], 0)  # compiles
    start = time.perf_counter()
    judge_draw(cells[-1], 0)
    seconds = (time.perf_counter() - start) * len(cells) * draws
    print(f"{len(cells)} cells of {draws} draws: at most about {seconds / 60:.0f} minutes", flush=True)
    made: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        way = Way(way=cell.line, group="cells", encoder="planted")
        targets = f"n = {cell.n}, {cell.multiple:g} n log^2 n, {draws} draws"
        record = table.make(way, partial(measure_cell, cell, draws), seed=0, targets=targets)
        made.setdefault(cell.line, []).append(record)
    for line, records in made.items():
        for figure in FIGURES:
            way = Way(way=f"transition of {figure}: {line}", group="transitions", encoder="planted")
            table.make(
                way,
                partial(summarise, records, figure),
                seed=0,
                targets=f"{len(records)} cells, {draws} draws",
            )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run the table."""
    options = parse_options(str(__doc__), table=TABLE, sets=("planted",), arguments=arguments)
    table = run(options)
    wrong = [key for key, one in table.records.items() if one["figures"].get("certified_wrong")]
    print(f"certified and wrong: {len(wrong)} cells {wrong}" if wrong else "nothing certified was wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
