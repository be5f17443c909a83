"""The page without a browser: pictures, markup, its policy, and documents that have next to nothing."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_documents import ALARM, NASTY_NAMES, make_document, make_empty_document
from page_reader import PageReader
from PIL import Image
from scipy import sparse

from robusttc.errors import StoreError
from robusttc.report.document import ReportDocument
from robusttc.report.markup import element, shorten
from robusttc.report.page import make_page, write_page
from robusttc.report.page_data import MOST_EXACT_VALUES
from robusttc.report.pictures import Picture, draw_matrix
from robusttc.report.thinning import thin_layers


def read_picture(picture: Picture) -> np.ndarray[Any, Any]:
    """Read a picture by another program, into values with NaN for what is not there."""
    with Image.open(io.BytesIO(picture.png)) as image:
        assert image.mode == "L"
        levels = np.asarray(image).astype(np.float64)
    if picture.is_symmetric:
        assert not np.triu(levels, 1).any()
        levels = np.maximum(levels, levels.T)
    values = picture.low + (levels - 1) / 254 * (picture.high - picture.low)
    return np.where(levels == 0, np.nan, values)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.02, 0.9])
def test_a_sparse_picture_has_every_value_to_half_a_level(seed: int, density: float) -> None:
    random = np.random.default_rng(seed)
    matrix = sparse.random_array((40, 40), density=density, rng=random, data_sampler=random.normal).tocsr()
    picture = draw_matrix(matrix)
    found = read_picture(picture)
    there = np.zeros((40, 40), dtype=bool)
    there[matrix.nonzero()] = True
    assert (np.isfinite(found) == there).all()
    assert abs(found - matrix.toarray())[there].max() <= (picture.high - picture.low) / 254 * 0.501
    assert not picture.is_symmetric


def test_a_dense_symmetric_picture_is_half_of_it() -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 4))
    matrix = vectors @ vectors.T
    matrix[3, 7] = matrix[7, 3] = np.nan
    picture = draw_matrix(matrix)
    assert picture.is_symmetric
    found = read_picture(picture)
    assert np.isnan(found[3, 7])
    assert np.nanmax(abs(found - matrix)) <= (picture.high - picture.low) / 254 * 0.501


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_a_picture_of_one_value_or_of_none(value: float) -> None:
    stored = sparse.csr_array((np.array([value]), (np.array([0]), np.array([1]))), shape=(2, 2))
    found = read_picture(draw_matrix(stored))
    assert found[0, 1] == value
    assert np.isnan(found).sum() == 3
    assert np.isnan(read_picture(draw_matrix(np.full((2, 2), np.nan)))).all()


@pytest.fixture(scope="module")
def page() -> str:
    return make_page(make_document(40)).decode()


def test_names_are_text_wherever_they_stand(page: str) -> None:
    reader = PageReader(page)
    assert reader.open == []
    names = {tag for tag, _ in reader.elements}
    assert names <= {
        *(
            "html",
            "head",
            "meta",
            "link",
            "title",
            "style",
            "body",
            "a",
            "header",
            "div",
            "button",
            "nav",
            "ul",
        ),
        *(
            "li",
            "main",
            "section",
            "h1",
            "h2",
            "h3",
            "p",
            "dl",
            "dt",
            "dd",
            "strong",
            "small",
            "b",
            "ol",
            "code",
        ),
        *(
            "figure",
            "figcaption",
            "table",
            "caption",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "svg",
            "line",
            "path",
        ),
        *(
            "rect",
            "img",
            "article",
            "span",
            "bdi",
            "details",
            "summary",
            "noscript",
            "footer",
            "dialog",
            "script",
        ),
    }
    for tag, attributes in reader.elements:
        assert not [key for key in attributes if key.startswith("on")], (tag, attributes)
        assert "style" not in attributes
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert all(
        str(attributes["id"]).startswith("picture-") for tag, attributes in reader.elements if tag == "img"
    )


def test_the_page_asks_for_nothing(page: str) -> None:
    for tag, attributes in PageReader(page).elements:
        for key in ("src", "href", "action", "srcset"):
            address = attributes.get(key)
            assert address is None or address.startswith(("data:", "#")), (tag, address)
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_this_program_and_style_alone(page: str) -> None:
    policy = str(next(a["content"] for _, a in PageReader(page).elements if a.get("http-equiv")))
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["img-src"] == "data:"
    for kind, begin, end in (
        ("style-src", "<style>", "</style>"),
        ("script-src", "<script>", "</script>\n</body>"),
    ):
        text = page.split(begin)[1].split(end)[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert parts[kind] == f"'sha256-{digest}'"


def test_the_data_is_what_the_document_says(page: str) -> None:
    document = make_document(40)
    text = page.split('id="data">')[1].split("</script>")[0]
    assert "<" not in text
    assert "\u2028" not in text
    data = json.loads(text)
    names = [task["name"] for task in document.values["tasks"]]
    assert [task["name"] for task in data["tasks"]] == names
    assert set(NASTY_NAMES[:4]) <= set(names)
    layers = document.matrices
    assert layers is not None
    assert [names[place] for place in data["matrix"]["order"]] == list(layers.task_names)
    raw = data["matrix"]["exact"]["raw"]
    row = slice(raw["begins"][7], raw["begins"][8])
    expected = layers.raw[[7], :].toarray()[0]
    assert np.allclose(expected[raw["columns"][row]], raw["values"][row], rtol=1e-3)
    assert np.count_nonzero(expected) == len(raw["columns"][row])


def test_without_a_program_summary_and_tasks_are_there(page: str) -> None:
    plain = page.split("<noscript>")[1].split("</noscript>")[0]
    assert ALARM in plain  # as text; what is markup in it is checked above
    cells = PageReader(plain).texts
    assert "billing-0001" in cells["bdi"]
    assert plain.count("<tr>") == 41
    assert "40 tasks fall into" in page.split("<noscript>")[0]


def test_pages_are_small_enough() -> None:
    document = make_document(1_491)
    assert document.matrices is not None
    assert document.matrices.raw.nnz > MOST_EXACT_VALUES
    assert len(make_page(document)) < 3_500_000
    assert len(make_page(make_document(10))) < 200_000


def test_of_very_many_tasks_some_are_drawn_and_no_cluster_is_lost() -> None:
    layers = make_document(300).matrices
    assert layers is not None
    thin = thin_layers(layers, 50)
    assert 50 <= len(thin.task_names) <= 50 + len(layers.boundaries)
    assert len(thin.boundaries) == len(layers.boundaries)
    assert [thin.task_names[begin] for begin in thin.boundaries] == [
        layers.task_names[begin] for begin in layers.boundaries
    ]
    place = {name: number for number, name in enumerate(layers.task_names)}
    kept = [place[name] for name in thin.task_names]
    assert kept == sorted(kept)
    assert (thin.completed == layers.completed[np.ix_(kept, kept)]).all()
    for name in ("measured", "raw", "verdicts", "errors"):
        whole = getattr(layers, name).toarray()[np.ix_(kept, kept)]
        assert (getattr(thin, name).toarray() == whole).all()
    assert thin_layers(layers, 300) is layers


@pytest.mark.parametrize("n_tasks", [0, 1, 3])
def test_a_run_of_which_nothing_is_known_has_a_page(n_tasks: int) -> None:
    page = make_page(make_empty_document(n_tasks)).decode()
    reader = PageReader(page)
    assert reader.open == []
    assert "No clusters were made" in page
    assert "No transfer between tasks was measured" in page
    assert "What changed" not in page
    assert "NaN" not in page.split('id="data">')[1].split("</script>")[0]
    assert not re.search(r"\b(None|nan|inf)\b", page.split("<main")[1].split("</main>")[0])


def test_clusters_and_harm_of_which_little_or_much_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    document = make_document(10)
    values = document.values
    scant = {
        "number": 7,
        "size": 1,
        "tasks": [0],
        "words": [],
        "labels": [],
        "representatives": [],
        "gain": None,
    }
    harmed = {
        "task": "nobody knows it",
        "change": {"mean": -0.1, "low": -0.2, "high": -0.05},
        "culprits": [{"task": f"culprit {number}", "effect": None} for number in range(8)],
    }
    many = {"sentence": "Many.", "n_harmed": 20, "tasks": [harmed] * 19 + [{**harmed, "culprits": []}]}
    monkeypatch.setattr("robusttc.report.sections.tasks.MOST_ROWS", 4)
    changed = {**values, "clusters": [scant], "harm": many}
    page = make_page(ReportDocument(changed, None)).decode()
    assert "No words tell it from the others." in page
    assert "and 3 more" in page
    assert "<summary>8 more</summary>" in page
    assert "no single task stands out" in page
    assert "10 tasks, the first 4 of them shown" in page
    assert PageReader(page).open == []


@pytest.mark.parametrize(
    ("helps", "mean", "answer"), [(True, 0.02, "Yes"), (True, 0.001, "Barely"), (False, 0.001, "No")]
)
def test_whether_clusters_pay_is_the_first_thing_seen(helps: bool, mean: float, answer: str) -> None:
    values = make_document(10).values
    over = {"mean": mean, "low": mean - 0.0005, "high": mean + 0.0005}
    verdict = {**values["verdicts"]["multitask"], "clusters_help": helps, "over_shared": over}
    changed = {**values, "verdicts": {"multitask": verdict, "fewshot": None}}
    page = make_page(ReportDocument(changed, None)).decode()
    assert f"<dt>Do clusters pay?</dt><dd><strong>{answer}</strong>" in page


def test_the_file_is_whole_private_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert write_page(make_document(10), path) == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().endswith(b"</html>\n")
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError):
        write_page(make_document(10), path)


def test_elements_and_names() -> None:
    assert (
        element("p", {"title": '"<', "hidden": True, "id": None}, None, "a")
        == '<p title="&quot;&lt;" hidden>a</p>'
    )
    assert element("b", None, "\x00\x1b") == "<b>\ufffd\ufffd</b>"
    long = "x" * 100 + "end"
    assert shorten(long).startswith("xxx")
    assert shorten(long).endswith("end")
    assert "…" in shorten(long)
