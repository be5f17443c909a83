"""What sharing gave one task, and who is to blame where it took something away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from robusttc.multitask import TaskTransfer, TransferSource
from robusttc.run.evaluation import TaskFigures
from robusttc.stats import Estimate

__all__ = ["Sharing", "explain_sharing"]

Method = Literal["gradients", "scores", "none"]

# A loss of so much is worth a look even where chance may have made it.
DOUBTFUL_LOSS = 0.01
HELD_OUT = "held-out training rows"


@dataclass(frozen=True, slots=True)
class Sharing:
    """What sharing gave a task.

    Attributes
    ----------
    test
        Its figures on test rows; None where it was not evaluated.
    held_out
        The same on training rows that models had not seen; None where nothing was held out.
    expected_gain
        For a task that was added, what held-out training rows promised.
    is_harmed
        Whether the interval of the difference to its own model is below zero, on test rows or, without
        these, on held-out rows.
    is_doubtful
        Whether it seems to lose at least a point, which may be chance.
    culprits
        The tasks that work against it, the worst first: `TransferSource.blame` is above zero.
    method
        How they were found: ``gradients`` (see `robusttc.multitask.negative_transfer`), ``scores`` (tasks of
        the same model whose encoders were measured to serve it badly; the blame is in standard deviations),
        ``none`` (nobody was looked for).
    weights
        How much its own model, that of all tasks, and that of its cluster count for it; empty where that is
        not known.
    sentence
        All this in words.
    """

    test: TaskFigures | None
    held_out: TaskTransfer | None
    expected_gain: Estimate | None
    is_harmed: bool
    is_doubtful: bool
    culprits: tuple[TransferSource, ...]
    method: Method
    weights: dict[str, float]
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Give it as values for JSON."""
        return {
            "test": None if self.test is None else self.test.to_dict(),
            "held_out": None if self.held_out is None else held_out_to_dict(self.held_out),
            "expected_gain": None if self.expected_gain is None else self.expected_gain.to_dict(),
            "is_harmed": self.is_harmed,
            "is_doubtful": self.is_doubtful,
            "culprits": [asdict(culprit) for culprit in self.culprits],
            "method": self.method,
            "weights": dict(self.weights),
            "sentence": self.sentence,
        }


def held_out_to_dict(harm: TaskTransfer) -> dict[str, Any]:
    """Give the figures of held-out rows as values for JSON, by the same names as those of test rows."""
    estimates = {
        "own": harm.own,
        "shared": harm.shared,
        "cluster": harm.in_cluster,
        "served": harm.served,
        "gain": harm.gain,
    }
    plain = {name: None if value is None else value.to_dict() for name, value in estimates.items()}
    return {"n_rows": harm.n_rows, **plain}


def explain_sharing(
    test: TaskFigures | None,
    held_out: TaskTransfer | None,
    *,
    shares: bool,
    weights: Mapping[str, float] | None = None,
    expected_gain: Estimate | None = None,
    culprits: Sequence[TransferSource] = (),
    method: Method = "none",
) -> Sharing:
    """Put together what test rows and held-out rows say.

    Parameters
    ----------
    test, held_out, expected_gain
        What is known.
    shares
        Whether models of several tasks help to serve it.
    weights
        How much each model counts for it, as far as that is known.
    culprits, method
        Who works against it, and how they were found.

    Examples
    --------
    >>> explain_sharing(None, None, shares=True).sentence
    'No row tells what sharing gave it.'
    """
    on_test = None if test is None else test.gain
    on_held_out = None if held_out is None else held_out.gain
    gain = on_test or on_held_out or expected_gain
    is_harmed = shares and gain is not None and gain.below_zero
    is_doubtful = shares and not is_harmed and gain is not None and gain.mean <= -DOUBTFUL_LOSS
    return Sharing(
        test,
        held_out,
        expected_gain,
        is_harmed,
        is_doubtful,
        tuple(culprits),
        method,
        dict(weights or {}),
        word(gain, "test rows" if on_test is not None else HELD_OUT, expected_gain, shares=shares),
    )


def word(gain: Estimate | None, rows: str, expected: Estimate | None, *, shares: bool) -> str:
    """Say what sharing gave."""
    if not shares:
        if expected is None or expected.n < 2:
            return "Its own model alone serves it: sharing gives and takes nothing."
        return f"Its own model alone serves it: sharing would have given {figure(expected, HELD_OUT)}."
    if gain is None or gain.n < 2:
        return "No row tells what sharing gave it."
    if gain.above_zero:
        return f"Sharing helps it: {figure(gain, rows)}."
    if gain.below_zero:
        return f"Sharing harms it: {figure(gain, rows)}."
    return f"Whether sharing helps it cannot be told: {figure(gain, rows)}."


def figure(gain: Estimate, rows: str) -> str:
    """Show a difference in points with its interval.

    >>> figure(Estimate(-0.0001, -0.02, 0.03, 40), "test rows")
    '+0.0 points [-2.0, +3.0] on 40 test rows'
    """
    # Without the sum, a difference that rounds to zero could show as -0.0.
    points, low, high = (round(100 * value, 1) + 0.0 for value in (gain.mean, gain.low, gain.high))
    return f"{points:+.1f} points [{low:+.1f}, {high:+.1f}] on {gain.n:,} {rows}"
