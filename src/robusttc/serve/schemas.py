"""What requests and answers of the API look like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = [
    "Adapted",
    "Answers",
    "ClusterSummary",
    "Clusters",
    "Conflicts",
    "Example",
    "Examples",
    "Explanation",
    "Info",
    "JobState",
    "MixedAnswers",
    "MixedQuestions",
    "ModelSays",
    "NearestExample",
    "Prediction",
    "Problem",
    "Question",
    "Questions",
    "ReadRows",
    "Rollback",
    "Row",
    "TableText",
    "TaskDetails",
    "TaskPage",
    "TaskSummary",
    "TaskVersion",
    "TaskVersions",
]

# Limits on sizes are the server's settings; here stands only what is never right.
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
Label = Annotated[str, StringConstraints(min_length=1, max_length=1_000, pattern=r"\S")]
Probability = Annotated[float, Field(ge=0, le=1)]


class Request(BaseModel):
    """A request; fields that nobody knows are refused, since they are misspelt ones."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Options(Request):
    """What predictions may be asked for."""

    top_k: Annotated[
        int | None, Field(ge=1, description="So many labels have a probability; all by default.")
    ] = None
    abstain_below: Annotated[
        Probability | None, Field(description="No label where the highest probability is below this.")
    ] = None
    nearest: Annotated[bool, Field(description="Return the nearest example of the task, too.")] = False
    truncate: Annotated[
        bool, Field(description="Cut a text that is too long, and say so; otherwise it is refused.")
    ] = False


class Questions(Options):
    """Texts for one task."""

    texts: Annotated[list[Text], Field(min_length=1)]


class Question(Options):
    """One text for one task."""

    text: Text


class Rollback(Request):
    """The version that is to answer again."""

    version: Annotated[int, Field(ge=1)]


class Row(Request):
    """A text and the task that it is for."""

    task: str
    text: Text


class MixedQuestions(Options):
    """Texts for different tasks."""

    rows: Annotated[list[Row], Field(min_length=1)]


class NearestExample(BaseModel):
    """The most similar example of the task."""

    text: str
    label: str
    similarity: float


class Prediction(BaseModel):
    """The answer to a text."""

    label: Annotated[str | None, Field(description="The most probable label; null if it abstained.")]
    probability: Annotated[float, Field(description="Of the most probable label.")]
    probabilities: Annotated[dict[str, float], Field(description="By label, the most probable first.")]
    abstained: Annotated[bool, Field(description="No label reached `abstain_below`.")]
    in_scope: Annotated[bool | None, Field(description="Whether any of the labels fits; null if not known.")]
    out_of_scope: Annotated[float | None, Field(description="The score behind `in_scope`.")]
    nearest_example: NearestExample | None = None
    truncated: Annotated[bool, Field(description="Only the beginning of the text was read.")] = False


class Answers(BaseModel):
    """The answers to the texts, in their order."""

    task: str
    version: Annotated[int, Field(description="The version of the task that answered.")]
    predictions: list[Prediction]


class MixedPrediction(Prediction):
    """The answer to a row."""

    task: str
    version: int


class MixedAnswers(BaseModel):
    """The answers to the rows, in their order."""

    predictions: list[MixedPrediction]


class Example(Request):
    """A text with its label."""

    text: Text
    label: Label


class Examples(Request):
    """The examples of a task."""

    examples: Annotated[list[Example], Field(min_length=1)]
    name: Annotated[
        str | None, Field(min_length=1, max_length=1_000, description="A name for people; else the id.")
    ] = None


class Nearest(BaseModel):
    """A task and how similar it is."""

    task: str
    similarity: float


class Adapted(BaseModel):
    """What came of the examples."""

    task: str
    version: int
    n_examples: int
    labels: list[str]
    expected_accuracy: Annotated[
        float | None, Field(description="Estimated by leaving out each example in turn.")
    ]
    interval: Annotated[tuple[float, float] | None, Field(description="95 % of that.")]
    weights: Annotated[dict[str, float], Field(description="Of the metrics that predict.")]
    nearest_tasks: list[Nearest]
    fits_a_cluster: Annotated[bool, Field(description="Whether any cluster of the run fits.")]


class TaskSummary(BaseModel):
    """A task in a list."""

    task: Annotated[str, Field(description="The id that addresses it.")]
    name: str
    kind: Literal["fitted", "added", "adapted"]
    n_labels: int
    cluster: Annotated[int | None, Field(description="null for none.")]
    accuracy: Annotated[float | None, Field(description="On held-out rows.")]
    version: int


class TaskPage(BaseModel):
    """A page of the list of tasks."""

    tasks: list[TaskSummary]
    total: Annotated[int, Field(description="How many tasks match the search.")]
    next: Annotated[int | None, Field(description="The offset of the next page.")]


class TaskDetails(TaskSummary):
    """What is known of a task."""

    labels: list[str]
    interval: Annotated[tuple[float, float] | None, Field(description="95 % of the accuracy.")]
    novel_accuracy: Annotated[float | None, Field(description="On held-out texts that no other task has.")]
    temperature: float | None
    n_rows: int


class ClusterSummary(BaseModel):
    """A cluster of the run."""

    cluster: int
    tasks: list[str]


class Clusters(BaseModel):
    """The clusters, and whether they are real."""

    clusters: list[ClusterSummary]
    verdict: Annotated[str | None, Field(description="Whether held-out pairs support them.")]


class TaskVersion(BaseModel):
    """A version of a task."""

    version: int
    made: str
    what: str


class TaskVersions(BaseModel):
    """All versions of a task that can be served."""

    task: str
    current: int
    versions: list[TaskVersion]


class JobState(BaseModel):
    """How far a long job is."""

    id: str
    state: Literal["running", "done", "failed"]
    detail: str


class ModelSays(BaseModel):
    """What one of the models behind a task says of a text."""

    model: str
    weight: Annotated[float, Field(description="In the blend of probabilities.")]
    probabilities: dict[str, float]


class Explanation(BaseModel):
    """Why a text got its label."""

    task: str
    prediction: Prediction
    models: list[ModelSays]
    nearest_example: NearestExample


class Conflicts(BaseModel):
    """Labels of a task that conflict with those of others."""

    task: str
    sentences: list[str]


class TableText(Request):
    """A table as text."""

    content: Annotated[str, Field(min_length=1, description="CSV or TSV with a header.")]


class ReadRows(BaseModel):
    """What a table holds."""

    examples: list[Example]
    labels: Annotated[dict[str, int], Field(description="How many examples each label has.")]
    problems: Annotated[list[str], Field(description="What is wrong, each with its line; then no examples.")]


class Info(BaseModel):
    """The server."""

    robusttc: str
    run_version: int
    n_tasks: int
    limits: dict[str, Any]
    bytes_a_task: Annotated[float, Field(description="Of its own parts, in the files of the run.")]
    microseconds_a_text: Annotated[float | None, Field(description="Of a text's encoder and heads.")]


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None
