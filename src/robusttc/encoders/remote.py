"""Vectors from an HTTP embedding service: OpenAI's ``/v1/embeddings``, or ``/embed`` of TEI.

Many servers speak one of the two, such as vLLM, Ollama, llama.cpp and infinity, or Hugging Face's
text-embeddings-inference (TEI).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from robusttc.encoders.base import Encoder
from robusttc.encoders.cache import VectorCache, default_cache
from robusttc.errors import UsageError, WorkError, quote
from robusttc.params import Integer, Number, check_param
from robusttc.version import __version__

__all__ = ["RemoteEncoder"]

KEY_VARIABLE = "ROBUSTTC_EMBEDDING_KEY"
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
MAX_RESPONSE_BYTES = 2**28


class RemoteEncoder(Encoder):
    """Texts as the vectors that an HTTP service returns.

    The URL says what the service speaks: TEI's form where it ends in ``/embed``, OpenAI's where it ends in
    ``/embeddings``. Requests that fail (no connection, 429, 5xx) are repeated with growing pauses.

    Parameters
    ----------
    url
        The full URL of the service, ``http`` or ``https``.
    model
        The name of the service's model; OpenAI's form usually needs one.
    version
        Change it when the service's model has changed under the same name: vectors are kept by URL, model and
        version, because a service does not tell when its vectors change.
    key_variable
        The environment variable with the API key; without a key in it, none is sent.
    batch_size
        Texts per request, from 1 up.
    timeout_s
        Seconds that a request may take, above 0.
    n_retries
        How often a failed request is repeated, from 0 up.
    cache
        Where vectors are kept; None takes the user's cache folder, `VectorCache.disabled()` keeps none.

    Raises
    ------
    UsageError
        If the URL or a number cannot be used.

    Examples
    --------
    >>> RemoteEncoder("http://localhost:8080/embed")
    RemoteEncoder(url='http://localhost:8080/embed')
    """

    name = "remote"
    _options = ("url", "model", "version", "key_variable", "batch_size", "timeout_s", "n_retries")
    cache: VectorCache

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        version: str = "",
        key_variable: str = KEY_VARIABLE,
        batch_size: int = 32,
        timeout_s: float = 60.0,
        n_retries: int = 4,
        cache: VectorCache | None = None,
    ) -> None:
        check_param("batch_size", batch_size, Integer(1))
        check_param("timeout_s", timeout_s, Number(0, excludes=("low",)))
        check_param("n_retries", n_retries, Integer(0))
        self.url, self.is_tei = check_url(url)
        self.model = model
        self.version = version
        self.key_variable = key_variable
        self.batch_size = batch_size
        self.timeout_s = timeout_s
        self.n_retries = n_retries
        self.cache = default_cache() if cache is None else cache

    @property
    def fingerprint(self) -> str:
        """URL, model and version; the service is not contacted."""
        identity = json.dumps(["robusttc-remote-1", self.url, self.model, self.version])
        return hashlib.sha256(identity.encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one per row; a service that fails raises a WorkError."""
        rows = [
            self._encode_batch(texts[start : start + self.batch_size])
            for start in range(0, len(texts), self.batch_size)
        ]
        lengths = {batch.shape[1] for batch in rows}
        if len(lengths) > 1:
            raise self._failure("the service returned vectors of different lengths", got=f"{sorted(lengths)}")
        return np.concatenate(rows)

    def _encode_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # OpenAI's service refuses an empty text.
        inputs = [text or " " for text in texts]
        openai, tei = {"input": inputs, "encoding_format": "float"}, {"inputs": inputs, "truncate": True}
        body: dict[str, Any] = tei if self.is_tei else openai
        if self.model is not None:
            body["model"] = self.model
        answer = self._post(json.dumps(body).encode())
        try:
            found = json.loads(answer)
            if not self.is_tei:
                ordered = sorted(found["data"], key=lambda item: int(item["index"]))
                found = [item["embedding"] for item in ordered]
            vectors = np.asarray(found, dtype=np.float32)
        except (ValueError, KeyError, TypeError) as error:
            raise self._failure("the service did not return vectors", got=quote(answer[:200])) from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise self._failure(
                "the service did not return one finite vector per text",
                got=f"shape {vectors.shape}",
                expected=f"({len(texts)}, dimensions)",
            )
        return vectors

    def _post(self, body: bytes) -> bytes:
        """Send a request, again and again where that may help, and return the body of the answer."""
        for attempt in range(self.n_retries + 1):
            # A random part, so that several processes do not come back at the same moment.
            wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt) * random.uniform(0.75, 1.25)  # noqa: S311
            try:
                return self._send(body)
            except HTTPError as error:
                reason = f"HTTP {error.code}"
                with error:
                    detail = error.read(500).decode("utf-8", "replace")
                if error.code != 429 and error.code < 500:
                    raise UsageError(
                        "the embedding service refuses the request",
                        where=self.url,
                        got=f"{reason}: {quote(self._without_key(detail))}",
                        todo=f"check the URL, the model, and the API key in {self.key_variable}",
                    ) from None
                after = error.headers.get("Retry-After", "")
                wait = min(LONGEST_WAIT_S, float(after)) if after.isdigit() else wait
            except (URLError, HTTPException, OSError) as error:
                reason = self._without_key(str(getattr(error, "reason", error) or type(error).__name__))
            if attempt < self.n_retries:
                time.sleep(wait)
        raise self._failure(
            f"the embedding service failed {self.n_retries + 1} times",
            got=reason,
            todo="check that it runs and can be reached, then run this again: what is done is kept",
        )

    def _send(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "User-Agent": f"robusttc/{__version__}"}
        key = os.environ.get(self.key_variable)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = Request(self.url, data=body, headers=headers, method="POST")  # noqa: S310 - checked: http(s)
        with build_opener(NoRedirects).open(request, timeout=self.timeout_s) as answer:
            content: bytes = answer.read(MAX_RESPONSE_BYTES)
        return content

    def _failure(self, what: str, **parts: str) -> WorkError:
        return WorkError(what, where=self.url, **parts)

    def _without_key(self, text: str) -> str:
        key = os.environ.get(self.key_variable)
        return text.replace(key, "***") if key else text


class NoRedirects(HTTPRedirectHandler):
    """Treats a redirect as an error: it could carry the API key to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing."""
        return


def check_url(url: object) -> tuple[str, bool]:
    """Return the URL of a service, and whether it speaks TEI's form; refuse one with a password."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        path, host = parts.path.rstrip("/"), parts.hostname
    except ValueError:
        host = None
    if host and (parts.username or parts.password or parts.query):
        raise UsageError(
            "the URL of an embedding service must not hold a password or a query",
            where=f"{parts.scheme}://{host}{path}",
            todo="put the API key into an environment variable",
        )
    if not host or parts.scheme not in ("http", "https") or not path.endswith(("/embed", "/embeddings")):
        raise UsageError(
            "the URL of the embedding service cannot be used",
            got=quote(url),
            expected="http(s)://HOST/embed (TEI) or http(s)://HOST/v1/embeddings (OpenAI)",
        )
    return str(url), path.endswith("/embed")
