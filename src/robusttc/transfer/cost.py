"""What measuring transfer will cost, before it is done: scores, seconds, memory.

A few seconds of calibration on this machine tell the speed of every kind of work; the plan of all tasks tells
how much of each there is. The machine is taken as it is then: when other programs come or go, times change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike

import numpy as np

from robusttc.data import TaskSet
from robusttc.encoders import (
    CnnEncoder,
    DenseInputs,
    Encoder,
    PreparedTasks,
    SentenceEncoder,
    distinct_texts,
    make_encoder,
)
from robusttc.errors import DataError
from robusttc.params import Integer, check_param
from robusttc.random import RandomState, run_seed
from robusttc.scores import TransferScores
from robusttc.transfer.blocks import SHARE_FOR_ALL
from robusttc.transfer.calibration import (
    UnitRates,
    choose_strata,
    measure_rates,
    pair_size,
    shorten,
    size_of_texts,
    time_of,
    training_size,
)
from robusttc.transfer.cost_estimate import CostEstimate, memory_now, peak_so_far
from robusttc.transfer.frozen_cost import FrozenCost, cost_of_frozen_part
from robusttc.transfer.measure import find_missing, score_overlap
from robusttc.transfer.measuring_rounds import StopMeasuring, plan_rounds
from robusttc.transfer.pairs import PairChoice, PairList, all_pairs
from robusttc.transfer.plan import TransferPlan, make_plan
from robusttc.transfer.settings import TransferSettings

__all__ = ["CostEstimate", "estimate_cost"]

MAX_SECONDS_OF_UNITS = 3.0
SAMPLED_SOURCES = 12
SAMPLED_TASKS_FOR_OVERLAP = 60
# A worker process loads the package and its compiled loops, and gets the plan.
WORKER_SECONDS, WORKER_BYTES = 3.0, 250 * 10**6
# A sentence model at work, beyond what the few texts of the calibration took: full batches, token numbers.
ENCODING_BYTES = 300 * 10**6
# Columns of 8 bytes of a score, once in the blocks and once put together.
SCORE_BYTES = 2 * 7 * 8


def estimate_cost(
    tasks: TaskSet,
    *,
    encoder: str | Encoder = "sentence",
    pairs: PairChoice = "auto",
    kind: str | None = None,
    settings: TransferSettings | None = None,
    vectors: str | PathLike[str] | None = None,
    measured: TransferScores | None = None,
    stop: StopMeasuring | None = None,
    n_workers: int = 1,
    device: str = "auto",
    random_state: RandomState = 0,
) -> CostEstimate:
    """Estimate what `measure_transfer` will cost with the same arguments; it measures nothing itself.

    It takes some seconds: texts are encoded, models trained for a few steps and pairs scored, of a few tasks
    of different sizes. Sentence vectors that it computes for that are kept.

    Parameters
    ----------
    tasks, encoder, pairs, kind, settings, vectors, measured, n_workers, device, random_state
        As in `measure_transfer`.
    stop
        As in `measure_transfer`; the estimate is that of measuring which does not stop early.

    Raises
    ------
    UsageError
        If an argument cannot be used.
    DataError
        If a task cannot be measured; it is named.

    Examples
    --------
    >>> from robusttc import Task
    >>> rows = (["hello", "good morning", "bye", "see you"], ["greet", "greet", "leave", "leave"])
    >>> cost = estimate_cost(TaskSet([Task("a", *rows), Task("b", *rows)]), encoder="cnn")
    >>> cost.n_scores, cost.n_texts, cost.seconds < 60
    (2, 4, True)
    """
    settings = TransferSettings() if settings is None else settings
    settings = settings if kind is None else settings.replace(kind=kind)
    seed = run_seed(random_state)
    check_param("n_workers", n_workers, Integer(1))
    if len(tasks) < 2:
        raise DataError("transfer needs two tasks at least", got=f"{len(tasks)} tasks")
    start = time.perf_counter()
    _, missing = find_missing(tasks.names, pairs, measured, settings=settings, seed=seed)
    texts, items = distinct_texts(tasks, ("train", "valid"))
    if settings.kind == "overlap":
        return estimate_overlap(tasks, missing, n_texts=len(texts), start=start)
    nothing = PreparedTasks(DenseInputs(np.zeros((len(texts), 1), dtype=np.float32)), items)
    plan = make_plan(tasks, nothing, missing, settings=settings, seed=seed)
    planning = time.perf_counter() - start
    chosen = make_encoder(encoder, vectors=vectors, device=device)
    if not len(missing):
        return nothing_to_do(chosen.name, tasks, len(texts), time.perf_counter() - start)
    before = time.perf_counter()
    loading = load(chosen)
    start += time.perf_counter() - before
    groups = sample_groups(tasks, plan, can_shorten=isinstance(chosen, SentenceEncoder | CnnEncoder))
    frozen = cost_of_frozen_part(chosen, texts, groups)
    same = settings.replace(label_sets="identical" if plan.same_labels else "different")
    rates = measure_rates(groups, frozen.sample, settings=same, seed=seed, max_seconds=MAX_SECONDS_OF_UNITS)
    plan = replace(plan, inputs=frozen.sample.inputs)  # of which only the kind is asked for from here on
    rounds = plan_rounds(plan, pairs, measured, stop)
    plans = [replace(plan, pairs=each) for each in rounds]
    models = sum(seconds_of_models(each, rates, texts) for each in plans)
    scoring = sum(seconds_of_pairs(each, rates, texts) for each in plans)
    together = min(n_workers, os.cpu_count() or 1, len(plan.sources))
    starting = WORKER_SECONDS if n_workers > 1 and len(plan.sources) > 1 else 0.0
    reloading = loading if isinstance(encoder, str) else 0.0
    return CostEstimate(
        encoder=chosen.name,
        n_tasks=len(tasks),
        n_scores=missing.n_entries,
        n_texts=len(texts),
        n_texts_to_encode=frozen.n_texts_to_encode,
        seconds_frozen=frozen.seconds + planning + reloading,
        seconds_models=models / together,
        seconds_pairs=scoring / together + starting,
        memory_bytes=peak_bytes(plan, frozen, n_texts=len(texts), n_workers=n_workers),
        calibration_seconds=time.perf_counter() - start,
        at_most=len(rounds) > 1,
    )


def load(encoder: Encoder) -> float:
    """Load a sentence model, and give the seconds of that, importing not counted."""
    if not isinstance(encoder, SentenceEncoder):
        return 0.0
    import sentence_transformers  # noqa: F401 - it takes longer than the model itself

    start = time.perf_counter()
    encoder.load()
    return time.perf_counter() - start


def sample_groups(tasks: TaskSet, plan: TransferPlan, *, can_shorten: bool) -> list[TaskSet]:
    """Choose the tasks to try on; vectors of one's own may be one for every row, which forbids shortening."""
    every = list(tasks)
    strata = choose_strata([len(rows.items) for rows in plan.rows])
    return [
        TaskSet(shorten(every[number]) if can_shorten else every[number] for number in stratum)
        for stratum in strata
    ]


