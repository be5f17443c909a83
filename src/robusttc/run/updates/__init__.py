"""What comes after a fit: add, remove and adapt tasks, each as the next version of the run."""

from robusttc.run.updates.adapt import adapt_task
from robusttc.run.updates.add import AddResult, add_tasks
from robusttc.run.updates.next_version import Flip, Limits, give_up, settings_of
from robusttc.run.updates.remove import RemovalPlan, RemoveResult, plan_removal, remove_tasks

__all__ = [
    "AddResult",
    "Flip",
    "Limits",
    "RemovalPlan",
    "RemoveResult",
    "adapt_task",
    "add_tasks",
    "give_up",
    "plan_removal",
    "remove_tasks",
    "settings_of",
]
