"""What everything costs: each stage of a run, and the whole of it against the plain way.

``python -m benchmarks.paper.cost [--quick] [--only WAY|GROUP ...] [--sets SET ...] [--out FILE]``

* ``stages``: `robusttc fit` on a whole set with two workers, wall seconds and peak memory of each stage from
  the run's own books (`benchmarks.run_fit`). The run's folder stays in benchmarks/results/runs; a run that
  was stopped goes on. Sentence vectors are in the cache or not: `extra` says how many units encoding had.
* ``plain``: what the paper does, written plainly (`benchmarks.paper.plain_way`), for the part of it that
  fits into a budget of ten minutes a set: 3 minutes of single-task CNNs one by one, 4 of pairs, 2 of cluster
  models, and completion by textbook inexact ALM with a full SVD a round.
* ``ours``: the same pieces with the library, run whole: the paper's S (kind ``accuracy``, its CNNs
  included), completion, models of clusters with ``strategy="paper"``.
* ``end to end``: both sums, and their ratio.

How the plain way is extrapolated: CPU seconds of one thread. Of a uniform random sample of tasks, pairs or
steps the seconds a step of training are taken, and multiplied with all steps there are, a number that is
known: epochs times batches, over all tasks, all n (n - 1) ordered pairs (which is what the paper's S has
where it is not sampled), or 60 epochs of cluster models. The interval is that of sampling, by the
bootstrap. Assumed: time grows with the steps alone (texts of other tasks are as long), a step takes as long
in a full run (no memory runs out, nothing is shared between pieces), and ours and plain need the same
epochs. Pairs of one source are not independent, so intervals of pairs are somewhat too narrow. Inexact ALM
is run to its end on planted data of as many tasks, at the lambda that ours chose.

Deviation: clusters of the models are equal parts of the tasks in random order, K = 20 (clients1491: 40):
what they are does not change what training costs. Of clients1491 the paper measured 100,000 entries of S; so
do we, and the plain way is given for these and for all 2.2 million.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from benchmarks import run_fit
from benchmarks.paper.cost_parts import CostSet
from benchmarks.paper.figure_table import FigureTable, Measured, Options, parse_options
from benchmarks.paper.table import Way
from robusttc import write_tasks

__all__ = ["main"]

TABLE = "cost"
SETS = ("planted", "bots175", "clients1491")
RUNS = Path("benchmarks/results/runs")
STAGES = (("bots175", "sentence"), ("clients1491", "sentence"), ("bots175", "cnn"))
MIB = 2**20


def compare(made: Mapping[str, dict[str, Any]], data: CostSet) -> Measured:
    """Add both ways up."""
    sums = {"plain": 0.0, "ours": 0.0}
    low = high = plain_at_entries = 0.0
    for record in made.values():
        figures = record["figures"]
        seconds = float(figures["estimated_seconds"])
        sums[record["group"]] += seconds
        if record["group"] == "plain":
            low += float(figures.get("low") or seconds)
            high += float(figures.get("high") or seconds)
            plain_at_entries += float(figures.get("estimated_seconds_at_the_papers_entries") or seconds)
    figures = {
        "plain_seconds": sums["plain"],
        # Ends added to ends: wider than the interval of a sum of independent parts.
        "plain_low": low,
        "plain_high": high,
        "ours_seconds": sums["ours"],
        "ratio": sums["plain"] / sums["ours"],
    }
    if data.entries is not None:
        figures["plain_seconds_at_the_papers_entries"] = plain_at_entries
        figures["ratio_at_the_papers_entries"] = plain_at_entries / sums["ours"]
    return Measured(figures=figures, extra={"parts": sorted(made)})


def measure_set(table: FigureTable, data: CostSet, options: Options) -> None:
    """Make all records of one set but those of the stages."""
    made = {}
    parts = data.parts()
    seconds = sum(data.budget.values())
    print(f"{data.name}: the plain way is sampled for {seconds:.0f} s, and completed to its end", flush=True)
    for way, work in parts.items():
        if options.wants(way):
            made[way.way] = table.make(way, work, seed=0, targets=data.name)
    if len(made) == len(parts):
        way = Way(way="end to end", group="end to end", encoder="cnn")
        table.make(way, lambda: compare(made, data), seed=0, targets=data.name)


def measure_stages(table: FigureTable, name: str, encoder: str, data: CostSet) -> None:
    """Fit a set, and make a record of each stage."""

    def fit() -> Measured:
        if not data.quick:
            record = run_fit.fit(name, encoder, RUNS)
        else:
            with tempfile.TemporaryDirectory() as folder:
                (path,) = write_tasks(data.tasks, Path(folder) / "tasks.jsonl")
                record = run_fit.fit_file(path, Path(folder) / "run", encoder=encoder)
        figures = {
            "wall_seconds": record["wall"],
            "largest_process_mib": record["largest_process"] / MIB,
            "database_mib": record["database_bytes"] / MIB,
            "n_tasks": record["tasks"],
            "n_scores": record["scores"],
            "load": record["load"],
        }
        return Measured(figures=figures, settings={"workers": run_fit.N_WORKERS}, extra=record)

    made = table.make(Way(way="fit", group="stages", encoder=encoder), fit, seed=0, targets=name)
    for stage in made["extra"]["stages"]:
        way = Way(way=f"stage: {stage['stage']}", group="stages", encoder=encoder)
        figures = {
            "units": stage["units"],
            "wall_seconds": stage["wall_seconds"],
            "cpu_seconds_of_units": stage["cpu_seconds"],
            # Units whose results are kept elsewhere, as sentence vectors are, are not in the books.
            "peak_mib_of_a_worker": stage["peak_bytes"] / MIB if stage["units"] else None,
        }
        table.make(way, partial(Measured, figures=figures), seed=0, targets=name)


def main(arguments: list[str] | None = None) -> int:
    """Run the table."""
    options = parse_options(str(__doc__), table=TABLE, sets=SETS, arguments=arguments)
    torch.set_num_threads(1)
    names = [name for name in options.sets if (name == "planted") == options.quick]
    loaded = {name: CostSet(name, quick=options.quick) for name in names}
    table = FigureTable(options.out, TABLE, "quick" if options.quick else "full")
    table.describe_sets({name: data.tasks for name, data in loaded.items()})
    stages = [("planted", "cnn")] if options.quick else list(STAGES)
    with threadpool_limits(1):
        for data in loaded.values():
            measure_set(table, data, options)
        if not options.only or "stages" in options.only:
            for name, encoder in stages:
                if name in loaded:
                    measure_stages(table, name, encoder, loaded[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
