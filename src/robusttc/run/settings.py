"""All settings of a run, written once: commands, YAML files, the environment and Python take them from here.

`FitSettings` holds everything that a result depends on but the tasks: a run is resumed only with the same.
`Execution` says where jobs run, and changes no result. Of several sources the later one wins: default, file,
environment, option. Every value keeps its place for messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from robusttc.data import SHARES, ReadOptions, check_shares
from robusttc.encoders import DEFAULT_ENCODER
from robusttc.errors import UsageError, nearest_name, quote

__all__ = [
    "ENVIRONMENT_PREFIX",
    "Execution",
    "FitSettings",
    "MeasureSettings",
    "ReadSettings",
    "Settings",
    "make_settings",
    "read_settings",
]

ENVIRONMENT_PREFIX = "ROBUSTTC_FIT_"
MAX_FILE_BYTES = 2**20
MAX_DEPTH = 10  # the YAML parser recurses; settings have two levels
# What the qualities stand for.
QUALITIES: dict[str, dict[str, Any]] = {
    "fast": {"encoder": "static"},
    "standard": {},
    "best": {"tune": "encoder"},
}
# Options that may be given several times have the name of one value.
OPTION_NAMES = {"split_values": "split-value"}
# Written in an environment variable as in the file.
COLLECTIONS = ("private", "split_values")


def setting(expected: str, help_text: str, *, metavar: str | None = None, **constraints: Any) -> Any:
    """Describe a setting: what it may be, in messages, and what it does, for ``--help`` and the guide."""
    extra: Any = {"help": help_text, "metavar": metavar}
    return Field(description=expected, json_schema_extra=extra, **constraints)


def refuse_bool(value: Any) -> Any:
    """Refuse True and False as a number: pydantic would take them for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("not a number")
    return value


def parse_pairs_setting(value: Any) -> Any:
    """Read ``auto``, ``all`` and numbers with commas."""
    from robusttc.transfer import parse_pairs

    try:
        return parse_pairs(value) if isinstance(value, str) else value
    except UsageError as error:
        raise ValueError(str(error)) from None


def parse_shares(value: Any) -> Any:
    """Read ``0.8,0.1,0.1`` and lists, and check them."""
    shares = value.split(",") if isinstance(value, str) else value
    try:
        return check_shares([float(share) for share in shares])
    except (TypeError, ValueError) as error:
        raise ValueError(str(error)) from None


def parse_split_values(value: Any) -> Any:
    """Read a list of ``VALUE=MEANING`` and ``VALUE``, as options have it; a mapping is taken as it is."""
    if not isinstance(value, list | tuple):
        return value
    meanings = {}
    for entry in value:
        name, equals, meaning = str(entry).rpartition("=")
        name, meaning = (name, meaning) if equals else (entry, entry)
        if not name or not meaning:
            raise ValueError(f"{entry} is neither VALUE nor VALUE=MEANING")
        meanings[name] = meaning
    return meanings


Number = Annotated[int, BeforeValidator(refuse_bool)]
Name = str | None


