"""What is refused before the application sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from robusttc.serve.limits import Limits
from robusttc.serve.metrics import Metrics
from robusttc.serve.settings import ServeSettings


class Server:
    """The middleware around an application that answers with the size of the body, after a while."""

    def __init__(self, *, seconds: float = 0.0, **settings: Any) -> None:
        self.seconds = seconds
        self.was_stopped = False
        self.n_seen = 0
        self.limits = Limits(self.app, ServeSettings(**settings), Metrics())

    async def app(self, _scope: Any, receive: Any, send: Any) -> None:
        self.n_seen += 1
        body = (await receive())["body"]
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.was_stopped = True
            raise
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(body)).encode()})

    async def request(
        self,
        parts: Sequence[bytes] = (b"",),
        *,
        host: bytes = b"127.0.0.1:8080",
        length: int | None = None,
        pause: float = 0.0,
        path: str = "/v1/predict",
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        waiting = list(parts)
        sent: list[Any] = []

        async def receive() -> Any:
            await asyncio.sleep(pause)
            if not waiting:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", host)]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        await self.limits({"type": "http", "path": path, "headers": headers}, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"]), b"".join(one["body"] for one in sent[1:])


def ask(server: Server, *parts: bytes, **options: Any) -> tuple[int, dict[bytes, bytes], bytes]:
    return asyncio.run(server.request(parts or (b"",), **options))


def test_a_body_within_the_limit_arrives_whole() -> None:
    status, _, body = ask(Server(max_body_bytes=1_024), b"a" * 1_000, b"b" * 24)
    assert (status, body) == (200, b"1024")


@pytest.mark.parametrize("length", [None, 1, 10**9])
def test_a_larger_body_is_refused_whatever_it_says_of_its_length(length: int | None) -> None:
    server = Server(max_body_bytes=1_024)
    status, headers, body = ask(server, b"a" * 1_000, b"b" * 25, length=length)
    assert (status, server.n_seen) == (413, 0)
    assert json.loads(body)["status"] == 413
    assert headers[b"content-type"] == b"application/problem+json"


def test_a_slow_body_is_given_up() -> None:
    status, _, _ = ask(Server(read_seconds=0.1), b"a", b"b", pause=0.3)
    assert status == 408


def test_work_that_takes_too_long_is_stopped() -> None:
    server = Server(seconds=30, request_seconds=0.1)
    status, _, _ = ask(server)
    assert status == 504
    assert server.was_stopped


def test_more_requests_than_allowed_are_told_to_come_back_but_health_is_answered() -> None:
    async def main() -> None:
        server = Server(seconds=0.5, max_requests=2)
        running = [asyncio.create_task(server.request()) for _ in range(2)]
        await asyncio.sleep(0.1)
        status, headers, _ = await server.request()
        assert status == 503
        assert int(headers[b"retry-after"]) > 0
        status, _, _ = await server.request(path="/livez")
        assert status == 200
        assert [(await one)[0] for one in running] == [200, 200]
        assert (await server.request())[0] == 200  # its turn is over

    asyncio.run(main())


@pytest.mark.parametrize("host", [b"evil.example", b"", b"127.0.0.1.evil.example", b"[::2]:80"])
def test_another_host_is_refused(host: bytes) -> None:
    assert ask(Server(), host=host)[0] == 421


@pytest.mark.parametrize("host", [b"localhost", b"LOCALHOST:1", b"[::1]:8080", b"bots.example"])
def test_hosts_that_are_named_are_answered(host: bytes) -> None:
    assert ask(Server(allowed_hosts=("bots.example",)), host=host)[0] == 200


def test_every_answer_has_the_headers_of_safety() -> None:
    for status, headers, _ in (ask(Server()), ask(Server(), host=b"evil")):
        assert status in {200, 421}
        assert headers[b"x-content-type-options"] == b"nosniff"
        assert b"default-src 'none'" in headers[b"content-security-policy"]


def test_another_address_than_loopback_needs_keys() -> None:
    with pytest.raises(ValueError, match="key-file"):
        ServeSettings(host="192.0.2.1")
