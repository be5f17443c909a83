"""Few-shot learning on clusters of tasks (section 3.4, Algorithm 3), as an estimator."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from robusttc.data import Task, TaskSet
from robusttc.encoders import (
    DEFAULT_ENCODER,
    Encoder,
    FeatureEncoder,
    FrozenInputs,
    PairedEncoder,
    WordInputs,
    make_encoder,
)
from robusttc.errors import DataError, UsageError, quote
from robusttc.fewshot.adaptation import Support, adapt
from robusttc.fewshot.components import FittedMetrics
from robusttc.fewshot.model import Examples, FewShotModel, LabelMeans
from robusttc.fewshot.protocol import check_support
from robusttc.fewshot.settings import (
    FewShotSettings,
    Strategy,
    default_settings,
    find_tuning,
    settings_from,
)
from robusttc.fewshot.training import (
    STAGE,
    Partition,
    Sources,
    assemble,
    find_clusters,
    plan_requests,
    prepare_sources,
    train_all,
)
from robusttc.fewshot.validation import (
    THRESHOLD,
    WHOLE,
    evaluate_rounds,
    make_inputs,
    plan_rounds,
    requests_of,
    tune_threshold,
)
from robusttc.jobs import Runner
from robusttc.models import (
    REFIT_SPLITS,
    Clusters,
    Refit,
    TrainingJobs,
    TrustReport,
    Verdict,
    carries_words,
    describe_parameters,
    find_temperature,
    fine_tune_on_tasks,
    fit_scope,
    join_arrays,
    label_words,
    measure_trust,
    name_as_text,
    read_model_folder,
    rebuild_parameters,
    rebuilding,
    split_arrays,
    write_model_folder,
)
from robusttc.params import Boolean, Choice, Constraint, Integer, Nothing, Number, check_params
from robusttc.progress import Progress, ProgressOption, resolve_progress
from robusttc.random import RandomState, run_seed

__all__ = ["ClusterFewShot"]

KIND, VERSION = "few-shot", 3
CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "strategy": (Choice("blend", "paper"),),
    "cluster_models": (Choice("auto", "always", "never"),),
    "use_label_names": (Boolean(),),
    "tune": (Nothing(), Choice("encoder")),
    "refit": (Choice("auto", *REFIT_SPLITS),),
    "threshold": (Nothing(), Choice("auto"), Number(0, 1)),
    "n_random": (Integer(0),),
}


class ClusterFewShot(BaseEstimator):  # type: ignore[misc]
    """Learn from many source tasks how to learn a new one from a handful of rows (Algorithm 3).

    Parameters
    ----------
    encoder
        See `robusttc.encoders.make_encoder`.
    strategy
        ``paper`` is Algorithm 3: every cluster has a matching network, trained on episodes of its tasks, and
        a new task mixes them: p(y | x) = sum_k alpha_k P(y | x; cluster k) (Eq. 3), where P is matching with
        the support examples (Eq. 4) and alpha is learned on the support set by leave-one-out. Where no
        cluster reaches `threshold`, the task's own model serves (the paper's *Adaptive*). Where all sources
        and the target have identical labels, P is a classifier that was trained on all rows of the cluster.
        ``blend`` shares one metric between all sources, fits softmax regression on the support set in it, and
        counts the name of each label as one more example of it. The clusters' metrics join in where they
        help held-out tasks.
        Deviation: the blend is the default, because each of its parts gains more on real intent tasks than
        clusters do.
    cluster_models
        ``auto`` lets the clusters' metrics serve if they help held-out source tasks (see `verdict_`),
        ``always`` and ``never`` do as they say. For ``paper``, ``auto`` is ``always``, and ``never`` makes
        one cluster of all tasks.
    use_label_names
        Whether ``blend`` uses label names; names that carry no words (``0``, ``A17``) are never used.
    tune
        None, or ``encoder``: the sentence model itself is first fine-tuned on the sources; with ``blend`` the
        original one stands beside it, for what fine-tuning forgets. It has then seen the tasks that are held
        out later, so decisions and figures of trust are a little too good.
    refit
        Which rows of the sources the metrics that serve are trained on: ``auto``, ``train``, ``valid`` or
        ``all``, as for `ClusterMultiTask`. Decisions are made on rows in ``train`` and ``valid`` before.
    threshold
        For ``paper``, and for words: the leave-one-out accuracy below which a task is out of all clusters,
        or ``auto`` to tune it on held-out source tasks; None is the paper's 20 %. The blend of sentence
        vectors has no such fallback, and accepts None only.
    settings
        How metrics are trained; None takes what suits the strategy and the encoder.
    n_random
        How many draws of random clusters the verdict compares with.
    vectors
        A file of word vectors, for ``cnn``.
    model
        A sentence-transformers model, for ``sentence``.
    device
        Where a sentence model runs.
    random_state
        The seed.

    Attributes
    ----------
    verdict_ : Verdict or None
        Whether clusters help held-out source tasks; None for ``paper``, which does not ask.
    clusters_serve_ : bool
        Whether the metrics of clusters take part in predictions.
    clusters_ : dict
        The names of the source tasks of each cluster, by its number.
    threshold_ : float or None
        The threshold in use.
    temperature_ : float
        What the probabilities of adapted tasks are scaled with; 1 for ``paper``.
    trust_ : TrustReport
        How far probabilities can be trusted, by held-out source tasks; empty where there are fewer than six.
    source_names_ : tuple of str
        The names of the source tasks.
    metrics_ : FittedMetrics
        All that was learned; the models of adapted tasks refer to it.
    label_means_ : LabelMeans
        The label means of the sources, for the nearest tasks.
    encoder_ : Encoder
        The encoder, fine-tuned if that was asked for.
    settings_, seed_
        What the metrics were trained with.

    Examples
    --------
    >>> rows = np.repeat(np.eye(4), 6, axis=0)
    >>> names = ["a", "b", "c", "new"]
    >>> texts = [f"text {row}" for row in range(24)]
    >>> tasks = TaskSet(Task(name, texts, ["x"] * 12 + ["y"] * 12) for name in names)
    >>> learner = ClusterFewShot(FeatureEncoder({name: rows for name in names}))
    >>> learner = learner.fit(tasks.subset(["a", "b", "c"]))
    >>> model = learner.adapt(tasks["new"].take([0, 6, 12, 18]), vectors=np.eye(4))
    >>> model.predict(np.eye(4)).tolist()
    ['x', 'x', 'y', 'y']
    """

    verdict_: Verdict | None
    clusters_serve_: bool
    clusters_: dict[int, tuple[str, ...]]
    threshold_: float | None
    temperature_: float
    trust_: TrustReport
    source_names_: tuple[str, ...]
    metrics_: FittedMetrics
    label_means_: LabelMeans
    encoder_: Encoder
    settings_: FewShotSettings
    seed_: int

    def __init__(
        self,
        encoder: str | Encoder = DEFAULT_ENCODER,
        *,
        strategy: Strategy = "blend",
        cluster_models: Literal["auto", "always", "never"] = "auto",
        use_label_names: bool = True,
        tune: Literal["encoder"] | None = None,
        refit: Refit = "auto",
        threshold: float | Literal["auto"] | None = None,
        settings: FewShotSettings | None = None,
        n_random: int = 1,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.encoder = encoder
        self.strategy = strategy
        self.cluster_models = cluster_models
        self.use_label_names = use_label_names
        self.tune = tune
        self.refit = refit
        self.threshold = threshold
        self.settings = settings
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
    ) -> ClusterFewShot:
        """Decide on held-out source tasks what serves, and train that on the rows that `refit` names.

        Parameters
        ----------
        tasks
            The sources. Nothing is learned from one with ``may_share=False``.
        clusters
            The cluster of every task: labels in the order of the tasks, a dict by name, or a fitted
            `RobustTaskClustering`; None for no clusters.
        runner
            Runs the jobs, see `robusttc.jobs.Runner`; None trains in this process.
        progress
            True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

        Raises
        ------
        UsageError
            If a parameter or the clusters cannot be used.
        DataError
            If no source has two labels of at least two rows.
        WorkError
            If the runner could not train a metric of all sources.

        Warns
        -----
        DoubtWarning
            If the runner could not train the metric of some cluster, which is left out.
        """
        progress = resolve_progress(progress)
        self._check(tasks)
        shareable = tasks.shareable()
        members = find_clusters(tasks, clusters)
        if len(shareable) == 0:
            raise DataError(
                "there is no source task to learn from", got=f"{len(tasks):,} tasks, none may share"
            )
        self.seed_ = run_seed(self.random_state)
        with threadpool_limits(1):
            self.encoder_ = self._make_encoder(shareable, progress)
            sources = prepare_sources(
                shareable,
                self.encoder_,
                use_label_names=self.use_label_names and self.strategy == "blend",
                refit=self.refit,
                progress=progress,
            )
            words = isinstance(sources.inputs, WordInputs)
            self.settings_ = self.settings or default_settings(
                self.strategy, words=words, tuned=find_tuning(self.encoder_)
            )
            if self.strategy == "blend" and not words and self.threshold is not None:
                raise UsageError(
                    "a threshold has no effect on a blend of ready-made vectors",
                    got=f"threshold={self.threshold!r}",
                    expected="None",
                    todo="leave it out, or take strategy='paper'",
                )
            self.clusters_ = {} if self.cluster_models == "never" else members
            self._fit_sources(sources, runner, progress)
        return self

    def _fit_sources(self, sources: Sources, runner: Runner | None, progress: Progress | None) -> None:
        """Decide on held-out tasks, then train what serves; ``paper`` has nothing to decide."""
        is_paper, is_tuned = self.strategy == "paper", self.threshold == "auto"
        always = is_paper or self.cluster_models == "always"
        clusters: Partition = self.clusters_
        if is_paper and not clusters:
            clusters = {0: tuple(sorted(sources.tasks))}
        threshold = None if isinstance(self.threshold, str) else self.threshold
        if threshold is None and (is_paper or isinstance(sources.inputs, WordInputs)):
            threshold = THRESHOLD
        options: dict[str, Any] = {"strategy": self.strategy, "settings": self.settings_, "seed": self.seed_}
        rounds = []
        if not is_paper or is_tuned:
            n_random = 0 if is_paper else self.n_random
            rounds = plan_rounds(sources, clusters, n_random=n_random, **options)
        inputs = make_inputs(sources, rounds, **options)
        planned = [plan.items() for plan in plan_requests(inputs, WHOLE, clusters)]
        first = [one for plan in planned for key, one in plan if always or "cluster" not in key]
        later = [one for plan in planned for key, one in plan if not always and "cluster" in key]
        # What decides and what serves whatever is decided do not need each other: trained together.
        first += requests_of(inputs, rounds)
        total = len(first) + len(later) + sum(len(one.held) for one in rounds)
        with TrainingJobs(STAGE, runner, progress=progress, total=total, unit="jobs") as jobs:
            trained = train_all(jobs, inputs, first)
            held_out = evaluate_rounds(
                jobs,
                rounds,
                clusters,
                inputs,
                trained,
                threshold=None if is_tuned else threshold,
                with_own=is_tuned,
            )
            self.verdict_ = None if is_paper else held_out.judge(always=always, seed=self.seed_)
            serve = bool(clusters) and (always or (self.verdict_ is not None and self.verdict_.clusters_help))
            if serve:
                trained |= train_all(jobs, inputs, later)
            jobs.finish()
        partition = "cluster" if serve else "shared"
        if is_tuned:
            threshold = tune_threshold(held_out, partition)
        metrics = assemble(inputs, WHOLE, trained, clusters if serve else {}, threshold=threshold)
        examples = [] if is_paper else held_out.examples()
        rows = [] if is_paper else held_out.rows(partition)
        self.temperature_ = find_temperature(rows)
        self.trust_ = measure_trust(rows, examples)
        self.label_means_ = LabelMeans.of(metrics.reference, sources.inputs, sources.served)
        self._keep(metrics.complete(sources.reader, fit_scope(examples) if examples else None))

    def _keep(self, metrics: FittedMetrics) -> None:
        """Set what adaptation needs, and what follows from it."""
        self.metrics_ = metrics
        self.threshold_ = metrics.threshold
        self.clusters_serve_ = bool(
            self.clusters_ and (metrics.of_clusters() or metrics.of_clusters("pools"))
        )
        self.source_names_ = self.label_means_.names

    def _fitted(self) -> FittedMetrics:
        if not hasattr(self, "metrics_"):
            raise UsageError("this is not fitted yet", todo="call fit, or load what was saved")
        return self.metrics_

    def adapt(self, task: Task, *, vectors: ArrayLike | None = None) -> FewShotModel:
        """Learn a new task from its rows in ``train``; other splits are not used.

        A task of the name of a source is adapted to like any other; the metrics have seen the source's rows,
        so its leave-one-out accuracy may then be too good. One with ``may_share=False`` can be adapted to:
        nothing of it is kept but in its own model.

        Parameters
        ----------
        task
            The task. Labels without a training row are not learned.
        vectors
            The vectors of all rows of the task, where the sources had ready-made vectors; None looks them up
            in the encoder of the estimator.

        Warns
        -----
        DoubtWarning
            If a text has two labels: all its rows are used as they are, and cannot all be right.

        Raises
        ------
        DataError
            If there are no training rows, or all of them have one label.
        UsageError
            If this is not fitted, or vectors are needed and not there.
        """
        metrics = self._fitted()
        if not isinstance(task, Task):
            raise UsageError("this is not a task", got=quote(task), expected="a Task")
        rows = task.rows("train")
        codes, label_names = check_support(task, rows)
        with threadpool_limits(1):
            inputs, names = self._read(task, rows, label_names, vectors)
            support = Support(task.name, inputs, codes, len(label_names), names)
            adapted = adapt(metrics, support, label_names)
            reference = metrics.reference
            directions = np.zeros((0, 0), np.float32) if reference is None else reference.directions(inputs)
        return FewShotModel(
            task.name,
            label_names,
            adapted,
            metrics=metrics,
            examples=Examples(tuple(task.texts_at(rows)), codes, directions.astype(np.float16)),
            # That of the task's own model is not known.
            temperature=1.0 if adapted.out_of_cluster else self.temperature_,
            nearest_tasks=self.label_means_.nearest(directions, without=task.name),
        )

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FewShotModel:
        """Return a model that this learner adapted, from what its `FewShotModel.describe` returned.

        Raises
        ------
        StoreError
            If it is damaged, or of another learner.
        """
        metrics = self._fitted()
        with rebuilding(f"few-shot model of {values.get('name')}", todo="adapt to the task again"):
            return FewShotModel.from_description(join_arrays(values, arrays), metrics)

    def trust_report(self) -> TrustReport:
        """Return how far probabilities can be trusted, by held-out source tasks."""
        self._fitted()
        return self.trust_

    def without_clusters(self) -> ClusterFewShot:
        """Return the same learner with its shared metric alone, to compare with; this one stays as it is.

        Raises
        ------
        UsageError
            If there is no shared metric (``paper``).
        """
        metrics = self._fitted()
        if "shared" not in metrics.metrics:
            raise UsageError(
                "there is no shared metric without clusters",
                got="strategy='paper'",
                todo="fit again with cluster_models='never'",
            )
        alone = copy.copy(self)
        kept = {name: one for name, one in metrics.metrics.items() if "cluster" not in name}
        pools = {name: one for name, one in metrics.pools.items() if "cluster" not in name}
        alone._keep(dataclasses.replace(metrics, metrics=kept, pools=pools, summaries={}))
        return alone

    def save(self, folder: str | PathLike[str]) -> None:
        """Write what was learned from the sources to a folder; see `load`."""
        content = {
            "metrics": self._fitted().describe(),
            "parameters": describe_parameters(self, self.seed_),
            "clusters": list(self.clusters_.items()),
            "source_names": self.source_names_,
            "means": self.label_means_.means,
            "n_labels": self.label_means_.n_labels,
            "temperature": self.temperature_,
            "verdict": None if self.verdict_ is None else self.verdict_.to_dict(),
            "trust": self.trust_.to_dict(),
        }
        values, arrays = split_arrays(content)
        write_model_folder(folder, kind=KIND, version=VERSION, settings=values, arrays=arrays)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> ClusterFewShot:
        """Read what `save` wrote. It adapts in the same way, bit for bit, and has the same parameters.

        Raises
        ------
        StoreError
            If something is missing, damaged, or from a later version.
        """
        content = join_arrays(*read_model_folder(folder, kind=KIND, version=VERSION))
        with rebuilding(folder, todo="train it again"):
            return cls._from_content(content, device)

    @classmethod
    def _from_content(cls, content: Mapping[str, Any], device: str) -> ClusterFewShot:
        """Rebuild an estimator from its file."""
        metrics = FittedMetrics.from_description(content["metrics"], device=device)
        reader = metrics.reader
        parameters = rebuild_parameters(
            content["parameters"], reader=reader, device=device, settings=settings_from
        )
        loaded = cls(**parameters)
        loaded.settings_, loaded.seed_ = metrics.settings, metrics.seed
        loaded.encoder_ = reader  # type: ignore[assignment]
        loaded.clusters_ = {int(number): tuple(names) for number, names in content["clusters"]}
        loaded.temperature_ = float(content["temperature"])
        verdict = content["verdict"]
        loaded.verdict_ = None if verdict is None else Verdict.from_dict(verdict)
        loaded.trust_ = TrustReport.from_dict(content["trust"])
        names = tuple(content["source_names"])
        loaded.label_means_ = LabelMeans(names, content["n_labels"], content["means"])
        loaded._keep(metrics)
        return loaded

    def _read(
        self, task: Task, rows: NDArray[np.intp], label_names: tuple[str, ...], vectors: ArrayLike | None
    ) -> tuple[FrozenInputs, FrozenInputs | None]:
        """Return the frozen inputs of the rows, and of the label names where they are used."""
        reader = self.metrics_.reader
        assert reader is not None  # noqa: S101 - a fitted learner has one
        if not isinstance(reader, FeatureEncoder):
            if vectors is not None:
                raise UsageError("vectors can be used only where the sources had ready-made vectors")
            texts = list(task.texts_at(rows))
            use_names = self.use_label_names and self.strategy == "blend"
            if not (use_names and carries_words(label_names)):
                return reader.read(texts), None
            # In one call: a sentence encoder opens its cache once.
            read = reader.read([*texts, *(label_words(label) for label in label_names)])
            return read.take(np.arange(len(rows))), read.take(np.arange(len(rows), len(read)))
        if vectors is not None:
            own = reader.read(vectors)
            if len(own) != len(task):
                raise DataError(
                    "there is not one vector a row",
                    where=f"task {quote(task.name)}",
                    got=f"{len(own):,} vectors",
                    expected=f"{len(task):,}",
                )
            return own.take(rows), None
        if not (isinstance(self.encoder_, FeatureEncoder) and self.encoder_.features):
            raise UsageError("the vectors of the task are not there", todo="give them to adapt, as vectors=")
        return self.encoder_.prepare(TaskSet([task])).inputs_of(task.name, rows), None

    def _check(self, tasks: TaskSet) -> None:
        if not isinstance(tasks, TaskSet):
            raise UsageError("tasks cannot be used", got=quote(type(tasks).__name__), expected="a TaskSet")
        check_params(self.get_params(deep=False), CONSTRAINTS)
        if self.settings is not None and not isinstance(self.settings, FewShotSettings):
            raise UsageError(
                "settings cannot be used", got=quote(self.settings), expected="FewShotSettings or None"
            )

    def _make_encoder(self, sources: TaskSet, progress: Progress | None) -> Encoder:
        encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
        if self.tune is None:
            return encoder
        names = name_as_text if self.use_label_names and self.strategy == "blend" else None
        tuned = fine_tune_on_tasks(encoder, sources, seed=self.seed_, label_texts=names, progress=progress)
        # The paper's matching takes inner products as they are; those of a pair would be twice as large.
        return tuned if self.strategy == "paper" else PairedEncoder(encoder, tuned)
