"""The sentence encoder against sentence-transformers itself: vectors, models, caching, and clear errors."""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tiny_model import change_json, copy_small_files, write_tiny_model

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs, SentenceEncoder, VectorCache, load_encoder
from robusttc.encoders.model_folder import hash_model_folder
from robusttc.errors import DataError, DataWarning, StoreError, UsageError
from robusttc.progress import ProgressEvent
from robusttc.random import numpy_generator

TEXTS = [
    "Where is my parcel?",
    "WHERE is my parcel?",
    "",
    " ",
    "ok",
    "I'd like to cancel the order (No. 7) — please!",
    "naïve café Ärger 東京 🙂 [SEP] [MASK] ##ing",
    "word " * 300,
    "a" * 150,
    "Where is my parcel?",
]
TASKS = TaskSet(
    [
        Task("a", ["pay my bill", "hello there", "secret"], ["x", "y", "y"], ["train", "train", "test"]),
        Task("b", ["hello there", "is it raining"], ["u", "v"], ["train", "valid"]),
    ]
)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep the tests apart."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ROBUSTTC_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    """The default model, loaded once for all tests."""
    encoder = SentenceEncoder(cache=VectorCache.disabled(), device="cpu")
    encoder.load()
    return encoder


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that go through a model."""
    encoded: list[str] = []
    original = SentenceTransformer.encode

    def watched(self: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        encoded.extend(inputs)
        return original(self, inputs, *arguments, **options)

    monkeypatch.setattr(SentenceTransformer, "encode", watched)
    return encoded


def copy_of(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target / "model")
    return target / "model"


def tiny(folder: Path, **options: Any) -> SentenceEncoder:
    return SentenceEncoder(folder, device="cpu", cache=VectorCache.disabled(), **options)


def assert_same_vectors(got: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert got.dtype == np.float32
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, atol=1e-4 * np.abs(expected).max())


def test_vectors_are_those_of_the_library(encoder: SentenceEncoder) -> None:
    expected = np.asarray(encoder.load().encode(TEXTS))
    assert_same_vectors(encoder.encode(TEXTS), expected)


def test_a_vector_does_not_depend_on_the_other_texts(encoder: SentenceEncoder) -> None:
    random = numpy_generator(0, "texts")
    words = ["parcel", "where", "is", "my", "order", "refund", "unbelievable", "7", "?", "Zürich"]
    texts = [" ".join(random.choice(words, size=random.integers(1, 16))) for _ in range(24)]
    together = encoder.encode(texts)
    np.testing.assert_allclose(encoder.encode(texts[::-1])[::-1], together, atol=1e-6)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-6)


def test_texts_alike_to_the_model_are_encoded_once(encoder: SentenceEncoder, calls: list[str]) -> None:
    vectors = encoder.encode(["Hello", "hello", " HELLO ", "hello", "bye"])
    assert calls == ["Hello", "bye"]
    assert (vectors[:4] == vectors[0]).all()


def test_batches_hold_texts_of_one_length(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny(tiny_folder)
    transformer = encoder.load()
    shapes: list[torch.Size] = []
    original = type(transformer).forward

    def watched(self: Any, features: Any, *rest: Any, **options: Any) -> Any:
        assert features["attention_mask"].all()  # nothing is padded
        shapes.append(features["input_ids"].shape)
        return original(self, features, *rest, **options)

    monkeypatch.setattr(type(transformer), "forward", watched)
    encoder.encode(["one two", "three four", "five six seven", "eight nine ten", "eleven twelve"])
    assert sorted(tuple(shape) for shape in shapes) == [(2, 5), (3, 4)]


def test_very_long_texts_are_cut(tiny_folder: Path) -> None:
    encoder = tiny(tiny_folder)
    random = numpy_generator(0, "long")
    texts = [
        " ".join(random.choice(["parcel", "where", "x" * 120, "über"], size=5_000)),
        "   " * 5_000 + "behind many spaces",
    ]
    assert_same_vectors(encoder.encode(texts), np.asarray(encoder.load().encode(texts)))


def test_no_texts(encoder: SentenceEncoder, calls: list[str]) -> None:
    assert encoder.encode([]).shape == (0, 384)
    encoder.prepare(TASKS)
    settings, arrays = encoder.describe()
    calls.clear()
    for one in (encoder, load_encoder(settings, arrays)):
        nothing = one.read([])
        assert isinstance(nothing, DenseInputs)
        assert nothing.matrix.shape == (0, 384)
    assert not calls  # a saved model answers without loading


@pytest.mark.parametrize(
    ("pooling", "modules", "settings"),
    [
        ({}, 2, {}),  # no Normalize: the norms differ from 1
        ({}, 3, {"prompts": {"q": "query: "}, "default_prompt_name": "q"}),
        ({"include_prompt": False}, 3, {"prompts": {"q": "query: "}, "default_prompt_name": "q"}),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, 3, {}),
        ({"pooling_mode_max_tokens": True}, 3, {}),
    ],
)
def test_other_models(
    tiny_folder: Path, tmp_path: Path, pooling: dict[str, Any], modules: int, settings: dict[str, Any]
) -> None:
    folder = copy_of(tiny_folder, tmp_path)
    change_json(folder / "1_Pooling" / "config.json", **pooling)
    change_json(folder / "config_sentence_transformers.json", **settings)
    (folder / "modules.json").write_text(
        json.dumps(json.loads((folder / "modules.json").read_text())[:modules])
    )
    expected = SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(TEXTS)
    assert_same_vectors(tiny(folder).encode(TEXTS), np.asarray(expected))


