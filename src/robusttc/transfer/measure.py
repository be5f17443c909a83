"""From tasks to transfer scores (lines 1 and 2 of Algorithm 1, section 3.1 of the paper)."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robusttc.data import TaskSet
from robusttc.encoders import DEFAULT_ENCODER, Encoder, make_encoder, resolve_device
from robusttc.errors import DataError, DoubtWarning, UsageError, WorkError, quote
from robusttc.formatting import count as count_nouns
from robusttc.jobs import Job, Result, Runner, make_executor
from robusttc.params import Integer, check_param
from robusttc.progress import Progress, ProgressOption, report, resolve_progress
from robusttc.random import RandomState, run_seed
from robusttc.transfer.pair_scores import (
    SCORE_COLUMNS,
    TransferPlan,
    TransferSettings,
    make_plan,
    measure_source,
)
from robusttc.transfer.pairs import PairChoice, PairList, check_known, choose_pairs, count_entries
from robusttc.transfer.scores import TransferScores

__all__ = [
    "STAGE",
    "StopMeasuring",
    "check_arguments",
    "find_missing",
    "has_rounds",
    "measure_transfer",
    "normalise_text",
    "round_sizes",
    "text_overlap",
]

STAGE = "transfer"
SPLITS = ("train", "valid")
# Up to here all pairs are measured at once: there is little to save.
MAX_TASKS_AT_ONCE = 50
# The first round: partners per task at the least, and the share of n log(n)^2; every round grows by a factor.
FIRST_PARTNERS = 8
FIRST_SHARE = 1 / 6
GROWTH = 1.6
MAX_NAMED = 5  # errors named in a warning
OTHER_CHARACTERS = re.compile(r"[\W_]+")

# Whether to stop, from the scores of each round so far.
StopMeasuring = Callable[[Sequence[TransferScores]], bool]
Entries = tuple[NDArray[np.int64], NDArray[np.int64]]  # sources and targets


def measure_transfer(
    tasks: TaskSet,
    *,
    encoder: str | Encoder = DEFAULT_ENCODER,
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

    Only rows of train and valid are used. A score depends on its two tasks, the settings and the seed: not on
    the other pairs, the order of the tasks, or the number of workers.

    Parameters
    ----------
    tasks
        The tasks, at least two.
    encoder
        See `robusttc.encoders.make_encoder`.
    pairs
        ``all``, a number of scores, or ``auto``: all up to 300 tasks, else about n log(n)**2 of them. Pairs
        are drawn so that all tasks have the same number of partners, and measured in both directions. A
        `PairList` names pairs by the positions of the tasks.
    kind
        What is measured: ``log_likelihood`` (the default), ``brier``, ``accuracy`` (the paper's) or
        ``overlap``; see `TransferSettings`.
    settings
        How it is measured; None takes the defaults.
    vectors
        A file of word vectors for ``cnn``; None takes those that come with the package.
    measured
        Scores measured before, of these tasks and with the same settings and seed: they are kept, count
        towards `pairs`, and are not measured again.
    stop
        Measure the pairs of ``auto`` in rounds, and stop when this function of the scores of the rounds so
        far returns True, for instance a `robusttc.clustering.StopRule`: then the result has fewer scores than
        `count_entries` says. Everything is measured at once with other choices of `pairs`, with `measured`,
        up to 50 tasks, and where every source trains a layer, which each round would train again (``cnn`` and
        ``accuracy``). None measures everything.
    n_workers
        The number of worker processes.
    runner
        What runs the jobs instead: one per source, ``transfer/<its name>``, or one per source and round,
        ``transfer/round <number>/<its name>``. A source whose job fails is left out of later rounds.
    device
        Where a sentence model runs: ``auto`` takes a GPU if there is one. Layers are small and are trained on
        the CPU.
    random_state
        The seed, or a NumPy generator, of which one draw is taken.
    progress
        True draws a bar in a terminal or a notebook, False does not; or a callback, called with a
        `ProgressEvent` after each job.

    Raises
    ------
    UsageError
        If an argument cannot be used.
    DataError
        If a task cannot be measured; it is named.
    WorkError
        If no score could be measured.

    Warns
    -----
    DoubtWarning
        If some scores could not be measured (a pair raised an error, or the job of a source failed): they are
        left out and named.

    Examples
    --------
    >>> from robusttc import Task
    >>> rows = (["hello", "good morning", "bye", "see you"], ["greet", "greet", "leave", "leave"])
    >>> scores = measure_transfer(TaskSet([Task("a", *rows), Task("b", *rows)]), encoder="cnn")
    >>> scores
    TransferScores(2 tasks, 2 scores, kind 'log_likelihood')
    """
    progress = resolve_progress(progress)
    settings = check_arguments(tasks, kind, settings, n_workers)
    seed = run_seed(random_state)
    if runner is not None and n_workers > 1:
        raise UsageError("n_workers and runner are both given", expected="n_workers or runner")
    missing, known = find_missing(tasks.names, pairs, measured, settings=settings, seed=seed)
    if not len(missing[0]):
        if measured is None:
            raise UsageError("there are no pairs to measure", got="an empty list of pairs")
        return known
    if settings.kind == "overlap":
        scores = score_overlap(tasks, missing)
    else:
        if device != "auto":
            resolve_device(device)  # a misspelt one is refused whatever the encoder
        chosen_encoder = make_encoder(encoder, vectors=vectors, device=device)
        prepared = chosen_encoder.prepare(tasks, splits=SPLITS, progress=progress)
        plan = make_plan(tasks, prepared, settings=settings, seed=seed)
        del prepared  # the plan has what it needs of it
        rounds = [missing]
        if stop is not None and has_rounds(pairs, measured, trains_layers=plan.trains_layers):
            rounds = draw_rounds(tasks.names, seed)
        is_split = n_workers > 1 and len(np.unique(missing[0])) > 1
        own = Runner(make_executor("local", n_workers=int(n_workers))) if is_split else nullcontext()
        with own as processes:
            results, errors = run_rounds(plan, rounds, stop, processes or runner or Runner(), progress)
        report_missing(results, errors)
        scores = collect_scores(plan, results)
    return known.merged_with(scores)


