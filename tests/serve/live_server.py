"""A real server on loopback, in a thread of the tests' process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from robusttc.serve import ServeSettings, create_app

# The little run of the tests of runs, which is made once a process.
sys.path.append(str(Path(__file__).parents[1] / "run"))
from tiny_run import copy_of_run

__all__ = ["copy_of_run", "serving"]


@contextmanager
def serving(run: Path, **settings: Any) -> Iterator[str]:
    """Serve a run, and yield the address."""
    app = create_app(run, ServeSettings(device="cpu", **settings))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 120
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < end
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
