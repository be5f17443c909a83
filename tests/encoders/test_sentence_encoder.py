"""The sentence encoder: one real small run with its cache, and clear errors where there is no model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import sentence
from robusttc.encoders.inputs import DenseInputs
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.encoders.sentence_vectors import encode_sentences
from robusttc.encoders.vector_cache import VectorCache
from robusttc.errors import DataError, UsageError
from robusttc.progress import ProgressEvent
from robusttc.transfer.measure import measure_transfer

TASKS = TaskSet(
    [
        Task("a", ["pay my bill", "hello there", "secret"], ["x", "y", "y"], ["train", "train", "test"]),
        Task("b", ["hello there", "is it raining"], ["u", "v"], ["train", "valid"]),
    ]
)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep every test away from the user's own cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ROBUSTTC_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    """Load the model once."""
    encoder = SentenceEncoder(cache=VectorCache.disabled(), device="cpu")
    assert len(encoder.fingerprint) == 64
    return encoder


def matrix_of(encoder: SentenceEncoder, tasks: TaskSet, **options: object) -> np.ndarray:
    inputs = encoder.prepare(tasks, **options).inputs  # type: ignore[arg-type]
    assert isinstance(inputs, DenseInputs)
    return inputs.matrix


def test_vectors_are_those_of_the_model_and_are_kept(
    encoder: SentenceEncoder, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = SentenceEncoder(device="cpu")
    kept._loaded = encoder._load()  # loading it again would take seconds
    events: list[ProgressEvent] = []
    prepared = kept.prepare(TASKS, splits=("train", "valid"), progress=events.append)
    assert isinstance(prepared.inputs, DenseInputs)
    assert prepared.items["a"].tolist()[2] == -1
    assert prepared.items["a"][1] == prepared.items["b"][0]
    texts = ["hello there", "is it raining", "pay my bill"]
    expected = encoder._load().transformer.encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(prepared.inputs.matrix, expected, atol=1e-5)
    done = [event.done for event in events]
    assert done == sorted(done)
    assert (done[-1], {event.total for event in events}) == (3, {3})
    assert list(own_cache.rglob("*.sqlite"))

    computed: list[str] = []

    def watched(model: object, texts: list[str], **options: object) -> object:
        computed.extend(texts)
        return encode_sentences(model, texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(sentence, "encode_sentences", watched)
    later = SentenceEncoder(device="cpu")
    later._loaded = encoder._load()
    again = matrix_of(later, TASKS)
    assert computed == ["secret"]
    np.testing.assert_array_equal(again[[0, 1, 2]], prepared.inputs.matrix)


def test_measuring_with_it(encoder: SentenceEncoder) -> None:
    rows = (["pay my bill", "send me money", "good morning", "hello there"], ["x", "x", "y", "y"])
    scores = measure_transfer(TaskSet([Task("a", *rows), Task("b", *rows)]), encoder=encoder)
    assert len(scores) == 2
    assert np.isfinite(scores.score).all()


def test_a_text_of_24000_words_is_cut(encoder: SentenceEncoder) -> None:
    words = ["pay my bill tomorrow"] * 6_000
    long = TaskSet([Task("a", [" ".join(words), " ".join(words[:200])], ["x", "y"])])
    vectors = matrix_of(encoder, long)
    assert np.isfinite(vectors).all()
    # Both are longer than what the model reads, and alike as far as that goes.
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)


def test_order_of_tasks_changes_nothing(encoder: SentenceEncoder) -> None:
    np.testing.assert_array_equal(matrix_of(encoder, TASKS), matrix_of(encoder, TASKS.subset(["b", "a"])))


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(DataError, match=r"not a sentence-transformers model.*|modules\.json"):
        SentenceEncoder(folder, device="cpu").prepare(TASKS)
    (folder / "modules.json").write_text("[]")
    with pytest.raises(DataError, match="the list of modules cannot be used"):
        _ = SentenceEncoder(str(folder), device="cpu").fingerprint
    (tmp_path / "file").write_text("not a folder")
    for wrong in (tmp_path / "nowhere", tmp_path / "file", str(tmp_path / "file")):
        with pytest.raises(UsageError, match="there is no such model folder"):
            SentenceEncoder(wrong, device="cpu").prepare(TASKS)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no device of this name; got 'gpuu'"):
        SentenceEncoder(device="gpuu").prepare(TASKS)


def test_nothing_is_loaded_before_it_is_needed(own_cache: Path) -> None:
    encoder = SentenceEncoder("no/such-model")
    assert encoder._loaded is None
    assert repr(encoder) == "SentenceEncoder('no/such-model')"
    assert repr(SentenceEncoder()) == "SentenceEncoder()"
    assert not own_cache.exists()
