"""ASAP-MT-LR: convex multi-task logistic regression that clusters the tasks while it learns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.baselines.asap_program import AsapSettings, AsapSolution, LinearTask, solve_asap
from robusttc.baselines.bag_of_words import BagOfWords
from robusttc.baselines.own_task import AUTO, TaskBaseline, check_values, prepare_tasks
from robusttc.baselines.task_model import Floats, TaskModel, TextReader, normalise_shares, require_vectors
from robusttc.data import Task, TaskSet
from robusttc.encoders.choosing import make_encoder
from robusttc.encoders.encoder import Encoder
from robusttc.encoders.inputs import DenseInputs
from robusttc.encoders.reading import reader_of
from robusttc.errors import DataError, UsageError, quote
from robusttc.progress import Progress, report
from robusttc.random import RandomState, child_seed, run_seed

__all__ = ["AsapBaseline", "asap_clusters"]

WORDS = "words"
# The first is the default where nothing can be tuned.
GRID = (0.003, 0.1, 0.03, 0.01, 0.001, 0.0003, 0.0001)


class AsapBaseline(TaskBaseline):
    """Linear classifiers of all tasks, learned together in one convex program that clusters them.

    Barzilai and Crammer (2015) learn linear models of tasks with the same labels together with an assignment
    of tasks to a few clusters, relaxed to a convex problem; the paper compares with it where label sets are
    identical. No code was published. Here the convex relaxation of clustered multi-task learning (Jacob, Bach
    and Vert 2008) is solved with the logistic loss; the program is in `robusttc.baselines.asap_program`.

    Deviation: the relaxation is that of a projection on cluster means with a spectral penalty, not theirs of
    an assignment to shared models; tasks keep models of their own; clusters are read off the relation matrix
    M afterwards, by k-means on the rows of its leading eigenvectors, each times its eigenvalue. Theirs are
    bags of words; so are ours with ``words``.

    Parameters
    ----------
    n_clusters
        The number of clusters, K in the program. The paper's best was 5.
    encoder
        ``sentence``, ``words`` (hashed words and bi-grams, tf-idf), or an encoder of one vector a row.
    penalty
        Lambda, or ``auto``: chosen at `fit` by the mean over tasks of the accuracy on validation rows.
    within, mean_penalty
        Eta and mu.
    vectors, model, device
        See `robusttc.encoders.choosing.make_encoder`.
    random_state
        The seed of k-means.

    Attributes
    ----------
    labels_
        The cluster of every task, in their order; a task that may not be shared is alone in its own.
    relation_
        M, in the order of `task_names_` without tasks that may not be shared.
    value_, tuning_
        The penalty, and the mean accuracy on validation rows of every one that was tried.
    converged_
        Whether the program was solved.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> tasks = TaskSet(Task(f"t{i}", ["a", "b"], ["no", "yes"][:: 1 - 2 * (i % 2)]) for i in range(4))
    >>> rows = np.array([[-1.0], [1.0]])
    >>> encoder = FeatureEncoder(dict.fromkeys(tasks.names, rows))
    >>> asap = AsapBaseline(2, encoder=encoder).fit(tasks)
    >>> asap.predict("t0", rows).tolist(), asap.predict("t1", rows).tolist(), asap.labels_.tolist()
    (['no', 'yes'], ['yes', 'no'], [0, 1, 0, 1])
    """

    labels_: NDArray[np.int64]
    relation_: Floats
    value_: float
    tuning_: dict[float, float]
    converged_: bool

    def __init__(
        self,
        n_clusters: int = 5,
        *,
        encoder: str | Encoder = "sentence",
        penalty: float | str = AUTO,
        within: float = 0.1,
        mean_penalty: float = 0.1,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.penalty = penalty
        self.within = within
        self.mean_penalty = mean_penalty
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    def fit(
        self, tasks: TaskSet, labels: Sequence[int] | None = None, *, progress: Progress | None = None
    ) -> Self:
        """Learn all tasks, and cluster them.

        Parameters
        ----------
        tasks
            The tasks; those that may be shared must have the same labels.
        labels
            Clusters; they have no effect, because the method makes its own.
        progress
            Is told after every program.

        Raises
        ------
        UsageError
            If a parameter cannot be used, or the label sets differ.
        DataError
            If no task may be shared, or a task has no training rows.
        """
        del labels
        values = check_values("penalty", self.penalty, default=GRID)
        settings = AsapSettings(
            n_clusters=self.n_clusters,
            penalty=values[0],
            within=self.within,
            mean_penalty=self.mean_penalty,
        )
        seed = run_seed(self.random_state)
        shared = tasks.shareable().subset(sorted(tasks.shareable().names))
        check_label_sets(shared)
        reader, parts = self._read(shared, progress)
        self.tuning_ = {}
        n_labels = len(next(iter(shared)).label_names)
        solutions: dict[float, AsapSolution] = {}
        for number, value in enumerate(values, start=1):
            solutions[value] = solve_asap(
                [part["train"] for part in parts], n_labels, replace(settings, penalty=value)
            )
            if len(values) > 1:
                self.tuning_[value] = mean_accuracy(solutions[value], parts)
            report(progress, "programs", number, len(values), "penalties")
        # Without validation rows there is no accuracy, and the default counts.
        judged = {value: mean for value, mean in self.tuning_.items() if not np.isnan(mean)}
        self.value_ = max(judged, key=lambda value: judged[value]) if judged else values[0]
        solution = solutions[self.value_]
        self.converged_ = solution.converged
        models = {
            name: TaskModel(
                task.label_names, reader, AsapPredictor(solution.weight[number], solution.bias[number])
            )
            for number, (name, task) in enumerate(zip(shared.names, shared, strict=True))
        }
        cluster_of = dict(zip(shared.names, read_clusters(solution, self.n_clusters, seed), strict=True))
        for task in tasks:
            if not task.may_share:
                models[task.name] = self._learn_alone(task, replace(settings, penalty=self.value_))
                cluster_of[task.name] = max(cluster_of.values()) + 1
        places = [shared.names.index(name) for name in tasks.names if name in shared]
        self.relation_ = solution.relation[np.ix_(places, places)]
        self.labels_ = renumber([cluster_of[name] for name in tasks.names])
        self.models_ = {name: models[name] for name in tasks.names}
        return self

    def _learn_alone(self, task: Task, settings: AsapSettings) -> TaskModel:
        """Solve the program for one task: then it is plain logistic regression."""
        reader, parts = self._read(TaskSet([task]), None)
        solution = solve_asap([parts[0]["train"]], len(task.label_names), settings)
        return TaskModel(task.label_names, reader, AsapPredictor(solution.weight[0], solution.bias[0]))

    def _read(
        self, tasks: TaskSet, progress: Progress | None
    ) -> tuple[TextReader, list[dict[str, LinearTask]]]:
        """Give the features of the training and validation rows of every task, and what reads new texts."""
        for task in tasks:
            if len(task.rows("train")) == 0:
                raise DataError("the task has no training rows", where=f"task {quote(task.name)}")
        splits = ("train", "valid")
        if isinstance(self.encoder, str) and self.encoder == WORDS:
            bag = BagOfWords.learn([text for task in tasks for text in task.texts_at(task.rows("train"))])
            return bag, [
                {
                    split: LinearTask(bag.read(task.texts_at(task.rows(split))), codes_of(task, split))
                    for split in splits
                }
                for task in tasks
            ]
        encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
        prepared = prepare_tasks(encoder, tasks, progress=progress)
        vectors = require_vectors(prepared.inputs, "ASAP").astype(np.float64)
        return reader_of(encoder, prepared), [
            {
                split: LinearTask(
                    vectors[prepared.items_of(task.name, task.rows(split))], codes_of(task, split)
                )
                for split in splits
            }
            for task in tasks
        ]


@dataclass(frozen=True, slots=True, eq=False)
class AsapPredictor:
    """The classifier of one task, on vectors or on bags of words."""

    weight: Floats
    bias: Floats

    def probabilities(self, inputs: DenseInputs | sparse.csr_array) -> Floats:
        """Give the probability of every label for every item."""
        if isinstance(inputs, DenseInputs):
            # Not by BLAS, whose sums depend on how many rows there are.
            logits = np.einsum("ij,jk->ik", inputs.matrix.astype(np.float64), self.weight)
        else:
            logits = inputs @ self.weight
        return normalise_shares(logits + self.bias)


def asap_clusters(
    tasks: TaskSet,
    n_clusters: int = 5,
    *,
    encoder: str | Encoder = "sentence",
    penalty: float | str = AUTO,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Cluster tasks of identical label sets by `AsapBaseline`; one cluster number a task.

    They can be given to the multi-task and few-shot estimators: ASAP-Clus-MTL and ASAP-Clus-FSL in the paper.

    Raises
    ------
    UsageError
        If a parameter cannot be used, or the label sets differ.

    Examples
    --------
    >>> from robusttc.encoders.features import FeatureEncoder
    >>> tasks = TaskSet(Task(f"t{i}", ["a", "b"], ["no", "yes"][:: 1 - 2 * (i % 2)]) for i in range(4))
    >>> encoder = FeatureEncoder(dict.fromkeys(tasks.names, [[-1.0], [1.0]]))
    >>> asap_clusters(tasks, 2, encoder=encoder).tolist()
    [0, 1, 0, 1]
    """
    baseline = AsapBaseline(n_clusters, encoder=encoder, penalty=penalty, random_state=random_state)
    return baseline.fit(tasks, progress=progress).labels_


