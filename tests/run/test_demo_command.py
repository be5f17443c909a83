"""`robusttc demo` as a newcomer runs it."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny_run

from robusttc.cli import main
from robusttc.data import PlantedTasks, load_tasks, make_planted_tasks
from robusttc.fewshot import FewShotSettings, MetricSettings
from robusttc.jobs import Job

N_TASKS = 12
OPTIONS = ("--tasks", str(N_TASKS), "--seed", "1")


def plant_little(n_tasks: int, random_state: int) -> PlantedTasks:
    """Few rows, so that a demo takes seconds."""
    return make_planted_tasks(n_tasks=n_tasks, rows=(30, 60), labels=(2, 4), random_state=random_state)


class Interrupted(tiny_run.Inline):
    """Somebody presses Ctrl-C as soon as models are trained."""

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:
        if job.key.startswith("multitask/"):
            raise KeyboardInterrupt
        super().submit(job, shared, time_limit)


@contextlib.contextmanager
def quick_parts(executor: type[tiny_run.Inline] = tiny_run.Inline) -> Iterator[None]:
    """A sentence model of random weights, few rows, few steps, and no processes."""
    with pytest.MonkeyPatch.context() as patch:
        model = tiny_run.tiny_model()
        settings = FewShotSettings(metric=MetricSettings(steps=20))
        patch.setattr("robusttc.encoders.model_folder.default_model_folder", lambda: model)
        patch.setattr("robusttc.cli.demo.make_planted_tasks", plant_little)
        patch.setattr("robusttc.run.fit.make_executor", lambda *_, **__: executor())
        patch.setattr("robusttc.fewshot.estimator.default_settings", lambda *_, **__: settings)
        yield


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


def say(*arguments: str, **parts: Any) -> Said:
    """Run a command with quick parts, and give its code and what it said."""
    out, err = io.StringIO(), io.StringIO()
    with quick_parts(**parts), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo is; with a blank, so that printed commands must be quoted."""
    return tmp_path_factory.mktemp("journey") / "my demo"


@pytest.fixture(scope="module")
def stopped(place: Path) -> Said:
    """What a demo says that is stopped on the way."""
    return say("demo", "--out", str(place), *OPTIONS, executor=Interrupted)


@pytest.fixture(scope="module")
def journey(place: Path, stopped: Said) -> Said:
    """What it says when it goes on, to its end."""
    assert stopped.code == 130
    return say("demo", "--out", str(place), *OPTIONS)


