"""Whether the scores and clusters can be trusted: a question each, its answer in a sentence, the figure.

The technical name of every figure stands in brackets, for those who look it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robusttc.report.figures import NOTHING, as_count, as_number, as_percent, as_small, number_of
from robusttc.report.markup import Markup, element, join
from robusttc.report.sections.frame import list_names, note, section

__all__ = ["show_trust"]

Values = Mapping[str, Any]
State = Literal["good", "fair", "poor", "unknown"]

SIGNS: dict[State, str] = {"good": "✓ good", "fair": "~ fair", "poor": "! poor", "unknown": "? not known"}
MOST_ADVICE = 6


@dataclass(frozen=True)
class Answer:
    """One question about trust and its answer."""

    question: str
    figure: str
    state: State
    meaning: str
    technical: str


def show_trust(values: Values) -> Markup:
    """Show all that is known about how far to trust this run."""
    trust = values.get("trust") or {}
    verdict = trust.get("verdict") or {}
    said = verdict.get("sentence")
    summary = note("good" if verdict.get("supported") else "doubt", element("p", None, said))
    answers = [
        *judge_scores(trust.get("reliability") or {}),
        *judge_clusters(verdict),
        *judge_proof(trust),
        *judge_probabilities(trust.get("calibration") or {}),
    ]
    return section(
        "trust",
        "Can this be trusted?",
        None,
        summary if said else None,
        element("div", {"class": "answers"}, *(show_answer(answer) for answer in answers)),
        show_measure_next(trust.get("measure_next") or {}, verdict.get("advice") or []),
    )


def judge(value: float | None, good: float, fair: float) -> State:
    """Judge a figure of which more is better."""
    if value is None:
        return "unknown"
    return "good" if value >= good else "fair" if value >= fair else "poor"


def judge_scores(reliability: Values) -> list[Answer]:
    """Answer whether the measured scores hold."""
    half = number_of(reliability, "split_half")
    both = number_of(reliability, "reciprocity")
    donor = number_of(reliability, "donor_share")
    return [
        Answer(
            "Would another measurement say the same?",
            as_number(half),
            judge(half, 0.7, 0.4),
            "How well scores from one half of a task's rows agree with those from the other half: 1 is "
            "wholly, 0 is not at all.",
            "split-half correlation of the transfer scores",
        ),
        Answer(
            "Does help go both ways?",
            as_number(both),
            judge(both, 0.4, 0.2),
            "Whether a task that helps another is helped by it in turn. Clusters rest on this: 1 is always, "
            "0 is by chance.",
            "reciprocity: correlation of the two directions",
        ),
        Answer(
            "How much is due to the giver alone?",
            as_percent(donor, 0),
            judge(None if donor is None else 1 - donor, 0.9, 0.7),
            "Some tasks help everybody. That part of the scores says nothing about who belongs together; the "
            "less, the better.",
            "donor effect: share of the variance",
        ),
    ]


def judge_clusters(verdict: Values) -> list[Answer]:
    """Answer whether the clusters are real."""
    p_value = number_of(verdict, "p_value")
    blocks, held_out = number_of(verdict, "explained"), number_of(verdict, "held_out")
    real: State = "unknown" if p_value is None else "good" if verdict.get("supported") else "poor"
    return [
        Answer(
            "Do the clusters predict pairs that were not measured?",
            NOTHING if p_value is None else "Yes" if verdict.get("supported") else "Not clearly",
            real,
            "Clusters found on two thirds of the pairs are tested on the others: do tasks of one cluster "
            "help each other more there, apart from some helping everybody? By chance alone so large a "
            f"difference has the probability {as_small(p_value)}.",
            "one-sided test on held-out pairs, row and column effects removed",
        ),
        Answer(
            "How much of the similarity is groups?",
            as_percent(blocks, 0),
            judge(blocks, 0.6, 0.3),
            "The rest are differences within clusters: similarity is seldom all or nothing.",
            "share of the completed similarity explained by its blocks",
        ),
        Answer(
            "How well are pairs predicted that nobody measured?",
            as_percent(held_out, 0),
            judge(held_out, 0.4, 0.2),
            "The share of the differences between held-out scores that is predicted from the others.",
            "explained variance of held-out pairs in cross-validation",
        ),
    ]


def judge_proof(trust: Values) -> list[Answer]:
    """Answer whether the completed matrix is proven to be the best."""
    certificate = trust.get("certificate") or {}
    gap, converged = number_of(certificate, "gap"), certificate.get("converged")
    return [
        Answer(
            "Is the computed similarity the best one?",
            NOTHING if gap is None else "Proven" if converged else "Not proven",
            "unknown" if gap is None else "good" if converged else "fair",
            "The similarity of all pairs, also of those that were never measured, is computed from the "
            f"measured ones. It is at most {as_small(gap)} away from the best there can be.",
            "certified gap of the robust matrix completion",
        ),
    ]


def judge_probabilities(calibration: Values) -> list[Answer]:
    """Answer whether probabilities can be believed, where that was measured."""
    error = number_of(calibration, "error_after")
    outside = number_of(calibration.get("scope_auroc"), "mean")
    answers = []
    if error is not None:
        answers.append(
            Answer(
                "Can its probabilities be believed?",
                as_percent(error),
                judge(1 - error, 0.95, 0.9),
                "By how much the probability of an answer differs from how often such answers are right; the "
                "less, the better.",
                "expected calibration error",
            )
        )
    if outside is not None:
        answers.append(
            Answer(
                "Does it notice what it never learned?",
                as_number(outside),
                judge(outside, 0.9, 0.8),
                "How well texts that fit no label are told from those that fit one: 1 is always, 0.5 is by "
                "chance.",
                "area under the ROC curve of the out-of-scope score",
            )
        )
    return answers


def show_answer(answer: Answer) -> Markup:
    """Show one question and its answer."""
    return element(
        "article",
        {"class": f"answer {answer.state}"},
        element("h3", None, answer.question),
        element(
            "p",
            {"class": "figure-line"},
            element("strong", None, answer.figure),
            element("span", {"class": f"state {answer.state}"}, SIGNS[answer.state]),
        ),
        element("p", None, answer.meaning, " ", element("small", None, f"[{answer.technical}]")),
    )


def show_measure_next(measure: Values, advice: Sequence[Any]) -> Markup | None:
    """Say what would make it surer."""
    tasks = measure.get("tasks") or []
    said = [element("p", None, measure["sentence"])] if measure.get("sentence") else []
    more = number_of(measure, "n_more")
    if more:
        said.append(element("p", None, "Pairs to measure: about ", element("b", None, as_count(more)), "."))
    listed = [element("li", None, str(text)) for text in advice[:MOST_ADVICE]]
    few = element(
        "details",
        None,
        element("summary", None, f"Tasks with too few measured pairs ({as_count(len(tasks))})"),
        list_names(tasks),
    )
    if not said and not listed and not tasks:
        return None
    return element(
        "div",
        {"class": "next"},
        element("h3", None, "What to measure next"),
        join(said),
        element("ul", None, *listed) if listed else None,
        few if tasks else None,
    )
