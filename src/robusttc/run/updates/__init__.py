"""What comes after a fit: add, remove and adapt tasks, each as the next version of the run."""

from robusttc.run.updates.adapt import adapt_task, restore_task
from robusttc.run.updates.add import AddResult, add_tasks
from robusttc.run.updates.next_version import Flip, Limits, PendingChangeError, give_up, settings_of
from robusttc.run.updates.remove import RemovalPlan, RemoveResult, plan_removal, remove_tasks, retire_tasks

__all__ = [
    "AddResult",
    "Flip",
    "Limits",
    "PendingChangeError",
    "RemovalPlan",
    "RemoveResult",
    "adapt_task",
    "add_tasks",
    "give_up",
    "plan_removal",
    "remove_tasks",
    "restore_task",
    "retire_tasks",
    "settings_of",
]
