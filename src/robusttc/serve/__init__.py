"""One server for all tasks of a run: HTTP API and web page; it needs the extra ``serve``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach

if TYPE_CHECKING:
    from robusttc.serve.app import create_app
    from robusttc.serve.client import Client, ServerError
    from robusttc.serve.settings import ServeSettings

__all__ = ["Client", "ServeSettings", "ServerError", "create_app"]

__getattr__ = attach(
    __name__,
    {"app": ("create_app",), "client": ("Client", "ServerError"), "settings": ("ServeSettings",)},
)
