"""Compiled loops work where nothing can be kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from robusttc.compiling import compiled, compiled_freely


@pytest.mark.parametrize("decorate", [compiled, compiled_freely])
def test_code_is_compiled_in_every_process_where_nothing_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, decorate: Callable[[Any], Any]
) -> None:
    def refuse_to_cache(*, cache: bool = False, **_: object) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr("numba.njit", refuse_to_cache)
    assert decorate(len) is len
