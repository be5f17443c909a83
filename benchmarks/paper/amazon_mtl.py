"""Table 1(a) of the paper: multi-task learning on 69 sentiment tasks (`amazon69`), judged on 12 targets.

The targets train on the rows in `train_full`, of which as many are drawn, without drawing one twice, as
give the share of positives that their validation rows have; these are balanced as they come. Music and
video came without training rows: 80 % of their validation rows are drawn to train on. All label sets are
identical, so the paper's score of a pair is the accuracy of one task's model on the training rows of the
other.

Deviation: ASAP has sentence vectors with both encoders. Its program over bags of words takes far longer,
and grows with tasks and words.

Word vectors are random at first in single-task models and in those of several tasks alike, as in the paper.
On validation rows of these smaller tasks GloVe vectors looked better for both kinds (one seed, six single
tasks, four epochs over all tasks); the paper's choice is kept, and holds for all rows with a convolution.

Deviation: at most 1,000 training and 200 validation rows of a task that is no target are used (drawn by its
name), for the sentence vectors of all reviews would take longer than all else. Models over all tasks see
each row 20 times at the most, not 60; the best epoch by validation rows is kept as everywhere.

Deviation: the targets have a tenth of the paper's training rows; figures can be compared in shape, not in
height.
"""

from __future__ import annotations

from typing import Literal

from benchmarks.paper.plan import Plan, paper_multitask
from benchmarks.paper.protocol import main
from benchmarks.paper.sets import load_amazon
from robusttc.models import TrainingSettings

NAME = "amazon-mtl"
EPOCHS = 20
EMBEDDINGS: Literal["pretrained", "random"] = "random"


def make_plan(quick: bool) -> Plan:
    """Say what the table runs."""
    small = TrainingSettings(epochs=2 if quick else EPOCHS, min_steps=1 if quick else 200)
    return Plan(
        name=NAME,
        setting="quick" if quick else "full",
        data=load_amazon(quick=quick),
        learning=("multitask",),
        numbers=(2, "auto") if quick else (5, 10, "auto"),
        default_numbers=("auto",) if quick else (5, 10, "auto"),
        control=2 if quick else 10,
        asap=(2,) if quick else (5, 10),
        single=small.replace(embeddings=EMBEDDINGS),
        frozen_single=small,
        multitask=paper_multitask(quick=quick, embeddings=EMBEDDINGS, epochs=EPOCHS),
    )


if __name__ == "__main__":
    main(NAME, make_plan, __doc__)
