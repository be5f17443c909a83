"""Reasons in words: what they say follows from the figures, and is left out where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.paper import pages
from benchmarks.paper.reading import make_rows, read_results
from benchmarks.paper.reasons import read_difference, reason_section, word
from benchmarks.paper.why_trials import compare_all

N_TASKS = 30


def accuracies(gain: float) -> dict[str, dict[str, float]]:
    """Give accuracies that are all above those of others by the same."""
    return {
        texts: {f"task-{place}": 0.5 + 0.01 * place + gain for place in range(N_TASKS)}
        for texts in ("all", "novel")
    }


def make_record(way: str, group: str, *, encoder: str = "sentence", clusters: float = 0.0) -> dict[str, Any]:
    """Make a record of reasons in which clusters are so much above the model of all tasks."""
    models = {"single": -0.05, "holistic": 0.0, "clusters": clusters, "random": -0.01}
    models |= {"averaged": clusters / 2, "random_averaged": 0.0}
    figures = compare_all({name: accuracies(gain) for name, gain in models.items()})
    return {
        "way": way,
        "group": group,
        "encoder": encoder,
        "seed": 0,
        "targets": "bots175",
        "settings": {},
        "figures": {"n_clusters": 20, **figures},
        "seconds": 1.0,
        "cpu_seconds": 1.0,
        "peak_mib": 10,
        "extra": {},
    }


def write_table(folder: Path, table: str, records: list[dict[str, Any]]) -> None:
    """Write the JSON of a table."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = ("way", "encoder", "seed", "targets")
    whole = {
        "table": table,
        "setting": "full",
        "made": "2025-01-01T00:00:00+00:00",
        "data": {"name": "bots175", "sha256": "ab" * 32, "n_tasks": N_TASKS, "n_rows": 1000},
        "versions": {"robusttc": "0"},
        "machine": {"cores": 2},
        "records": {" | ".join(str(one[key]) for key in keys): one for one in records},
    }
    (folder / f"{table}.json").write_text(json.dumps(whole), encoding="utf-8")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Write the pages of a table of reasons."""
    records = [
        make_record("as in the tables", "base"),
        make_record("no text of another task's test rows", "phrases", clusters=-0.02),
        make_record("holistic with the steps of a cluster", "steps", clusters=0.04),
        make_record("width 5", "width", clusters=0.03),
        make_record("width 10", "width", clusters=-0.01),
        make_record("50% of the training rows", "rows", clusters=-0.01),
        make_record("as in the tables", "cnn", encoder="cnn", clusters=-0.03),
    ]
    write_table(tmp_path / "paper", "why", records)
    assert pages.main(["--results", str(tmp_path / "paper"), "--out", str(tmp_path)]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("clusters", "said"), [(0.02, "are ahead"), (-0.02, "are behind"), (0.0, "are about even")]
)
def test_words_follow_the_interval(clusters: float, said: str) -> None:
    (row,) = make_rows([make_record("a", "base", clusters=clusters)])
    assert word(row, "clusters_less_holistic_all").startswith(f"{said} (")
    mean, low, high = read_difference(row, "clusters_less_holistic_all")
    assert (mean, low, high) == pytest.approx((100 * clusters,) * 3, abs=0.05)


def test_a_figure_without_an_interval_is_no_difference() -> None:
    (row,) = make_rows([make_record("a", "base")])
    with pytest.raises(ValueError, match="no difference with an interval"):
        read_difference(row, "tasks_that_lose")


def test_first_page_gives_the_reasons(out: Path) -> None:
    text = (out / "README.md").read_text()
    assert "clusters are ahead in 1 of 2" in text  # widths
    assert "clusters do not come out ahead in any of them" in text  # rows
    assert "and clusters are ahead (+4.0 [+4.0, +4.0])" in text  # fewer steps
    assert "and clusters are behind (-2.0 [-2.0, -2.0])" in text  # no phrases
    assert "bots175, cnn: -1.5 [-1.5, -1.5] over the model of all tasks" in text
    assert "Is it the number of clusters" not in text  # no such condition was run


def test_page_of_reasons_has_every_condition_and_a_plot(out: Path) -> None:
    text = (out / "paper" / "why.md").read_text()
    first, second = text.index("## bots175, sentence"), text.index("## bots175, cnn")
    assert first < text.index("| width 5 |") < text.index("| width 10 |") < second
    assert "![Why clusters do or do not pay](why.svg)" in text
    assert "width 10" in (out / "paper" / "why.svg").read_text()
    assert pages.main(["--results", str(out / "paper"), "--out", str(out), "--check"]) == 0


def test_a_figure_that_changed_makes_page_and_plot_stale(out: Path) -> None:
    path = out / "paper" / "why.json"
    changed = path.read_text().replace("+3.0 [+3.0, +3.0]", "+2.0 [+1.0, +3.0]")
    path.write_text(changed)
    stale = pages.stale_pages(pages.make_pages(out / "paper", out=out), out)
    assert {"README.md", "paper/why.md", "paper/why.svg"} <= set(stale)


def few_shot_record(way: str, gain: float, *, fell: int) -> dict[str, Any]:
    """Make a record of few-shot learning of which so many targets fell back."""
    record = make_record(way, "paper, cnn", encoder="cnn")
    del record["figures"]
    extra = {"n_adapted": 40, "out_of_cluster": fell}
    return {
        **record,
        **accuracies(gain),
        "targets": "12",
        "settings": {"learning": "fewshot"},
        "extra": extra,
    }


def test_few_shot_tables_tell_of_random_clusters_and_of_the_fallback(tmp_path: Path) -> None:
    records = [
        few_shot_record("paper: clusters K=5", 0.02, fell=0),
        few_shot_record("paper: clusters K=5, adaptive", 0.02, fell=3),
        few_shot_record("paper: clusters K=10", 0.09, fell=0),
        few_shot_record("paper: random clusters K=5", 0.05, fell=0),
    ]
    write_table(tmp_path, "amazon-fsl", records)
    said = reason_section({"amazon-fsl": read_results(tmp_path / "amazon-fsl.json")})
    # Random clusters are compared with as many clusters only.
    assert "amazon-fsl, 12, cnn: -3.0 [-3.0, -3.0]" in said
    assert "+4.0" not in said
    assert "amazon-fsl, 12, cnn: 3 of 40" in said


def test_nothing_is_said_without_figures() -> None:
    assert reason_section({}) == ""
