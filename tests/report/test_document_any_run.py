"""Whatever a run is like, its document is whole, is JSON without NaN, and has the form that is promised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_facts import make_facts, make_scores, make_summary, make_verdict, real_verdict, without_rows
from report_form import check_document

from robusttc.report.document import describe_run
from robusttc.report.facts import RunFacts
from robusttc.report.held_out import HeldOut
from robusttc.report.plain_values import as_json_value
from robusttc.run import AddedTask, Change
from robusttc.run.evaluation import TaskFigures
from robusttc.stats import mean_interval, share_interval

NAMES = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip),
    min_size=1,
    max_size=9,
    unique=True,
)


def figures_of(name: str, label: int, draw: Any) -> TaskFigures:
    """Figures with anything missing."""
    if draw(st.booleans()):
        return without_rows(name, label)
    n_rows = draw(st.integers(1, 6))
    kinds = [share_interval(draw(st.integers(0, n_rows)), n_rows) for _ in range(4)]
    shared, cluster = (kind if draw(st.booleans()) else None for kind in kinds[1:3])
    own = kinds[0] if draw(st.booleans()) else None
    gain = (
        None
        if own is None
        else mean_interval([draw(st.sampled_from([-1.0, 0.0, 1.0])) for _ in range(n_rows)])
    )
    return TaskFigures(name, label, n_rows, own, shared, cluster, kinds[3], gain)


@st.composite
def any_facts(draw: Any) -> RunFacts:
    """Any run: few tasks or one, private ones, set aside, added, moved; with clusters or without."""
    names = draw(NAMES)
    partition = {name: draw(st.integers(-1, 3)) for name in names}
    role = {
        name: draw(st.sampled_from(["plain", "plain", "plain", "private", "aside", "added"]))
        for name in names
    }
    for name in names:
        if role[name] in ("private", "aside"):
            partition[name] = -1
    fitted = {name: label for name, label in partition.items() if role[name] == "plain"}
    scores = make_scores(fitted, density=draw(st.sampled_from([0.0, 0.4, 1.0])), seed=draw(st.integers(0, 5)))
    has_clusters = scores is not None and draw(st.booleans())
    if not has_clusters:
        partition = dict.fromkeys(partition, -1)
    numbers = [key for key, value in real_verdict().items() if isinstance(value, float)]
    verdict = {
        **real_verdict(),
        **{key: None for key in numbers if draw(st.booleans())},
        "supported": draw(st.booleans()),
    }
    summary = make_summary(
        clusters__verdict=verdict,
        multitask__strategy=draw(st.sampled_from(["blend", "paper"])),
        multitask__verdict=draw(st.sampled_from([None, make_verdict(0.0), make_verdict(0.0, n=0)])),
        multitask__clusters_serve=draw(st.booleans()),
        fewshot=draw(st.sampled_from([None, {"verdict": make_verdict(0.1, helps=True)}])),
        doubts=draw(st.lists(st.just("Doubtful."), max_size=1)),
    )
    added = {
        name: AddedTask(
            name, 2, partition[name], math.nan, partition[name] < 0, None, without_rows(name), 0, False
        )
        for name in names
        if role[name] == "added"
    }
    before = {name: label for name, label in partition.items() if name not in added}
    return make_facts(
        partition,
        private=[name for name in names if role[name] == "private"],
        set_aside={name: "It cannot be." for name in names if role[name] == "aside"},
        added=added,
        figures={
            name: figures_of(name, partition[name], draw)
            for name in names
            if role[name] in ("plain", "private")
        },
        scores=scores if draw(st.booleans()) or has_clusters else None,
        has_clusters=has_clusters,
        history=(Change("add", tuple(added), "They came.", version=2),) if added else (),
        partitions={1: before, 2: partition},
        summary=summary,
        confidence={name: draw(st.floats(0, 1)) for name in names if partition[name] >= 0},
        held_out=HeldOut(
            {name: np.array([1, 0, -1], dtype=np.int8) for name in names if draw(st.booleans())}
        ),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_facts())
def test_any_run_has_a_whole_document(facts: RunFacts) -> None:
    check_document(describe_run(facts))


def test_numbers_that_json_does_not_have_are_null() -> None:
    odd = {
        "a": [np.float32(np.nan), math.inf, np.int8(3), np.bool_(True)],
        "b": {1: (None, "x")},
        "c": np.eye(1),
    }
    assert as_json_value(odd) == {"a": [None, None, 3, True], "b": {"1": [None, "x"]}, "c": [[1.0]]}
    assert as_json_value(object).startswith("<class")
