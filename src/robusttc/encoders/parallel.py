"""Vectors computed by jobs, before the stages of a run need them."""

from __future__ import annotations

from collections.abc import Iterable

from robusttc.encoders.base import Encoder
from robusttc.encoders.paired import PairedEncoder
from robusttc.errors import DataError, quote
from robusttc.jobs import Job, Result, Runner
from robusttc.progress import Progress, report
from robusttc.random import child_seed

__all__ = ["STAGE", "encode_with"]

STAGE = "encode"
JOB_TEXTS = 1_000
# Results are in memory until a step is done: so many jobs are a hundred megabytes with MiniLM.
STEP_JOBS = 64


def encode_with(
    runner: Runner, encoder: Encoder, texts: Iterable[str], *, progress: Progress | None = None
) -> int:
    """Compute the vectors of texts that the encoder's cache lacks; return how many there were.

    The vectors of a job are kept as soon as they are computed, so an interrupted run resumes there. A job
    that fails is passed over: who needs its vectors gets the error.

    An encoder without a cache has nothing to compute in advance. Progress is counted in distinct texts; those
    in the cache count as done.

    Examples
    --------
    >>> from robusttc.encoders import SentenceEncoder, VectorCache
    >>> from robusttc.jobs import Runner
    >>> encoder = SentenceEncoder(cache=VectorCache.in_memory())
    >>> [encode_with(Runner(), encoder, ["hello", "bye", "hello"]) for _ in range(2)]
    [2, 0]
    """
    distinct = sorted(set(texts))
    if isinstance(encoder, PairedEncoder):
        both = (encoder.first, encoder.second)
        return sum(encode_with(runner, part, distinct, progress=progress) for part in both)
    cache = encoder.cache
    if cache is None or not encoder.keeps_vectors:
        return 0
    fingerprint = encoder.fingerprint
    missing = cache.find_missing(fingerprint, distinct)
    n_done = len(distinct) - len(missing)
    report(progress, STAGE, n_done, len(distinct), "texts")
    # Encoders batch texts of one length.
    missing.sort(key=lambda text: (-len(text), text))
    blocks = [missing[start : start + JOB_TEXTS] for start in range(0, len(missing), JOB_TEXTS)]
    jobs = [
        Job(f"{STAGE}/{child_seed(0, 'texts', block):016x}", encode_job, block, keep=False)
        for block in blocks
    ]

    def keep(job: Job, result: Result) -> None:
        nonlocal n_done
        cache.put(fingerprint, job.argument, result.arrays["vectors"])
        n_done += len(job.argument)
        report(progress, STAGE, n_done, len(distinct), "texts")

    if jobs:
        shared = runner.share((encoder, fingerprint))
        try:
            for start in range(0, len(jobs), STEP_JOBS):
                runner.run(STAGE, jobs[start : start + STEP_JOBS], shared, on_result=keep, unit="texts")
        finally:
            runner.release(shared)
    return len(missing)


def encode_job(shared: tuple[Encoder, str], texts: list[str]) -> Result:
    """Encode some texts; refuse an encoder that is another one on this machine."""
    encoder, fingerprint = shared
    if encoder.fingerprint != fingerprint:
        raise DataError(
            "the encoder is not the one that the run began with",
            where=quote(encoder),
            got=f"fingerprint {quote(encoder.fingerprint[:12])}",
            expected=quote(fingerprint[:12]),
            todo="install the same model on all machines",
        )
    return Result({}, {"vectors": encoder._dense(texts).matrix})
