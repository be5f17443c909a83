"""The cache of vectors: exact, bounded, shared between processes, and never in the way."""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.encoders import VectorCache, cache, default_cache_folder
from robusttc.errors import DataWarning, UsageError
from robusttc.random import numpy_generator

# Run in processes of their own: a slow encoder that prints every block it computes.
WORKER = """
import sys, time
import numpy as np
from robusttc.encoders import cache
from robusttc.random import numpy_generator
cache.BLOCK_TEXTS = 10
folder, start, stop, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
def compute(texts):
    print(len(texts), flush=True)
    time.sleep(pause)
    rows = [numpy_generator(0, "vector", [text]).standard_normal(24) for text in texts]
    return np.array(rows, dtype=np.float32)
texts = [f"text {number}" for number in range(start, stop)]
vectors = cache.VectorCache(folder).get_or_compute("model", texts, compute)
assert (vectors == compute(texts)).all()
"""

Compute = Callable[[list[str]], NDArray[np.float32]]


def texts_of(n_texts: int, name: str = "text") -> list[str]:
    return [f"{name} {number}" for number in range(n_texts)]


def encode(texts: list[str]) -> NDArray[np.float32]:
    """Return a random vector for every text."""
    rows = [numpy_generator(0, "vector", [text]).standard_normal(24) for text in texts]
    return np.array(rows, dtype=np.float32)