def check_arguments(
    tasks: object, kind: str | None, settings: TransferSettings | None, n_workers: int
) -> TransferSettings:
    """Refuse tasks that cannot be measured; return the settings."""
    if not isinstance(tasks, TaskSet):
        raise UsageError(
            "tasks cannot be used",
            got=type(tasks).__name__,
            expected="a TaskSet",
            todo="make one with TaskSet(tasks), or read files with load_tasks",
        )
    if len(tasks) < 2:
        raise DataError("transfer needs two tasks at least", got=count_nouns(len(tasks), "task"))
    check_param("n_workers", n_workers, Integer(1))
    settings = TransferSettings() if settings is None else settings
    return settings if kind is None else settings.replace(kind=kind)


def find_missing(
    names: Sequence[str],
    pairs: PairChoice | PairList,
    measured: TransferScores | None,
    *,
    settings: TransferSettings,
    seed: int,
) -> tuple[Entries, TransferScores]:
    """Return the entries of the transfer matrix that are still to be measured, and those that are known."""
    optional = ("n_examples",) if settings.kind == "overlap" else SCORE_COLUMNS[1:]
    columns: dict[str, Any] = dict.fromkeys(("source", "target", "score", *optional), ())
    known = TransferScores(names, **columns, kind=settings.kind)
    if measured is not None:
        for unknown in sorted(set(measured.task_names).difference(names)):
            raise DataError(
                "the scores measured before have a task that is not among these",
                got=quote(unknown),
                todo="leave it out with scores.subset(tasks.names)",
            )
        if measured.kind != settings.kind:
            raise UsageError(
                "the scores measured before are of another kind",
                got=quote(measured.kind),
                expected=quote(settings.kind),
            )
        known = known.merged_with(measured)
    if isinstance(pairs, PairList):
        check_known(pairs, len(names), what="pairs")
    else:
        already = PairList.from_entries(known.source, known.target)
        pairs = choose_pairs(names, pairs, random_state=seed, already=already)
    source, target = pairs.entries()
    n = len(names)
    is_new = ~np.isin(source * n + target, known.source * n + known.target)
    return (source[is_new], target[is_new]), known


