"""Vectors computed in units of work, before the stages of a run need them."""

from __future__ import annotations

from collections.abc import Iterable

from robusttc.encoders.base import Encoder
from robusttc.encoders.paired import PairedEncoder
from robusttc.errors import DataError, quote
from robusttc.progress import Progress, report
from robusttc.random import child_seed
from robusttc.work.units import Payload, Unit, Workshop

__all__ = ["STAGE", "encode_with"]

STAGE = "encode"
UNIT_TEXTS = 1_000
# Results are in memory until a step is done: so many units are a hundred megabytes with MiniLM.
STEP_UNITS = 64


def encode_with(
    workshop: Workshop, encoder: Encoder, texts: Iterable[str], *, progress: Progress | None = None
) -> int:
    """Compute the vectors of texts that the encoder's cache lacks; return how many there were.

    The vectors of a unit are kept as soon as they are computed, so an interrupted run resumes there. A unit
    that fails is passed over: who needs its vectors gets the error.

    Parameters
    ----------
    workshop
        Runs the units.
    encoder
        The encoder; of a pair, both. One without a cache has nothing to compute in advance.
    texts
        The texts; duplicates count once.
    progress
        Progress callback, counted in texts; those in the cache count as done.

    Examples
    --------
    >>> from robusttc.encoders import SentenceEncoder, VectorCache
    >>> from robusttc.work.units import HERE
    >>> encoder = SentenceEncoder(cache=VectorCache.in_memory())
    >>> [encode_with(HERE, encoder, ["hello", "bye", "hello"]) for _ in range(2)]
    [2, 0]
    """
    distinct = sorted(set(texts))
    if isinstance(encoder, PairedEncoder):
        both = (encoder.first, encoder.second)
        return sum(encode_with(workshop, part, distinct, progress=progress) for part in both)
    cache = encoder.cache
    if cache is None or not encoder.keeps_vectors:
        return 0
    fingerprint = encoder.fingerprint
    missing = cache.find_missing(fingerprint, distinct)
    n_done = len(distinct) - len(missing)
    report(progress, STAGE, n_done, len(distinct), "texts")
    # Encoders batch texts of one length.
    missing.sort(key=lambda text: (-len(text), text))
    blocks = [missing[start : start + UNIT_TEXTS] for start in range(0, len(missing), UNIT_TEXTS)]
    units = [
        Unit(f"{STAGE}/{child_seed(0, 'texts', block):016x}", encode_unit, block, keep=False)
        for block in blocks
    ]

    def keep(unit: Unit, payload: Payload) -> None:
        nonlocal n_done
        cache.put(fingerprint, unit.argument, payload.arrays["vectors"])
        n_done += len(unit.argument)
        report(progress, STAGE, n_done, len(distinct), "texts")

    if units:
        shared = workshop.put((encoder, fingerprint))
        try:
            for start in range(0, len(units), STEP_UNITS):
                workshop.do(STAGE, units[start : start + STEP_UNITS], shared, when_done=keep, noun="texts")
        finally:
            workshop.drop(shared)
    return len(missing)


def encode_unit(shared: tuple[Encoder, str], texts: list[str]) -> Payload:
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
    return Payload({}, {"vectors": encoder._dense(texts).matrix})
