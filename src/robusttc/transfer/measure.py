"""From tasks to transfer scores (lines 1 and 2 of Algorithm 1, section 3.1 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from os import PathLike
from typing import Any

import numpy as np

from robusttc.data import TaskSet
from robusttc.encoders import Encoder, make_encoder, resolve_device
from robusttc.errors import DataError, UsageError, quote
from robusttc.jobs import Runner, make_executor
from robusttc.params import Integer, check_param
from robusttc.progress import ProgressOption, resolve_progress
from robusttc.random import RandomState, run_seed
from robusttc.scores import TransferScores
from robusttc.transfer.blocks import collect_scores
from robusttc.transfer.measuring_rounds import StopMeasuring, measure_rounds, plan_rounds
from robusttc.transfer.overlap import text_overlap
from robusttc.transfer.pairs import PairChoice, PairList, check_known, choose_pairs
from robusttc.transfer.plan import make_plan
from robusttc.transfer.settings import TransferSettings

__all__ = ["collect_scores", "measure_transfer"]


def measure_transfer(
    tasks: TaskSet,
    *,
    encoder: str | Encoder = "sentence",
    pairs: PairChoice | PairList = "auto",
    kind: str | None = None,
    settings: TransferSettings | None = None,
    vectors: str | PathLike[str] | None = None,
    measured: TransferScores | None = None,
    stop: StopMeasuring | None = None,
    n_workers: int = 1,
    runner: Runner | None = None,
    device: str = "auto",
    random_state: RandomState = 0,
    progress: ProgressOption = True,
) -> TransferScores:
    """Measure how well the encoder of each task serves others.

    Only rows of train and valid are looked at. A score depends on its two tasks, the settings and the seed:
    not on the other pairs, the order of the tasks, nor the number of workers.

    Parameters
    ----------
    tasks
        The tasks, at least two.
    encoder
        ``sentence``, ``cnn``, or an encoder of your own; see `robusttc.encoders.Encoder`.
    pairs
        ``all``, a number of scores, or ``auto``: all up to 300 tasks, else about n log(n)**2 of them. Pairs
        are drawn so that all tasks have the same number of partners, and measured both ways. A `PairList`
        says which pairs, as positions among the tasks; they are measured both ways too.
    kind
        What is measured: ``log_likelihood`` (the default), ``brier``, ``accuracy`` (the paper's), ``logme``
        or ``overlap``; see `TransferSettings`.
    settings
        How it is measured; None takes the defaults.
    vectors
        A file of word vectors for ``cnn``; None takes some that come with the package.
    measured
        Scores measured before, of these tasks and with the same settings and seed: they are kept, count
        towards `pairs`, and are not measured again.
    stop
        Measure the pairs of ``auto`` in rounds, and stop when this function of the scores of the rounds so
        far returns True, for instance a `robusttc.clustering.stop_rule.StopRule`: then the result has fewer
        scores than `count_entries` says. All other choices of `pairs` are measured whole, and so is
        ``auto`` where `measured` is given, up to 50 tasks, and where every source trains a layer, which
        each round would train again (``cnn`` and ``accuracy``). None measures everything.
    n_workers
        How many processes share the work.
    runner
        Who does the work instead, see `robusttc.jobs.Runner`: one unit a source, ``transfer/<its name>``, or
        one a source and round, ``transfer/round <number>/<its name>``.
    device
        Where a sentence model runs: ``auto`` takes a GPU if there is one. Layers are small and are trained on
        the CPU.
    random_state
        The seed, or a NumPy generator, of which one draw is taken.
    progress
        True for a bar in a terminal or notebook, False, or a function of a `ProgressEvent`.

    Raises
    ------
    UsageError
        If an argument cannot be used.
    DataError
        If a task cannot be measured; it is named.
    WorkError
        If not a single score could be measured.

    Warns
    -----
    DoubtWarning
        If the scores of some pairs could not be measured: they are left out and named.

    Examples
    --------
    >>> from robusttc import Task
    >>> rows = (["hello", "good morning", "bye", "see you"], ["greet", "greet", "leave", "leave"])
    >>> scores = measure_transfer(TaskSet([Task("a", *rows), Task("b", *rows)]), encoder="cnn")
    >>> scores
    TransferScores(2 tasks, 2 scores, kind 'log_likelihood')
    """
    progress = resolve_progress(progress)
    settings = TransferSettings() if settings is None else settings
    settings = settings if kind is None else settings.replace(kind=kind)
    seed = run_seed(random_state)
    check_param("n_workers", n_workers, Integer(1))
    if runner is not None and n_workers > 1:
        raise UsageError("workers and a runner are given", expected="one of them, n_workers or runner")
    if len(tasks) < 2:
        raise DataError("transfer needs two tasks at least", got=f"{len(tasks)} tasks")
    chosen, missing = find_missing(tasks.names, pairs, measured, settings=settings, seed=seed)
    if settings.kind == "overlap":
        return score_overlap(tasks, chosen)
    if not len(missing):
        if measured is None:
            raise UsageError("there are no pairs to measure", got="an empty list of pairs")
        return among(tasks.names, measured)
    if device != "auto":
        resolve_device(device)  # a misspelt one is refused whatever the encoder
    chosen_encoder = make_encoder(encoder, vectors=vectors, device=device)
    prepared = chosen_encoder.prepare(tasks, splits=("train", "valid"), progress=progress)
    plan = make_plan(tasks, prepared, missing, settings=settings, seed=seed)
    del prepared  # the plan has what it needs of it
    rounds = plan_rounds(plan, pairs, measured, stop)
    is_split = n_workers > 1 and len(plan.sources) > 1
    with Runner(make_executor("local", n_workers=n_workers)) if is_split else nullcontext() as processes:
        blocks = measure_rounds(plan, rounds, stop, processes or runner or Runner(), progress=progress)
    scores = collect_scores(plan.task_names, blocks, kind=settings.kind)
    return scores if measured is None else among(tasks.names, measured.merged_with(scores))


def among(names: Sequence[str], scores: TransferScores) -> TransferScores:
    """Give the scores with these tasks in this order, also those that have none."""
    place_of = {name: place for place, name in enumerate(names)}
    places = np.array([place_of[name] for name in scores.task_names], dtype=np.int64)
    columns: dict[str, Any] = {
        **scores.columns,
        "source": places[scores.source],
        "target": places[scores.target],
    }
    return TransferScores(names, **columns, kind=scores.kind)


def find_missing(
    names: Sequence[str],
    pairs: PairChoice | PairList,
    measured: TransferScores | None,
    *,
    settings: TransferSettings,
    seed: int,
) -> tuple[PairList, PairList]:
    """Choose the pairs, and give all of them and those that are not measured yet."""
    if isinstance(pairs, PairList):
        check_known(pairs, len(names), what="pairs")
    if measured is None:
        chosen = pairs if isinstance(pairs, PairList) else choose_pairs(names, pairs, random_state=seed)
        return chosen, chosen
    if measured.kind != settings.kind:
        raise UsageError(
            "the scores measured before are of another kind",
            got=quote(measured.kind),
            expected=quote(settings.kind),
        )
    place_of = {name: place for place, name in enumerate(names)}
    unknown = [name for name in measured.task_names if name not in place_of]
    if unknown:
        raise DataError(
            "the scores measured before have a task that is not among these",
            got=quote(unknown[0]),
            todo="leave it out with scores.subset(tasks.names)",
        )
    places = np.array([place_of[name] for name in measured.task_names], dtype=np.int64)
    if isinstance(pairs, PairList):
        chosen = pairs
    else:
        already = PairList.from_entries(places[measured.source], places[measured.target])
        chosen = choose_pairs(names, pairs, random_state=seed, already=already)
    n = len(names)
    there = places[measured.source] * n + places[measured.target]
    # A pair of which one direction is missing is measured whole; what is there twice is then equal.
    has_forward = np.isin(chosen.first * n + chosen.second, there)
    is_new = ~(has_forward & np.isin(chosen.second * n + chosen.first, there))
    return chosen, PairList(chosen.first[is_new], chosen.second[is_new])


def score_overlap(tasks: TaskSet, pairs: PairList) -> TransferScores:
    """Score the share of texts in common, a control that no encoder should lose to."""
    source, target = pairs.entries()
    overlap = text_overlap(tasks)
    n_rows = np.array([len(task.rows("train", "valid")) for task in tasks])
    return TransferScores(
        tasks.names,
        source=source,
        target=target,
        score=overlap[source, target],
        n_examples=n_rows[target],
        kind="overlap",
    )
