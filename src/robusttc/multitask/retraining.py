"""Which mates are to blame where sharing hurts a task, by training again without each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robusttc.jobs import Result, Runner
from robusttc.models import TrainingJobs, warn_about_tasks
from robusttc.multitask.culprits import Culprit, FoldParts, Found, estimate_culprits, mates_of
from robusttc.multitask.persistence import Fitted
from robusttc.multitask.training import train_all
from robusttc.multitask.training_data import TrainingData
from robusttc.multitask.units import STAGE, JointOrder, Material, Round, answers_of
from robusttc.progress import Progress

__all__ = ["retrain_culprits"]

# So many mates are asked about, those that the estimate blames most.
MAX_MATES = 8


def retrain_culprits(
    fitted: Fitted,
    data: TrainingData,
    names: Sequence[str],
    *,
    n_folds: int,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Found:
    """Train every fold again without each mate; of many mates only without those that gradients blame."""
    rows = FoldParts(data, n_folds, fitted.seed)
    suspects = estimate_culprits(fitted, data, names, n_folds=n_folds)
    material = make_material(fitted, data, rows, names, n_folds)
    # For every task its mates, and for each that is asked about the others.
    beside: dict[str, dict[str | None, list[str]]] = {}
    for name in names:
        mates = mates_of(fitted, data, name)
        asked = mates
        if len(mates) > MAX_MATES:
            asked = [culprit.name for culprit in suspects[name]][:MAX_MATES]
        beside[name] = {None: mates} | {mate: [one for one in mates if one != mate] for mate in asked}
    orders = {
        (name, without): orders_of(material, name, others)
        for name, cases in beside.items()
        for without, others in cases.items()
    }
    distinct = dict.fromkeys(order for several in orders.values() for order in several)
    with TrainingJobs(STAGE, runner, progress=progress, total=len(distinct)) as bench:
        trained = train_all(bench, material, distinct).joint
    found: Found = {}
    for name, cases in beside.items():
        said = {without: ask(rows, trained, name, orders[name, without]) for without in cases}
        before = said.pop(None)
        blamed = [
            Culprit(str(mate), after[0] - before[0], after[1] - before[1])
            for mate, after in said.items()
            if before is not None and after is not None
        ]
        found[name] = tuple(
            sorted((one for one in blamed if one.blame > 0), key=lambda one: (-one.blame, one.name))
        )
    lost = {name for order, payload in trained.items() if payload is None for name in order.names}
    warn_about_tasks("culprits were not looked for among all mates; models failed with", lost)
    return found


def make_material(
    fitted: Fitted, data: TrainingData, rows: FoldParts, names: Sequence[str], n_folds: int
) -> Material:
    """Lay out the folds; models are asked about the tasks that may be hurt."""
    assert data.prepared is not None  # noqa: S101 - tasks that share are prepared
    rounds = {}
    for fold in range(n_folds):
        held = {name: rows.held(name, fold).items for name in names}
        rounds[f"fold {fold}"] = Round(
            f"fold {fold}",
            data.prepared.inputs,
            {name: rows.train(name, fold) for name in data.parts},
            {name: items for name, items in held.items() if len(items)},
            f", fold {fold}",
        )
    return Material(rounds, fitted.settings.replace(n_copies=1), fitted.seed)


def orders_of(material: Material, name: str, mates: Sequence[str]) -> list[JointOrder]:
    """Order the models of a task beside some mates, one a fold that holds out rows of it."""
    everybody = tuple(sorted([name, *mates]))
    return [
        JointOrder(place, everybody, "culprits")
        for place, one in material.rounds.items()
        if name in one.asked
    ]


def ask(
    rows: FoldParts, trained: Mapping[JointOrder, Result | None], name: str, orders: Sequence[JointOrder]
) -> tuple[float, float] | None:
    """Give the mean log-probability of a task's held-out labels, and its accuracy; None if models failed."""
    logs, hits = [], []
    for order in orders:
        payload = trained[order]
        if payload is None:
            return None
        table = answers_of(payload, order.names)[name]
        codes = rows.held(name, int(order.round.removeprefix("fold "))).codes
        logs.append(np.log(np.maximum(table[np.arange(len(table)), codes], 1e-6)))
        hits.append(table.argmax(axis=1) == codes)
    return float(np.concatenate(logs).mean()), float(np.concatenate(hits).mean())
