"""The application: one run, one encoder, all its tasks, over HTTP."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException

from robusttc.errors import DataError, RobustTCError, StoreError, UnknownTaskError, UsageError
from robusttc.serve import inference_protocol, pages, routes
from robusttc.serve.access import Access
from robusttc.serve.batching import Batcher, OverloadedError
from robusttc.serve.limits import Limits, problem
from robusttc.serve.metrics import Metrics
from robusttc.serve.service import ConflictError, Service
from robusttc.serve.settings import ServeSettings
from robusttc.serve.tenants import ServedRun
from robusttc.version import __version__

__all__ = ["create_app"]

logger = logging.getLogger("robusttc")
PROBLEM = "application/problem+json"
RELOAD_SECONDS = 1.0


def create_app(run: str | Path, settings: ServeSettings | None = None) -> Any:
    """Return the ASGI application that serves a run.

    Parameters
    ----------
    run
        The folder of the run.
    settings
        Limits and keys; by default those of ``robusttc serve``.

    Raises
    ------
    StoreError
        If the run cannot be opened, or the keys cannot be read.
    """
    settings = ServeSettings() if settings is None else settings
    metrics = Metrics()
    served = ServedRun(Path(run), settings, metrics)
    access = Access(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher = Batcher(
            served.answer,
            batch_tokens=settings.batch_tokens,
            max_queued_tokens=settings.max_queued_tokens,
            max_task_share=settings.max_task_share,
            metrics=metrics,
        )
        batcher.start()
        app.state.service = Service(served, batcher, settings)
        watch = asyncio.create_task(watch_versions(served))
        await asyncio.to_thread(served.warm_up)
        app.state.service.finish_removals()  # which an earlier process had begun
        yield
        watch.cancel()
        await batcher.close()
        await app.state.service.close()

    app = FastAPI(
        title="robusttc",
        version=__version__,
        description="Predictions, onboarding and explanations for all tasks of a run.",
        lifespan=lifespan,
        redoc_url=None,
        docs_url=None,
        responses={"4XX": {"description": "The request was refused", "content": {PROBLEM: {}}}},
    )
    app.state.access, app.state.settings, app.state.metrics = access, settings, metrics
    add_error_handlers(app)
    add_health(app, metrics)
    app.include_router(routes.info_router)
    app.include_router(routes.router)
    app.include_router(inference_protocol.router)
    app.include_router(pages.router)
    return Limits(app, settings, metrics)


async def watch_versions(served: ServedRun) -> None:
    """Load a new version of the run ahead of the first request for it."""
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        await asyncio.to_thread(served.refresh)


def add_health(app: FastAPI, metrics: Metrics) -> None:
    """Add what watches the server."""

    @app.get("/livez", tags=["health"], response_class=PlainTextResponse)
    async def livez() -> PlainTextResponse:
        """Whether the process answers at all."""
        return PlainTextResponse("ok\n")

    @app.get("/readyz", tags=["health"], response_class=PlainTextResponse)
    async def readyz(request: Request) -> PlainTextResponse:
        """Whether predictions are made: one is, ahead of the queue."""
        await request.app.state.service.probe()
        return PlainTextResponse("ok\n")

    @app.get("/metrics", tags=["health"], response_class=PlainTextResponse)
    async def show_metrics(request: Request) -> Response:
        """Return the figures of the server for Prometheus."""
        request.app.state.access.require_admin(request)
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


def problem_response(
    status: int, detail: str, headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Return an error as RFC 9457 has it."""
    return Response(problem(status, detail, **more), status, headers, PROBLEM)


def add_error_handlers(app: FastAPI) -> None:
    """Turn every error into a problem document; none shows a trace of the program or a path."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        errors = [{"field": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
        return problem_response(422, "the request is not as the API describes it", errors=errors)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return problem_response(error.status_code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(OverloadedError)
    async def overloaded(_: Request, error: OverloadedError) -> Response:
        what = "too many texts of this task wait" if error.of_task else "too many texts wait"
        retry = {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
        return problem_response(429 if error.of_task else 503, what, retry)

    @app.exception_handler(UnknownTaskError)
    async def unknown(_: Request, __: UnknownTaskError) -> Response:
        return problem_response(404, "there is no such task")

    @app.exception_handler(ConflictError)
    async def conflict(_: Request, error: ConflictError) -> Response:
        return problem_response(error.status, str(error), error.headers)

    @app.exception_handler(RobustTCError)
    async def failed(_: Request, error: RobustTCError) -> Response:
        if isinstance(error, UsageError | DataError):
            return problem_response(422, str(error))
        logger.error("a request failed: %s", error)
        what = "the run on disk is damaged" if isinstance(error, StoreError) else "the work could not be done"
        return problem_response(503, what, {"Retry-After": "5"})

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        logger.error("a request failed: %s", type(error).__name__)
        return problem_response(500, "this is a fault of the server")
