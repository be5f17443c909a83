"""The results page of `make bench-completion`, written from its JSON file: nothing on it is typed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
FLIPS = (0.05, 0.1, 0.2)
LINES = (("raw", "x", "raw"), ("raw_refined", "+", "raw, refined"), ("X", ".", "X"))


def write_page(folder: Path) -> None:
    """Write `completion.md` and its plots beside `completion.json`."""
    figures = json.loads((folder / "completion.json").read_text())
    sections = [introduction(figures)]
    for name, section in SECTIONS.items():
        if name in figures:
            sections.append(section(figures[name]))
    (folder / "completion.md").write_text("\n\n".join(sections) + "\n")
    if "growth" in figures:
        plot_growth(figures["growth"], folder / "completion-growth.svg")
    if "phase" in figures:
        plot_phase(figures["phase"], folder / "completion-phase.svg")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Make a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def column(rows: Iterable[Row], name: str) -> list[float]:
    """Give the values of a column."""
    return [float(row[name]) for row in rows]


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Give the median and, where there are several values, their range."""
    middle = format(float(np.median(values)), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({format(min(values), form)} to {format(max(values), form)})"


def verdict(reached: bool) -> str:
    """Say whether a target was reached."""
    return "reached" if reached else "**missed**"


def completed(rows: Iterable[Row]) -> list[Row]:
    """Leave out the rows whose X is only the refined start, the lambda window being empty."""
    return [row for row in rows if row["method"] != "spectral"]


def groups_of(rows: Sequence[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by columns, in the order of their first row."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def introduction(figures: Row) -> str:
    """Say what was run, on what, and how long it took."""
    machine, warm = figures["machine"], figures["warm_up"][0]
    minutes = sum(figures["seconds"].values()) / 60
    quick = " This is a quick run, with fewer seeds and sizes." if figures["quick"] else ""
    return f"""# Completion: exactness, speed, memory

Written by `python -m benchmarks.completion --page` from `completion.json`, which
`python -m benchmarks.completion --json docs/results/completion.json` measured in {minutes:.0f} minutes
(`make bench-completion` prints the same without keeping it). A group can be measured again alone
(`--only`), so not all figures need be of one run.{quick}

* machine: {machine["cpu"]}, {machine["cores"]} cores, shared with other work (load
  {machine["load_at_start"]:.1f} at the start); {machine["system"]}
* Python {machine["python"]}, NumPy {machine["numpy"]}, SciPy {machine["scipy"]}, numba {machine["numba"]};
  linear algebra at one thread, our own loops at two for 10,000 tasks and in the table of growth, else at one
* data: planted clusters of equal size, task i in cluster i % k, pairs of tasks chosen uniformly, a share of
  them flipped; d is the mean number of observed partners of a task. lambda is found (`lam="auto"`) unless
  said otherwise
* time: from the sparse matrices to the proof, all included; median over the seeds, and their range. The
  compiled loops are warmed up before: on 400 tasks, the first call on a machine took
  {warm["compiling_s"]:.1f} s, the first of a process {warm["first_call_s"]:.1f} s, the next
  {warm["second_call_s"]:.2f} s
* gap: the certified relative duality gap. It holds whatever the solver did, and anyone can check it from
  the sparse dual that comes with the answer"""


def scs_section(rows: Sequence[Row]) -> str:
    """Compare with SCS."""
    worst = max(column(rows, "difference"))
    faster = [row["reference_s"] / row["seconds"] for row in rows]
    body = [
        [
            row["seed"],
            row["n"],
            row["k"],
            row["rank"],
            f"{row['flips']:.2f}",
            f"{row['weights'][0]:.2f}, {row['weights'][1]:.2f}",
            f"{row['objective']:.6f}",
            f"{row['difference']:.1e}",
            f"{row['gap']:.1e}",
            f"{row['seconds']:.2f}",
            f"{row['reference_s']:.1f}",
            "yes" if row["status"] == "optimal" else "no",
        ]
        for row in rows
    ]
    header = ["seed", "n", "k", "rank of X", "flips", "weights", "objective", "difference to SCS", "gap"]
    return f"""## Against an independent solver

{len(rows)} random instances of at most 100 tasks (clusters of random sizes, random weights of errors,
lambda given), against cvxpy with SCS at a tolerance of 1e-8, for 30 s at the most: on some it is not sure by
then. To reach: an objective within 1e-6 of SCS on every one. Largest relative difference: {worst:.1e},
{verdict(worst <= 1e-6)}. Ours was {spread(faster, ".0f")} times as fast.

{table([*header, "seconds", "SCS seconds", "SCS sure"], body)}"""


def textbook_section(rows: Sequence[Row]) -> str:
    """Compare with textbook inexact ALM."""
    body = []
    for (k, flips), group in groups_of(rows, "k", "flips").items():
        wanted = 50 if k == 4 else 15
        timed = [row for row in group if "textbook_s" in row]
        ratio = min((row["textbook_s"] / row["seconds"] for row in timed), default=float("nan"))
        refined = min(column(group, "ari_refined"))
        reached = max(column(group, "gap")) <= 1e-5 and ratio >= wanted and (k != 4 or refined == 1)
        body.append(
            [
                k,
                f"{flips:.0%}",
                ", ".join(str(row["seed"]) for row in group),
                spread(column(group, "seconds")),
                f"{max(column(group, 'gap')):.1e}",
                f"{min(column(group, 'ari')):.3f}, {refined:.3f}",
                ", ".join(f"{row['textbook_s']:.0f} (seed {row['seed']})" for row in timed) or "not run",
                ", ".join(f"{row['textbook_excess']:.0%}, rank {row['textbook_rank']}" for row in timed),
                f"{ratio:.0f} (at least {wanted} asked)",
                verdict(reached),
            ]
        )
    header = ["k", "flips", "seeds", "seconds", "worst gap", "worst ARI: X, refined", "textbook seconds"]
    return f"""## Against textbook inexact ALM

n = 1,491 tasks, d = 67 (4.5 % observed). The textbook way takes a full SVD a round, with rho = 1.5, and
stops when Y - X - E is small; it is given our lambda, and timed in the same process. To reach: a gap of at
most 1e-5, and for k = 4 an ARI of 1, which is judged after refinement: the clustering of X alone may miss a
task, as the table shows. How far the textbook's answer is from optimal is certified by our proof.

{table([*header, "textbook above optimum", "times as fast", ""], body)}"""


def ten_thousand_section(rows: Sequence[Row]) -> str:
    """Show 10,000 tasks."""
    body = []
    for (flips, tol), group in groups_of(rows, "flips", "tol").items():
        ratios = [row["seconds"] / row["start_s"] for row in group]
        reached = max(column(group, "gap")) <= tol and (flips != 0.05 or max(ratios) < 10)
        body.append(
            [
                f"{flips:.0%}",
                ", ".join(str(row["seed"]) for row in group),
                f"{max(column(group, 'gap')):.1e} (at most {tol:.0e} asked)",
                spread(column(group, "seconds")),
                spread(ratios, ".1f"),
                spread([row["seconds"] / row["start_k_given_s"] for row in group], ".1f"),
                f"{min(column(group, 'ari')):.3f}",
                verdict(reached),
            ]
        )
    header = ["flips", "seeds", "worst gap", "seconds", "times the start", "times the start with k given"]
    return f"""## 10,000 tasks

k = 5 clusters, d = log(n)^2 = {np.log(10_000) ** 2:.0f}. The start is the spectral clustering that
completion itself begins with, on the entries as they are and with the number of clusters to be found (k
given: it is told). To reach at flips of 5 %: under 10 times the time of the start.

{table([*header, "worst ARI", ""], body)}"""


def growth_section(rows: Sequence[Row]) -> str:
    """Show how time and memory grow."""
    body = [
        [
            f"{row['n']:,}",
            f"{row['pairs']:,}",
            f"{row['seconds']:.2f}",
            f"{row['start_s']:.2f}",
            f"{row['gap']:.1e}",
            f"{row['peak_gib']:.2f}",
            f"{row['peak_before_gib']:.2f}",
            f"{row['ari']:.3f}",
        ]
        for row in rows
    ]
    last = rows[-1]
    reached = last["gap"] <= 1e-4 and last["peak_gib"] * 2**30 < 4e9
    powers = np.polyfit(np.log(column(rows[-3:], "pairs")), np.log(column(rows[-3:], "seconds")), 1)
    header = ["tasks", "pairs", "seconds", "the start alone", "gap", "peak GiB", "peak GiB before", "ARI"]
    return f"""## From a thousand tasks to a hundred thousand

k = 6 clusters, flips of 5 %, d = log(n)^2 (134 for 100,000 tasks), seed 0, each size in a process of its
own. To reach for 100,000 tasks: a gap of at most 1e-4 in less than 4 GB, of which the data and Python
itself take what they take before. {f"{last['n']:,}"} tasks: {verdict(reached)}. Over the last three sizes
time grows as the number of pairs to the power of {powers[0]:.2f}.

{table(header, body)}

![Time and memory by the number of tasks](completion-growth.svg)"""


def hard_section(rows: Sequence[Row]) -> str:
    """Show data that do not fit the model."""
    body = []
    for (case,), group in groups_of(rows, "case").items():
        figures = [spread(column(group, name)) for name in ("raw", "raw_refined")]
        solved = completed(group)
        figures += [spread(column(solved, name)) if solved else "none" for name in ("X", "refined")]
        doubts = f"{sum(row['doubt'] for row in group)} of {len(group)}"
        body.append([case, len(group), *figures, f"{len(group) - len(solved)} of {len(group)}", doubts])
    header = ["data", "seeds", "raw", "raw, refined", "X", "X, refined", "window empty", "warned"]
    return f"""## Harder data

ARI of the spectral clustering of the entries as they are, of that after refinement (each task moves to the
cluster for which its entries speak), of the clustering of X, and of that after refinement. 500 tasks; d =
60 (40 in the last two rows), the number of clusters is given. Where the lambda window is empty there is no X
of its own: the answer is the refined start. Warned: completion said that its answer is doubtful, for an empty
window, an open gap, or an X of lower rank than there are clusters.

{table(header, body)}"""


def phase_section(rows: Sequence[Row]) -> str:
    """Show where recovery ends."""
    body = []
    for (k, flips, degree), group in sorted(groups_of(rows, "k", "flips", "degree").items()):
        solved = completed(group)
        means = [f"{np.mean(column(group, name)):.3f}" for name in ("raw", "raw_refined")]
        means += [f"{np.mean(column(solved, name)):.3f}" if solved else "none" for name in ("X", "refined")]
        empty = f"{len(group) - len(solved)} of {len(group)}"
        body.append([k, f"{flips:.0%}", degree, f"{group[0]['snr']:.2f}", *means, empty])
    seeds = len({row["seed"] for row in rows})
    header = ["k", "flips", "d", "SNR", "raw", "raw, refined", "X", "X, refined", "window empty"]
    proven = completed(rows)
    return f"""## Where recovery ends

500 tasks, {seeds} seeds a cell, mean ARI, beside the Kesten-Stigum ratio (a - b)^2 / (k (a + (k - 1) b))
with a = d (1 - flips) and b = d flips, below 1 of which no efficient method is known to find anything. Where
the lambda window is empty there is no X of its own, and it counts neither in the table nor in the plot: the
answer is the refined start, and says so. Of the {len(proven)} others
{sum(row["gap"] <= 1e-5 for row in proven)} are proven to a gap of 1e-5.

{table(header, body)}

![ARI by signal-to-noise ratio](completion-phase.svg)"""


SECTIONS: dict[str, Callable[[Sequence[Row]], str]] = {
    "scs": scs_section,
    "textbook": textbook_section,
    "ten_thousand": ten_thousand_section,
    "growth": growth_section,
    "hard": hard_section,
    "phase": phase_section,
}


def start_plot(n_panels: int) -> tuple[Any, Any]:
    """Give a figure whose file does not change from one writing to the next."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "robusttc", "font.size": 9})
    from matplotlib import pyplot

    return pyplot.subplots(1, n_panels, figsize=(3.6 * n_panels, 3.2), layout="constrained", squeeze=False)


def plot_growth(rows: Sequence[Row], path: Path) -> None:
    """Plot time and memory against the number of tasks."""
    figure, ((time_axes, memory_axes),) = start_plot(2)
    n = column(rows, "n")
    time_axes.loglog(n, column(rows, "seconds"), "o-", label="completion, with its proof")
    time_axes.loglog(n, column(rows, "start_s"), "s--", label="the spectral start alone")
    time_axes.set(xlabel="tasks", ylabel="seconds")
    time_axes.legend(frameon=False)
    memory_axes.semilogx(n, column(rows, "peak_gib"), "o-", label="peak")
    memory_axes.semilogx(n, column(rows, "peak_before_gib"), "s--", label="peak before completion")
    memory_axes.set(xlabel="tasks", ylabel="GiB", ylim=(0, None))
    memory_axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def plot_phase(rows: Sequence[Row], path: Path) -> None:
    """Plot the mean ARI of every cell against its signal-to-noise ratio, a panel for each rate of flips."""
    figure, (panels,) = start_plot(len(FLIPS))
    cells = groups_of(rows, "k", "flips", "degree")
    for panel, flips in zip(panels, FLIPS, strict=True):
        chosen = sorted(
            (group for key, group in cells.items() if key[1] == flips),
            key=lambda group: float(group[0]["snr"]),
        )
        for name, marker, label in LINES:
            shown = [group if name.startswith("raw") else completed(group) for group in chosen]
            shown = [group for group in shown if group]
            ratios = [float(group[0]["snr"]) for group in shown]
            panel.semilogx(ratios, [np.mean(column(group, name)) for group in shown], marker, label=label)
        panel.axvline(1.0, color="gray", linewidth=0.8)
        panel.set(title=f"flips {flips:.0%}", xlabel="Kesten-Stigum ratio", ylim=(-0.05, 1.05))
    panels[0].set_ylabel("mean ARI")
    panels[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