def test_a_model_without_a_transformer(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "hello": 1, "bye": 2}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = Whitespace()
    made = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    made.save(str(tmp_path / "static"))
    texts = ["hello bye", "bye", "something else", "hello"]
    assert_same_vectors(tiny(tmp_path / "static").encode(texts), np.asarray(made.encode(texts)))


def test_vectors_are_kept_by_prepare_and_never_by_read(
    own_cache: Path, tiny_folder: Path, calls: list[str]
) -> None:
    first = SentenceEncoder(tiny_folder, device="cpu")
    assert len(first.read(["what a customer asks"])) == 1
    assert not own_cache.exists()
    events: list[ProgressEvent] = []
    prepared = first.prepare(TASKS, splits=("train", "valid"), progress=events.append)
    assert prepared.text_index["a"].tolist()[2] == -1
    assert prepared.text_index["a"][1] == prepared.text_index["b"][0]
    done = [event.done for event in events]
    assert done == sorted(done)
    assert (done[-1], {event.total for event in events}) == (3, {3})
    calls.clear()
    later = SentenceEncoder(tiny_folder, device="cpu").prepare(TASKS)
    assert calls == ["secret"]
    assert isinstance(prepared.inputs, DenseInputs)
    assert isinstance(later.inputs, DenseInputs)
    np.testing.assert_array_equal(later.inputs.matrix[[0, 1, 2]], prepared.inputs.matrix)
    missing = first.cache.find_missing(first.fingerprint, ["what a customer asks", "secret"])
    assert missing == ["what a customer asks"]


