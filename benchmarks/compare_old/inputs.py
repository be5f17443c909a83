"""What both versions are given: planted tasks, and the public sets without their test rows.

Rows of `test` are dropped as the file is read: they are for published figures alone. The `valid` rows take
their place, and a new `valid` is split off `train`. Some tasks are not fitted, but adapted to.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare_old.versions import Version
from benchmarks.report import SHARED

SETS = ("bots175", "diverse", "amazon69")
N_QUICK = 24
N_HELD_OUT = {True: 6, False: 12}  # quick or not
N_EXAMPLES = 5  # of a label, in a held-out task
PLANT = (
    "import sys, robusttc; "
    "robusttc.write_tasks(robusttc.make_planted_tasks(n_tasks=36, random_state=0).tasks, sys.argv[1])"
)

Row = tuple[str, str]  # text, label


@dataclass(frozen=True)
class Input:
    """A set of tasks, the name of one, and held-out tasks: examples, texts to predict, and their labels."""

    name: str
    tasks: Path
    a_task: str
    held_out: dict[str, tuple[Path, Path, list[str]]]
    digest: str


def find_set(name: str) -> Path | None:
    """Return the file of a public set, or None where it is absent."""
    path = SHARED / name / "tasks.jsonl.gz"
    return path if path.is_file() else None


def plant_tasks(old: Version, folder: Path) -> Input:
    """Write planted tasks with the old code, for both."""
    tasks = folder / "planted"
    old.python("-c", PLANT, str(tasks), cache=folder)
    return Input("planted", tasks, sorted(tasks.iterdir())[0].stem, {}, digest_of(tasks))


def prepare_set(name: str, source: Path, folder: Path, *, quick: bool) -> Input:
    """Write a public set without its test rows, or a part of its tasks."""
    folder = folder / name
    folder.mkdir()
    tasks = read_tasks(source)
    generator = random.Random(f"tasks of {name}")
    names = generator.sample(sorted(tasks), len(tasks))
    n_held_out = N_HELD_OUT[quick]
    fitted = sorted(names[n_held_out:][:N_QUICK] if quick else names[n_held_out:])
    path = folder / "tasks.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        for task in fitted:
            for split, rows in split_again(task, tasks[task]).items():
                for text, label in rows:
                    row = {"task": task, "text": text, "label": label, "split": split}
                    stream.write(json.dumps(row) + "\n")
    held_out = {task: hold_out(folder, task, tasks[task]) for task in sorted(names[:n_held_out])}
    return Input(name, path, fitted[0], held_out, digest_of(folder))


def read_tasks(source: Path) -> dict[str, dict[str, list[Row]]]:
    """Read the train and valid rows of every task."""
    tasks: dict[str, dict[str, list[Row]]] = defaultdict(lambda: {"train": [], "valid": []})
    with gzip.open(source, "rt", encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            if row["split"] in ("train", "valid"):
                tasks[row["task"]][row["split"]].append((row["text"], row["label"]))
    return tasks


def split_again(task: str, rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Give the valid rows the part of test, and split a new valid off train."""
    train, test = rows["train"], rows["valid"]
    if not train:  # six tasks of amazon69, whose training rows could not be had
        train, test = split_rows(test, f"test of {task}")
    train, valid = split_rows(train, f"valid of {task}")
    return {"train": train, "valid": valid, "test": test}


def split_rows(rows: list[Row], seed: str) -> tuple[list[Row], list[Row]]:
    """Take a fifth of each label's rows, and leave it at least one."""
    of_label: dict[str, list[Row]] = defaultdict(list)
    for row in random.Random(seed).sample(rows, len(rows)):
        of_label[row[1]].append(row)
    kept, taken = [], []
    for label in sorted(of_label):
        n_taken = min(round(len(of_label[label]) / 5), len(of_label[label]) - 1)
        taken += of_label[label][:n_taken]
        kept += of_label[label][n_taken:]
    return kept, taken


def hold_out(folder: Path, task: str, rows: dict[str, list[Row]]) -> tuple[Path, Path, list[str]]:
    """Write a handful of examples of each label, and the rows to try the adapted model on."""
    split = split_again(task, rows)
    examples: dict[str, list[Row]] = defaultdict(list)
    for row in split["train"]:
        if len(examples[row[1]]) < N_EXAMPLES:
            examples[row[1]].append(row)
    place = folder / "held-out" / hashlib.sha256(task.encode()).hexdigest()[:16]
    place.mkdir(parents=True)
    write_csv(place / "examples.csv", ("text", "label"), [row for part in examples.values() for row in part])
    write_csv(place / "texts.csv", ("text",), [row[:1] for row in split["test"]])
    return place / "examples.csv", place / "texts.csv", [label for _, label in split["test"]]


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([header, *rows])


def digest_of(folder: Path) -> str:
    """Return one digest of all files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
