"""The pages of a server in a real browser: search, try, a new client until its first answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import copy_of_run, serving
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from robusttc.serve.keys import issue_key
from robusttc.serve.tenants import task_id

sys.path.append(str(Path(__file__).parents[1] / "report"))
from browser import WIDTHS, log_of, open_browser, set_screen

pytestmark = pytest.mark.browser

ROWS = "text,label\n" + "".join(
    f"{text} {n},{label}\n"
    for label, text in (("ship", "where is my parcel"), ("refund", "give my money back"))
    for n in range(4)
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    driver = open_browser()
    set_screen(driver, WIDTHS["laptop"])
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(copy_of_run(tmp_path_factory.mktemp("pages") / "run")) as found:
        yield found


def find(browser: Chrome, selector: str) -> Any:
    return browser.find_element(By.CSS_SELECTOR, selector)


def wait_for(browser: Chrome, selector: str, part: str = "") -> Any:
    def is_there(_: Chrome) -> Any:
        found = browser.find_elements(By.CSS_SELECTOR, selector)
        return found[0] if found and part in found[0].text else False

    # The page may put another element in the place of the one that was found.
    return WebDriverWait(browser, 60, ignored_exceptions=[StaleElementReferenceException]).until(is_there)


def test_a_task_is_found_and_tried(browser: Chrome, url: str) -> None:
    browser.get(url)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".dot")) >= 5
    find(browser, "#q").send_keys("TASK 0", Keys.ENTER)
    wait_for(browser, "tbody tr")
    assert [one.text for one in browser.find_elements(By.CSS_SELECTOR, "tbody a")] == ["task 0"]
    find(browser, "tbody a").click()
    wait_for(browser, "#task-title", "task 0")
    find(browser, "#text").send_keys("where is my parcel now")
    wait_for(browser, "#answer .is-first")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#answer meter")) == 3
    assert "most similar example" in find(browser, "#answer").text
    find(browser, "#conflicts").click()
    wait_for(browser, "#conflict-list li, #conflict-list p:not(.soft)")
    browser.get(f"{url}/?q=nowhere")
    assert "No task has" in find(browser, "main").text
    assert log_of(browser, "browser") == []


def test_a_new_client_from_wrong_rows_to_its_first_answer(browser: Chrome, url: str, tmp_path: Path) -> None:
    browser.get(f"{url}/new")
    find(browser, "#name").send_keys("acme")
    find(browser, "#rows").send_keys("text,label\nhello,greet\n,bye\n")
    find(browser, ".primary").click()
    wait_for(browser, "#outcome .problems", ":3:")
    file = tmp_path / "rows.csv"
    file.write_text(ROWS)
    find(browser, "#file").send_keys(str(file))
    wait_for(browser, "#new")
    WebDriverWait(browser, 10).until(lambda _: find(browser, "#rows").get_attribute("value") == ROWS)
    find(browser, "#check").click()
    wait_for(browser, "#outcome .done", "8 examples can be used")
    find(browser, ".primary").click()
    wait_for(browser, "#outcome .done", "Expected accuracy")
    find(browser, "#text").send_keys("where is my parcel")
    wait_for(browser, "#answer .is-first", "ship")
    find(browser, "#outcome a").click()
    wait_for(browser, "#task-title", "acme")
    assert log_of(browser, "browser") == []


@pytest.mark.parametrize("screen", WIDTHS)
@pytest.mark.parametrize("path", ["/", f"/tasks/{task_id('task 0')}", "/new"])
def test_no_page_is_wider_than_the_screen(browser: Chrome, url: str, path: str, screen: str) -> None:
    set_screen(browser, WIDTHS[screen])
    browser.get(url + path)
    width = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(width) <= 0
    set_screen(browser, WIDTHS["laptop"])


def test_pages_need_the_admin_key_where_there_are_keys(browser: Chrome, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    admin, own = issue_key(file, task=None), issue_key(file, task="acme")
    with serving(copy_of_run(tmp_path / "run"), key_file=file) as url:
        browser.get(url)
        find(browser, "#key").send_keys(own, Keys.ENTER)
        wait_for(browser, ".problem", "not the admin key")
        find(browser, "#key").send_keys(admin, Keys.ENTER)
        wait_for(browser, "#map-title")
        browser.get(f"{url}/new")
        find(browser, "#name").send_keys("acme")
        find(browser, "#rows").send_keys(ROWS)
        find(browser, ".primary").click()  # a change: the token of the page goes with it
        wait_for(browser, "#outcome .done", "has been learned")
        find(browser, "header form button").click()
        wait_for(browser, "#key")