def seconds_of_models(plan: TransferPlan, rates: UnitRates, texts: Sequence[str]) -> float:
    """Estimate the models of all sources."""
    lengths = np.array([len(text) for text in texts])
    seconds = 0.0
    for source in plan.sources:
        rows = plan.rows[source]
        seconds += float(rates.source @ [1, len(rows.items)])
        if plan.trains_layers:
            n_characters = int(lengths[rows.items[: rows.n_train]].sum())
            size = training_size(rows.n_train, n_characters, rows.n_labels, plan.settings.training)
            seconds += float(rates.training @ size)
    return seconds


def seconds_of_pairs(plan: TransferPlan, rates: UnitRates, texts: Sequence[str]) -> float:
    """Estimate the scores: every source encodes the texts of its targets once, and then scores each."""
    _, target = plan.pairs.entries()
    sizes = np.array([pair_size(rows) for rows in plan.rows])
    scoring = float(np.bincount(target, minlength=len(sizes)) @ sizes @ rates.pair)
    sources = plan.sources
    sampled = sorted(
        {sources[place] for place in np.linspace(0, len(sources) - 1, SAMPLED_SOURCES).astype(int)}
    )
    encoding, size_of_all = [], None
    for source in sampled:
        is_needed = np.zeros(len(texts), dtype=np.bool_)
        for each in plan.targets[source]:
            is_needed[plan.rows[each].items] = True
        needed = np.flatnonzero(is_needed)
        if len(needed) > SHARE_FOR_ALL * len(texts):
            size_of_all = size_of_texts(texts) if size_of_all is None else size_of_all
            encoding.append(rates.seconds_of_encoding(size_of_all))
        else:
            encoding.append(
                rates.seconds_of_encoding(size_of_texts([texts[place] for place in needed.tolist()]))
            )
    return scoring + len(sources) * float(np.mean(encoding))


def peak_bytes(plan: TransferPlan, frozen: FrozenCost, *, n_texts: int, n_workers: int) -> int:
    """Estimate the memory at the peak: what is used now, and what comes on top."""
    settings = plan.settings
    width = settings.training.width if plan.trains_layers else (settings.measure_width or 0)
    inputs, features = n_texts * frozen.bytes_an_item, n_texts * width * 4
    # Inputs are copied once, when those that are needed are taken.
    own = memory_now() + int(2 * inputs + features + plan.pairs.n_entries * SCORE_BYTES)
    own += ENCODING_BYTES if frozen.n_texts_to_encode else 0
    if n_workers > 1:
        own += n_workers * int(WORKER_BYTES + inputs + features)
    return max(own, peak_so_far())


def nothing_to_do(encoder: str, tasks: TaskSet, n_texts: int, seconds: float) -> CostEstimate:
    """Give the estimate where all scores are there already."""
    return CostEstimate(
        encoder=encoder,
        n_tasks=len(tasks),
        n_scores=0,
        n_texts=n_texts,
        n_texts_to_encode=0,
        seconds_frozen=0.0,
        seconds_models=0.0,
        seconds_pairs=0.0,
        memory_bytes=peak_so_far(),
        calibration_seconds=seconds,
    )


def estimate_overlap(tasks: TaskSet, missing: PairList, *, n_texts: int, start: float) -> CostEstimate:
    """Estimate the share of texts in common, from some of the tasks."""
    every = list(tasks)
    some = TaskSet(every[:: -(-len(every) // SAMPLED_TASKS_FOR_OVERLAP)])
    seconds = time_of(lambda: score_overlap(some, all_pairs(len(some)))) * tasks.n_rows / some.n_rows
    matrices = 3 * 8 * len(tasks) ** 2
    return CostEstimate(
        encoder="overlap",
        n_tasks=len(tasks),
        n_scores=missing.n_entries,
        n_texts=n_texts,
        n_texts_to_encode=0,
        seconds_frozen=0.0,
        seconds_models=0.0,
        seconds_pairs=seconds,
        memory_bytes=max(memory_now() + matrices + missing.n_entries * SCORE_BYTES, peak_so_far()),
        calibration_seconds=time.perf_counter() - start,
    )
