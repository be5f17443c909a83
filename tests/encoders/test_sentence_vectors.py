"""Sentence models and their vectors, against sentence-transformers as it comes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from robusttc.encoders.bert_forward import recognise_bert
from robusttc.encoders.model_folder import default_model_folder, hash_model_folder
from robusttc.encoders.sentence_model import SentenceModel, load_sentence_model
from robusttc.encoders.sentence_vectors import encode_sentences
from robusttc.errors import DataError, UsageError
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


@pytest.fixture(scope="module")
def model() -> SentenceModel:
    torch.set_num_threads(1)
    return load_sentence_model()


@pytest.fixture(scope="module")
def expected(model: SentenceModel) -> NDArray[np.float32]:
    return np.asarray(model.transformer.encode(TEXTS))


def copy_small_files(folder: Path) -> Path:
    """Copy the default model without its weights."""
    shutil.copytree(
        default_model_folder(), folder, ignore=shutil.ignore_patterns("*.safetensors", "data_config.json")
    )
    return folder


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, which is a model like any other."""
    from transformers import BertConfig, BertModel

    folder = copy_small_files(tmp_path_factory.mktemp("models") / "tiny")
    config = BertConfig(
        vocab_size=30_522, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = BertModel(config).state_dict()  # type: ignore[no-untyped-call]
    (folder / "config.json").write_text(json.dumps({**config.to_dict(), "architectures": ["BertModel"]}))
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "model.safetensors")
    change_json(folder / "1_Pooling" / "config.json", word_embedding_dimension=32)
    return folder


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def copy_tiny(tiny_folder: Path, folder: Path) -> Path:
    shutil.copytree(tiny_folder, folder / "model")
    return folder / "model"


