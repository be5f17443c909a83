"""The page without a browser: its pictures, its policy, and that names are text wherever they stand."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from typing import Any

import numpy as np
import pytest
from made_runs import ALARM, NASTY_NAMES, make_large_run, make_run, make_scores, make_summary, make_verdict
from page_reader import PageReader
from PIL import Image
from scipy import sparse

from robusttc.report import ReportDocument, make_document, make_page
from robusttc.report.plots import Picture, draw_matrix

ELEMENTS = (
    "html head meta link title style body a header div button nav ul li main section h1 h2 h3 p dl dt dd "
    "strong small b ol code figure figcaption table caption thead tbody tr th td svg line path rect img "
    "article span bdi details summary noscript footer dialog script"
)


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


@pytest.mark.parametrize("density", [0.02, 0.9])
def test_a_sparse_picture_has_every_value_to_half_a_level(density: float) -> None:
    random = np.random.default_rng(0)
    matrix = sparse.random_array((40, 40), density=density, rng=random, data_sampler=random.normal).tocsr()
    picture = draw_matrix(matrix)
    found, is_there = read_picture(picture), np.zeros((40, 40), dtype=bool)
    is_there[matrix.nonzero()] = True
    assert (np.isfinite(found) == is_there).all()
    assert abs(found - matrix.toarray())[is_there].max() <= (picture.high - picture.low) / 254 * 0.501
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
def document() -> ReportDocument:
    return make_document(make_large_run(40))


@pytest.fixture(scope="module")
def page(document: ReportDocument) -> str:
    return make_page(document).decode()


def test_names_are_text_wherever_they_stand(page: str) -> None:
    reader = PageReader(page)
    assert reader.open == []
    assert {tag for tag, _ in reader.elements} <= set(ELEMENTS.split())
    for tag, attributes in reader.elements:
        assert not [key for key in attributes if key.startswith("on")], (tag, attributes)
        assert "style" not in attributes
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert "{{ 7 * 7 }}" in page
    plain = page.split("<noscript>")[1].split("</noscript>")[0]
    assert ALARM in plain  # as text
    assert plain.count("<tr>") == 41


@pytest.mark.parametrize("title", ["<b>bold</b> & co", '"></title><script>1</script>', "\x00\x1b and \u202e"])
def test_a_title_is_text(title: str) -> None:
    page = make_page(make_document(make_run({"a": 0, "b": 0, "c": 1}), title=title)).decode()
    reader = PageReader(page)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    shown = re.sub(r"[\x00-\x1f]", "\N{REPLACEMENT CHARACTER}", title)
    assert shown in reader.texts["bdi"]


def test_the_page_asks_for_nothing(page: str) -> None:
    for tag, attributes in PageReader(page).elements:
        for key in ("src", "href", "action", "srcset"):
            address = attributes.get(key)
            assert address is None or address.startswith(("data:", "#")), (tag, address)
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_this_script_and_style_alone(page: str) -> None:
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


def test_the_data_is_what_the_document_says(page: str, document: ReportDocument) -> None:
    text = page.split('id="data">')[1].split("</script>")[0]
    assert "<" not in text
    assert "\u2028" not in text
    data = json.loads(text)
    names = [task["name"] for task in document.values["tasks"]]
    assert [task["name"] for task in data["tasks"]] == names
    assert set(NASTY_NAMES) <= set(names)
    assert document.matrices is not None
    assert [names[place] for place in data["matrix"]["order"]] == list(document.matrices.names)


def test_a_page_does_not_grow_by_what_is_shown_in_few_digits() -> None:
    # What was measured is in the page as pictures, a byte or less for each score in base64 and out of it.
    sizes, n_scores = [], []
    for density in (0.2, 0.8):
        partition = {f"task {n:03}": n % 6 for n in range(200)}
        document = make_document(make_run(partition, scores=make_scores(partition, density=density)))
        assert document.matrices is not None
        sizes.append(len(make_page(document)))
        n_scores.append(document.matrices.raw.nnz)
    assert sizes[1] - sizes[0] < 4.2 * (n_scores[1] - n_scores[0])
    assert len(make_page(make_document(make_large_run(1_491)))) < 3_500_000
    assert len(make_page(make_document(make_large_run(10)))) < 150_000


def test_of_very_many_tasks_some_are_drawn_and_no_cluster_is_lost() -> None:
    layers = make_document(make_large_run(300)).matrices
    assert layers is not None
    thin = layers.thinned(50)
    assert 50 <= len(thin.names) <= 50 + len(layers.boundaries)
    first = [layers.names[begin] for begin in layers.boundaries]
    assert [thin.names[begin] for begin in thin.boundaries] == first
    kept = [layers.names.index(name) for name in thin.names]
    assert kept == sorted(kept)
    np.testing.assert_array_equal(thin.similarity(), layers.similarity()[np.ix_(kept, kept)])
    for name in ("measured", "raw", "verdicts", "errors"):
        np.testing.assert_array_equal(
            getattr(thin, name).toarray(), getattr(layers, name).toarray()[np.ix_(kept, kept)]
        )
    assert layers.thinned(300) is layers


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_a_run_of_which_little_is_known_has_a_page(n_tasks: int) -> None:
    partition = {f"task {number}": -1 for number in range(n_tasks)}
    summary = make_summary(multitask__verdict=None, multitask__trust=None, fewshot=None, costs=[])
    run = make_run(
        partition, set_aside=dict.fromkeys(partition, "one label"), has_clusters=False, summary=summary
    )
    page = make_page(make_document(run)).decode()
    assert PageReader(page).open == []
    assert "No clusters were made" in page
    assert "No transfer between tasks was measured" in page
    assert 'href="#costs"' not in page
    assert not re.search(r"\b(None|nan|inf)\b", page.split("<main")[1].split("</main>")[0])


@pytest.mark.parametrize(
    ("helps", "mean", "answer"), [(True, 0.02, "Yes"), (True, 0.001, "Barely"), (False, 0.001, "No")]
)
def test_whether_clusters_pay_is_the_first_thing_seen(helps: bool, mean: float, answer: str) -> None:
    summary = make_summary(multitask__verdict=make_verdict(mean, helps=helps))
    page = make_page(make_document(make_run({f"t{n}": n % 2 for n in range(8)}, summary=summary))).decode()
    assert f"<dt>Do clusters pay?</dt><dd><strong>{answer}</strong>" in page