def test_every_line(place: Path, journey: Said) -> None:
    assert journey.code == 0, journey.err
    quoted = shlex.quote(f"{place}/X").replace("X'", "{}'").format
    number = r"[-+]?\d+\.\d"
    interval = rf"{number} \[{number}, {number}\]"
    title = r"Test accuracy: mean over {} \[95 % interval\] *"
    patterns = [
        rf"1\. 12 tasks, planted in {re.escape(str(place))}/tasks: one CSV file each\.",
        r"   They are of 6 families, which are ways of labelling texts:",
        r"   topic, tone, urgency, fine_intent, coarse_intent, beneficiary\.",
        r"   Tasks of one family can help each other\. Nobody is told which are of one family\.",
        r"",
        r"2\. What is there, and what is worth mending",
        re.escape(f"   $ robusttc inspect {quoted('tasks')} --limit 6 --no-cost"),
        r"",
        r"task +rows +labels +train +valid +test +median words",
        *[rf"task-000{task}( +\d+){{5}} +[\d.]+" for task in range(6)],
        r"… and 6 more tasks \(--limit 0 shows all\)",
        r"",
        r"12 tasks, \d+ rows \(.*\), \d+ distinct texts, \d+ labels, different label sets\.",
        r"",
        r"3\. Which tasks help each other, and what it is worth",
        re.escape(f"   $ robusttc fit {quoted('tasks')} --out {quoted('run')} ")
        + r"--encoder sentence --n-folds 2 --n-random 1 --seed 1 --workers [12]",
        r"",
        r"\d clusters? of \d.* tasks \(.*\)\.",
        r"Groups .*|All tasks are one cluster: .*",
        r"  cluster 0: task-.* \(planted: \d of \w+.*\)",
        rf"Agreement with the planted families \(adjusted Rand index, 1 is perfect\): -?{number}\d",
        r"",
        title.format("12 tasks"),
        rf". own: each task alone +. {interval} . +.",
        rf". shared: one model of all +. +{interval} . +{interval} .",
        rf". served: what predicts +. +{interval} . +{interval} .",
        r".* \(multi-task, 12 tasks\)[.;].*|There is only one cluster.*",
        r"On test rows sharing helps .*",
        r"",
        r"4\. A new task comes, with a handful of examples",
        re.escape(f"   $ robusttc adapt {quoted('run')} {quoted('new-task.csv')} --name new-task --replace"),
        r"",
        r"new-task: learned from \d+ examples of \d labels\.",
        r"Each example left out in its turn, \d+% of them are predicted right\.",
        rf"Of \d+ other rows of it, in {re.escape(str(place))}/new-task-test\.csv, "
        rf"{number}% are predicted right;",
        rf"by logistic regression on its examples alone, {number}%\.",
        r"",
        title.format("6 new tasks"),
        rf"\W*own: logistic regression +\W*{interval}\W*",
        rf"\W*shared: one metric of all +\W*{interval}\W+{interval}\W*",
        rf"\W*ours: what adapt gives +\W*{interval}\W+{interval}\W*",
        r".* \(few-shot, 12 tasks\)[.;].*|There is only one cluster.*",
        r"",
        r"5\. All of it on one page, to open in a browser",
        re.escape(f"   $ robusttc report {quoted('run')}"),
        r"",
        rf"Report: {re.escape(str(place))}/run/report\.html \(.*\)",
        r"",
        r"6\. What to try next with your own data",
        r"   Put it into a folder, here clients, with one CSV file a task: text,label\.",
        r"",
        r"   robusttc inspect clients",
        r"   robusttc fit clients --out run",
        r"   robusttc adapt run new-client\.csv --name new-client",
        r"   robusttc predict run --task new-client texts\.txt",
        r"",
        r"   A page to try all tasks of this demo, and an API \(pip install 'robusttc\[serve\]'\):",
        r"",
        re.escape(f"   robusttc serve {quoted('run')}"),
    ]
    # In this order; lines of tables and findings may stand between them.
    lines = iter(journey.out.splitlines())
    for pattern in patterns:
        assert any(re.fullmatch(pattern, line) for line in lines), pattern
    assert list(lines) == []
    assert (place / "run" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_it_goes_on_where_it_was_stopped(place: Path, stopped: Said, journey: Said) -> None:
    assert stopped.code == 130
    assert stopped.err.endswith(
        f"Error: {place}: stopped. All finished work is kept: run the same command again to go on\n"
    )
    assert "transfer: done" in stopped.err
    assert "4. A new task" not in stopped.out
    # All that was said before the run is said again, to the letter.
    assert journey.out.startswith(stopped.out)


def test_again_it_shows_what_is_there(place: Path, journey: Said) -> None:
    manifest = (place / "run" / "current" / "manifest.json").read_bytes()
    again = say("demo", "--out", str(place), *OPTIONS, executor=Interrupted)
    assert again.code == 0
    assert again.err == ""
    said = f"The run in {place}/run is finished: there is nothing to do.\n\n"
    assert without_times(again.out.replace(said, "")) == without_times(journey.out)
    assert said in again.out
    assert (place / "run" / "current" / "manifest.json").read_bytes() == manifest


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d s\)", "s)", text)


