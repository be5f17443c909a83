"""The plain way to do what the paper does, piece by piece, timed on a sample.

Word by word what one would write first: a torch CNN trained for every task, one after the other; for every
pair of tasks the target's texts encoded by the source's CNN and a softmax layer trained on them by a torch
loop; one torch model with a classifier a task for every cluster. No piece knows of another, nothing is kept
but the models. Epochs, batches and sizes are those of the library's own settings, so both do the same amount
of learning. One thread; CPU seconds, since other work may share the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from benchmarks.torch_training import ConvolutionModule, encode_with_torch, train_with_torch
from robusttc import TaskSet
from robusttc.encoders import PreparedTasks, WordInputs
from robusttc.models import ConvolutionLayer, TrainedModel, TrainingSettings
from robusttc.random import numpy_generator

__all__ = ["PlainWay", "Sampled"]

CLUSTER_EPOCHS, CLUSTER_RATE = 60, 1e-3  # as in `robusttc.multitask.PAPER`
MOST_CLUSTERS = 3
N_DRAWS = 2000


@dataclass(frozen=True)
class Sampled:
    """What a sample of pieces of work took, and what all of it would: seconds a step, times all steps.

    Attributes
    ----------
    seconds, steps
        The CPU seconds of each piece, and the steps of training that it has.
    n_all, steps_all
        How many pieces and steps there are.
    """

    seconds: tuple[float, ...]
    steps: tuple[int, ...]
    n_all: int
    steps_all: int

    def figures(self) -> dict[str, float | int | None]:
        """Give the estimate with its 95 % interval, of sampling alone: the bootstrap over pieces.

        Examples
        --------
        >>> Sampled((1.0, 3.0), (10, 30), 10, 200).figures()["estimated_seconds"]
        20.0
        """
        seconds, steps = np.array(self.seconds), np.array(self.steps)
        generator = numpy_generator(0, "bootstrap of the plain way")
        drawn = generator.integers(len(seconds), size=(N_DRAWS, len(seconds)))
        estimates = seconds[drawn].sum(axis=1) / steps[drawn].sum(axis=1) * self.steps_all
        low, high = np.quantile(estimates, [0.025, 0.975])
        return {
            "measured_seconds": float(seconds.sum()),
            "n_measured": len(seconds),
            "n_all": self.n_all,
            "steps_measured": int(steps.sum()),
            "steps_all": self.steps_all,
            "estimated_seconds": float(seconds.sum() / steps.sum() * self.steps_all),
            "low": float(low),
            "high": float(high),
        }


class PlainWay:
    """The plain way on one set of tasks; see the module."""

    def __init__(self, tasks: TaskSet, prepared: PreparedTasks, *, seed: int = 0) -> None:
        assert isinstance(prepared.inputs, WordInputs)
        self.tasks, self.prepared, self.seed = tasks, prepared, seed
        self.inputs = prepared.inputs
        self.settings = TrainingSettings()
        self.models: dict[str, TrainedModel] = {}
        order = numpy_generator(seed, "sample of the plain way").permutation(len(tasks))
        self.sample = [tasks.names[place] for place in order]

    def count_steps(self, name: str) -> int:
        """Count the steps of training on a task: of its own model, or of a layer on another's encoder."""
        n_rows = len(self.tasks[name].rows("train"))
        return self.settings.count_epochs(n_rows) * -(-n_rows // self.settings.batch_size)

    def rows_of(self, name: str, split: str) -> tuple[WordInputs, NDArray[np.int64]]:
        """Give the words and the label numbers of some rows of a task."""
        rows = self.tasks[name].rows(split)
        inputs = self.inputs.take(self.prepared.items_of(name, rows))
        assert isinstance(inputs, WordInputs)
        return inputs, self.tasks[name].label_codes[rows].astype(np.int64)

    def train_models(self, budget: float) -> Sampled:
        """Train the CNNs of tasks in random order, until the budget is spent; two at the least."""
        seconds: list[float] = []
        for name in self.sample:
            if len(seconds) > 1 and sum(seconds) > budget:
                break
            inputs, codes = self.rows_of(name, "train")
            start = time.process_time()
            self.models[name] = train_with_torch(
                inputs,
                codes,
                n_labels=len(self.tasks[name].label_names),
                settings=self.settings,
                generator=numpy_generator(self.seed, "plain model", [name]),
            )
            seconds.append(time.process_time() - start)
        steps = {name: self.count_steps(name) for name in self.tasks.names}
        done = tuple(steps[name] for name in self.sample[: len(seconds)])
        return Sampled(tuple(seconds), done, len(steps), sum(steps.values()))

    def score_pairs(self, budget: float) -> tuple[Sampled, list[float]]:
        """Score random pairs of a trained source and any target, until the budget is spent."""
        generator = numpy_generator(self.seed, "pairs of the plain way")
        seconds: list[float] = []
        scores: list[float] = []
        done: list[int] = []
        while len(seconds) < 2 or sum(seconds) < budget:
            source = str(generator.choice(sorted(self.models)))
            target = str(generator.choice([name for name in self.tasks.names if name != source]))
            start = time.process_time()
            scores.append(self.score_pair(source, target))
            seconds.append(time.process_time() - start)
            done.append(self.count_steps(target))
        others = len(self.tasks) - 1
        steps_all = others * sum(self.count_steps(name) for name in self.tasks.names)
        return Sampled(tuple(seconds), tuple(done), len(self.tasks) * others, steps_all), scores

    def score_pair(self, source: str, target: str) -> float:
        """Train a softmax layer of the target on the source's frozen encoder; give the accuracy on valid."""
        layer = self.models[source].layer
        assert isinstance(layer, ConvolutionLayer)
        (train, codes), (valid, truth) = (self.rows_of(target, split) for split in ("train", "valid"))
        features, held_out = (torch.from_numpy(encode_with_torch(own, layer)) for own in (train, valid))
        labels = torch.from_numpy(codes)
        head = nn.Linear(features.shape[1], len(self.tasks[target].label_names))
        optimiser = torch.optim.Adam(head.parameters(), lr=self.settings.learning_rate)
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.settings.count_epochs(len(codes))):
            order = torch.randperm(len(codes), generator=generator)
            for rows in torch.split(order, self.settings.batch_size):
                loss = functional.cross_entropy(head(features[rows]), labels[rows])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        if not len(truth):
            return float("nan")
        with torch.no_grad():
            guessed = head(held_out).argmax(dim=1).numpy()
        return float((guessed == truth).mean())

    def train_clusters(self, clusters: Sequence[Sequence[str]], budget: float) -> Sampled:
        """Train the models of three clusters step by step, until the budget is spent; a piece is a step.

        The number of all steps is that of 60 epochs over all rows of all clusters, in batches of at most 32
        rows of one task.
        """
        batches = {
            name: -(-len(self.tasks[name].rows("train")) // self.settings.batch_size)
            for cluster in clusters
            for name in cluster
        }
        # Every model has word vectors of its own, and Adam's means of them: a few of them at a time.
        trainers = [ClusterTrainer(self, cluster) for cluster in clusters[:MOST_CLUSTERS]]
        home = {name: trainer for trainer in trainers for name in trainer.heads}
        seconds: list[float] = []
        generator = numpy_generator(self.seed, "steps of the plain way")
        names = sorted(home)
        # A task comes up as often as it has batches: as in an epoch.
        weights = np.array([batches[name] for name in names], dtype=np.float64)
        weights /= weights.sum()
        while len(seconds) < 3 or sum(seconds) < budget:
            name = str(generator.choice(names, p=weights))
            start = time.process_time()
            home[name].step(name, generator)
            seconds.append(time.process_time() - start)
        # The first step allocates; it is not like the thousands after it.
        steps_all = CLUSTER_EPOCHS * sum(batches.values())
        return Sampled(tuple(seconds[1:]), (1,) * (len(seconds) - 1), steps_all, steps_all)


class ClusterTrainer:
    """One model of a cluster: trained word vectors, one convolution, a classifier a task, Adam on all."""

    def __init__(self, plain: PlainWay, names: Iterable[str]) -> None:
        self.plain = plain
        settings = plain.settings.replace(embeddings="pretrained")
        generator = numpy_generator(plain.seed, "plain cluster")
        layer = ConvolutionLayer.new(plain.inputs, settings=settings, generator=generator)
        self.module = ConvolutionModule(layer, plain.inputs.vectors)
        self.heads = {
            name: nn.Linear(layer.width, len(plain.tasks[name].label_names)) for name in sorted(names)
        }
        parameters = [*self.module.parameters()]
        for head in self.heads.values():
            parameters += [*head.parameters()]
        self.optimiser = torch.optim.Adam(parameters, lr=CLUSTER_RATE)

    def step(self, name: str, generator: np.random.Generator) -> None:
        """Make one step on a batch of one task."""
        rows = self.plain.tasks[name].rows("train")
        rows = generator.permutation(rows)[: self.plain.settings.batch_size]
        items = self.plain.prepared.items_of(name, rows)
        representation = self.module(*self.module.take(self.plain.inputs, items))
        kept = functional.dropout(representation, self.plain.settings.dropout)
        labels = torch.from_numpy(self.plain.tasks[name].label_codes[rows].astype(np.int64))
        loss = functional.cross_entropy(self.heads[name](kept), labels)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
