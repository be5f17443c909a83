"""Table 3 of the paper: multi-task learning on 1,491 intent tasks (`clients1491`), with 4.5 % of the pairs.

100,000 scores are measured, as in the paper, and the filter rule is the paper's for this table (``any``): a
pair is similar if one of both is at least at the mean of its column. All 1,491 tasks are judged. Beyond the
paper, 100 clients are held out and learned from one row a label and 20 more; the clusters of their sources
come from those of the scores that are between sources.

Deviation: the default instrument stands beside the paper's scores for K = 40 and auto only, few-shot
learning has these two K only, controls have sentence vectors only, and a model over all tasks sees each row
40 times at the most, not 60: all for time.
"""

from __future__ import annotations

from benchmarks.paper.plan import Plan, paper_fewshot, paper_multitask
from benchmarks.paper.protocol import main
from benchmarks.paper.sets import load_many
from robusttc.models import TrainingSettings

NAME = "many-mtl"
SCORES = 100_000
EPOCHS = 40


def make_plan(quick: bool) -> Plan:
    """Say what the table runs."""
    small = TrainingSettings(epochs=2, min_steps=1) if quick else TrainingSettings()
    return Plan(
        name=NAME,
        setting="quick" if quick else "full",
        data=load_many(quick=quick),
        learning=("multitask", "fewshot"),
        numbers=(4, "auto") if quick else (30, 40, 50, "auto"),
        default_numbers=("auto",) if quick else (40, "auto"),
        new_numbers=(4, "auto") if quick else (40, "auto"),
        new_default_numbers=("auto",),
        control=4 if quick else 40,
        control_encoders=("sentence",),
        pairs=600 if quick else SCORES,
        rule="any",
        single=small,
        frozen_single=small,
        multitask=paper_multitask(quick=quick, epochs=EPOCHS),
        fewshot=paper_fewshot(quick=quick),
        tuned=() if quick else ("fewshot",),
        draws=1,
    )


if __name__ == "__main__":
    main(NAME, make_plan, __doc__)
