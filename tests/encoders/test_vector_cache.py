"""The cache of vectors: exact, bounded, shared, and never wrong, whatever happens to its file."""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.encoders.cache_folder import default_cache_folder
from robusttc.encoders.vector_cache import VectorCache
from robusttc.encoders.vector_store import VectorStore
from robusttc.errors import DataWarning, UsageError
from robusttc.random import numpy_generator

DIMENSION = 24

# Run in processes of their own: a slow encoder that tells every block it computes.
WORKER = """
import sys, time
import numpy as np
from robusttc.encoders import vector_cache
from robusttc.random import numpy_generator
vector_cache.BLOCK_TEXTS = 10
folder, start, stop, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
def compute(texts):
    print(len(texts), flush=True)
    time.sleep(pause)
    return np.stack([numpy_generator(0, "vector", [text]).standard_normal(24) for text in texts])
texts = [f"text {number}" for number in range(start, stop)]
cache = vector_cache.VectorCache(folder)
vectors = cache.get_or_compute("model", texts, compute, 24)
assert (vectors == compute(texts).astype(np.float32)).all()
"""


def texts_of(n_texts: int, name: str = "text") -> list[str]:
    return [f"{name} {number}" for number in range(n_texts)]


def encode(texts: list[str]) -> NDArray[np.float32]:
    """Give every text a random vector of its own."""
    rows = [numpy_generator(0, "vector", [text]).standard_normal(DIMENSION) for text in texts]
    return np.array(rows, dtype=np.float32).reshape(len(texts), DIMENSION)


class Encoder:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        self.asked += texts
        return encode(texts)


def never(texts: list[str]) -> NDArray[np.float32]:
    raise AssertionError(f"asked for {len(texts)} texts that should be there")


def look_up(cache: VectorCache, texts: list[str], compute: object = encode) -> NDArray[np.float32]:
    assert callable(compute)
    return cache.get_or_compute("model", texts, compute, DIMENSION)


def store_file(folder: Path) -> Path:
    return folder / "store" / "vectors.sqlite"


@pytest.mark.parametrize("in_memory", [True, False])
def test_each_distinct_text_is_computed_once(tmp_path: Path, in_memory: bool) -> None:
    cache = VectorCache(None if in_memory else tmp_path)
    encoder = Encoder()
    texts = ["b", "a", "b", "", "a\0", "\ud800", "é", "e\u0301"]
    first = look_up(cache, texts, encoder)
    assert sorted(encoder.asked) == sorted(set(texts))
    np.testing.assert_array_equal(first, encode(texts))
    np.testing.assert_array_equal(look_up(cache, texts[::-1], never), first[::-1])
    cache.close()


def test_vectors_are_exact_across_instances(tmp_path: Path) -> None:
    texts = texts_of(1_300)
    odd = encode(texts)
    odd[0, :4] = np.array([1e-45, -0.0, 3.4028234e38, 1 / 3], dtype=np.float32)
    first = look_up(VectorCache(tmp_path), texts, lambda some: odd[[texts.index(text) for text in some]])
    second = look_up(VectorCache(tmp_path), texts, never)
    assert first.tobytes() == second.tobytes() == odd.tobytes()


def rows_in(folder: Path) -> list[list[tuple[object, ...]]]:
    connection = sqlite3.connect(store_file(folder))
    try:
        queries = ("SELECT * FROM vectors", "SELECT * FROM blocks")
        return [connection.execute(query).fetchall() for query in queries]
    finally:
        connection.close()


def test_vectors_that_are_not_to_be_kept(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "cache")

    def ask(texts: list[str], compute: object) -> NDArray[np.float32]:
        assert callable(compute)
        return cache.get_or_compute("model", texts, compute, DIMENSION, keep=False)

    np.testing.assert_array_equal(ask(["a"], encode), encode(["a"]))
    assert not (tmp_path / "cache").exists()
    look_up(cache, ["b"])
    cache.close()
    content = rows_in(tmp_path / "cache")
    np.testing.assert_array_equal(ask(["b"], never), encode(["b"]))  # it is looked up all the same
    encoder = Encoder()
    np.testing.assert_array_equal(ask(["b", "a"], encoder), encode(["b", "a"]))
    assert encoder.asked == ["a"]
    cache.close()
    assert rows_in(tmp_path / "cache") == content
    assert cache.find_missing("model", ["a", "b"], DIMENSION) == ["a"]


