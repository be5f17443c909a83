"""Table 1(b) of the paper: five-shot learning on 12 sentiment targets from 57 source tasks (`amazon69`).

A target has the authors' own 5 + 5 rows, so there is one support set. All label sets are identical, so a
cluster's model is one classifier of all its rows, and no row of the support set is left out to weigh
clusters. Sources are as in the multi-task table.

All convolutions begin with GloVe vectors, as the paper says of its baselines.

Deviation: at most 1,000 training and 200 validation rows of a source are used, and classifiers of clusters
see each row 10 times, for time.
"""

from __future__ import annotations

from benchmarks.paper.plan import Plan, paper_fewshot, paper_multitask
from benchmarks.paper.protocol import main
from benchmarks.paper.sets import load_amazon
from robusttc.models import TrainingSettings

NAME = "amazon-fsl"
EPOCHS = 20
POOLED_EPOCHS = 10


def make_plan(quick: bool) -> Plan:
    """Say what the table runs."""
    small = TrainingSettings(epochs=2 if quick else EPOCHS, min_steps=1 if quick else 200)
    return Plan(
        name=NAME,
        setting="quick" if quick else "full",
        data=load_amazon(quick=quick),
        learning=("fewshot",),
        numbers=(2, "auto") if quick else (5, 10, "auto"),
        default_numbers=("auto",) if quick else (5, 10, "auto"),
        control=2 if quick else 5,
        asap=(2,) if quick else (5, 10),
        frozen_single=small,
        multitask=paper_multitask(quick=quick, epochs=EPOCHS),
        fewshot=paper_fewshot(quick=quick, epochs=POOLED_EPOCHS),
        seeds={} if quick else {"paper, sentence": 2, "ours": 2, "today": 2},
        tuned=() if quick else ("fewshot",),
    )


if __name__ == "__main__":
    main(NAME, make_plan, __doc__)
