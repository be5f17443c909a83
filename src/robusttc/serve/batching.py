"""Micro-batching: texts of all tasks share the passes of one encoder.

While the encoder is busy, requests wait; as soon as it is idle, a batch is made of what waits, so nothing
waits for company. A batch has a budget of tokens. It is filled with one text of each waiting task at a time,
so a task with ten thousand texts delays the one text of another by a batch at the most.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from robusttc.serve.metrics import Metrics

__all__ = ["Batcher", "OverloadedError", "Slice", "count_tokens"]

# Sentence models cut a text there.
MAX_TOKENS = 256
CHARACTERS_PER_TOKEN = 4


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has for the encoder.

    >>> [count_tokens("hi"), count_tokens("a" * 400), count_tokens("a" * 10**6)]
    [2, 102, 256]
    """
    return min(MAX_TOKENS, 2 + len(text) // CHARACTERS_PER_TOKEN)


class OverloadedError(Exception):
    """The queue is full: of all tasks, or of this one."""

    def __init__(self, *, of_task: bool, retry_after: float) -> None:
        super().__init__("too much is waiting for the encoder")
        self.of_task, self.retry_after = of_task, retry_after


@dataclass(frozen=True, slots=True)
class Slice:
    """Some texts of one request, which are in the same batch."""

    task: str
    texts: Sequence[str]


@dataclass(slots=True, eq=False)
class _Request:
    task: str
    texts: Sequence[str]
    tokens: list[int]
    done: asyncio.Future[list[Any]]
    since: float
    n_taken: int = 0
    results: list[Any] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.done.done() or self.n_taken == len(self.texts)

    @property
    def n_waiting(self) -> int:
        return 0 if self.done.done() else sum(self.tokens[self.n_taken :])


class Batcher:
    """Collects requests, and answers them batch after batch in one thread.

    Parameters
    ----------
    answer
        Takes the slices of a batch, and returns for each a list with an answer a text, or the error that
        its request gets.
    batch_tokens
        The budget of a batch. A text with more is in a batch of its own.
    max_queued_tokens, max_task_share
        How much may wait, and which share of it one task may fill.
    metrics
        Told of every batch.
    """

    def __init__(
        self,
        answer: Callable[[list[Slice]], list[list[Any] | Exception]],
        *,
        batch_tokens: int,
        max_queued_tokens: int,
        max_task_share: float,
        metrics: Metrics,
    ) -> None:
        self._answer = answer
        self.batch_tokens = batch_tokens
        self.max_queued_tokens = max_queued_tokens
        self.max_task_tokens = max_queued_tokens * max_task_share
        self._metrics = metrics
        # A queue a task, in the order of their turns.
        self._queues: dict[str, deque[_Request]] = {}
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._loop_task: asyncio.Task[None] | None = None
        self._tokens_a_second = 2_000.0  # corrected by every batch
        self._n_texts, self._seconds = 0, 0.0

    def start(self) -> None:
        """Begin to answer; to be called within the event loop."""
        self._loop_task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop; what still waits is cancelled."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
        for request in itertools.chain.from_iterable(self._queues.values()):
            request.done.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def microseconds_a_text(self) -> float | None:
        """The mean time of a text in its batch, encoder and heads; None before the first one."""
        return 1e6 * self._seconds / self._n_texts if self._n_texts else None

    @property
    def queued_tokens(self) -> int:
        """How many tokens wait."""
        return sum(self._waiting(task) for task in self._queues)

    def _waiting(self, task: str) -> int:
        return sum(request.n_waiting for request in self._queues.get(task, ()))

    async def submit(self, task: str, texts: Sequence[str], *, ahead: bool = False) -> list[Any]:
        """Return the answers to some texts, when their turn has come.

        Cancelling it takes what is not yet encoded out of the queue.

        Parameters
        ----------
        task
            Whose texts they are.
        texts
            The texts.
        ahead
            Do not wait for others, and ignore limits: for the check of readiness.

        Raises
        ------
        OverloadedError
            If too much waits already.
        """
        if not texts:
            return []
        tokens = [count_tokens(text) for text in texts]
        if not ahead:
            self._refuse_overload(task, sum(tokens))
        request = _Request(
            task, texts, tokens, asyncio.get_running_loop().create_future(), time.perf_counter()
        )
        if ahead:
            task = ""  # a queue of its own, whose turn is next
            self._queues = {task: self._queues.pop(task, deque()), **self._queues}
        self._queues.setdefault(task, deque()).append(request)
        self._arrived.set()
        return await request.done

    def _refuse_overload(self, task: str, n_tokens: int) -> None:
        queued = self.queued_tokens
        waits = queued / self._tokens_a_second
        # A request that is larger than the queue is taken when nothing waits.
        if self._waiting(task) and self._waiting(task) + n_tokens > self.max_task_tokens:
            raise OverloadedError(of_task=True, retry_after=waits)
        if queued and queued + n_tokens > self.max_queued_tokens:
            raise OverloadedError(of_task=False, retry_after=waits)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch, reason = self._next_batch()
            if not batch:
                self._arrived.clear()
                continue
            started = time.perf_counter()
            slices = [Slice(request.task, texts) for request, texts in batch]
            try:
                answers = await loop.run_in_executor(self._thread, self._answer, slices)
            except Exception as error:
                answers = [error] * len(batch)
            self._settle(batch, answers)
            seconds = max(time.perf_counter() - started, 1e-4)
            n_tokens = sum(count_tokens(text) for _, texts in batch for text in texts)
            self._tokens_a_second += 0.2 * (n_tokens / seconds - self._tokens_a_second)
            n_texts = sum(len(texts) for _, texts in batch)
            self._n_texts, self._seconds = self._n_texts + n_texts, self._seconds + seconds
            self._metrics.observe_batch(
                n_texts=n_texts,
                waits=[started - request.since for request, _ in batch],
                reason=reason,
                queued=self.queued_tokens,
            )

    def _next_batch(self) -> tuple[list[tuple[_Request, list[str]]], str]:
        """Take texts task by task, one of each at a time, until the budget is spent."""
        taken: dict[int, tuple[_Request, list[str]]] = {}
        budget = self.batch_tokens
        while self._queues:
            task, queue = next(iter(self._queues.items()))
            del self._queues[task]
            while queue and queue[0].is_over:
                queue.popleft()
            if not queue:
                continue
            request = queue[0]
            cost = request.tokens[request.n_taken]
            if taken and cost > budget:
                self._queues = {task: queue, **self._queues}  # its turn is next
                return list(taken.values()), "full"
            budget -= cost
            taken.setdefault(id(request), (request, []))[1].append(request.texts[request.n_taken])
            request.n_taken += 1
            self._queues[task] = queue
        return list(taken.values()), "idle"

    def _settle(self, batch: list[tuple[_Request, list[str]]], answers: list[list[Any] | Exception]) -> None:
        for (request, _), answer in zip(batch, answers, strict=True):
            if request.done.done():
                continue
            if isinstance(answer, Exception):
                request.done.set_exception(answer)
                continue
            request.results += answer
            if len(request.results) == len(request.texts):
                request.done.set_result(request.results)
