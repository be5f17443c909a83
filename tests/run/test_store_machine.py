"""The store against a dictionary: any operations in any order, with crashes and restarts between them."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from small_run import IDENTITY, NAMES, make_scores, quick_folder

from robusttc.errors import StoreError, UsageError
from robusttc.run.records import FinishedUnit
from robusttc.run.store import RunStore

# Few keys, so that they meet again; some of them have scores.
NUMBERS = st.integers(0, len(NAMES) - 1)
STAGES = st.sampled_from(["transfer", "cluster"])
CONTENTS = st.binary(max_size=40) | st.integers(3000, 20_000).map(lambda size: b"\x07" * size)


def make_unit(number: int, stage: str, content: bytes, has_scores: bool) -> FinishedUnit:
    scores = make_scores(number) if has_scores else None
    return FinishedUnit(stage=stage, key=f"unit/{NAMES[number]}", content=content, scores=scores)


UNITS = st.builds(make_unit, NUMBERS, STAGES, CONTENTS, st.booleans())


class StoreMachine(RuleBasedStateMachine):
    """A store, and beside it what it must say."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.root = self.stack.enter_context(quick_folder())
        self.n_folders = 0
        self.store: RunStore | None = None
        self.units: dict[str, FinishedUnit] = {}
        self.failures: dict[str, list[Any]] = {}
        self.values: dict[str, Any] = {}
        self.n_spans: dict[str, int] = {}
        self.begun: set[str] = set()

    @property
    def open_store(self) -> RunStore:
        assert self.store is not None
        return self.store

    @initialize()
    def create(self) -> None:
        self.store = RunStore.create(self.root / "0", IDENTITY)

    @rule(units=st.lists(UNITS, max_size=4))
    def finish_many(self, units: list[FinishedUnit]) -> None:
        after = dict(self.units)
        for unit in units:
            known = after.setdefault(unit.key, unit)
            if (known.stage, known.content, known.scores is None) != (
                unit.stage,
                unit.content,
                unit.scores is None,
            ):
                with pytest.raises(StoreError, match="another result than before"):
                    self.open_store.finish_many(units)
                return
        self.open_store.finish_many(units)
        for key in after.keys() - self.units.keys():
            self.failures.pop(key, None)
        self.units = after

    @rule(number=NUMBERS)
    def finish_again(self, number: int) -> None:
        unit = self.units.get(f"unit/{NAMES[number]}")
        if unit is not None:
            self.open_store.finish(unit.stage, unit.key, unit.content, scores=unit.scores)

    @rule(number=NUMBERS, is_last=st.booleans(), error=st.text(max_size=5))
    def fail(self, number: int, is_last: bool, error: str) -> None:
        key = f"unit/{NAMES[number]}"
        call = self.open_store.quarantine if is_last else self.open_store.record_failure
        if key in self.units:
            with pytest.raises(UsageError, match="cannot fail"):
                call("transfer", key, error, [NAMES[number]])
            return
        call("transfer", key, error, [NAMES[number]])
        times, _, is_out = self.failures.get(key, [0, "", False])
        self.failures[key] = [times + 1, error, is_out or is_last]

    @rule()
    def release(self) -> None:
        out = [key for key, (_, _, is_out) in self.failures.items() if is_out]
        assert self.open_store.release_quarantined() == len(out)
        for key in out:
            del self.failures[key]

    @rule(
        name=st.sampled_from("abc"),
        value=st.none() | st.integers() | st.lists(st.text(max_size=3), max_size=2),
    )
    def set_value(self, name: str, value: Any) -> None:
        self.open_store.set_value(name, value)
        self.values[name] = value

    @rule(stage=STAGES)
    def begin_stage(self, stage: str) -> None:
        self.open_store.begin_stage(stage, 3)
        self.begun.add(stage)
        self.n_spans[stage] = self.n_spans.get(stage, 0) + 1

    @rule(stage=STAGES)
    def end_stage(self, stage: str) -> None:
        if stage not in self.begun:
            with pytest.raises(UsageError, match="not begun"):
                self.open_store.end_stage(stage)
            return
        self.open_store.end_stage(stage)
        self.begun.discard(stage)

    @rule()
    def reopen(self) -> None:
        self.open_store.close()
        self.store = RunStore.open(self.open_store.folder, identity=IDENTITY)
        self.begun.clear()

    @rule(with_index=st.booleans())
    def crash(self, with_index: bool) -> None:
        """Go on with the files as they are at this moment, as after a kill."""
        self.n_folders += 1
        place = self.root / str(self.n_folders)
        place.mkdir()
        for path in self.open_store.folder.iterdir():
            if with_index or not path.name.endswith("-shm"):
                shutil.copyfile(path, place / path.name)
        self.open_store.close()
        self.store = RunStore.open(place, identity=IDENTITY)
        self.begun.clear()

    @rule()
    def check(self) -> None:
        self.open_store.check()

    @rule()
    def look(self) -> None:
        """A reader sees what the writer has committed."""
        with RunStore.open(self.open_store.folder, read_only=True) as reader:
            self.compare(reader)

    @invariant()
    def says_what_it_must(self) -> None:
        if self.store is not None:
            self.compare(self.store)

    def compare(self, store: RunStore) -> None:
        keys = [f"unit/{name}" for name in NAMES]
        assert store.find(keys) == {key: unit.content for key, unit in self.units.items()}
        for stage in ("transfer", "cluster"):
            assert store.finished(stage) == sum(unit.stage == stage for unit in self.units.values())
        with_scores = [unit.scores for unit in self.units.values() if unit.scores is not None]
        columns = store.scores()
        assert store.n_scores() == len(columns["score"]) == sum(len(rows) for rows in with_scores)
        assert sorted(columns["score"].tolist()) == sorted(
            score for rows in with_scores for score in rows.score
        )
        out = {key: (error, True) for key, (_, error, is_out) in self.failures.items() if is_out}
        assert {unit.key: (unit.error, True) for unit in store.quarantined()} == out
        assert all(store.failures(key) == self.failures.get(key, [0])[0] for key in keys)
        assert all(store.value(name, "nothing") == self.values.get(name, "nothing") for name in "abc")
        begun = {cost.stage: cost.started is not None for cost in store.costs()}
        assert {stage for stage, was_begun in begun.items() if was_begun} == set(self.n_spans)

    def teardown(self) -> None:
        if self.store is not None:
            self.store.close()
        self.stack.close()


StoreMachine.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestStoreMachine = StoreMachine.TestCase
