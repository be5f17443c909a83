"""Whether clusters pay: the verdict on planted differences, and its sentence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from robusttc.errors import DataError, UsageError
from robusttc.models import Verdict, make_verdict


def draw(
    seed: int, gain: float, random_gain: float, n_tasks: int = 60
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    shared = generator.uniform(0.6, 0.95, n_tasks)
    noise = generator.normal(0, 0.02, (2, n_tasks))
    return shared + gain + noise[0], shared, shared + random_gain + noise[1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("setting", ["multitask", "fewshot"])
def test_clusters_that_pay_serve(seed: int, setting: str) -> None:
    cluster, shared, random = draw(seed, 0.03, -0.005)
    verdict = make_verdict(setting, cluster=cluster, shared=shared, random=random)
    assert verdict.clusters_help
    assert verdict.over_shared.mean == pytest.approx((cluster - shared).mean())
    assert verdict.over_random is not None
    assert verdict.over_random.mean == pytest.approx((cluster - random).mean())
    assert verdict.sentence.startswith("Clusters help these tasks by ")
    assert verdict.sentence.endswith("; they serve.")
    assert verdict.n_tasks == 60


@pytest.mark.parametrize("seed", range(8))
def test_clusters_no_better_than_chance_do_not_serve(seed: int) -> None:
    cluster, shared, _ = draw(seed, 0.03, 0.0)
    verdict = make_verdict("multitask", cluster=cluster, shared=shared, random=cluster + 0.0)
    assert verdict.over_shared.above_zero
    assert not verdict.clusters_help
    assert "more than chance" in verdict.sentence
    assert verdict.sentence.endswith("the shared model serves.")


def test_no_gain_and_harm() -> None:
    # Half of the tasks gain what the other half loses.
    shared = np.linspace(0.5, 0.9, 40)
    even = np.where(np.arange(40) % 2, 0.02, -0.02)
    nothing = make_verdict("multitask", cluster=shared + even, shared=shared)
    assert not nothing.clusters_help
    assert nothing.sentence.startswith("Clusters do not help these tasks: +0.0 points [-0.")
    harm = make_verdict("multitask", cluster=shared - 0.02 + even / 10, shared=shared, random=shared)
    assert harm.sentence.startswith("Clusters harm these tasks: -2.0 points [")
    assert "over random clusters of the same sizes (multi-task, 40 tasks)" in harm.sentence


def test_seldom_wrong_where_there_is_nothing() -> None:
    verdicts = []
    for seed in range(100):
        cluster, shared, random = draw(seed, 0.0, 0.0)
        verdicts.append(make_verdict("fewshot", cluster=cluster, shared=shared, random=random).clusters_help)
    assert sum(verdicts) <= 6


def test_several_draws_of_random_clusters_are_averaged() -> None:
    cluster, shared, random = draw(0, 0.03, 0.0)
    draws = np.stack([random - 0.01, random + 0.01])
    one = make_verdict("multitask", cluster=cluster, shared=shared, random=random)
    two = make_verdict("multitask", cluster=cluster, shared=shared, random=draws)
    assert one.over_random is not None
    assert two.over_random is not None
    assert one.over_random.low == pytest.approx(two.over_random.low)


def test_too_few_tasks_and_no_clusters() -> None:
    few = make_verdict("fewshot", cluster=[0.9] * 5, shared=[0.5] * 5)
    assert not few.clusters_help
    assert few.sentence.startswith("Too few tasks to tell whether clusters help: +40.0 points [40.0, 40.0]")
    one = make_verdict("fewshot", cluster=[0.9], shared=[0.5], random=[[0.4], [0.6]])
    assert "+40.0 points [no interval] over the shared model" in one.sentence
    assert "(few-shot, 1 task)" in one.sentence
    none = make_verdict("multitask", cluster=None, shared=[0.5] * 40)
    assert not none.clusters_help
    assert none.n_tasks == 40
    assert none.sentence == (
        "There are no clusters to tell apart (multi-task, 40 tasks); the shared model serves."
    )


@pytest.mark.parametrize("n_tasks", [1, 5, 60])
def test_verdicts_go_through_json(n_tasks: int) -> None:
    cluster, shared, random = draw(0, 0.03, 0.0, n_tasks)
    for verdict in (
        make_verdict("multitask", cluster=cluster, shared=shared, random=random),
        make_verdict("fewshot", cluster=cluster, shared=shared),
        make_verdict("fewshot", cluster=None, shared=shared),
    ):
        assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict(), allow_nan=False))) == verdict


@pytest.mark.parametrize("change", [{"setting": 3}, {"over_shared": None}, {"clusters_help": "yes"}])
def test_damaged_verdicts_are_refused(change: Any) -> None:
    good = make_verdict("fewshot", cluster=[0.5] * 6, shared=[0.4] * 6).to_dict()
    with pytest.raises(DataError, match=f"{next(iter(change))}: a verdict cannot be read"):
        Verdict.from_dict({**good, **change})
    with pytest.raises(UsageError, match="setting cannot be used"):
        Verdict.from_dict({**good, "setting": "zeroshot"})


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match=r"'mtl'.*'multitask' or 'fewshot'"):
        make_verdict("mtl", cluster=[0.5], shared=[0.5])
    with pytest.raises(UsageError, match="not of the same tasks"):
        make_verdict("fewshot", cluster=[0.5], shared=[0.5, 0.6])
    with pytest.raises(UsageError, match="not of the same tasks"):
        make_verdict("fewshot", cluster=[0.5], shared=[0.5], random=[0.5, 0.6])
    with pytest.raises(DataError, match="not finite"):
        make_verdict("fewshot", cluster=[float("nan")], shared=[0.5])
    with pytest.raises(DataError, match="an accuracy"):
        make_verdict("fewshot", cluster=[0.5], shared=[0.5], random=np.zeros((2, 1, 1)))