class Settings(BaseModel):
    """Values that are checked when they are set, and do not change afterwards."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, protected_namespaces=())


class ReadSettings(Settings):
    """How task files are read; see `robusttc.data.ReadOptions`."""

    text_column: Annotated[
        Name,
        setting("the name of a column", "The column of the text.  [default: text, or a usual name]"),
    ] = None
    label_column: Annotated[
        Name,
        setting("the name of a column", "The column of the label.  [default: label, or a usual name]"),
    ] = None
    split_column: Annotated[
        Name, setting("the name of a column", "The column of the split.  [default: split, if there is one]")
    ] = None
    task_column: Annotated[
        Name,
        setting("the name of a column", "The column that names the task.  [default: task, if there is one]"),
    ] = None
    split_values: Annotated[
        dict[str, str],
        BeforeValidator(parse_split_values),
        setting(
            "values of the split column, each with its meaning",
            "A further value of the split column: VALUE=train (or valid, test) says what it means, VALUE "
            "alone keeps its rows as a split of that name. Can be given several times.",
            metavar="VALUE[=MEANING]",
        ),
    ] = Field(default_factory=dict)
    shares: Annotated[
        tuple[float, float, float],
        BeforeValidator(parse_shares),
        setting(
            "three numbers that sum to 1, the shares of train, valid and test",
            "The shares of the splits where files have none.",
            metavar="TRAIN,VALID,TEST",
        ),
    ] = SHARES
    delimiter: Annotated[
        Name,
        setting(
            "one character",
            "The delimiter of CSV files.  [default: found from the header]",
            metavar="CHARACTER",
        ),
    ] = None
    encoding: Annotated[
        Name,
        setting("the name of a text encoding", "The encoding of text files.  [default: UTF-8, or UTF-16]"),
    ] = None
    skip_bad_rows: Annotated[
        bool,
        setting("true or false", "Leave out bad rows, and report how many.  [default: stop at bad rows]"),
    ] = False
    seed: Annotated[
        Number,
        setting(
            "a whole number from 0 to 2**63 - 1",
            "The seed of everything random.",
            metavar="N",
            ge=0,
            le=2**63 - 1,
        ),
    ] = 0

    def read_options(self, *, allow_incomplete: bool = False) -> ReadOptions:
        """Return the options of reading."""
        names = [name for name in ReadSettings.model_fields if name != "split_values"]
        values = {name: getattr(self, name) for name in names}
        return ReadOptions(**values, split_values=dict(self.split_values), allow_incomplete=allow_incomplete)


class MeasureSettings(ReadSettings):
    """How transfer is measured; see `robusttc.measure_transfer` and `robusttc.encoders.make_encoder`."""

    encoder: Annotated[
        Literal["sentence", "static", "multilingual", "both", "cnn"]
        | Annotated[str, Field(pattern=r"^remote:https?://")],
        setting(
            "sentence, static, multilingual, both, cnn or remote:URL",
            "Text encoder: sentence, static, multilingual, both, cnn or remote:URL.",
            metavar="NAME",
        ),
    ] = DEFAULT_ENCODER
    vectors: Annotated[
        Path | None,
        setting(
            "a file of word vectors",
            "Word vectors for cnn, as of GloVe.  [default: some that come with the package]",
            metavar="FILE",
        ),
    ] = None
    model: Annotated[
        Name,
        setting(
            "the name or folder of a sentence model",
            "A sentence-transformers model.  [default: MiniLM, which is installed]",
            metavar="NAME|FOLDER",
        ),
    ] = None
    device: Annotated[
        str,
        setting(
            "auto, cpu, cuda or mps",
            "Where a sentence model runs: auto, cpu, cuda or mps; auto uses a GPU if there is one.",
            metavar="DEVICE",
            min_length=1,
        ),
    ] = "auto"
    pairs: Annotated[
        Annotated[Literal["auto", "all"] | Number, BeforeValidator(parse_pairs_setting)],
        setting(
            "auto, all, or a number of scores",
            "How many scores to measure; auto stops when more do not help to predict the others.",
            metavar="auto|all|N",
        ),
    ] = "auto"
    kind: Annotated[
        Literal["log_likelihood", "brier", "accuracy", "overlap"],
        setting(
            "log_likelihood, brier, accuracy or overlap",
            "What is measured between tasks: log_likelihood, brier, accuracy or overlap.",
            metavar="KIND",
        ),
    ] = "log_likelihood"

    @model_validator(mode="after")
    def check_encoder(self) -> MeasureSettings:
        """Refuse options of another encoder."""
        if self.vectors is not None and self.encoder != "cnn":
            raise ValueError("word vectors are for the encoder cnn")
        if self.model is not None and self.encoder in ("cnn", "multilingual"):
            raise ValueError("a sentence model is for the encoders sentence, static, both and remote")
        return self


class FitSettings(MeasureSettings):
    """Everything that changes the results of a fit, apart from the tasks.

    Examples
    --------
    >>> FitSettings(pairs="100,000").pairs
    100000
    >>> FitSettings(quality="fast").encoder, FitSettings(quality="fast", encoder="cnn").encoder
    ('static', 'cnn')
    """

    quality: Annotated[
        Literal["fast", "standard", "best"],
        setting(
            "fast, standard or best",
            "A set of other options, each of which wins if it is given: fast is the encoder static, best "
            "fine-tunes the sentence model (minutes).",
            metavar="fast|standard|best",
        ),
    ] = "standard"
    clusters: Annotated[
        Literal["auto"] | Annotated[Number, Field(ge=1)],
        setting("auto, or a whole number from 1 up", "How many clusters.", metavar="K|auto"),
    ] = "auto"
    rule: Annotated[
        Literal["both", "any"],
        setting("both or any", "The filter of scores (Eq. 1) with the strategy paper.", metavar="both|any"),
    ] = "both"
    strategy: Annotated[
        Literal["blend", "paper"],
        setting(
            "blend or paper",
            "A blend of single-task, shared and cluster models, or the paper's algorithms to the letter.",
            metavar="blend|paper",
        ),
    ] = "blend"
    cluster_models: Annotated[
        Literal["auto", "always", "never"],
        setting(
            "auto, always or never",
            "Whether cluster models serve; auto: if they help on held-out rows.",
            metavar="auto|always|never",
        ),
    ] = "auto"
    tune: Annotated[
        Literal["none", "encoder"],
        setting(
            "none or encoder",
            "Fine-tune the sentence model itself on the tasks first.",
            metavar="none|encoder",
        ),
    ] = "none"
    refit: Annotated[
        Literal["auto", "train", "valid", "all"],
        setting(
            "auto, train, valid or all",
            "Which rows the models that serve are trained on after the evaluation; auto: all rows where "
            "files have no splits, else train and valid.",
            metavar="auto|train|valid|all",
        ),
    ] = "auto"
    n_folds: Annotated[
        Number,
        setting("a whole number from 2 up", "Folds of the out-of-fold predictions.", metavar="N", ge=2),
    ] = 3
    n_random: Annotated[
        Number,
        setting("a whole number from 0 up", "Draws of random clusters to compare with.", metavar="N", ge=0),
    ] = 1
    use_label_names: Annotated[
        bool, setting("true or false", "Whether few-shot learning reads the names of labels.")
    ] = True
    private: Annotated[
        tuple[str, ...],
        setting(
            "a list of task names",
            "A task that no other may learn from; it gets a model of its own. Can be given several times.",
            metavar="NAME",
        ),
    ] = ()

    @model_validator(mode="before")
    @classmethod
    def apply_quality(cls, values: Any) -> Any:
        """Let the quality choose the options that were not given."""
        if not isinstance(values, dict) or not isinstance(values.get("quality"), str):
            return values
        return {**QUALITIES.get(values["quality"], {}), **values}

    @model_validator(mode="after")
    def check_tuning(self) -> FitSettings:
        """Refuse to fine-tune what cannot be."""
        if self.tune == "encoder" and self.encoder not in ("sentence", "both"):
            raise ValueError(f"only the encoders sentence and both can be tuned, not {self.encoder}")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON has them; names are sorted where their order means nothing."""
        return {**self.model_dump(mode="json"), "private": sorted(set(self.private))}


