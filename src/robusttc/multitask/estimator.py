"""Multi-task learning on clusters of tasks (Algorithm 2), as an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import Encoder, make_encoder
from robusttc.errors import UsageError, quote
from robusttc.jobs import Runner
from robusttc.models import (
    TrainingJobs,
    TrustReport,
    Verdict,
    check_clusters,
    check_threshold,
    fine_tune_on_tasks,
    name_as_text,
    pick_labels,
)
from robusttc.multitask.components import COMPONENTS
from robusttc.multitask.counting import count_models
from robusttc.multitask.fitting import count_own_units, fit_blend, fit_paper
from robusttc.multitask.harm import HarmReport, report_harm
from robusttc.multitask.persistence import Fitted, load_fitted, save_fitted
from robusttc.multitask.serving import Serving
from robusttc.multitask.settings import MultiTaskSettings, default_settings, paper_settings
from robusttc.multitask.task_rows import check_learnable
from robusttc.multitask.training_data import TrainingData, prepare_tasks
from robusttc.multitask.trust import look_at_trust
from robusttc.multitask.units import STAGE
from robusttc.params import Choice, check_param
from robusttc.progress import Progress, ProgressOption, resolve_progress
from robusttc.random import RandomState, run_seed
from robusttc.stats import Estimate

__all__ = ["ClusterMultiTask"]

Strategy = Literal["blend", "paper"]
Clusters = Literal["auto", "always", "never"]
Culprits = Literal["estimate", "retrain", "none"]


class ClusterMultiTask:
    """Models of many tasks at once: each task's own, one of all tasks, one a cluster of tasks.

    Parameters
    ----------
    encoder
        ``sentence``, ``cnn``, or an encoder of your own; see `robusttc.encoders.make_encoder`.
    strategy
        ``paper`` is Algorithm 2 to the letter: a cluster has one shared layer and one classifier a task,
        trained from scratch, and the epoch with the best mean validation accuracy of the cluster is kept.
        ``blend`` puts together what a task's own model, one shared model of all tasks, and its cluster's
        model say, with weights that are learned across tasks on out-of-fold predictions.
        Deviation: the blend is the default, because on small tasks it is clearly better.
    clusters
        For ``blend``: ``auto`` lets cluster models serve if out-of-fold predictions show that they help (see
        `verdict_`), ``always`` and ``never`` do as they say.
    tune
        None, or ``encoder``: the sentence model itself is first fine-tuned on the training rows of all tasks
        that may share, and models see the vectors of both, the tuned one and the one that it was. The tuned
        one has then seen all these rows, so what would be decided out-of-fold is decided on the rows in
        ``valid``; without such rows the models count alike.
    settings
        How models are trained; None takes what suits the encoder.
    n_folds
        Into how many folds the training rows are dealt for out-of-fold predictions.
    n_random
        How many draws of random clusters the verdict compares with.
    vectors
        A file of word vectors, for ``cnn``.
    model
        A sentence-transformers model, for ``sentence``.
    device
        Where a sentence model runs. The layers on top are small: they are trained on the processor.
    random_state
        The seed.

    Attributes
    ----------
    task_names_ : tuple of str
    labels_ : array of int
        The cluster of every task; -1 for tasks in none, and for those that may not share.
    weights_ : dict
        The weight of ``own``, ``shared`` and ``cluster`` model; see `robusttc.models.blending`.
    familiar_weights_ : dict
        The same for texts that another task has among its training texts.
    label_power_ : float
        How much it counts how frequent a label is, see `robusttc.multitask.label_power`; 0 where it does not.
    starts_ : dict
        Where the model of each cluster started: ``shared`` or ``scratch``. Empty if no clusters serve.
    epochs_ : dict
        With ``paper``: after how many epochs the model of each cluster was kept; clusters whose tasks have no
        validation rows are trained for the fixed number of epochs and are in `without_validation_`.
    verdict_ : Verdict or None
        Whether clusters help these tasks; None where nothing was compared (``paper``, or a single task).
    components_ : dict of Estimate
        Out-of-fold accuracy of each model alone and of the blends, and differences, over tasks.
    temperatures_ : dict
        What probabilities are softened with, a number a cluster.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> from robusttc.encoders import FeatureEncoder
    >>> rows = np.repeat(np.eye(4), 6, axis=0)
    >>> names = ["a", "b", "c"]
    >>> tasks = TaskSet(Task(name, ["text"] * 24, ["x"] * 12 + ["y"] * 12) for name in names)
    >>> model = ClusterMultiTask(FeatureEncoder({name: rows for name in names}))
    >>> model.fit(tasks).predict("b", np.eye(4)).tolist()
    ['x', 'x', 'y', 'y']
    """

    def __init__(
        self,
        encoder: str | Encoder = "sentence",
        *,
        strategy: Strategy = "blend",
        clusters: Clusters = "auto",
        tune: Literal["encoder"] | None = None,
        settings: MultiTaskSettings | None = None,
        n_folds: int = 3,
        n_random: int = 2,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.encoder = encoder
        self.strategy = strategy
        self.clusters = clusters
        self.tune = tune
        self.settings = settings
        self.n_folds = n_folds
        self.n_random = n_random
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    def get_params(self) -> dict[str, Any]:
        """Give the parameters as they were given."""
        names = "encoder strategy clusters tune settings n_folds n_random vectors model device random_state"
        return {name: getattr(self, name) for name in names.split()}

    def fit(
        self,
        tasks: TaskSet,
        labels: ArrayLike | Mapping[str, int] | None = None,
        *,
        runner: Runner | None = None,
        progress: ProgressOption = True,
    ) -> ClusterMultiTask:
        """Train on the rows in ``train``; those in ``valid`` serve early stopping and temperatures.

        Parameters
        ----------
        tasks
            The tasks. One with ``may_share=False`` gets its own model, and reaches no other.
        labels
            The cluster of every task, in order or by name; None makes one shared model of all tasks.
        runner
            Who trains, see `robusttc.jobs.Runner`; None trains here, one model after the other.
        progress
            True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

        Raises
        ------
        UsageError
            If a parameter or the labels cannot be used.
        DataError
            If a task does not have training rows of two labels.
        WorkError
            If the runner could not train the model of all tasks.

        Warns
        -----
        DoubtWarning
            If the runner could not train some other model; the tasks go without it and are named.
        """
        progress = resolve_progress(progress)
        self._check(tasks)
        check_learnable(tasks)
        seed = run_seed(self.random_state)
        numbers = None if labels is None else check_clusters(tasks, labels)
        by_name = None if numbers is None else dict(zip(tasks.names, numbers.tolist(), strict=True))
        with threadpool_limits(1):
            encoder = self._make_encoder(tasks, seed, progress)
            data = prepare_tasks(tasks, encoder, by_name, progress=progress)
            settings = self.settings or self._default(data)
            # The tuned encoder has seen all training rows: only those in valid are new to it.
            n_folds = self.n_folds if self.tune is None else None
            n_models = count_models(
                data.labels,
                strategy=self.strategy,
                clusters=self.clusters,
                n_folds=n_folds,
                n_random=self.n_random,
            )
            n_units = n_models + count_own_units(data, strategy=self.strategy, n_folds=n_folds)
            with TrainingJobs(STAGE, runner, progress=progress, total=n_units) as bench:
                if self.strategy == "paper":
                    choice = None
                    serving = fit_paper(tasks, data, encoder, settings=settings, seed=seed, bench=bench)
                else:
                    serving, choice = fit_blend(
                        tasks,
                        data,
                        encoder,
                        settings=settings,
                        clusters=self.clusters,
                        n_folds=n_folds,
                        n_random=self.n_random,
                        seed=seed,
                        bench=bench,
                    )
                bench.finish()
            trust = look_at_trust(serving, data, choice, seed=seed)
        self._data: TrainingData | None = data
        has_valid = {
            serving.tasks[name].cluster for name, part in data.parts.items() if len(part.valid_items)
        }
        fitted = Fitted.of(
            serving,
            choice,
            trust,
            settings=settings,
            strategy=self.strategy,
            seed=seed,
            without_validation=tuple(sorted(set(serving.clusters) - has_valid)),
        )
        self._keep(fitted)
        return self

    def _keep(self, fitted: Fitted) -> None:
        """Set what is fitted."""
        self._fitted = fitted
        serving = fitted.serving
        self.task_names_ = tuple(serving.tasks)
        self.labels_ = np.array([task.cluster for task in serving.tasks.values()], dtype=np.int64)
        self.weights_ = dict(zip(COMPONENTS, fitted.weights.new, strict=True))
        self.familiar_weights_ = dict(zip(COMPONENTS, fitted.weights.familiar, strict=True))
        self.label_power_ = fitted.label_power
        self.starts_: dict[int, str] = dict(fitted.starts)
        self.verdict_: Verdict | None = fitted.verdict
        self.components_: dict[str, Estimate] = dict(fitted.components)
        self.temperatures_: dict[int, float] = fitted.temperatures
        self.epochs_ = {cluster: model.copies[0].n_epochs for cluster, model in serving.clusters.items()}
        self.without_validation_: tuple[int, ...] = fitted.without_validation

    @property
    def _serving(self) -> Serving:
        return self._need().serving

    def _need(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise UsageError("this model is not trained yet", todo="call fit, or load a saved model")
        return self._fitted

    def label_names(self, task_name: str) -> tuple[str, ...]:
        """Give the labels of a task, in the order of the columns of `predict_proba`."""
        return self._serving.find(task_name).label_names

    def predict_proba(self, task_name: str, texts: Any) -> NDArray[np.float64]:
        """Give the probability of every label of a task for every text.

        Parameters
        ----------
        task_name
            A task of the training.
        texts
            The texts; for ready-made features, their vectors.

        Raises
        ------
        UnknownTaskError
            If there is no such task; the message names the nearest one.
        UsageError
            If the model is not trained, or the texts are none.
        """
        serving = self._serving
        with threadpool_limits(1):
            inputs = serving.read(task_name, texts)
            return serving.probabilities(task_name, inputs, serving.find_familiar(task_name, texts))

    def predict(
        self, task_name: str, texts: Any, *, abstain_below: float | None = None
    ) -> NDArray[np.object_]:
        """Give the most probable label of every text, as it is written in the task.

        Parameters
        ----------
        task_name, texts
            As in `predict_proba`.
        abstain_below
            Where the highest probability is below this number, the answer is None.
        """
        threshold = check_threshold(abstain_below)
        probabilities = self.predict_proba(task_name, texts)
        return pick_labels(probabilities, self.label_names(task_name), threshold=threshold)

    def scope_score(self, task_name: str, texts: Any) -> NDArray[np.float64]:
        """Give for every text how likely it is to belong to none of the task's labels, from 0 to 1.

        Raises
        ------
        UsageError
            If there were no validation rows, or no other task, to learn it from.
        """
        return self._answer(task_name, texts)[1]

    def _answer(self, task_name: str, texts: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give what `predict_proba` and `scope_score` give; the texts are encoded once."""
        serving = self._serving
        serving.find(task_name)
        if serving.scope is None:
            raise UsageError(
                "there is no out-of-scope score",
                expected="at least two tasks that may share and have rows in 'valid'",
                todo="put some rows of the tasks into the split 'valid', and fit again",
            )
        with threadpool_limits(1):
            inputs = serving.read(task_name, texts)
            table = serving.probabilities(task_name, inputs, serving.find_familiar(task_name, texts))
            return table, serving.scope_score(task_name, inputs, table)

    def trust_report(self) -> TrustReport:
        """Tell how far probabilities can be trusted, by the validation rows of the training."""
        return self._need().trust

    def harm_report(
        self,
        *,
        culprits: Culprits = "estimate",
        runner: Runner | None = None,
        progress: ProgressOption = True,
    ) -> HarmReport:
        """Tell which tasks sharing hurts, and which cluster mates are to blame.

        Parameters
        ----------
        culprits
            ``retrain`` trains the cluster of a hurt task again without each of its mates; ``estimate`` looks
            at how the training of a mate would move the task's loss; ``none`` leaves the question out. The
            first two need the training data: after `load` there is only ``none``.
        runner
            Who trains again, see `fit`.
        progress
            True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

        Raises
        ------
        UsageError
            If nothing was held out (``paper``), or the training data is not there.
        """
        progress = resolve_progress(progress)
        check_param("culprits", culprits, Choice("estimate", "retrain", "none"))
        fitted = self._need()
        data = getattr(self, "_data", None)
        with threadpool_limits(1):
            return report_harm(
                fitted,
                data,
                culprits=culprits,
                n_folds=self.n_folds,
                runner=runner,
                progress=progress,
            )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder; see `load`."""
        save_fitted(self._need(), folder)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> ClusterMultiTask:
        """Read a model that `save` wrote. It predicts the same, bit for bit; it keeps no training data.

        Raises
        ------
        StoreError
            If something is missing, damaged, or from a later version.
        """
        fitted = load_fitted(folder, device=device)
        strategy: Strategy = "paper" if fitted.strategy == "paper" else "blend"
        loaded = cls(strategy=strategy, settings=fitted.settings, device=device, random_state=fitted.seed)
        loaded._data = None
        loaded._keep(fitted)
        return loaded

    def _default(self, data: TrainingData) -> MultiTaskSettings:
        first = data.prepared or next(iter(data.private.values()))[0]
        return paper_settings(first.inputs) if self.strategy == "paper" else default_settings(first.inputs)

    def _check(self, tasks: TaskSet) -> None:
        if not isinstance(tasks, TaskSet):
            raise UsageError("tasks cannot be used", got=quote(type(tasks).__name__), expected="a TaskSet")
        check_param("strategy", self.strategy, Choice("blend", "paper"))
        check_param("clusters", self.clusters, Choice("auto", "always", "never"))
        if self.tune is not None:
            check_param("tune", self.tune, Choice("encoder"))
        if self.settings is not None and not isinstance(self.settings, MultiTaskSettings):
            raise UsageError(
                "settings cannot be used", got=quote(self.settings), expected="MultiTaskSettings or None"
            )
        for name, smallest in (("n_folds", 2), ("n_random", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise UsageError(
                    f"{name} cannot be used", got=quote(value), expected=f"an integer from {smallest} up"
                )

    def _make_encoder(self, tasks: TaskSet, seed: int, progress: Progress | None) -> Encoder:
        encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
        if self.tune is None:
            return encoder
        from robusttc.encoders import PairedEncoder

        tuned = fine_tune_on_tasks(encoder, tasks, seed=seed, label_texts=name_as_text, progress=progress)
        return PairedEncoder(encoder, tuned)
