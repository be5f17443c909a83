"""The form of a report's document, as docs/report.md describes it."""

from __future__ import annotations

import json

import numpy as np

from robusttc.report.document import ReportDocument

PARTS = (
    "format version made robusttc run headline tasks clusters means verdicts harm trust blocks history "
    "adapted quarantined doubts costs configuration versions"
)
OF_RUN = "name place version n_tasks n_learned n_private n_rows n_labels n_scores kind pairs_share"
OF_TASK = (
    "name cluster confidence private learned added out_of_cluster why_not n_train n_valid n_test n_labels "
    "accuracy gain harmed culprits nearest moved expected_gain"
)
OF_CLUSTER = "number size tasks words labels accuracy gain within between confidence representatives"
OF_TRUST = "reliability certificate verdict reason measure_next calibration"


def check_document(document: ReportDocument) -> None:
    """Refuse a document that is not of the form that docs/report.md describes."""
    values = document.values
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values.keys() == set(PARTS.split())
    assert values["run"].keys() == set(OF_RUN.split())
    assert values["trust"].keys() == set(OF_TRUST.split())
    assert all(isinstance(sentence, str) and sentence for sentence in values["headline"]["sentences"])
    assert all(step.keys() == {"text", "command"} and step["text"] for step in values["headline"]["next"])
    assert len(values["tasks"]) == values["run"]["n_tasks"]
    names = [task["name"] for task in values["tasks"]]
    for task in values["tasks"]:
        assert task.keys() == set(OF_TASK.split())
        assert task["accuracy"].keys() == {"own", "shared", "cluster", "served"}
        assert {name for name, _ in task["nearest"]} <= set(names) - {task["name"]}
        assert len(task["nearest"]) <= 5
        assert set(task["culprits"]) <= set(names)
        assert task["cluster"] is not None or task["why_not"]
    in_clusters = []
    for cluster in values["clusters"]:
        assert cluster.keys() == set(OF_CLUSTER.split())
        assert cluster["size"] == len(cluster["tasks"]) > 0
        assert all(values["tasks"][place]["cluster"] == cluster["number"] for place in cluster["tasks"])
        assert set(cluster["representatives"]) <= {names[place] for place in cluster["tasks"]}
        assert len(cluster["words"]) <= 12
        in_clusters += cluster["tasks"]
    assert sorted(in_clusters) == [
        place for place, task in enumerate(values["tasks"]) if task["cluster"] is not None
    ]
    assert {task["task"] for task in values["harm"]["tasks"]} == {
        task["name"] for task in values["tasks"] if task["harmed"]
    }
    n = values["blocks"]["n"]
    for layer in ("completed", "measured", "observed", "similar", "different"):
        assert [len(row) for row in values["blocks"][layer]] == [n] * n
    if document.matrices is not None:
        assert set(document.matrices.task_names) <= set(names)
        assert np.isfinite(document.matrices.completed).all()
        assert len(document.matrices.boundaries) == len(document.matrices.clusters)
