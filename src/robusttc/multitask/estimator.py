"""Multi-task learning on clusters of tasks (Algorithm 2), as an estimator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from robusttc.data import TaskSet
from robusttc.encoders import DEFAULT_ENCODER, Encoder, FeatureEncoder, PairedEncoder, make_encoder
from robusttc.errors import RobustTCError, StoreError, UsageError, quote
from robusttc.jobs import Runner
from robusttc.models import (
    Clusters,
    TrainingJobs,
    TrustReport,
    Verdict,
    check_clusters,
    check_threshold,
    fine_tune_on_tasks,
    pick_labels,
    read_model_folder,
    write_model_folder,
)
from robusttc.multitask.blending import CLUSTER_ONLY, COMPONENTS, OWN_ONLY, BlendWeights
from robusttc.multitask.negative_transfer import NegativeTransferReport, report_negative_transfer
from robusttc.multitask.predictor import Predictor
from robusttc.multitask.settings import MultiTaskSettings, default_settings, paper_settings
from robusttc.multitask.training import (
    STAGE,
    TrainingData,
    all_rows,
    check_learnable,
    clusters_to_train,
    prepare_tasks,
    train_blend,
    train_paper,
)
from robusttc.multitask.validation import (
    Decision,
    HeldOutRows,
    calibrate,
    count_fold_jobs,
    decide,
    evaluate_rows,
    make_folds,
    measure_agreement,
)
from robusttc.params import Choice, Integer, Nothing, check_params
from robusttc.progress import Progress, ProgressOption, resolve_progress
from robusttc.random import RandomState, run_seed
from robusttc.stats import Estimate

__all__ = ["ClusterMultiTask"]

Refit = Literal["train", "valid", "all"]

KIND, VERSION = "robusttc-multitask", 2
REFIT_SPLITS = {"train": ("train",), "valid": ("train", "valid"), "all": ("train", "valid", "test")}
CONSTRAINTS = {
    "strategy": (Choice("blend", "paper"),),
    "cluster_models": (Choice("auto", "always", "never"),),
    "tune": (Nothing(), Choice("encoder")),
    "refit": (Choice(*REFIT_SPLITS),),
    "n_folds": (Integer(2),),
    "n_random": (Integer(0),),
}


class ClusterMultiTask(BaseEstimator):  # type: ignore[misc]
    """Models of many tasks at once: one per task, one shared by all tasks, one per cluster of tasks.

    Parameters
    ----------
    encoder
        See `robusttc.encoders.make_encoder`.
    strategy
        ``paper`` is Algorithm 2 to the letter: a cluster has one shared layer and one classifier per task,
        trained from scratch, and the epoch with the best mean validation accuracy of the cluster is kept.
        ``blend`` multiplies the probabilities of a task's own model, one shared model of all tasks, its
        cluster's model and the frequency of labels, with weights learned across tasks on held-out rows.
        Deviation: the blend is the default, because on small tasks it is clearly better.
    cluster_models
        ``auto`` lets cluster models serve if held-out predictions show that they help (see `verdict_`),
        ``always`` and ``never`` do as they say. For ``paper``, ``auto`` is ``always``, and ``never`` makes
        one cluster of all tasks.
    tune
        None, or ``encoder``: the sentence model itself is first fine-tuned on the rows in ``train`` of all
        tasks that may share, and models see the vectors of both, the fine-tuned and the original one. The
        fine-tuned one has seen all these rows, so decisions are made on the rows in ``valid``; without such
        rows the models count the same.
    refit
        Which rows the models that serve are trained on. ``train``: those in ``train``. ``valid``: also those
        in ``valid``. ``all``: also those in ``test``; what is known of the test rows is measured before that
        by models that have not seen them, and kept in `evaluation_`. ``paper`` needs the rows in ``valid``
        for early stopping, and is always trained on ``train``.
    settings
        How models are trained; None takes what suits the encoder.
    n_folds
        Into how many folds rows are dealt for held-out predictions.
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
        The cluster of every task; -1 for tasks in none, and for private ones.
    weights_ : dict
        The weights of ``own``, ``shared`` and ``cluster`` model and of the label ``prior``; see
        `robusttc.models.blending`.
    seen_weights_ : dict
        The same for texts that another task has among its training texts.
    clusters_serve_ : bool
        Whether cluster models take part in predictions.
    verdict_ : Verdict or None
        Whether clusters help these tasks; None where nothing was compared (``paper``, or a single task).
    held_out_accuracy_ : dict of Estimate
        Held-out accuracy of each model alone and of the blends, and differences, over tasks.
    held_out_ : dict of HeldOutRows
        Which held-out rows of every task that shares each model predicts right, before any refit.
    evaluation_ : dict of HeldOutRows
        With ``refit="all"``, the same of the rows in ``test``, else empty.
    agreement_ : Estimate or None
        With ``refit="all"``, how often the models that serve agree with those that were evaluated, on texts
        of other tasks.
    temperature_ : float
        What the probabilities of tasks that share are scaled with.
    epochs_ : dict
        With ``paper``: after how many epochs the model of each cluster was kept; clusters whose tasks have no
        validation rows are trained for the fixed number of epochs and are in `without_validation_`.
    predictor_, blend_weights_
        The models themselves, and both sets of weights.
    settings_, seed_
        What they were trained with.

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

    predictor_: Predictor
    task_names_: tuple[str, ...]
    labels_: NDArray[np.int64]
    weights_: dict[str, float]
    seen_weights_: dict[str, float]
    temperature_: float
    epochs_: dict[int, int]
    blend_weights_: BlendWeights
    settings_: MultiTaskSettings
    seed_: int
    clusters_serve_: bool
    verdict_: Verdict | None
    held_out_accuracy_: dict[str, Estimate]
    held_out_: dict[str, HeldOutRows]
    evaluation_: dict[str, HeldOutRows]
    agreement_: Estimate | None
    without_validation_: tuple[int, ...]
    trust_: TrustReport

    def __init__(
        self,
        encoder: str | Encoder = DEFAULT_ENCODER,
        *,
        strategy: Literal["blend", "paper"] = "blend",
        cluster_models: Literal["auto", "always", "never"] = "auto",
        tune: Literal["encoder"] | None = None,
        refit: Refit = "valid",
        settings: MultiTaskSettings | None = None,
        n_folds: int = 3,
        n_random: int = 1,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.encoder = encoder
        self.strategy = strategy
        self.cluster_models = cluster_models
        self.tune = tune
        self.refit = refit
        self.settings = settings
        self.n_folds = n_folds
        self.n_random = n_random
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        tasks: TaskSet,
        clusters: Clusters = None,
        *,
        runner: Runner | None = None,
        progress: ProgressOption = True,
    ) -> ClusterMultiTask:
        """Decide on held-out rows what serves, and train that on all rows that `refit` names.

        Parameters
        ----------
        tasks
            The tasks. One with ``may_share=False`` gets a model of its own, and reaches no other.
        clusters
            The cluster of every task: labels in the order of the tasks, a dict by name, or a fitted
            `RobustTaskClustering`; None makes no cluster models.
        runner
            Runs the jobs, see `robusttc.jobs.Runner`; None trains in this process, one model after the other.
        progress
            True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

        Raises
        ------
        UsageError
            If a parameter or the clusters cannot be used.
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
        seed = run_seed(self.random_state)
        partition = None
        if clusters is not None:
            partition = dict(zip(tasks.names, check_clusters(tasks, clusters).tolist(), strict=True))
        with threadpool_limits(1):
            encoder = self._make_encoder(tasks, seed, progress)
            splits = REFIT_SPLITS[self.refit if self.strategy == "blend" else "train"]
            data = prepare_tasks(tasks, encoder, partition, splits=splits, progress=progress)
            defaults = paper_settings if self.strategy == "paper" else default_settings
            self.settings_ = self.settings or defaults(data.inputs_of(tasks.names[0]))
            self.seed_ = seed
            if self.strategy == "paper":
                self._fit_paper(data, encoder, runner, progress)
            else:
                self._fit_blend(data, encoder, runner, progress)
        return self

    def _fit_paper(
        self, data: TrainingData, encoder: Encoder, runner: Runner | None, progress: Progress | None
    ) -> None:
        """Train the clusters' models; held-out rows are those in ``valid``, for the temperature only."""
        n_clusters = len(set((data.clusters or {}).values())) + len(data.tasks)
        with TrainingJobs(STAGE, runner, progress=progress, total=n_clusters) as jobs:
            predictor = train_paper(
                jobs,
                data,
                encoder,
                settings=self.settings_,
                seed=self.seed_,
                cluster_models=self.cluster_models,
            )
            jobs.finish()
        folds = make_folds(data.tasks, n_folds=None, splits=("train",), seed=self.seed_)
        self.trust_ = calibrate(predictor, data, folds, None, seed=self.seed_)
        self._set_predictor(predictor)
        has_valid = {predictor.tasks[task.name].cluster for task in data.tasks if len(task.rows("valid"))}
        without = tuple(sorted(set(predictor.clusters) - has_valid))
        weights = CLUSTER_ONLY if predictor.clusters else OWN_ONLY
        serve = self.cluster_models != "never" and data.clusters is not None
        self._keep(Decision(weights, serve and weights == CLUSTER_ONLY, None, {}, {}, {}), without)

    def _fit_blend(
        self, data: TrainingData, encoder: Encoder, runner: Runner | None, progress: Progress | None
    ) -> None:
        """Decide on out-of-fold predictions, then train what serves."""
        splits = REFIT_SPLITS["train" if self.refit == "train" else "valid"]
        # A fine-tuned encoder has seen all rows in train: only those in valid are new to it.
        n_folds = self.n_folds if self.tune is None else None
        folds = make_folds(data.tasks, n_folds=n_folds, splits=splits, seed=self.seed_)
        choice: dict[str, Any] = {"cluster_models": self.cluster_models, "n_random": self.n_random}
        training: dict[str, Any] = {"settings": self.settings_, "seed": self.seed_}
        n_clusters = 0 if self.cluster_models == "never" else len(clusters_to_train(data.clusters))
        n_models = (2 if self.refit == "all" else 1) * (2 + n_clusters + len(data.private))
        total = count_fold_jobs(data, folds, **choice) + n_models
        with TrainingJobs(STAGE, runner, progress=progress, total=total) as jobs:
            decision = decide(jobs, data, folds, **choice, **training)
            training["weights"] = decision.weights
            predictor = train_blend(jobs, data, encoder, all_rows(data.tasks, splits), **training)
            self.evaluation_, self.agreement_ = {}, None
            if self.refit == "all":
                evaluated, rows = predictor, all_rows(data.tasks, REFIT_SPLITS["all"])
                self.evaluation_ = evaluate_rows(evaluated, data, "test")
                predictor = train_blend(jobs, data, encoder, rows, name="all", **training)
                self.agreement_ = measure_agreement(evaluated, predictor, data, seed=self.seed_)
            jobs.finish()
        self.trust_ = calibrate(predictor, data, folds, decision, seed=self.seed_)
        self._set_predictor(predictor)
        self._keep(decision)

    def _keep(self, decision: Decision, without_validation: tuple[int, ...] = ()) -> None:
        """Set the fitted attributes."""
        self.blend_weights_ = decision.weights or OWN_ONLY
        self.weights_ = dict(zip(COMPONENTS, self.blend_weights_.novel, strict=True))
        self.seen_weights_ = dict(zip(COMPONENTS, self.blend_weights_.seen, strict=True))
        self.clusters_serve_ = decision.clusters_serve
        self.verdict_ = decision.verdict
        self.held_out_accuracy_ = decision.accuracy
        self.held_out_ = decision.held_out
        self.without_validation_ = without_validation
        if self.strategy == "paper":
            self.evaluation_, self.agreement_ = {}, None

    def _set_predictor(self, predictor: Predictor) -> None:
        """Set the models, and what follows from them."""
        self.predictor_ = predictor
        self.task_names_ = tuple(predictor.tasks)
        self.labels_ = np.array([task.cluster for task in predictor.tasks.values()], dtype=np.int64)
        self.epochs_ = {number: model.n_epochs for number, model in predictor.clusters.items()}
        # That of tasks that share; of a private one, where all tasks are.
        tasks = sorted(predictor.tasks.values(), key=lambda task: not task.may_share)
        self.temperature_ = tasks[0].temperature if tasks else 1.0

    def _predictor(self) -> Predictor:
        if not hasattr(self, "predictor_"):
            raise UsageError("this model is not trained yet", todo="call fit, or load a saved model")
        return self.predictor_

    def label_names(self, task_name: str) -> tuple[str, ...]:
        """Return the labels of a task, in the order of the columns of `predict_proba`."""
        return self._predictor().find(task_name).label_names

    def predict_proba(self, task_name: str, texts: Any) -> NDArray[np.float64]:
        """Return the probability of every label of a task for every text.

        Parameters
        ----------
        task_name
            A task of the training.
        texts
            The texts, as a list, array or iterator; for ready-made features, their vectors.

        Raises
        ------
        UnknownTaskError
            If there is no such task; the message names the nearest one.
        UsageError
            If the model is not trained, or the texts cannot be used.
        """
        predictor = self._predictor()
        with threadpool_limits(1):
            return predictor.probabilities(task_name, *predictor.read(task_name, texts))

    def predict(
        self, task_name: str, texts: Any, *, abstain_below: float | None = None
    ) -> NDArray[np.object_]:
        """Return the most probable label of every text, as it is written in the task.

        Parameters
        ----------
        task_name, texts
            As in `predict_proba`.
        abstain_below
            Where the highest probability is below this number, the label is None.
        """
        threshold = check_threshold(abstain_below)
        probabilities = self.predict_proba(task_name, texts)
        return pick_labels(probabilities, self.label_names(task_name), threshold=threshold)

    def scope_score(self, task_name: str, texts: Any) -> NDArray[np.float64]:
        """Return for every text how likely it is to belong to none of the task's labels, from 0 to 1.

        Raises
        ------
        UsageError
            If there were no held-out rows, or no other task, to learn it from.
        """
        predictor = self._predictor()
        with threadpool_limits(1):
            return predictor.scope_score(task_name, predictor.read(task_name, texts)[0])

    def predict_with_scope(
        self, task_name: str, texts: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return what `predict_proba` and `scope_score` return, None for the latter where it is not known.

        The texts are encoded once.
        """
        predictor = self._predictor()
        with threadpool_limits(1):
            inputs, seen = predictor.read(task_name, texts)
            scope = None if predictor.scope is None else predictor.scope_score(task_name, inputs)
            return predictor.probabilities(task_name, inputs, seen), scope

    def trust_report(self) -> TrustReport:
        """Return how far probabilities can be trusted, by the held-out rows of the training."""
        self._predictor()
        return self.trust_

    def negative_transfer_report(
        self, tasks: TaskSet | None = None, *, progress: ProgressOption = True
    ) -> NegativeTransferReport:
        """Return which tasks lose by sharing and, given the tasks, which other tasks cause it.

        Parameters
        ----------
        tasks
            The tasks of the training, to look for the sources of negative transfer by gradients; None leaves
            the question out.
        progress
            True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

        Raises
        ------
        UsageError
            If nothing was held out (``paper``, or fewer than two tasks that may share).
        """
        predictor = self._predictor()
        with threadpool_limits(1):
            return report_negative_transfer(
                predictor,
                {name: held.right for name, held in self.held_out_.items()},
                tasks,
                settings=self.settings_,
                seed=self.seed_,
                # Ready-made vectors are those of the encoder: what was read of them is not kept.
                encoder=self.encoder if isinstance(self.encoder, FeatureEncoder) else None,
                progress=resolve_progress(progress),
            )

    def without_tasks(self, names: Iterable[str]) -> ClusterMultiTask:
        """Return the same models without some private tasks, of which nothing is in any other model."""
        gone = set(names)
        held_out = {name: held for name, held in self.held_out_.items() if name not in gone}
        return self._with(self._predictor().without(gone), held_out)

    def with_predictor(self, predictor: Predictor) -> ClusterMultiTask:
        """Return an estimator that predicts with other models, such as those of a task added later."""
        return self._with(predictor, {})

    def _with(self, predictor: Predictor, held_out: dict[str, HeldOutRows]) -> ClusterMultiTask:
        made = ClusterMultiTask(**self.get_params(deep=False))
        made.__dict__.update(self.__dict__)
        made._set_predictor(predictor)
        made.held_out_ = held_out
        made.evaluation_ = {name: held for name, held in self.evaluation_.items() if name in predictor.tasks}
        return made

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder; see `load`."""
        values, arrays = self._predictor().describe()
        places = {name: place for place, name in enumerate(self.task_names_)}
        for kind, found in (("held out", self.held_out_), ("evaluation", self.evaluation_)):
            for name, held in found.items():
                arrays[f"{kind}/{places[name]}/rows"] = held.rows.astype(np.int64)
                arrays |= {f"{kind}/{places[name]}/{one}": right for one, right in held.right.items()}
        values |= {
            "parameters": self._saved_parameters(),
            "settings": dataclasses.asdict(self.settings_),
            "seed": self.seed_,
            "weights": dataclasses.asdict(self.blend_weights_),
            "clusters_serve": self.clusters_serve_,
            "verdict": None if self.verdict_ is None else self.verdict_.to_dict(),
            "accuracy": {name: estimate.to_dict() for name, estimate in self.held_out_accuracy_.items()},
            "trust": self.trust_.to_dict(),
            "agreement": None if self.agreement_ is None else self.agreement_.to_dict(),
            "without_validation": list(self.without_validation_),
        }
        write_model_folder(folder, kind=KIND, version=VERSION, settings=values, arrays=arrays)

    def _saved_parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON has them; an encoder that is an object is that of the file."""
        found: dict[str, Any] = self.get_params(deep=False)
        for name in ("vectors", "model"):
            found[name] = None if found[name] is None else str(found[name])
        found["encoder"] = self.encoder if isinstance(self.encoder, str) else None
        found["random_state"] = self.seed_
        found["settings"] = None if self.settings is None else dataclasses.asdict(self.settings)
        return found

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> ClusterMultiTask:
        """Read a model that `save` wrote. It predicts the same, bit for bit, and has the same parameters.

        Raises
        ------
        StoreError
            If something is missing, damaged, or from a later version.
        """
        values, arrays = read_model_folder(folder, kind=KIND, version=VERSION)
        try:
            return cls._restore(values, arrays, device)
        except StoreError:
            raise
        # The bytes are those that were written; then only another program can have written nonsense.
        except (RobustTCError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StoreError(
                "the model cannot be read",
                where=quote(str(folder)),
                got=quote(str(error)),
                todo="train it again",
            ) from error

    @classmethod
    def _restore(cls, values: dict[str, Any], arrays: dict[str, Any], device: str) -> ClusterMultiTask:
        """Rebuild an estimator from its file."""
        predictor = Predictor.from_description(values, arrays, device=device)
        parameters = {**values["parameters"], "device": device}
        if parameters["encoder"] is None:
            reader = predictor.reader
            is_tuned = parameters["tune"] is not None
            parameters["encoder"] = reader.first if is_tuned and isinstance(reader, PairedEncoder) else reader
        if parameters["settings"] is not None:
            parameters["settings"] = MultiTaskSettings(**parameters["settings"])
        names = list(predictor.tasks)
        found: dict[str, dict[str, dict[str, Any]]] = {"held out": {}, "evaluation": {}}
        for key, array in arrays.items():
            kind, _, rest = key.partition("/")
            if kind in found:
                place, _, one = rest.partition("/")
                found[kind].setdefault(names[int(place)], {})[one] = array
        held = {
            kind: {name: HeldOutRows(right.pop("rows"), right) for name, right in of_kind.items()}
            for kind, of_kind in found.items()
        }
        loaded = cls(**parameters)
        loaded._set_predictor(predictor)
        loaded.seed_ = int(values["seed"])
        loaded.settings_ = MultiTaskSettings(**values["settings"])
        loaded.trust_ = TrustReport.from_dict(values["trust"])
        verdict, agreement = values["verdict"], values["agreement"]
        decision = Decision(
            BlendWeights.from_dict(values["weights"]),
            bool(values["clusters_serve"]),
            None if verdict is None else Verdict.from_dict(verdict),
            {name: Estimate.from_dict(one) for name, one in values["accuracy"].items()},
            held["held out"],
            {},
        )
        loaded._keep(decision, tuple(values["without_validation"]))
        loaded.evaluation_ = held["evaluation"]
        loaded.agreement_ = None if agreement is None else Estimate.from_dict(agreement)
        return loaded

    def _check(self, tasks: TaskSet) -> None:
        if not isinstance(tasks, TaskSet):
            raise UsageError("tasks cannot be used", got=quote(type(tasks).__name__), expected="a TaskSet")
        check_params(self.get_params(deep=False), CONSTRAINTS)
        if self.settings is not None and not isinstance(self.settings, MultiTaskSettings):
            raise UsageError(
                "settings cannot be used", got=quote(self.settings), expected="MultiTaskSettings or None"
            )
        check_learnable(tasks)

    def _make_encoder(self, tasks: TaskSet, seed: int, progress: Progress | None) -> Encoder:
        encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
        if self.tune is None:
            return encoder
        return PairedEncoder(encoder, fine_tune_on_tasks(encoder, tasks, seed=seed, progress=progress))
