"""What a fit is told: all that changes its results, and what does not.

`FitConfiguration` has everything that a result depends on besides the tasks; a run is resumed only with the
same. `Execution` says who works, and how many: any answer gives the same result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from robusttc.data import SHARES, ReadOptions, check_shares
from robusttc.errors import UsageError
from robusttc.transfer import parse_pairs

__all__ = ["Execution", "FitConfiguration"]

LARGEST_SEED = 2**63 - 1
MAX_WORKERS = 1024


def refuse_truth(value: Any) -> Any:
    """Refuse True and False for a number: pydantic would take them for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a truth is no number")
    return value


def read_pairs(value: Any) -> Any:
    """Read ``auto``, ``all`` and numbers with commas."""
    try:
        return parse_pairs(value) if isinstance(value, str) else value
    except UsageError as error:
        raise ValueError(str(error)) from None


def read_shares(value: Any) -> Any:
    """Read ``0.8,0.1,0.1`` and lists, and check them."""
    given = value.split(",") if isinstance(value, str) else value
    try:
        return check_shares([float(share) for share in given])
    except (TypeError, ValueError) as error:
        raise ValueError(str(error)) from None


Number = Annotated[int, BeforeValidator(refuse_truth)]
PairNumber = Annotated[Literal["auto", "all"] | Number, BeforeValidator(read_pairs)]


class Checked(BaseModel):
    """Values that are checked when they are made, and never changed after that.

    The description of a field says what it may be, after "expected" in messages.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, protected_namespaces=())


class FitConfiguration(Checked):
    """Everything that changes the results of a fit, apart from the tasks.

    Attributes
    ----------
    encoder, vectors, model, device
        See `robusttc.encoders.make_encoder`.
    kind, pairs
        What is measured between tasks, and how many scores; see `measure_transfer`.
    clusters, rule
        See `robusttc.clustering.estimator.RobustTaskClustering`; `clusters` is its `n_clusters`, and `rule`
        counts with the strategy ``paper`` alone.
    strategy, cluster_models, tune, n_folds, n_random, use_label_names
        See `robusttc.multitask.ClusterMultiTask` and `robusttc.fewshot.ClusterFewShot`;
        `cluster_models` is what they call `clusters`.
    private
        Tasks that no other task may learn from; see `robusttc.data.Task`.
    seed
        The seed of everything random, the splits of files without splits included.
    text_column, label_column, split_column, task_column, split_values, shares, delimiter, encoding,
    skip_bad_rows
        How files are read; see `robusttc.data.ReadOptions`.

    Examples
    --------
    >>> FitConfiguration(pairs="100,000").pairs
    100000
    """

    encoder: Annotated[
        Literal["sentence", "static", "multilingual", "both", "cnn"]
        | Annotated[str, Field(pattern=r"^remote:https?://")],
        Field(description="sentence, static, multilingual, both, cnn or remote:URL"),
    ] = "sentence"
    vectors: Annotated[Path | None, Field(description="a file of word vectors")] = None
    model: Annotated[str | None, Field(description="the name or folder of a sentence model")] = None
    device: Annotated[str, Field(description="auto, cpu, cuda or mps", min_length=1)] = "auto"
    kind: Annotated[
        Literal["log_likelihood", "brier", "accuracy", "overlap"],
        Field(description="log_likelihood, brier, accuracy or overlap"),
    ] = "log_likelihood"
    pairs: Annotated[PairNumber, Field(description="auto, all, or a number of scores")] = "auto"
    clusters: Annotated[
        Literal["auto"] | Annotated[Number, Field(ge=1)],
        Field(description="auto, or a whole number from 1 up"),
    ] = "auto"
    rule: Annotated[Literal["both", "any"], Field(description="both or any")] = "both"
    strategy: Annotated[Literal["blend", "paper"], Field(description="blend or paper")] = "blend"
    cluster_models: Annotated[
        Literal["auto", "always", "never"], Field(description="auto, always or never")
    ] = "auto"
    tune: Annotated[Literal["none", "encoder"], Field(description="none or encoder")] = "none"
    n_folds: Annotated[Number, Field(ge=2, description="a whole number from 2 up")] = 3
    n_random: Annotated[Number, Field(ge=0, description="a whole number from 0 up")] = 1
    use_label_names: Annotated[bool, Field(description="true or false")] = True
    private: Annotated[tuple[str, ...], Field(description="a list of task names")] = ()
    seed: Annotated[
        Number, Field(ge=0, le=LARGEST_SEED, description="a whole number from 0 to 2**63 - 1")
    ] = 0
    text_column: Annotated[str | None, Field(description="the name of a column")] = None
    label_column: Annotated[str | None, Field(description="the name of a column")] = None
    split_column: Annotated[str | None, Field(description="the name of a column")] = None
    task_column: Annotated[str | None, Field(description="the name of a column")] = None
    split_values: Annotated[
        dict[str, str], Field(description="values of the split column, each with its meaning")
    ] = Field(default_factory=dict)
    shares: Annotated[
        tuple[float, float, float],
        BeforeValidator(read_shares),
        Field(description="three numbers that sum to 1, the shares of train, valid and test"),
    ] = SHARES
    delimiter: Annotated[str | None, Field(description="one character")] = None
    encoding: Annotated[str | None, Field(description="the name of a text encoding")] = None
    skip_bad_rows: Annotated[bool, Field(description="true or false")] = False

    @model_validator(mode="after")
    def check_together(self) -> FitConfiguration:
        """Refuse values that do not go together."""
        if self.tune == "encoder" and self.encoder != "sentence":
            raise ValueError(f"only the encoder sentence can be tuned, not {self.encoder}")
        if self.vectors is not None and self.encoder != "cnn":
            raise ValueError("word vectors are for the encoder cnn")
        if self.model is not None and self.encoder in ("cnn", "multilingual"):
            raise ValueError("a sentence model is for the encoders sentence, static, both and remote")
        return self

    @property
    def read_options(self) -> ReadOptions:
        """How task files are read. Incomplete tasks are kept: the run sets them aside with the reason."""
        return ReadOptions(
            text_column=self.text_column,
            label_column=self.label_column,
            split_column=self.split_column,
            task_column=self.task_column,
            split_values=dict(self.split_values),
            shares=self.shares,
            delimiter=self.delimiter,
            encoding=self.encoding,
            skip_bad_rows=self.skip_bad_rows,
            allow_incomplete=True,
            seed=self.seed,
        )

    def as_facts(self) -> dict[str, Any]:
        """Give it as values for JSON; names in the order of the alphabet where their order means nothing."""
        return {**self.model_dump(mode="json"), "private": sorted(set(self.private))}


class Execution(Checked):
    """Who does the work. None of it changes a result.

    Attributes
    ----------
    executor
        ``local``: processes of this machine. ``ray``: a Ray cluster.
    workers
        How many units are worked on at the same time, locally.
    """

    executor: Annotated[Literal["local", "ray"], Field(description="local or ray")] = "local"
    workers: Annotated[
        Number, Field(ge=1, le=MAX_WORKERS, description=f"a whole number from 1 to {MAX_WORKERS:,}")
    ] = 1
