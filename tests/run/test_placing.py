"""New tasks placed by a few scores: in their cluster, or in none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robusttc.clustering import make_planted_scores
from robusttc.run.later.comparing_new import find_likeness
from robusttc.run.later.partners import choose_partners, count_partners, typical_first
from robusttc.run.later.placing import Placer
from robusttc.transfer import TransferScores


def plant(n: int, k: int, seed: int, **how: float) -> tuple[list[str], np.ndarray, TransferScores]:
    names = [f"task {number:03d}" for number in range(n)]
    labels = np.arange(n) % k
    return names, labels, make_planted_scores(names, labels, random_state=seed, **how)


def make_placer(scores: TransferScores, known: list[str], labels: np.ndarray) -> Placer:
    own = scores.subset(known)
    likeness = find_likeness(Path("nowhere"), own)
    return Placer(own, labels, choose_partners(tuple(known), likeness, labels))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n", "k"), [(16, 4), (60, 6), (120, 8)])
def test_members_come_home_and_strangers_do_not(n: int, k: int, seed: int) -> None:
    names, labels, scores = plant(n, k, seed)
    # The last task of every cluster but the last is new, and so is that cluster as a whole.
    strange = [name for name, label in zip(names, labels, strict=True) if label == k - 1]
    new = [name for name in names[n - k :] if name not in strange]
    known = [name for name in names if name not in {*strange, *new}]
    label_of = dict(zip(names, labels.tolist(), strict=True))
    placer = make_placer(scores, known, np.array([label_of[name] for name in known]))
    placed = {name: placer.place(scores, name) for name in new}
    assert {name: one.cluster for name, one in placed.items()} == {name: label_of[name] for name in new}
    assert min(one.confidence for one in placed.values()) > 0.5
    out = [placer.place(scores, name).out_of_cluster for name in strange]
    assert np.mean(out) >= 0.9
    assert placer.share_found is not None
    assert placer.share_found > 0.9
    alike = placer.find_alike(scores, tuple(strange))
    assert alike == [tuple(strange)]


@pytest.mark.parametrize("seed", range(3))
def test_confidence_is_what_it_says(seed: int) -> None:
    names, labels, scores = plant(240, 6, seed, gain=0.035, noise=0.06)
    known, new = names[:180], names[180:]
    placer = make_placer(scores, known, labels[:180])
    placed = [placer.place(scores, name) for name in new]
    right = np.mean([one.cluster == label for one, label in zip(placed, labels[180:], strict=True)])
    said = np.mean([max(one.probabilities.values()) for one in placed])
    assert 0.4 < right < 0.98  # hard enough to be wrong now and then
    assert abs(right - said) < 0.2


def test_order_of_tasks_does_not_matter() -> None:
    names, labels, scores = plant(40, 4, 0, noise=0.08)
    label_of = dict(zip(names, labels.tolist(), strict=True))
    turned = names[:36][::-1]
    one = make_placer(scores, names[:36], labels[:36])
    other = make_placer(scores, turned, np.array([label_of[name] for name in turned]))
    for name in names[36:]:
        first, second = one.place(scores, name), other.place(scores, name)
        assert first.cluster == second.cluster
        assert first.confidence == pytest.approx(second.confidence)


def test_a_task_without_scores_and_a_run_of_one_cluster() -> None:
    names, labels, scores = plant(12, 1, 0)
    placer = make_placer(scores, names[:11], labels[:11])
    assert placer.place(scores, names[11]).cluster == 0  # nothing says that it fits none
    assert placer.place(scores, "nobody").cluster == -1


def test_partners_are_typical_and_few() -> None:
    assert sum(count_partners(1491, dict.fromkeys(range(10), 150)).values()) == 54  # log(1491)^2
    assert count_partners(12, {0: 4, 1: 4, 2: 4}) == {0: 3, 1: 3, 2: 3}
    assert count_partners(5, {0: 1, 1: 1}) == {0: 1, 1: 1}
    likeness = np.array(
        [[1.0, 0.1, 0.2, 0.0], [0.1, 1.0, 0.9, 0.0], [0.2, 0.9, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    )
    assert typical_first(likeness, np.array([0, 0, 0, -1])) == {0: [2, 1, 0]}
