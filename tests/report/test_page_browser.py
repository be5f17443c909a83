"""The page in a real browser, at the widths of a laptop and a phone, for 10, 175 and 1,491 tasks."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import WIDTHS, log_of, open_browser, open_page, requests_of, set_screen
from made_runs import make_added, make_large_run, make_run, make_scores
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from robusttc.report import ReportDocument, make_document, make_page, write_csv

pytestmark = pytest.mark.browser

SIZES = (10, 175, 1_491)
MINUS = "\N{MINUS SIGN}"
LEAST_TARGET = 40  # pixels that a finger needs

CHECKS = (Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    driver = open_browser()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def documents() -> dict[int, ReportDocument]:
    return {n: make_document(make_large_run(n)) for n in SIZES}


@pytest.fixture(scope="module")
def pages(documents: dict[int, ReportDocument], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for n, document in documents.items():
        (folder / f"{n}.html").write_bytes(make_page(document))
    return {n: folder / f"{n}.html" for n in SIZES}


def find(browser: Chrome, selector: str) -> Any:
    return browser.find_element(By.CSS_SELECTOR, selector)


def find_all(browser: Chrome, selector: str) -> list[Any]:
    return browser.find_elements(By.CSS_SELECTOR, selector)


def run(browser: Chrome, program: str, *arguments: Any) -> Any:
    return browser.execute_script(program, *arguments)


def ask(browser: Chrome, check: str, *arguments: Any) -> Any:
    return run(browser, f"{CHECKS} return {check}(...arguments)", *arguments)


def wait(browser: Chrome) -> None:
    browser.execute_async_script("setTimeout(arguments[0], 100)")


def laptop(browser: Chrome, path: Path) -> None:
    set_screen(browser, WIDTHS["laptop"])
    open_page(browser, path)


@pytest.mark.parametrize(
    ("n", "screen", "dark"),
    [
        *((10, "laptop", False), (10, "phone", True), (175, "laptop", True), (175, "phone", False)),
        *((1_491, "laptop", False), (1_491, "phone", True)),
    ],
)
def test_it_opens_without_errors_requests_or_harm(
    browser: Chrome, pages: dict[int, Path], n: int, screen: str, dark: bool
) -> None:
    set_screen(browser, WIDTHS[screen], dark=dark)
    open_page(browser, pages[n])
    assert log_of(browser, "browser") == []
    assert {address for address in requests_of(browser) if not address.startswith("data:")} == {
        pages[n].as_uri()
    }
    assert run(browser, "return window.robusttcAlarm") is None
    run(browser, "document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    check_layout(browser, WIDTHS[screen])
    assert ask(browser, "findPale") == []
    if screen == "phone":
        assert ask(browser, "findSmall", LEAST_TARGET - 0.5) == []


def check_layout(browser: Chrome, width: int) -> None:
    """No text is cut, nothing lies beyond the screen, and the page does not scroll sideways."""
    assert run(browser, "return document.documentElement.scrollWidth") <= width
    assert ask(browser, "findCut", width) == []


def canvas_at(browser: Chrome, across: float, down: float) -> ActionChains:
    """Move the mouse to a place on the matrix, given as shares of it."""
    canvas = find(browser, ".matrix-canvas")
    run(browser, "arguments[0].scrollIntoView({ block: 'center' })", canvas)
    size = canvas.size
    return ActionChains(browser, duration=0).move_to_element_with_offset(
        canvas, int((across - 0.5) * size["width"]), int((down - 0.5) * size["height"])
    )


def choose(browser: Chrome, key: str) -> None:
    label = find(browser, f"label[for={key}]")
    run(browser, "arguments[0].scrollIntoView({ block: 'center' })", label)
    label.click()
    wait(browser)


def read_pair(browser: Chrome) -> tuple[list[str], str]:
    """Give the names of the two tasks in the readout, and its text."""
    names = [
        link.get_attribute("title") or link.get_property("textContent")
        for link in find_all(browser, ".readout .link")
    ]
    return names, find(browser, ".readout").text


@pytest.mark.parametrize("n", SIZES)
def test_pointing_at_a_cell_gives_the_names_and_values_of_two_tasks(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument], n: int
) -> None:
    laptop(browser, pages[n])
    layers = documents[n].matrices
    assert layers is not None
    place = {name: number for number, name in enumerate(layers.names)}
    choose(browser, "view-all")
    seen = set()
    for across, down in ((0.93, 0.9), (0.6, 0.7), (0.35, 0.95), (0.5, 0.5)):
        canvas_at(browser, across, down).perform()
        names, text = read_pair(browser)
        assert len(names) == 2
        row, column = (place[name] for name in names)
        seen.add((row, column))
        value = re.search(rf"about ([+{MINUS}]?[\d.]+), from", text)
        assert value is not None, text
        expected = float(layers.points[row] @ layers.points[column])
        assert float(value[1].replace(MINUS, "-")) == pytest.approx(expected, abs=0.012)
        is_measured = layers.raw[row, column] != 0 or layers.raw[column, row] != 0
        assert ("not measured" not in text) == (is_measured or row == column)
    assert len(seen) == 4


def test_a_pair_that_was_measured_one_way_is_never_called_not_measured(
    browser: Chrome, tmp_path: Path
) -> None:
    partition = {f"task {number}": number % 2 for number in range(8)}
    document = make_document(make_run(partition, scores=make_scores(partition, one_way=True)))
    (tmp_path / "page.html").write_bytes(make_page(document))
    laptop(browser, tmp_path / "page.html")
    canvas = find(browser, ".matrix-canvas")
    canvas.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    other_way = read_pair(browser)[1]
    canvas.send_keys(Keys.ARROW_LEFT, Keys.ARROW_DOWN)
    for text in (other_way, read_pair(browser)[1]):
        assert "not measured" not in text
        assert "standard deviations" in text or "only the other way round" in text


@pytest.mark.parametrize("n_tasks", [42, 60])
def test_names_stand_beside_the_matrix(browser: Chrome, tmp_path: Path, n_tasks: int) -> None:
    partition = {f"client-{number:03}": number % 5 for number in range(n_tasks)}
    (tmp_path / "page.html").write_bytes(make_page(make_document(make_run(partition))))
    laptop(browser, tmp_path / "page.html")
    canvas = find(browser, ".matrix-canvas")
    assert "tasks." in find(browser, ".matrix-tools").text
    assert canvas.get_attribute("data-named") == "true"


def test_the_table_can_be_taken_away_as_csv(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument]
) -> None:
    laptop(browser, pages[175])
    browser.execute_script(
        "const make = URL.createObjectURL;"
        "const keep = (text) => { window.saved = text; };"
        "URL.createObjectURL = (blob) => { blob.text().then(keep); return make(blob); };"
    )
    run(browser, "document.getElementById('download').click()")
    wait(browser)
    saved = list(csv.DictReader(io.StringIO(run(browser, "return window.saved"))))
    expected = list(csv.DictReader(io.StringIO(write_csv(documents[175]))))
    assert len(saved) == 175
    # A name that a spreadsheet would take for a formula has an apostrophe; else they are the same.
    found = {row["task"].removeprefix("'"): row for row in saved}
    assert "'=HYPERLINK(1)" in {row["task"] for row in saved}
    for row in expected:
        one = found[row["task"]]
        assert list(one) == list(row)
        for key in row.keys() - {"task"}:
            if "." in row[key]:
                assert float(one[key]) == pytest.approx(float(row[key]), abs=2e-4)
            else:
                assert one[key] == row[key]


def test_a_task_that_is_like_no_other_has_no_neighbours(browser: Chrome, tmp_path: Path) -> None:
    partition = {**{f"task {number}": number % 2 for number in range(8)}, "odd": -1}
    (tmp_path / "page.html").write_bytes(
        make_page(make_document(make_run(partition, added={"odd": make_added(-1)})))
    )
    laptop(browser, tmp_path / "page.html")
    link = next(link for link in find_all(browser, ".tasks .link") if link.text == "odd")
    run(browser, "arguments[0].click()", link)
    text = find(browser, "dialog").text
    assert "none fits" in text
    assert "similarity" not in text


def test_keys_move_through_the_matrix_and_a_reader_hears_it(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument]
) -> None:
    laptop(browser, pages[10])
    matrices = documents[10].matrices
    assert matrices is not None
    names = matrices.names
    find(browser, ".matrix-canvas").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert read_pair(browser)[0] == [names[1], names[1]]
    find(browser, ".matrix-canvas").send_keys(Keys.ARROW_DOWN)
    assert read_pair(browser)[0] == [names[2], names[1]]
    spoken = find(browser, ".matrix-side [aria-live]").get_property("textContent")
    assert names[2] in spoken
    assert names[1] in spoken


def zoom_of(browser: Chrome) -> float:
    return float(find(browser, ".matrix-canvas").get_attribute("data-zoom"))


def test_the_matrix_zooms_by_buttons_keys_wheel_and_fingers(browser: Chrome, pages: dict[int, Path]) -> None:
    laptop(browser, pages[175])
    choose(browser, "view-all")
    canvas = find(browser, ".matrix-canvas")
    before = run(browser, "return arguments[0].toDataURL()", canvas)
    find(browser, "button[aria-label='Zoom in']").click()
    assert zoom_of(browser) == pytest.approx(1.6)
    assert run(browser, "return arguments[0].toDataURL()", canvas) != before
    canvas.send_keys("+")
    assert zoom_of(browser) > 2
    canvas.send_keys("0")
    assert zoom_of(browser) == 1
    # A wheel scrolls the page, until the matrix was clicked.
    wheel = ActionChains(browser, duration=0).scroll_from_origin
    canvas_at(browser, 0.6, 0.6).perform()
    run(browser, "document.activeElement.blur()")
    wheel(ScrollOrigin.from_element(canvas), 0, -120).perform()
    assert zoom_of(browser) == 1
    canvas_at(browser, 0.6, 0.6).click().perform()
    ActionChains(browser, duration=0).scroll_from_origin(ScrollOrigin.from_element(canvas), 0, -240).perform()
    assert zoom_of(browser) > 1.2
    held = read_pair(browser)[0]
    canvas_at(browser, 0.9, 0.9).perform()
    assert read_pair(browser)[0] == held, "a click holds its cell"
    find(browser, "button[aria-label='Show all']").click()
    pinch(browser, canvas)
    assert zoom_of(browser) > 1.5


def pinch(browser: Chrome, canvas: Any) -> None:
    """Put two fingers on the matrix and spread them."""
    run(browser, "arguments[0].scrollIntoView({ block: 'center' })", canvas)
    box = run(browser, "return arguments[0].getBoundingClientRect().toJSON()", canvas)
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def touch(kind: str, apart: int) -> None:
        points = [{"x": middle[0] + side * apart, "y": middle[1], "id": side + 1} for side in (-1, 1)]
        values = {"type": kind, "touchPoints": [] if kind == "touchEnd" else points}
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", values)

    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    touch("touchStart", 40)
    for apart in (60, 90, 120):
        touch("touchMove", apart)
    touch("touchEnd", 120)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


@pytest.mark.parametrize("n", SIZES[1:])
def test_many_tasks_begin_as_blocks_that_lead_to_their_tasks(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument], n: int
) -> None:
    laptop(browser, pages[n])
    layers = documents[n].matrices
    assert layers is not None
    canvas = find(browser, ".matrix-canvas")
    canvas.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    text = find(browser, ".readout").text
    ends = layers.boundaries
    size = ends[3] - ends[2]
    assert re.search(rf"cluster {layers.labels[ends[2]]}(: .*)?, {size:,} task", text)
    block = layers.points[ends[2] : ends[3]] @ layers.points[ends[1] : ends[2]].T
    shown = re.search(rf"Completed\s+([{MINUS}\d.]+)", text)
    assert shown is not None
    assert float(shown[1].replace(MINUS, "-")) == pytest.approx(float(block.mean()), abs=0.012)
    canvas.send_keys(Keys.ENTER)
    wait(browser)
    assert (
        f"From cluster {layers.labels[ends[2]]} to cluster {layers.labels[ends[1]]}"
        in find(browser, ".matrix-tools").text
    )
    canvas.send_keys(Keys.ARROW_RIGHT)
    first = [layers.names[layers.boundaries[group]] for group in (2, 1)]
    assert read_pair(browser)[0] == first
    canvas.send_keys(Keys.ESCAPE)
    wait(browser)
    assert "blocks" in find(browser, ".matrix-tools").text


def as_answer(name: str) -> str:
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("n", SIZES)
def test_the_table_sorts_searches_and_turns_pages(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument], n: int
) -> None:
    laptop(browser, pages[n])
    tasks = documents[n].values["tasks"]
    with_own = [task for task in tasks if task["accuracy"]["own"]]
    heads = {head.text.split(" ")[0]: head for head in find_all(browser, ".tasks thead th")}
    for is_down in (True, False):
        run(browser, "arguments[0].click()", heads["Single-task"].find_element(By.CSS_SELECTOR, "button"))
        assert heads["Single-task"].get_attribute("aria-sort") == ("descending" if is_down else "ascending")
        order = sorted(with_own, key=lambda task: round(task["accuracy"]["own"]["mean"], 4), reverse=is_down)
        assert ask(browser, "findRows")[0] == as_answer(order[0]["name"])
        shown = [float(text.split()[0]) for text in ask(browser, "findOwn")[: len(with_own)]]
        assert shown == sorted(shown, reverse=is_down)
    if n > 25:
        first = ask(browser, "findRows")
        run(browser, "[...document.querySelectorAll('.pages button')].at(-1).click()")
        assert not set(first) & set(ask(browser, "findRows"))
        assert "Page 2 of" in find(browser, ".pages").text
    search = find(browser, "#search")
    search.send_keys("ALARM")
    expected = sorted(task["name"] for task in tasks if "alarm" in task["name"].lower())
    assert sorted(ask(browser, "findRows")) == expected
    assert find(browser, "[role=status]").text == f"{len(expected)} of {n:,} tasks."
    search.clear()
    search.send_keys("<b>no such</b>")
    assert ask(browser, "findRows") == []
    assert find(browser, "[role=status]").text == f"0 of {n:,} tasks."


def test_a_cluster_filters_table_and_matrix(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument]
) -> None:
    laptop(browser, pages[175])
    cluster = documents[175].values["clusters"][3]
    card = find(browser, f".cluster-card[data-cluster='{cluster['number']}']")
    run(browser, "arguments[0].click()", card.find_element(By.CSS_SELECTOR, ".filter"))
    wait(browser)
    assert find(browser, "[role=status]").text == f"{cluster['size']} of 175 tasks."
    tasks = documents[175].values["tasks"]
    assert set(ask(browser, "findRows")) <= {as_answer(tasks[place]["name"]) for place in cluster["tasks"]}
    assert f"Within cluster {cluster['number']}" in find(browser, ".matrix-tools").text
    run(browser, "arguments[0].click()", card.find_element(By.CSS_SELECTOR, ".filter"))
    assert find(browser, "[role=status]").text == "175 tasks."


@pytest.mark.parametrize("screen", list(WIDTHS))
def test_details_of_a_task(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument], screen: str
) -> None:
    set_screen(browser, WIDTHS[screen])
    open_page(browser, pages[175])
    tasks = {task["name"]: task for task in documents[175].values["tasks"]}
    name = next(name for name, task in tasks.items() if task["harmed"])
    link = next(link for link in find_all(browser, "#harm .link") if link.get_property("textContent") == name)
    run(browser, "arguments[0].click()", link)
    dialog = find(browser, "dialog")
    assert dialog.find_element(By.CSS_SELECTOR, "h2").text == name
    assert "these serve it worst" in dialog.text
    assert f"--task='{name}'" in dialog.text
    nearest = tasks[name]["nearest"][0][0]
    check_layout(browser, WIDTHS[screen])
    link = next(link for link in dialog.find_elements(By.CSS_SELECTOR, ".link") if link.text == nearest)
    run(browser, "arguments[0].click()", link)
    assert dialog.find_element(By.CSS_SELECTOR, "h2").text == nearest
    dialog.send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()


def test_the_colours_switch_and_the_picture_of_gains_speaks(browser: Chrome, pages: dict[int, Path]) -> None:
    laptop(browser, pages[175])
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = run(browser, ground)
    find(browser, "#theme").click()
    assert run(browser, ground) != before
    assert find(browser, "#theme").text == "Light colours"
    find(browser, "#theme").click()
    assert run(browser, ground) == before
    # The choice is kept for other pages; not here.
    run(browser, "localStorage.clear()")
    plot = find(browser, ".gains-plot canvas")
    plot.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "points" in find(browser, ".said").text
    assert find_all(browser, ".said .link")
    plot.send_keys(Keys.ENTER)
    assert find(browser, "dialog").is_displayed()


def test_paper_has_everything(browser: Chrome, pages: dict[int, Path]) -> None:
    set_screen(browser, WIDTHS["laptop"], dark=True)
    open_page(browser, pages[175])
    n_closed = len(find_all(browser, "details:not([open])"))
    assert n_closed
    run(browser, "window.dispatchEvent(new Event('beforeprint'))")
    assert find_all(browser, "details:not([open])") == []
    assert len(ask(browser, "findRows")) == 175
    corner = (
        "return [...document.querySelector('.matrix-canvas').getContext('2d').getImageData(9, 9, 1, 1).data]"
    )
    assert run(browser, corner) == [255] * 4, "paper is light, also where the screen is dark"
    # Paper of the size A4, less its margins.
    set_screen(browser, 718)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    check_layout(browser, 718)
    set_screen(browser, WIDTHS["laptop"], dark=True)
    run(browser, "window.dispatchEvent(new Event('afterprint'))")
    assert len(find_all(browser, "details:not([open])")) == n_closed
    assert len(ask(browser, "findRows")) == 25
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.7})
    content = base64.b64decode(printed["data"])
    assert content.startswith(b"%PDF")
    # Cards of eight clusters and 175 rows do not fit on fewer.
    assert len(re.findall(rb"/Type\s*/Page\b", content)) >= 8
    wait(browser)
    assert run(browser, corner) != [255] * 4
    assert len(ask(browser, "findRows")) == 25


def test_without_a_script_it_can_be_read(
    browser: Chrome, pages: dict[int, Path], documents: dict[int, ReportDocument]
) -> None:
    set_screen(browser, WIDTHS["phone"])
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(pages[10].as_uri())
        text = find(browser, "body").text
        pictures = [picture.is_displayed() for picture in find_all(browser, ".without-script img")]
        width = run(browser, "return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    values = documents[10].values
    assert values["headline"]["sentences"][0] in text
    assert all(task["name"] in text for task in values["tasks"])
    assert pictures == [True] * 4
    assert width == WIDTHS["phone"]


def test_a_run_of_which_little_is_known_opens(browser: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    document = make_document(make_run({"a": -1, "b": -1}, set_aside={"a": "one label"}, has_clusters=False))
    path.write_bytes(make_page(document))
    laptop(browser, path)
    assert log_of(browser, "browser") == []
    assert len(ask(browser, "findRows")) == 2
    check_layout(browser, WIDTHS["laptop"])
