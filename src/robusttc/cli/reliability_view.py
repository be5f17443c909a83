"""How far measured scores can be trusted, as sentences for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from robusttc.cli.inspection_view import say

if TYPE_CHECKING:
    from robusttc.transfer import TransferScores

__all__ = ["show_reliability"]


def show_reliability(console: Console, scores: TransferScores) -> None:
    """Print how well halves and directions agree, and how much belongs to the donor alone."""
    found = scores.reliability()
    if found.split_half is not None:
        say(
            console,
            "Halves: scores on one half of the rows correlate with those on the other half by "
            f"{say_both(found.split_half, found.split_half_without_donors)}.",
        )
    if found.reciprocity is not None:
        say(
            console,
            "Directions: how well A serves B correlates with how well B serves A by "
            f"{say_both(found.reciprocity, found.reciprocity_without_donors)}.",
        )
    if found.donor_share is not None:
        say(
            console,
            f"Donors: {found.donor_share:.0%} of the differences are tasks that serve every other task well, "
            "or badly, which says nothing about families.",
        )


def say_both(whole: float, without_donors: float | None) -> str:
    """Give a correlation, and that without the donor effect."""
    rest = "" if without_donors is None else f", {without_donors:.2f} without the donor effect"
    return f"{whole:.2f}{rest} (1 is perfect, 0 is chance)"