def codes_of(task: Task, split: str) -> NDArray[np.int64]:
    """Give the codes of the rows of a split."""
    return task.label_codes[task.rows(split)].astype(np.int64)


def check_label_sets(tasks: TaskSet) -> None:
    """Refuse tasks whose classifiers cannot be compared."""
    if len(tasks) == 0:
        raise DataError("there is no task that may be shared", expected="at least one")
    first, *others = tasks
    for task in others:
        if task.label_names != first.label_names:
            raise UsageError(
                "ASAP is for tasks with identical label sets",
                where=f"tasks {quote(first.name)} and {quote(task.name)}",
                got=f"{quote(list(first.label_names))} and {quote(list(task.label_names))}",
                todo="leave it out for these tasks; the other baselines take them",
            )


def mean_accuracy(solution: AsapSolution, parts: Sequence[dict[str, LinearTask]]) -> float:
    """Give the mean over tasks of the accuracy on validation rows; NaN without any."""
    accuracies: list[Any] = []
    for number, part in enumerate(parts):
        judged = part["valid"]
        if len(judged.codes):
            logits = judged.features @ solution.weight[number] + solution.bias[number]
            accuracies.append((logits.argmax(axis=1) == judged.codes).mean())
    return float(np.mean(accuracies)) if accuracies else float("nan")


def read_clusters(solution: AsapSolution, n_clusters: int, seed: int) -> list[int]:
    """Cut the tasks into clusters by the relation matrix M."""
    from robusttc.clustering import cluster_points

    n_tasks = len(solution.relation)
    n_clusters = min(n_clusters, n_tasks)
    values, vectors = np.linalg.eigh(solution.relation)
    leading = slice(n_tasks - max(n_clusters - 1, 1), None)
    points = vectors[:, leading] * values[leading]
    return [int(label) for label in cluster_points(points, n_clusters, child_seed(seed, "asap clusters"))]


def renumber(labels: Sequence[int]) -> NDArray[np.int64]:
    """Give clusters numbers from 0 in the order in which they first occur.

    Examples
    --------
    >>> renumber([7, 3, 7, 5]).tolist()
    [0, 1, 0, 2]
    """
    number_of: dict[int, int] = {}
    return np.array([number_of.setdefault(label, len(number_of)) for label in labels], dtype=np.int64)
