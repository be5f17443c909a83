"""The API against its own description: whatever is sent, no fault of the server and no other answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from live_server import copy_of_run, serving
from schemathesis.specs.openapi.checks import positive_data_acceptance

QUICK, THOROUGH = 50, 1_000


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    folder = copy_of_run(tmp_path_factory.mktemp("contract") / "run")
    with serving(folder) as url:
        api = schemathesis.openapi.from_url(f"{url}/openapi.json")
        yield [found.ok() for found in api.get_all_operations()]  # type: ignore[union-attr]


def check_all(operations: list[Any], n_cases: int) -> None:
    assert len(operations) > 20
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=n_cases,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def check(case: Any) -> None:
            # That examples need two labels, and data must fill its shape, no schema can say.
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        check()


def test_every_operation_keeps_its_description(operations: list[Any]) -> None:
    check_all(operations, QUICK)


@pytest.mark.slow
def test_every_operation_keeps_its_description_thoroughly(operations: list[Any]) -> None:
    check_all(operations, THOROUGH)
