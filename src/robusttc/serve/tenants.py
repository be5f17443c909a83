"""The tasks of a run as a server has them: found by ids, predicted in mixed batches."""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders import DenseInputs, Encoder, FrozenInputs
from robusttc.errors import RobustTCError, UnknownTaskError
from robusttc.fewshot import FewShotModel
from robusttc.jobs import one_thread
from robusttc.run import Prediction, Run, RunFolder, TaskFigures, TaskPredictor
from robusttc.serve.batching import Slice
from robusttc.serve.metrics import Metrics
from robusttc.serve.settings import ServeSettings
from robusttc.stats import Estimate, share_interval

__all__ = ["ID_PATTERN", "Answer", "ServedRun", "Tenant", "Tenants", "support_accuracy", "task_id"]

logger = logging.getLogger("robusttc")

ID_PATTERN = "^[a-z0-9][a-z0-9_-]{0,63}$"
HASHED = re.compile("t-[0-9a-f]{16}")


def task_id(name: str) -> str:
    """Return the id that addresses a task in a URL: its name, if that is a plain word, else a hash of it.

    >>> task_id("acme"), task_id("../../etc/passwd")
    ('acme', 't-3754d6cb3a38e118')
    """
    if re.fullmatch(ID_PATTERN, name) and not HASHED.fullmatch(name):
        return name
    return f"t-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A task that is served.

    Attributes
    ----------
    id, name
        What addresses it, and its name.
    kind
        Whether it was in the fit, added, or adapted from a handful of examples.
    version
        The version of the run that changed it last.
    """

    id: str
    name: str
    kind: Literal["fitted", "added", "adapted"]
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What is said of one text: a row of what a task's model said, and the version of the task."""

    prediction: Prediction
    row: int
    version: int


def support_accuracy(model: FewShotModel) -> Estimate | None:
    """Return the leave-one-out accuracy of an adapted task; None where no example can be judged."""
    n, share = len(model.examples_.texts), model.support_accuracy_
    return None if math.isnan(share) else share_interval(round(share * n), n)


