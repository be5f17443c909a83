"""A run that takes seconds: a sentence model of random weights, a handful of tasks, made once a process."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from robusttc.cli import main
from robusttc.data import Task, TaskSet, write_tasks
from robusttc.encoders.model_folder import default_model_folder
from robusttc.errors import WorkError
from robusttc.jobs import InProcessExecutor, Job, Result
from robusttc.run import RunFolder

FAMILIES = [
    {"track": "where is my parcel {}", "refund": "give my money back {}", "greet": "hello good morning {}"},
    {"sunny": "the sky is blue {}", "rain": "water falls from clouds {}", "snow": "all streets are white {}"},
]
WORDS = ["now", "today", "please", "again", "soon", "here", "there", "quickly", "maybe", "indeed"]
N_TASKS = 6
SPLITS = ["train"] * 6 + ["valid"] * 2 + ["test"] * 2


@functools.cache
def scratch() -> Path:
    """A folder that is gone when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="robusttc-tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def tiny_model() -> Path:
    """A BERT of one layer with random weights, which is a model like any other."""
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    folder = scratch() / "model"
    ignored = shutil.ignore_patterns("*.safetensors", "data_config.json")
    shutil.copytree(default_model_folder(), folder, ignore=ignored)
    config = BertConfig(
        vocab_size=30_522, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = BertModel(config).state_dict()  # type: ignore[no-untyped-call]
    (folder / "config.json").write_text(json.dumps({**config.to_dict(), "architectures": ["BertModel"]}))
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "model.safetensors")
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({**json.loads(pooling.read_text()), "word_embedding_dimension": 32}))
    return folder


def make_task(number: int) -> Task:
    """Three labels of one of two families, ten rows each; a row in train and one in test are wrong."""
    texts, labels, splits = [], [], []
    names = list(FAMILIES[number % 2])
    for place, (label, template) in enumerate(FAMILIES[number % 2].items()):
        for row, split in enumerate(SPLITS):
            is_wrong = (place, row) in [(0, 9), (2, 4)]
            texts.append(template.format(f"{WORDS[row]} {WORDS[(row + number) % 10]}"))
            labels.append(names[1] if is_wrong else label)
            splits.append(split)
    return Task(f"task {number}", texts, labels, splits)


@functools.cache
def tiny_tasks() -> Path:
    """The folder of the tasks; the last one has one label, so it cannot be learned."""
    tasks = [make_task(number) for number in range(N_TASKS)]
    folder = scratch() / "tasks"
    write_tasks(TaskSet([*tasks, Task("unfit", ["hello", "hi", "you"], ["greet"] * 3)]), folder)
    return folder


def fit_options(tasks: Path | None = None) -> list[str]:
    """The arguments of the run, all but the folder; without the task that cannot be learned by default."""
    return [
        "fit",
        str(tasks or good_tasks()),
        "--model",
        str(tiny_model()),
        "--clusters",
        "2",
        "--n-folds",
        "2",
        "--n-random",
        "0",
        "--private",
        "task 5",
        "--no-cost",
    ]


@functools.cache
def good_tasks() -> Path:
    """The folder of the tasks that can be learned."""
    folder = scratch() / "good"
    shutil.copytree(tiny_tasks(), folder)
    (folder / "unfit.csv").unlink()
    return folder


@functools.cache
def finished_run() -> Path:
    """The folder of a finished run. Do not change anything in it: copy it."""
    folder = scratch() / "run"
    assert main([*fit_options(), "--quiet", "--out", str(folder)]) == 0
    return folder


class Inline(InProcessExecutor):
    """Runs jobs in this very process, which saves the start of another; some keys are poison.

    Processes and Ray are tested elsewhere, and in the tests that use neither this nor a copy.
    """

    def __init__(self, poison: Callable[[str], bool] = lambda _: False) -> None:
        super().__init__()
        self.poison = poison

    def submit(self, job: Job, shared: Any, time_limit: float) -> None:
        """Queue a job, or another one in its place that fails."""
        assert time_limit > 0
        super().submit(replace(job, function=fail) if self.poison(job.key) else job, shared, time_limit)


def fail(_shared: Any, _argument: Any) -> Result:
    """Fail as a poisoned job does."""
    raise WorkError("poison")


def copy_of_run(place: Path) -> Path:
    """A copy of the finished run that a test may change."""
    shutil.copytree(finished_run(), place, symlinks=True)
    return place


def digest_results(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of the current version; times are in its manifest alone."""
    version = RunFolder(folder).current()
    version.check()
    return {name: digest for name, (digest, _) in sorted(version.files.items())}
