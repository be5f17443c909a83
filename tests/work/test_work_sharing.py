"""Data that processes share through a mapped file."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.errors import StoreError
from robusttc.work.sharing import ALIGNMENT, PREFIX, open_shared, remove_left_over, share

LARGE = 20_000


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "doubles": np.random.default_rng(0).normal(size=(LARGE, 3)),
    "singles": np.random.default_rng(1).normal(size=LARGE).astype(np.float32),
    "columns": np.asfortranarray(np.arange(LARGE * 2.0).reshape(LARGE, 2)),
    "bytes": np.frombuffer(os.urandom(LARGE + 1), dtype=np.uint8).copy(),
    "texts": np.array([f"text {number}" for number in range(LARGE)]),
    "objects": np.array(["a", "bc"] * LARGE, dtype=object),
    "every second": np.arange(LARGE * 2)[::2],
    "read-only": read_only(np.arange(LARGE)),
    "small": np.arange(3),
    "small read-only": read_only(np.arange(3)),
    "empty": np.zeros((0, 3)),
    "scalar": np.array(2.5),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_as_they_were(name: str, tmp_path: Path) -> None:
    array = ARRAYS[name]
    made = share({"before": 1, "array": array}, tmp_path)
    back = open_shared(made.data)["array"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.flags.writeable == array.flags.writeable
    assert back.flags.f_contiguous == array.flags.f_contiguous or name == "every second"
    np.testing.assert_array_equal(back, array)
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_blocks_are_in_the_file_and_not_in_the_head(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(1000, 100))
    made = share([vectors, {"same": vectors}, "odd", np.ones(LARGE, dtype=np.uint8)], tmp_path)
    assert len(made.data.head) < 1000
    assert Path(made.data.path).stat().st_size >= vectors.nbytes + LARGE
    assert all(begin % ALIGNMENT == 0 for begin, _ in made.data.spans)
    # The same array twice is written once, and is one array again.
    assert len(made.data.spans) == 2
    back = open_shared(made.data)
    assert back[0] is back[1]["same"]
    made.remove()


def test_file_is_for_this_user_alone(tmp_path: Path) -> None:
    made = share(np.zeros(LARGE), tmp_path)
    assert stat.S_IMODE(Path(made.data.path).stat().st_mode) == 0o600
    made.remove()


def test_without_large_arrays_there_is_no_file(tmp_path: Path) -> None:
    made = share(["some", "words", np.arange(5)], tmp_path)
    assert made.data.path == ""
    assert list(tmp_path.iterdir()) == []
    assert open_shared(made.data)[:2] == ["some", "words"]
    made.remove()


def test_what_one_reader_writes_no_other_one_sees(tmp_path: Path) -> None:
    original = np.zeros(LARGE)
    made = share(original, tmp_path)
    before = Path(made.data.path).read_bytes()
    first, second = open_shared(made.data), open_shared(made.data)
    first += 1.0
    assert first.sum() == LARGE
    assert second.sum() == 0
    assert original.sum() == 0
    assert Path(made.data.path).read_bytes() == before
    made.remove()


def test_readers_keep_what_they_see_after_removal(tmp_path: Path) -> None:
    made = share(np.ones(LARGE), tmp_path)
    back = open_shared(made.data)
    made.remove()
    made.remove()
    assert back.sum() == LARGE


SCRIPT = """
import sys, time
import numpy as np
from pathlib import Path
from robusttc.work.sharing import share
made = share(np.ones(20_000), Path(sys.argv[1]))
print("made", flush=True)
time.sleep(60)
"""


def test_files_of_killed_processes_are_removed_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    mine = share(np.zeros(LARGE), tmp_path)
    other = tmp_path / "notes.bin"
    other.write_text("not ours")
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"made\n"
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 2
        assert remove_left_over(tmp_path) == 0
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert remove_left_over(tmp_path) == 1
    assert open_shared(mine.data).sum() == 0
    mine.remove()
    assert list(tmp_path.iterdir()) == [other]


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere.*cannot be written.*No such file.*TMPDIR"):
        share(np.zeros(LARGE), tmp_path / "nowhere")


def test_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    # Files over this size fail in the middle of the write, as on a full disk.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(StoreError, match=f"{PREFIX}.*cannot be written.*too large"):
            share(np.zeros(LARGE), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_cleared_away_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robusttc.work import sharing

    real, n_calls = sharing.try_lock, 0

    def cleared_first(file: Any) -> bool:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            for path in tmp_path.iterdir():
                path.unlink()
        return real(file)

    monkeypatch.setattr(sharing, "try_lock", cleared_first)
    made = share(np.ones(LARGE), tmp_path)
    assert n_calls == 2
    assert open_shared(made.data).sum() == LARGE
    made.remove()
