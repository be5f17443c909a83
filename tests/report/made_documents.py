"""Documents of any number of tasks, with names that mean harm: what pages are tried on.

They have what real ones have, in likely sizes: planted clusters, transfer scores of a part of the pairs,
their verdicts, the completed matrix, accuracies with intervals, and a history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.report.document import ReportDocument
from robusttc.report.matrices import MatrixLayers

# What runs if a page takes text for markup sets this, and tests look for it.
ALARM = "window.robusttcAlarm = true"
NASTY_NAMES = (
    f"</script><script>{ALARM}</script>",
    f'<img src=x onerror="{ALARM}">',
    f"<svg onload='{ALARM}'>&amp;\"quotes\"",
    "__proto__",
    "\u202egnp.evil\u2028line\u2029paragraph",
    "\u00c5\u00e9 \U0001f600 \u4efb\u52a1 \u05d0\u05d1\u05d2",
    "one very long name without any space " + "x" * 160,
    "%%data%% {{ braces }} ${dollars}",
    "new\nline\ttab \x00\x1b and a lone \ud83d half",
    "-17",
)
PLAIN_WORDS = (
    "billing",
    "orders",
    "travel",
    "support",
    "banking",
    "weather",
    "music",
    "recipes",
    "insurance",
)
MODELS = ("own", "shared", "cluster", "served")


def make_document(n_tasks: int, *, seed: int = 0, nasty: bool = True) -> ReportDocument:
    """Make a document of so many tasks."""
    random = np.random.default_rng([seed, n_tasks])
    n_clusters = max(2, round(math.sqrt(n_tasks) / 1.6))
    labels = np.sort(random.choice(n_clusters, n_tasks, p=random.dirichlet(np.full(n_clusters, 4.0))))
    names = make_names(n_tasks, labels, nasty=nasty)
    similarity = make_similarity(labels, random)
    n_unclustered = 1 if n_tasks < 50 else n_tasks // 60
    clusters = [int(label) for label in labels]
    clusters[-n_unclustered:] = [-1] * n_unclustered
    layers = make_layers(names, clusters, similarity, random)
    tasks = [make_task(place, names, clusters, similarity, random) for place in range(n_tasks)]
    # In a document tasks stand by name, not by cluster.
    tasks.sort(key=lambda task: str(task["name"]))
    return ReportDocument(make_values(tasks, layers, random), layers)


def make_names(n_tasks: int, labels: NDArray[np.int64], *, nasty: bool) -> list[str]:
    """Make names: plain ones, and the nasty ones spread among them."""
    names = [f"{PLAIN_WORDS[label % len(PLAIN_WORDS)]}-{place:04}" for place, label in enumerate(labels)]
    if nasty:
        chosen = NASTY_NAMES[: max(3, n_tasks // 3)]
        for number, name in enumerate(chosen):
            names[number * n_tasks // len(chosen)] = name
    return names


def make_similarity(labels: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float32]:
    """Make a completed similarity of low rank: near 1 within clusters, near 0 between them."""
    vectors = np.eye(labels.max() + 1)[labels] + random.normal(
        scale=0.08, size=(len(labels), labels.max() + 1)
    )
    return np.asarray(vectors @ vectors.T, dtype=np.float32)


def make_layers(
    names: Sequence[str],
    clusters: Sequence[int],
    similarity: NDArray[np.float32],
    random: np.random.Generator,
) -> MatrixLayers:
    """Make the matrices: all pairs are measured where tasks are few, else about 68 targets a source."""
    n = len(names)
    observed = random.random((n, n)) < min(0.9, 68 / n)
    np.fill_diagonal(observed, False)
    source, target = np.nonzero(observed)
    z = 1.6 * similarity[source, target] - 0.4 + random.normal(scale=0.6, size=len(source))
    raw = -1.2 + 0.35 * z + 0.05 * random.normal(size=n)[target]
    both = sparse.csr_array((z, (source, target)), shape=(n, n))
    mean = ((both + both.T) / 2).tocoo()
    sure = abs(mean.data - 0.2) > 0.3
    verdict = np.where(mean.data[sure] > 0.2, 1, -1).astype(np.int8)
    verdicts = sparse.csr_array((verdict, (mean.row[sure], mean.col[sure])), shape=(n, n))
    wrong = (verdicts.tocoo().data > 0) != (similarity[verdicts.tocoo().row, verdicts.tocoo().col] > 0.5)
    entries = verdicts.tocoo()
    errors = sparse.csr_array(
        (0.8 * entries.data[wrong].astype(float), (entries.row[wrong], entries.col[wrong])), shape=(n, n)
    )
    starts = [place for place in range(n) if place == 0 or clusters[place] != clusters[place - 1]]
    return MatrixLayers(
        tuple(names),
        tuple(starts),
        both,
        sparse.csr_array((raw, (source, target)), shape=(n, n)),
        verdicts,
        similarity,
        errors,
        tuple(clusters[start] for start in starts),
    )


def estimate(mean: float, spread: float) -> dict[str, float]:
    """Make an estimate of an accuracy."""
    mean = min(max(mean, 0.02), 1.0)
    return {"mean": mean, "low": max(0.0, mean - spread), "high": min(1.0, mean + spread * 0.9)}


def make_task(
    place: int,
    names: Sequence[str],
    clusters: Sequence[int],
    similarity: NDArray[np.float32],
    random: np.random.Generator,
) -> dict[str, Any]:
    """Make one task: most gain a little, one in 40 is harmed, one in 30 has no test rows."""
    n_test = 0 if place % 30 == 29 else int(random.integers(12, 160))
    own = float(random.beta(9, 3))
    gain = float(random.normal(0.04, 0.05)) if place % 40 != 5 else -0.16
    spread = 0.9 / math.sqrt(n_test + 4)
    means = {
        "own": own,
        "shared": own + gain * 0.6,
        "cluster": own + gain * 0.8,
        "served": min(1.0, own + gain),
    }
    cluster = None if clusters[place] < 0 else clusters[place]
    order = [int(other) for other in np.argsort(-similarity[place]) if other != place][:5]
    change = means["served"] - own
    accuracy = {kind: estimate(mean, spread) if n_test else None for kind, mean in means.items()}
    if cluster is None:
        accuracy["cluster"] = None
    harmed = place % 40 == 5 and bool(n_test)
    return {
        "name": names[place],
        "cluster": cluster,
        "confidence": None if cluster is None else float(random.beta(12, 2)),
        "private": cluster is None and place % 2 == 0,
        "learned": True,
        "added": 2 if place % 50 == 7 else None,
        "out_of_cluster": cluster is None,
        "why_not": None,
        "n_train": int(random.integers(20, 400)),
        "n_valid": int(random.integers(5, 60)),
        "n_test": n_test,
        "n_labels": int(random.integers(2, 30)),
        "accuracy": accuracy,
        "gain": {"mean": change, "low": change - 0.04, "high": change + 0.04} if n_test else None,
        "harmed": harmed,
        "culprits": [names[other] for other in order[:2]] if harmed else [],
        "nearest": [[names[other], float(similarity[place, other])] for other in order],
        "moved": {"from": 0, "to": cluster, "version": 2} if place % 50 == 9 else None,
        "expected_gain": None,
    }


def mean_of(tasks: Sequence[dict[str, Any]], kind: str) -> dict[str, float] | None:
    """Give the mean of an estimate over tasks."""
    found = [task["accuracy"][kind]["mean"] for task in tasks if task["accuracy"][kind]]
    return estimate(float(np.mean(found)), 0.4 / math.sqrt(len(found))) if found else None


def gain_of(tasks: Sequence[dict[str, Any]], kind: str) -> dict[str, float] | None:
    """Give the mean gain over the own model."""
    found = [
        task["accuracy"][kind]["mean"] - task["accuracy"]["own"]["mean"]
        for task in tasks
        if task["accuracy"][kind] and task["accuracy"]["own"]
    ]
    if not found:
        return None
    mean, spread = float(np.mean(found)), 0.1 / math.sqrt(len(found))
    return {"mean": mean, "low": mean - spread, "high": mean + spread}


def make_clusters(tasks: Sequence[dict[str, Any]], random: np.random.Generator) -> list[dict[str, Any]]:
    """Make the clusters that the tasks have."""
    numbers = sorted({task["cluster"] for task in tasks if task["cluster"] is not None})
    found = []
    for number in numbers:
        places = [place for place, task in enumerate(tasks) if task["cluster"] == number]
        members = [tasks[place] for place in places]
        words = [PLAIN_WORDS[(number + 2 * step) % 9] for step in range(9)]
        found.append(
            {
                "number": number,
                "size": len(places),
                "tasks": places,
                "words": [[word, 3.0 / (1 + rank)] for rank, word in enumerate([*words, "<b>bold</b>"])],
                "labels": [
                    [f"faq/{word}_status", max(1, len(places) // (1 + rank))]
                    for rank, word in enumerate(words)
                ],
                "accuracy": {kind: mean_of(members, kind) for kind in MODELS},
                "gain": gain_of(members, "served"),
                "within": float(random.uniform(0.8, 1.0)),
                "between": float(random.uniform(0.0, 0.1)),
                "confidence": float(np.mean([task["confidence"] for task in members])),
                "representatives": [task["name"] for task in members[:3]],
            }
        )
    return found


def make_values(
    tasks: list[dict[str, Any]], layers: MatrixLayers, random: np.random.Generator
) -> dict[str, Any]:
    """Make everything but the matrices."""
    n = len(tasks)
    clusters = make_clusters(tasks, random)
    means: dict[str, Any] = {kind: mean_of(tasks, kind) for kind in MODELS}
    means |= {f"gain_{kind}": gain_of(tasks, kind) for kind in MODELS[1:]}
    harmed = [task for task in tasks if task["harmed"]]
    gain = means["gain_served"]
    return {
        "format": "robusttc report",
        "version": 1,
        "adapted": ["hooli"],
        "made": "2026-03-04T05:06:07+00:00",
        "robusttc": "0.1.0",
        "run": {
            "name": "planted clients",
            "place": "'planted clients'",
            "version": 2,
            "n_tasks": n,
            "n_learned": n,
            "n_private": sum(task["private"] for task in tasks),
            "n_rows": sum(task["n_train"] + task["n_valid"] + task["n_test"] for task in tasks),
            "n_labels": sum(task["n_labels"] for task in tasks),
            "n_scores": layers.measured.nnz,
            "kind": "log_likelihood",
            "pairs_share": layers.measured.nnz / max(1, n * (n - 1)),
        },
        "headline": {
            "sentences": [
                f"{n:,} tasks fall into {len(clusters)} clusters, and sharing pays: what serves is right on "
                f"{100 * means['served']['mean']:.1f} % of the test rows, {100 * gain['mean']:.1f} points "
                "more than each task's own model.",
                f"Nearly every task gains or stays as it was: the 95 % interval of the mean gain is "
                f"[{100 * gain['low']:.1f}, {100 * gain['high']:.1f}] points.",
                "Clusters pay: 1.8 points [1.0, 2.6] over one model of all tasks.",
                "The clusters are likely, but not proven: no setting of the completion certifies them.",
                f"{len(harmed)} tasks are harmed by sharing, for sure.",
            ],
            "next": [
                {
                    "text": "See why the task that loses most is where it is.",
                    "command": "robusttc explain run --task 'orders-0017'",
                },
                {"text": "Bring new clients into the run.", "command": "robusttc add run new-clients/"},
                {"text": "Mend the rows of tasks without test rows.", "command": None},
            ],
        },
        "tasks": tasks,
        "clusters": clusters,
        "means": means,
        "verdicts": {"multitask": make_verdict(0.018), "fewshot": None},
        "harm": {
            "sentence": f"Sharing harms {len(harmed)} of {n:,} tasks for sure, on their own test rows.",
            "n_harmed": len(harmed),
            "tasks": [
                {
                    "task": task["name"],
                    "change": task["gain"],
                    "evidence": "test rows",
                    "culprits": [{"task": name, "effect": -1.4} for name in task["culprits"]],
                }
                for task in harmed
            ],
        },
        "trust": make_trust(tasks),
        "blocks": {"n": len(clusters), "completed": [], "measured": [], "observed": []},
        "history": [
            {
                "version": 1,
                "kind": "fit",
                "when": 1_772_600_000.0,
                "tasks": [],
                "sentence": "The first fit.",
                "moved": [],
            },
            {
                "version": 2,
                "kind": "add",
                "when": 1_772_690_000.0,
                "tasks": [task["name"] for task in tasks if task["added"]],
                "sentence": "Tasks were added; 12 pairs were measured for each.",
                "moved": [
                    {"task": task["name"], "from": 0, "to": task["cluster"]}
                    for task in tasks
                    if task["moved"]
                ],
            },
        ],
        "quarantined": [{"stage": "read", "tasks": [tasks[0]["name"]], "error": "it has one label only"}],
        "doubts": ["The clusters serve without the proof that they are the best."],
        "costs": [
            {"stage": stage, "wall_seconds": wall, "cpu_seconds": 1.8 * wall, "peak_bytes": 8.7e8, "units": n}
            for stage, wall in {"encode": 5.2, "transfer": 61.0, "cluster": 3.4, "multitask": 4_312.0}.items()
        ],
        "configuration": {
            "encoder": "sentence",
            "pairs": "auto",
            "private": ["a", "b"],
            "seed": 0,
            "device": None,
        },
        "versions": {"python": "3.11.2", "numpy": "2.1.0"},
    }


def make_verdict(mean: float) -> dict[str, Any]:
    """Make a verdict in favour of clusters."""
    return {
        "setting": "multitask",
        "over_shared": {"mean": mean, "low": mean - 0.008, "high": mean + 0.008, "n": 40},
        "over_random": None,
        "clusters_help": True,
        "n_tasks": 40,
        "sentence": "Clusters help these tasks by 1.8 points [1.0, 2.6] over the shared model; they serve.",
    }


def make_trust(tasks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make what is said about trust."""
    return {
        "reliability": {
            "reciprocity": 0.47,
            "donor_share": 0.12,
            "split_half": 0.81,
            "n_pairs": 990,
            "n_scores": 2_100,
        },
        "certificate": {"converged": False, "gap": 0.833, "regularisation": 4.5, "rank": 7},
        "verdict": {
            "supported": False,
            "p_value": 0.21,
            "difference": 0.08,
            "explained": 0.34,
            "held_out": 0.42,
            "n_pairs": 1_050,
            "sentence": "Groups do not predict unmeasured pairs (p = 0.210): on held-out pairs, transfer "
            "within the 5 clusters is not clearly better than between them.",
            "advice": ["Measure more pairs: groups that are weak show only with more of them."],
        },
        "measure_next": {
            "sentence": "With 20 more pairs a task the clusters could be proven.",
            "n_more": 20 * len(tasks),
            "tasks": [task["name"] for task in tasks[:9]],
        },
        "calibration": {"error_after": 0.013, "scope_auroc": {"mean": 0.93, "low": 0.9, "high": 0.95}},
    }


