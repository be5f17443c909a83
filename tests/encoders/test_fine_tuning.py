"""Fine-tuning: what it learns, what a step sees, what is stored, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_model import change_json, write_tiny_model

from robusttc.data import Task, TaskSet
from robusttc.encoders import FineTuningSettings, SentenceEncoder, VectorCache, fine_tune, fine_tuning
from robusttc.encoders.fine_tuning import TrainableModel, collect_texts, contrastive_loss, draw_batch
from robusttc.errors import DataError, DataWarning, UsageError
from robusttc.progress import ProgressEvent
from robusttc.random import numpy_generator

SETTINGS = FineTuningSettings(steps=12, trained_layers=1, learning_rate=1e-3)
THINGS = ("parcel", "invoice", "garden", "weather")
FILLERS = ("please", "my", "the", "about", "tell", "now", "where", "is", "it", "today", "soon", "a")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep every test away from what others fine-tuned."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ROBUSTTC_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return open_model(tiny_folder)


@pytest.fixture(scope="module")
def other_encoder(tiny_folder: Path) -> SentenceEncoder:
    """A model that takes the first token for the vector, so packed rows cannot reproduce it."""
    folder = tiny_folder.with_name("other")
    shutil.copytree(tiny_folder, folder)
    change_json(
        folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True
    )
    return open_model(folder)


def open_model(folder: Path, **options: Any) -> SentenceEncoder:
    return SentenceEncoder(folder, cache=VectorCache.disabled(), device="cpu", **options)


def make_task(name: str, seed: int = 0, *, n_texts: int = 24) -> Task:
    """A task whose label is one word among many others."""
    generator = numpy_generator(seed, "texts", [name])
    texts, labels = [], []
    for row in range(n_texts):
        thing = THINGS[row % len(THINGS)]
        words = [*generator.choice(FILLERS, size=16).tolist(), thing]
        texts.append(" ".join(generator.permutation(words).tolist()))
        labels.append(f"ask_{thing}")
    return Task(name, texts, labels)


def numbered(name: str, n_labels: int, n_texts: int) -> Task:
    texts = [f"{name} {label} {number}" for label in range(n_labels) for number in range(n_texts)]
    return Task(name, texts, [text.split()[1] for text in texts])


TASKS = TaskSet([make_task(name) for name in "abc"])
TEXTS = [*TASKS["a"].texts, "ok", "a much longer text " * 8]


def words_of(label: str) -> str:
    return label.replace("_", " ")


def nearest_is_right(encoder: SentenceEncoder, task: Task) -> float:
    """The share of texts whose nearest other text has their label."""
    vectors = encoder.encode(task.texts)
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -np.inf)
    return float((task.label_codes[similarity.argmax(axis=1)] == task.label_codes).mean())


def weights_of(encoder: SentenceEncoder) -> dict[str, NDArray[np.float32]]:
    assert encoder.weight_delta is not None
    return dict(encoder.weight_delta)


def is_equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return set(first) == set(second) and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_new_texts_of_a_new_task_find_their_label(encoder: SentenceEncoder, seed: int) -> None:
    settings = SETTINGS.replace(steps=60, trained_layers=2, learning_rate=3e-3)
    sources = TaskSet([make_task(name, n_texts=80) for name in "abc"])
    new = make_task("new", 100 + seed, n_texts=200)
    tuned = fine_tune(encoder, sources, settings=settings, seed=seed)
    assert nearest_is_right(tuned, new) > nearest_is_right(encoder, new) + 0.07


def test_the_loss_is_that_of_its_definition() -> None:
    vectors = numpy_generator(0, "loss").normal(size=(9, 5))
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


def test_packed_rows_have_the_vectors_and_gradients_of_the_model(encoder: SentenceEncoder) -> None:
    codes = torch.arange(len(TEXTS)) % 4
    gradients = []
    for way in ("own", "packed", "cached"):
        model = TrainableModel(encoder.load(), trained_layers=1, max_tokens=64)
        assert model.tokenizer is not None
        if way == "own":
            model.tokenizer = None
        assert model.cache_frozen_states(TEXTS, max_bytes=10**9 if way == "cached" else 100) == (
            way == "cached"
        )
        vectors = model.encode(TEXTS)
        np.testing.assert_allclose(vectors.detach(), encoder.encode(TEXTS), atol=1e-5)
        contrastive_loss(vectors, codes, temperature=0.07).backward()  # type: ignore[no-untyped-call]
        gradients.append({name: value.grad for name, value in model.parameters.items()})
    assert len(gradients[0]) == 16
    for name, gradient in gradients[0].items():
        for other in gradients[1:]:
            torch.testing.assert_close(other[name], gradient, rtol=1e-3, atol=1e-5)


def test_texts_are_truncated(encoder: SentenceEncoder) -> None:
    model = TrainableModel(encoder.load(), trained_layers=1, max_tokens=5)
    short, long = model.encode(["tell me more", "tell me more and more"]).detach()
    torch.testing.assert_close(short, long)


def test_other_models_run_their_own_forward_pass(other_encoder: SentenceEncoder) -> None:
    model = TrainableModel(other_encoder.load(), trained_layers=1, max_tokens=64)
    assert model.tokenizer is None
    np.testing.assert_allclose(model.encode(TEXTS).detach(), other_encoder.encode(TEXTS), atol=1e-5)
    settings = SETTINGS.replace(steps=60, trained_layers=2, learning_rate=3e-3)
    tuned = fine_tune(other_encoder, TASKS, settings=settings)
    codes = torch.from_numpy(TASKS["a"].label_codes.astype(np.int64))
    before, after = (
        contrastive_loss(torch.from_numpy(one.encode(TASKS["a"].texts)), codes, temperature=0.07).item()
        for one in (other_encoder, tuned)
    )
    assert after < before - 0.2


def test_a_model_whose_layers_are_not_known(encoder: SentenceEncoder) -> None:
    model = torch.nn.Sequential(torch.nn.Identity())
    model.device = encoder.load().device
    with pytest.raises(UsageError, match="the layers of this sentence model are not known"):
        TrainableModel(model, trained_layers=1, max_tokens=64)


def test_only_upper_layers_change_and_the_given_encoder_does_not(encoder: SentenceEncoder) -> None:
    before = encoder.encode(TEXTS)
    tuned = fine_tune(encoder, TASKS, settings=SETTINGS)
    assert len(weights_of(tuned)) == 16
    assert all(name.startswith("encoder.layer.1.") for name in weights_of(tuned))
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)
    assert encoder.weight_delta is None
    assert tuned.fingerprint != encoder.fingerprint == tuned.base_fingerprint
    assert np.abs(tuned.encode(TEXTS) - before).max() > 1e-3


def test_fine_tuning_a_fine_tuned_encoder(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    """The weights of the second run are relative to the base model."""
    first = fine_tune(encoder, TASKS, settings=SETTINGS.replace(trained_layers=2))
    second = fine_tune(first, TASKS.subset(["a"]), settings=SETTINGS)
    assert len(weights_of(second)) == 32
    alone = open_model(tiny_folder, weight_delta=weights_of(second))
    assert alone.fingerprint == second.fingerprint != first.fingerprint
    np.testing.assert_array_equal(alone.encode(TEXTS), second.encode(TEXTS))
    assert np.abs(second.encode(TEXTS) - first.encode(TEXTS)).max() > 1e-4
    assert "32 arrays" in repr(alone)


def test_a_second_call_trains_nothing(
    encoder: SentenceEncoder, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = fine_tune(encoder, TASKS, settings=SETTINGS)
    assert len(list((own_cache / "tuned").iterdir())) == 1

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError

    monkeypatch.setattr(fine_tuning, "train", refuse)
    again = fine_tune(encoder, TASKS.subset(["c", "a", "b"]), settings=SETTINGS)
    assert again.fingerprint == tuned.fingerprint
    other_rows = Task("a", TASKS["b"].texts, TASKS["b"].labels.tolist())
    for start, tasks, options in (
        (tuned, TASKS, {}),
        (encoder, TASKS, {"seed": 1}),
        (encoder, TASKS, {"settings": SETTINGS.replace(steps=13)}),
        (encoder, TASKS, {"label_texts": words_of}),
        (encoder, TASKS.subset(["a", "b"]), {}),
        (encoder, TaskSet([other_rows, TASKS["b"], TASKS["c"]]), {}),
    ):
        with pytest.raises(AssertionError):
            fine_tune(start, tasks, **{"settings": SETTINGS, **options})  # type: ignore[arg-type]


def test_a_stopped_run_starts_again_with_the_same_weights(encoder: SentenceEncoder, own_cache: Path) -> None:
    whole = weights_of(fine_tune(encoder, TASKS, settings=SETTINGS))
    shutil.rmtree(own_cache)
    stages = []

    def stop(event: ProgressEvent) -> None:
        stages.append(event.stage)
        if (event.stage, event.done, event.total) == ("fine-tuning", 5, 12):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(encoder, TASKS, settings=SETTINGS, progress=stop)
    assert stages[0] == "frozen layers"
    assert stages[-5:] == ["fine-tuning"] * 5
    assert not list(own_cache.rglob("*.safetensors"))
    assert is_equal(weights_of(fine_tune(encoder, TASKS, settings=SETTINGS)), whole)


def test_a_damaged_file_in_the_cache_is_replaced(encoder: SentenceEncoder, own_cache: Path) -> None:
    whole = weights_of(fine_tune(encoder, TASKS, settings=SETTINGS))
    (path,) = (own_cache / "tuned").iterdir()
    good = path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    for damaged in (good[:-1], b"junk", b""):
        path.write_bytes(damaged)
        assert is_equal(weights_of(fine_tune(encoder, TASKS, settings=SETTINGS)), whole)
        assert path.read_bytes() == good


def test_a_cache_that_cannot_be_written(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("ROBUSTTC_CACHE", str(tmp_path / "file"))
    with pytest.warns(DataWarning, match="cannot be kept .* Set ROBUSTTC_CACHE"):
        tuned = fine_tune(encoder, TASKS, settings=SETTINGS)
    assert len(weights_of(tuned)) == 16


def test_threads_and_the_global_generator_are_left_alone(encoder: SentenceEncoder) -> None:
    before, state = torch.get_num_threads(), torch.random.get_rng_state()
    torch.set_num_threads(2)
    try:
        fine_tune(encoder, TASKS, settings=SETTINGS.replace(steps=2, trained_layers=2))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_what_is_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(UsageError, match="only a sentence encoder"):
        fine_tune("minilm", TASKS)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="seed cannot be used"):
        fine_tune(encoder, TASKS, seed=-1)
    with pytest.raises(UsageError, match=r"trained_layers .* got 4; expected an integer from 1 to 2"):
        fine_tune(encoder, TASKS, settings=SETTINGS.replace(trained_layers=4))
    with pytest.raises(DataError, match="no task has enough texts"):
        fine_tune(encoder, TaskSet([Task("a", ["x", "y"], ["u", "v"])]), settings=SETTINGS)
    with pytest.raises(DataError, match=r"step \d+, task '[abc]': fine-tuning diverged"):
        fine_tune(encoder, TASKS, settings=SETTINGS.replace(learning_rate=1e30, steps=50))


def test_only_shared_training_rows_are_read(encoder: SentenceEncoder) -> None:
    """Other rows, and tasks that are not shared, change nothing at all."""
    rows = TASKS["a"]
    splits = ["train"] * 16 + ["valid"] * 4 + ["test"] * 4
    texts = [
        text if split == "train" else f"other {text}" for text, split in zip(rows.texts, splits, strict=True)
    ]
    other = Task("a", texts, rows.labels.tolist(), splits)
    first = TaskSet([rows.with_splits(splits), TASKS["b"]])
    shared = TaskSet([other, TASKS["b"], TASKS["c"]])
    expected, got, with_c = (
        weights_of(fine_tune(encoder, tasks, settings=SETTINGS))
        for tasks in (first, shared.keep_private(["c"]), shared)
    )
    assert is_equal(got, expected)
    assert not is_equal(with_c, expected)


def test_usable_texts() -> None:
    tasks = TaskSet(
        [
            Task(
                "b",
                ["one", "two", "both", "both", "three", "four", "three", "alone", "seen later"],
                ["x", "x", "x", "y", "y", "y", "y", "z", "x"],
                ["train"] * 8 + ["valid"],
            ),
            Task("single", ["one", "two"], ["x", "x"]),
            numbered("a", 2, 2),
        ]
    )
    found = collect_texts(tasks)
    assert [task.task for task in found] == ["a", "b"]
    assert found[1].texts == (("one", "two"), ("three", "four"))
    assert found[1].names == (None, None)
    named = collect_texts(tasks, lambda label: None if label == "y" else f"label {label}")
    assert named[1].names == ("label x", None, "label z")
    assert named[1].texts == (("one", "two"), ("three", "four"), ("alone",))


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_has_some_labels_of_one_task(seed: int) -> None:
    tasks = collect_texts(TaskSet([numbered("a", 30, 9), numbered("b", 3, 2)]), lambda label: f"name {label}")
    seen = set()
    for step in range(12):
        batch, again = (
            draw_batch(tasks, np.array([0.5, 0.5]), step=step, settings=FineTuningSettings(), seed=seed)
            for _ in range(2)
        )
        assert batch == again
        seen.add(tuple(batch.texts))
        of_label: dict[int, list[str]] = {}
        for text, code in zip(batch.texts, batch.codes, strict=True):
            of_label.setdefault(code, []).append(text)
        assert len(of_label) == (14 if batch.task == "a" else 3)
        for texts in of_label.values():
            assert len(set(texts)) == len(texts) == (5 if batch.task == "a" else 3)
            label = texts[-1].removeprefix("name ")
            assert all(text.startswith(f"{batch.task} {label} ") for text in texts[:-1])
    assert len(seen) > 6


def test_the_learning_rate_rises_and_falls() -> None:
    settings = FineTuningSettings(steps=200, learning_rate=1.0)
    rates = [settings.rate_at(step) for step in range(200)]
    assert np.argmax(rates) in (19, 20)
    assert max(rates) == 1.0
    assert (np.diff(rates[:20]) > 0).all()
    assert (np.diff(rates[20:]) < 0).all()
    assert min(rates) > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("steps", 1.5),
        ("texts_per_label", 1),
        ("labels_per_batch", True),
        ("temperature", 0),
        ("learning_rate", -1),
        ("learning_rate", float("nan")),
    ],
)
def test_settings_that_cannot_be_used(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be used"):
        FineTuningSettings().replace(**{name: value})