class Recorder:
    """Records what is computed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        self.texts += texts
        return encode(texts)


def never(texts: list[str]) -> NDArray[np.float32]:
    raise AssertionError(f"{len(texts)} texts that should be there are computed")


def look_up(made: VectorCache, texts: list[str], compute: Compute = encode) -> NDArray[np.float32]:
    return made.get_or_compute("model", texts, compute)


def store_file(folder: Path) -> Path:
    return folder / "store" / "vectors.sqlite"


@pytest.mark.parametrize("in_memory", [True, False])
def test_each_distinct_text_is_computed_once(tmp_path: Path, in_memory: bool) -> None:
    made = VectorCache.in_memory() if in_memory else VectorCache(tmp_path)
    recorder = Recorder()
    texts = ["b", "a", "b", "", "a\0", "\ud800", "é", "e\u0301"]
    first = look_up(made, texts, recorder)
    assert sorted(recorder.texts) == sorted(set(texts))
    np.testing.assert_array_equal(first, encode(texts))
    np.testing.assert_array_equal(look_up(made, texts[::-1], never), first[::-1])
    assert made.find_missing("model", ["z", "b", "z"]) == ["z"]
    made.close()


def test_a_disabled_cache_keeps_nothing_anywhere() -> None:
    made, recorder = VectorCache.disabled(), Recorder()
    for _ in range(2):
        look_up(made, ["a"], recorder)
    made.put("model", ["a"], encode(["a"]))
    assert recorder.texts == ["a", "a"]
    assert made.find_missing("model", ["a"]) == ["a"]
    assert repr(made) == "VectorCache(disabled)"


def test_vectors_are_exact_across_instances(tmp_path: Path) -> None:
    texts = texts_of(1_300)
    odd = encode(texts)
    odd[0, :4] = np.array([1e-45, -0.0, 3.4028234e38, 1 / 3], dtype=np.float32)
    first = look_up(VectorCache(tmp_path), texts, lambda some: odd[[texts.index(text) for text in some]])
    second = look_up(VectorCache(tmp_path), texts, never)
    assert first.tobytes() == second.tobytes() == odd.tobytes()


def rows_in(folder: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(store_file(folder))
    try:
        return connection.execute("SELECT * FROM vectors").fetchall()
    finally:
        connection.close()


def test_vectors_that_are_not_to_be_kept(tmp_path: Path) -> None:
    made = VectorCache(tmp_path / "cache")

    def predict(texts: list[str], compute: Compute) -> NDArray[np.float32]:
        return made.get_or_compute("model", texts, compute, keep=False)

    np.testing.assert_array_equal(predict(["a"], encode), encode(["a"]))
    assert not (tmp_path / "cache").exists()
    look_up(made, ["b"])
    content = rows_in(tmp_path / "cache")
    np.testing.assert_array_equal(predict(["b"], never), encode(["b"]))  # it is looked up all the same
    recorder = Recorder()
    np.testing.assert_array_equal(predict(["b", "a"], recorder), encode(["b", "a"]))
    assert recorder.texts == ["a"]
    assert rows_in(tmp_path / "cache") == content
    assert made.find_missing("model", ["a", "b"]) == ["a"]


def test_texts_are_not_in_the_file(tmp_path: Path) -> None:
    made = VectorCache(tmp_path)
    look_up(made, ["my secret question"])
    made.close()
    assert b"secret" not in store_file(tmp_path).read_bytes()


@pytest.mark.parametrize("in_memory", [True, False])
def test_erased_vectors_are_gone(tmp_path: Path, in_memory: bool) -> None:
    made = VectorCache.in_memory() if in_memory else VectorCache(tmp_path)
    texts = texts_of(50)
    for model in ("one", "two"):
        made.get_or_compute(model, texts, encode)
    made.erase(texts[:10])
    for model in ("one", "two"):
        assert made.find_missing(model, texts) == texts[:10]
    if not in_memory:
        files = b"".join(path.read_bytes() for path in (tmp_path / "store").iterdir())
        assert encode(texts[10:11]).tobytes() in files
        assert encode(texts[:1]).tobytes() not in files


def test_erasing_from_a_cache_without_a_file_creates_none(tmp_path: Path) -> None:
    VectorCache(tmp_path / "cache").erase(["a"])
    assert not (tmp_path / "cache").exists()


def modes_in(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("umask", [0, 0o022])
def test_only_its_owner_may_read_the_cache(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "above" / "cache"
    before = os.umask(umask)
    try:
        made = VectorCache(folder)
        look_up(made, ["a"])
        assert len(list((folder / "store").iterdir())) == 3  # the log, and its index
        assert modes_in(tmp_path / "above") == {0o700, 0o600}
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        other = VectorCache(folder)
        look_up(other, ["b"])
        assert modes_in(folder) == {0o700, 0o600}
    finally:
        os.umask(before)
    made.close()
    other.close()


def test_models_are_kept_apart(tmp_path: Path) -> None:
    made = VectorCache(tmp_path)
    one = made.get_or_compute("one", ["a"], lambda _: np.ones((1, 2), np.float32))
    two = made.get_or_compute("two", ["a"], lambda _: np.zeros((1, 3), np.float32))
    assert [one.tolist(), two.tolist()] == [[[1, 1]], [[0, 0, 0]]]


def test_blocks_are_stored_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK_TEXTS", 10)
    recorder = Recorder()

    def fail_at_third(texts: list[str]) -> NDArray[np.float32]:
        if len(recorder.texts) == 20:
            raise KeyboardInterrupt
        return recorder(texts)

    with pytest.raises(KeyboardInterrupt):
        look_up(VectorCache(tmp_path), texts_of(35), fail_at_third)
    again = Recorder()
    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts_of(35), again), encode(texts_of(35)))
    assert len(again.texts) == 15
    assert not set(again.texts) & set(recorder.texts)


def test_what_is_refused(tmp_path: Path) -> None:
    for max_bytes in (0, -1, True, 1.5):
        with pytest.raises(UsageError, match="max_bytes"):
            VectorCache(tmp_path, max_bytes=max_bytes)  # type: ignore[arg-type]


@pytest.mark.parametrize("in_memory", [True, False])
def test_size_is_bounded_and_the_oldest_go(tmp_path: Path, in_memory: bool) -> None:
    bound = 2**20
    made = VectorCache(None if in_memory else tmp_path, max_bytes=bound)
    for number in range(40):
        look_up(made, texts_of(400, f"batch {number}"))
    if not in_memory:
        made.close()
        assert bound / 2 < store_file(tmp_path).stat().st_size <= 1.2 * bound
    look_up(made, texts_of(400, "batch 39"), never)
    forgotten = Recorder()
    look_up(made, texts_of(400, "batch 0"), forgotten)
    assert len(forgotten.texts) == 400


def damage_header(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 1_000)


def damage_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # Everything but the first page, where a broken file would be seen at once.
    content[16_384:] = bytes(byte ^ 0x55 for byte in content[16_384:])
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def run_sql(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()


def other_columns(path: Path) -> None:
    run_sql(path, "DROP TABLE vectors")
    run_sql(path, "CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB, data BLOB)")


def shorten_vectors(path: Path) -> None:
    run_sql(path, "UPDATE vectors SET vector = substr(vector, 1, 8) WHERE age = 3")


def infinite_numbers(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE vectors SET vector = ? WHERE age = 3", (np.full(24, np.inf, "<f4").tobytes(),))
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "damage",
    [damage_header, damage_middle, cut_short, other_columns, shorten_vectors, infinite_numbers],
)
def test_a_damaged_file_is_renamed_away(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    texts = texts_of(500)
    made = VectorCache(tmp_path)
    look_up(made, texts)
    made.close()
    damage(store_file(tmp_path))
    with pytest.warns(DataWarning, match="damaged .* renamed to"):
        found = look_up(VectorCache(tmp_path), texts)
    np.testing.assert_array_equal(found, encode(texts))
    assert (tmp_path / "damaged" / "vectors.sqlite").exists()
    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts, never), encode(texts))


def test_a_folder_that_cannot_be_made_means_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    made = VectorCache(tmp_path / "file" / "cache")
    with pytest.warns(DataWarning, match=r"cannot be used .* held in memory"):
        np.testing.assert_array_equal(look_up(made, ["a"]), encode(["a"]))
    # It warns once, and warnings are errors here.
    np.testing.assert_array_equal(look_up(made, ["a"], never), encode(["a"]))
    look_up(made, ["b"])


def test_a_full_disk_means_memory(tmp_path: Path) -> None:
    made = VectorCache(tmp_path)
    look_up(made, texts_of(10))
    made._open().execute("PRAGMA max_page_count = 12")
    many = texts_of(3_000, "many")
    with pytest.warns(DataWarning, match="full"):
        np.testing.assert_array_equal(look_up(made, many), encode(many))
    look_up(made, many, never)
    look_up(VectorCache(tmp_path), texts_of(10), never)


def start_worker(folder: Path, start: int, stop: int, pause: float) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-W", "error", "-c", WORKER, str(folder), str(start), str(stop), str(pause)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_at_once(tmp_path: Path) -> None:
    workers = [start_worker(tmp_path, start, start + 300, 0.0) for start in (0, 100, 200)]
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors
    texts = texts_of(500)
    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts, never), encode(texts))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal here")
def test_killed_in_the_middle(tmp_path: Path) -> None:
    worker = start_worker(tmp_path, 0, 1_000, 0.01)
    assert worker.stdout is not None
    for _ in range(20):
        worker.stdout.readline()
    worker.kill()
    worker.communicate(timeout=60)
    recorder = Recorder()
    np.testing.assert_array_equal(
        look_up(VectorCache(tmp_path), texts_of(1_000), recorder), encode(texts_of(1_000))
    )
    # Nineteen blocks of ten had been stored before the twentieth was begun.
    assert 0 < len(recorder.texts) <= 1_000 - 190


def test_killed_while_writing(tmp_path: Path) -> None:
    """At any moment: most of the time of these workers goes into writing."""
    for pause_s in (0.05, 0.1, 0.15, 0.2):
        worker = start_worker(tmp_path, 0, 20_000, 0.0)
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(pause_s)
        worker.kill()
        worker.communicate(timeout=60)
    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts_of(2_000)), encode(texts_of(2_000)))
    assert not (tmp_path / "damaged").exists()


def test_threads_share_one_cache(tmp_path: Path) -> None:
    made = VectorCache(tmp_path)
    wrong: list[int] = []

    def work(number: int) -> None:
        texts = texts_of(200, f"thread {number % 2}")
        if not (look_up(made, texts) == encode(texts)).all():
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("kind", ["disk", "memory", "disabled"])
def test_a_cache_can_be_sent_to_a_worker(tmp_path: Path, kind: str) -> None:
    made = {
        "disk": VectorCache(tmp_path, max_bytes=10**6),
        "memory": VectorCache.in_memory(),
        "disabled": VectorCache.disabled(),
    }[kind]
    look_up(made, ["a"])
    copy = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes
    assert repr(copy) == repr(made)
    assert copy.max_bytes == made.max_bytes
    if kind == "disk":
        look_up(copy, ["a"], never)


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUSTTC_CACHE", str(tmp_path))
    assert default_cache_folder() == tmp_path / "vectors" == cache.default_cache().folder
    assert cache.default_cache() is cache.default_cache()
    monkeypatch.delenv("ROBUSTTC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform.startswith("linux"):
        assert default_cache_folder() == tmp_path / "xdg" / "robusttc" / "vectors"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_opens_the_file_anew(tmp_path: Path) -> None:
    code = (
        "import os, sys; import numpy as np\n"
        "from robusttc.encoders import VectorCache\n"
        f"cache = VectorCache({str(tmp_path)!r})\n"
        "ones = lambda texts: np.ones((len(texts), 2), np.float32)\n"
        "cache.get_or_compute('m', ['a'], ones)\n"
        "child = os.fork()\n"
        "cache.get_or_compute('m', [f'{bool(child)} {i}' for i in range(50)], ones)\n"
        "if child: sys.exit(os.waitpid(child, 0)[1])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    texts = [f"{flag} {number}" for flag in (True, False) for number in range(50)]
    assert (VectorCache(tmp_path).get_or_compute("m", texts, never) == 1).all()
