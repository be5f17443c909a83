"""Whoever is blamed in the report is of another kind: on tasks whose kinds are known."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from report_facts import make_facts, make_figures

from robusttc.report.document import find_space
from robusttc.report.harm_entries import find_harm
from robusttc.report.task_space import order_tasks
from robusttc.transfer import measure_transfer

sys.path.append(str(Path(__file__).parents[1] / "multitask"))
from planted_vectors import make_planted_vectors

N_KINDS = 4


@pytest.mark.parametrize("seed", range(3))
def test_only_tasks_of_another_kind_are_blamed(seed: int) -> None:
    # Clusters that are wrong: two kinds in each.
    planted = make_planted_vectors(12, N_KINDS, seed=seed, n_train=36)
    kind_of = dict(zip(planted.tasks.names, planted.kinds.tolist(), strict=True))
    partition = {name: kind // 2 for name, kind in kind_of.items()}
    scores = measure_transfer(planted.tasks, encoder=planted.encoder, pairs="all", random_state=0)
    figures = {name: make_figures(name, label, own=35, served=15) for name, label in partition.items()}
    facts = make_facts(partition, scores=scores, figures=figures)
    harm = find_harm(facts, find_space(facts, order_tasks(partition, {})))
    assert len(harm.tasks) == 12
    blamed = [(task.task, culprit) for task in harm.tasks for culprit, _ in task.culprits]
    assert len(blamed) > 12
    # By chance two of eleven would be of the same kind.
    assert np.mean([kind_of[task] == kind_of[culprit] for task, culprit in blamed]) < 0.05