def modes_in(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("umask", [0, 0o022])
def test_only_its_owner_may_read_the_cache(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "above" / "cache"
    before = os.umask(umask)
    try:
        cache = VectorCache(folder)
        look_up(cache, ["a"])
        assert len(list((folder / "store").iterdir())) == 3  # the log, and its index
        assert modes_in(tmp_path / "above") == {0o700, 0o600}
        # As an earlier version made it, and left its log.
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        other = VectorCache(folder)
        look_up(other, ["b"])
        assert modes_in(folder) == {0o700, 0o600}
    finally:
        os.umask(before)
    cache.close()
    other.close()


def test_models_and_dimensions_are_kept_apart(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    one = cache.get_or_compute("one", ["a"], lambda _: np.ones((1, 2)), 2)
    two = cache.get_or_compute("two", ["a"], lambda _: np.zeros((1, 2)), 2)
    three = cache.get_or_compute("one", ["a"], lambda _: np.full((1, 3), 7.0), 3)
    assert [one.tolist(), two.tolist(), three.tolist()] == [[[1, 1]], [[0, 0]], [[7, 7, 7]]]


def test_no_texts_at_all(tmp_path: Path) -> None:
    assert look_up(VectorCache(tmp_path), [], never).shape == (0, DIMENSION)


def test_blocks_are_stored_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robusttc.encoders.vector_cache.BLOCK_TEXTS", 10)
    encoder = Encoder()

    def fail_at_third(texts: list[str]) -> NDArray[np.float32]:
        if len(encoder.asked) == 20:
            raise KeyboardInterrupt
        return encoder(texts)

    with pytest.raises(KeyboardInterrupt):
        look_up(VectorCache(tmp_path), texts_of(35), fail_at_third)
    again = Encoder()
    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts_of(35), again), encode(texts_of(35)))
    assert len(again.asked) == 15
    assert not set(again.asked) & set(encoder.asked)


def test_wrong_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"another shape; got \(1, 3\)"):
        look_up(VectorCache(tmp_path), ["a"], lambda _: np.zeros((1, 3)))


@pytest.mark.parametrize("max_bytes", [0, -1, True, 1.5])
def test_bad_bound_is_refused(max_bytes: int) -> None:
    with pytest.raises(UsageError, match="max_bytes"):
        VectorCache(None, max_bytes=max_bytes)


def test_size_stays_below_the_bound_and_the_last_used_stay(tmp_path: Path) -> None:
    bound = 2**20
    cache = VectorCache(tmp_path, max_bytes=bound)
    kept = texts_of(100, "kept")
    look_up(cache, kept)
    largest = 0
    for number in range(40):
        look_up(cache, texts_of(400, f"batch {number}"))
        look_up(cache, kept, never)  # used all the time, so never evicted
        largest = max(largest, store_file(tmp_path).stat().st_size)
    assert bound / 2 < largest <= bound
    look_up(cache, texts_of(400, "batch 39"), never)
    forgotten = Encoder()
    look_up(cache, texts_of(400, "batch 0"), forgotten)
    assert len(forgotten.asked) == 400
    # With what lies beside it, too: the log is emptied by an eviction.
    cache.close()
    assert sum(path.stat().st_size for path in (tmp_path / "store").iterdir()) <= bound


def test_a_block_larger_than_the_bound_is_not_kept(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, max_bytes=100_000)
    np.testing.assert_array_equal(look_up(cache, texts_of(2_000)), encode(texts_of(2_000)))
    look_up(cache, ["small"])
    look_up(cache, ["small"], never)


def test_memory_is_bounded_as_well() -> None:
    cache = VectorCache(None, max_bytes=2**20)
    for number in range(10):
        look_up(cache, texts_of(1_000, f"batch {number}"))
    assert cache._open().size_bytes <= 2**20


def damage_header(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 1_000)


def damage_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # Everything but the first page, where a broken file would be seen at once.
    content[16_384:] = bytes(byte ^ 0x55 for byte in content[16_384:])
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_one_number(path: Path) -> None:
    """Change a vector, with SQLite itself none the wiser."""
    content = path.read_bytes()
    vector = encode(["text 7"]).tobytes()
    assert content.count(vector) == 1
    path.write_bytes(content.replace(vector, vector[:-1] + bytes([vector[-1] ^ 1])))


