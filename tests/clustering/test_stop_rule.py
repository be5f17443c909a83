"""The stop rule: it stops where more scores would not help, and not before structure can show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_scores import planted_scores

from robusttc.clustering import StopRule
from robusttc.transfer import TransferScores, choose_pairs, round_sizes


def cut_rounds(scores: TransferScores, seed: int = 0) -> list[TransferScores]:
    """Part the scores of all pairs into the rounds in which they would be measured."""
    n = scores.n_tasks
    rounds: list[TransferScores] = []
    before = np.zeros((n, n), dtype=np.bool_)
    for size in round_sizes(n):
        so_far = np.zeros((n, n), dtype=np.bool_)
        so_far[choose_pairs(scores.task_names, size, random_state=seed).entries()] = True
        new = (so_far & ~before)[scores.source, scores.target]
        columns: dict[str, Any] = {name: column[new] for name, column in scores.columns.items()}
        rounds.append(TransferScores(scores.task_names, **columns, kind=scores.kind))
        before = so_far
    return rounds


def decide(rule: StopRule, rounds: list[TransferScores]) -> int:
    """Give the number of rounds that are measured."""
    for number in range(1, len(rounds)):
        if rule(rounds[:number]):
            return number
    return len(rounds)


def share(rounds: list[TransferScores], n_rounds: int) -> float:
    return sum(map(len, rounds[:n_rounds])) / sum(map(len, rounds))


@pytest.mark.parametrize("seed", range(3))
def test_clear_groups_are_found_from_some_of_the_scores(seed: int) -> None:
    rounds = cut_rounds(planted_scores(120, 3, seed=seed).scores, seed)
    rule = StopRule()
    n_rounds = decide(rule, rounds)
    assert rule.stopped
    assert share(rounds, n_rounds) < 0.75
    # It went on for as long as there was a gain.
    assert all(gain >= rule.min_gain for gain in rule.gains[:-1])
    assert rule.gains[0] > rule.min_gain > rule.gains[-1]
    assert rule.explained[-1] > 0.6


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_not_measured_to_the_end(seed: int) -> None:
    rounds = cut_rounds(planted_scores(160, 4, gain=0.0, seed=seed).scores, seed)
    rule = StopRule()
    assert share(rounds, decide(rule, rounds)) < 0.7
    assert abs(rule.explained[-1]) < 0.05


@pytest.mark.parametrize("seed", range(2))
def test_it_does_not_stop_before_groups_can_show(seed: int) -> None:
    # Of twelve groups nothing shows with twenty partners a task, and much with eighty.
    rounds = cut_rounds(planted_scores(160, 12, seed=seed).scores, seed)
    rule = StopRule()
    decide(rule, rounds)
    assert rule.gains[0] < rule.min_gain
    assert rule.explained[-1] > 0.2


def test_a_decision_depends_on_the_scores_alone() -> None:
    rounds = cut_rounds(planted_scores(60, 3).scores)
    one, other = StopRule(), StopRule()
    one_by_one = [one(rounds[:number]) for number in range(1, len(rounds) + 1)]
    # As after a restart, or asked about one round only.
    assert other(rounds) == one_by_one[-1]
    assert other.gains[-1] == one.gains[-1]
    again = StopRule()
    assert [again(rounds[:number]) for number in range(1, len(rounds) + 1)] == one_by_one
    assert again == one


def test_the_unit_of_the_scores_does_not_matter() -> None:
    scores = planted_scores(60, 3).scores
    level = np.random.default_rng(0).normal(size=60)
    moved = TransferScores(
        scores.task_names,
        source=scores.source,
        target=scores.target,
        score=7 * scores.score + level[scores.target],
        kind=scores.kind,
    )
    one, other = StopRule(), StopRule()
    one(cut_rounds(scores)[:4])
    other(cut_rounds(moved)[:4])
    assert one.explained == pytest.approx(other.explained, abs=1e-6)


def test_no_gain_is_needed_with_a_low_bound_and_a_high_one_always_stops() -> None:
    rounds = cut_rounds(planted_scores(60, 3).scores)
    assert decide(StopRule(min_gain=-np.inf), rounds) == len(rounds)
    high = StopRule(min_gain=np.inf)
    assert decide(high, rounds) < len(rounds)
    saved = high.summary(600, 1000)
    assert saved is not None
    assert saved["sentence"].startswith("Measured 600 of 1,000 scores: ")
    assert "(40 % saved)" in saved["sentence"]
    assert StopRule().summary(600, 1000) is None


def test_scores_without_any_difference_are_measured_to_the_end() -> None:
    scores = planted_scores(60, 3).scores
    flat = TransferScores(
        scores.task_names,
        source=scores.source,
        target=scores.target,
        score=np.ones(len(scores)),
        kind=scores.kind,
    )
    rounds = cut_rounds(flat)
    assert decide(StopRule(), rounds) == len(rounds)
