"""The paper's own figures, each with the table and the row it stands in.

All are average accuracies in per cent, over the paper's own tasks: 12 sentiment targets, 10 intent targets,
and all 1,491 intent tasks. Margins are never typed: they are differences of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass

# What a row of a table is, whoever made it: the names under which the paper's rows meet ours.
SINGLE = "single task"
ASAP = "ASAP-MTLR"
HOLISTIC = "holistic"
TARGET_ONLY = "holistic, target only"
FAST_TEXT = "fastText"
TUNED_HOLISTIC = "fine-tuned holistic"
MATCHING = "matching network"
CLUSTERS = "clusters"
ASAP_CLUSTERS = "ASAP clusters"
NO_CLUSTERING = "no clustering"
ADAPTIVE = "adaptive clusters"

# What the paper itself calls a baseline.
PAPER_BASELINES = (SINGLE, ASAP, HOLISTIC, TARGET_ONLY, FAST_TEXT, TUNED_HOLISTIC, MATCHING)


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a table of the paper."""

    source: str
    row: str
    role: str
    accuracy: float
    n_clusters: int | None = None


def rows_of(source: str, *rows: tuple[str, str, float] | tuple[str, str, float, int]) -> list[PublishedRow]:
    """Make the rows of one table."""
    return [PublishedRow(source, *row) for row in rows]


# By the name that the table has here.
PUBLISHED: dict[str, list[PublishedRow]] = {
    "amazon-mtl": rows_of(
        "Table 1(a)",
        ("Single-task CNN", SINGLE, 85.51),
        ("ASAP-MTLR", ASAP, 85.17, 5),  # "best score achieved with five clusters"
        ("Holistic MTL-CNN", HOLISTIC, 85.23),
        ("Holistic MTL-CNN (target only)", TARGET_ONLY, 85.71),
        ("RobustTC-MTL, clus=5", CLUSTERS, 86.13, 5),
        ("RobustTC-MTL, clus=10", CLUSTERS, 86.73, 10),
        ("ASAP-Clus-MTL, clus=5", ASAP_CLUSTERS, 86.07, 5),
        ("ASAP-Clus-MTL, clus=10", ASAP_CLUSTERS, 85.60, 10),
    ),
    "amazon-fsl": rows_of(
        "Table 1(b)",
        ("Single-task CNN w/ pre-trained emb", SINGLE, 65.92),
        ("Single-task FastText w/ pre-trained emb", FAST_TEXT, 63.05),
        ("Fine-tuned the holistic MTL-CNN", TUNED_HOLISTIC, 76.56),
        ("Matching Network", MATCHING, 65.73),
        ("RobustTC-FSL, clus=5", CLUSTERS, 83.12, 5),
        ("RobustTC-FSL, clus=10", CLUSTERS, 81.96, 10),
        ("RobustTC-FSL, clus=num_of_tasks (no clustering)", NO_CLUSTERING, 78.85),
        ("ASAP-Clus-FSL, clus=5", ASAP_CLUSTERS, 82.65, 5),
        ("ASAP-Clus-FSL, clus=10", ASAP_CLUSTERS, 81.44, 10),
    ),
    "intents-mtl": rows_of(
        "Table 2(a)",
        ("Single-task CNN", SINGLE, 58.47),
        ("Holistic MTL-CNN", HOLISTIC, 62.42),
        ("Holistic MTL-CNN (target only)", TARGET_ONLY, 62.45),
        ("RobustTC-MTL, clus=10", CLUSTERS, 64.41, 10),
        ("RobustTC-MTL, clus=20", CLUSTERS, 68.11, 20),
        ("RobustTC-MTL, clus=30", CLUSTERS, 66.74, 30),
    ),
    "intents-fsl": rows_of(
        "Table 2(b)",
        ("Single-task CNN w/pre-trained emb", SINGLE, 34.46),
        ("Single-task FastText w/pre-trained emb", FAST_TEXT, 23.87),
        ("Fine-tuned holistic MTL-CNN", TUNED_HOLISTIC, 30.36),
        ("Matching Network", MATCHING, 30.42),
        ("RobustTC-FSL, clus=10", CLUSTERS, 34.64, 10),
        ("RobustTC-FSL, clus=20", CLUSTERS, 37.59, 20),
        ("RobustTC-FSL, clus=30", CLUSTERS, 36.82, 30),
        ("RobustTC-FSL, clus=num_of_tasks (no clustering)", NO_CLUSTERING, 34.43),
        ("Adaptive RobustTC-FSL (clus=20)", ADAPTIVE, 42.97, 20),
    ),
    "many-mtl": rows_of(
        "Table 3",
        ("Single-task CNN", SINGLE, 60.49),
        ("Holistic MTL-CNN", HOLISTIC, 66.42),
        ("RobustTC-MTL, clus=30", CLUSTERS, 69.62, 30),
        ("RobustTC-MTL, clus=40", CLUSTERS, 70.50, 40),
        ("RobustTC-MTL, clus=50", CLUSTERS, 69.87, 50),
    ),
}

# The targets that the paper's figure is the mean of, as records name them.
PUBLISHED_TARGETS = {
    "amazon-mtl": "12",
    "amazon-fsl": "12",
    "intents-mtl": "10",
    "intents-fsl": "10",
    "many-mtl": "all",
}


def find_published(table: str, role: str, n_clusters: int | None = None) -> PublishedRow | None:
    """Give the row of the paper that has this role (and, if given, so many clusters), or None.

    Examples
    --------
    >>> find_published("intents-mtl", CLUSTERS, 20).accuracy
    68.11
    """
    for row in PUBLISHED.get(table, []):
        if row.role == role and n_clusters in (None, row.n_clusters):
            return row
    return None


def best_published(table: str, roles: tuple[str, ...]) -> PublishedRow | None:
    """Give the paper's best row among those of these roles, or None where it has none.

    Examples
    --------
    >>> best_published("amazon-mtl", PAPER_BASELINES).row
    'Holistic MTL-CNN (target only)'
    """
    found = [row for row in PUBLISHED.get(table, []) if row.role in roles]
    return max(found, key=lambda row: row.accuracy, default=None)


def published_margin(first: PublishedRow | None, second: PublishedRow | None) -> float | None:
    """Give by how many points the paper's first row is above its second.

    Examples
    --------
    >>> margin = published_margin(
    ...     best_published("many-mtl", (CLUSTERS,)), best_published("many-mtl", PAPER_BASELINES)
    ... )
    >>> round(margin, 2)
    4.08
    """
    if first is None or second is None:
        return None
    return first.accuracy - second.accuracy


def paper_clusters(table: str) -> int | None:
    """Give the number of clusters with which the paper's method did best, which is not chosen on our rows.

    Examples
    --------
    >>> paper_clusters("intents-fsl"), paper_clusters("diverse")
    (20, None)
    """
    row = best_published(table, (CLUSTERS,))
    return None if row is None else row.n_clusters