class Execution(Settings):
    """Where jobs run, and how many at a time. No result depends on it."""

    executor: Annotated[
        Literal["local", "ray"],
        setting(
            "local or ray",
            "Where jobs run: processes of this machine, or a Ray cluster (RAY_ADDRESS).",
            metavar="local|ray",
        ),
    ] = "local"
    workers: Annotated[
        Number,
        setting(
            "a whole number from 1 to 1,024",
            "How many processes work; no result depends on it.",
            metavar="N",
            ge=1,
            le=1024,
        ),
    ] = 1


Kind = TypeVar("Kind", bound=Settings)


class Given(NamedTuple):
    """A value, and where it comes from."""

    value: Any
    place: str


def read_settings(
    kind: type[Kind],
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    also: type[Settings] = Execution,
) -> tuple[Kind, Any]:
    """Put settings together: default < file < environment < option.

    Parameters
    ----------
    kind
        Which settings.
    file
        A YAML file with a line ``NAME: VALUE`` per setting.
    environment
        Variables that begin with ``ROBUSTTC_FIT_`` count; None takes those of the process.
    options
        The options of a command by the names of the settings; None is not given.
    also
        Further settings from the same sources, returned beside the first.

    Raises
    ------
    UsageError
        If the file cannot be read, or settings are unknown, repeated or cannot be used; it names the place of
        each.

    Examples
    --------
    >>> read_settings(FitSettings, environment={"ROBUSTTC_FIT_SEED": "7"}, options={"workers": 2})[0].seed
    7
    """
    names = (*kind.model_fields, *also.model_fields)
    given = {} if file is None else read_file(file, names)
    given |= read_environment(os.environ if environment is None else environment, names)
    for name, value in (options or {}).items():
        if value is not None:
            given[name] = Given(value, f"option --{OPTION_NAMES.get(name, name.replace('_', '-'))}")
    return validate(kind, given), validate(also, given)


def make_settings(kind: type[Kind], values: Kind | Mapping[str, Any] | None) -> Kind:
    """Return settings from a mapping of some of them; settings are returned as they are.

    Raises
    ------
    UsageError
        If there is no such setting, or a value cannot be used.
    """
    if isinstance(values, kind):
        return values
    if values is not None and not isinstance(values, Mapping):
        raise UsageError(
            "settings cannot be used", got=quote(values), expected=f"{kind.__name__} or a mapping"
        )
    given = {name: Given(value, "settings") for name, value in (values or {}).items()}
    names = tuple(kind.model_fields)
    for name in given:
        if name not in names:
            raise unknown_setting("settings", str(name), str(name), names)
    return validate(kind, given)


def validate(kind: type[Kind], given: Mapping[str, Given]) -> Kind:
    """Check the values of one kind of settings."""
    own = {name: one for name, one in given.items() if name in kind.model_fields}
    try:
        return kind.model_validate({name: one.value for name, one in own.items()})
    except ValidationError as error:
        raise UsageError(describe_problems(kind, own, error)) from None