def test_without_a_writable_cache_a_text_is_encoded_once_per_process(
    monkeypatch: pytest.MonkeyPatch, tiny_folder: Path, tmp_path: Path, calls: list[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ROBUSTTC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(DataWarning, match="held in memory"):
        SentenceEncoder(tiny_folder, device="cpu").prepare(TASKS)
    for _ in range(3):  # as the stages of a fit do, each with an encoder of its own
        SentenceEncoder(tiny_folder, device="cpu").prepare(TASKS)
    assert sorted(calls) == ["hello there", "is it raining", "pay my bill", "secret"]


def test_a_disabled_cache_keeps_nothing(tiny_folder: Path, calls: list[str]) -> None:
    encoder = tiny(tiny_folder)
    for _ in range(2):
        encoder.prepare(TASKS)
    assert len(calls) == 8


def test_a_process_loads_a_model_once(tiny_folder: Path) -> None:
    first, second = tiny(tiny_folder), tiny(tiny_folder)
    assert first.load() is second.load()
    name = "encoder.layer.1.output.dense.bias"
    changed = tiny(tiny_folder, weight_delta={name: np.ones(32, dtype=np.float32)})
    assert changed.load() is not first.load()
    del first, second
    gc.collect()
    assert tiny(tiny_folder).load() is not changed.load()


def test_changed_weights_change_the_vectors_and_the_fingerprint(tiny_folder: Path) -> None:
    name = "encoder.layer.1.output.dense.bias"
    delta = {name: np.random.default_rng(0).normal(size=32).astype(np.float32)}
    plain, changed = tiny(tiny_folder), tiny(tiny_folder, weight_delta=delta)
    assert changed.base_fingerprint == plain.fingerprint != changed.fingerprint
    vectors = changed.encode(["Where is my parcel?"])
    assert np.abs(vectors - plain.encode(["Where is my parcel?"])).max() > 0.01
    settings, arrays = changed.describe()
    again = load_encoder(json.loads(json.dumps(settings)), arrays)
    assert isinstance(again, SentenceEncoder)
    np.testing.assert_allclose(again.encode(["Where is my parcel?"]), vectors, atol=1e-6)
    # Other weights, weights of another model, and none at all.
    for wrong in ({name: delta[name] + 1}, {"nowhere": delta[name]}, {}):
        with pytest.raises(StoreError, match="not the one that this was trained with"):
            load_encoder(settings, wrong)
    with pytest.raises(DataError, match="nowhere"):
        tiny(tiny_folder, weight_delta={"nowhere": delta[name]}).load()


def test_fingerprint_is_of_the_contents(tiny_folder: Path, tmp_path: Path) -> None:
    folder = copy_of(tiny_folder, tmp_path)
    first = hash_model_folder(folder)
    assert first == tiny(folder).fingerprint == hash_model_folder(tiny_folder)
    (folder / "README.md").write_text("another text")
    assert hash_model_folder(folder) == first
    change_json(folder / "sentence_bert_config.json", max_seq_length=99)
    assert hash_model_folder(folder) != first


def refused(folder: Path, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tiny(folder).load()


def test_folders_that_are_not_models(tmp_path: Path, tiny_folder: Path) -> None:
    refused(tmp_path, r"modules\.json: .*not a sentence-transformers model.*FileNotFoundError")
    folder = copy_small_files(tmp_path / "model")
    refused(folder, r"the sentence model cannot be loaded; got OSError: .*no file named model\.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    refused(folder, r"pytorch_model\.bin: the model's weights are pickled")
    weights = (tiny_folder / "model.safetensors").read_bytes()
    for damaged in (b"", b"junk" * 99, weights[: len(weights) // 2]):
        (folder / "model.safetensors").write_bytes(damaged)
        refused(folder, r"the sentence model cannot be loaded; got SafetensorError")
    (folder / "config.json").write_text("{")
    refused(folder, r"the sentence model cannot be loaded; got .*config\.json")
    for wrong in ("[", "3", '["a"]', "[{}]"):
        (folder / "modules.json").write_text(wrong)
        refused(folder, "its list of modules cannot be read")


def test_models_that_are_not_complete(tmp_path: Path, tiny_folder: Path) -> None:
    folder = copy_of(tiny_folder, tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors")
    refused(folder, r"not complete; got no 'encoder\.layer\.1\.output\.dense\.weight'")
    change_json(folder / "config.json", hidden_size=48)
    refused(folder, "the sentence model cannot be loaded")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ({"type": "my_code.Pooling"}, "code of its own, which is never run; got 'my_code.Pooling'"),
        ({"path": "../elsewhere"}, "outside the model's folder"),
    ],
)
def test_modules_that_are_refused(
    tmp_path: Path, tiny_folder: Path, module: dict[str, str], message: str
) -> None:
    folder = copy_of(tiny_folder, tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1].update(module)
    (folder / "modules.json").write_text(json.dumps(modules))
    refused(folder, message)


def test_names_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    for wrong in (tmp_path / "nowhere", "./no/such/folder", tmp_path / "file", str(tmp_path / "file")):
        with pytest.raises(UsageError, match="no such model folder"):
            _ = SentenceEncoder(wrong).fingerprint
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        UsageError, match=r"not on this machine and cannot be downloaded; got 'sentence-trans"
    ):
        _ = SentenceEncoder("no-such-model").fingerprint


def test_bad_device(tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="the device is not available; got 'gpuu'"):
        SentenceEncoder(tiny_folder, device="gpuu").prepare(TASKS)


def test_nothing_is_loaded_before_it_is_needed(own_cache: Path) -> None:
    assert repr(SentenceEncoder("no/such-model")) == "SentenceEncoder(model='no/such-model')"
    assert repr(SentenceEncoder()) == "SentenceEncoder()"
    assert not own_cache.exists()


def test_loading_draws_nothing_and_leaves_threads_alone(
    tiny_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled(), torch.get_num_threads()
    tiny(tiny_folder).encode(["a"])
    assert capfd.readouterr() == ("", "")
    assert (logging.is_progress_bar_enabled(), torch.get_num_threads()) == before
