"""Small tasks, and every command run on them once.

The same file drives the code of this clone and that of an older commit. What has different names in the two
is kept here and nowhere else: the entry point, the options that keep a run short, the arguments of `fit`.
"""

from __future__ import annotations

import contextlib
import csv
import inspect
import io
import json
import os
import re
import shutil
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAMILIES = [
    {"track": "where is my parcel {}", "refund": "give my money back {}", "greet": "hello good morning {}"},
    {"sunny": "the sky is blue {}", "rain": "water falls from clouds {}", "snow": "all streets are white {}"},
]
WORDS = ["now", "today", "please", "again", "soon", "here", "there", "quickly", "maybe", "indeed"]
SPLITS = ["train"] * 6 + ["valid"] * 2 + ["test"] * 2
TASK_NAMES = [f"task {number}" for number in range(6)]
ONE_LABEL = "one label"  # cannot be learned, so that every list of failures has an entry
ADDED, ADAPTED = "task 6", "task 7"
FREE_KEYS = {
    **dict.fromkeys([*TASK_NAMES, ONE_LABEL, ADDED, ADAPTED], "<task>"),
    **dict.fromkeys([label for family in FAMILIES for label in family], "<label>"),
}

# Options that only make a run shorter. One that a version does not have is left out.
SHORT_FIT = {
    "--no-cost": [],
    "--clusters": ["2"],
    "--n-folds": ["2"],
    "--n-random": ["1"],
    "--private": [TASK_NAMES[-1]],
}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def run_command(*arguments: str) -> Ended:
    """Run a command of the installed robusttc in this process."""
    from robusttc.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return Ended(code, out.getvalue(), err.getvalue())


def fix_terminal() -> None:
    """Make help texts the same whatever terminal they are asked from."""
    os.environ.update(COLUMNS="200", TERM="dumb", NO_COLOR="1")
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        os.environ.pop(name, None)


def read_help() -> dict[str, str]:
    """Return the help of the program (under "robusttc") and of each of its commands."""
    program = run_command("--help").out
    listed = program.partition("Commands")[2]
    names = re.findall(r"^[ │]+([a-z][a-z-]*) {2,}\S", listed, flags=re.MULTILINE)
    return {"robusttc": program, **{name: run_command(name, "--help").out for name in names}}