class Tenants:
    """One version of a run, and the table of its tasks."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.version = run.version.number

    @cached_property
    def by_id(self) -> Mapping[str, Tenant]:
        """The tasks by id, in the order of their names."""
        adapted, added = set(self.run.adapted_names), self.run.added
        changed: dict[str, int] = {}
        fitted = 1
        for change in self.run.history:
            if change.kind == "fit":
                fitted, changed = change.version, {}
            changed.update(dict.fromkeys(change.tasks, change.version))
        found = {}
        for name in self.run.task_names:
            kind: Literal["fitted", "added", "adapted"] = (
                "adapted" if name in adapted else "added" if name in added else "fitted"
            )
            one = Tenant(task_id(name), name, kind, changed.get(name, fitted))
            found[one.id] = one
        return found

    @cached_property
    def figures(self) -> Mapping[str, TaskFigures]:
        """What the test rows said of tasks, by name."""
        return {one.task: one for one in self.run.evaluation.tasks}

    def accuracy(self, tenant: Tenant) -> Estimate | None:
        """Return the accuracy of a task on held-out rows, of an adapted one by leaving out examples."""
        if tenant.kind == "adapted":
            return support_accuracy(self.run.adapted_model(tenant.name))
        figures = self.figures.get(tenant.name)
        return None if figures is None else figures.served

    @property
    def n_bytes(self) -> int:
        """The size of the models in the files of the version."""
        files = self.run.version.files.items()
        return sum(size for name, (_, size) in files if name.startswith(("models/", "adapted/")))

    def n_rows(self, tenant: Tenant) -> int:
        """Return how many rows a task was learned from."""
        if tenant.kind == "adapted":
            return len(self.run.adapted_model(tenant.name).examples_.texts)
        return len(self.run.rows_of(tenant.name))

    def find(self, task: str) -> Tenant:
        """Return the task with an id.

        Raises
        ------
        UnknownTaskError
            If there is none.
        """
        if task not in self.by_id:
            raise UnknownTaskError(task, ())
        return self.by_id[task]


class VectorMemory:
    """The vectors of texts that were asked lately, by a hash of the text; bounded, in memory alone."""

    def __init__(self, n_most: int) -> None:
        self.n_most = n_most
        self._vectors: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()

    def read(self, encoder: Encoder, texts: Sequence[str]) -> FrozenInputs:
        """Return the inputs of texts; those that are not remembered are encoded together."""
        if not self.n_most:
            return encoder.read(texts)
        prefix = encoder.fingerprint.encode()
        keys = [hashlib.blake2b(prefix + text.encode(), digest_size=16).digest() for text in texts]
        missing = [place for place, key in enumerate(keys) if key not in self._vectors]
        if len(missing) == len(texts):
            inputs = encoder.read(texts)
            if isinstance(inputs, DenseInputs):
                self._keep(keys, inputs.matrix)
            return inputs
        found = {key: self._vectors[key] for key in keys if key in self._vectors}
        if missing:
            new = encoder.read([texts[place] for place in missing])
            assert isinstance(new, DenseInputs)  # noqa: S101 - others are never remembered
            found |= {keys[place]: new.matrix[row] for row, place in enumerate(missing)}
        matrix = np.array([found[key] for key in keys])
        self._keep(keys, matrix)
        return DenseInputs(matrix)

    def _keep(self, keys: Sequence[bytes], matrix: NDArray[np.float32]) -> None:
        for key, vector in zip(keys, matrix, strict=True):
            self._vectors[key] = vector.copy()  # a view would keep the whole batch
            self._vectors.move_to_end(key)
        while len(self._vectors) > self.n_most:
            self._vectors.popitem(last=False)


class ServedRun:
    """The run that is served: always one whole version, replaced by the next one when that has been loaded.

    Parameters
    ----------
    folder
        The folder of the run.
    settings
        The device, and how many vectors are remembered.
    metrics
        Told of versions.
    """

    def __init__(self, folder: Path, settings: ServeSettings, metrics: Metrics) -> None:
        self.metrics = metrics
        self.tenants = Tenants(Run(folder, device=settings.device))
        self._memory = VectorMemory(settings.cached_vectors)
        self._refreshing = threading.Lock()
        self._refused: int | None = None
        metrics.observe_version(self.tenants.version, len(self.tenants.by_id))

    def copy(self) -> Run:
        """Return the run for a change, which opens the next version in it; this one goes on answering."""
        return copy.copy(self.tenants.run)

    def warm_up(self) -> None:
        """Load the models, and predict once, so that the first request does not wait for that."""
        names = self.tenants.run.task_names
        if names:
            self.answer([Slice(task_id(names[0]), ["hello"])])

    def is_behind(self) -> bool:
        """Return whether another version is current on disk than the one that answers."""
        current = RunFolder(self.tenants.run.folder).current_number()
        return current not in {self.tenants.version, self._refused}

    def refresh(self) -> Tenants:
        """Return the version that is current on disk; the one before stays if that is damaged."""
        with self._refreshing:
            if not self.is_behind():
                return self.tenants
            current = RunFolder(self.tenants.run.folder).current_number()
            try:
                run = copy.copy(self.tenants.run).reload()
                self._load_models(run)
                self.replace(run)
            except RobustTCError as error:
                # The one that answers now is whole: it goes on until there is a better one.
                self._refused = current
                self.metrics.observe_refused_version()
                logger.error("version %s of the run cannot be served: %s", current, error)
        return self.tenants

    def replace(self, run: Run) -> None:
        """Let another version answer from now on."""
        self.tenants = Tenants(run)
        self._memory = VectorMemory(self._memory.n_most)  # what was removed is not remembered, either
        self.metrics.observe_version(self.tenants.version, len(self.tenants.by_id))

    def _load_models(self, run: Run) -> None:
        """Load models ahead of the swap where they are not those of the version before."""
        if len(run.task_names) > len(run.adapted_names):
            _ = run.multitask
        if run.adapted_names:
            _ = run.fewshot

    def answer(self, slices: list[Slice]) -> list[list[Answer] | Exception]:
        """Return an answer a text for every slice; all texts of one encoder are encoded together."""
        tenants = self.tenants
        found: list[tuple[Tenant, TaskPredictor] | Exception] = []
        groups: dict[str, tuple[Encoder, dict[str, int]]] = {}
        for one in slices:
            try:
                tenant = tenants.find(one.task)
                predictor = tenants.run.predictor(tenant.name)
            except RobustTCError as error:
                found.append(error)
                continue
            found.append((tenant, predictor))
            _, numbers = groups.setdefault(predictor.encoder.fingerprint, (predictor.encoder, {}))
            for text in one.texts:
                numbers.setdefault(text, len(numbers))
        with one_thread():
            inputs = {
                key: self._memory.read(encoder, list(numbers)) for key, (encoder, numbers) in groups.items()
            }
            return [
                pair if isinstance(pair, Exception) else predict_slice(*pair, one.texts, inputs, groups)
                for pair, one in zip(found, slices, strict=True)
            ]


def predict_slice(
    tenant: Tenant,
    predictor: TaskPredictor,
    texts: Sequence[str],
    inputs: Mapping[str, FrozenInputs],
    groups: Mapping[str, tuple[Encoder, Mapping[str, int]]],
) -> list[Answer] | Exception:
    """Predict the texts of one task from the inputs of its batch."""
    key = predictor.encoder.fingerprint
    numbers = groups[key][1]
    try:
        own = inputs[key].take(np.array([numbers[text] for text in texts]))
        found = predictor.predict_encoded(texts, own)
    except RobustTCError as error:
        return error
    return [Answer(found, row, tenant.version) for row in range(len(texts))]
