"""Micro-batches: what is taken together, in which order, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from robusttc.serve.batching import Batcher, OverloadedError, Slice
from robusttc.serve.metrics import Metrics


class Encoder:
    """Answers with the text in capitals; waits in its first batch until it is told to go on."""

    def __init__(self) -> None:
        self.batches: list[list[Slice]] = []
        self.is_busy = threading.Event()
        self.may_go_on = threading.Event()

    def answer(self, slices: list[Slice]) -> list[list[Any] | Exception]:
        self.batches.append(slices)
        self.is_busy.set()
        assert self.may_go_on.wait(30)
        return [
            ValueError("bad text") if "bad" in one.texts else [text.upper() for text in one.texts]
            for one in slices
        ]

    def texts(self, batch: int) -> list[str]:
        return [text for one in self.batches[batch] for text in one.texts]


def run(
    scenario: Callable[[Batcher, Encoder], Coroutine[Any, Any, None]],
    *,
    batch_tokens: int = 100,
    max_queued_tokens: int = 1_000,
    max_task_share: float = 1.0,
) -> None:
    async def main() -> None:
        encoder = Encoder()
        batcher = Batcher(
            encoder.answer,
            batch_tokens=batch_tokens,
            max_queued_tokens=max_queued_tokens,
            max_task_share=max_task_share,
            metrics=Metrics(),
        )
        batcher.start()
        try:
            await scenario(batcher, encoder)
        finally:
            encoder.may_go_on.set()
            await batcher.close()

    asyncio.run(asyncio.wait_for(main(), 60))


async def keep_busy(batcher: Batcher, encoder: Encoder) -> asyncio.Task[list[Any]]:
    """Let the encoder work on a text of task ``first`` until it is told to go on."""
    first = asyncio.create_task(batcher.submit("first", ["x"]))
    await asyncio.to_thread(encoder.is_busy.wait, 30)
    return first


def submit(batcher: Batcher, task: str, texts: list[str], *, ahead: bool = False) -> asyncio.Task[list[Any]]:
    return asyncio.create_task(batcher.submit(task, texts, ahead=ahead))


def test_an_idle_encoder_does_not_wait_and_what_arrives_meanwhile_is_one_batch() -> None:
    async def scenario(batcher: Batcher, encoder: Encoder) -> None:
        first = await keep_busy(batcher, encoder)
        others = [submit(batcher, task, [task, task * 2]) for task in "abc"]
        await asyncio.sleep(0)
        encoder.may_go_on.set()
        assert await first == ["X"]
        assert [await one for one in others] == [["A", "AA"], ["B", "BB"], ["C", "CC"]]
        assert len(encoder.batches) == 2

    run(scenario)


def test_a_large_request_lets_others_through() -> None:
    async def scenario(batcher: Batcher, encoder: Encoder) -> None:
        await keep_busy(batcher, encoder)
        large = submit(batcher, "large", [f"t{number}" for number in range(50)])
        await asyncio.sleep(0)
        small = submit(batcher, "small", ["s"])
        await asyncio.sleep(0)
        encoder.may_go_on.set()
        assert await small == ["S"]
        assert "s" in encoder.texts(1)
        assert len(encoder.texts(1)) == 10  # of 2 tokens each
        assert await large == [f"T{number}" for number in range(50)]

    run(scenario, batch_tokens=20)


def test_a_text_larger_than_the_budget_is_a_batch_of_its_own() -> None:
    async def scenario(batcher: Batcher, encoder: Encoder) -> None:
        encoder.may_go_on.set()
        assert await batcher.submit("a", ["long " * 1_000]) == ["LONG " * 1_000]

    run(scenario, batch_tokens=16, max_queued_tokens=16)


def test_a_check_of_readiness_is_next_and_never_refused() -> None:
    async def scenario(batcher: Batcher, encoder: Encoder) -> None:
        await keep_busy(batcher, encoder)
        submit(batcher, "a", ["a"] * 20)
        await asyncio.sleep(0)
        probe = submit(batcher, "a", ["probe"], ahead=True)
        await asyncio.sleep(0)
        encoder.may_go_on.set()
        assert await probe == ["PROBE"]
        assert encoder.texts(1)[0] == "probe"

    run(scenario, max_queued_tokens=40)


@pytest.mark.parametrize(("share", "task", "of_task"), [(0.5, "a", True), (1.0, "b", False)])
def test_a_full_queue_refuses(share: float, task: str, of_task: bool) -> None:
    async def scenario(batcher: Batcher, encoder: Encoder) -> None:
        await keep_busy(batcher, encoder)
        waiting = submit(batcher, "a", ["a"] * 20)
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as caught:
            await batcher.submit(task, ["b"])
        assert caught.value.of_task is of_task
        assert caught.value.retry_after > 0
        encoder.may_go_on.set()
        assert len(await waiting) == 20

    run(scenario, max_queued_tokens=41 if share < 1 else 40, max_task_share=share)


def test_a_cancelled_request_is_not_encoded_any_further() -> None:
    async def scenario(batcher: Batcher, encoder: Encoder) -> None:
        await keep_busy(batcher, encoder)
        given_up = submit(batcher, "a", ["never"])
        kept = submit(batcher, "b", ["kept"])
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        assert batcher.queued_tokens == 3
        encoder.may_go_on.set()
        assert await kept == ["KEPT"]
        assert encoder.texts(1) == ["kept"]

    run(scenario)


def test_an_error_reaches_its_request_alone() -> None:
    async def scenario(batcher: Batcher, encoder: Encoder) -> None:
        await keep_busy(batcher, encoder)
        bad, good = submit(batcher, "a", ["bad"]), submit(batcher, "b", ["good"])
        await asyncio.sleep(0)
        encoder.may_go_on.set()
        assert await good == ["GOOD"]
        with pytest.raises(ValueError, match="bad text"):
            await bad

    run(scenario)
