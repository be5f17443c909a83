"""Tasks of different kinds (`diverse`), which the paper does not have: multi-task and few-shot.

Tasks are cut to 96 training, 24 validation and 60 test rows. The 40 targets of few-shot learning are drawn
over all kinds, in turns. True kinds, text centroids (k-means of mean sentence vectors), raw S and random
clusters of the same sizes stand beside the clusters: here transfer should find what topics cannot tell.
"""

from __future__ import annotations

from benchmarks.paper.plan import Plan, paper_fewshot, paper_multitask
from benchmarks.paper.protocol import main
from benchmarks.paper.sets import load_diverse
from robusttc.models import TrainingSettings

NAME = "diverse"


def make_plan(quick: bool) -> Plan:
    """Say what the table runs."""
    small = TrainingSettings(epochs=2, min_steps=1) if quick else TrainingSettings()
    return Plan(
        name=NAME,
        setting="quick" if quick else "full",
        data=load_diverse(quick=quick),
        learning=("multitask", "fewshot"),
        numbers=(3, "auto") if quick else (5, 10, 20, "auto"),
        default_numbers=("auto",) if quick else (5, 10, 20, "auto"),
        control=3 if quick else 10,
        single=small,
        frozen_single=small,
        multitask=paper_multitask(quick=quick),
        fewshot=paper_fewshot(quick=quick),
        draws=1 if quick else 5,
        seeds={} if quick else {"paper, sentence": 2, "ours": 2, "today": 2},
        tuned=() if quick else ("fewshot",),
    )


if __name__ == "__main__":
    main(NAME, make_plan, __doc__)