def test_the_commands_that_it_prints_do_the_same(place: Path, journey: Said) -> None:
    commands = re.findall(r"^   \$ robusttc (.*)$", journey.out, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["inspect", "fit", "adapt", "report"]
    shown = without_times(journey.out).splitlines()
    for command in commands:
        # Nothing is left to do, so whoever works is a mistake.
        done = say(*shlex.split(command), executor=Interrupted)
        assert done.code == 0, done.err
        lines = [line for line in without_times(done.out).splitlines() if line]
        if command.startswith("fit"):
            assert lines[0] == f"The run in {place}/run is finished: there is nothing to do."
            # A fit says more than the demo; of its own table the demo leaves nothing out.
            lines = [line for line in lines if line[0] in "┃│" or line.startswith("On test rows")]
            # With one cluster there is no row of cluster models.
            assert len(lines) == 5 + ("cluster: one a cluster" in journey.out)
        assert [line for line in lines if line not in shown] == []


def test_the_files(place: Path, journey: Said) -> None:
    assert journey.code == 0
    names = sorted(path.name for path in place.iterdir())
    assert names == ["demo.json", "new-task-test.csv", "new-task.csv", "run", "tasks"]
    planted = plant_little(N_TASKS + 6, 1)
    assert load_tasks(place / "tasks") == planted.tasks.subset(planted.tasks.names[:N_TASKS])
    new = planted.tasks["task-0012"]
    examples, test = (
        list(csv.DictReader(io.StringIO((place / name).read_text()))) for name in ("new-task.csv", names[1])
    )
    rows = {split: set(new.texts_at(new.rows(split))) for split in ("train", "test")}
    assert {row["label"] for row in examples} == set(new.label_names)
    assert len(examples) <= 20 + len(new.label_names)
    assert {row["text"] for row in examples} <= rows["train"]
    assert {row["text"] for row in test} == rows["test"]
    predicted = say("predict", str(place / "run"), "--task", "new-task", str(place / "new-task-test.csv"))
    assert predicted.code == 0
    answers = list(csv.DictReader(io.StringIO(predicted.out)))
    share = sum(a["label"] == row["label"] for a, row in zip(answers, test, strict=True)) / len(test)
    assert f"{share:.1%} are predicted right" in journey.out


def test_another_demo_is_not_mixed_in(place: Path, journey: Said) -> None:
    assert journey.code == 0
    before = {path: path.read_bytes() for path in sorted(place.rglob("*.csv"))}
    other = say("demo", "--out", str(place), "--tasks", "13", "--seed", "1")
    assert other.code == 2
    assert "the folder holds another demo; got --tasks 12 --seed 1" in other.err
    assert say("demo", "--out", str(place), "--tasks", "12", "--seed", "2").code == 2
    assert {path: path.read_bytes() for path in sorted(place.rglob("*.csv"))} == before


def test_changed_tasks_are_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / "demo.json").write_text('{"format": "robusttc demo", "n_tasks": 12, "seed": 1}')
    (out / "tasks").mkdir()
    (out / "tasks" / "task-0003.csv").write_text("text,label\nhi,greet\nhello,greet\nbye,leave\nciao,leave\n")
    (out / "tasks" / "mine.csv").write_text("text,label\nhi,greet\nhello,greet\nbye,leave\nciao,leave\n")
    said = say("demo", "--out", str(out), *OPTIONS)
    assert said.code == 2
    assert "no longer the tasks of the demo" in said.err
    assert "other rows of 'mine', 'task-0003'" in said.err
    assert "hello" in (out / "tasks" / "task-0003.csv").read_text()
    assert not (out / "run").exists()


@pytest.mark.parametrize("name", ["tasks/mine.csv", "run/current", "notes.txt", "demo.json"])
def test_a_foreign_folder_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("precious")
    said = say("demo", "--out", str(tmp_path), *OPTIONS)
    assert said.code == 2
    assert "the folder holds other files" in said.err
    assert repr(name.split("/")[0]) in said.err
    assert "--out" in said.err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    assert file.read_text() == "precious"


def test_places_and_seeds_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for out in ("file", "file/inside"):
        said = say("demo", "--out", str(tmp_path / out), *OPTIONS)
        assert said.code == 2
        assert "cannot be made" in said.err
    for option in (("--seed", "-1"), ("--tasks", "11")):
        assert say("demo", "--out", str(tmp_path / "new"), *option).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_hidden_files_are_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").write_text("")
    said = say("demo", "--out", str(tmp_path), *OPTIONS, executor=Interrupted)
    assert said.code == 130


def find_agreement(text: str) -> float:
    found = re.search(r"adjusted Rand index, 1 is perfect\): (\S+)", text)
    assert found
    return float(found[1])


def find_accuracies(text: str, table: str) -> list[float]:
    """Give the accuracies of own, shared and ours (what serves) in one of the tables."""
    lines = text[text.index(table) :].splitlines()
    ours = "ours:" if "new" in table else "served:"
    rows = [next(line for line in lines if name in line) for name in ("own:", "shared:", ours)]
    return [float(re.findall(r"(\d+\.\d) \[", row)[0]) for row in rows]


@pytest.mark.slow
def test_clusters_are_found_and_pay_whatever_the_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_new_tasks = []
    for seed in range(5):
        assert main(["demo", "--out", str(tmp_path / f"demo {seed}"), "--seed", str(seed)]) == 0
        text = capsys.readouterr().out
        of_new_tasks.append(find_accuracies(text, "mean over 6 new tasks"))
        with capsys.disabled():
            print(f"\nseed {seed}:", find_agreement(text), find_accuracies(text, "mean over 36 tasks"))  # noqa: T201
            print(of_new_tasks[-1], *re.findall("Clusters.*", text), sep="\n")  # noqa: T201
        assert find_agreement(text) >= 0.9
        assert "Groups predict unmeasured pairs (p < 0.001)" in text
        own, shared, ours = find_accuracies(text, "mean over 36 tasks")
        assert ours > max(own, shared)
        verdicts = re.findall(r"^Clusters .*\((?:multi-task|few-shot), 36 tasks\).*$", text, re.MULTILINE)
        assert len(verdicts) == 2
        assert all(verdict.startswith("Clusters help these tasks by") for verdict in verdicts)
    # The six new tasks of one seed say little; the thirty of all seeds do.
    own, shared, ours = (sum(column) / len(column) for column in zip(*of_new_tasks, strict=True))
    assert ours > shared + 1
    assert shared > own + 1
