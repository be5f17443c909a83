"""Encoders by their names, and options that belong to one of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from robusttc.data import TaskSet
from robusttc.encoders.choosing import ENCODER_NAMES, make_encoder
from robusttc.encoders.cnn import CnnEncoder
from robusttc.encoders.encoder import PreparedTasks
from robusttc.encoders.features import FeatureEncoder
from robusttc.encoders.sentence import SentenceEncoder
from robusttc.errors import UsageError
from robusttc.progress import Progress


def test_names() -> None:
    assert {make_encoder(name).name for name in ENCODER_NAMES} == set(ENCODER_NAMES)
    assert isinstance(make_encoder(), SentenceEncoder)
    cnn = make_encoder("cnn", vectors="glove.txt")
    assert isinstance(cnn, CnnEncoder)
    assert cnn.vectors == Path("glove.txt")
    sentence = make_encoder("sentence", model="some/model", device="cpu")
    assert isinstance(sentence, SentenceEncoder)
    assert (sentence.model, sentence.device) == ("some/model", "cpu")


class Untouchable:
    """An encoder whose fingerprint cannot be had yet."""

    def __init__(self) -> None:
        self.name = "untouchable"

    @property
    def fingerprint(self) -> str:
        raise AssertionError("nobody needs it yet")

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        raise NotImplementedError


def test_the_fingerprint_is_not_asked_for() -> None:
    encoder = Untouchable()
    assert make_encoder(encoder) is encoder
    missing = FeatureEncoder("no such file")
    assert make_encoder(missing) is missing


def test_one_that_is_made_is_given_back() -> None:
    encoder = FeatureEncoder({"a": [[1.0]]})
    assert make_encoder(encoder) is encoder
    assert make_encoder(encoder, device="cpu") is encoder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder": "sentance"}, r"no such encoder; got 'sentance'; expected .*Did you mean 'sentence'\?"),
        ({"encoder": "CNN"}, r"no such encoder; got 'CNN'"),
        ({"encoder": "features"}, r"no such encoder; got 'features'"),
        ({"encoder": ""}, r"no such encoder; got ''"),
        ({"encoder": None}, r"this is no encoder; got None"),
        ({"encoder": CnnEncoder}, r"this is no encoder"),
        ({"encoder": "cnn", "model": "m"}, r"encoder 'cnn' takes no model; got 'm'"),
        ({"encoder": "sentence", "vectors": "v"}, r"encoder 'sentence' takes no vectors; got 'v'"),
        ({"encoder": CnnEncoder(), "vectors": Path("v")}, r"the encoder that was given takes no vectors"),
        ({"encoder": CnnEncoder(), "model": "m"}, r"the encoder that was given takes no model"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_encoder(**arguments)


def test_making_an_encoder_loads_no_heavy_library() -> None:
    code = (
        "import sys; from robusttc.encoders.choosing import make_encoder\n"
        "for name in ('sentence', 'cnn'): make_encoder(make_encoder(name))\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