def swap_vectors(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE vectors SET data = (SELECT data FROM vectors WHERE id = 1) WHERE id = 2")
    database.commit()
    database.close()


def drop_table(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("DROP TABLE vectors")
    database.commit()
    database.close()


def other_version(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()


@pytest.mark.parametrize(
    "damage",
    [damage_header, damage_middle, cut_short, change_one_number, swap_vectors, drop_table, other_version],
)
def test_damage_is_found_and_put_aside(tmp_path: Path, damage: object) -> None:
    texts = texts_of(500)
    cache = VectorCache(tmp_path)
    look_up(cache, texts)
    cache.close()
    assert callable(damage)
    damage(store_file(tmp_path))
    with pytest.warns(DataWarning, match="damaged .* put aside"):
        found = look_up(VectorCache(tmp_path), texts)
    np.testing.assert_array_equal(found, encode(texts))
    assert (tmp_path / "damaged" / "vectors.sqlite").exists()
    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts, never), encode(texts))


def test_random_damage_never_gives_a_wrong_vector(tmp_path: Path) -> None:
    texts = texts_of(300)
    cache = VectorCache(tmp_path)
    look_up(cache, texts)
    cache.close()
    sound = store_file(tmp_path).read_bytes()
    random = numpy_generator(0, "damage")
    n_found = 0
    for _ in range(60):
        content = bytearray(sound)
        for place in random.integers(len(content), size=int(random.integers(1, 40))):
            content[place] = int(random.integers(256))
        for path in (tmp_path / "store").iterdir():
            path.unlink()
        store_file(tmp_path).write_bytes(content)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cache = VectorCache(tmp_path)
            np.testing.assert_array_equal(look_up(cache, texts), encode(texts))
            cache.close()
        n_found += bool(caught)
    assert n_found > 10


def test_two_instances_and_one_damaged_file(tmp_path: Path) -> None:
    """The second one to see the damage must not put aside the new file of the first."""
    texts = texts_of(500)
    first, second = VectorCache(tmp_path), VectorCache(tmp_path)
    look_up(first, texts)
    look_up(second, texts, never)
    database = sqlite3.connect(store_file(tmp_path))
    database.execute("UPDATE vectors SET data = zeroblob(length(data))")
    database.commit()
    database.close()
    with pytest.warns(DataWarning, match="put aside"):
        look_up(first, texts)
    np.testing.assert_array_equal(look_up(second, texts, never), encode(texts))


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = VectorCache(tmp_path / "file" / "cache")
    with pytest.warns(DataWarning, match="going on without it"):
        np.testing.assert_array_equal(look_up(cache, ["a"]), encode(["a"]))
    np.testing.assert_array_equal(look_up(cache, ["a"]), encode(["a"]))  # and says so once


def test_a_read_only_file_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up(VectorCache(tmp_path), ["a"])

    def write(self: VectorStore, keys: list[bytes], vectors: NDArray[np.float32]) -> None:
        self._database.execute("PRAGMA query_only = ON")
        self._insert(keys, vectors)

    monkeypatch.setattr(VectorStore, "write", write)
    cache = VectorCache(tmp_path)
    with pytest.warns(DataWarning, match="readonly"):
        np.testing.assert_array_equal(look_up(cache, ["b"]), encode(["b"]))


def test_a_full_disk_means_no_cache(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    look_up(cache, texts_of(10))
    cache._open()._database.execute("PRAGMA max_page_count = 12")
    many = texts_of(3_000, "many")
    with pytest.warns(DataWarning, match="full"):
        np.testing.assert_array_equal(look_up(cache, many), encode(many))
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
    encoder = Encoder()
    np.testing.assert_array_equal(
        look_up(VectorCache(tmp_path), texts_of(1_000), encoder), encode(texts_of(1_000))
    )
    # Nineteen blocks of ten had been stored before the twentieth was begun.
    assert 0 < len(encoder.asked) <= 1_000 - 190


def test_killed_while_writing(tmp_path: Path) -> None:
    """At any moment: most of the time of these workers goes into writing."""
    for pause_s in (0.25, 0.3, 0.35, 0.4):
        worker = start_worker(tmp_path, 0, 20_000, 0.0)
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(pause_s - 0.2)
        worker.kill()
        worker.communicate(timeout=60)
    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts_of(2_000)), encode(texts_of(2_000)))
    assert not (tmp_path / "damaged").exists()


def test_threads_share_one_cache(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path)
    wrong: list[int] = []

    def work(number: int) -> None:
        texts = texts_of(200, f"thread {number % 2}")
        if not (look_up(cache, texts) == encode(texts)).all():
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_of_two_results_the_first_one_stays(tmp_path: Path) -> None:
    """While one computes, another stores: both go on with what was stored."""
    other = VectorCache(tmp_path)

    def slow(texts: list[str]) -> NDArray[np.float32]:
        look_up(other, texts)
        return encode(texts) + np.float32(1e-6)

    np.testing.assert_array_equal(look_up(VectorCache(tmp_path), texts_of(5), slow), encode(texts_of(5)))


def test_a_cache_can_be_sent_to_a_worker(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, max_bytes=10**6)
    look_up(cache, ["a"])
    copy = pickle.loads(pickle.dumps(cache))  # noqa: S301 - our own bytes
    assert copy.max_bytes == 10**6
    look_up(copy, ["a"], never)


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUSTTC_CACHE", str(tmp_path))
    assert default_cache_folder() == tmp_path / "vectors" == VectorCache().folder
    monkeypatch.delenv("ROBUSTTC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform.startswith("linux"):
        assert default_cache_folder() == tmp_path / "xdg" / "robusttc" / "vectors"
    assert VectorCache.disabled().folder is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_opens_the_file_anew(tmp_path: Path) -> None:
    code = (
        "import os, sys; import numpy as np\n"
        "from robusttc.encoders.vector_cache import VectorCache\n"
        f"cache = VectorCache({str(tmp_path)!r})\n"
        "ones = lambda texts: np.ones((len(texts), 2))\n"
        "cache.get_or_compute('m', ['a'], ones, 2)\n"
        "child = os.fork()\n"
        "cache.get_or_compute('m', [f'{bool(child)} {i}' for i in range(50)], ones, 2)\n"
        "if child: sys.exit(os.waitpid(child, 0)[1])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    cache = VectorCache(tmp_path)
    texts = [f"{flag} {number}" for flag in (True, False) for number in range(50)]
    assert (cache.get_or_compute("m", texts, never, 2) == 1).all()
