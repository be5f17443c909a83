"""The workshop of a run: what is finished comes from the store, the rest is done elsewhere and stored.

Only this process writes the store. A unit counts when it is committed: only then its result is given on, and
the next one is given out in its place. So no more work is lost with this process than was under way.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robusttc.errors import UsageError, quote
from robusttc.progress import Progress
from robusttc.run.batch import Batch, LaterPut, as_later, check_keys, in_chunks, only_done
from robusttc.run.executor import Executor
from robusttc.run.records import FinishedUnit
from robusttc.run.score_rows import ScoreRows
from robusttc.run.stopping import Stopped
from robusttc.run.store import RunStore
from robusttc.work.outcomes import Outcome
from robusttc.work.packing import unpack
from robusttc.work.performing import describe_error
from robusttc.work.units import Handle, Payload, Unit

__all__ = ["DEFAULT_TIME_LIMIT", "StoredWorkshop"]

DEFAULT_TIME_LIMIT = 3600.0
# Units under way for each worker: one that it does, and one that waits for it.
UNITS_A_WORKER = 2
# How often to ask whether to stop, in seconds.
WAIT_SECONDS = 0.1
# Results that are read at once: as bytes and as arrays they are in memory twice.
FOUND_AT_ONCE = 64


class StoredWorkshop:
    """Does units that are not in the store, and stores them.

    Parameters
    ----------
    store
        The run's store, open for writing.
    executor
        Who does the units.
    tries
        How often a unit is tried before it is left out; failures before a restart count. Other units go
        first.
    time_limit
        Seconds after which a unit's worker is ended; or such limits by stage, with an hour for all others.
    stop
        Asked ten times a second whether to stop.
    score_rows
        Gives the transfer scores in a unit's result, to be stored with it; None for a unit without scores.
    """

    def __init__(
        self,
        store: RunStore,
        executor: Executor,
        *,
        tries: int = 3,
        time_limit: float | Mapping[str, float] = DEFAULT_TIME_LIMIT,
        stop: Callable[[], bool] = lambda: False,
        score_rows: Callable[[Unit, Payload], ScoreRows | None] | None = None,
    ) -> None:
        if tries < 1:
            raise UsageError("tries cannot be used", got=quote(tries), expected="an integer from 1 up")
        self.store = store
        self.executor = executor
        self.tries = tries
        self.time_limit = time_limit
        self.stop = stop
        self.score_rows = score_rows
        self._tickets = itertools.count()
        # Failures of units that are not stored: the store could not tell when they are done after all.
        self._failures: Counter[str] = Counter()

    def put(self, data: Any) -> Handle:
        """Keep the data until a unit needs it."""
        return LaterPut(data)

    def drop(self, handle: Handle) -> None:
        """Let go of the data."""
        later = as_later(handle)
        if later.handle is not None:
            self.executor.drop(later.handle)
            later.handle = None

    def do(
        self,
        stage: str,
        units: Sequence[Unit],
        data: Handle | None = None,
        *,
        when_done: Callable[[Unit, Payload], None] | None = None,
        progress: Progress | None = None,
        noun: str = "units",
    ) -> list[Payload | None]:
        """Do the units that are not in the store; see `robusttc.work.units.Workshop`.

        Raises
        ------
        UsageError
            If two units have the same key.
        Stopped
            If `stop` said so; what is finished is stored.
        """
        check_keys(units)
        batch = Batch(stage, units, data, when_done, progress, noun, [None] * len(units))
        batch.tell()
        try:
            self._take_stored(batch)
            while batch.n_settled < len(units):
                self._look_for_stop(batch)
                self._give_out(batch)
                outcomes = self.executor.wait(WAIT_SECONDS)
                # A signal to stop reaches the workers, too: that they die of it is no failure of their units.
                self._take(batch, only_done(outcomes) if self.stop() else outcomes)
        except BaseException:
            # Nobody waits for the units under way any more.
            self.executor.close()
            raise
        if batch.n_not_kept:
            self.store.add_cost(
                stage,
                units=batch.n_not_kept,
                cpu_seconds=batch.cpu_not_kept,
                peak_bytes=batch.peak_not_kept,
            )
        return batch.results

    def _take_stored(self, batch: Batch) -> None:
        """Settle what is finished or left out, and leave the rest waiting."""
        left_out = {unit.key for unit in self.store.quarantined()}
        for indices in in_chunks(range(len(batch.units)), FOUND_AT_ONCE):
            kept = [batch.units[index].key for index in indices if batch.units[index].keep]
            found = self.store.find(kept)
            for index in indices:
                key = batch.units[index].key
                if key in found:
                    batch.settle(index, unpack(found.pop(key), where=key))
                elif key in left_out:
                    batch.settle(index, None)
                else:
                    batch.waiting.append(index)

    def _look_for_stop(self, batch: Batch) -> None:
        """Stop if that is wanted, with everything stored that is finished by now."""
        if self.stop():
            self._take(batch, only_done(self.executor.wait(0.0)))
            raise Stopped

    def _give_out(self, batch: Batch) -> None:
        """Keep all workers busy, and no more than that under way."""
        room = UNITS_A_WORKER * self.executor.n_workers - len(batch.under_way)
        for _ in range(min(room, len(batch.waiting))):
            index, ticket = batch.waiting.popleft(), next(self._tickets)
            batch.under_way[ticket] = index
            limit = self._limit(batch.stage)
            self.executor.submit(ticket, batch.units[index], self._handle(batch.data), limit)

    def _limit(self, stage: str) -> float:
        if isinstance(self.time_limit, Mapping):
            return self.time_limit.get(stage, DEFAULT_TIME_LIMIT)
        return self.time_limit

    def _handle(self, data: Handle | None) -> Handle | None:
        if data is None:
            return None
        later = as_later(data)
        if later.handle is None:
            later.handle = self.executor.put(later.data)
        return later.handle

    def _take(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """Commit units that are done, all in one go, and only then give their results on."""
        done: list[tuple[int, Payload]] = []
        rows: list[FinishedUnit] = []
        for outcome in outcomes:
            index = batch.under_way.pop(outcome.ticket, None)
            if index is None:  # of a call that ended with an error
                continue
            unit = batch.units[index]
            if outcome.content is None:
                self._fail(batch, index, outcome.error or outcome.kind)
                continue
            try:
                payload = unpack(outcome.content, where=unit.key)
                scores = None if self.score_rows is None else self.score_rows(unit, payload)
            except Exception as error:  # a result that makes no sense is a failure of its unit alone
                self._fail(batch, index, describe_error(error))
                continue
            done.append((index, payload))
            if unit.keep:
                rows.append(self._row(batch.stage, unit, outcome, scores))
            else:
                batch.note_cost(outcome)
        if rows:
            self.store.finish_many(rows)
        for index, payload in done:
            batch.settle(index, payload)

    def _row(self, stage: str, unit: Unit, outcome: Outcome, scores: ScoreRows | None) -> FinishedUnit:
        return FinishedUnit(
            stage=stage,
            key=unit.key,
            content=outcome.content or b"",
            scores=scores,
            seconds=outcome.seconds,
            cpu_seconds=outcome.cpu_seconds,
            peak_bytes=outcome.peak_bytes,
            attempts=self.store.failures(unit.key) + 1,
        )

    def _fail(self, batch: Batch, index: int, error: str) -> None:
        """Let a unit be tried again after all others, or leave it out."""
        unit = batch.units[index]
        self._failures[unit.key] += 1
        n_before = self.store.failures(unit.key) if unit.keep else self._failures[unit.key] - 1
        if n_before + 1 < self.tries:
            self.store.record_failure(batch.stage, unit.key, error, unit.tasks)
            batch.waiting.append(index)
        else:
            self.store.quarantine(batch.stage, unit.key, error, unit.tasks)
            batch.settle(index, None)