def assert_same_vectors(got: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert got.dtype == np.float32
    assert got.shape == expected.shape
    norms = np.linalg.norm(got, axis=1), np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(norms[0], norms[1], atol=1e-4)
    assert ((got * expected).sum(axis=1) / (norms[0] * norms[1])).min() > 0.9999


def test_fast_road_gives_the_model_s_own_vectors(model: SentenceModel, expected: NDArray[np.float32]) -> None:
    assert model.fast is not None
    assert_same_vectors(encode_sentences(model, TEXTS), expected)


def test_own_road_gives_the_model_s_own_vectors(model: SentenceModel, expected: NDArray[np.float32]) -> None:
    assert_same_vectors(encode_sentences(replace(model, fast=None), TEXTS), expected)


def random_texts(n_texts: int) -> list[str]:
    random = numpy_generator(0, "texts")
    words = ["parcel", "where", "is", "my", "order", "refund", "unbelievable", "7", "?", "Zürich"]
    return [" ".join(random.choice(words, size=random.integers(1, 16))) for _ in range(n_texts)]


def test_a_vector_does_not_depend_on_the_other_texts(model: SentenceModel) -> None:
    texts = random_texts(24)
    together = encode_sentences(model, texts)
    alone = np.concatenate([encode_sentences(model, [text]) for text in texts])
    other_batches = encode_sentences(model, texts[::-1], batch_tokens=100)[::-1]
    # Bit for bit with MKL; another library may round in another way.
    tolerance = 0 if "mkl" in torch.__config__.show().lower() else 1e-6
    np.testing.assert_allclose(alone, together, rtol=0, atol=tolerance)
    np.testing.assert_allclose(other_batches, together, rtol=0, atol=tolerance)


@pytest.mark.parametrize("fast", [True, False])
def test_progress_ends_at_all_texts(model: SentenceModel, fast: bool) -> None:
    seen: list[tuple[int, int]] = []
    encode_sentences(
        model if fast else replace(model, fast=None), TEXTS, progress=lambda *pair: seen.append(pair)
    )
    assert seen == sorted(seen)
    assert seen[-1] == (len(TEXTS), len(TEXTS))


def test_texts_alike_to_the_model_are_encoded_once(
    model: SentenceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model.fast is not None
    n_rows = []
    forward = type(model.fast).forward

    def count(self: object, ids: torch.Tensor) -> torch.Tensor:
        n_rows.append(len(ids))
        return forward(self, ids)  # type: ignore[arg-type]

    monkeypatch.setattr(type(model.fast), "forward", count)
    encode_sentences(model, ["Hello", "hello", " HELLO ", "hello", "bye"])
    assert sum(n_rows) == 2


def test_very_long_texts(tiny_folder: Path) -> None:
    model = load_sentence_model(tiny_folder)
    random = numpy_generator(0, "long")
    texts = [
        " ".join(random.choice(["parcel", "where", "x" * 120, "über"], size=20_000)),
        "   " * 20_000 + "behind many spaces",
        ("y" * 400 + " ") * 100 + "the end counts",
    ]
    assert_same_vectors(encode_sentences(model, texts), np.asarray(model.transformer.encode(texts)))


def test_threads_are_left_alone(model: SentenceModel) -> None:
    before = torch.get_num_threads()
    encode_sentences(model, ["a"])
    assert torch.get_num_threads() == before


def test_no_texts(model: SentenceModel) -> None:
    assert encode_sentences(model, []).shape == (0, 384)
    assert encode_sentences(replace(model, fast=None), []).shape == (0, 384)


def test_bad_texts(model: SentenceModel) -> None:
    with pytest.raises(UsageError, match="single string"):
        encode_sentences(model, "text")
    with pytest.raises(DataError, match=r"row 1: a text is not a string; got None"):
        encode_sentences(model, ["a", None])  # type: ignore[list-item]
    with pytest.raises(DataError, match=r"row 2, character 1: .*surrogate"):
        encode_sentences(model, ["a", "a", "b\ud800"])
    with pytest.raises(UsageError, match="batch_tokens"):
        encode_sentences(model, ["a"], batch_tokens=0)


@pytest.mark.parametrize(
    ("pooling", "modules", "settings", "is_fast"),
    [
        ({}, 3, {}, True),
        ({}, 2, {}, True),  # no Normalize: the norms differ from 1
        ({}, 3, {"prompts": {"q": "query: "}, "default_prompt_name": "q"}, True),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, 3, {}, False),
        ({"pooling_mode_max_tokens": True}, 3, {}, False),
        ({"include_prompt": False}, 3, {"prompts": {"q": "query: "}, "default_prompt_name": "q"}, False),
    ],
)
def test_other_models(
    tiny_folder: Path,
    tmp_path: Path,
    pooling: dict[str, object],
    modules: int,
    settings: dict[str, object],
    is_fast: bool,
) -> None:
    folder = copy_tiny(tiny_folder, tmp_path)
    change_json(folder / "1_Pooling" / "config.json", **pooling)
    change_json(folder / "config_sentence_transformers.json", **settings)
    (folder / "modules.json").write_text(
        json.dumps(json.loads((folder / "modules.json").read_text())[:modules])
    )
    model = load_sentence_model(folder)
    assert (model.fast is not None) == is_fast
    as_it_comes = SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(TEXTS)
    assert model.dimension == as_it_comes.shape[1]
    assert_same_vectors(encode_sentences(model, TEXTS), np.asarray(as_it_comes))


@pytest.mark.parametrize("change", ["half", "activation", "adapter"])
def test_what_is_not_plain_bert_is_not_recognised(tiny_folder: Path, change: str) -> None:
    transformer: Any = SentenceTransformer(str(tiny_folder), device="cpu", local_files_only=True)
    assert recognise_bert(transformer) is not None
    layer = transformer[0].auto_model.encoder.layer[0]
    if change == "half":
        transformer.bfloat16()
    elif change == "activation":
        layer.intermediate.intermediate_act_fn = torch.nn.ReLU()  # seen only by its vectors
    else:
        layer.output.dense = torch.nn.Sequential(layer.output.dense, torch.nn.Linear(32, 32))
    assert recognise_bert(transformer) is None


def test_fingerprint_is_of_the_contents(tiny_folder: Path, tmp_path: Path) -> None:
    folder = copy_tiny(tiny_folder, tmp_path)
    first = hash_model_folder(folder)
    assert first == hash_model_folder(tiny_folder)
    (folder / "README.md").write_text("another text")
    assert hash_model_folder(folder) == first
    change_json(folder / "sentence_bert_config.json", max_seq_length=99)
    assert hash_model_folder(folder) != first


def refused(folder: Path, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_sentence_model(folder)


def test_folders_that_are_no_models(tmp_path: Path, tiny_folder: Path) -> None:
    refused(tmp_path, r"modules\.json: .*a file is missing")
    folder = copy_small_files(tmp_path / "model")
    refused(folder, r"model\.safetensors: .*a file is missing")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    refused(folder, r"pytorch_model\.bin: the model's weights are pickled")
    weights = (tiny_folder / "model.safetensors").read_bytes()
    for damaged in (b"", b"junk" * 99, weights[: len(weights) // 2]):
        (folder / "model.safetensors").write_bytes(damaged)
        refused(folder, r"model\.safetensors: the file of the model's weights is damaged")
    (folder / "config.json").write_text("{")
    refused(folder, r"config\.json: a file of the sentence model cannot be read")


def test_models_that_are_not_complete(tmp_path: Path, tiny_folder: Path) -> None:
    folder = copy_tiny(tiny_folder, tmp_path)
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
    folder = copy_tiny(tiny_folder, tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1].update(module)
    (folder / "modules.json").write_text(json.dumps(modules))
    refused(folder, message)


def test_names_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no such model folder"):
        load_sentence_model(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no such model folder"):
        load_sentence_model("./no/such/folder")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=r"not on this machine and cannot be fetched; got 'sentence-trans"):
        load_sentence_model("no-such-model")


def test_bad_device() -> None:
    with pytest.raises(UsageError, match="device"):
        load_sentence_model(device="toaster")


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys\n"
        "from robusttc.encoders import sentence_vectors, vector_cache, feature_files\n"
        "print([m for m in ('torch', 'transformers', 'safetensors', 'pyarrow') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_loading_draws_nothing(tiny_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    load_sentence_model(tiny_folder)
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == before
