"""Frozen sentence vectors under a trained layer: what most people would start from today."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from robusttc.data.taskset import TaskSet
from robusttc.encoders.encoder import PreparedTasks, distinct_texts
from robusttc.encoders.inputs import DenseInputs
from robusttc.encoders.sentence_model import SentenceModel, load_sentence_model
from robusttc.encoders.sentence_vectors import encode_sentences
from robusttc.encoders.vector_cache import VectorCache
from robusttc.progress import Progress, report

__all__ = ["SentenceEncoder"]


class SentenceEncoder:
    """Texts as frozen sentence vectors; the trained layer is dense.

    Every vector is computed once and kept on disk (see `VectorCache`), for this run and all later ones.

    Parameters
    ----------
    model
        A sentence-transformers model, by name or folder. None takes the MiniLM that comes with the package.
    cache
        Where vectors are kept; None takes the user's cache folder. `VectorCache.disabled()` keeps none.
    device
        Where the model runs: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``mps``.
    """

    name = "sentence"

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        *,
        cache: VectorCache | None = None,
        device: str = "auto",
    ) -> None:
        self.model = model if model is None or isinstance(model, str) else Path(model)
        self.device = device
        self._cache = cache
        self._loaded: SentenceModel | None = None

    def _load(self) -> SentenceModel:
        if self._loaded is None:
            self._loaded = load_sentence_model(self.model, device=self.device)
        return self._loaded

    @property
    def fingerprint(self) -> str:
        """The content of the model's files."""
        return self._load().fingerprint

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Give every distinct text its vector, from the cache where it is there.

        Raises
        ------
        UsageError
            If the model is not there, or the device is not.
        """
        texts, items = distinct_texts(tasks, splits)
        model = self._load()
        cache = VectorCache() if self._cache is None else self._cache
        n_texts, n_done = len(texts), 0

        def compute(missing: list[str]) -> object:
            nonlocal n_done
            start = n_done

            def tell(done: int, _total: int) -> None:
                report(progress, "sentence vectors", start + done, n_texts, "texts")

            vectors = encode_sentences(model, missing, progress=tell)
            n_done += len(missing)
            return vectors

        matrix = cache.get_or_compute(model.fingerprint, texts, compute, model.dimension)
        report(progress, "sentence vectors", n_texts, n_texts, "texts")
        return PreparedTasks(DenseInputs(matrix), items)

    def __repr__(self) -> str:
        return f"SentenceEncoder({'' if self.model is None else repr(str(self.model))})"
