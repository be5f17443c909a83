"""Few-shot learning on clusters of tasks: a new task from a handful of rows."""

from robusttc.fewshot.adaptation import learn_mixture, leave_one_out_matching, scorable_rows
from robusttc.fewshot.components import FittedMetrics, match
from robusttc.fewshot.estimator import ClusterFewShot
from robusttc.fewshot.metric import Metric, SourceRows, fit_name_map, train_metric
from robusttc.fewshot.model import FewShotModel, NearestExample
from robusttc.fewshot.protocol import (
    EXTRA_ROWS,
    choose_targets,
    choose_validation_tasks,
    few_shot_rows,
    make_few_shot,
)
from robusttc.fewshot.settings import FewShotSettings, MetricSettings, default_settings
from robusttc.fewshot.validation import THRESHOLD, assess_fewshot

__all__ = [
    "EXTRA_ROWS",
    "THRESHOLD",
    "ClusterFewShot",
    "FewShotModel",
    "FewShotSettings",
    "FittedMetrics",
    "Metric",
    "MetricSettings",
    "NearestExample",
    "SourceRows",
    "assess_fewshot",
    "choose_targets",
    "choose_validation_tasks",
    "default_settings",
    "few_shot_rows",
    "fit_name_map",
    "learn_mixture",
    "leave_one_out_matching",
    "make_few_shot",
    "match",
    "scorable_rows",
    "train_metric",
]
