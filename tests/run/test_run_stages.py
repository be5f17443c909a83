"""Parts of the stages on their own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import tiny_run

from robusttc.data import load_tasks
from robusttc.encoders import SentenceEncoder, VectorCache
from robusttc.errors import StoreError
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import ProgressEvent
from robusttc.run import stages
from robusttc.run.comparing import compare_models
from robusttc.run.grouping import Groups, find_groups
from robusttc.run.identity import Identity
from robusttc.run.settings import FitSettings
from robusttc.run.stages import Stages, in_stage, make_multitask
from robusttc.run.store import RunStore
from robusttc.run.summary import read_summary
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
    with RunStore.create(tmp_path / "run", Identity({}, tasks.content_hashes, {})) as store:
        encoder = Stages(tmp_path / "run", store, Runner(), chosen).encode(tasks)
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
    import warnings

    from robusttc.errors import DoubtWarning

    with RunStore.create(tmp_path / "run", Identity({}, {}, {})) as store:
        made = Stages(tmp_path / "run", store, Runner(), FitSettings())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with made.stage("encode"):
                warnings.warn("doubtful", DoubtWarning, stacklevel=1)
                warnings.warn("doubtful", DoubtWarning, stacklevel=1)
                warnings.warn("something else", UserWarning, stacklevel=1)
    assert made.doubts == ["doubtful"]
    assert [str(one.message) for one in caught] == ["something else"]


def test_clusters_that_serve_without_proof_are_doubtful(tmp_path: Path) -> None:
    tasks = load_tasks(tiny_run.good_tasks())
    encoder = SentenceEncoder(tiny_run.tiny_model(), device="cpu")
    groups = find_groups(measure_transfer(tasks, encoder=encoder), FitSettings(clusters=2), runner=Runner())
    assert groups is not None
    assert groups.members() == {
        0: ("task 0", "task 2", "task 4"),
        1: ("task 1", "task 3", "task 5"),
    }
    assert groups.by_name == LABELS
    assert groups.certificate["converged"]

    class Learner:
        clusters_serve_ = True

    with RunStore.create(tmp_path / "run", Identity({}, {}, {})) as store:
        for certificate, learner, expected in (
            ({"converged": False, "sentence": "Not proven."}, Learner, 1),
            ({"converged": True, "sentence": "Proven."}, Learner, 0),
            ({"converged": False, "sentence": "Not proven."}, None, 0),
        ):
            made = Stages(tmp_path / "run", store, Runner(), FitSettings())
            other = dataclasses.replace(groups, certificate=certificate)
            assert isinstance(other, Groups)
            model: Any = Learner() if learner else type("Nobody", (), {"clusters_serve_": False})()
            made.doubt_clusters(other, model, None)
            assert len(made.doubts) == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"{", "cannot be read"),
        (b"[]", "no summary of a run"),
        (b'{"format": "robusttc run", "version": 9}', "another version; got 9; expected 1"),
    ],
)
def test_a_summary_that_cannot_be_used(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "summary.json").write_bytes(content)
    with pytest.raises(StoreError, match=words):
        read_summary(tmp_path)
