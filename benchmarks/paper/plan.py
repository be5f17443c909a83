"""What a table runs: its data, its numbers of clusters, how models are trained, how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from benchmarks.paper.sets import Data
from benchmarks.paper.table import Setting
from robusttc import TaskSet
from robusttc.fewshot import FewShotSettings
from robusttc.fewshot import default_settings as fewshot_settings
from robusttc.models import TrainingSettings
from robusttc.multitask import PAPER, MultiTaskSettings

__all__ = ["Learning", "NumberOfClusters", "Plan", "paper_fewshot", "paper_multitask"]

NumberOfClusters = int | Literal["auto"]
Learning = Literal["multitask", "fewshot"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a table runs.

    Attributes
    ----------
    name, setting
        The table, and whether it is full or quick.
    data
        The tasks.
    learning
        Which of the two settings have rows.
    numbers
        The numbers of clusters K with the paper's scores.
    default_numbers
        Those with the default instrument, beside them.
    new_numbers, new_default_numbers
        The same for few-shot learning; None where they are the same numbers.
    control
        The K of controls: raw S, random clusters, text centroids. None for no controls.
    control_encoders
        Which encoders have controls.
    asap
        The K of ASAP; none where label sets differ.
    pairs, rule
        Which pairs are measured, and the filter rule.
    single, multitask
        How single-task and multi-task models of words are trained.
    fewshot
        How few-shot models are trained, by encoder.
    frozen_single
        How single-task models with frozen vectors are trained, which also measure the scores.
    draws
        How many support sets a target has.
    seeds
        How many seeds each group has.
    tuned
        In which settings there is a row with the fine-tuned encoder.
    tuned_seeds
        How many seeds it has at the most.
    """

    name: str
    setting: Setting
    data: Data
    learning: tuple[Learning, ...]
    numbers: tuple[NumberOfClusters, ...]
    default_numbers: tuple[NumberOfClusters, ...]
    control: int | None
    control_encoders: tuple[str, ...] = ("cnn", "sentence")
    new_numbers: tuple[NumberOfClusters, ...] | None = None
    new_default_numbers: tuple[NumberOfClusters, ...] | None = None
    asap: tuple[int, ...] = ()
    pairs: int | Literal["all"] = "all"
    rule: str = "both"
    single: TrainingSettings = field(default_factory=TrainingSettings)
    frozen_single: TrainingSettings = field(default_factory=TrainingSettings)
    multitask: Mapping[str, MultiTaskSettings] = field(default_factory=dict)
    fewshot: Mapping[str, FewShotSettings] = field(default_factory=dict)
    draws: int = 1
    seeds: Mapping[str, int] = field(default_factory=dict)
    tuned: tuple[Learning, ...] = ()
    tuned_seeds: int = 1

    def of_new_tasks(self) -> Plan:
        """Give the plan of few-shot learning."""
        numbers = self.numbers if self.new_numbers is None else self.new_numbers
        default = self.default_numbers if self.new_default_numbers is None else self.new_default_numbers
        return replace(self, numbers=numbers, default_numbers=default)

    @property
    def measured(self) -> TaskSet:
        """The tasks between which transfer is measured: no targets where there is few-shot learning only."""
        return self.data.tasks if "multitask" in self.learning else self.data.sources

    @property
    def used(self) -> TaskSet:
        """All tasks as they are used, with support sets in place of targets where these are given."""
        if "multitask" in self.learning or not self.data.few_shot:
            return self.data.tasks
        return TaskSet([*self.data.sources, *self.data.few_shot.values()])

    @property
    def is_quick(self) -> bool:
        """Whether it only shows that everything works."""
        return self.setting == "quick"


def paper_multitask(
    *, quick: bool, embeddings: Literal["pretrained", "random"] = "pretrained", epochs: int = 60
) -> dict[str, MultiTaskSettings]:
    """Give the paper's settings of multi-task models, by encoder; see `robusttc.multitask.settings`."""
    settings = PAPER.replace(embeddings=embeddings, epochs=epochs)
    if quick:
        settings = settings.replace(epochs=2, min_steps=1)
    # By validation rows of bots175, of all tasks together and in ten clusters: on sentence vectors 4 tasks
    # a step in place of 16 give 90.6 and 91.2 % in place of 90.2 and 90.6 %, and 150 epochs in place of 60
    # then 91.1 and 91.6 %; 100 are a compromise with time. Convolutions are no better with 4 tasks and 40
    # epochs (86.6 % in place of 87.2 %).
    longer = settings if quick else settings.replace(epochs=100, tasks_a_step=4)
    return {"cnn": settings, "sentence": longer}


def paper_fewshot(*, quick: bool, epochs: int = 40) -> dict[str, FewShotSettings]:
    """Give the paper's settings of few-shot models, by encoder; see `robusttc.fewshot.FewShotSettings`."""
    found = {}
    for encoder in ("cnn", "sentence"):
        settings = fewshot_settings("paper", words=encoder == "cnn")
        layer = settings.layer.replace(epochs=2 if quick else epochs)
        metric = settings.metric.replace(steps=20) if quick else settings.metric
        found[encoder] = settings.replace(layer=layer, metric=metric)
    return found
