"""Measuring in rounds, so that it can stop as soon as more scores would not be worth their cost.

Each round adds pairs, evenly spread over the tasks. Its pairs are held out from what was measured before it,
which tells how well pairs that are not measured can be predicted. Who decides comes in as an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from robusttc.jobs import Job, Result, Runner
from robusttc.progress import Progress, report
from robusttc.scores import TransferScores
from robusttc.transfer.blocks import ScoreBlock, collect_scores
from robusttc.transfer.pairs import PairChoice, PairList, choose_pairs, count_entries, pair_codes
from robusttc.transfer.plan import TransferPlan
from robusttc.transfer.units import STAGE, check_measured, read_blocks, source_units

__all__ = ["StopMeasuring", "measure_rounds", "plan_rounds", "round_sizes"]

# Whether to stop, from the scores of each round so far.
StopMeasuring = Callable[[Sequence[TransferScores]], bool]

# Up to here all pairs are measured at once: there is little to save.
MAX_TASKS_AT_ONCE = 50
# Partners of a task after the first round, at the least.
FIRST_PARTNERS = 8
# The first round has so large a share of n log(n)^2.
FIRST_SHARE = 1 / 6
GROWTH = 1.6


def round_sizes(n_tasks: int) -> list[int]:
    """Return how many entries ``auto`` has measured after each round; the last number is all of its entries.

    Examples
    --------
    >>> round_sizes(50), round_sizes(60)
    ([2450], [480, 768, 1230, 1968, 3540])
    """
    budget = count_entries(n_tasks, "auto")
    if n_tasks <= MAX_TASKS_AT_ONCE:
        return [budget]
    size = n_tasks * max(FIRST_PARTNERS, FIRST_SHARE * math.log(n_tasks) ** 2)
    sizes: list[int] = []
    # What is left for the last round is not much smaller than the round before.
    while size * math.sqrt(GROWTH) < budget:
        sizes.append(math.ceil(size / 2) * 2)
        size *= GROWTH
    return [*sizes, budget]


def plan_rounds(
    plan: TransferPlan,
    pairs: PairChoice | PairList,
    measured: TransferScores | None,
    stop: StopMeasuring | None,
) -> list[PairList]:
    """Cut the pairs of a plan into rounds where measuring may stop early; else they are one round.

    Only ``auto`` leaves open how much is measured. Layers would be trained again in every round, which costs
    more than is saved.
    """
    if stop is None or pairs != "auto" or measured is not None or plan.trains_layers:
        return [plan.pairs]
    n, names = len(plan.rows), plan.task_names
    done = np.empty(0, dtype=np.int64)
    rounds: list[PairList] = []
    # Pairs of each beginning are evenly spread over the tasks.
    for size in round_sizes(n):
        codes = pair_codes(choose_pairs(names, size, random_state=plan.seed), n)
        new = codes[~np.isin(codes, done)]
        rounds.append(PairList(new // n, new % n))
        done = codes
    return rounds


def measure_rounds(
    plan: TransferPlan,
    rounds: Sequence[PairList],
    stop: StopMeasuring | None,
    runner: Runner,
    *,
    progress: Progress | None = None,
) -> list[ScoreBlock]:
    """Let a runner measure the rounds of a plan until `stop` says that it is enough.

    Warns
    -----
    DoubtWarning
        If scores are missing: a pair raised an error, or a source could not be worked on.

    Raises
    ------
    WorkError
        If there is not a single score.
    """
    is_one = len(rounds) == 1
    bar = ScoreBar(None if is_one else progress, plan.pairs.n_entries)
    blocks: list[ScoreBlock] = []
    missing: list[str] = []
    scores: list[TransferScores] = []
    data = runner.share(plan)
    try:
        for number, pairs in enumerate(rounds, start=1):
            units = source_units(plan, pairs, round_number=None if is_one else number)
            payloads = runner.run(
                STAGE, units, data, on_result=bar.count, progress=progress if is_one else None, unit="tasks"
            )
            own, own_missing = read_blocks(plan, units, payloads)
            blocks += own
            missing += own_missing
            if stop is None or number == len(rounds) or not any(len(block.target) for block in own):
                continue
            scores.append(collect_scores(plan.task_names, own, kind=plan.settings.kind))
            if stop(scores):
                break
    finally:
        runner.release(data)
    bar.finish()
    check_measured(blocks, missing)
    return blocks


class ScoreBar:
    """Counts scores for one bar over all rounds, of as many scores as there will be at the most."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total = progress, total
        self.n_done = 0
        report(progress, STAGE, 0, total, "scores")

    def count(self, unit: Job, payload: Result) -> None:
        """Count the scores of a unit."""
        self.n_done += len(payload.values["targets"]) + len(payload.values["failed"])
        report(self.progress, STAGE, self.n_done, self.total, "scores", unit.tasks[0])

    def finish(self) -> None:
        """Report that all is done, also where rounds were saved."""
        report(self.progress, STAGE, self.n_done, self.n_done, "scores")
