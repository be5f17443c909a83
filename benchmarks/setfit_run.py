"""SetFit on few-shot tasks, for comparison: accuracy and seconds a task.

SetFit is no dependency of this project. It runs in an environment of its own, made with the versions of
constraints.txt, so the tasks go through a file:

    python -m benchmarks.setfit_run make tasks.json --names bot-001 bot-002 --judge valid
    python -m venv setfit && setfit/bin/pip install setfit . -c constraints.txt
    setfit/bin/python -m benchmarks.setfit_run run tasks.json results.json

The file is a list of objects with ``name``, ``train`` and ``test``, the latter two with ``texts`` and
``labels``. The sentence model is the MiniLM of all other figures, the head SetFit's own (logistic
regression), the contrastive training SetFit's default of one epoch over its pairs. SetFit's head is neither
balanced nor tuned, which costs it much where most labels have one row; so what the regression of
`robusttc.baselines` finds on the vectors that SetFit trained is written too, for each C it is tuned over
(``right_of_head``).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SEED = 0


def make(path: Path, *, data: str, names: list[str], judge: str, seed: int) -> None:
    from benchmarks.report import find_data
    from robusttc.data import load_tasks
    from robusttc.fewshot import few_shot_rows

    tasks = load_tasks(find_data(data))
    written = []
    for name in names:
        task = tasks[name]
        parts = {"train": few_shot_rows(task, random_state=seed), "test": task.rows(judge)}
        written.append(
            {"name": name}
            | {
                part: {"texts": list(task.texts_at(rows)), "labels": task.labels[rows].tolist()}
                for part, rows in parts.items()
            }
        )
    path.write_text(json.dumps(written), encoding="utf-8")


def run(path: Path, results: Path, *, epochs: int, batch_size: int, max_steps: int) -> None:
    if importlib.util.find_spec("setfit") is None:
        sys.exit(
            "SetFit is not installed here. It is no dependency of this project: make an environment of its "
            "own, as the first lines of benchmarks/setfit_run.py say."
        )
    written = []
    for task in json.loads(path.read_text(encoding="utf-8")):
        row = run_one(task, epochs=epochs, batch_size=batch_size, max_steps=max_steps)
        written.append(row)
        print(f"{row['name']}: accuracy {row['accuracy']:.3f}, {row['seconds']:.1f} s", flush=True)
        # After every task: a run of hours that is cut short keeps what it has.
        results.write_text(json.dumps(written, indent=1), encoding="utf-8")


def run_one(task: dict[str, Any], *, epochs: int, batch_size: int, max_steps: int) -> dict[str, Any]:
    from datasets import Dataset

    from robusttc.encoders.model_folder import default_model_folder

    # Not by an import: where it is not installed, a type checker has nothing to look at.
    setfit = importlib.import_module("setfit")
    label_names = sorted(set(task["train"]["labels"]))
    code_of = {label: code for code, label in enumerate(label_names)}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model = setfit.SetFitModel.from_pretrained(str(default_model_folder()), device="cpu")
        arguments = setfit.TrainingArguments(
            output_dir=folder,
            batch_size=batch_size,
            num_epochs=epochs,
            max_steps=max_steps,
            seed=SEED,
            report_to="none",
            save_strategy="no",
            show_progress_bar=False,
        )
        codes = [code_of[label] for label in task["train"]["labels"]]
        rows = Dataset.from_dict({"text": task["train"]["texts"], "label": codes})
        trainer = setfit.Trainer(model=model, args=arguments, train_dataset=rows)
        trainer.train()
    seconds = time.perf_counter() - start
    found = [label_names[int(code)] for code in model.predict(task["test"]["texts"], show_progress_bar=False)]
    right = [one == other for one, other in zip(found, task["test"]["labels"], strict=True)]
    seconds_to_predict = time.perf_counter() - start - seconds
    return {
        "name": task["name"],
        "given": hash_given(task),
        "n_train": len(codes),
        "n_labels": len(label_names),
        "n_test": len(right),
        "accuracy": sum(right) / len(right),
        "right": right,
        "right_of_head": try_heads(model, task, codes, label_names),
        "seconds": seconds,
        "seconds_to_predict": seconds_to_predict,
    }


def try_heads(model: Any, task: dict[str, Any], codes: list[int], labels: list[str]) -> dict[str, list[bool]]:
    """Tell which test rows balanced regressions get right on the vectors of SetFit, by their C."""
    import numpy as np

    from robusttc.baselines.single_task import LOGISTIC_FEW_SHOT_GRID, LOGISTIC_GRID, LOGISTIC_MAX_ITER
    from robusttc.models import fit_softmax

    given, asked = (
        np.asarray(model.encode(task[part]["texts"], show_progress_bar=False), dtype=np.float32)
        for part in ("train", "test")
    )
    right = {}
    for C in sorted({*LOGISTIC_GRID, *LOGISTIC_FEW_SHOT_GRID}):
        fitted = fit_softmax(
            given, np.asarray(codes), n_labels=len(labels), C=C, balanced=True, max_iter=LOGISTIC_MAX_ITER
        )
        pairs = zip(fitted.predict_codes(asked).tolist(), task["test"]["labels"], strict=True)
        right[name_head(C)] = [labels[code] == truth for code, truth in pairs]
    return right


def name_head(C: float) -> str:
    """Give the name that a head has in the results.

    >>> name_head(1000.0)
    '1000'
    """
    return f"{C:g}"


def hash_given(task: dict[str, Any]) -> str:
    """Hash what SetFit was given, so that its results can be found for the same rows alone."""
    given = json.dumps([task["train"], task["test"]], sort_keys=True)
    return hashlib.sha256(given.encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="SetFit on few-shot tasks.")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write a file of few-shot tasks")
    making.add_argument("path", type=Path)
    making.add_argument("--data", default="bots175")
    making.add_argument("--names", nargs="+", required=True)
    making.add_argument("--judge", default="test", help="the split to judge on")
    making.add_argument("--seed", type=int, default=SEED)
    running = commands.add_parser("run", help="train SetFit on each of them")
    running.add_argument("path", type=Path)
    running.add_argument("results", type=Path)
    running.add_argument("--epochs", type=int, default=1)
    running.add_argument("--batch-size", type=int, default=16)
    running.add_argument("--max-steps", type=int, default=-1, help="at most so many steps; -1 is no limit")
    options = parser.parse_args()
    if options.command == "make":
        make(options.path, data=options.data, names=options.names, judge=options.judge, seed=options.seed)
    else:
        limits = {"batch_size": options.batch_size, "max_steps": options.max_steps}
        run(options.path, options.results, epochs=options.epochs, **limits)


if __name__ == "__main__":
    main()
