"""What an encoder is: texts go in, one vector per text comes out (for the CNN, the numbers of its words).

An encoder is frozen: it knows nothing of labels, so computing it on all rows reveals nothing about them. What
is trained on top of it (layers, classifiers) takes the `FrozenInputs` that it returns.

To add an encoder, write one method:

>>> class TextLength(Encoder):
...     name = "length"
...
...     def encode(self, texts):
...         return np.array([[len(text)] for text in texts], dtype=np.float32)
>>> TextLength().read(["hi", "hello"]).matrix.tolist()
[[2.0], [5.0]]
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robusttc.data import TaskSet, is_unicode
from robusttc.encoders.cache import VectorCache
from robusttc.encoders.inputs import DenseInputs, FrozenInputs, PreparedTasks, WordInputs, distinct_texts
from robusttc.errors import DataError, UsageError, quote
from robusttc.jobs import Job, Result, Runner
from robusttc.progress import Progress, report
from robusttc.random import child_seed

__all__ = ["Arrays", "Encoder", "encode_with", "require_vectors"]

# The default fingerprint of an encoder is made of the vectors of these texts.
PROBES = ("", "Where is my parcel?", "¿Dónde está mi paquete?")
# Attributes that are not sent to another process.
LOADED = ("_model", "base_fingerprint", "fingerprint")

STAGE = "encode"
JOB_TEXTS = 1_000
# Results are in memory until a step is done: so many jobs are a hundred megabytes with MiniLM.
STEP_JOBS = 64

Arrays = dict[str, NDArray[Any]]


class ModelSize(NamedTuple):
    """Multiply-adds that a model does for a token, and the length of its vectors."""

    multiply_adds: float
    dimension: int


class Encoder(ABC):
    """Base class of encoders; a subclass must write `encode`.

    Attributes
    ----------
    name
        A short name for people.
    cache
        Where vectors are kept; None computes them whenever they are needed. Vectors are kept under the
        fingerprint, so an encoder with a cache should define one.
    """

    name: str = "custom"
    cache: VectorCache | None = None
    _dimension: int | None = None  # of the vectors, as far as it is known
    # Parameters of the constructor that make the encoder again; None if it cannot be saved.
    _options: tuple[str, ...] | None = None

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: it changes whenever the vectors of the same texts would change.

        By default it is a hash of the vectors of a few fixed texts.
        """
        matrix = self._vectors(PROBES)
        kind = type(self)
        identity = f"{kind.__module__}.{kind.__qualname__}:{matrix.shape}"
        return hashlib.sha256(identity.encode() + matrix.tobytes()).hexdigest()

    @property
    def parts(self) -> tuple[Encoder, ...]:
        """The encoders whose vectors are concatenated; of most encoders, itself alone."""
        return (self,)

    @property
    def keeps_vectors(self) -> bool:
        """Whether vectors are kept, so that computing them in advance pays."""
        return any(part.cache is not None and part.cache.keeps for part in self.parts)

    @property
    def model_size(self) -> ModelSize | None:
        """What tells how long encoding takes without loading the model; None if only encoding tells."""
        return None

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32] | WordInputs:
        """Return one vector per text, float32 of shape (texts, dimensions); nothing is kept."""

    def encode_cached(
        self, texts: Sequence[str], *, keep: bool = True, progress: Progress | None = None
    ) -> FrozenInputs:
        """Encode texts, looking up in the cache those that it has; with `keep`, it keeps the others."""
        if not texts:
            if self._dimension is None:
                return self._inputs(PROBES[:1]).take([])
            return DenseInputs(np.empty((0, self._dimension), dtype=np.float32))  # without loading a model

        def advance(n_done: int) -> None:
            report(progress, f"{self.name} vectors", n_done, len(texts), "texts")

        inputs: FrozenInputs
        if self.cache is None:
            advance(0)
            inputs = self._inputs(texts)
        else:
            inputs = DenseInputs(
                self.cache.get_or_compute(self.fingerprint, texts, self._vectors, keep=keep, advance=advance)
            )
        if isinstance(inputs, DenseInputs):
            self._dimension = inputs.dimension
        advance(len(texts))
        return inputs

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Encode the rows of all tasks, every distinct text once.

        Parameters
        ----------
        tasks
            The tasks.
        splits
            The splits whose rows are encoded; None encodes all rows.
        progress
            Progress callback, counted in texts.
        """
        texts, text_index = distinct_texts(tasks, splits)
        return PreparedTasks(self.encode_cached(texts, progress=progress), text_index)

    def for_new_texts(self, prepared: PreparedTasks) -> Encoder:
        """Return the encoder that encodes new texts as `prepared` was encoded; it can be saved."""
        del prepared  # only word numbers depend on the texts that were prepared
        return self

    def read(self, texts: Sequence[str]) -> FrozenInputs:
        """Encode texts that a trained model is to predict: checked, and kept nowhere.

        Raises
        ------
        UsageError
            If `texts` is not a list.
        DataError
            If a text is not a string of valid Unicode.
        """
        return self.encode_cached(check_texts(texts), keep=False)

    def describe(self) -> tuple[dict[str, Any], Arrays]:
        """Return what `load_encoder` needs: settings for JSON with the name of the encoder, and arrays.

        Raises
        ------
        UsageError
            If the encoder cannot be saved: then a model on top of it cannot, either.
        """
        if self._options is None:
            raise UsageError(
                "a model on an encoder of your own cannot be saved",
                got=type(self).__name__,
                expected="one of the encoders of this package, or a FeatureEncoder",
                todo="save the vectors of your encoder, and pass them to a FeatureEncoder",
            )
        identity = {"encoder": self.name, "fingerprint": self.fingerprint, "dimension": self._dimension}
        return identity | {option: getattr(self, option) for option in self._options}, {}

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters
        values = {option: getattr(self, option) for option in self._options or ()}
        changed = [
            f"{option}={value!r}" for option, value in values.items() if value != parameters[option].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __getstate__(self) -> dict[str, Any]:
        # Another process loads the model for itself, and may have another one under the same name.
        return {name: value for name, value in self.__dict__.items() if name not in LOADED}

    def _inputs(self, texts: Sequence[str]) -> FrozenInputs:
        encoded = self.encode(texts)
        if isinstance(encoded, WordInputs):
            return encoded
        inputs = DenseInputs(encoded)
        if len(inputs) != len(texts):
            raise UsageError(
                "the encoder did not return one vector per text",
                where=quote(self),
                got=f"shape {inputs.matrix.shape}",
                expected=f"({len(texts)}, dimensions)",
            )
        return inputs

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return require_vectors(self, self._inputs(texts))


def require_vectors(encoder: Encoder, inputs: FrozenInputs) -> NDArray[np.float32]:
    """Return the vectors that an encoder returned; refuse word numbers."""
    if not isinstance(inputs, DenseInputs):
        raise UsageError("this encoder does not return one vector per text", got=quote(encoder))
    return inputs.matrix


def check_texts(texts: object) -> list[str]:
    """Return the texts as a list; refuse what is not a list of valid Unicode strings."""
    if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
        raise UsageError("texts must be a list of strings", got=quote(texts))
    checked = list(texts)
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            raise DataError("a text is not a string", where=f"row {row}", got=quote(text))
        if not is_unicode(text):
            what = "a text is not valid Unicode: it has half of a surrogate pair"
            raise DataError(what, where=f"row {row}", got=quote(text))
    return checked


def encode_with(
    runner: Runner, encoder: Encoder, texts: Iterable[str], *, progress: Progress | None = None
) -> int:
    """Compute the vectors that the caches of an encoder lack, by jobs; return how many there were.

    The vectors of a job are kept as soon as they are computed, so an interrupted run resumes there. A job
    that fails is skipped: who needs its vectors gets the error. Progress is counted in distinct texts, for a
    pair of encoders twice; those in the cache count as done.

    Examples
    --------
    >>> from robusttc.encoders import SentenceEncoder
    >>> encoder = SentenceEncoder(cache=VectorCache.in_memory())
    >>> [encode_with(Runner(), encoder, ["hello", "bye", "hello"]) for _ in range(2)]
    [2, 0]
    """
    distinct = sorted(set(texts))
    parts = [(part, part.cache) for part in encoder.parts if part.cache is not None and part.cache.keeps]
    n_missing = 0
    for number, (part, cache) in enumerate(parts):

        def advance(n_done: int, n_before: int = number * len(distinct)) -> None:
            report(progress, STAGE, n_before + n_done, len(parts) * len(distinct), "texts")

        n_missing += encode_part(runner, part, cache, distinct, advance)
    return n_missing


def encode_part(
    runner: Runner, encoder: Encoder, cache: VectorCache, texts: list[str], advance: Callable[[int], None]
) -> int:
    """Compute the missing vectors of one encoder of a pair, or of one that stands alone."""
    fingerprint = encoder.fingerprint
    # Encoders batch texts of one length.
    missing = sorted(cache.find_missing(fingerprint, texts), key=lambda text: (-len(text), text))
    n_done = len(texts) - len(missing)
    advance(n_done)
    blocks = [missing[start : start + JOB_TEXTS] for start in range(0, len(missing), JOB_TEXTS)]
    jobs = [
        Job(f"{STAGE}/{child_seed(0, 'texts', block):016x}", encode_job, block, keep=False)
        for block in blocks
    ]

    def keep(job: Job, result: Result) -> None:
        nonlocal n_done
        cache.put(fingerprint, job.argument, result.arrays["vectors"])
        n_done += len(job.argument)
        advance(n_done)

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
    return Result({}, {"vectors": encoder._vectors(texts)})
