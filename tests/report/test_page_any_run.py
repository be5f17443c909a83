"""Whatever a run is like, it has a page, and the page says what the document says."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from page_reader import PageReader
from test_document_any_run import any_facts

from robusttc.report.document import describe_run
from robusttc.report.facts import RunFacts
from robusttc.report.page import make_page


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_facts())
def test_any_run_has_a_page(facts: RunFacts) -> None:
    document = describe_run(facts)
    page = make_page(document).decode()
    assert PageReader(page).open == []
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [task["name"] for task in data["tasks"]] == [task["name"] for task in document.values["tasks"]]
    assert (data["matrix"] is None) == (document.matrices is None)
