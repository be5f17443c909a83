"""Few-shot learning on clusters of tasks (section 3.4, Algorithm 3)."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
from robusttc.fewshot.adapting import Support
from robusttc.fewshot.assessment import assess_fewshot, find_clusters
from robusttc.fewshot.deciding import THRESHOLD, judge, tune_threshold
from robusttc.fewshot.fitted import Fitted, load_fitted, save_fitted
from robusttc.fewshot.knowledge import learn
from robusttc.fewshot.lessons import Lesson, Teacher
from robusttc.fewshot.model import FewShotModel
from robusttc.fewshot.nearest import find_nearest, make_landmarks
from robusttc.fewshot.rehearsal import plan_rounds, rehearse
from robusttc.fewshot.settings import FewShotSettings, Strategy, check_number, default_settings
from robusttc.fewshot.sources import make_ready
from robusttc.fewshot.support_set import check_support, find_tuning
from robusttc.fewshot.trusting import borrow_temperature, fit_temperatures, learn_scope, measure_trust
from robusttc.jobs import Runner
from robusttc.models import Verdict, carries_words, fine_tune_on_tasks, label_words, name_as_text
from robusttc.params import Choice, check_param
from robusttc.progress import Progress, ProgressOption, resolve_progress
from robusttc.random import RandomState, run_seed

__all__ = ["ClusterFewShot", "assess_fewshot"]


class ClusterFewShot:
    """Learn from many source tasks how to learn a new one from a handful of rows (Algorithm 3).

    With ``strategy="paper"``, every cluster has a matching network, trained on episodes of its tasks, and a
    new task mixes them: p(y | x) = sum_k alpha_k P(y | x; cluster k) (Eq. 3), where P is matching with the
    support examples (Eq. 4) and alpha is learned on the support set by leave-one-out. Where no cluster
    reaches `threshold`, the task's own model serves (the paper's *Adaptive*). Where all sources and the
    target have identical labels, P is a classifier that was trained on all rows of the cluster.

    With ``strategy="blend"``, one metric is shared by all sources, softmax regression on the support set is
    fitted in it, and the name of each label is one more support vector of the label. The clusters' metrics
    join in where they were seen to help.
    Deviation: the paper has neither a shared metric, nor regression, nor names. Each of them gains more on
    real intent tasks than clusters do.

    Parameters
    ----------
    encoder
        See `robusttc.encoders.make_encoder`.
    strategy
        ``blend`` or ``paper``.
    clusters
        ``auto``: with ``blend``, clusters serve if they help held-out source tasks (`verdict_`); with
        ``paper`` they always do. ``always``; or ``never``.
    use_label_names
        Whether names of labels are used by ``blend``; names that carry no words (``0``, ``A17``) never are.
    tune
        ``encoder`` fine-tunes the sentence encoder on the sources first; with ``blend`` the encoder as it
        came stands beside it, for what fine-tuning forgets. It has then seen the tasks that are held out
        later, so temperatures and figures of trust are a little too good.
    threshold
        The leave-one-out accuracy below which a task is out of all clusters (``paper``, and words), or
        ``auto`` to tune it on held-out source tasks.
    settings
        Everything else; None takes what suits the strategy and the encoder.
    vectors, model, device
        See `robusttc.encoders.make_encoder`.
    random_state
        The seed.

    Attributes
    ----------
    verdict_
        Whether clusters help held-out source tasks: a `Verdict`.
    clusters_serve_
        Whether clusters take part in predictions.
    clusters_
        The names of the source tasks of each cluster, by its number.
    threshold_
        The threshold in use.
    temperatures_
        The temperature of each cluster, by its number; that of all sources under -1.
    trust_
        How far probabilities can be trusted, by held-out source tasks; None where there are fewer than six.
    source_names_
        The names of the source tasks.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
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

    def __init__(
        self,
        encoder: str | Encoder = DEFAULT_ENCODER,
        *,
        strategy: Strategy = "blend",
        clusters: Literal["auto", "always", "never"] = "auto",
        use_label_names: bool = True,
        tune: Literal["encoder"] | None = None,
        threshold: float | Literal["auto"] = THRESHOLD,
        settings: FewShotSettings | None = None,
        vectors: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        device: str = "cpu",
        random_state: RandomState = 0,
    ) -> None:
        self.encoder = encoder
        self.strategy = strategy
        self.clusters = clusters
        self.use_label_names = use_label_names
        self.tune = tune
        self.threshold = threshold
        self.settings = settings
        self.vectors = vectors
        self.model = model
        self.device = device
        self.random_state = random_state

    def get_params(self) -> dict[str, Any]:
        """Give the parameters as they were given."""
        names = "encoder strategy clusters use_label_names tune threshold settings vectors model device"
        return {name: getattr(self, name) for name in [*names.split(), "random_state"]}

    def fit(
        self,
        tasks: TaskSet,
        labels: ArrayLike | Mapping[str, int] | None = None,
        *,
        runner: Runner | None = None,
        progress: ProgressOption = True,
    ) -> ClusterFewShot:
        """Learn from the rows of source tasks in ``train`` and ``valid``.

        Parameters
        ----------
        tasks
            The sources. One with ``may_share=False`` teaches nothing.
        labels
            The cluster of every task, in order or by name, -1 for none; None for no clusters at all.
        runner
            Who trains, see `robusttc.jobs.Runner`; None trains here, one metric after the other.
        progress
            True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

        Raises
        ------
        UsageError
            If a parameter or the labels cannot be used.
        DataError
            If no source has two labels of at least two rows.
        WorkError
            If the runner could not train a metric of all sources.

        Warns
        -----
        DoubtWarning
            If the runner could not train the metric of some cluster, which goes without it.
        """
        progress = resolve_progress(progress)
        self._check(tasks)
        seed = run_seed(self.random_state)
        sources = tasks.shareable()
        clusters = {} if self.clusters == "never" else find_clusters(tasks, labels)
        if len(sources) == 0:
            raise DataError(
                "there is no source task to learn from", got=f"{len(tasks):,} tasks, none may share"
            )
        with threadpool_limits(1):
            encoder = self._make_encoder(sources, seed, progress)
            use_names = self.use_label_names and self.strategy == "blend"
            ready = make_ready(sources, encoder, use_label_names=use_names, progress=progress)
            settings = self.settings or default_settings(
                self.strategy, words=isinstance(ready.inputs, WordInputs), tuned=find_tuning(encoder)
            )
            shared_labels = next(iter(sources)).label_names if sources.same_label_sets else None
            threshold = THRESHOLD if self.threshold == "auto" else float(self.threshold)
            teacher = Teacher(
                ready.inputs,
                ready.sources,
                settings=settings,
                seed=seed,
                n_labels=len(shared_labels or ()),
                runner=runner,
                progress=progress,
            )
            whole = Lesson("whole", tuple(source.name for source in ready.sources), clusters)
            rounds = plan_rounds(ready.sources, clusters, settings=settings, seed=seed)
            # What is rehearsed with and what serves do not need each other: trained together.
            teacher.teach([*(lesson for one in rounds for lesson in one.lessons.values()), whole])
            rehearsal = rehearse(
                ready.inputs,
                ready.sources,
                clusters,
                strategy=self.strategy,
                settings=settings,
                threshold=threshold,
                shared_labels=shared_labels,
                with_own=self.threshold == "auto",
                seed=seed,
                teacher=teacher,
                progress=progress,
            )
            if self.threshold == "auto":
                threshold = tune_threshold(rehearsal, "cluster" if clusters else "shared")
            verdict = judge(rehearsal, seed)
            serve = self._decide(verdict, bool(clusters))
            way = "cluster" if serve and clusters else "shared"
            knowledge = learn(
                teacher, whole, strategy=self.strategy, threshold=threshold, shared_labels=shared_labels
            )
            cluster_of = {name: number for number, names in clusters.items() for name in names}
            temperatures = fit_temperatures(rehearsal, way, cluster_of)
            space = knowledge.metrics.shared
            scope, area = learn_scope(rehearsal, space=space, inputs=ready.inputs)
            fitted = Fitted(
                dataclasses.replace(knowledge, clusters_serve=serve, gate=rehearsal.gate),
                ready.reader,
                make_landmarks(space, ready.inputs, ready.sources),
                clusters,
                temperatures,
                scope,
                verdict,
                measure_trust(rehearsal, way, temperatures, area),
                use_names,
            )
        self._encoder: Encoder | None = encoder
        self._keep(fitted)
        return self

    def adapt(self, task: Task, *, vectors: ArrayLike | None = None) -> FewShotModel:
        """Learn a new task from its rows in ``train``; other splits are not looked at.

        A task of the name of a source is adapted to like any other; the metrics have seen the source's rows,
        so its leave-one-out accuracy may then be too good. One with ``may_share=False`` can be adapted to:
        nothing of it is kept but in its own model.

        Parameters
        ----------
        task
            The task. Labels without a training row are not learned.
        vectors
            The vectors of all rows of the task, where the sources had ready-made vectors; None looks them up
            in the encoder that `fit` got.

        Warns
        -----
        DoubtWarning
            If a text stands under two labels: all its rows are used as they are, and cannot all be right.

        Raises
        ------
        DataError
            If there are no training rows, or all of them have one label.
        UsageError
            If this is not fitted, or vectors are needed and not there.
        """
        fitted = self._need()
        if not isinstance(task, Task):
            raise UsageError("this is no task", got=quote(task), expected="a Task")
        rows = task.rows("train")
        codes, label_names = check_support(task, rows)
        with threadpool_limits(1):
            inputs, names = self._read(task, rows, label_names, vectors)
            support = Support(task.name, inputs, codes, len(label_names), names)
            knowledge = fitted.knowledge
            adapted = knowledge.adapt(support, label_names)
            reference = knowledge.metrics.shared.directions(inputs)
        served = adapted.weights if knowledge.clusters_serve else {}
        return FewShotModel(
            task.name,
            label_names,
            parts=adapted.parts,
            shares=adapted.shares,
            reader=fitted.reader,
            weights=adapted.weights,
            support_accuracy=adapted.support_accuracy,
            out_of_cluster=adapted.out_of_cluster,
            nearest_tasks=find_nearest(fitted.landmarks, reference, without=task.name),
            temperature=borrow_temperature(fitted.temperatures, served),
            space=knowledge.metrics.shared,
            reference=reference,
            scope=fitted.scope,
        )

    def without_clusters(self) -> ClusterFewShot:
        """Give the same learner with its shared metric alone, to compare with; this one stays as it is."""
        fitted = self._need()
        alone = copy.copy(self)
        knowledge = dataclasses.replace(fitted.knowledge, clusters_serve=False)
        alone._keep(dataclasses.replace(fitted, knowledge=knowledge))
        return alone

    def save(self, folder: str | PathLike[str]) -> None:
        """Write what was learned from the sources to a folder; see `load`."""
        save_fitted(self._need(), folder)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, device: str = "cpu") -> ClusterFewShot:
        """Read what `save` wrote. It adapts in the same way, bit for bit; it keeps no rows of the sources.

        Raises
        ------
        StoreError
            If something is missing, damaged, or from a later version.
        """
        fitted = load_fitted(folder, device=device)
        knowledge = fitted.knowledge
        loaded = cls(
            strategy=knowledge.strategy,
            clusters="always" if knowledge.clusters_serve else "never",
            use_label_names=fitted.use_label_names,
            threshold=knowledge.threshold,
            settings=knowledge.settings,
            device=device,
            random_state=knowledge.seed,
        )
        loaded._encoder = None
        loaded._keep(fitted)
        return loaded

    def _keep(self, fitted: Fitted) -> None:
        """Set what is fitted."""
        self._fitted = fitted
        self.verdict_ = fitted.verdict
        self.clusters_serve_ = fitted.knowledge.clusters_serve and bool(fitted.clusters)
        self.clusters_ = dict(fitted.clusters)
        self.threshold_ = fitted.knowledge.threshold
        self.temperatures_ = dict(fitted.temperatures)
        self.trust_ = fitted.trust
        self.source_names_ = fitted.landmarks.names

    def _need(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise UsageError("this is not fitted yet", todo="call fit, or load what was saved")
        return self._fitted

    def _read(
        self, task: Task, rows: NDArray[np.intp], label_names: tuple[str, ...], vectors: ArrayLike | None
    ) -> tuple[FrozenInputs, FrozenInputs | None]:
        """Give the frozen inputs of the rows, and of the labels' names where they are used."""
        fitted = self._need()
        if not isinstance(fitted.reader, FeatureEncoder):
            if vectors is not None:
                raise UsageError("vectors are taken only where the sources had ready-made vectors")
            texts = list(task.texts_at(rows))
            if not (fitted.use_label_names and carries_words(label_names)):
                return fitted.reader.read(texts), None
            # In one call: a sentence encoder opens its cache once.
            read = fitted.reader.read([*texts, *(label_words(label) for label in label_names)])
            return read.take(np.arange(len(rows))), read.take(np.arange(len(rows), len(read)))
        if vectors is not None:
            given = fitted.reader.read(vectors)
            if len(given) != len(task):
                raise DataError(
                    "there is not one vector a row",
                    where=f"task {quote(task.name)}",
                    got=f"{len(given):,} vectors",
                    expected=f"{len(task):,}",
                )
            return given.take(rows), None
        if self._encoder is None:
            raise UsageError("the vectors of the task are not there", todo="give them to adapt, as vectors=")
        return self._encoder.prepare(TaskSet([task])).inputs_of(task.name, rows), None

    def _check(self, tasks: TaskSet) -> None:
        if not isinstance(tasks, TaskSet):
            raise UsageError("tasks cannot be used", got=quote(type(tasks).__name__), expected="a TaskSet")
        check_param("strategy", self.strategy, Choice("blend", "paper"))
        check_param("clusters", self.clusters, Choice("auto", "always", "never"))
        if self.tune is not None:
            check_param("tune", self.tune, Choice("encoder"))
        if self.threshold != "auto":
            check_number("threshold", self.threshold, 1.0)
        if self.settings is not None and not isinstance(self.settings, FewShotSettings):
            raise UsageError(
                "settings cannot be used", got=quote(self.settings), expected="FewShotSettings or None"
            )

    def _decide(self, verdict: Verdict, has_clusters: bool) -> bool:
        """Tell whether clusters take part in predictions."""
        if not has_clusters:
            return False
        return self.clusters == "always" or self.strategy == "paper" or verdict.clusters_help

    def _make_encoder(self, sources: TaskSet, seed: int, progress: Progress | None) -> Encoder:
        encoder = make_encoder(self.encoder, vectors=self.vectors, model=self.model, device=self.device)
        if self.tune is None:
            return encoder
        names = name_as_text if self.use_label_names and self.strategy == "blend" else None
        tuned = fine_tune_on_tasks(encoder, sources, seed=seed, label_texts=names, progress=progress)
        # The paper's matching takes inner products as they are; those of a pair would be twice as large.
        return tuned if self.strategy == "paper" else PairedEncoder(encoder, tuned)
