"""What the paper claims, each claim a comparison of two rows of one table with one encoder.

The number of clusters is the one with which the paper did best, or the one that is found (auto); it is never
chosen on our test rows. What the figures say to a claim is in `benchmarks.paper.verdicts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.paper.comparing import Comparison, best_row, compare_rows
from benchmarks.paper.published import (
    ADAPTIVE,
    ASAP_CLUSTERS,
    CLUSTERS,
    HOLISTIC,
    MATCHING,
    NO_CLUSTERING,
    PAPER_BASELINES,
    SINGLE,
    TUNED_HOLISTIC,
    PublishedRow,
    best_published,
    find_published,
    paper_clusters,
    published_margin,
)
from benchmarks.paper.reading import TEXTS, Results, Row
from benchmarks.paper.roles import (
    BASELINES,
    CENTROIDS,
    DEFAULT,
    OUR_SCORES,
    RANDOM,
    RAW,
    STANDARDISED,
)
from benchmarks.paper.verdicts import Finding

# Ways to cluster that the table of clusterings compares robust completion with.
METHODS = (RAW, STANDARDISED, RANDOM, CENTROIDS)
PAPER_GROUPS = ("paper, cnn", "paper, sentence")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper as a comparison: `first` is to be above the best of `second`."""

    name: str
    first: str
    second: tuple[str, ...]
    few_shot: bool | None = None

    def fits(self, results_few_shot: bool) -> bool:
        """Tell whether the claim is about this setting."""
        return self.few_shot is None or self.few_shot == results_few_shot


CLAIMS = (
    Claim("clusters above the best baseline", CLUSTERS, PAPER_BASELINES),
    Claim("adaptive clusters above the best baseline", ADAPTIVE, PAPER_BASELINES, few_shot=True),
    Claim("clusters above holistic", CLUSTERS, (HOLISTIC,), few_shot=False),
    Claim("clusters above holistic, fine-tuned", CLUSTERS, (TUNED_HOLISTIC,), few_shot=True),
    Claim("several metrics above one (matching network)", CLUSTERS, (MATCHING,), few_shot=True),
    Claim("clusters of our scores above holistic", OUR_SCORES, (HOLISTIC,), few_shot=False),
    Claim("clusters of our scores above one metric", OUR_SCORES, (MATCHING,), few_shot=True),
    Claim("clusters above no clustering (every task alone)", CLUSTERS, (SINGLE,), few_shot=False),
    Claim("clusters above no clustering", CLUSTERS, (NO_CLUSTERING,), few_shot=True),
    Claim("robust completion above raw S", CLUSTERS, (RAW,)),
    Claim("robust completion above S, standardised", CLUSTERS, (STANDARDISED,)),
    Claim("adaptive fallback above none", ADAPTIVE, (CLUSTERS,), few_shot=True),
    Claim("transfer as a similarity, above random clusters", CLUSTERS, (RANDOM,)),
    Claim("transfer as a similarity, above text centroids", CLUSTERS, (CENTROIDS,)),
    Claim("transfer as a similarity, above ASAP's clusters", CLUSTERS, (ASAP_CLUSTERS,)),
)
OUR_CLAIM = "clusters in our blend above the blend without"
CLAIM_NAMES = (*(claim.name for claim in CLAIMS), OUR_CLAIM)
# Claims that are only to be asked where the paper asked them, or where a row for them was made.
OPTIONAL = {
    "clusters of our scores above holistic",
    "clusters of our scores above one metric",
    "robust completion above raw S",
    "robust completion above S, standardised",
    "transfer as a similarity, above random clusters",
    "transfer as a similarity, above text centroids",
    "transfer as a similarity, above ASAP's clusters",
}


def find_verdicts(results: Results) -> list[Finding]:
    """Judge every claim on one table, for each set of targets and each of the paper's encoders."""
    if results.table == "clustering":
        return clustering_verdicts(results)
    found = []
    for targets in results.targets():
        for group in PAPER_GROUPS:
            rows = [row for row in results.of(targets, group) if not row.left_out]
            if rows:
                few_shot = is_few_shot(rows)
                for claim in CLAIMS:
                    if claim.fits(few_shot):
                        found += judge_claim(claim, results.table, targets, group, rows)
        found += judge_ours(results, targets)
    return found


