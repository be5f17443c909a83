"""The words of a diagnosis: the verdict on clusters, the reason for it, and advice.

The thresholds are of planted clusters (100 and 500 tasks, 2 to 10 clusters, 15 to 60 partners, up to 30 %
wrong entries): see "The verdict" in docs/completion.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from robusttc.clustering.old.completion.result import LambdaWindow
from robusttc.scores import ScoreReliability
from robusttc.wording import count

__all__ = ["Findings", "give_advice", "pronounce"]

# Below, no spectral method sees clusters; labels fitted to pure noise reach about this (1.2 at most).
NOISE_SIGNAL = 1.0
# From here on the first clustering agreed with the planted one (adjusted Rand index of 0.8 or more, nearly
# always above 0.9).
LIKELY_SIGNAL = 2.0
# A single cluster has no difference to show; half way from chance to certainty, its pairs speak for it.
LIKELY_ONE_CLUSTER = 0.75
# Entries that contradict the clusters nearly as often as not carry nothing.
USELESS_FLIP_RATE = 0.45
# On planted clusters that were recovered E took up to 21 % of the entries, on real bots 18 to 34 %; from here
# on the errors are no longer the few that the theorem is about.
DENSE_ERRORS = 0.15
# A few tasks at the edge between two clusters do not spoil a certificate; they are counted.
SEPARATED_TASKS = 0.99
LOW_RECIPROCITY = 0.2
LARGE_DONOR_SHARE = 0.1

Word = Literal["certified", "likely", "not supported"]


@dataclass(frozen=True)
class Findings:
    """What a verdict is made from; see `Diagnosis` for the meaning of each."""

    n_tasks: int
    n_clusters: int
    n_pairs: int
    n_zeros: int
    mean_partners: float
    partners_needed: float | None
    more_partners: int | None
    signal: float | None
    faintest_signal: float | None
    flip_rate: float | None
    inside_rate: float | None
    lam: float
    window: LambdaWindow
    method: str
    converged: bool
    gap: float
    rank: int
    separated: float | None
    n_not_separated: int
    worst_separated: str | None
    error_share: float | None
    n_blocking: int
    worst_blocking: str | None
    n_few_partners: int
    n_unassigned: int
    n_components: int
    n_assigned_components: int
    reliability: ScoreReliability | None

    @property
    def lambda_in_window(self) -> bool:
        """Whether lambda lies where clusters are neither lost nor drowned."""
        return self.window.low <= self.lam <= self.window.high

    @property
    def sparse_errors_fit(self) -> bool | None:
        """Whether E is sparse."""
        return None if self.error_share is None else self.error_share <= DENSE_ERRORS


def pronounce(findings: Findings) -> tuple[Word, str]:
    """Give the verdict and its sentence."""
    against = find_objection(findings)
    if against is not None:
        return "not supported", f"Clusters are not supported by these measurements: {against}."
    doubt = find_doubt(findings)
    if findings.signal is None:
        agreement = findings.inside_rate or 0.0
        strength = f"all tasks are in one cluster, and {agreement:.0%} of its observed pairs agree"
        is_likely = agreement >= LIKELY_ONE_CLUSTER
        hint = "no difference between tasks is seen"
    else:
        strength = f"the signal-to-noise ratio is {findings.signal:.1f}"
        is_likely = findings.signal >= LIKELY_SIGNAL
        hint = f"a part of them may be right (it takes {LIKELY_SIGNAL:g} for most)"
    if doubt is None:
        return "certified", (
            f"Clusters are certified by these measurements: the completed matrix is proven to be within "
            f"{findings.gap:.1e} of the optimum and separates {findings.separated:.1%} of the tasks, and "
            f"{strength}.{name_uncovered(findings)}"
        )
    if not is_likely:
        return "not supported", (
            f"Clusters are not supported by these measurements: {strength}; {hint}, and {doubt}."
        )
    return "likely", f"Clusters are likely by these measurements: {strength}, but {doubt}."


def name_uncovered(findings: Findings) -> str:
    """Say of how many tasks a certificate says nothing, as a sentence; empty if it covers all."""
    parts = []
    if findings.n_not_separated:
        parts.append(f"{count(findings.n_not_separated, 'task')} that it does not separate")
    if findings.n_unassigned:
        parts.append(f"{count(findings.n_unassigned, 'task')} without a cluster")
    return f" Nothing is certified of {' and '.join(parts)}." if parts else ""


def find_objection(findings: Findings) -> str | None:
    """Say why the clusters are out of the question, if they are."""
    if findings.n_clusters == 0:
        return "no task was put into a cluster"
    if findings.flip_rate is None or findings.n_pairs < findings.n_tasks:
        return (
            f"only {findings.n_pairs:,} pairs of {findings.n_tasks:,} tasks are observed, which is hardly any"
        )
    if findings.flip_rate >= USELESS_FLIP_RATE:
        return f"{findings.flip_rate:.0%} of the observed pairs contradict them, where 50% would be chance"
    if findings.n_clusters > 1 and findings.signal is None:
        return "no pairs were observed within clusters, or none between them, so nothing tells them apart"
    if findings.signal is not None and findings.signal < NOISE_SIGNAL:
        return (
            f"the signal-to-noise ratio is {findings.signal:.2f}, and pure noise reaches about 1 "
            f"({findings.flip_rate:.0%} of {findings.n_pairs:,} observed pairs contradict the clusters)"
        )
    return None


def find_doubt(findings: Findings) -> str | None:
    """Say what is missing for a certificate, if anything is."""
    if findings.window.is_empty:
        return f"no lambda can prove them with {findings.mean_partners:.1f} observed partners a task"
    if "spectral" in findings.method:  # of one component, if there are several
        return "completion found no lambda that proves them"
    if findings.rank == 0:
        return "the completed matrix is zero"
    if not findings.converged:
        return f"completion stopped at a gap of {findings.gap:.1e}"
    if not findings.lambda_in_window:
        return f"lambda = {findings.lam:.3g} is outside of its window"
    if findings.separated is None or findings.separated < SEPARATED_TASKS:
        return f"the completed matrix separates {findings.separated or 0:.1%} of the tasks only"
    if findings.n_assigned_components > 1:
        return f"the tasks fall into {findings.n_assigned_components:,} groups that were never compared"
    return None


def give_advice(findings: Findings, verdict: Word) -> tuple[str, ...]:
    """Say what to do next, the most useful first."""
    if not findings.mean_partners:
        return ("No pair says anything yet: measure pairs of tasks, both ways, at least three a task.",)
    return (*advise_on_pairs(findings, verdict), *advise_on_scores(findings), *advise_on_tasks(findings))


def advise_on_pairs(findings: Findings, verdict: Word) -> list[str]:
    """Advise on how many pairs to measure, and on lambda."""
    advice = []
    needed, have = findings.partners_needed, findings.mean_partners
    if findings.more_partners is not None and verdict != "certified":
        advice.append(
            f"Measure about {findings.more_partners:,} more pairs a task: a task has {have:.1f} observed "
            f"partners and needs {needed:.0f}."
        )
    elif needed is not None and needed > findings.n_tasks - 1 and verdict != "certified":
        advice.append(
            f"More pairs alone will not do ({needed:,.0f} partners a task would be needed, and there are "
            f"{findings.n_tasks - 1:,} other tasks): measure more reliably"
            f"{', or ask for fewer clusters' if findings.n_clusters > 1 else ''}."
        )
    elif needed is None and verdict != "certified":
        advice.append(
            "More pairs of this kind will not do: within clusters, too many of them are not similar."
        )
    if findings.n_zeros == 0 and findings.n_clusters > 1:
        advice.append(
            "No pair was found to be different, so clusters could as well be one: measure such pairs."
        )
    if not findings.window.is_empty and not findings.lambda_in_window:
        low, high = findings.window.low, findings.window.high
        advice.append(f"Take lambda from {low:.3g} to {high:.3g}, or lam='auto'.")
    elif "spectral" not in findings.method and findings.rank and not findings.converged:
        advice.append("Give completion more rounds (max_iter) to close its gap.")
    if (
        findings.faintest_signal is not None
        and findings.faintest_signal < NOISE_SIGNAL
        and verdict != "not supported"
    ):
        advice.append(
            f"The faintest cluster is not told apart (signal-to-noise ratio {findings.faintest_signal:.2f}): "
            "try fewer clusters, or measure more pairs of its tasks."
        )
    return advice


def advise_on_scores(findings: Findings) -> list[str]:
    """Advise on the instrument."""
    advice = []
    reliability = findings.reliability
    if reliability is not None and reliability.reciprocity is not None:
        if reliability.reciprocity < LOW_RECIPROCITY:
            advice.append(
                f"The two directions of a pair hardly agree (reciprocity {reliability.reciprocity:.2f}): "
                "use a score with less noise, such as log-likelihood in place of accuracy, or more "
                "evaluation examples."
            )
        if reliability.donor_share is not None and reliability.donor_share >= LARGE_DONOR_SHARE:
            advice.append(
                f"{reliability.donor_share:.0%} of the variance of the scores is that some tasks serve all "
                "others well: try the filter with remove_donor_effect=True."
            )
    if findings.sparse_errors_fit is False:
        advice.append(
            f"The errors take {findings.error_share:.0%} of the observed entries, which is not sparse: the "
            "model of a few errors on clear clusters fits badly. Filter more strictly, or try another "
            "number of clusters."
        )
    return advice


def advise_on_tasks(findings: Findings) -> list[str]:
    """Advise on single tasks."""
    advice = []
    if findings.n_components > 1:
        advice.append(
            f"The tasks fall into {findings.n_components:,} groups without any observed pair between them: "
            "that they differ is not measured. Measure pairs across."
        )
    if findings.n_few_partners:
        advice.append(
            f"{count_tasks(findings.n_few_partners)} fewer observed partners than there are clusters: "
            "measure more of their pairs."
        )
    if findings.n_unassigned:
        advice.append(f"{count_tasks(findings.n_unassigned)} no cluster: measure more of their pairs.")
    if findings.n_not_separated and findings.rank:
        advice.append(
            f"{count_tasks(findings.n_not_separated)} no clear place in the completed matrix: measure more "
            f"of their pairs, first those of task {findings.worst_separated}."
        )
    if findings.n_blocking:
        advice.append(
            f"{count_tasks(findings.n_blocking)} entries that keep the completed matrix from being exactly "
            f"that of the clusters; look first at task {findings.worst_blocking}."
        )
    return advice


def count_tasks(n: int) -> str:
    """Write a number of tasks as a subject with its verb."""
    return "1 task has" if n == 1 else f"{n:,} tasks have"