# --- Rounds: measuring can stop as soon as more scores would not be worth their cost


def round_sizes(n_tasks: int) -> list[int]:
    """Return how many entries ``auto`` has measured after each round; the last number is all of its entries.

    >>> round_sizes(50), round_sizes(60)
    ([2450], [480, 768, 1230, 1968, 3540])
    """
    budget = count_entries(n_tasks, "auto")
    if n_tasks <= MAX_TASKS_AT_ONCE:
        return [budget]
    size = n_tasks * max(FIRST_PARTNERS, FIRST_SHARE * math.log(n_tasks) ** 2)
    sizes: list[int] = []
    # What is left for the last round is not much smaller than the round before.
    while size * math.sqrt(GROWTH) < budget:
        sizes.append(math.ceil(size / 2) * 2)
        size *= GROWTH
    return [*sizes, budget]


def has_rounds(pairs: PairChoice | PairList, measured: TransferScores | None, *, trains_layers: bool) -> bool:
    """Return whether measuring may be done in rounds, which would train layers again in each."""
    return isinstance(pairs, str) and pairs == "auto" and measured is None and not trains_layers


def draw_rounds(names: Sequence[str], seed: int) -> list[Entries]:
    """Return the new entries of each round; those of a round are evenly spread over the tasks."""
    drawn = [choose_pairs(names, size, random_state=seed) for size in round_sizes(len(names))]
    codes = [np.empty(0, dtype=np.int64), *(pairs.codes(len(names)) for pairs in drawn)]
    new = [np.setdiff1d(after, before) for before, after in pairwise(codes)]
    return [PairList.from_codes(some, len(names)).entries() for some in new]


def run_rounds(
    plan: TransferPlan,
    rounds: Sequence[Entries],
    stop: StopMeasuring | None,
    runner: Runner,
    progress: Progress | None,
) -> tuple[list[Result], list[str]]:
    """Run the jobs of each round until `stop` returns True; return the results, and what failed and why."""
    is_one = len(rounds) == 1
    results: list[Result] = []
    scores: list[TransferScores] = []
    failed: set[str] = set()
    n_done, n_all = 0, sum(len(source) for source, _ in rounds)
    bar = None if is_one else progress  # one bar over all rounds, which counts scores

    def count(job: Job, result: Result) -> None:
        nonlocal n_done
        n_done += len(result.values["targets"]) + len(result.values["failed"])
        report(bar, STAGE, n_done, n_all, "scores", job.tasks[0])

    report(bar, STAGE, 0, n_all, "scores")
    shared = runner.share(plan)
    try:
        for number, (source, target) in enumerate(rounds, start=1):
            place = STAGE if is_one else f"{STAGE}/round {number}"
            jobs = [
                Job(f"{place}/{name}", measure_source, (own, np.sort(target[source == own])), (name,))
                for own, name in enumerate(plan.task_names)
                if name not in failed and own in source
            ]
            found = runner.run(
                STAGE, jobs, shared, on_result=count, progress=progress if is_one else None, unit="tasks"
            )
            failed |= {job.tasks[0] for job, result in zip(jobs, found, strict=True) if result is None}
            new = [result for result in found if result is not None]
            results += new
            if stop is not None and number < len(rounds) and any(result.values["targets"] for result in new):
                scores.append(collect_scores(plan, new))
                if stop(scores):
                    break
    finally:
        runner.release(shared)
    report(bar, STAGE, n_done, n_done, "scores")
    errors = [f"all scores of source {quote(name)}" for name in sorted(failed)]
    for values in (result.values for result in results):
        errors += [f"{quote(values['source'])} on {quote(name)} ({why})" for name, why in values["failed"]]
    return results, errors


