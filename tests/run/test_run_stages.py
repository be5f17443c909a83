"""Parts of the stages on their own."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
import tiny_run

from robusttc.data import load_tasks
from robusttc.encoders import SentenceEncoder, VectorCache
from robusttc.errors import DoubtWarning, StoreError
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import ProgressEvent
from robusttc.run import FitSettings, Run, RunFolder
from robusttc.run import fit as stages
from robusttc.run.evaluation import compare_models
from robusttc.run.fit import FitContext, encode_tasks, find_clusters, in_stage, make_multitask, run_stages
from robusttc.run.folder import FolderWriter
from robusttc.run.store import JobStore
from robusttc.transfer import measure_transfer

LABELS = {f"task {number}": number % 2 for number in range(6)}


def test_cluster_models_that_do_not_serve_are_trained_for_the_comparison() -> None:
    tasks = load_tasks(tiny_run.good_tasks())
    encoder = SentenceEncoder(tiny_run.tiny_model(), device="cpu")
    fits: list[str | None] = []
    chosen = FitSettings(n_folds=2, n_random=0, cluster_models="never")

    def make(clusters: Any) -> ClusterMultiTask:
        fits.append(clusters)
        return make_multitask(chosen, encoder, clusters=clusters)

    def compare(estimator: ClusterMultiTask) -> dict[str, Any]:
        found = compare_models(tasks, LABELS, estimator, make, runner=Runner(), name="name")
        return {task.task: (task.own, task.shared, task.cluster) for task in found.tasks}

    served = make_multitask(chosen, encoder, clusters="always").fit(tasks, LABELS)
    assert served.predictor_.clusters
    expected = compare(served)
    assert fits == []
    assert all(None not in figures for figures in expected.values())
    without = make_multitask(chosen, encoder).fit(tasks, LABELS)
    assert not without.predictor_.clusters
    assert compare(without) == expected
    assert fits == ["always"]


def test_many_texts_are_encoded_in_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stages, "FEW_TEXTS", 0)
    tasks = load_tasks(tiny_run.good_tasks())
    cache = VectorCache(tmp_path / "cache")
    encoder = SentenceEncoder(tiny_run.tiny_model(), cache=cache, device="cpu")
    events: list[ProgressEvent] = []
    stages.encode_texts(Runner(), encoder, tasks, events.append)
    assert events[-1].done == events[-1].total > 100
    asked: list[ProgressEvent] = []
    encoder.prepare(tasks, progress=asked.append)
    assert len(asked) == 1


def test_a_tuned_encoder_is_made_in_the_first_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tuned: list[tuple[str, ...]] = []

    def tune(encoder: SentenceEncoder, tasks: Any, **_: Any) -> SentenceEncoder:
        tuned.append(tasks.names)
        return encoder

    monkeypatch.setattr(stages, "fine_tune_on_tasks", tune)
    chosen = FitSettings(model=str(tiny_run.tiny_model()), tune="encoder", device="cpu")
    tasks = load_tasks(tiny_run.good_tasks()).keep_private(["task 3"])
    with JobStore(tmp_path / "jobs.sqlite") as store:
        encoder = encode_tasks(FitContext(store, Runner(), chosen), tasks)
    assert isinstance(encoder.parts[0], SentenceEncoder)
    assert tuned == [tuple(f"task {number}" for number in (0, 1, 2, 4, 5))]
    estimator = make_multitask(chosen, encoder)
    assert estimator.tune == "encoder"


def test_events_are_of_the_stage_of_the_run() -> None:
    assert in_stage(None, "multitask") is None
    events: list[ProgressEvent] = []
    tell = in_stage(events.append, "multitask")
    assert tell is not None
    tell(ProgressEvent("sentence vectors", 1, 2, "texts"))
    tell(ProgressEvent("multitask", 1, 2, "models", "acme"))
    assert events == [
        ProgressEvent("multitask", 1, 2, "texts", "sentence vectors"),
        ProgressEvent("multitask", 1, 2, "models", "acme"),
    ]


def test_other_warnings_than_doubts_are_passed_on(tmp_path: Path) -> None:
    with JobStore(tmp_path / "jobs.sqlite") as store:
        context = FitContext(store, Runner(), FitSettings())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with context.stage("encode"):
                warnings.warn("doubtful", DoubtWarning, stacklevel=1)
                warnings.warn("doubtful", DoubtWarning, stacklevel=1)
                warnings.warn("something else", UserWarning, stacklevel=1)
    assert context.doubts == ["doubtful"]
    assert [str(one.message) for one in caught] == ["something else"]


@pytest.mark.parametrize(
    ("converged", "policy", "n_doubts"), [(False, "always", 1), (True, "always", 0), (False, "never", 0)]
)
def test_clusters_that_serve_without_proof_are_doubtful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, converged: bool, policy: Any, n_doubts: int
) -> None:
    tasks = load_tasks(tiny_run.good_tasks())
    encoder = SentenceEncoder(tiny_run.tiny_model(), device="cpu")
    chosen = FitSettings(
        model=str(tiny_run.tiny_model()),
        clusters=2,
        n_folds=2,
        n_random=0,
        cluster_models=policy,
        device="cpu",
    )
    with JobStore(tmp_path / "jobs.sqlite") as store:
        context = FitContext(store, Runner(), chosen)
        found = find_clusters(context, tasks, encoder, measure_transfer(tasks, encoder=encoder))
        assert found is not None
        assert found.by_name == LABELS
        assert found.certificate["converged"]
        certificate = {"converged": converged, "sentence": "As it is."}
        other = dataclasses.replace(found, certificate=certificate)
        monkeypatch.setattr(stages, "find_clusters", lambda *_: other)
        monkeypatch.setattr(stages, "fit_fewshot", lambda *_: None)
        doubts = run_stages(context, tasks).doubts
    assert doubts == ["Of the clusters that serve: As it is."] * n_doubts


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "cannot be read"),
        (b"[]", "another version"),
        (b'{"format": "robusttc summary"}', "another version"),
    ],
)
def test_a_summary_that_cannot_be_used(tmp_path: Path, content: bytes, words: str) -> None:
    folder = tiny_run.copy_of_run(tmp_path / "run")
    with FolderWriter(folder) as writer:
        base = RunFolder(folder).current()
        writer.begin(base)
        writer.write("summary.json", content)
        writer.publish(base.change, identity=base.identity, libraries=base.libraries)
    with pytest.raises(StoreError, match=words):
        Run(folder)
