"""What a row of a table is, by its name and group: a baseline, the paper's clusters, a control, or ours."""

from __future__ import annotations

import re

from benchmarks.paper.published import (
    ADAPTIVE,
    ASAP,
    ASAP_CLUSTERS,
    CLUSTERS,
    FAST_TEXT,
    HOLISTIC,
    MATCHING,
    NO_CLUSTERING,
    PAPER_BASELINES,
    SINGLE,
    TARGET_ONLY,
    TUNED_HOLISTIC,
)

RANDOM = "random clusters"
RAW = "clusters of raw S"
STANDARDISED = "clusters of S, standardised"
CENTROIDS = "clusters of text centroids"
KINDS = "true kinds"
OUR_SCORES = "clusters of our scores"
OTHER = "another control"
DEFAULT = "our default"
VARIANT = "a variant of ours"
TODAY = "what is usual today"

# The first that a name of a way matches is its role.
ROLES: tuple[tuple[str, str], ...] = (
    (r"asap.*clus", ASAP_CLUSTERS),
    (r"asap", ASAP),
    (r"random", RANDOM),
    (r"\braw\b", RAW),
    (r"\bs, standardised", STANDARDISED),
    (r"centroid", CENTROIDS),
    (r"kinds|famil", KINDS),
    (r"no clustering|mixture", NO_CLUSTERING),
    (r"default scores.*adaptive", OTHER),
    (r"default scores", OUR_SCORES),
    (r"clusters.*(not adaptive|without fallback|never falls back)", CLUSTERS),
    (r"adaptive", ADAPTIVE),
    (r"clusters|robust completion", CLUSTERS),
    (r"targets? (tasks )?only|targets? alone", TARGET_ONLY),
    (r"fine-tuned holistic|holistic.*fine-tuned", TUNED_HOLISTIC),
    (r"holistic", HOLISTIC),
    (r"matching", MATCHING),
    (r"fast ?text", FAST_TEXT),
    (r"single", SINGLE),
)
# Against the best of these our own ways must stand. The paper counts "no clustering" among its own ways; it
# has no clusters, so for ours it is a baseline too: that can only make ours look worse.
BASELINES = frozenset({*PAPER_BASELINES, NO_CLUSTERING, TODAY})
FEW_SHOT_ROLES = (MATCHING, NO_CLUSTERING, TUNED_HOLISTIC, ADAPTIVE)


def find_role(way: str, group: str) -> str:
    """Tell what a row is.

    Examples
    --------
    >>> find_role("holistic, target only", "paper, cnn"), find_role("blend", "ours")
    ('holistic, target only', 'our default')
    >>> find_role("clusters K=20, adaptive", "paper, sentence"), find_role("SetFit", "today")
    ('adaptive clusters', 'what is usual today')
    """
    if group == "ours":
        return DEFAULT if way.removeprefix("ours: ") in ("blend", "default") else VARIANT
    if group == "today":
        return TODAY
    name = way.lower()
    return next((role for pattern, role in ROLES if re.search(pattern, name)), OTHER)


def find_n_clusters(way: str) -> str:
    """Give the number of clusters that the name of a way tells.

    Examples
    --------
    >>> [find_n_clusters(way) for way in ("paper: clusters K=20", "clusters K=auto", "holistic")]
    ['20', 'auto', '']
    """
    found = re.search(r"(?:K|clus) ?= ?(\d+|auto)", way) or re.search(r"\b(auto)\b", way)
    return found.group(1) if found else ""
