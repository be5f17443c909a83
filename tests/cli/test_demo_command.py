"""`robusttc demo` as a newcomer runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from robusttc.cli import main
from robusttc.data.loading import load_tasks
from robusttc.data.synthetic import make_planted_tasks
from robusttc.data.taskset import TaskSet
from robusttc.encoders.encoder import PreparedTasks, distinct_texts
from robusttc.encoders.inputs import DenseInputs
from robusttc.progress import Progress
from robusttc.scores import read_scores
from robusttc.seeds import numpy_generator


class RandomWords:
    """A quick stand-in for a sentence model: the mean of random vectors of the words."""

    name = "random words"
    fingerprint = "random words"

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        del progress
        texts, items = distinct_texts(tasks, splits)
        words = {word for text in texts for word in text.split()}
        vector_of = {word: numpy_generator(0, "word", [word]).normal(size=32) for word in words}
        means = [np.mean([vector_of[word] for word in text.split()], axis=0) for text in texts]
        return PreparedTasks(DenseInputs(np.array(means, dtype=np.float32)), items)


def find_agreement(text: str) -> float:
    found = re.search(r"adjusted Rand index, 1 is perfect\): (\S+)", text)
    assert found
    return float(found[1])


def find_accuracies(text: str, table: str) -> list[float]:
    """Give the accuracies of own, shared and ours in one of the tables."""
    lines = text[text.index(table) :].splitlines()
    rows = [next(line for line in lines if name in line) for name in ("own (", "shared (", "ours (")]
    return [float(re.findall(r"(\d+\.\d) \[", row)[0]) for row in rows]


def test_demo_writes_and_inspects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("transfer.measure", "multitask.estimator", "fewshot.estimator", "baselines.own_task"):
        monkeypatch.setattr(f"robusttc.{user}.make_encoder", lambda *_, **__: RandomWords())
    out = tmp_path / "demo"
    for _ in range(2):  # the second time must be as good as the first
        assert main(["demo", "--out", str(out), "--tasks", "12", "--seed", "1"]) == 0
        text = capsys.readouterr().out
        assert "Planted 12 tasks of 6 families" in text
        assert "12 tasks, " in text
        assert "132 scores between 12 tasks" in text
        for word in ("Halves: ", "Directions: ", "Donors: ", "Number of clusters: "):
            assert word in text
        find_agreement(text)
        for word in ("Multi-task, test rows", "Few-shot, test rows", "ours (with clusters)"):
            assert word in text
    planted = make_planted_tasks(n_tasks=12, random_state=1)
    assert load_tasks(out / "tasks") == planted.tasks
    assert read_scores(out / "scores.csv").task_names == planted.tasks.names
    assert sorted(file.name for file in out.iterdir()) == [
        "clusters.csv",
        "clusters.png",
        "scores.csv",
        "tasks",
    ]


def test_demo_finds_the_families(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Training takes a minute or two; the slow tests below and the estimators' own look at that.
    monkeypatch.setattr("robusttc.cli.demo.learn_aloud", lambda *_: None)
    # The tasks of the README's demo, so that the tests compute their sentence vectors once.
    assert main(["demo", "--out", str(tmp_path / "demo"), "--tasks", "24"]) == 0
    assert find_agreement(capsys.readouterr().out) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_demo_finds_the_families_whatever_the_seed(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo"), "--seed", str(seed)]) == 0
    text = capsys.readouterr().out
    assert find_agreement(text) >= 0.9
    # Clusters pay on planted tasks of different kinds, and the verdict says so.
    own, shared, ours = find_accuracies(text, "Multi-task")
    assert ours > max(own, shared) + 1
    assert "Clusters help these tasks" in text
    own, _, ours = find_accuracies(text, "Few-shot")
    assert ours > own + 1


def test_demo_does_not_mix_with_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.csv").write_text("precious")
    assert main(["demo", "--out", str(tmp_path), "--tasks", "12"]) == 2
    assert "mine.csv" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "tasks").iterdir()] == ["mine.csv"]
