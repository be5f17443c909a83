"""Where settings come from, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from robusttc.errors import UsageError
from robusttc.run.settings import Execution, FitSettings, read_settings


def read(
    folder: Path, text: str | None = None, environment: dict[str, str] | None = None, **options: Any
) -> tuple[FitSettings, Execution]:
    file = None
    if text is not None:
        file = folder / "fit.yaml"
        file.write_text(text, encoding="utf-8")
    return read_settings(FitSettings, file=file, environment=environment or {}, options=options)


def test_what_is_given_later_goes_before(tmp_path: Path) -> None:
    places = {"text": "seed: 1", "environment": {"ROBUSTTC_FIT_SEED": "2"}, "seed": "3"}
    assert read(tmp_path)[0].seed == 0
    assert read(tmp_path, "# nothing yet\n") == read(tmp_path)
    assert read(tmp_path, "seed: 1")[0].seed == 1
    assert read(tmp_path, "seed: 1", {"ROBUSTTC_FIT_SEED": "2"})[0].seed == 2
    assert read(tmp_path, **places)[0].seed == 3  # type: ignore[arg-type]
    assert read(tmp_path, "seed: 1", {"ROBUSTTC_FIT_SEED": "  "}, seed=None)[0].seed == 1


def test_all_places_know_all_settings(tmp_path: Path) -> None:
    text = (
        "# a comment\npairs: 1,000\nclusters: 7\nprivate: [acme, 'no']\nsplit_values: {holdout: test}\n"
        "vectors: null\nskip_bad_rows: yes\nworkers: 2\n"
    )
    configuration, execution = read(tmp_path, text)
    assert (configuration.pairs, configuration.clusters) == (1000, 7)
    assert configuration.private == ("acme", "no")
    assert configuration.split_values == {"holdout": "test"}
    assert configuration.skip_bad_rows is True
    assert execution == Execution(workers=2)
    environment = {
        "ROBUSTTC_FIT_PRIVATE": "[acme, globex]",
        "ROBUSTTC_FIT_SPLIT_VALUES": "{holdout: test}",
        "ROBUSTTC_FIT_USE_LABEL_NAMES": "false",
        "ROBUSTTC_FIT_EXECUTOR": "ray",
        "ROBUSTTC_CACHE": "elsewhere",
    }
    configuration, execution = read(tmp_path, environment=environment)
    assert configuration.private == ("acme", "globex")
    assert configuration.split_values == {"holdout": "test"}
    assert configuration.use_label_names is False
    assert execution.executor == "ray"


def test_options_of_reading_are_passed_on() -> None:
    configuration = FitSettings(text_column="utterance", split_values={"a": "test"}, seed=5)
    options = configuration.read_options(allow_incomplete=True)
    assert (options.text_column, options.split_values, options.seed) == ("utterance", {"a": "test"}, 5)
    assert options.allow_incomplete


def test_facts_do_not_depend_on_the_order_of_names() -> None:
    first, second = FitSettings(private=("b", "a")), FitSettings(private=("a", "b", "a"))
    assert first.to_dict() == second.to_dict()


def test_nothing_can_be_changed_afterwards() -> None:
    with pytest.raises(ValidationError):
        FitSettings().seed = 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pear: 3", ["fit.yaml, line 1", "'pear'", "Did you mean 'pairs'?"]),
        ("\nzzz: 3", ["fit.yaml, line 2", "The settings are text_column"]),
        ("seed: 1\nseed: 2", ["fit.yaml, line 2", "twice", "'seed'"]),
        ("split_values: {a: test, a: train}", ["fit.yaml, line 1", "twice", "'a'"]),
        ("seed: -1", ["fit.yaml, line 1", "seed cannot be used", "-1", "whole number from 0"]),
        ("seed: true", ["seed cannot be used", "True"]),
        ("seed: .nan", ["seed cannot be used", "nan"]),
        ("seed: 1.5", ["seed cannot be used"]),
        ("clusters: 0", ["clusters cannot be used", "auto, or a whole number from 1 up"]),
        ("clusters: yes", ["clusters cannot be used", "True"]),
        ("pairs: many", ["pairs cannot be used", "auto, all, or a number of scores"]),
        ("private: [no]", ["private cannot be used", "[False]", "a list of task names"]),
        (
            "encoder: cnm",
            ["encoder cannot be used", "sentence, static, multilingual, both, cnn"],
        ),
        (
            "encoder: cnn\ntune: encoder",
            ["only the encoders sentence and both can be tuned", "line 1", "line 2"],
        ),
        ("vectors: glove.txt", ["word vectors are for the encoder cnn"]),
        (
            "encoder: cnn\nmodel: minilm",
            ["a sentence model is for the encoders sentence, static"],
        ),
        ("- a", ["not a mapping"]),
        ("seed: [", ["this is not YAML", "line "]),
        ("seed: \x01", ["this is not YAML"]),
        ("a: &x 1\nseed: *x", ["alias", "line 2"]),
        ("seed: !!python/name:os.system", ["a value cannot be read"]),
        ("? [a]\n: b", ["not a plain word"]),
        ("seed: " + "[" * 20 + "]" * 20, ["nested too deeply"]),
        ("x: " + "y" * 2**20, ["too large"]),
        ("workers: 0", ["workers cannot be used", "from 1 to 1,024"]),
        ("executor: spark", ["executor cannot be used", "local or ray"]),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    for word in words:
        assert word in str(caught.value)


def test_a_misspelt_name_is_told(tmp_path: Path) -> None:
    for option, wrong, meant in (("encoder", "bth", "both"), ("kind", "acuracy", "accuracy")):
        with pytest.raises(UsageError, match=rf"got '{wrong}'; expected .*\. Did you mean '{meant}'\?"):
            read(tmp_path, "", **{option: wrong})  # type: ignore[arg-type]


def test_all_wrong_values_are_told_at_once_each_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, "seed: x", {"ROBUSTTC_FIT_RULE": "none"}, n_folds="1")
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 settings cannot be used:"
    told = "\n".join(sorted(lines[1:]))
    assert "fit.yaml, line 1: seed cannot be used; got 'x'" in told
    assert (
        "environment variable ROBUSTTC_FIT_RULE: rule cannot be used; got 'none'; expected both or any"
        in told
    )
    assert "option --n-folds: n_folds cannot be used; got '1'; expected a whole number from 2 up" in told


def test_a_misspelt_variable_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'ROBUSTTC_FIT_SEDE'. Did you mean 'ROBUSTTC_FIT_SEED'\?"):
        read(tmp_path, environment={"ROBUSTTC_FIT_SEDE": "1"})
    with pytest.raises(UsageError, match=r"environment variable ROBUSTTC_FIT_PRIVATE, .*: this is not YAML"):
        read(tmp_path, environment={"ROBUSTTC_FIT_PRIVATE": "[a"})


def test_a_wrong_option_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="option --split-value: split_values cannot be used"):
        read(tmp_path, split_values=["=train"])


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read; got No such file"):
        read_settings(FitSettings, file=tmp_path / "no.yaml", environment={})
    (tmp_path / "latin.yaml").write_bytes(b"model: \xe9t\xe9")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_settings(FitSettings, file=tmp_path / "latin.yaml", environment={})


def test_a_quality_stands_for_other_settings_which_win_if_they_are_given(tmp_path: Path) -> None:
    fast, best = read(tmp_path, quality="fast")[0], read(tmp_path, "quality: best")[0]
    assert (fast.encoder, fast.tune) == ("static", "none")
    assert (best.encoder, best.tune) == (FitSettings().encoder, "encoder")
    assert read(tmp_path, "tune: none", quality="best")[0].tune == "none"
    assert read(tmp_path, "encoder: sentence", {"ROBUSTTC_FIT_QUALITY": "fast"})[0].encoder == "sentence"
    assert FitSettings(**fast.to_dict()) == fast
    with pytest.raises(UsageError, match=r"quality cannot be used; got 'bset'; expected .*'best'\?"):
        read(tmp_path, quality="bset")
