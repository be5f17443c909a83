"""The processes of a server: uvicorn, with as many workers as wanted."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvicorn

from robusttc.errors import RobustTCError
from robusttc.run import Run
from robusttc.serve.app import create_app
from robusttc.serve.metrics import MULTIPROCESS
from robusttc.serve.settings import ServeSettings

__all__ = ["app_from_environment", "run_server"]

# How a worker, which is a new process, is told what to serve.
FOLDER, SETTINGS = "ROBUSTTC_SERVE_FOLDER", "ROBUSTTC_SERVE_SETTINGS"
MAX_HEADER_BYTES = 16 * 1024


def run_server(run: Path, settings: ServeSettings) -> None:
    """Serve a run until the process is told to stop; requests in flight are answered first.

    Raises
    ------
    StoreError, UsageError
        If the run cannot be opened, or the keys cannot be read.
    """
    Run(run)  # its errors are this command's, not those of a worker
    options: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "access_log": False,  # paths name tasks
        "server_header": False,
        "log_level": "warning",
        "timeout_graceful_shutdown": max(1, round(settings.drain_seconds)),
        "timeout_keep_alive": 30,
        "h11_max_incomplete_event_size": MAX_HEADER_BYTES,
        "lifespan": "on",
    }
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    sys.stderr.write(f"Serving {run.name} at http://{shown}:{settings.port}/ (Ctrl-C stops)\n")
    if settings.workers == 1:
        uvicorn.run(create_app(run, settings), **options)
        return
    with tempfile.TemporaryDirectory(prefix="robusttc-metrics-") as metrics:
        os.environ |= {
            FOLDER: str(run.resolve()),
            SETTINGS: settings.model_dump_json(),
            MULTIPROCESS: metrics,
        }
        uvicorn.run(
            "robusttc.serve.process:app_from_environment", factory=True, workers=settings.workers, **options
        )


def app_from_environment() -> Any:
    """Return the application of a worker."""
    settings = ServeSettings.model_validate_json(os.environ[SETTINGS])
    try:
        return create_app(os.environ[FOLDER], settings)
    except RobustTCError as error:
        sys.exit(str(error))
