"""Why clusters do or do not pay in multi-task learning: the paper's models under changed conditions.

``python -m benchmarks.paper.why [--quick] [--only WAY|GROUP ...] [--sets SET ...] [--seeds N] [--out FILE]``

Every row trains the paper's models: one for all tasks (holistic), one for each cluster, one for each random
cluster of the same sizes, and one for each task, and compares them by task, on test rows. No choice is made
by it. They have sentence vectors but for the group ``cnn``. What changes:

* ``base``: nothing; 20 clusters of the paper's scores;
* ``width``: how many numbers the shared layer has. If tasks fought for room in it, a narrow one would make
  clusters pay;
* ``rows``: only a part of every task's training rows. With few rows, what others know is worth more;
* ``phrases``: training rows are left out whose text stands among the test rows of another task;
* ``steps``: the model of all tasks sees each row a twentieth as often, so that it is trained for as many
  steps as that of a cluster of middle size: a baseline that is not trained to its best;
* ``K``: the number of clusters, of the paper's scores and of our default instrument;
* ``cnn``: some of this with convolutions.

Tasks that lose are those for which the model of all tasks is worse than their own: what clusters could mend.
*Averaged* is the mean of the probabilities of the model of all tasks and of that of the cluster: what
clusters know beyond it. Any second model gains by averaging, so that of random clusters stands beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.paper import diverse, intents_mtl
from benchmarks.paper.figure_table import FigureTable, Options, parse_options
from benchmarks.paper.table import Way, key_of
from benchmarks.paper.why_trials import Condition, Trials

__all__ = ["list_conditions", "main"]

TABLE = "why"
PLANS = {"bots175": intents_mtl.make_plan, "diverse": diverse.make_plan}
NUMBER = {False: 20, True: 3}
WIDTHS = {False: (5, 10, 25, 50, 800), True: (10,)}
SHARES = {False: (0.1, 0.25, 0.5), True: (0.5,)}
NUMBERS = {False: (2, 5, 10, 40), True: (2,)}


def list_conditions(*, quick: bool) -> Iterator[Condition]:
    """Give all conditions; what is not named is as in the first."""
    base = Condition(way="as in the tables", group="base", number=NUMBER[quick])
    changed = {
        "phrases": replace(base, way="no text of another task's test rows", without_phrases=True),
        "steps": replace(base, way="holistic with the steps of a cluster", equal_steps=True),
    }
    yield base
    yield replace(base, way="our scores", group="K", instrument="default")
    for group, condition in changed.items():
        yield replace(condition, group=group)
    for width in WIDTHS[quick]:
        yield replace(base, way=f"width {width}", group="width", width=width)
    for share in SHARES[quick]:
        yield replace(base, way=f"{share:.0%} of the training rows", group="rows", share=share)
    for number in NUMBERS[quick]:
        yield replace(base, way=f"K = {number}", group="K", number=number)
        yield replace(base, way=f"K = {number}, our scores", group="K", number=number, instrument="default")
    for condition in (base, *changed.values()):
        yield replace(condition, group="cnn", encoder="cnn")


def way_of(condition: Condition) -> Way:
    """Name a condition in the table."""
    return Way(way=condition.way, group=condition.group, encoder=condition.encoder)


def run(options: Options) -> FigureTable:
    """Make all records that are not there yet."""
    table = FigureTable(options.out, TABLE, "quick" if options.quick else "full")
    plans = {name: PLANS[name](options.quick) for name in options.sets}
    table.describe_sets({name: plan.data.tasks for name, plan in plans.items()})
    conditions = list(list_conditions(quick=options.quick))
    table.expect([key_of(way_of(one), seed=0, targets=name) for name in PLANS for one in conditions], {})
    for seed in range(options.seeds or 1):
        for name, plan in plans.items():
            trials = Trials(plan)
            for condition in conditions:
                way = way_of(condition)
                if options.wants(way):
                    table.make(way, partial(trials.compare, condition, seed), seed=seed, targets=name)
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run the table."""
    run(parse_options(str(__doc__), table=TABLE, sets=tuple(PLANS), arguments=arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
