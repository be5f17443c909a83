"""What is compared: the public surface, bad files, and whole runs. Each gives values by identifier."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.compare_old.inputs import Input
from benchmarks.compare_old.versions import ROOT, Version, run_many, run_timed

BAD_FILES = Path("tests") / "bad_files"
GOOD_CODES = (0, 3)  # 3: finished, but something was left out or is not certain
PLACE = re.compile(rf"{BAD_FILES.as_posix()}/([^\s:'\"]+)(?::(?:row )?(\d+))?(?::(\d+))?")
NAMED_TASK = re.compile(r"task '([^']*)'")
# Lock and database files that are there only while a run is open.
PASSING_FILES = ("-wal", "-shm", ".lock")


def collect_surface(version: Version, work: Path) -> dict[str, str]:
    """Record the surface as `make golden` does; help texts are compared by their options alone."""
    out = work / f"surface-{version.name}"
    version.python(str(ROOT / "tests" / "golden" / "record_golden.py"), "--out", str(out), cache=work)
    found = {}
    for path in sorted(out.rglob("*.txt")):
        section = path.relative_to(out).with_suffix("")
        if section.parts[0] != "help":
            for line in path.read_text(encoding="utf-8").splitlines():
                key, _, said = line.partition(": ")
                found[f"{section.as_posix()}/{key}"] = said
    return found


def collect_bad_files(version: Version, work: Path) -> dict[str, str]:
    """Inspect every bad file: the exit code, and which places and tasks the message names."""
    entries = json.loads((ROOT / BAD_FILES / "index.json").read_text(encoding="utf-8"))
    commands = [
        ["inspect", (BAD_FILES / entry["path"]).as_posix()]
        + [f"--{name.replace('_', '-')}={value}" for name, value in entry.get("options", {}).items()]
        for entry in entries
    ]
    ended = run_many(version, commands, cache=work / f"cache-{version.name}", work=work)
    return {
        f"bad-files/{entry['path']}": describe_refusal(one["code"], one["err"])
        for entry, one in zip(entries, ended, strict=True)
    }


def describe_refusal(code: object, message: str) -> str:
    """Return exit code, places and tasks of an error; the words are free to change.

    >>> describe_refusal(4, "Error: tests/bad_files/a.csv:3: task 'x' has no rows")
    "exit code 4, a.csv:3, task 'x'"
    """
    places = [":".join(part for part in found if part) for found in PLACE.findall(message)]
    tasks = [f"task '{name}'" for name in NAMED_TASK.findall(message)]
    return ", ".join([f"exit code {code}", *dict.fromkeys([*places, *tasks])])


def list_steps(given: Input, folder: Path, workers: int) -> dict[str, list[str]]:
    """Return the commands of a whole run, all with the defaults of the product."""
    tasks, run, scores = str(given.tasks), str(folder / "run"), str(folder / "scores.csv")
    text = folder / "text.txt"
    text.write_text("where is my order\n", encoding="utf-8")
    return {
        "inspect": ["inspect", tasks],
        "measure": ["measure", tasks, "--out", scores, "--workers", str(workers)],
        "cluster": ["cluster", scores, "--out", str(folder / "clusters.csv")],
        "fit": ["fit", tasks, "--out", run, "--workers", str(workers)],
        "predict": ["predict", run, str(text), "--task", given.a_task],
        "evaluate": ["evaluate", run, "--json"],
        "report": ["report", run],
    }


def collect_run(
    version: Version, given: Input, work: Path, workers: int, vectors: Path | None
) -> dict[str, Any]:
    """Run all commands on a set: what each took, accuracies of all tasks, sizes of the files."""
    folder = work / f"{given.name}-{version.name}"
    folder.mkdir()
    cache = folder / "cache"
    if vectors is not None:
        shutil.copytree(vectors / version.name, cache)
    took = {}
    for step, arguments in list_steps(given, folder, workers).items():
        one = run_timed(version, arguments, cache=cache, out=folder / f"{step}.out")
        took[step] = asdict(one)
        print(f"{version.name} {given.name}: {step} {one.wall:.1f} s, exit code {one.code}", file=sys.stderr)
        if one.code not in GOOD_CODES:
            print((folder / f"{step}.err").read_text(encoding="utf-8")[-2000:], file=sys.stderr)
            if version.name == "old":
                sys.exit("The old code failed, which must not be kept as its result.")
            return {"took": took, "served": {}, "few-shot": {}, "sizes": {}}
    evaluated = json.loads((folder / "evaluate.out").read_text(encoding="utf-8"))
    # Before tasks are adapted, which adds files.
    sizes = measure_files(folder / "run")
    return {
        "took": took,
        "served": read_accuracies(evaluated),
        "few-shot": adapt_held_out(version, given, folder, cache),
        "sizes": sizes,
    }


def read_accuracies(evaluated: dict[str, Any]) -> dict[str, float]:
    """Return the accuracy of the served model of every task, by the names that the keys have had."""
    found = {}
    for task in evaluated["tasks"]:
        served = task["served"]
        if served is not None:
            found[task.get("task", task.get("name"))] = served["mean"] if isinstance(served, dict) else served
    return found


def adapt_held_out(version: Version, given: Input, folder: Path, cache: Path) -> dict[str, float]:
    """Adapt to every held-out task, and return the accuracies on its other rows; 0 where that fails."""
    run, commands = str(folder / "run"), []
    for number, (examples, texts, _) in enumerate(given.held_out.values()):
        name = f"held out {number}"
        commands += [
            ["adapt", run, str(examples), "--name", name],
            ["predict", run, str(texts), "--task", name],
        ]
    predicted = run_many(version, commands, cache=cache, work=folder)[1::2]
    found = {}
    for task, one in zip(given.held_out, predicted, strict=True):
        labels = given.held_out[task][2]
        answers = [row["label"] for row in csv.DictReader(io.StringIO(one["out"]))]
        right = sum(answer == label for answer, label in zip(answers, labels, strict=False))
        found[task] = right / len(labels)
    return found


def measure_files(run: Path) -> dict[str, int]:
    """Return the bytes of a run's files; those that only differ in a hash or a number are added up."""
    sizes: dict[str, int] = {}
    for path in run.rglob("*"):
        if path.is_file() and not path.name.endswith(PASSING_FILES):
            name = re.sub(r"\b[0-9a-f]{16,64}\b", "<hash>", path.relative_to(run).as_posix())
            name = re.sub(r"\b\d{4,}\b", "<number>", name)
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    return {"all files": sum(sizes.values()), **sizes}
