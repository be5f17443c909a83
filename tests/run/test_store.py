"""The contract of the store of unfinished work: durable, compared, checked row by row."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from robusttc.errors import StoreError, UsageError
from robusttc.jobs import Job, Outcome, Result, Runner, pack, unpack
from robusttc.run.store import JobStore, StageCost

KEYS = (
    "transfer/acme",
    "transfer/größe/ß",
    "transfer/tab\tnew\nline",
    "transfer/quote'\"%_",
    "transfer/東京",
)


def make(number: int) -> Result:
    return Result({"number": number}, {"array": np.random.default_rng(number).normal(size=7 + 300 * number)})


def commit(store: JobStore, key: str, result: Result, *, stage: str = "transfer", cost: float = 0.25) -> None:
    done = Outcome(key, "done", pack(result), seconds=0.5, cpu_seconds=cost, peak_bytes=1000)
    store.commit(stage, [(done, result)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs-0001.sqlite"


def fill(path: Path) -> dict[str, bytes]:
    with JobStore(path) as store:
        for number, key in enumerate(KEYS):
            commit(store, key, make(number))
        store.record_failure("fewshot", "fewshot/x", "ValueError: no", ["acme", "東京"], is_last=True)
        store.set_fact("identity", {"seed": 0, "tasks": ["acme"]})
        return store.find(KEYS)


def test_what_is_stored_is_there_in_the_next_process(path: Path) -> None:
    stored = fill(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with JobStore(path) as store:
        assert store.find([*KEYS, "other"]) == stored
        for number, key in enumerate(KEYS):
            found, expected = unpack(stored[key]), make(number)
            assert found.values == expected.values
            assert found.arrays["array"].tobytes() == expected.arrays["array"].tobytes()
        assert store.fact("identity") == {"seed": 0, "tasks": ["acme"]}
        assert store.fact("other", 3) == 3
        assert [(job.key, job.error, job.tasks) for job in store.quarantined()] == [
            ("fewshot/x", "ValueError: no", ("acme", "東京"))
        ]


def test_many_keys_are_found_at_once(path: Path) -> None:
    with JobStore(path) as store:
        done = [(Outcome(f"a/{n}", "done", pack(Result({"n": n}))), Result({"n": n})) for n in range(2500)]
        store.commit("a", done)
        assert len(store.find([f"a/{n}" for n in range(5000)])) == 2500


def test_a_job_gives_the_same_bytes_or_an_error(path: Path) -> None:
    with JobStore(path) as store:
        commit(store, "a/1", make(1))
        commit(store, "a/1", make(1))
        other = Outcome("a/2", "done", pack(make(2))), make(2)
        wrong = Outcome("a/1", "done", pack(make(3))), make(3)
        with pytest.raises(StoreError, match=r"another result than before.*'a/1'"):
            store.commit("transfer", [other, wrong])
        # All or none.
        assert store.find(["a/1", "a/2"]) == {"a/1": pack(make(1))}


def test_failures_count_until_the_job_is_finished(path: Path) -> None:
    with JobStore(path) as store:
        for attempt in (1, 2):
            store.record_failure("a", "a/1", f"error {attempt} \ud800", ["acme"], is_last=False)
            assert store.failures("a/1") == attempt
        assert store.quarantined_keys() == set()
    with JobStore(path) as store:
        store.record_failure("a", "a/1", "error 3", ["acme"], is_last=True)
        assert (store.failures("a/1"), store.quarantined_keys()) == (3, {"a/1"})
        store.release()
        assert (store.failures("a/1"), store.quarantined_keys()) == (0, set())
        store.record_failure("a", "a/1", "error", ["acme"], is_last=False)
        commit(store, "a/1", make(1))
        assert store.failures("a/1") == 0


def test_costs_add_up_over_restarts(path: Path) -> None:
    with JobStore(path) as store, store.timed("b"):
        commit(store, "b/1", make(1), stage="b", cost=1.0)
        commit(store, "b/1", make(1), stage="b", cost=1.0)
    with JobStore(path) as store:
        with store.timed("b"):
            store.add_cost("b", n_jobs=2, cpu_seconds=0.5, peak_bytes=2000)
            assert store.costs()[0].ended is None
        with store.timed("a"):
            pass
        first, second = store.costs()
    assert (first.stage, first.units, first.cpu_seconds, first.peak_bytes) == ("b", 3, 1.5, 2000)
    assert first.wall_seconds > 0
    assert first.started is not None
    assert first.ended is not None
    assert first.ended >= first.started
    assert (second.stage, second.units) == ("a", 0)
    assert isinstance(second, StageCost)


def overwrite(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(statement, values).rowcount == 1
    connection.commit()
    connection.close()


def test_a_damaged_result_is_computed_again(path: Path) -> None:
    stored = fill(path)
    overwrite(path, "UPDATE results SET content = ? WHERE key = ?", stored[KEYS[1]], KEYS[0])
    with JobStore(path) as store:
        runner = Runner(store=store)
        jobs = [Job(key, remake, number) for number, key in enumerate(KEYS)]
        ran: list[str] = []
        assert KEYS[0] not in store.find(KEYS)
        runner.run("transfer", jobs, on_result=lambda job, _: ran.append(job.key))
        assert store.find(KEYS) == stored


def remake(_shared: object, number: int) -> Result:
    return make(number)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE failures SET error = 'other' WHERE key = 'fewshot/x'", "failure of job 'fewshot/x'"),
        ("UPDATE facts SET value = '{}' WHERE name = 'identity'", "fact 'identity'"),
    ],
)
def test_a_damaged_failure_or_fact_is_named(path: Path, statement: str, named: str) -> None:
    fill(path)
    overwrite(path, statement)
    with JobStore(path) as store, pytest.raises(StoreError, match=rf"{named}.*[Dd]elete this file") as caught:
        _ = store.quarantined(), store.fact("identity")
    assert caught.value.exit_code == 5
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_an_error_or_changes_nothing(path: Path, seed: int) -> None:
    stored = fill(path)
    content = path.read_bytes()
    generator = np.random.default_rng(seed)
    n_errors = 0
    for place in generator.integers(0, len(content), 40).tolist():
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        try:
            with JobStore(path) as store:
                found = store.find(KEYS)
                assert all(stored[key] == value for key, value in found.items())
                for number, key in enumerate(KEYS):
                    commit(store, key, make(number))
                assert store.find(KEYS) == stored
                assert store.fact("identity", {"seed": 0, "tasks": ["acme"]}) == {
                    "seed": 0,
                    "tasks": ["acme"],
                }
        except StoreError as error:
            n_errors += str(path) in str(error) or pytest.fail(str(error))
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
    assert n_errors < 40


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be one" * 100])
def test_a_file_that_is_no_store(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    if not content:  # what a process leaves that is killed in its first moment
        JobStore(path).close()
        return
    with pytest.raises(StoreError, match="not a database"):
        JobStore(path)


def test_databases_of_others_and_of_newer_versions_are_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        JobStore(other)
    fill(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="got version 99"):
        JobStore(path)


def test_a_closed_store_is_the_fault_of_the_caller(path: Path) -> None:
    store = JobStore(path)
    store.close()
    with pytest.raises(UsageError, match="cannot be used"):
        store.find(["a"])
