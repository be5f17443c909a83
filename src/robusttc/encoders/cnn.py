"""The paper's encoder: frozen word vectors under a convolution with max over time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from robusttc.data import TaskSet, Vocabulary, load_word_vectors
from robusttc.encoders.encoder import PreparedTasks, distinct_texts
from robusttc.encoders.inputs import WordInputs
from robusttc.encoders.piece_vectors import piece_word_vectors
from robusttc.errors import WordVectorsError, quote
from robusttc.progress import Progress, report

__all__ = ["CnnEncoder"]


class CnnEncoder:
    """Words as frozen vectors; the trained layer is a convolution (window 5, 200 filters by default).

    The tokens are NLTK's, lower-cased. A text without any token counts as one padding word.

    Parameters
    ----------
    vectors
        A file of word vectors in the form of GloVe or word2vec. None takes the word-piece vectors of the
        MiniLM that comes with the package, the mean of a word's pieces, reduced to 100 dimensions.
        Deviation: the paper has GloVe's; those cannot be shipped, and this default needs no file.

    Examples
    --------
    >>> from robusttc.data import Task
    >>> prepared = CnnEncoder().prepare(TaskSet([Task("a", ["Hello you", "hello"], ["x", "y"])]))
    >>> prepared.inputs.tokens.lengths.tolist(), prepared.items["a"].tolist()
    ([2, 1], [0, 1])
    """

    name = "cnn"

    def __init__(self, vectors: str | PathLike[str] | None = None) -> None:
        self.vectors = None if vectors is None else Path(vectors)
        self._fingerprint: str | None = None

    @property
    def fingerprint(self) -> str:
        """The content of the file of vectors; for the default vectors, their definition."""
        if self._fingerprint is None:
            digest = hashlib.sha256(b"robusttc-cnn-1")
            if self.vectors is not None:
                try:
                    with self.vectors.open("rb") as file:
                        digest = hashlib.file_digest(file, lambda: digest)
                except OSError as error:
                    raise WordVectorsError(
                        "the file of word vectors cannot be read",
                        where=quote(str(self.vectors)),
                        got=error.strerror or str(error),
                    ) from error
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def prepare(
        self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
    ) -> PreparedTasks:
        """Turn every distinct text into word numbers, and look up the vector of every word.

        Raises
        ------
        WordVectorsError
            If the file of vectors cannot be used.
        """
        texts, items = distinct_texts(tasks, splits)
        report(progress, "words", 0, len(texts), "texts")
        vocabulary = Vocabulary.build(tasks, splits=splits)
        tokens = vocabulary.encode(texts)
        if self.vectors is None:
            matrix = piece_word_vectors(vocabulary.words)
        else:
            matrix = load_word_vectors(self.vectors, vocabulary.words).matrix
        report(progress, "words", len(texts), len(texts), "texts")
        inputs = WordInputs(tokens, np.ascontiguousarray(matrix, dtype=np.float32))
        return PreparedTasks(inputs, items, vocabulary)

    def __repr__(self) -> str:
        return f"CnnEncoder({'' if self.vectors is None else repr(str(self.vectors))})"
