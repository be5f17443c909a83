"""A client of the server: typed answers, and patience while the server is busy."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote as quote_url

import httpx
from pydantic import BaseModel

from robusttc.errors import DataError, RobustTCError, StoreError, UnknownTaskError, UsageError
from robusttc.serve import schemas

__all__ = ["Client", "ServerError"]

BUSY = (429, 503)
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
Answer = TypeVar("Answer", bound=BaseModel)


class ServerError(RobustTCError):
    """The server cannot be reached, or did not answer as it should."""


class Client:
    """A client of ``robusttc serve``.

    Parameters
    ----------
    url
        Where the server is, such as ``http://127.0.0.1:8080``.
    key
        The key, where the server asks for one.
    timeout
        Seconds that an answer may take.
    tries
        How often a request is sent while the server says that it is busy.

    Examples
    --------
    >>> from robusttc import Client
    >>> with Client("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     client.predict("acme", ["where is my parcel"]).predictions[0].label
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 60.0,
        tries: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.tries = tries
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)

    def predict(
        self,
        task: str,
        texts: Sequence[str],
        *,
        top_k: int | None = None,
        abstain_below: float | None = None,
        nearest: bool = False,
        truncate: bool = False,
    ) -> schemas.Answers:
        """Predict the labels of texts."""
        body = {
            "texts": list(texts),
            "top_k": top_k,
            "abstain_below": abstain_below,
            "nearest": nearest,
            "truncate": truncate,
        }
        return self._ask(schemas.Answers, "POST", task_path(task, "/predict"), body)

    def predict_rows(
        self, rows: Iterable[tuple[str, str]], *, top_k: int | None = None
    ) -> schemas.MixedAnswers:
        """Predict rows of (task, text), of different tasks, at once."""
        body = {"rows": [{"task": task, "text": text} for task, text in rows], "top_k": top_k}
        return self._ask(schemas.MixedAnswers, "POST", "/v1/predict", body)

    def explain(self, task: str, text: str) -> schemas.Explanation:
        """Return what each model of a task says of a text, and its nearest examples."""
        return self._ask(schemas.Explanation, "POST", task_path(task, "/explain"), {"text": text})

    def tasks(self, search: str = "", *, offset: int = 0, limit: int = 100) -> schemas.TaskPage:
        """Return a page of the tasks."""
        query = {"search": search, "offset": offset, "limit": limit}
        return self._ask(schemas.TaskPage, "GET", "/v1/tasks", query=query)

    def task(self, task: str) -> schemas.TaskDetails:
        """Return what is known of a task."""
        return self._ask(schemas.TaskDetails, "GET", task_path(task))

    def put(
        self, task: str, examples: Iterable[tuple[str, str]], *, if_version: int | None = None
    ) -> schemas.Adapted:
        """Learn a task from pairs of text and label; one that was learned so before is replaced."""
        body = {"examples": [{"text": text, "label": label} for text, label in examples]}
        return self._ask(schemas.Adapted, "PUT", task_path(task), body, version=if_version)

    def add_examples(
        self, task: str, examples: Iterable[tuple[str, str]], *, if_version: int | None = None
    ) -> schemas.Adapted:
        """Learn a task again, with more examples."""
        body = {"examples": [{"text": text, "label": label} for text, label in examples]}
        return self._ask(schemas.Adapted, "POST", task_path(task, "/examples"), body, version=if_version)

    def delete(self, task: str, *, if_version: int | None = None) -> schemas.JobState | None:
        """Remove a task; return the job that retrains the models of others, where there is one."""
        answer = self._send("DELETE", task_path(task), version=if_version)
        return schemas.JobState.model_validate_json(answer.content) if answer.status_code == 202 else None

    def info(self) -> schemas.Info:
        """Return limits, versions, and what a task costs."""
        return self._ask(schemas.Info, "GET", "/info")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self,
        kind: type[Answer],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> Answer:
        answer = self._send(method, path, body, query=query, version=version)
        try:
            return kind.model_validate_json(answer.content)
        except ValueError as error:
            raise ServerError("the server answered something else than it should", got=str(error)) from None

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> httpx.Response:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        for turn in range(1, self.tries + 1):
            try:
                answer = self._http.request(method, path, json=body, params=query, headers=headers)
            except httpx.HTTPError as error:
                where = str(self._http.base_url)
                raise ServerError("the server cannot be reached", where=where, got=str(error)) from error
            if answer.status_code not in BUSY or turn == self.tries:
                break
            # A little at random, so that clients that were refused together do not come back together.
            wanted = max(retry_after(answer), FIRST_PAUSE * 2**turn)
            time.sleep(min(wanted, LONGEST_PAUSE) * random.uniform(0.5, 1.0))  # noqa: S311
        if answer.is_success:
            return answer
        raise error_of(answer, path)


def task_path(task: str, rest: str = "") -> str:
    """Return the path of a task."""
    return f"/v1/tasks/{quote_url(task, safe='')}{rest}"


def retry_after(answer: httpx.Response) -> float:
    """Return for how many seconds the server wants to be left alone."""
    value = answer.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0


def error_of(answer: httpx.Response, path: str) -> RobustTCError:
    """Return the error that a problem document describes."""
    try:
        found = schemas.Problem.model_validate_json(answer.content)
        detail = "; ".join(
            [found.detail, *(f"{one['field']}: {one['message']}" for one in found.errors or [])]
        )
    except ValueError:
        detail = answer.reason_phrase
    if answer.status_code == 404 and path.startswith("/v1/tasks/"):
        return UnknownTaskError(path.split("/")[3], ())
    kinds: dict[int, type[RobustTCError]] = {
        401: UsageError,
        403: UsageError,
        409: UsageError,
        412: UsageError,
        413: DataError,
        422: DataError,
        503: StoreError,
    }
    kind = kinds.get(answer.status_code, ServerError)
    return kind(detail, where=f"{answer.status_code} {path}")