def write_small_tasks(folder: Path) -> None:
    """Write the tasks: `good` can be learned, `all` has one that cannot, the rest comes later."""
    for number, name in enumerate(TASK_NAMES):
        write_task(folder / "good" / f"{name}.csv", number)
    shutil.copytree(folder / "good", folder / "all")
    write_rows(folder / "all" / f"{ONE_LABEL}.csv", [(text, "greet", "train") for text in WORDS])
    write_task(folder / "more" / f"{ADDED}.csv", 6)
    write_task(folder / "examples.csv", 7)
    (folder / "texts.txt").write_text("where is my parcel\n", encoding="utf-8")
    with (folder / "good" / f"{TASK_NAMES[0]}.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["split"] == "test"]
    with (folder / "predictions.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["task", "text", "label", "predicted"])
        writer.writerows([TASK_NAMES[0], row["text"], row["label"], row["label"]] for row in rows)


def write_task(path: Path, number: int) -> None:
    """Write three labels with ten rows each; two labels are wrong, and one text is in train and test."""
    rows, labels = [], list(FAMILIES[number % 2])
    for place, (label, template) in enumerate(FAMILIES[number % 2].items()):
        for row, split in enumerate(SPLITS):
            is_wrong = (place, row) in [(0, 9), (2, 4)]
            text = template.format(f"{WORDS[row]} {WORDS[(row + number) % 10]}")
            rows.append((text, labels[1] if is_wrong else label, split))
    write_rows(path, [*rows, (rows[0][0], labels[2], "train"), (rows[10][0], labels[1], "test")])


def write_rows(path: Path, rows: list[tuple[str, str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([("text", "label", "split"), *rows])


def list_commands(folder: Path) -> dict[str, list[str]]:
    """Return the arguments with which each command is run, in an order in which each finds what it needs."""
    run, scores = str(folder / "run"), str(folder / "scores.csv")
    return {
        "inspect": [str(folder / "good")],
        "measure": [str(folder / "good"), "--out", scores],
        "cluster": [scores, "--out", str(folder / "clusters.csv")],
        "fit": [str(folder / "all"), "--out", run],
        "evaluate": [run],
        "report": [run],
        "explain": [run, "--task", TASK_NAMES[0]],
        "compare": [run, str(folder / "predictions.csv")],
        "predict": [run, str(folder / "texts.txt"), "--task", TASK_NAMES[0]],
        "adapt": [run, str(folder / "examples.csv"), "--name", ADAPTED],
        "add": [run, str(folder / "more")],
        "remove": [run, "--task", TASK_NAMES[3], "--yes"],
    }


def run_commands(folder: Path, helps: dict[str, str]) -> dict[str, Ended]:
    """Run every command, with `--json` where there is one; a copy of the run as `fit` left it is kept."""
    ended = {}
    commands = list_commands(folder)
    unknown = [name for name, text in helps.items() if "--json" in text and name not in commands]
    if unknown:
        sys.exit(f"golden_run.list_commands has no arguments for {', '.join(unknown)}, which prints JSON")
    for name, arguments in commands.items():
        if name not in helps:
            continue
        known = set(re.findall(r"--[a-z][\w-]*", helps[name]))
        if "--json" in known:
            arguments.append("--json")
        if name == "fit":
            short = [[option, *value] for option, value in SHORT_FIT.items() if option in known]
            arguments += [part for option in short for part in option]
        ended[name] = run_command(name, *arguments)
        if name == "fit":
            shutil.copytree(folder / "run", folder / "run-of-fit", symlinks=True)
    return ended


def fit_objects(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return fitted estimators by class, and other public objects by the call that makes them."""
    import numpy as np

    import robusttc as rtc

    tasks = rtc.load_tasks(folder / "good")
    scores = rtc.read_scores(folder / "scores.csv")
    clusters = {name: number % 2 for number, name in enumerate(tasks.names)}
    clustering = rtc.RobustTaskClustering(n_clusters=2).fit(scores)
    multitask = fit_on_clusters(rtc.ClusterMultiTask, tasks, clusters)
    fewshot = fit_on_clusters(rtc.ClusterFewShot, tasks, clusters)
    blocks = np.kron(np.eye(2), np.ones((3, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one text of the examples has two labels, on purpose
        adapted = fewshot.adapt(rtc.Task(ADAPTED, *read_columns(folder / "examples.csv")))
    objects = {
        "load_tasks()": tasks,
        "load_tasks()[name]": tasks[TASK_NAMES[0]],
        "read_scores()": scores,
        "inspect_tasks()": rtc.inspect_tasks(tasks),
        "make_planted_tasks()": rtc.make_planted_tasks(n_tasks=12, random_state=0),
        "complete_similarity()": rtc.complete_similarity(blocks, np.ones((6, 6), dtype=bool)),
        "RobustTaskClustering.certificate_": clustering.certificate_,
        "RobustTaskClustering.verdict_": getattr(clustering, "verdict_", None) or clustering.diagnosis_,
        "ClusterMultiTask.verdict_": multitask.verdict_,
        "ClusterFewShot.adapt()": adapted,
    }
    fitted = {type(one).__name__: one for one in (clustering, multitask, fewshot)}
    return fitted, objects


def fit_on_clusters(estimator: Any, tasks: Any, clusters: dict[str, int]) -> Any:
    """Fit an estimator whose `fit` takes clusters, whatever that parameter is called."""
    known = inspect.signature(estimator).parameters
    made = estimator(**{name: value for name, value in short_parameters(estimator).items() if name in known})
    if "clusters" in inspect.signature(made.fit).parameters:
        return made.fit(tasks, clusters=clusters)
    return made.fit(tasks, clusters)


def short_parameters(estimator: Any) -> dict[str, Any]:
    """Return parameters that make fitting shorter, under all names that they have had."""
    parameters: dict[str, Any] = {"n_folds": 2, "n_random": 1}
    if estimator.__name__ == "ClusterFewShot":
        with contextlib.suppress(ImportError):
            from robusttc.fewshot.settings import FewShotSettings, MetricSettings

            parameters["settings"] = FewShotSettings(metric=MetricSettings(steps=20))
    return parameters


def read_columns(path: Path) -> tuple[list[str], list[str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["split"] == "train"]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def read_summary(run: Path) -> Any:
    """Return the summary of a run, or None where a version has no such file."""
    path = next(
        (path for path in (run / "current" / "summary.json", run / "summary.json") if path.is_file()), run
    )
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