def collect_scores(plan: TransferPlan, results: Sequence[Result]) -> TransferScores:
    """Return the scores in the results of jobs, given in any order."""
    number_of = {name: number for number, name in enumerate(plan.task_names)}
    columns: dict[str, Any] = {
        name: np.concatenate([result.arrays[name] for result in results]) for name in SCORE_COLUMNS
    }
    pairs = [(result.values["source"], target) for result in results for target in result.values["targets"]]
    return TransferScores(
        plan.task_names,
        source=[number_of[source] for source, _ in pairs],
        target=[number_of[target] for _, target in pairs],
        **columns,
        kind=plan.settings.kind,
    )


def report_missing(results: Sequence[Result], errors: Sequence[str]) -> None:
    """Warn of scores that are missing; raise if there is not a single one."""
    if errors:
        more = f"; and {len(errors) - MAX_NAMED:,} more" if len(errors) > MAX_NAMED else ""
        warnings.warn(
            f"some scores could not be measured and are left out: {'; '.join(errors[:MAX_NAMED])}{more}",
            DoubtWarning,
            stacklevel=3,
        )
    if not any(result.values["targets"] for result in results):
        raise WorkError(
            "no score could be measured",
            got=errors[0] if errors else "no pairs",
            todo="see the errors of the jobs",
        )


# --- Overlap of texts: a score that needs no model, as a control and as side information


def score_overlap(tasks: TaskSet, entries: Entries) -> TransferScores:
    """Return the share of texts in common, a control that no encoder should lose to."""
    source, target = entries
    n_rows = np.array([len(task.rows(*SPLITS)) for task in tasks])
    return TransferScores(
        tasks.names,
        source=source,
        target=target,
        score=text_overlap(tasks)[source, target],
        n_examples=n_rows[target],
        kind="overlap",
    )


def normalise_text(text: str) -> str:
    """Return a text in lower case, with one space for whatever is neither letter nor digit.

    A text without any letter or digit is only stripped.

    >>> normalise_text("Where's my  PARCEL?"), normalise_text(" ?! ")
    ('where s my parcel', '?!')
    """
    return OTHER_CHARACTERS.sub(" ", text.lower()).strip() or text.strip()


def text_overlap(tasks: TaskSet) -> NDArray[np.float64]:
    """Return for every source i and target j the share of j's rows (train and valid) whose text i has.

    Texts are compared after `normalise_text`. The result is not symmetric: a small task can lie within a
    large one. Its diagonal is 1.

    >>> from robusttc.data import Task
    >>> a = Task("a", ["Hi!", "bye"], ["x", "y"])
    >>> b = Task("b", ["hi", "hi", "hi?", "yes"], ["x", "x", "x", "y"])
    >>> text_overlap(TaskSet([a, b])).tolist()
    [[1.0, 0.75], [0.5, 1.0]]
    """
    number_of: dict[str, int] = {}
    numbers: list[int] = []
    ends = [0]
    for task in tasks:
        rows = task.rows(*SPLITS)
        if len(rows) == 0:
            raise DataError(
                "a task has no row to compare",
                where=f"task {quote(task.name)}",
                expected=f"rows in {' or '.join(SPLITS)}",
                todo="leave the task out",
            )
        texts = (normalise_text(task.texts[row]) for row in rows.tolist())
        numbers += [number_of.setdefault(text, len(number_of)) for text in texts]
        ends.append(len(numbers))
    shape = (len(tasks), len(number_of))
    counts = sparse.csr_array((np.ones(len(numbers)), numbers, ends), shape=shape)
    counts.sum_duplicates()
    return np.asarray((counts.sign() @ counts.T).toarray() / np.diff(ends), dtype=np.float64)
