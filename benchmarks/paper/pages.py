"""Write the pages of the results from their JSON, or check that they are what it gives.

``python -m benchmarks.paper.pages [--results docs/results/paper] [--out docs/results] [--check]``

Writes ``README.md`` and ``headlines.json`` into the folder of results, and a page and its plots for each
table into its subfolder ``paper``; the headline figures go into the project's README too. A table that was
not run has a page that says so. Figures of the quick setting are marked on their page, and never enter the
first page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.paper.claims import find_verdicts
from benchmarks.paper.clustering_page import write_clustering_page
from benchmarks.paper.cost_page import draw_cost, write_cost_page
from benchmarks.paper.figures import draw_table, same_plot
from benchmarks.paper.headlines import find_headlines
from benchmarks.paper.overview_page import write_overview
from benchmarks.paper.page_parts import missing_page, name_targets
from benchmarks.paper.pairs_plot import draw_pairs
from benchmarks.paper.reading import Results, read_results
from benchmarks.paper.readme_part import put_readme_part
from benchmarks.paper.subjects import SUBJECTS, Subject
from benchmarks.paper.table_page import write_table_page
from benchmarks.paper.why_page import draw_why, write_why_page

__all__ = ["main", "make_pages", "stale_pages", "write_pages"]

PLOTS = {"clustering": draw_pairs, "cost": draw_cost, "why": draw_why}
PAGES = {
    "clustering": write_clustering_page,
    "cost": write_cost_page,
    "why": write_why_page,
}
DOCS = Path(__file__).parent.parent.parent / "docs" / "results"
README = "../../README.md"  # of the project, from the folder of results


def read_tables(folder: Path) -> dict[str, Results]:
    """Read the JSON of every table that is there."""
    files = {subject.name: folder / f"{subject.name}.json" for subject in SUBJECTS}
    return {name: read_results(path) for name, path in files.items() if path.is_file()}


def make_pages(results: Path, *, out: Path) -> dict[str, str]:
    """Give every file that is to be written, by its path under `out`."""
    tables = read_tables(results)
    files: dict[str, str] = {}
    for subject in SUBJECTS:
        files |= make_subject(subject, tables.get(subject.name))
    full = {name: table for name, table in tables.items() if not table.is_quick}
    files["README.md"] = write_overview(full, others=find_titles(out))
    headlines = [one.to_dict() for one in find_headlines(full)]
    verdicts = [one.to_dict() for table in full.values() for one in find_verdicts(table)]
    whole = {"headlines": headlines, "verdicts": verdicts}
    files["headlines.json"] = json.dumps(whole, indent=1) + "\n"
    if out.resolve() == DOCS.resolve():
        readme = (out / README).read_text(encoding="utf-8")
        files[README] = put_readme_part(readme, find_headlines(full))
    return files


def make_subject(subject: Subject, results: Results | None) -> dict[str, str]:
    """Give the page and the plots of one table."""
    page = f"paper/{subject.name}.md"
    if results is None:
        return {page: missing_page(subject)}
    files: dict[str, str] = {}
    quick = "QUICK, " if results.is_quick else ""
    if not subject.has_accuracies:
        drawn = PLOTS[subject.name](results, f"{quick}{subject.title}")
        if drawn is not None:
            files[f"paper/{subject.name}.svg"] = drawn
        plot = None if drawn is None else f"{subject.name}.svg"
        files[page] = PAGES[subject.name](subject, results, plot=plot)
        return files
    plots = {}
    for targets in results.targets():
        rows = results.of(targets)
        if any(row.accuracies["all"] for row in rows):
            plots[targets] = f"{subject.name}-{targets}.svg"
            name = name_targets(targets)
            files[f"paper/{plots[targets]}"] = draw_table(rows, f"{quick}{subject.title}: {name}")
    files[page] = write_table_page(subject, results, plots=plots)
    return files


def find_titles(folder: Path) -> dict[str, str]:
    """Give the titles of the other pages that are in the folder."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        if path.name != "README.md":
            first = path.read_text(encoding="utf-8").partition("\n")[0]
            found[path.name] = first.lstrip("# ").strip()
    return found


def write_pages(files: Mapping[str, str], out: Path) -> None:
    """Write the files."""
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def stale_pages(files: Mapping[str, str], out: Path) -> list[str]:
    """Name the files that are not what the JSON gives."""
    return [name for name, text in files.items() if not is_same(out / name, text)]


def is_same(path: Path, text: str) -> bool:
    """Tell whether a file holds this text, or for a plot shows the same figures."""
    if not path.is_file():
        return False
    found = path.read_text(encoding="utf-8")
    return found == text or (path.suffix == ".svg" and same_plot(found, text))


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, default=DOCS / "paper", help="where the JSON of the tables is"
    )
    parser.add_argument("--out", type=Path, default=DOCS, help="where the pages go")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is stale")
    given = parser.parse_args(arguments)
    files = make_pages(given.results, out=given.out)
    stale = stale_pages(files, given.out)
    if given.check:
        for name in stale:
            print(f"not what the JSON gives: {given.out / name}")
        return 1 if stale else 0
    write_pages(files, given.out)
    print(f"{len(files)} files, {len(stale)} of them new or changed, in {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
