"""`robusttc demo` as a newcomer runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from robusttc.cli import main
from robusttc.data.loading import load_tasks
from robusttc.data.synthetic import make_planted_tasks


def test_demo_writes_and_inspects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    for _ in range(2):  # the second time must be as good as the first
        assert main(["demo", "--out", str(out), "--tasks", "12", "--seed", "1"]) == 0
        text = capsys.readouterr().out
        assert "Planted 12 tasks of 6 families" in text
        assert "12 tasks, " in text
    planted = make_planted_tasks(n_tasks=12, random_state=1)
    assert load_tasks(out / "tasks") == planted.tasks


def test_demo_does_not_mix_with_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.csv").write_text("precious")
    assert main(["demo", "--out", str(tmp_path), "--tasks", "12"]) == 2
    assert "mine.csv" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "tasks").iterdir()] == ["mine.csv"]
