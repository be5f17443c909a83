"""Table 2(b) of the paper: few-shot learning on intent tasks (`bots175`), one row a label and 20 more.

A target has 10 draws of its support set; accuracies are means over them. Models are fitted once a seed, the
draws change the support set only, and are the same for all ways.

Deviation: the 30 targets are held out together, so 145 tasks are sources, also where the 10 targets of the
paper's size are judged (the paper has 165 sources for its 10); so one fit serves both.
"""

from __future__ import annotations

from benchmarks.paper.plan import Plan, paper_fewshot, paper_multitask
from benchmarks.paper.protocol import main
from benchmarks.paper.sets import load_intents
from robusttc.models import TrainingSettings

NAME = "intents-fsl"


def make_plan(quick: bool) -> Plan:
    """Say what the table runs."""
    small = TrainingSettings(epochs=2, min_steps=1) if quick else TrainingSettings()
    return Plan(
        name=NAME,
        setting="quick" if quick else "full",
        data=load_intents(quick=quick),
        learning=("fewshot",),
        numbers=(3, "auto") if quick else (10, 20, 30, "auto"),
        default_numbers=("auto",) if quick else (10, 20, 30, "auto"),
        control=3 if quick else 20,
        frozen_single=small,
        multitask=paper_multitask(quick=quick),
        fewshot=paper_fewshot(quick=quick),
        draws=2 if quick else 10,
        seeds={} if quick else {"paper, sentence": 2, "ours": 2, "today": 2},
        tuned=() if quick else ("fewshot",),
    )


if __name__ == "__main__":
    main(NAME, make_plan, __doc__)
