"""`robusttc fit`, killed and stopped on the way, ends with the same bytes as undisturbed."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import pytest
from crash_fit import Ended, after, digest_results, list_names, run_fit, stored, stored_rows, write_tasks
from robusttc.run.places import remove_half_saved

# To draw other moments: ROBUSTTC_CRASH_SEED=12 pytest -m slow tests/crash
SEED = int(os.environ.get("ROBUSTTC_CRASH_SEED", "0"))
OPTIONS = ("--encoder", "cnn", "--clusters", "2")


def check_undisturbed(ended: Ended, out: Path) -> dict[str, str]:
    assert ended.code == 0, ended.said
    found = digest_results(out)
    assert {"scores.csv", "clusters.csv"} < found.keys()
    assert len(found) >= 2 + 2 * 3  # two models of three files
    return found


def test_stopped_once_and_killed_three_times(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 4)
    expected = check_undisturbed(run_fit(tasks, tmp_path / "calm", *OPTIONS), tmp_path / "calm")
    out = tmp_path / "run"
    asked = run_fit(tasks, out, *OPTIONS, end_when=stored(out, "transfer", 2), end_by=signal.SIGTERM)
    assert asked.code == 130, asked.said
    assert asked.seconds < 10
    assert asked.said.endswith("All finished work is kept: run the same command again to go on\n")
    seen = stored_rows(out)
    two = (*OPTIONS, "--workers", "2")
    # Twice in the middle of the longest stage, and while files are written; with one worker and with two.
    moments = [
        (OPTIONS, stored(out, "multitask", 3)),
        (two, stored(out, "multitask", 7)),
        (OPTIONS, lambda _: (out / "clusters.csv").exists()),
    ]
    for options, end_when in moments:
        killed = run_fit(tasks, out, *options, end_when=end_when)
        assert killed.code == -signal.SIGKILL, killed.said
        rows = stored_rows(out)
        assert len(rows) > len(seen)
        seen = rows
    ended = run_fit(tasks, out, *two)
    assert ended.code == 0, ended.said
    # What was stored before a kill was not done again: it has its old time.
    assert set(seen) <= set(stored_rows(out))
    assert [row[:3] for row in stored_rows(out)] == [row[:3] for row in stored_rows(tmp_path / "calm")]
    assert digest_results(out) == expected
    assert list_names(out) == list_names(tmp_path / "calm")  # nothing half-written is left over


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["cnn", "sentence"])
def test_killed_25_times_at_random(encoder: str, tmp_path: Path) -> None:
    options = ("--encoder", encoder, "--clusters", "3")
    tasks = write_tasks(tmp_path / "tasks", 12)
    calm = run_fit(tasks, tmp_path / "calm", *options)
    expected = check_undisturbed(calm, tmp_path / "calm")
    generator = random.Random(SEED)
    n_kills = n_runs = 0
    while n_kills < 25:
        n_runs += 1
        out = tmp_path / f"run-{n_runs}"
        seen: set[object] = set()
        while True:
            # Nothing is done in the first seconds; some kills come so early all the same.
            moment = generator.uniform(0.0, 0.5 * calm.seconds) if n_kills < 25 else float("inf")
            workers = generator.choice("12")
            ended = run_fit(tasks, out, *options, "--workers", workers, end_when=after(moment))
            rows = set(stored_rows(out))
            told = f"seed {SEED}, {out.name}, {moment:.3f} s: {ended.code}, {len(rows)} units stored"
            print(told)  # noqa: T201 - shown by pytest
            assert seen <= rows
            seen = set(rows)
            if ended.code == 0:
                break
            assert ended.code == -signal.SIGKILL, ended.said
            n_kills += 1
        assert digest_results(out) == expected
        assert list_names(out) == list_names(tmp_path / "calm")


@pytest.mark.slow
def test_killed_at_every_moment_of_saving_models(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 4)
    expected = check_undisturbed(run_fit(tasks, tmp_path / "calm", *OPTIONS), tmp_path / "calm")
    out = tmp_path / "run"
    saving = str(Path(__file__).parent / "crash_saving.py")
    # Two models of three files each: the kills come later and later, until there is nothing left to kill.
    for moment, times in [("write", 1), ("write", 3), ("sync", 1), ("rename", 1), ("sync", 2), ("rename", 1)]:
        killed = run_fit(tasks, out, *OPTIONS, program=[sys.executable, saving, moment, str(times)])
        assert killed.code == -signal.SIGKILL, (moment, times, killed.said)
    assert any(name.startswith("models/.") for name in list_names(out))  # so there is something to clear
    assert run_fit(tasks, out, *OPTIONS).code == 0
    assert digest_results(out) == expected
    assert list_names(out) == list_names(tmp_path / "calm")


def test_half_saved_models_are_removed_where_a_whole_one_stands(tmp_path: Path) -> None:
    for name in ("multitask", ".multitask.new-0", ".multitask.old", ".fewshot.old", ".fewshot.new-1"):
        (tmp_path / "models" / name).mkdir(parents=True)
    remove_half_saved(tmp_path)
    left = sorted(path.name for path in (tmp_path / "models").iterdir())
    assert left == [".fewshot.new-1", ".fewshot.old", "multitask"]


@pytest.mark.slow
def test_ray_gives_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    tasks = write_tasks(tmp_path / "tasks", 6)
    expected = check_undisturbed(run_fit(tasks, tmp_path / "calm", *OPTIONS), tmp_path / "calm")
    out = tmp_path / "run"
    ray = (*OPTIONS, "--executor", "ray", "--workers", "2")
    killed = run_fit(tasks, out, *ray, end_when=stored(out, "multitask", 3))
    assert killed.code == -signal.SIGKILL, killed.said
    ended = run_fit(tasks, out, *ray)
    assert ended.code == 0, ended.said
    assert digest_results(out) == expected
