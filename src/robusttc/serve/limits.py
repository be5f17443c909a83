"""What every request passes before the application sees it: its size, its time, its host, its turn.

A plain ASGI middleware, so that a body is counted while it arrives, and no more than its limit is kept.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from robusttc.serve.metrics import Metrics
from robusttc.serve.settings import LOOPBACK, ServeSettings

__all__ = ["Limits", "problem"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# Asked by machines that watch the server: they are answered however busy it is.
UNLIMITED = ("/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready")
CONTENT_SECURITY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"  # noqa: E501
# The page of the OpenAPI document loads its script from elsewhere and is not under our control.
HEADERS = {
    b"content-security-policy": CONTENT_SECURITY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


def problem(status: int, detail: str, **more: Any) -> bytes:
    """Return an error as RFC 9457 has it."""
    title = HTTPStatus(status).phrase
    return json.dumps(
        {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    ).encode()


class RefusedError(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, detail, retry_after


class Limits:
    """The middleware."""

    def __init__(self, app: App, settings: ServeSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self.n_running = 0
        named = {name.lower() for name in (*settings.allowed_hosts, *LOOPBACK, "[::1]")}
        # Someone who listens on all addresses and names none has a proxy in front.
        is_open = settings.host in {"0.0.0.0", "::"} and not settings.allowed_hosts  # noqa: S104
        self.allowed_hosts = None if is_open else named | {settings.host.lower()}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        started = time.perf_counter()
        unlimited = scope["path"] in UNLIMITED
        self.n_running += not unlimited
        try:
            self.check_host(scope)
            if not unlimited and self.n_running > self.settings.max_requests:
                raise RefusedError(503, "too many requests at a time", retry_after=1)
            body = await self.read_body(scope, receive)
            async with asyncio.timeout(self.settings.request_seconds):
                await self.app(scope, replay(body, receive), answer.send)
        except RefusedError as error:
            await answer.refuse(error)
        except TimeoutError:
            await answer.refuse(RefusedError(504, "the request took too long and was stopped"))
        finally:
            self.n_running -= not unlimited
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.observe_request(route, answer.status, time.perf_counter() - started)

    def check_host(self, scope: MutableMapping[str, Any]) -> None:
        """Refuse a request that is addressed to another name, as DNS rebinding would make one."""
        if self.allowed_hosts is None:
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = hosts[0].lower() if len(hosts) == 1 else ""
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.rsplit(":", 1)[0]
        if name not in self.allowed_hosts:
            raise RefusedError(421, "this server does not answer for that host; name it with --allowed-hosts")

    async def read_body(self, scope: MutableMapping[str, Any], receive: Receive) -> bytes:
        """Read the body up to its limit, within its time."""
        limit = self.settings.max_body_bytes
        too_large = RefusedError(413, f"the body has more than {limit:,} bytes")
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if lengths and lengths[0].isdigit() and int(lengths[0]) > limit:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.settings.read_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(400, "the body ended early")
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RefusedError(408, "the body did not arrive in time") from None


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body at once, and then what the server says."""
    sent = False

    async def give() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


class _Answer:
    """Passes an answer on, with the headers of safety, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((name, value) for name, value in HEADERS.items() if name not in present),
            ]
        await self._send(message)

    async def refuse(self, error: RefusedError) -> None:
        if self.status:
            return  # the answer has begun; the server closes the connection
        headers = [(b"content-type", b"application/problem+json")]
        if error.retry_after is not None:
            headers.append((b"retry-after", str(error.retry_after).encode()))
        if error.status in {408, 413}:
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        await self.send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": problem(error.status, error.detail)})
