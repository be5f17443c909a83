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
from robusttc.errors import UsageError, quote
from robusttc.jobs import Runner
from robusttc.models import (
    REFIT_SPLITS,
    REJECTED,
    Clusters,
    Refit,
    TrainingJobs,
    TrustReport,
    Verdict,
    check_clusters,
    check_threshold,
    describe_parameters,
    fine_tune_on_tasks,
    join_arrays,
    pick_labels,
    read_model_folder,
    rebuild_parameters,
    rebuilding,
    refit_splits,
    split_arrays,
    write_model_folder,
)
from robusttc.multitask.blending import CLUSTER_ONLY, COMPONENTS, OWN_ONLY, BlendWeights
from robusttc.multitask.negative_transfer import NegativeTransferReport, report_negative_transfer
from robusttc.multitask.predictor import Predictor
from robusttc.multitask.settings import PAPER, MultiTaskSettings, default_settings
from robusttc.multitask.training import (
    STAGE,
    Trainer,
    check_learnable,
    clusters_to_train,
    prepare_tasks,
    train_blend,
    train_paper,
)
from robusttc.multitask.validation import (
    Decision,
    Folds,
    HeldOutRows,
    calibrate,
    decide,
    evaluate_rows,
    make_folds,
    measure_agreement,
    predict_held_out,
)
from robusttc.params import Choice, Integer, Nothing, check_params
from robusttc.progress import Progress, ProgressOption, resolve_progress
from robusttc.random import RandomState, run_seed
from robusttc.stats import Estimate

