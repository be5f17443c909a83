"""What the store of a run promises, one promise a test."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_run import (
    ALL_UNITS,
    IDENTITY,
    NAMES,
    batches,
    do_run,
    make_scores,
    make_unit,
    other_unit,
    quick_folder,
    tell,
)

from robusttc.errors import ExitCode, StoreError, UnknownTaskError, UsageError
from robusttc.run import database
from robusttc.run.identity import Identity
from robusttc.run.records import FinishedUnit
from robusttc.run.schema import SCHEMA_VERSION
from robusttc.run.score_rows import ScoreRows
from robusttc.run.store import RunStore
from robusttc.transfer import TransferScores


def ask(folder: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(folder / "run.sqlite")
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "run.sqlite")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture(scope="module")
def finished_run() -> Iterator[Path]:
    with quick_folder() as root:
        do_run(root / "run")
        yield root / "run"


@pytest.fixture
def folder(tmp_path: Path, finished_run: Path) -> Path:
    """A run with all of its units, to do with it what a test likes."""
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


def test_what_went_in_comes_out(folder: Path) -> None:
    with RunStore.open(folder, identity=IDENTITY) as store:
        found = store.find([*ALL_UNITS, "transfer/nobody"])
        assert found == {key: unit.content for key, unit in ALL_UNITS.items()}
        assert store.identity == IDENTITY
        assert store.task_names == NAMES
        assert [store.finished(stage) for stage in ("transfer", "multitask", "none")] == [8, 3, 0]
        store.check()


def test_settings_that_promises_rest_on(folder: Path) -> None:
    with RunStore.open(folder) as store:
        connection = store._connection
        for name, expected in [
            ("journal_mode", "wal"),
            ("synchronous", 2),
            ("foreign_keys", 1),
            ("busy_timeout", 5000),
        ]:
            assert connection.execute(f"PRAGMA {name}").fetchone()[0] == expected
        assert (
            connection.execute("SELECT count(*) FROM pragma_table_list WHERE strict = 0").fetchone()[0] == 2
        )
        for path in folder.glob("run.sqlite*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_setting_that_is_not_taken_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SETTINGS", (("synchronous", "NORMAL", 2),))
    with pytest.raises(StoreError, match="cannot be kept safely here; got synchronous 1"):
        RunStore.open(folder)
    monkeypatch.undo()
    RunStore.open(folder).close()


def test_scores_make_transfer_scores(folder: Path) -> None:
    with RunStore.open(folder, read_only=True) as store:
        columns = store.scores()
        scores = TransferScores(store.task_names, **columns)  # type: ignore[arg-type]
        assert store.n_scores() == len(scores.score) == 8 * 5
    expected: dict[tuple[int, int], int] = {}
    for number in range(len(NAMES)):
        rows = make_scores(number)
        expected |= {(number, NAMES.index(name)): m for m, name in enumerate(rows.targets)}
    pairs = list(zip(scores.source.tolist(), scores.target.tolist(), strict=True))
    assert pairs == sorted(expected)
    for name in ("score", "n_examples", "standard_error", "first_half", "second_half"):
        wanted = [getattr(make_scores(source), name)[expected[source, target]] for source, target in pairs]
        assert columns[name].tobytes() == (np.array(wanted) + 0).tobytes()


def test_scores_may_have_fewer_columns_but_all_the_same(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        assert {name: len(column) for name, column in store.scores().items()} == {
            "source": 0,
            "target": 0,
            "score": 0,
        }
        store.finish("t", "none", b"", scores=ScoreRows(NAMES[3], [], []))
        store.finish("t", "a", b"a", scores=ScoreRows(NAMES[0], NAMES[1:3], [0.5, 0.25]))
        assert set(store.scores()) == {"source", "target", "score"}
        with pytest.raises(UsageError, match="other columns than the scores before"):
            store.finish("t", "b", b"b", scores=ScoreRows(NAMES[1], [NAMES[0]], [0.5], n_examples=[3]))
        with pytest.raises(UsageError, match="measured by two units"):
            store.finish("t", "b", b"b", scores=ScoreRows(NAMES[0], [NAMES[1]], [0.5]))
        with pytest.raises(UnknownTaskError, match="nobody"):
            store.finish("t", "b", b"b", scores=ScoreRows("nobody", [NAMES[1]], [0.5]))
        assert store.find(["a", "b"]) == {"a": b"a"}
        assert store.n_scores() == 2
        store.finish("t", "b", b"b", scores=ScoreRows(NAMES[1], [NAMES[0]], [0.5]))
    with RunStore.open(tmp_path / "run") as store:
        store.check()
        assert store.n_scores() == 3


def test_the_same_result_again_is_fine_and_another_is_an_error(folder: Path) -> None:
    before = ask(folder, "SELECT commits FROM seal")
    with RunStore.open(folder) as store:
        unit = make_unit(2)
        store.finish_many([unit, unit])
        for content, scores in [
            (unit.content + b"x", unit.scores),
            (unit.content, None),
            (unit.content, make_scores(2, n_targets=4)),
        ]:
            with pytest.raises(StoreError, match="another result than before") as caught:
                store.finish(unit.stage, unit.key, content, scores=scores)
            assert repr(unit.key)[1:-1] in str(caught.value)
            assert str(folder) in str(caught.value)
        with pytest.raises(StoreError, match="another result"):
            store.finish("multitask", unit.key, unit.content, scores=unit.scores)
    assert ask(folder, "SELECT commits FROM seal") == before


def test_several_units_are_stored_together_or_not_at_all(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        first, second = other_unit("x"), other_unit("y")
        different = FinishedUnit(stage="multitask", key=second.key, content=b"else")
        with pytest.raises(StoreError, match="another result"):
            store.finish_many([first, second, different])
        assert store.find([first.key, second.key]) == {}
        store.finish_many([])
        store.finish_many([first, second, second])
        assert len(store.find([first.key, second.key])) == 2
        store.check()


@pytest.mark.parametrize(
    "arguments",
    [
        {"stage": ""},
        {"key": ""},
        {"key": "\ud800"},
        {"key": 3},
        {"seconds": float("nan")},
        {"cpu_seconds": -1},
        {"peak_bytes": 2**63},
    ],
)
def test_a_unit_that_cannot_be_stored_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="cannot be stored"):
        FinishedUnit(**{"stage": "t", "key": "k", "content": b"", **arguments})  # type: ignore[arg-type]


def test_failures_are_counted_over_restarts(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with RunStore.create(place, IDENTITY) as store:
        store.record_failure("fewshot", "k", "once \ud800", ["acme"])
        assert store.failures("k") == 1
        assert store.quarantined() == []
    with RunStore.open(place) as store:
        store.quarantine("fewshot", "k", "twice", ["acme", NAMES[2]])
        store.quarantine("cluster", "a", "x" * 20_000)
        assert store.failures("k") == 2
        store.record_failure("fewshot", "k", "thrice", ["acme"])  # it stays out
    with RunStore.open(place) as store:
        found = store.quarantined()
        assert [(unit.stage, unit.key, unit.tasks) for unit in found] == [
            ("cluster", "a", ()),
            ("fewshot", "k", ("acme",)),
        ]
        assert [unit.error for unit in found] == ["x" * 10_000, "thrice"]
        assert store.release_quarantined() == 2
        assert store.release_quarantined() == 0
        assert store.failures("k") == 0
        store.quarantine("fewshot", "k", "again")
        store.finish("fewshot", "k", b"done at last")
        assert store.quarantined() == []
        with pytest.raises(UsageError, match="finished, so it cannot fail"):
            store.record_failure("fewshot", "k", "after all")


def test_values_are_json(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", IDENTITY) as store:
        value = {"list": [1, 2.5, None, True], "text": "größe\x00"}
        store.set_value("fact", value)
        store.set_value("fact", value)
        store.set_value("other", 1)
        store.set_value("other", [])
        with pytest.raises(UsageError, match="JSON"):
            store.set_value("bad", float("nan"))
        with pytest.raises(UsageError, match="name"):
            store.set_value("", 1)
    with RunStore.open(tmp_path / "run") as store:
        assert store.value("fact") == value
        assert store.value("other") == []
        assert store.value("bad") is None
        assert store.value("bad", 7) == 7


def test_times_of_a_stage_add_up_over_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("robusttc.run.spans.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("robusttc.run.spans.time.time", lambda: 5000 + clock[0])
    place = tmp_path / "run"
    with RunStore.create(place, IDENTITY) as store:
        store.begin_stage("multitask", 3)
        clock[0] += 10
        store.finish_many([other_unit("a")])
        clock[0] += 100  # lost with the process: nothing was committed
    with RunStore.open(place) as store:
        [cost] = store.costs()
        assert (cost.units, cost.wall_seconds, cost.started, cost.ended) == (1, 10, 6000, None)
        store.begin_stage("multitask", 2)
        clock[0] += 5
        store.begin_stage("multitask", 2)  # the one before ends
        store.finish("cluster", "cluster/all", b"", cpu_seconds=2, peak_bytes=7)
        store.finish("cluster", "cluster/more", b"", cpu_seconds=3, peak_bytes=5)
        clock[0] += 7
        store.end_stage("multitask")
        with pytest.raises(UsageError, match="not begun"):
            store.end_stage("multitask")
        costs = store.costs()
        assert [cost.stage for cost in costs] == ["multitask", "cluster"]
        assert (costs[0].wall_seconds, costs[0].started, costs[0].ended) == (22, 6000, 6122)
        assert (costs[1].wall_seconds, costs[1].cpu_seconds, costs[1].peak_bytes) == (0, 5, 7)
        assert costs[1].started is costs[1].ended is None


def test_readers_look_while_one_writes_and_see_one_moment(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with RunStore.create(place, IDENTITY) as store:
        store.finish_many([make_unit(0)])
        with RunStore.open(place, read_only=True, identity=IDENTITY) as reader:
            store.finish_many([make_unit(1)])
            store.set_value("later", 1)
            assert len(reader.find(ALL_UNITS)) == 1
            assert len(reader.scores()["score"]) == reader.n_scores() == 5
            assert reader.value("later") is None
            for write in (
                lambda: reader.finish("t", "k", b""),
                lambda: reader.set_value("a", 1),
                lambda: reader.quarantine("t", "k", "e"),
                lambda: reader.release_quarantined(),
                lambda: reader.begin_stage("t", 1),
                lambda: reader.end_stage("t"),
            ):
                with pytest.raises(UsageError, match="for reading alone"):
                    write()
        with RunStore.open(place, read_only=True) as reader:
            assert len(reader.find(ALL_UNITS)) == 2


def test_who_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with RunStore.create(place, IDENTITY) as store:
        store.finish_many([make_unit(0)])
        reader = RunStore.open(place, read_only=True)
        store.finish_many([make_unit(1)])
    began = time.monotonic()
    with RunStore.open(place) as store:
        store.finish_many([make_unit(2)])
        assert len(store.find(ALL_UNITS)) == 3
    assert time.monotonic() - began < 2
    assert len(reader.find(ALL_UNITS)) == 1
    reader.close()
    with RunStore.open(place) as store:
        store.check()
        assert len(store.find(ALL_UNITS)) == 3


def test_a_second_writer_is_refused(folder: Path) -> None:
    with RunStore.open(folder):
        with pytest.raises(StoreError, match="another process works on this run"):
            RunStore.open(folder)
        with pytest.raises(StoreError, match="another process works on this run"):
            RunStore.create(folder, IDENTITY)
    RunStore.open(folder).close()


def test_a_store_that_is_closed_says_so(folder: Path) -> None:
    store = RunStore.open(folder)
    store.close()
    store.close()
    for use in (lambda: store.finish("t", "k", b""), lambda: store.find(ALL_UNITS), store.scores):
        with pytest.raises(UsageError, match="closed database"):
            use()


def test_another_identity_is_refused_and_the_run_is_free_again(folder: Path) -> None:
    other = Identity({**IDENTITY.configuration, "seed": 1}, IDENTITY.tasks, IDENTITY.versions)
    for read_only in (False, True):
        with pytest.raises(UsageError, match="seed: 0 then, 1 now") as caught:
            RunStore.open(folder, identity=other, read_only=read_only)
        assert caught.value.exit_code == ExitCode.USAGE
    RunStore.open(folder).close()


def test_where_there_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "owner.lock").touch()
    for name, words in [
        ("gone", "there is no such folder"),
        ("file", "it is a file"),
        ("half", "stopped before it began.*Run fit again"),
        (".", "there is no run in this folder.*Run fit first"),
    ]:
        with pytest.raises(StoreError, match=words) as caught:
            RunStore.open(tmp_path / name)
        assert caught.value.exit_code == ExitCode.DAMAGED_STORE
    assert not (tmp_path / "gone").exists()
    RunStore.create(tmp_path / "half", IDENTITY).close()


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UsageError, match="there is a run already"):
        RunStore.create(folder, IDENTITY)
    (tmp_path / "full").mkdir()
    for name in "abcd":
        (tmp_path / "full" / name).touch()
    with pytest.raises(UsageError, match="holds something else; got 'a', 'b', 'c' …"):
        RunStore.create(tmp_path / "full", IDENTITY)
    (tmp_path / "link").symlink_to(folder)
    assert tell(tmp_path / "link") == tell(folder)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA user_version = 2", "newer robusttc; got form 2; expected at most form 1. Install"),
        ("PRAGMA user_version = 0", "damaged; got other tables"),
        ("PRAGMA application_id = 0", "no run of robusttc, or damaged"),
        ("CREATE TABLE more (a)", "damaged; got other tables"),
        ("DROP TABLE facts", "damaged; got other tables"),
    ],
)
def test_another_form_is_refused(folder: Path, statement: str, words: str) -> None:
    change(folder, statement)
    for read_only in (False, True):
        with pytest.raises(StoreError, match=words) as caught:
            RunStore.open(folder, read_only=read_only)
        assert str(folder / "run.sqlite") in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE units SET attempts = 9 WHERE number = 2",
        "UPDATE units SET content_sha256 = CAST('x' AS BLOB) WHERE number = 2",
        "DELETE FROM units WHERE number = 8",
        "UPDATE tasks SET sha256 = 'x' WHERE number = 3",
        "UPDATE facts SET value = '1'",
        "DELETE FROM failures",
        "UPDATE spans SET seconds = 7.0",
        "UPDATE run SET value = '{}' WHERE name = 'versions'",
        "UPDATE seal SET commits = commits + 1",
        "DELETE FROM seal",
    ],
)
def test_a_changed_row_is_noticed_on_opening(folder: Path, statement: str) -> None:
    change(folder, statement)
    with pytest.raises(StoreError, match="rows that are not those that were written") as caught:
        RunStore.open(folder)
    assert str(folder / "run.sqlite") in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE scores SET score = score + 1e-9 WHERE source = 2",
        "UPDATE scores SET n_examples = NULL WHERE source = 2",
        "UPDATE scores SET target = target + 99 WHERE source = 2",
        "DELETE FROM scores WHERE source = 2",
        "UPDATE scores SET unit = 77 WHERE source = 2",
        "INSERT INTO scores SELECT 99, target, 99, score, n_examples, 0.0, 0.0, 0.0 FROM scores LIMIT 1",
    ],
)
def test_a_changed_score_is_noticed_on_reading(folder: Path, statement: str) -> None:
    change(folder, statement)
    with RunStore.open(folder) as store:
        assert len(store.find(ALL_UNITS)) == len(ALL_UNITS)
        with pytest.raises(StoreError, match=r"damaged; got .*score") as caught:
            store.scores()
        assert str(folder / "run.sqlite") in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE contents SET content = CAST('else' AS BLOB) WHERE unit = 2",
        "DELETE FROM contents WHERE unit = 2",
        "UPDATE contents SET content = (SELECT content FROM contents WHERE unit = 3) WHERE unit = 2",
    ],
)
def test_a_changed_result_is_noticed_with_its_unit(folder: Path, statement: str) -> None:
    change(folder, statement)
    with RunStore.open(folder) as store:
        with pytest.raises(StoreError, match="another result of unit 'transfer/größe/ß' than was stored"):
            store.find(ALL_UNITS)
        assert store.find([make_unit(0).key])
        with pytest.raises(StoreError, match="another result"):
            store.check()


def test_pages_are_looked_at_when_asked(folder: Path) -> None:
    # An index without one of its entries: every row is there and right.
    change(
        folder,
        "PRAGMA writable_schema = ON",
        "DELETE FROM sqlite_schema WHERE name = 'sqlite_autoindex_units_1'",
    )
    with pytest.raises(StoreError) as caught, RunStore.open(folder) as store:
        store.check()
    assert str(folder / "run.sqlite") in str(caught.value)


@pytest.mark.parametrize("form", range(1, SCHEMA_VERSION + 1))
def test_runs_of_every_form_can_be_opened_for_ever(tmp_path: Path, folder: Path, form: int) -> None:
    """The file of a form is kept as that version wrote it; a new form gets a new file beside it."""
    place = tmp_path / "old"
    place.mkdir()
    shutil.copyfile(Path(__file__).parent / "assets" / f"form-{form}.sqlite", place / "run.sqlite")
    with RunStore.open(place, identity=IDENTITY) as store:
        store.check()
    do_run(place)
    assert tell(place) == tell(folder)


def test_a_killed_process_leaves_a_log_that_is_brought_in(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from small_run import open_or_create, batches\n"
        "store = open_or_create(Path(sys.argv[1]))\n"
        "[store.finish_many(batch) for batch in batches()]\n"
        "print('done', flush=True); input()"
    )
    place = tmp_path / "run"
    command = [sys.executable, "-c", code, str(place), str(Path(__file__).parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    assert (place / "run.sqlite-wal").stat().st_size > 0
    shutil.copytree(place, tmp_path / "copy")
    assert len(tell(tmp_path / "copy")["units"]) == len(ALL_UNITS)  # by a reader
    with RunStore.open(place) as store:
        assert len(store.find(ALL_UNITS)) == len(ALL_UNITS)
        shutil.copyfile(place / "run.sqlite", tmp_path / "alone.sqlite")
    connection = sqlite3.connect(tmp_path / "alone.sqlite")  # without the log
    assert connection.execute("SELECT count(*) FROM contents").fetchone() == (len(ALL_UNITS),)
    connection.close()
    assert not (place / "run.sqlite-wal").exists()


def test_an_interrupt_after_the_commit_loses_nothing(tmp_path: Path) -> None:
    """Control-C may come between the commit and the moment when the program knows of it."""

    class Interrupting:
        def __init__(self, connection: sqlite3.Connection, *, after: bool) -> None:
            self.connection, self.after, self.is_armed = connection, after, True

        def execute(self, statement: str, *arguments: Any) -> object:
            if statement == "COMMIT" and self.is_armed:
                self.is_armed = False
                if self.after:
                    self.connection.execute(statement)
                raise KeyboardInterrupt
            return self.connection.execute(statement, *arguments)

        def __getattr__(self, name: str) -> object:
            return getattr(self.connection, name)

    for after in (False, True):
        place = tmp_path / f"run {after}"
        with RunStore.create(place, IDENTITY) as store:
            store.finish_many([make_unit(0)])
            store._sealed.connection = Interrupting(store._connection, after=after)  # type: ignore[assignment]
            with pytest.raises(KeyboardInterrupt):
                store.finish_many([make_unit(1)])
            assert (make_unit(1).key in store.find(ALL_UNITS)) == after
            for batch in batches():
                store.finish_many(batch)
        with RunStore.open(place) as store:
            store.check()
            assert len(store.find(ALL_UNITS)) == len(ALL_UNITS)