def judge_ours(results: Results, targets: str) -> list[Finding]:
    """Judge what clusters add to our own way, where both were run."""
    rows = [row for row in results.of(targets, "ours") if not row.left_out]
    first = next((row for row in rows if row.role == DEFAULT), None)
    second = next((row for row in rows if row.way.endswith("without clusters")), None)
    if first is None or second is None:
        return []
    comparisons = {texts: compare_rows(first, second, texts) for texts in TEXTS}
    return [Finding(OUR_CLAIM, results.table, targets, "ours", "", comparisons, None)]


def clustering_verdicts(results: Results) -> list[Finding]:
    """Judge completion and transfer by what was learned on clusters.

    Contrasts are no verdict: they are measured by the same kind of score that the clusters come from.
    """
    asked = [claim for claim in CLAIMS if claim.second[0] in METHODS]
    found = []
    for name in dict.fromkeys(row.targets for row in results.rows if row.group == "learned"):
        rows = [row for row in results.of(name, "learned") if not row.left_out]
        for claim in asked:
            found += judge_claim(claim, results.table, name, "paper, sentence", rows)
    return found


def is_few_shot(rows: Sequence[Row]) -> bool:
    """Tell the setting of rows of one set of targets."""
    return any(row.is_few_shot for row in rows)


def judge_claim(claim: Claim, table: str, targets: str, group: str, rows: Sequence[Row]) -> list[Finding]:
    """Judge a claim for the paper's number of clusters and for the one that is found."""
    firsts = [row for row in rows if row.role == claim.first]
    seconds = [row for row in rows if row.role in claim.second]
    # What the paper has of multi-task learning says nothing about few-shot learning, and the other way round.
    margin = find_margin(claim, table) if is_few_shot(rows) == table.endswith("-fsl") else None
    if not (firsts and seconds):
        if claim.name in OPTIONAL and margin is None:
            return []
        missing = ", ".join(
            part for part, own in ((claim.first, firsts), (" or ".join(claim.second), seconds)) if not own
        )
        return [Finding(claim.name, table, targets, group, "", {}, margin, missing)]
    found = []
    for first in choose_firsts(table, firsts, seconds):
        others = comparable(first, seconds)
        comparisons = {texts: compare_best(first, others, texts) for texts in TEXTS}
        own_margin = margin if first.n_clusters == str(paper_clusters(table)) else None
        found.append(Finding(claim.name, table, targets, group, first.n_clusters, comparisons, own_margin))
    return found


def choose_firsts(table: str, firsts: Sequence[Row], seconds: Sequence[Row]) -> list[Row]:
    """Give the rows of the paper's number of clusters and of the one that is found.

    Where neither can be compared with anything, all that can.
    """
    there = [row for row in firsts if comparable(row, seconds)]
    wanted = [row for row in there if row.n_clusters in (str(paper_clusters(table)), "auto")]
    return wanted or there


def comparable(first: Row, seconds: Sequence[Row]) -> list[Row]:
    """Give the rows that a row of clusters can be compared with: baselines, and those of as many clusters."""
    return [row for row in seconds if row.role in BASELINES or row.n_clusters in ("", first.n_clusters)]


def compare_best(first: Row, seconds: Sequence[Row], texts: str) -> Comparison | None:
    """Compare with the strongest of the others on test rows."""
    second = best_row(seconds, texts, tasks=first.accuracies[texts])
    return None if second is None else compare_rows(first, second, texts)


def find_margin(claim: Claim, table: str) -> float | None:
    """Give the paper's own margin, in points, at its best number of clusters."""
    n_clusters = paper_clusters(table)
    first = find_published(table, claim.first, n_clusters)
    same = [find_published(table, role, n_clusters) for role in claim.second]
    second: PublishedRow | None = next((row for row in same if row is not None), None)
    return published_margin(first, second or best_published(table, claim.second))
