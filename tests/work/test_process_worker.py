"""A worker's side of the pipe, and a parent that cannot reach its worker, without processes."""

from __future__ import annotations

import pickle
import signal
import threading
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.work import process_worker
from robusttc.work.crew import Crew, Job, Worker
from robusttc.work.outcomes import Outcome
from robusttc.work.packing import unpack
from robusttc.work.performing import Report
from robusttc.work.process_worker import READY, Give, Take, serve_units
from robusttc.work.sharing import share
from robusttc.work.units import Payload


def add_up(data: Any, argument: float) -> Payload:
    return Payload({"sum": argument + (0.0 if data is None else float(data.sum()))})


def test_worker_answers_until_the_pipe_is_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # These are for a process of its own.
    monkeypatch.setattr(process_worker, "end_with_parent", lambda _parent: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    made = share(np.ones(10_000), tmp_path)
    unit = pickle.dumps((add_up, 1.0))
    ours, theirs = Pipe()
    answers: list[Any] = []

    def lead() -> None:
        answers.append(ours.recv())
        messages: list[tuple[list[Give], Take]] = [
            ([(1, made.data)], (7, unit, 1)),
            ([], (8, unit, None)),
            ([], (9, unit, 2)),
            ([], (10, b"nonsense", None)),
        ]
        for message in messages:
            ours.send(message)
            answers.append(ours.recv())
        ours.send(([(1, None), (5, None)], None))
        ours.send(([], (11, unit, 1)))
        answers.append(ours.recv())
        ours.close()

    leader = threading.Thread(target=lead)
    leader.start()
    serve_units(theirs, 0)
    leader.join()
    theirs.close()
    made.remove()
    assert answers[0] == READY
    reports: dict[int, Report] = dict(answers[1:])
    assert list(reports) == [7, 8, 9, 10, 11]
    sums = [unpack(reports[ticket].content or b"").values["sum"] for ticket in (7, 8)]
    assert sums == [10_001.0, 1.0]
    assert str(reports[9].error).startswith("KeyError: 2")
    assert "UnpicklingError" in str(reports[10].error)
    assert str(reports[11].error).startswith("KeyError: 1")  # it was told to forget it


class Gone:
    """A process that has ended, and its pipe."""

    exitcode = -9

    def send(self, _message: Any) -> None:
        raise BrokenPipeError

    def kill(self) -> None:
        pass

    join = close = kill


def make_crew() -> tuple[Crew, list[Outcome], Any]:
    outcomes: list[Outcome] = []
    crew = Crew(1, outcomes.append)
    gone: Any = Gone()
    worker = Worker(gone, gone, 0.0, is_ready=True, knows={3})
    crew.workers.append(worker)
    return crew, outcomes, worker


def test_worker_that_is_gone_when_it_gets_a_unit() -> None:
    crew, outcomes, worker = make_crew()
    crew.give(worker, Job(5, b"", None, 60.0))
    assert crew.workers == []
    assert [(outcome.ticket, outcome.kind) for outcome in outcomes] == [(5, "died")]
    assert outcomes[0].error == "the worker process ended by signal 9"


def test_worker_that_is_gone_when_it_is_to_forget_data() -> None:
    crew, outcomes, _ = make_crew()
    crew.drop(4)
    assert len(crew.workers) == 1
    crew.drop(3)
    assert crew.workers == []
    assert outcomes == []


def test_process_without_a_parent_of_ours_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_worker, "parent_process", lambda: None)
    process_worker.wait_for_end()
