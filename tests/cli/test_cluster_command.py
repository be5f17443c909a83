"""`robusttc cluster` as a user runs it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from robusttc.cli import main
from robusttc.clustering import make_planted_scores
from robusttc.transfer import TransferScores

FAMILIES = np.arange(36) % 4


def planted(folder: Path, seed: int = 0) -> Path:
    scores = make_planted_scores([f"task {number}" for number in range(36)], FAMILIES, random_state=seed)
    scores.write_csv(folder / "scores.csv")
    return folder / "scores.csv"


def read_clusters(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_clusters_are_found_written_and_judged(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clusters.csv"
    assert main(["cluster", str(planted(tmp_path, seed)), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "Groups predict unmeasured pairs (p < 0.001)" in text
    assert re.search(
        r"The completion of the scores is optimal within \de-\d\d of its value \(certified\)\.", text
    )
    rows = read_clusters(out)
    assert [row["task"] for row in rows] == [f"task {number}" for number in range(36)]
    assert adjusted_rand_score(FAMILIES, [row["cluster"] for row in rows]) == 1.0
    assert all(0 < float(row["confidence"]) <= 1 for row in rows)


def test_square_table_json_and_given_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = make_planted_scores([f"t{number}" for number in range(24)], np.arange(24) % 3)
    matrix = scores.to_matrix()
    lines = [["", *scores.task_names]]
    for name, row in zip(scores.task_names, matrix.tolist(), strict=True):
        lines.append([name, *("" if np.isnan(score) else repr(score) for score in row)])
    file = tmp_path / "square.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(lines)
    main(["cluster", str(file), "--clusters", "3", "--json", "--out", str(tmp_path / "c.csv")])
    document = json.loads(capsys.readouterr().out)
    assert document["n_clusters"] == 3
    labels = [task["cluster"] for task in document["tasks"]]
    assert adjusted_rand_score(np.arange(24) % 3, labels) == 1.0
    assert document["certificate"]["gap"] >= 0
    assert document["verdict"]["supported"] is True
    assert document["sources_only"] == []


def test_that_there_are_no_groups_is_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(30, 30))
    TransferScores.from_matrix(matrix, [f"t{number}" for number in range(30)]).write_csv(
        tmp_path / "noise.csv"
    )
    assert main(["cluster", str(tmp_path / "noise.csv"), "--out", str(tmp_path / "c.csv")]) == 0
    assert re.search("no groups to judge|do not predict unmeasured pairs", capsys.readouterr().out)
    assert len(read_clusters(tmp_path / "c.csv")) == 30


def test_sources_only_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = make_planted_scores([f"t{number}" for number in range(20)], np.arange(20) % 2, random_state=0)
    matrix = scores.to_matrix()
    matrix[:, :3] = np.nan
    known = np.isfinite(matrix)
    TransferScores.from_matrix(matrix, scores.task_names, observed=known).write_csv(tmp_path / "s.csv")
    assert main(["cluster", str(tmp_path / "s.csv"), "--out", str(tmp_path / "c.csv")]) == 0
    assert "Sources only (3 tasks): t0, t1, t2." in capsys.readouterr().out


def test_the_paper_can_be_followed_to_the_letter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "c.csv"
    options = ["--strategy", "paper", "--clusters", "4", "--lambda", "0.3", "--json", "--out", str(out)]
    assert main(["cluster", str(planted(tmp_path)), *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["certificate"]["regularisation"] == pytest.approx(1 / 0.3)
    assert document["certificate"]["gap"] < 1e-5
    assert adjusted_rand_score(FAMILIES, [row["cluster"] for row in read_clusters(out)]) == 1.0


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot(tmp_path: Path, ending: str) -> None:
    plot = tmp_path / f"clusters.{ending}"
    assert (
        main(["cluster", str(planted(tmp_path)), "--out", str(tmp_path / "c.csv"), "--plot", str(plot)]) == 0
    )
    start = plot.read_bytes()[:100]
    assert start.startswith(b"\x89PNG") if ending == "png" else b"<?xml" in start
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.csv", f"clusters.{ending}", "scores.csv"]


@pytest.mark.parametrize(
    "options",
    [
        ["--clusters", "many"],
        ["--clusters", "0"],
        ["--clusters", "1000"],
        ["--strategy", "paper", "--lambda", "-1"],
        ["--strategy", "paper", "--rule", "none"],
        ["--strategy", "best"],
        ["--plot", "plot.pdf"],
        ["--out", "no/such/folder/c.csv"],
    ],
)
def test_wrong_usage(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", str(planted(tmp_path)), "--out", str(tmp_path / "c.csv"), *options]) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.err
    assert not (tmp_path / "c.csv").exists()


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("", "empty"),
        ("source,target,score\na,b,high\n", ":2"),
        ("source,target,score\na,b,inf\n", ":2"),
        ("source,target,score\na,b,0.5\nb,a,inf\n", ":3"),
        ("source,target,score\na,b,-inf\n", ":2"),
        ("task,a,b\na,,inf\nb,0.5,\n", "inf"),
        ("source,target,score\na,b,0.5\na,b,0.6\n", ":3"),
        ("task,a,b\na,,0.5\nc,0.5,\n", "c"),
        ("from,to,score\na,b,0.5\n", "source"),
    ],
)
def test_bad_scores(tmp_path: Path, content: str, phrase: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scores.csv"
    file.write_text(content)
    assert main(["cluster", str(file), "--out", str(tmp_path / "c.csv")]) == 4
    err = capsys.readouterr().err
    assert "scores.csv" in err
    assert phrase in err
    assert "Traceback" not in err


def odd_scores() -> dict[str, list[tuple[str, str, float]]]:
    """Files that can be read, but have little or nothing to say."""
    generator = np.random.default_rng(0)

    def among(names: str) -> list[tuple[str, str, float]]:
        pairs = [(one, other) for one in names for other in names if one != other]
        return [(one, other, float(generator.random())) for one, other in pairs]

    full = among("abcdefgh")
    return {
        "one task": [("a", "a", 0.5)],
        "two tasks": among("ab"),
        "disconnected": among("abcde") + among("vwxyz"),
        "constant column": [(one, other, 0.5 if other == "c" else score) for one, other, score in full],
        "equal scores": [(one, other, 0.5) for one, other, _ in full],
    }


@pytest.mark.parametrize("strategy", ["default", "paper"])
@pytest.mark.parametrize("case", list(odd_scores()))
def test_odd_scores_are_no_crash(
    tmp_path: Path, case: str, strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = odd_scores()[case]
    file, out = tmp_path / "scores.csv", tmp_path / "c.csv"
    file.write_text("source,target,score\n" + "".join(f"{one},{two},{score}\n" for one, two, score in lines))
    assert main(["cluster", str(file), "--strategy", strategy, "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "predict" in captured.out or "no groups" in captured.out or "Too few" in captured.out
    rows = read_clusters(out)
    assert {row["task"] for row in rows} == {name for line in lines for name in line[:2]}
    assert all(0 <= float(row["confidence"]) <= 1 for row in rows)
    if case in ("one task", "two tasks", "equal scores"):
        assert "no groups" in captured.out or "Too few" in captured.out
        assert len({row["cluster"] for row in rows}) == 1


def test_neither_the_order_of_lines_nor_units_and_levels_of_targets_matter(tmp_path: Path) -> None:
    file, out = planted(tmp_path), tmp_path / "c.csv"
    with file.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    generator = np.random.default_rng(0)
    level, unit = generator.normal(size=36), np.exp(generator.normal(size=36))
    other = tmp_path / "other.csv"
    with other.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["source", "target", "score"])
        for place in generator.permutation(len(lines)):
            source, target = lines[place]["source"], lines[place]["target"]
            number = int(target.removeprefix("task "))
            writer.writerow([source, target, level[number] + unit[number] * float(lines[place]["score"])])
    found = []
    for scores in (file, other):
        assert main(["cluster", str(scores), "--out", str(out)]) == 0
        found.append({row["task"]: row["cluster"] for row in read_clusters(out)})
    assert found[0] == found[1]
    assert len(set(found[0].values())) == 4


def test_a_pair_measured_twice_can_be_averaged(tmp_path: Path) -> None:
    file = planted(tmp_path)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[1]]) + "\n")
    assert main(["cluster", str(file), "--out", str(tmp_path / "c.csv")]) == 4
    assert main(["cluster", str(file), "--out", str(tmp_path / "c.csv"), "--average-duplicates"]) == 0
