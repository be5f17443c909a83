"""The remote encoder against a small server on this machine: both forms, retries, errors without the key."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from robusttc.data import Task, TaskSet
from robusttc.encoders import RemoteEncoder, VectorCache, remote
from robusttc.errors import UsageError, WorkError

Answer = tuple[int, Any, dict[str, str]]


class Service:
    """A server that answers as it is told, and remembers what it was sent."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: Callable[[dict[str, Any]], Answer] = vectors_of
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append(body)
                service.keys.append(self.headers.get("Authorization"))
                code, content, headers = service.answer(body)
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(code)
                for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(BrokenPipeError):  # the client has given up
                    self.wfile.write(raw)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.host = f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def vectors_of(body: dict[str, Any]) -> Answer:
    """Answer in the form of the question."""
    if "inputs" in body:
        return 200, [[float(len(text)), 1.0] for text in body["inputs"]], {}
    data = [
        {"index": place, "embedding": [float(len(text)), 1.0]} for place, text in enumerate(body["input"])
    ]
    return 200, {"data": data[::-1], "model": body.get("model")}, {}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(remote, "FIRST_WAIT_S", 0.001)
    made = Service()
    yield made
    made.stop()


def encoder_of(service: Service, path: str = "/embed", **options: Any) -> RemoteEncoder:
    options.setdefault("cache", VectorCache.disabled())
    return RemoteEncoder(service.host + path, **options)


@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings"])
def test_texts_are_sent_in_batches(service: Service, path: str) -> None:
    encoder = encoder_of(service, path, batch_size=2, model="some-model")
    assert encoder.encode(["a", "bcd", "", "é"]).tolist() == [[1, 1], [3, 1], [1, 1], [1, 1]]
    first = service.requests[0]
    assert len(service.requests) == 2
    assert first["model"] == "some-model"
    assert first.get("inputs", first.get("input")) == ["a", "bcd"]
    assert service.keys == [None, None]


def test_prepare_keeps_vectors_and_read_does_not(service: Service) -> None:
    encoder = encoder_of(service, cache=VectorCache.in_memory())
    encoder.read(["predicted"])
    tasks = TaskSet([Task("a", ["trained", "trained"], ["x", "x"])])
    for _ in range(2):
        encoder.prepare(tasks)
    assert [body["inputs"] for body in service.requests] == [["predicted"], ["trained"]]
    assert encoder.cache.find_missing(encoder.fingerprint, ["predicted", "trained"]) == ["predicted"]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_service_that_recovers(service: Service, code: int) -> None:
    failures = iter([(code, b"", {"Retry-After": "0"}), (code, b"busy", {})])
    service.answer = lambda body: next(failures, None) or vectors_of(body)
    assert encoder_of(service).encode(["ab"]).tolist() == [[2, 1]]
    assert len(service.requests) == 3


def test_a_service_that_stays_down(service: Service) -> None:
    service.answer = lambda _: (503, b"", {})
    with pytest.raises(WorkError, match=rf"{service.host}/embed: .*failed 3 times; got HTTP 503"):
        encoder_of(service, n_retries=2).encode(["a"])
    assert len(service.requests) == 3


def test_nobody_listens(service: Service) -> None:
    service.stop()
    with pytest.raises(WorkError, match=r"/embed: .*failed 2 times; got .*refused"):
        encoder_of(service, n_retries=1, timeout_s=5).encode(["a"])
    service.server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    service.thread = threading.Thread(target=service.server.serve_forever)
    service.thread.start()


def test_a_service_that_does_not_answer_in_time(service: Service) -> None:
    release = threading.Event()

    def hang(body: dict[str, Any]) -> Answer:
        release.wait(20)
        return vectors_of(body)

    service.answer = hang
    with pytest.raises(WorkError, match="timed out"):
        encoder_of(service, n_retries=0, timeout_s=0.1).encode(["a"])
    release.set()


def test_the_key_is_sent_and_never_shown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    service.answer = lambda _: (401, {"error": "wrong key sk-very-secret"}, {})
    encoder = encoder_of(service, key_variable="MY_KEY")
    with pytest.raises(UsageError, match=r"refuses the request.*HTTP 401.*API key in MY_KEY") as caught:
        encoder.encode(["a"])
    assert service.keys == ["Bearer sk-very-secret"]  # sent once: repeating would not help
    shown = f"{caught.value} {encoder!r} {encoder.describe()} {encoder.fingerprint}"
    assert "sk-very-secret" not in shown


def test_redirects_are_not_followed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(remote.KEY_VARIABLE, "sk-very-secret")
    service.answer = lambda _: (302, b"", {"Location": f"{service.host}/elsewhere/embed"})
    with pytest.raises(UsageError, match="HTTP 302"):
        encoder_of(service).encode(["a"])
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>", "did not return vectors; got b'<html>'"),
        ({"data": [{"embedding": [1.0]}]}, "did not return vectors"),
        ([[1.0, 2.0]], "one finite vector per text; got shape \\(1, 2\\); expected \\(2, dimensions\\)"),
        ([1.0, 2.0], "one finite vector per text"),
        (b"[[1.0], [NaN]]", "one finite vector per text"),
        ([[1.0], [2.0, 3.0]], "did not return vectors"),
    ],
)
def test_answers_that_are_not_vectors(service: Service, content: Any, message: str) -> None:
    service.answer = lambda _: (200, content, {})
    with pytest.raises(WorkError, match=message):
        encoder_of(service).encode(["a", "b"])


def test_vectors_of_different_lengths(service: Service) -> None:
    service.answer = lambda body: (200, [[0.0] * len(body["inputs"][0])], {})
    with pytest.raises(WorkError, match=r"different lengths; got \[1, 2\]"):
        encoder_of(service, batch_size=1).encode(["a", "bc"])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost/embed",
        "ftp://h/embed",
        "http:///embed",
        "http://h/",
        "http://h/v1",
        "http://[::1/embed",
        3,
    ],
)
def test_urls_that_cannot_be_used(url: Any) -> None:
    with pytest.raises(UsageError, match="URL of the embedding service cannot be used"):
        RemoteEncoder(url)


@pytest.mark.parametrize("url", ["http://me:pw12@h/embed", "https://h/embed?key=pw12"])
def test_urls_with_secrets_are_refused_without_showing_them(url: str) -> None:
    with pytest.raises(UsageError, match="environment variable") as caught:
        RemoteEncoder(url)
    assert "pw12" not in str(caught.value)


def test_identity_and_options() -> None:
    url = "http://h/embed"
    made = [RemoteEncoder(url), RemoteEncoder(url, model="m"), RemoteEncoder(url, version="2")]
    assert len({encoder.fingerprint for encoder in made}) == 3
    assert RemoteEncoder(url, batch_size=7).fingerprint == made[0].fingerprint
    for name, value in {"batch_size": 0, "timeout_s": 0, "n_retries": -1}.items():
        with pytest.raises(UsageError, match=name):
            RemoteEncoder(url, **{name: value})  # type: ignore[arg-type]
    assert np.isfinite(made[0].timeout_s)
