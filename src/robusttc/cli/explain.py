"""`robusttc explain`: why a task is where it is, what sharing gave it, and what to label next."""

from __future__ import annotations

from typing import Annotated

import typer

from robusttc.cli.console import output_console, print_json, show_working
from robusttc.cli.options import DeviceOption, RunFolder

__all__ = ["explain"]


def explain(
    run: RunFolder,
    task: Annotated[str, typer.Option(metavar="NAME", help="A task of the run.")],
    others: Annotated[
        int,
        typer.Option(min=0, max=1000, help="With how many of the nearest tasks its labels are compared."),
    ] = 8,
    limit: Annotated[
        int, typer.Option(min=0, help="How many lines a table has at the most; 0 shows all.")
    ] = 10,
    show_texts: Annotated[
        bool,
        typer.Option("--show-texts", help="Show texts: those that were missed, and those in dispute."),
    ] = False,
    culprits: Annotated[
        bool,
        typer.Option("--culprits", help="Look for culprits by gradients, even if that takes minutes."),
    ] = False,
    device: DeviceOption = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Explain one task: its cluster, its labels among those of others, and what to label next.

    Shows why it is in its cluster (the measured pairs for and against), its nearest tasks, labels of these
    that correspond to, contain or conflict with its own, what sharing gave it, and its weakest labels.
    """
    # Late, so that --help does not wait for SciPy and torch.
    from robusttc.cli.explain_view import show_explanation
    from robusttc.run import Run
    from robusttc.run.explain.explaining import explain_task

    with show_working("Comparing labels with the nearest tasks …"):
        explanation = explain_task(Run(run, device=device), task, n_others=others, all_culprits=culprits)
    if json:
        print_json(explanation.to_dict(show_texts=show_texts))
    else:
        show_explanation(output_console(), explanation, limit=limit, show_texts=show_texts)
