"""Multi-task learning on clusters of tasks."""

from robusttc.multitask.blending import COMPONENTS, OWN_ONLY, BlendWeights
from robusttc.multitask.estimator import ClusterMultiTask
from robusttc.multitask.joint_training import SharedModel, TaskRows, train_jointly
from robusttc.multitask.negative_transfer import (
    TaskTransfer,
    TransferSource,
    find_sources,
    judge_sharing,
    sharing_with,
)
from robusttc.multitask.new_tasks import (
    ADD_STAGE,
    AddedTask,
    AddInputs,
    add_job,
    finish_task,
    lay_out_task,
    load_added,
    save_added,
    serve_added,
)
from robusttc.multitask.predictor import Predictor, SingleTaskModel, fit_own, uniform_model
from robusttc.multitask.settings import PAPER, MultiTaskSettings, default_settings
from robusttc.multitask.training import TrainingData, check_learnable, clusters_to_train, prepare_tasks
from robusttc.multitask.validation import HeldOutRows, assess_multitask, deal_folds, predict_rows

__all__ = [
    "ADD_STAGE",
    "COMPONENTS",
    "OWN_ONLY",
    "PAPER",
    "AddInputs",
    "AddedTask",
    "BlendWeights",
    "ClusterMultiTask",
    "HeldOutRows",
    "MultiTaskSettings",
    "Predictor",
    "SharedModel",
    "SingleTaskModel",
    "TaskRows",
    "TaskTransfer",
    "TrainingData",
    "TransferSource",
    "add_job",
    "assess_multitask",
    "check_learnable",
    "clusters_to_train",
    "deal_folds",
    "default_settings",
    "find_sources",
    "finish_task",
    "fit_own",
    "judge_sharing",
    "lay_out_task",
    "load_added",
    "predict_rows",
    "prepare_tasks",
    "save_added",
    "serve_added",
    "sharing_with",
    "train_jointly",
    "uniform_model",
]