def make_empty_document(n_tasks: int) -> ReportDocument:
    """Give a document of a run of which hardly anything is known."""
    values = make_document(10).values
    nothing = dict.fromkeys(("own", "shared", "cluster", "served"))
    tasks = [
        {
            **task,
            **dict.fromkeys(("cluster", "confidence", "gain", "added", "moved", "expected_gain")),
            "accuracy": nothing,
            "nearest": [],
            "culprits": [],
            "harmed": False,
            "learned": False,
            "why_not": "it has one label",
        }
        for task in values["tasks"][:n_tasks]
    ]
    return ReportDocument(
        {
            **values,
            "run": {
                "name": "x",
                "place": "x",
                "version": 1,
                "n_tasks": n_tasks,
                "n_rows": None,
                "kind": None,
            },
            "headline": {"sentences": [], "next": []},
            "tasks": tasks,
            "clusters": [],
            "means": {**nothing, "gain_served": None},
            "verdicts": {"multitask": None, "fewshot": None},
            "harm": {"sentence": "Nobody can tell.", "n_harmed": 0, "tasks": []},
            "trust": {
                **dict.fromkeys(("reliability", "certificate", "verdict")),
                "measure_next": {"sentence": "", "n_more": None, "tasks": []},
                "calibration": None,
            },
            "history": [],
            "quarantined": [],
            "doubts": [],
            "costs": [],
            "configuration": {},
            "versions": {},
        },
        None,
    )