def describe_problems(kind: type[Settings], given: Mapping[str, Given], error: ValidationError) -> str:
    """Describe what is wrong, a line per setting with its place."""
    lines: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        if not problem["loc"]:  # settings that do not go together
            places = ", ".join(dict.fromkeys(one.place for one in given.values()))
            lines[""] = f"{places}: {problem['msg'].removeprefix('Value error, ')}"
            continue
        name = str(problem["loc"][0])
        one, expected = given[name], kind.model_fields[name].description
        line = f"{one.place}: {name} cannot be used; got {quote(one.value)}; expected {expected}"
        if problem["type"] == "literal_error":
            nearest = nearest_name(str(one.value), re.findall(r"'(.*?)'", problem["ctx"]["expected"]))
            line += f". Did you mean {quote(nearest)}?" if nearest else ""
        if name not in lines or "Did you mean" in line:
            lines[name] = line
    if len(lines) == 1:
        return next(iter(lines.values()))
    return f"{len(lines)} settings cannot be used:\n" + "\n".join(f"  {line}" for line in lines.values())


def unknown_setting(place: str, name: str, shown: str, names: tuple[str, ...]) -> UsageError:
    """Make the error for a setting that does not exist, with the one that was probably meant."""
    nearest = nearest_name(name.lower(), names)
    meant = shown.replace(name, nearest if name.islower() else nearest.upper()) if nearest else None
    todo = f"did you mean {quote(meant)}?" if meant else f"the settings are {', '.join(names)}"
    return UsageError("there is no such setting", where=place, got=quote(shown), todo=todo)


def read_environment(environment: Mapping[str, str], names: tuple[str, ...]) -> dict[str, Given]:
    """Read the settings in environment variables; an empty one is not given."""
    found: dict[str, Given] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or not text.strip():
            continue
        own_name = variable.removeprefix(ENVIRONMENT_PREFIX)
        name, place = own_name.lower(), f"environment variable {variable}"
        if name not in names or own_name != own_name.upper():
            raise unknown_setting("environment", own_name, variable, names)
        value: Any = text
        if name in COLLECTIONS:
            node = compose(text, place)
            value = None if node is None else construct(node, place)
        found[name] = Given(value, place)
    return found


def read_file(path: Path, names: tuple[str, ...]) -> dict[str, Given]:
    """Read the settings of a YAML file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        got = error.strerror or str(error)
        raise UsageError("the settings file cannot be read", where=str(path), got=got) from None
    except UnicodeDecodeError:
        raise UsageError("the settings file is not UTF-8", where=str(path)) from None
    if len(content) > MAX_FILE_BYTES:
        raise UsageError("the settings file is too large", where=str(path), expected="at most 1 MiB")
    root = compose(text, str(path))
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        expected = "a line NAME: VALUE per setting"
        raise UsageError("the settings file is not a mapping", where=str(path), expected=expected)
    found: dict[str, Given] = {}
    for name, node in entries_of(root, str(path)).items():
        place = f"{path}, line {node.start_mark.line + 1}"
        if name not in names:
            raise unknown_setting(place, name, name, names)
        found[name] = Given(construct(node, place), place)
    return found


def compose(text: str, place: str) -> yaml.Node | None:
    """Parse YAML into nodes, which know their lines; aliases and deep nesting are refused."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
                what = "has an alias" if depth <= MAX_DEPTH else "is nested too deeply"
                raise UsageError(f"the YAML {what}", where=f"{place}, line {event.start_mark.line + 1}")
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = place if mark is None else f"{place}, line {mark.line + 1}"
        got = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UsageError("this is not YAML", where=where, got=got) from None
    return node


def entries_of(node: yaml.MappingNode, place: str) -> dict[str, yaml.Node]:
    """Return the entries of a mapping; a repeated key is an error."""
    entries: dict[str, yaml.Node] = {}
    for key, value in node.value:
        where = f"{place}, line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise UsageError("a key is not a plain word", where=where)
        if key.value in entries:
            raise UsageError("a setting is there twice", where=where, got=quote(key.value))
        entries[key.value] = value
    return entries


def construct(node: yaml.Node, place: str) -> Any:
    """Return the value of a node."""
    if isinstance(node, yaml.MappingNode):
        return {name: construct(value, place) for name, value in entries_of(node, place).items()}
    if isinstance(node, yaml.SequenceNode):
        return [construct(value, place) for value in node.value]
    try:
        return yaml.safe_load(yaml.serialize(node))
    except (yaml.YAMLError, ValueError) as error:
        got = quote(str(error).splitlines()[0])
        raise UsageError("a value cannot be read", where=place, got=got) from None
