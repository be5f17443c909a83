"""Fine-tuning: what it learns, that it can be stopped and gone on with, and what it refuses."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from robusttc.data import Task, TaskSet
from robusttc.encoders import fine_tuning, fine_tuning_training
from robusttc.encoders.fine_tuning import fine_tune
from robusttc.encoders.fine_tuning_batches import draw_batch
from robusttc.encoders.fine_tuning_changes import write_changes
from robusttc.encoders.fine_tuning_clusters import specialise
from robusttc.encoders.fine_tuning_forward import TrainableModel, contrastive_loss
from robusttc.encoders.fine_tuning_settings import FineTuningSettings
from robusttc.encoders.inputs import DenseInputs
from robusttc.encoders.model_folder import default_model_folder
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.encoders.sentence_vectors import encode_sentences
from robusttc.encoders.vector_cache import VectorCache
from robusttc.errors import DataError, DataWarning, StoreError, UsageError
from robusttc.progress import ProgressEvent
from robusttc.random import numpy_generator

SETTINGS = FineTuningSettings(steps=12, trained_layers=1, learning_rate=1e-3, checkpoint_every=4)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep every test away from what others fine-tuned."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ROBUSTTC_CACHE", str(folder))
    return folder


def make_tiny_model(folder: Path, *, n_layers: int = 3) -> Path:
    """A BERT with random weights, which is a model like any other."""
    from transformers import BertConfig, BertModel

    ignored = shutil.ignore_patterns("*.safetensors", "data_config.json")
    shutil.copytree(default_model_folder(), folder, ignore=ignored)
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=32,
        num_hidden_layers=n_layers,
        num_attention_heads=4,
        intermediate_size=64,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = BertModel(config).state_dict()  # type: ignore[no-untyped-call]
    (folder / "config.json").write_text(json.dumps({**config.to_dict(), "architectures": ["BertModel"]}))
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "model.safetensors")
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({**json.loads(pooling.read_text()), "word_embedding_dimension": 32}))
    return folder


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder(tiny_folder, cache=VectorCache.disabled(), device="cpu")


THINGS = ("parcel", "invoice", "garden", "weather")
FILLERS = ("please", "my", "the", "about", "tell", "now", "where", "is", "it", "today", "soon", "a")


def make_task(name: str, seed: int, *, n_texts: int = 24, private: bool = False) -> Task:
    """A task whose label is a word that stands among many others."""
    generator = numpy_generator(seed, "texts", [name])
    texts, labels = [], []
    for row in range(n_texts):
        thing = THINGS[row % len(THINGS)]
        words = [*generator.choice(FILLERS, size=16).tolist(), thing]
        texts.append(" ".join(generator.permutation(words).tolist()))
        labels.append(f"ask_{thing}")
    task = Task(name, texts, labels)
    return TaskSet([task]).keep_private([name])[name] if private else task


TASKS = TaskSet([make_task("a", 0), make_task("b", 0), make_task("c", 0)])


def vectors_of(encoder: SentenceEncoder, tasks: TaskSet) -> NDArray[np.float32]:
    inputs = encoder.prepare(tasks).inputs
    assert isinstance(inputs, DenseInputs)
    return inputs.matrix


def nearest_is_right(encoder: SentenceEncoder, task: Task) -> float:
    """The share of texts whose nearest other text has their label."""
    prepared = encoder.prepare(TaskSet([task]))
    assert isinstance(prepared.inputs, DenseInputs)
    vectors = prepared.inputs.matrix[prepared.items[task.name]]
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -np.inf)
    return float((task.label_codes[similarity.argmax(axis=1)] == task.label_codes).mean())


def assert_equal_arrays(first: dict[str, Any] | None, second: dict[str, Any] | None) -> None:
    assert first is not None
    assert second is not None
    assert set(first) == set(second)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("rank", "rate"), [(None, 3e-3), (16, 1e-2)])
def test_new_texts_of_a_new_task_find_their_label(
    encoder: SentenceEncoder, seed: int, rank: int | None, rate: float
) -> None:
    settings = SETTINGS.replace(steps=60, trained_layers=2, learning_rate=rate, rank=rank)
    sources = TaskSet([make_task(name, 0, n_texts=80) for name in "abc"])
    new = make_task("new", 100 + seed, n_texts=200)
    tuned = fine_tune(encoder, sources, settings=settings, seed=seed)
    assert nearest_is_right(tuned, new) > nearest_is_right(encoder, new) + 0.07


def test_the_loss_is_that_of_its_definition() -> None:
    generator = numpy_generator(0, "loss")
    vectors = generator.normal(size=(9, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codes = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3])
    expected = []
    for i in range(9):
        others = [j for j in range(9) if j != i]
        total = sum(np.exp(vectors[i] @ vectors[j] / 0.07) for j in others)
        own = [
            -np.log(np.exp(vectors[i] @ vectors[p] / 0.07) / total) for p in others if codes[p] == codes[i]
        ]
        if own:
            expected.append(np.mean(own))
    got = contrastive_loss(torch.from_numpy(vectors), torch.from_numpy(codes), temperature=0.07)
    assert got.item() == pytest.approx(np.mean(expected))


def test_vectors_in_training_are_those_of_the_model(encoder: SentenceEncoder) -> None:
    texts = [*TASKS["a"].texts, "ok", "a much longer text " * 8]
    model = encoder._load()
    expected = encode_sentences(model, texts)
    trained = TrainableModel(model, trained_layers=2, max_tokens=64, rank=3, seed=0)
    np.testing.assert_allclose(trained.encode(texts).detach().numpy(), expected, atol=1e-5)
    assert trained.remember(texts)
    np.testing.assert_allclose(trained.encode(texts).detach().numpy(), expected, atol=1e-5)
    trained.fast = None
    assert not trained.remember(texts)
    np.testing.assert_allclose(trained.encode(texts).detach().numpy(), expected, atol=1e-5)


def test_gradients_are_those_of_the_model_as_it_comes(encoder: SentenceEncoder) -> None:
    codes = torch.from_numpy(TASKS["a"].label_codes.astype(np.int64))
    gradients = []
    for fast in (True, False):
        trained = TrainableModel(encoder._load(), trained_layers=2, max_tokens=64, rank=None, seed=0)
        trained.fast = trained.fast if fast else None
        contrastive_loss(trained.encode(TASKS["a"].texts), codes, temperature=0.07).backward()  # type: ignore[no-untyped-call]
        gradients.append({name: value.grad for name, value in trained.parameters.items()})
    assert len(gradients[0]) == 32
    for name, gradient in gradients[0].items():
        other = gradients[1][name]
        assert gradient is not None
        assert other is not None
        np.testing.assert_allclose(gradient, other, rtol=1e-3, atol=1e-5)


def test_texts_are_cut(encoder: SentenceEncoder) -> None:
    trained = TrainableModel(encoder._load(), trained_layers=1, max_tokens=5, rank=None, seed=0)
    short, long = trained.encode(["tell me more", "tell me more and more"]).detach()
    np.testing.assert_allclose(short, long, atol=1e-6)


def test_states_that_do_not_fit_are_not_kept(encoder: SentenceEncoder) -> None:
    trained = TrainableModel(encoder._load(), trained_layers=1, max_tokens=64, rank=None, seed=0)
    assert not trained.remember(["hello there"], max_bytes=100)
    assert trained.encode(["hello there"]).shape == (1, 32)


def test_only_upper_layers_change_and_the_given_encoder_does_not(encoder: SentenceEncoder) -> None:
    before = vectors_of(encoder, TASKS)
    tuned = fine_tune(encoder, TASKS, settings=SETTINGS)
    changed = tuned.changed_arrays()
    assert changed is not None
    assert len(changed) == 16
    assert all(name.startswith("encoder.layer.2.") for name in changed)
    np.testing.assert_array_equal(vectors_of(encoder, TASKS), before)
    assert encoder.changed_arrays() is None
    assert tuned.fingerprint != encoder.fingerprint == tuned.base_fingerprint
    fast = tuned._load()
    assert fast.fast is not None
    own = fast.transformer.encode(["tell me about it"], show_progress_bar=False)
    np.testing.assert_allclose(encode_sentences(fast, ["tell me about it"]), own, atol=1e-5)
    assert np.abs(own - encode_sentences(encoder._load(), ["tell me about it"])).max() > 1e-3


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("last", [5, 9])
def test_a_stopped_run_goes_on_to_the_same_weights(
    encoder: SentenceEncoder, tmp_path: Path, rank: int | None, last: int
) -> None:
    settings = SETTINGS.replace(rank=rank)
    whole = fine_tune(encoder, TASKS, settings=settings, folder=tmp_path / "whole")

    def stop(event: ProgressEvent) -> None:
        if event.stage == "fine-tuning" and event.done == last:
            raise StoppedError

    with pytest.raises(StoppedError):
        fine_tune(encoder, TASKS, settings=settings, folder=tmp_path / "halves", progress=stop)
    assert not (tmp_path / "halves").exists()
    steps: list[int] = []

    def note(event: ProgressEvent) -> None:
        if event.stage == "fine-tuning":
            steps.append(event.done)

    halves = fine_tune(encoder, TASKS, settings=settings, folder=tmp_path / "halves", progress=note)
    assert steps == list(range(last - last % 4 + 1, 13))
    assert_equal_arrays(halves.changed_arrays(), whole.changed_arrays())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["halves", "whole"]


def test_a_damaged_checkpoint_and_one_of_another_run(encoder: SentenceEncoder, tmp_path: Path) -> None:
    checkpoint = tmp_path / "tuned.checkpoint.safetensors"
    whole = fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "whole")
    checkpoint.write_bytes(b"junk" * 99)
    with pytest.warns(DataWarning, match="a checkpoint cannot be read"):
        anew = fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "tuned")
    assert_equal_arrays(anew.changed_arrays(), whole.changed_arrays())
    shutil.rmtree(tmp_path / "tuned")

    def stop(event: ProgressEvent) -> None:
        if event.stage == "fine-tuning" and event.done == 6:
            raise StoppedError

    with pytest.raises(StoppedError):
        fine_tune(encoder, TASKS, settings=SETTINGS, seed=1, folder=tmp_path / "tuned", progress=stop)
    assert checkpoint.exists()
    other = fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "tuned")
    assert_equal_arrays(other.changed_arrays(), whole.changed_arrays())


def test_a_second_time_costs_nothing(
    encoder: SentenceEncoder, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = fine_tune(encoder, TASKS, settings=SETTINGS)
    assert [path.parent for path in own_cache.rglob("changes.json")] == list((own_cache / "tuned").iterdir())

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError

    monkeypatch.setattr(fine_tuning_training, "train_upper_layers", refuse)
    again = fine_tune(encoder, TASKS.subset(["c", "a", "b"]), settings=SETTINGS.replace(checkpoint_every=3))
    assert_equal_arrays(again.changed_arrays(), tuned.changed_arrays())
    changed_task = Task("a", TASKS["b"].texts, TASKS["b"].labels.tolist())
    for tasks, options in (
        (TASKS, {"seed": 1}),
        (TASKS, {"settings": SETTINGS.replace(steps=13)}),
        (TASKS, {"label_texts": lambda label: label.replace("_", " ")}),
        (TASKS, {"labels": [0, 0, 1]}),
        (TASKS.subset(["a", "b"]), {}),
        (TaskSet([changed_task, TASKS["b"], TASKS["c"]]), {}),
    ):
        with pytest.raises(AssertionError):
            fine_tune(encoder, tasks, **{"settings": SETTINGS, **options})  # type: ignore[arg-type]


def test_only_shared_training_rows_are_read(encoder: SentenceEncoder) -> None:
    """Other rows, and tasks that are not shared, change nothing at all."""
    rows = TASKS["a"]
    splits = ["train"] * 16 + ["valid"] * 4 + ["test"] * 4
    first = TaskSet([rows.with_splits(splits), TASKS["b"]])
    texts = [
        text if split == "train" else f"other {text}" for text, split in zip(rows.texts, splits, strict=True)
    ]
    other = Task("a", texts, rows.labels.tolist(), splits)
    second = TaskSet([other, TASKS["b"], make_task("secret", 0, private=True)])
    expected = fine_tune(encoder, first, settings=SETTINGS).changed_arrays()
    assert_equal_arrays(fine_tune(encoder, second, settings=SETTINGS).changed_arrays(), expected)
    shared = TaskSet([other, TASKS["b"], make_task("secret", 0)])
    got = fine_tune(encoder, shared, settings=SETTINGS).changed_arrays()
    assert got is not None
    assert expected is not None
    assert any((got[name] != expected[name]).any() for name in got)


def test_label_names_are_texts_of_their_labels(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()

    def watch(*arguments: Any, **options: Any) -> object:
        batch = draw_batch(*arguments, **options)
        seen.update(batch.texts)
        return batch

    monkeypatch.setattr(fine_tuning_training, "draw_batch", watch)
    fine_tune(encoder, TASKS, settings=SETTINGS, label_texts=lambda label: label.replace("_", " "))
    assert {f"ask {thing}" for thing in THINGS} <= seen
    seen.clear()
    fine_tune(encoder, TASKS, settings=SETTINGS)
    assert seen <= {text for task in TASKS for text in task.texts}


@pytest.mark.parametrize("rank", [None, 2])
def test_fine_tuning_what_is_fine_tuned(
    encoder: SentenceEncoder, tiny_folder: Path, rank: int | None
) -> None:
    """The changes of the second are relative to the model as it comes."""
    first = fine_tune(encoder, TASKS, settings=SETTINGS.replace(trained_layers=2))
    second = fine_tune(first, TASKS.subset(["a"]), settings=SETTINGS.replace(rank=rank))
    changes = second.changed_arrays()
    assert changes is not None
    if rank is None:
        assert len(changes) == 32
    else:
        assert sum(name.endswith("#up") for name in changes) == 6
        third = fine_tune(second, TASKS.subset(["b"]), settings=SETTINGS.replace(rank=3))
        assert {
            value.shape[1] for name, value in (third.changed_arrays() or {}).items() if "#up" in name
        } == {5}
    alone = SentenceEncoder(tiny_folder, changes=changes, cache=VectorCache.disabled(), device="cpu")
    assert alone.fingerprint == second.fingerprint
    np.testing.assert_array_equal(vectors_of(alone, TASKS), vectors_of(second, TASKS))
    assert np.abs(vectors_of(second, TASKS) - vectors_of(first, TASKS)).max() > 1e-4


def test_changes_of_another_model(encoder: SentenceEncoder, tmp_path: Path) -> None:
    other = make_tiny_model(tmp_path / "other", n_layers=2)
    fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "tuned")
    with pytest.raises(DataError, match=r"a tensor that the model does not have; got 'encoder\.layer\.2"):
        _ = SentenceEncoder(other, changes=tmp_path / "tuned", device="cpu").fingerprint
    weights = load_file(other / "model.safetensors")
    assert "encoder.layer.1.output.dense.weight" in weights
    own = fine_tune(
        SentenceEncoder(other, cache=VectorCache.disabled(), device="cpu"), TASKS, settings=SETTINGS
    )
    with pytest.raises(DataError, match="made from another model"):
        _ = encoder.with_changes(own.changes).fingerprint
    assert repr(own).startswith("SentenceEncoder('")
    assert "16 arrays" in repr(encoder.with_changes(own.changed_arrays()))


def test_a_model_on_its_own_road(tmp_path: Path) -> None:
    """One that is pooled in another way, and so is not recognised."""
    folder = make_tiny_model(tmp_path / "other")
    pooling = folder / "1_Pooling" / "config.json"
    values = {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    pooling.write_text(json.dumps({**json.loads(pooling.read_text()), **values}))
    encoder = SentenceEncoder(folder, cache=VectorCache.disabled(), device="cpu")
    assert encoder._load().fast is None
    settings = SETTINGS.replace(steps=60, trained_layers=2, learning_rate=3e-3)
    tuned = fine_tune(encoder, TASKS, settings=settings)
    losses = []
    for model in (encoder, tuned):
        prepared = model.prepare(TaskSet([TASKS["a"]]))
        assert isinstance(prepared.inputs, DenseInputs)
        vectors = torch.from_numpy(prepared.inputs.matrix[prepared.items["a"]])
        codes = torch.from_numpy(TASKS["a"].label_codes.astype(np.int64))
        losses.append(contrastive_loss(vectors, codes, temperature=0.07).item())
    assert losses[1] < losses[0] - 0.2


def test_threads_and_the_global_generator_are_left_alone(encoder: SentenceEncoder) -> None:
    before, state = torch.get_num_threads(), torch.random.get_rng_state()
    torch.set_num_threads(2)
    try:
        fine_tune(encoder, TASKS, settings=SETTINGS.replace(steps=2, rank=2, trained_layers=3))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_cache_that_cannot_be_written(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("ROBUSTTC_CACHE", str(tmp_path / "file"))
    with pytest.warns(DataWarning, match="cannot be kept"):
        tuned = fine_tune(encoder, TASKS, settings=SETTINGS)
    assert len(tuned.changed_arrays() or {}) == 16
    with pytest.raises(StoreError, match="cannot be written"):
        fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "file" / "tuned")


def test_what_is_refused(encoder: SentenceEncoder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only a sentence encoder"):
        fine_tune("minilm", TASKS)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a FineTuningSettings"):
        fine_tune(encoder, TASKS, settings=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"got 2 labels; expected one for each of 3"):
        fine_tune(encoder, TASKS, labels=[0, 1])
    with pytest.raises(UsageError, match=r"more than the model has; got 4; expected an integer from 1 to 3"):
        fine_tune(encoder, TASKS, settings=SETTINGS.replace(trained_layers=4))
    with pytest.raises(DataError, match="no task has anything"):
        fine_tune(encoder, TaskSet([Task("a", ["x", "y"], ["u", "v"])]), settings=SETTINGS)
    fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "tuned")
    with pytest.raises(StoreError, match="fine-tuned in another way"):
        fine_tune(encoder, TASKS, settings=SETTINGS, seed=3, folder=tmp_path / "tuned")
    with pytest.raises(DataError, match=r"step \d+, task '[abc]': fine-tuning diverged"):
        fine_tune(encoder, TASKS, settings=SETTINGS.replace(learning_rate=1e30, steps=50))


def test_one_encoder_a_cluster(encoder: SentenceEncoder, tmp_path: Path) -> None:
    shared = fine_tune(encoder, TASKS, settings=SETTINGS.replace(trained_layers=2))
    tasks = TaskSet([*TASKS, make_task("secret", 0, private=True)])
    settings = SETTINGS.replace(rank=2, steps=4)
    events: list[ProgressEvent] = []
    found = specialise(
        shared, tasks, [5, 1, 5, 7], settings=settings, folder=tmp_path / "kept", progress=events.append
    )
    assert sorted(found) == [1, 5, 7]
    assert found[7] is shared  # nothing of it may be shared
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["cluster-1", "cluster-5"]
    alone = fine_tune(shared, TASKS.subset(["a", "c"]), settings=settings)
    assert_equal_arrays(found[5].changed_arrays(), alone.changed_arrays())
    assert found[1].fingerprint != found[5].fingerprint
    done = [(event.done, event.total) for event in events if event.stage == "specialising"]
    assert done == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(UsageError, match="labels do not fit"):
        specialise(shared, tasks, [0])


def test_another_process_with_the_same_may_be_faster(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_twice(*arguments: Any, **options: Any) -> None:
        write_changes(*arguments, **options)
        write_changes(*arguments, **options)

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(fine_tuning, "write_changes", fail)
    with pytest.raises(StoreError, match=r"cannot be written; got .*no space.*last checkpoint"):
        fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "tuned")
    monkeypatch.setattr(fine_tuning, "write_changes", write_twice)
    tuned = fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "tuned")
    assert len(tuned.changed_arrays() or {}) == 16


def test_a_model_whose_layers_are_not_known(encoder: SentenceEncoder) -> None:
    model = replace(encoder._load(), transformer=torch.nn.Sequential(torch.nn.Identity()))
    with pytest.raises(UsageError, match="the layers of this sentence model are not known"):
        TrainableModel(model, trained_layers=1, max_tokens=64, rank=None, seed=0)


def test_clusters_have_the_same_share(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def watch(*arguments: Any, **options: Any) -> object:
        batch = draw_batch(*arguments, **options)
        drawn.append(batch.task)
        return batch

    monkeypatch.setattr(fine_tuning_training, "draw_batch", watch)
    tasks = TaskSet([make_task(name, 0) for name in "abcdefgh"])
    settings = SETTINGS.replace(steps=200, texts_a_label=2, labels_a_batch=2, checkpoint_every=999)
    fine_tune(encoder, tasks, labels=[3, *[1] * 7], settings=settings)
    assert 0.35 < np.mean([name == "a" for name in drawn]) < 0.65


def test_what_is_damaged_in_the_cache_is_made_anew(encoder: SentenceEncoder, own_cache: Path) -> None:
    whole = fine_tune(encoder, TASKS, settings=SETTINGS).changed_arrays()
    (tensors,) = own_cache.rglob("changes.safetensors")
    tensors.write_bytes(b"junk")
    with pytest.warns(DataWarning, match=r"the file is damaged.*made anew"):
        again = fine_tune(encoder, TASKS, settings=SETTINGS)
    assert_equal_arrays(again.changed_arrays(), whole)


def test_a_folder_that_is_there(encoder: SentenceEncoder, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    tuned = fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "empty")
    assert tuned.changes == tmp_path / "empty"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="cannot be read"):
        fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "other")
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"


KILLED_RUN = """
import json, os, signal, sys
from robusttc.data import Task
from robusttc.data import TaskSet
from robusttc.encoders.fine_tuning import fine_tune
from robusttc.encoders.fine_tuning_settings import FineTuningSettings
from robusttc.encoders.sentence import SentenceEncoder

model, folder, settings, rows = json.loads(sys.stdin.read())

def kill(event):
    if event.stage == "fine-tuning" and event.done == 10:
        os.kill(os.getpid(), signal.SIGKILL)

tasks = TaskSet(Task(name, texts, labels) for name, texts, labels in rows)
fine_tune(
    SentenceEncoder(model, device="cpu"),
    tasks,
    settings=FineTuningSettings(**settings),
    folder=folder,
    progress=kill,
)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_goes_on_to_the_same_weights(
    encoder: SentenceEncoder, tiny_folder: Path, tmp_path: Path
) -> None:
    rows = [(task.name, list(task.texts), task.labels.tolist()) for task in TASKS]
    given = json.dumps([str(tiny_folder), str(tmp_path / "killed"), asdict(SETTINGS), rows])
    run = subprocess.run([sys.executable, "-c", KILLED_RUN], input=given, text=True, check=False)
    assert run.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["killed.checkpoint.safetensors"]
    resumed = fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "killed")
    whole = fine_tune(encoder, TASKS, settings=SETTINGS, folder=tmp_path / "whole")
    assert_equal_arrays(resumed.changed_arrays(), whole.changed_arrays())
