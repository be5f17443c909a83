"""The part ``models`` of `benchmarks.ground`: softmax regression, training, encoding, compilation.

The problems are written to a file once; every version solves them in a process of its own, which is this
module run as a script on that file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SETS = 30  # bots whose validation accuracy is compared
TIMED = range(0, SETS, 5)  # those whose softmax fits are timed
TRAINED = 15  # the one whose training is timed
KINDS = ("vectors", "words")
ENCODED_TEXTS = 20_000
RELU_SHAPE = (300, 200, 12)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
RELU_ROW = "softmax, 200 ReLU features, kind accuracy, s"
ENCODING_ROW = "encoding 20,000 texts by the convolution, s"
# What is measured, and the modules of version 0.1 that had it.
NAMES = {
    "TrainingSettings": "settings",
    "add_converged_head": "single_task",
    "fit_softmax": "softmax",
    "multiply_rows": "products",
    "new_layer": "layer",
    "train_model": "training",
}
Arrays = dict[str, NDArray[Any]]


def measure(old: Path | None) -> list[list[str]]:
    """Return the rows of the table."""
    root = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        problems = Path(folder) / "problems.npz"
        np.savez(problems, **make_problems())  # type: ignore[arg-type]
        new = run("new", problems, root / "src", root)
        plain = run("plain", problems, root / "src", root)
        before = {} if old is None else run("old", problems, old / "src", root)
    rows = []
    for what, value in new.items():
        is_time = what.endswith("s")
        ratio = f"{before[what] / value:.2f}" if what in before and is_time else ""
        rows.append([what, *(show(found.get(what), is_time) for found in (new, plain, before)), ratio])
    return rows


def show(value: float | None, is_time: bool) -> str:
    """Return a number for the table."""
    if value is None:
        return ""
    return f"{value:.4f}" if is_time and value < 1 else f"{value:.2f}"


def run(version: str, problems: Path, source: Path, root: Path) -> dict[str, float]:
    """Measure one version in a process of its own, with an empty cache of compiled code."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, **ONE_THREAD, "NUMBA_CACHE_DIR": cache}
        environment["PYTHONPATH"] = os.pathsep.join([str(source), str(root)])
        command = [sys.executable, __file__, version, str(problems)]
        done = subprocess.run(command, env=environment, cwd=source, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def make_problems() -> Arrays:
    """Make the problems of bots175: sentence vectors, word numbers and word vectors."""
    from benchmarks.report import find_data
    from robusttc import load_tasks
    from robusttc.data import TaskSet
    from robusttc.encoders import CnnEncoder, DenseInputs, SentenceEncoder, WordInputs

    tasks = load_tasks(find_data("bots175"))
    names = sorted(tasks.names)[:: len(tasks) // SETS][:SETS]
    chosen = TaskSet([tasks[name] for name in names])
    sentences, words = SentenceEncoder(device="cpu").prepare(chosen), CnnEncoder().prepare(tasks)
    assert isinstance(sentences.inputs, DenseInputs)
    assert isinstance(words.inputs, WordInputs)
    texts = words.inputs.take(np.arange(min(ENCODED_TEXTS, len(words.inputs))))
    problems: Arrays = {
        "vectors": words.inputs.vectors,
        "all ids": texts.tokens.ids,
        "all offsets": texts.tokens.offsets,
    }
    for number, name in enumerate(names):
        task = tasks[name]
        problems[f"{number} n_labels"] = np.array(len(task.label_names))
        for split in ("train", "valid"):
            rows = task.rows(split)
            of_words = words.inputs_of(name, rows)
            assert isinstance(of_words, WordInputs)
            problems[f"{number} {split} codes"] = task.label_codes[rows].astype(np.int64)
            problems[f"{number} {split} matrix"] = sentences.inputs.matrix[sentences.items_of(name, rows)]
            problems[f"{number} {split} ids"] = of_words.tokens.ids
            problems[f"{number} {split} offsets"] = of_words.tokens.offsets
    return problems


def relu_problem() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Make features of a random ReLU layer, and labels that can be learned."""
    n_rows, width, n_labels = RELU_SHAPE
    generator = np.random.default_rng(0)
    codes = np.arange(n_rows) % n_labels
    hidden = generator.normal(size=(n_labels, 30))[codes] + generator.normal(size=(n_rows, 30))
    features = np.maximum(hidden @ generator.normal(size=(30, width)), 0) / np.sqrt(30)
    return features.astype(np.float32), codes


def cpu_seconds(work: Callable[[], object], n_times: int = 3) -> float:
    """Return the CPU seconds of the best run."""
    seconds = []
    for _ in range(n_times):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


class Version:
    """Our code, new or old, on the problems."""

    def __init__(self, version: str, problems: Arrays) -> None:
        self.problems = problems
        if version == "new":
            homes = dict.fromkeys(NAMES, "robusttc.models")
        else:
            homes = {name: f"robusttc.encoders.{module}" for name, module in NAMES.items()}
        found = {name: getattr(import_module(home), name) for name, home in homes.items()}
        self.settings = found["TrainingSettings"]
        self.fit_softmax, self.multiply_rows = found["fit_softmax"], found["multiply_rows"]
        self.add_converged_head = found["add_converged_head"]
        self.new_layer, self.train_model = found["new_layer"], found["train_model"]
        if version == "new":
            self.fit_loosely = partial(self.fit_softmax, tol=1e-2)
        else:
            self.fit_loosely = import_module("robusttc.encoders.softmax_quick").fit_softmax_quickly

    def fit(self, number: int, C: float) -> Any:
        """Fit the softmax classifier of a bot on its sentence vectors."""
        matrix, codes = self.problems[f"{number} train matrix"], self.problems[f"{number} train codes"]
        n_labels = int(self.problems[f"{number} n_labels"])
        return self.fit_softmax(matrix, codes, n_labels=n_labels, C=C, balanced=True)

    def train(self, number: int, kind: str, **changes: Any) -> Any:
        """Train the layer and the head of a bot."""
        return self.train_model(
            inputs_of(self.problems, f"{number} train", kind),
            self.problems[f"{number} train codes"],
            n_labels=int(self.problems[f"{number} n_labels"]),
            settings=self.settings(**changes),
            generator=np.random.default_rng(number),
        )

    def judge(self, number: int) -> dict[str, float]:
        """Return the validation accuracy of a bot's models."""
        truth = self.problems[f"{number} valid codes"]
        predicted = {"softmax": self.fit(number, 3.0).predict_codes(self.problems[f"{number} valid matrix"])}
        for kind in KINDS:
            codes, inputs = (
                self.problems[f"{number} train codes"],
                inputs_of(self.problems, f"{number} train", kind),
            )
            model = self.add_converged_head(self.train(number, kind), inputs, codes, 3.0, True)
            predicted[f"single-task, {kind}"] = model.predict_codes(
                inputs_of(self.problems, f"{number} valid", kind)
            )
        return {name: float((codes == truth).mean()) for name, codes in predicted.items()}


def inputs_of(problems: Arrays, name: str, kind: str) -> Any:
    """Return the inputs of some rows: their vectors, or their words."""
    if kind == "vectors":
        return find("DenseInputs")(problems[f"{name} matrix"])
    tokens = find("TokenArray")(problems[f"{name} ids"], problems[f"{name} offsets"])
    return find("WordInputs")(tokens, problems["vectors"])


def find(name: str) -> Any:
    """Return a class from where it is now, or where it was in version 0.1."""
    places = ["encoders", "encoders.inputs", "data", "data.tokens", "data.token_array"]
    for place in places:
        try:
            return getattr(import_module(f"robusttc.{place}"), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(name)


def measure_version(version: str, problems: Arrays) -> dict[str, float]:
    """Time and judge our code, new or old."""
    from robusttc.transfer.leave_one_out import leave_one_out_log_likelihood

    ours, texts = Version(version, problems), inputs_of(problems, "all", "words")
    layer = ours.new_layer(texts, settings=ours.settings(), generator=np.random.default_rng(0))
    relu, relu_codes = relu_problem()
    # The first calls, with nothing compiled; the order decides who pays for what they share.
    first: dict[str, Callable[[], object]] = {
        "softmax": lambda: ours.fit(0, 3.0),
        "softmax, kind accuracy": lambda: ours.fit_loosely(relu, relu_codes, n_labels=12),
        "product": lambda: ours.multiply_rows(relu[:5], relu[:200, :7]),
        "training, vectors": lambda: ours.train(0, "vectors", epochs=1, min_steps=0),
        "training, words": lambda: ours.train(0, "words", epochs=1, min_steps=0, embeddings="pretrained"),
        "encoding, words": lambda: layer.represent(texts.take(np.arange(3))),
        "leave-one-out": lambda: leave_one_out_log_likelihood(relu[:, :6], relu_codes, 12, 1.0),
    }
    compiling = {f"first call: {name}, s": cpu_seconds(work, 1) for name, work in first.items()}
    result = {softmax_row(C): cpu_seconds(partial(fit_all, ours.fit, C)) for C in (3.0, 30.0)}
    result[RELU_ROW] = cpu_seconds(lambda: ours.fit_loosely(relu, relu_codes, n_labels=12))
    for kind in KINDS:
        seconds = cpu_seconds(partial(ours.train, TRAINED, kind))
        result[f"training step, {kind}, ms"] = 1000 * seconds / count_steps(ours.settings(), problems)
    result[ENCODING_ROW] = cpu_seconds(lambda: layer.represent(texts))
    result |= compiling
    result["first calls together, s"] = sum(compiling.values())
    judged = [ours.judge(number) for number in range(SETS) if len(problems[f"{number} valid codes"])]
    for name in judged[0]:
        result[f"validation accuracy, {name}, %"] = 100 * float(np.mean([each[name] for each in judged]))
    return result


def fit_all(fit: Callable[[int, float], object], C: float) -> None:
    """Fit the classifiers of the bots that are timed."""
    for number in TIMED:
        fit(number, C)


def softmax_row(C: float) -> str:
    """Return the name of a row."""
    return f"softmax, six bots, C={C:g}, s"


def count_steps(settings: Any, problems: Arrays) -> int:
    """Return the number of steps of training the bot that is timed."""
    n_rows = len(problems[f"{TRAINED} train codes"])
    n_steps: int = settings.count_epochs(n_rows) * -(-n_rows // settings.batch_size)
    return n_steps


def measure_plain(problems: Arrays) -> dict[str, float]:
    """Time the usual libraries on the same problems."""
    import torch
    from sklearn.linear_model import LogisticRegression

    from benchmarks.torch_training import encode_with_torch, train_with_torch
    from robusttc.models import ConvolutionLayer, TrainingSettings

    torch.set_num_threads(1)
    relu, relu_codes = relu_problem()
    settings = TrainingSettings()

    def fit(number: int, C: float) -> Any:
        model = LogisticRegression(C=C, class_weight="balanced", max_iter=1000)
        return model.fit(problems[f"{number} train matrix"], problems[f"{number} train codes"])

    def train(kind: str) -> None:
        train_with_torch(
            inputs_of(problems, f"{TRAINED} train", kind),
            problems[f"{TRAINED} train codes"],
            n_labels=int(problems[f"{TRAINED} n_labels"]),
            settings=settings,
            generator=np.random.default_rng(0),
        )

    texts = inputs_of(problems, "all", "words")
    layer = ConvolutionLayer.new(texts, settings=settings, generator=np.random.default_rng(0))
    result = {softmax_row(C): cpu_seconds(partial(fit_all, fit, C)) for C in (3.0, 30.0)}
    result[RELU_ROW] = cpu_seconds(lambda: LogisticRegression(max_iter=1000).fit(relu, relu_codes))
    for kind in KINDS:
        seconds = cpu_seconds(partial(train, kind))
        result[f"training step, {kind}, ms"] = 1000 * seconds / count_steps(settings, problems)
    result[ENCODING_ROW] = cpu_seconds(lambda: encode_with_torch(texts, layer))
    scores = [
        float((fit(number, 3.0).predict(problems[f"{number} valid matrix"]) == valid).mean())
        for number in range(SETS)
        if len(valid := problems[f"{number} valid codes"])
    ]
    result["validation accuracy, softmax, %"] = 100 * float(np.mean(scores))
    return result


if __name__ == "__main__":
    which, path = sys.argv[1:]
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    found = measure_plain(arrays) if which == "plain" else measure_version(which, arrays)
    print(json.dumps(found))
