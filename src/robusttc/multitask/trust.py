"""How far the probabilities of a trained model can be trusted, by rows that it was not trained on."""

from __future__ import annotations

from robusttc.models import ScopeExample, TrustReport, measure_trust
from robusttc.multitask.choosing import Choice
from robusttc.multitask.serving import Serving
from robusttc.multitask.training_data import TrainingData
from robusttc.multitask.trusting import (
    Rows,
    cluster_temperatures,
    learn_scope,
    set_references,
    set_temperatures,
)

__all__ = ["look_at_trust"]


def look_at_trust(serving: Serving, data: TrainingData, choice: Choice | None, *, seed: int) -> TrustReport:
    """Set temperatures and the out-of-scope model, and report on both."""
    valid: dict[str, Rows] = {}
    if data.prepared is not None:
        for name, part in data.parts.items():
            if len(part.valid_items):
                taken = data.prepared.inputs.take(part.valid_items)
                familiar = data.valid_familiar(name)
                valid[name] = (serving.raw_probabilities(name, taken, familiar), part.valid_codes)
    private: dict[str, Rows] = {}
    for name, (prepared, part) in data.private.items():
        if len(part.valid_items):
            taken = prepared.inputs.take(part.valid_items)
            private[name] = (serving.raw_probabilities(name, taken), part.valid_codes)
    held = (
        {} if choice is None else {name: (choice.served[name], choice.codes[name]) for name in choice.codes}
    )
    labels = {name: serving.tasks[name].cluster for name in data.parts}
    set_temperatures(serving, cluster_temperatures(labels, valid, held), private)
    set_references(serving, data, seed=seed)
    examples: dict[str, ScopeExample] = {}
    if data.prepared is not None:
        examples = learn_scope(serving, data, seed=seed)
    return measure_trust(
        [valid[name] for name in sorted(valid)], [examples[name] for name in sorted(examples)]
    )