KIND, VERSION = "robusttc-multitask", 3
CONSTRAINTS = {
    "strategy": (Choice("blend", "paper"),),
    "cluster_models": (Choice("auto", "always", "never"),),
    "tune": (Nothing(), Choice("encoder")),
    "refit": (Choice("auto", *REFIT_SPLITS),),
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
        Which rows the models that serve are trained on. ``auto``: all rows of a task whose splits were drawn
        when it was read, and the rows in ``train`` and ``valid`` of a task that came with splits. ``train``,
        ``valid``, ``all``: the rows in ``train``, those in ``valid`` too, those in ``test`` too. In any case
        `evaluation_` is of models that have not seen the test rows. ``paper`` needs the rows in ``valid`` for
        early stopping, and is always trained on ``train``.
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
        The same of the rows in ``test``, which these models have not seen.
    agreement_ : Estimate or None
        Where models were trained once more, with test rows: how often they agree with those that were
        evaluated, on texts of other tasks.
    temperature_ : dict of float
        What the probabilities of the tasks of each cluster are scaled with.
    epochs_ : dict
        With ``paper``: after how many epochs the model of each cluster was kept; clusters whose tasks have no
        validation rows are trained for the fixed number of epochs and are in `without_validation_`.
    predictor_, blend_weights_, cluster_weights_
        The models themselves, both sets of weights, and those of the clusters that have their own: where
        cluster models serve, the tasks of a cluster have weights drawn to those of all tasks.
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

    def __init__(
        self,
        encoder: str | Encoder = DEFAULT_ENCODER,
        *,
        strategy: Literal["blend", "paper"] = "blend",
        cluster_models: Literal["auto", "always", "never"] = "auto",
        tune: Literal["encoder"] | None = None,
        refit: Refit = "auto",
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
            If it cannot train the model of all tasks, a `WorkError` is raised; if another model, a
            `DoubtWarning` names the tasks that go without it.
        progress
            True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.
        """
        self._check(tasks)
        progress = resolve_progress(progress)
        self.seed_ = run_seed(self.random_state)
        is_paper = self.strategy == "paper"
        by_name = None
        if clusters is not None and not (is_paper and self.cluster_models == "never"):
            by_name = dict(zip(tasks.names, check_clusters(tasks, clusters).tolist(), strict=True))
        with threadpool_limits(1), TrainingJobs(STAGE, runner, progress=progress) as jobs:
            # Texts become frozen inputs, those of private tasks apart from all others.
            encoder = self._make_encoder(tasks, progress)
            splits = REFIT_SPLITS["train" if is_paper or self.refit == "train" else "valid"]
            data = prepare_tasks(tasks, encoder, by_name, splits=splits, progress=progress)
            defaults = PAPER if is_paper else default_settings(data.inputs_of(tasks.names[0]))
            self.settings_ = self.settings or defaults
            # Decide on held-out rows what serves, and train it.
            trainer = Trainer(jobs, data, self.settings_, self.seed_)
            train = self._train_paper if is_paper else self._train_blend
            self.agreement_: Estimate | None = None
            predictor, decision, folds = train(trainer, encoder)
            jobs.finish()
            # Make its probabilities ones to trust, by the same held-out rows.
            self.trust_ = calibrate(predictor, data, folds, decision.served, seed=self.seed_)
        self._set_predictor(predictor)
        self._set_decision(decision)
        has_valid = {predictor.tasks[task.name].cluster for task in tasks if len(task.rows("valid"))}
        self.without_validation_ = tuple(sorted(set(predictor.clusters) - has_valid)) if is_paper else ()
        return self

    def _train_paper(self, trainer: Trainer, encoder: Encoder) -> tuple[Predictor, Decision, Folds]:
        """Train the models of the clusters; only temperatures are decided on the rows in ``valid``."""
        data = trainer.data
        folds = make_folds(data.tasks, n_folds=None, splits=("train",), seed=self.seed_)
        predictor = train_paper(trainer, encoder)
        self.evaluation_ = evaluate_rows(predictor, data, "test")
        weights = CLUSTER_ONLY if predictor.clusters else OWN_ONLY
        serve = bool(predictor.clusters) and data.clusters is not None
        return predictor, Decision(weights, serve, served=predict_held_out(predictor, data, folds)), folds

    def _train_blend(self, trainer: Trainer, encoder: Encoder) -> tuple[Predictor, Decision, Folds]:
        """Decide on out-of-fold predictions, then train what serves."""
        data = trainer.data
        splits = REFIT_SPLITS["train" if self.refit == "train" else "valid"]
        # A fine-tuned encoder has seen all rows in train: only those in valid are new to it.
        n_folds = self.n_folds if self.tune is None else None
        folds = make_folds(data.tasks, n_folds=n_folds, splits=splits, seed=self.seed_)
        n_clusters = 0 if self.cluster_models == "never" else len(clusters_to_train(data.clusters))
        rows = {task.name: task.rows(*splits) for task in data.tasks}
        final = {task.name: task.rows(*refit_splits(task, self.refit)) for task in data.tasks}
        is_refitted = any(len(final[name]) > len(rows[name]) for name in rows)
        trainer.jobs.total += (2 if is_refitted else 1) * (2 + n_clusters + len(data.private))
        decision = decide(trainer, folds, cluster_models=self.cluster_models, n_random=self.n_random)
        predictor = train_blend(trainer, encoder, rows, decision.weights, decision.cluster_weights)
        self.evaluation_ = evaluate_rows(predictor, data, "test")
        if is_refitted:
            evaluated, trainer = predictor, dataclasses.replace(trainer, data=data.trained_on(final))
            weights = decision.weights, decision.cluster_weights
            predictor = train_blend(trainer, encoder, final, *weights, name="all")
            self.agreement_ = measure_agreement(evaluated, predictor, data, seed=self.seed_)
        return predictor, decision, folds

    def _check(self, tasks: TaskSet) -> None:
        if not isinstance(tasks, TaskSet):
            raise UsageError("tasks cannot be used", got=quote(type(tasks).__name__), expected="a TaskSet")
        check_params(self.get_params(deep=False), CONSTRAINTS)
        if self.settings is not None and not isinstance(self.settings, MultiTaskSettings):
            raise UsageError(
                "settings cannot be used", got=quote(self.settings), expected="MultiTaskSettings or None"
            )
        check_learnable(tasks)

    def _make_encoder(self, tasks: TaskSet, progress: Progress | None) -> Encoder:
        encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
        if self.tune is None:
            return encoder
        return PairedEncoder(encoder, fine_tune_on_tasks(encoder, tasks, seed=self.seed_, progress=progress))

    def _set_decision(self, decision: Decision) -> None:
        """Set what was decided on held-out rows."""
        self.blend_weights_, self.cluster_weights_ = decision.weights, decision.cluster_weights
        self.weights_ = dict(zip(COMPONENTS, decision.weights.novel, strict=True))
        self.seen_weights_ = dict(zip(COMPONENTS, decision.weights.seen, strict=True))
        self.clusters_serve_ = decision.clusters_serve
        self.verdict_ = decision.verdict
        self.held_out_accuracy_ = decision.accuracy
        self.held_out_ = decision.held_out

    def _set_predictor(self, predictor: Predictor) -> None:
        """Set the models, and what follows from them."""
        self.predictor_ = predictor
        self.task_names_ = tuple(predictor.tasks)
        self.labels_ = np.array([task.cluster for task in predictor.tasks.values()], dtype=np.int64)
        self.epochs_ = {number: model.n_epochs for number, model in predictor.clusters.items()}
        sharing = [task for task in predictor.tasks.values() if task.may_share]
        self.temperature_ = {task.cluster: task.temperature for task in sharing}

    def _predictor(self) -> Predictor:
        if not hasattr(self, "predictor_"):
            raise UsageError("this model is not trained yet", todo="call fit, or load a saved model")
        return self.predictor_

    def label_names(self, task_name: str) -> tuple[str, ...]:
        """Return the labels of a task, in the order of the columns of `predict_proba`."""
        return self._predictor().find(task_name).label_names

    def predict_proba(self, task_name: str, texts: Any) -> NDArray[np.float64]:
        """Return the probability of every label of a task for every text.

        `texts` are a list, array or iterator; for ready-made features, their vectors.
        """
        predictor = self._predictor()
        with threadpool_limits(1):
            return predictor.probabilities(task_name, *predictor.read(task_name, texts))

    def predict(
        self, task_name: str, texts: Any, *, abstain_below: float | None = None
    ) -> NDArray[np.object_]:
        """Return the most probable label of every text; None where that is below `abstain_below`."""
        threshold = check_threshold(abstain_below)
        probabilities = self.predict_proba(task_name, texts)
        return pick_labels(probabilities, self.label_names(task_name), threshold=threshold)

    def scope_score(self, task_name: str, texts: Any) -> NDArray[np.float64]:
        """Return for every text how likely it is to belong to none of the task's labels, from 0 to 1."""
        predictor = self._predictor()
        with threadpool_limits(1):
            return predictor.scope_score(task_name, predictor.read(task_name, texts)[0])

    def scope_threshold(self, task_name: str, *, rejects: float = REJECTED) -> float:
        """Return the `scope_score` above which such a share of the task's own new texts is expected."""
        with threadpool_limits(1):
            return self._predictor().scope_threshold(task_name, rejects=rejects)

    def predict_with_scope(
        self, task_name: str, texts: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return what `predict_proba` and `scope_score` return, the latter None where it is not known."""
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
        """Return which tasks lose by sharing and, given the tasks of the training, which others cause it.

        It needs held-out rows: ``blend``, and at least two tasks that may share.
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
        made = self.with_predictor(self._predictor().without(gone))
        made.held_out_ = {name: held for name, held in self.held_out_.items() if name not in gone}
        return made

    def with_predictor(self, predictor: Predictor) -> ClusterMultiTask:
        """Return an estimator that predicts with other models, such as those of a task added later."""
        made = ClusterMultiTask(**self.get_params(deep=False))
        made.__dict__.update(self.__dict__)
        made._set_predictor(predictor)
        made.held_out_ = {}
        made.evaluation_ = {name: held for name, held in self.evaluation_.items() if name in predictor.tasks}
        return made

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model to a folder; see `load`."""
        content = {
            "predictor": self._predictor().describe(),
            "parameters": describe_parameters(self, self.seed_),
            "settings": dataclasses.asdict(self.settings_),
            "seed": self.seed_,
            "weights": dataclasses.asdict(self.blend_weights_),
            "cluster_weights": [
                [cluster, dataclasses.asdict(one)] for cluster, one in self.cluster_weights_.items()
            ],
            "clusters_serve": self.clusters_serve_,
            "verdict": None if self.verdict_ is None else self.verdict_.to_dict(),
            "accuracy": {name: one.to_dict() for name, one in self.held_out_accuracy_.items()},
            "held_out": {name: dataclasses.asdict(one) for name, one in self.held_out_.items()},
            "evaluation": {name: dataclasses.asdict(one) for name, one in self.evaluation_.items()},
            "agreement": None if self.agreement_ is None else self.agreement_.to_dict(),
            "trust": self.trust_.to_dict(),
            "without_validation": self.without_validation_,
        }
        values, arrays = split_arrays(content)
        write_model_folder(folder, kind=KIND, version=VERSION, settings=values, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> ClusterMultiTask:
        """Read a model that `save` wrote. It predicts the same, bit for bit, and has the same parameters."""
        content = join_arrays(*read_model_folder(folder, kind=KIND, version=VERSION))
        with rebuilding(folder, todo="train it again"):
            predictor = Predictor.from_description(content["predictor"], device=device)
            parameters = rebuild_parameters(
                content["parameters"],
                reader=predictor.reader,
                device=device,
                settings=lambda values: MultiTaskSettings(**values),
            )
            verdict = content["verdict"]
            loaded = cls(**parameters)
            loaded.settings_, loaded.seed_ = MultiTaskSettings(**content["settings"]), content["seed"]
            loaded._set_predictor(predictor)
            loaded._set_decision(
                Decision(
                    BlendWeights.from_dict(content["weights"]),
                    content["clusters_serve"],
                    {cluster: BlendWeights.from_dict(one) for cluster, one in content["cluster_weights"]},
                    None if verdict is None else Verdict.from_dict(verdict),
                    {name: Estimate.from_dict(one) for name, one in content["accuracy"].items()},
                    {name: HeldOutRows(**one) for name, one in content["held_out"].items()},
                )
            )
            loaded.evaluation_ = {name: HeldOutRows(**one) for name, one in content["evaluation"].items()}
            agreement = content["agreement"]
            loaded.agreement_ = None if agreement is None else Estimate.from_dict(agreement)
            loaded.trust_ = TrustReport.from_dict(content["trust"])
            loaded.without_validation_ = tuple(content["without_validation"])
        return loaded
