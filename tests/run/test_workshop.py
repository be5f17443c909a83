"""The workshop of a run, with a real store; units are done in this process, in an order of our choosing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.errors import StoreError, UsageError
from robusttc.progress import ProgressEvent
from robusttc.random import numpy_generator
from robusttc.run.identity import Identity
from robusttc.run.score_rows import ScoreRows
from robusttc.run.stopping import Stopped
from robusttc.run.store import RunStore
from robusttc.run.workshop import DEFAULT_TIME_LIMIT, StoredWorkshop
from robusttc.work.outcomes import Outcome
from robusttc.work.packing import pack
from robusttc.work.performing import outcome_of, perform
from robusttc.work.units import HERE, Handle, InPlace, Payload, Unit

NAMES = ("acme", "blue", "coral", "delta")


class Desk:
    """Does units here, in a random order, and keeps a record."""

    def __init__(self, *, n_workers: int = 2, seed: int = 0, at_once: int = 1) -> None:
        self.n_workers = n_workers
        self.random = np.random.default_rng(seed)
        self.at_once = at_once
        self.under_way: list[tuple[int, Unit, Any]] = []
        self.tried: list[str] = []
        self.limits: list[float] = []
        self.n_put = 0
        self.n_dropped = 0
        self.most_under_way = 0
        self.is_closed = False
        # What happens instead of the unit, by key.
        self.fate: dict[str, list[Outcome]] = {}
        self.before_wait: Callable[[], None] = lambda: None

    def put(self, data: Any) -> Handle:
        self.n_put += 1
        return InPlace(data)

    def drop(self, handle: Handle) -> None:
        assert isinstance(handle, InPlace)
        self.n_dropped += 1

    def submit(self, ticket: int, unit: Unit, data: Handle | None, time_limit: float) -> None:
        self.under_way.append((ticket, unit, data.data if isinstance(data, InPlace) else None))
        self.most_under_way = max(self.most_under_way, len(self.under_way))
        self.limits.append(time_limit)

    def wait(self, timeout: float) -> list[Outcome]:
        assert 0.0 <= timeout <= 0.2
        self.before_wait()
        outcomes = []
        for _ in range(min(self.at_once, len(self.under_way))):
            place = int(self.random.integers(len(self.under_way)))
            ticket, unit, data = self.under_way.pop(place)
            self.tried.append(unit.key)
            if self.fate.get(unit.key):
                fate = self.fate[unit.key].pop(0)
                outcomes.append(Outcome(ticket, fate.kind, fate.content, fate.error))
            else:
                outcomes.append(outcome_of(ticket, perform(unit.work, unit.argument, data)))
        return outcomes

    def close(self) -> None:
        self.is_closed = True


def draw(data: int, name: str) -> Payload:
    values = numpy_generator(data, "draw", [name]).normal(size=5)
    return Payload({"name": name}, {"values": values})


def complain(_data: Any, name: str) -> Payload:
    raise ValueError(f"no {name}")


def make_units(n_units: int = 20, **changes: Any) -> list[Unit]:
    return [
        Unit(f"draw/{number}", draw, f"name {number}", tasks=(NAMES[number % 4],), **changes)
        for number in range(n_units)
    ]


def contents(results: list[Payload | None]) -> list[bytes | None]:
    return [None if result is None else pack(result) for result in results]


def expected(units: list[Unit]) -> list[bytes | None]:
    return contents(HERE.do("draw", units, HERE.put(7)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.create(tmp_path / "run", Identity({"seed": 0}, dict.fromkeys(NAMES, "0"), {})) as store:
        yield store


@pytest.mark.parametrize("seed", range(4))
def test_results_are_those_of_here_and_are_stored(seed: int, store: RunStore) -> None:
    units = make_units()
    desk = Desk(n_workers=1 + seed, seed=seed, at_once=1 + seed)
    workshop = StoredWorkshop(store, desk)
    handle = workshop.put(7)
    assert contents(workshop.do("draw", units, handle)) == expected(units)
    assert store.find([unit.key for unit in units]) == {
        unit.key: content for unit, content in zip(units, expected(units), strict=True)
    }
    assert store.finished("draw") == len(units)
    assert desk.most_under_way == 2 * desk.n_workers
    assert set(desk.limits) == {DEFAULT_TIME_LIMIT}
    workshop.drop(handle)
    assert (desk.n_put, desk.n_dropped, desk.is_closed) == (1, 1, False)


def test_finished_units_are_not_done_again(store: RunStore) -> None:
    units = make_units(200)
    StoredWorkshop(store, Desk()).do("draw", units[::2], make_handle(store))
    desk = Desk()
    workshop = StoredWorkshop(store, desk)
    events: list[ProgressEvent] = []
    done: list[str] = []
    handle = workshop.put(7)
    results = workshop.do(
        "draw",
        units,
        handle,
        when_done=lambda unit, _: done.append(unit.key),
        progress=events.append,
        noun="names",
    )
    assert contents(results) == expected(units)
    assert sorted(desk.tried) == sorted(unit.key for unit in units[1::2])
    # Those from the store count and are told of like all others.
    assert sorted(done) == sorted(unit.key for unit in units)
    assert [event.done for event in events] == list(range(201))
    assert {(event.stage, event.total, event.unit) for event in events} == {("draw", 200, "names")}
    assert events[1].detail in NAMES
    idle = Desk()
    again = StoredWorkshop(store, idle)
    second = again.put(7)
    assert contents(again.do("draw", units, second)) == expected(units)
    again.drop(second)
    # In a finished run, not even the data is given out.
    assert (idle.tried, idle.n_put, idle.n_dropped) == ([], 0, 0)


def make_handle(store: RunStore) -> Handle:
    return StoredWorkshop(store, Desk()).put(7)


def test_units_that_finish_together_are_committed_together_and_before_they_count(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = store.finish_many

    def count(units: Any) -> None:
        sizes.append(len(units))
        real(units)

    monkeypatch.setattr(store, "finish_many", count)
    seen: list[bool] = []
    workshop = StoredWorkshop(store, Desk(n_workers=3, at_once=6))
    units = make_units(18)
    workshop.do(
        "draw",
        units,
        workshop.put(7),
        when_done=lambda unit, _: seen.append(unit.key in store.find([unit.key])),
        progress=lambda event: seen.append(event.done <= store.finished("draw")),
    )
    assert sizes == [6, 6, 6]
    assert all(seen)
    assert len(seen) == 18 + 19


def test_what_cannot_be_committed_does_not_count(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_units: Any) -> None:
        raise StoreError("the disk is full", where="run.sqlite")

    monkeypatch.setattr(store, "finish_many", refuse)
    done: list[str] = []
    desk = Desk()
    workshop = StoredWorkshop(store, desk)
    with pytest.raises(StoreError, match="disk is full"):
        workshop.do("draw", make_units(), workshop.put(7), when_done=lambda unit, _: done.append(unit.key))
    assert done == []
    assert desk.is_closed


@pytest.mark.parametrize("kind", ["raised", "died", "hung"])
def test_a_unit_that_fails_is_tried_again_after_the_others(kind: Any, store: RunStore) -> None:
    units = make_units(12)
    desk = Desk(n_workers=1)
    desk.fate["draw/0"] = [Outcome(0, kind, error="bad luck") for _ in range(2)]
    workshop = StoredWorkshop(store, desk)
    assert contents(workshop.do("draw", units, workshop.put(7))) == expected(units)
    places = [place for place, key in enumerate(desk.tried) if key == "draw/0"]
    assert len(places) == 3
    assert places[1] >= 11
    assert store.quarantined() == []
    assert store.failures("draw/0") == 0


def test_a_unit_that_fails_every_time_is_left_out(store: RunStore) -> None:
    units = make_units(6)
    units[2] = Unit("draw/2", complain, "such name", tasks=("blue", "coral"))
    desk = Desk()
    workshop = StoredWorkshop(store, desk)
    done: list[str] = []
    events: list[ProgressEvent] = []
    results = workshop.do(
        "draw",
        units,
        workshop.put(7),
        when_done=lambda unit, _: done.append(unit.key),
        progress=events.append,
    )
    good = [unit for number, unit in enumerate(units) if number != 2]
    assert results[2] is None
    assert [content for content in contents(results) if content is not None] == expected(good)
    assert desk.tried.count("draw/2") == 3
    assert "draw/2" not in done
    assert events[-1].done == 6
    (left_out,) = store.quarantined()
    assert (left_out.stage, left_out.key, left_out.tasks) == ("draw", "draw/2", ("blue", "coral"))
    assert left_out.error.startswith("ValueError: no such name (test_workshop.py:")
    # It stays left out until somebody wants it tried again.
    desk = Desk()
    again = StoredWorkshop(store, desk)
    assert again.do("draw", units, again.put(7))[2] is None
    assert desk.tried == []
    assert store.release_quarantined() == 1
    assert None not in again.do("draw", make_units(6), again.put(7))
    assert desk.tried == ["draw/2"]
    assert store.quarantined() == []


def test_failures_before_a_restart_count(store: RunStore) -> None:
    store.record_failure("draw", "draw/0", "died", ["acme"])
    desk = Desk()
    desk.fate["draw/0"] = [Outcome(0, "died", error="died again") for _ in range(5)]
    StoredWorkshop(store, desk).do("draw", make_units(1), None)
    assert desk.tried == ["draw/0"] * 2
    assert store.quarantined()[0].error == "died again"


def test_number_of_tries_can_be_chosen(store: RunStore) -> None:
    desk = Desk()
    assert StoredWorkshop(store, desk, tries=1).do("draw", [Unit("x", complain, "x")]) == [None]
    assert desk.tried == ["x"]
    with pytest.raises(UsageError, match="tries"):
        StoredWorkshop(store, desk, tries=0)


def test_units_that_are_not_kept_are_done_again(store: RunStore) -> None:
    units = make_units(5, keep=False)
    told: list[tuple[Unit, Payload]] = []
    for _ in range(2):
        desk = Desk()
        desk.fate["draw/1"] = [Outcome(0, "died", error="bad luck") for _ in range(2)]
        workshop = StoredWorkshop(store, desk)
        results = workshop.do("draw", units, workshop.put(7), when_done=lambda *both: told.append(both))
        assert contents(results) == expected(units)
        assert len(desk.tried) == 7
    assert sorted(unit.key for unit, _ in told) == sorted(2 * [unit.key for unit in units])
    assert store.finished("draw") == 0
    assert store.quarantined() == []
    store.begin_stage("draw", 5)
    assert [cost.units for cost in store.costs()] == [10]
    desk = Desk()
    desk.fate["draw/1"] = [Outcome(0, "died", error="bad luck") for _ in range(3)]
    workshop = StoredWorkshop(store, desk)
    assert workshop.do("draw", units, workshop.put(7))[1] is None
    assert [unit.key for unit in store.quarantined()] == ["draw/1"]


def scores_of(unit: Unit, payload: Payload) -> ScoreRows | None:
    if unit.argument == "name 1":
        raise KeyError("targets")
    others = [name for name in NAMES if name != unit.tasks[0]]
    return ScoreRows(unit.tasks[0], others, payload.arrays["values"][:3])


def test_scores_are_stored_with_their_unit(store: RunStore) -> None:
    units = make_units(4)
    workshop = StoredWorkshop(store, Desk(at_once=4), score_rows=scores_of)
    results = workshop.do("transfer", units, workshop.put(7))
    # A result that makes no sense is a failure of its unit, and of no other.
    assert results[1] is None
    assert store.n_scores() == 9
    assert [unit.error.split(" (")[0] for unit in store.quarantined()] == ["KeyError: 'targets'"]
    scores = store.scores()
    first = results[0]
    assert first is not None
    np.testing.assert_array_equal(scores["score"][scores["source"] == 0], first.arrays["values"][:3])


def test_time_limits_by_stage(store: RunStore) -> None:
    desk = Desk()
    workshop = StoredWorkshop(store, desk, time_limit={"transfer": 5.0})
    workshop.do("transfer", [Unit("transfer/a", draw, "a")], workshop.put(1))
    workshop.do("cluster", [Unit("cluster/all", draw, "a")], workshop.put(1))
    assert desk.limits == [5.0, DEFAULT_TIME_LIMIT]
    StoredWorkshop(store, desk, time_limit=3.0).do("x", [Unit("x", complain, "x")])
    assert desk.limits[-1] == 3.0


def test_stop_keeps_what_is_finished(store: RunStore) -> None:
    units = make_units(20)
    desk = Desk(n_workers=2)
    stop = False

    def ask() -> bool:
        return stop

    def note() -> None:
        nonlocal stop
        stop = len(desk.tried) >= 5

    desk.before_wait = note
    workshop = StoredWorkshop(store, desk, stop=ask)
    with pytest.raises(Stopped):
        workshop.do("draw", units, workshop.put(7))
    assert desk.is_closed
    assert store.finished("draw") == len(desk.tried)
    assert 5 <= len(desk.tried) <= 7
    with pytest.raises(Stopped):  # asked before anything is given out
        StoredWorkshop(store, Desk(), stop=lambda: True).do("draw", units, None)
    resumed = StoredWorkshop(store, Desk())
    assert contents(resumed.do("draw", units, resumed.put(7))) == expected(units)


def test_that_workers_die_of_a_stop_is_no_failure(store: RunStore) -> None:
    desk = Desk(n_workers=1, at_once=2)
    desk.fate["draw/0"] = [Outcome(0, "died", error="by signal 15")]
    stop = False

    def signal_all() -> None:
        nonlocal stop
        stop = True

    desk.before_wait = signal_all
    workshop = StoredWorkshop(store, desk, stop=lambda: stop)
    with pytest.raises(Stopped):
        workshop.do("draw", make_units(3), workshop.put(7))
    assert store.failures("draw/0") == 0
    assert store.finished("draw") == 1


def test_outcomes_of_an_earlier_call_do_not_count(store: RunStore) -> None:
    desk = Desk(n_workers=2)

    def refuse(_unit: Unit, _payload: Payload) -> None:
        raise UsageError("enough")

    workshop = StoredWorkshop(store, desk)
    with pytest.raises(UsageError, match="enough"):
        workshop.do("draw", make_units(4), workshop.put(7), when_done=refuse)
    assert desk.under_way
    units = [Unit(f"other/{number}", draw, f"other {number}") for number in range(4)]
    assert contents(workshop.do("other", units, workshop.put(7))) == expected(units)
    assert store.finished("draw") == 1


def test_two_units_with_one_key_are_refused(store: RunStore) -> None:
    with pytest.raises(UsageError, match="same key; got 'draw/0'"):
        StoredWorkshop(store, Desk()).do("draw", [*make_units(3), *make_units(1)])


def test_data_of_another_workshop_is_refused(store: RunStore) -> None:
    workshop = StoredWorkshop(store, Desk())
    with pytest.raises(UsageError, match="put elsewhere"):
        workshop.do("draw", make_units(1), HERE.put(7))
    with pytest.raises(UsageError, match="put elsewhere"):
        workshop.drop(HERE.put(7))
