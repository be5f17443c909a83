"""The transfer scores of one source task, as a run stores them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robusttc.errors import UnknownTaskError, UsageError, quote

__all__ = ["COLUMNS", "OPTIONAL", "ScoreRows", "digest_scores", "number_columns"]

# In the order in which they are stored and hashed.
COLUMNS: dict[str, type] = {
    "score": np.float64,
    "n_examples": np.int64,
    "standard_error": np.float64,
    "first_half": np.float64,
    "second_half": np.float64,
}
OPTIONAL = tuple(COLUMNS)[1:]


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Scores of one source task on several targets; columns become arrays.

    Parameters
    ----------
    source
        The name of the source task.
    targets
        The names of the target tasks, each once.
    score
        How well the source serves each of them; finite.
    n_examples
        The number of evaluation examples behind each score; or None.
    standard_error
        Their standard errors; or None.
    first_half, second_half
        The scores on two disjoint halves of the examples; or None.

    Raises
    ------
    UsageError
        If columns differ in length, a target is there twice, or a number is not finite.

    Examples
    --------
    >>> ScoreRows("acme", ["blue", "coral"], [0.5, 0.25]).score
    array([0.5 , 0.25])
    """

    source: str
    targets: tuple[str, ...]
    score: NDArray[np.float64]
    n_examples: NDArray[np.int64] | None = None
    standard_error: NDArray[np.float64] | None = None
    first_half: NDArray[np.float64] | None = None
    second_half: NDArray[np.float64] | None = None

    def __init__(
        self,
        source: str,
        targets: Sequence[str],
        score: ArrayLike,
        n_examples: ArrayLike | None = None,
        standard_error: ArrayLike | None = None,
        first_half: ArrayLike | None = None,
        second_half: ArrayLike | None = None,
    ) -> None:
        given = {
            "score": score,
            "n_examples": n_examples,
            "standard_error": standard_error,
            "first_half": first_half,
            "second_half": second_half,
        }
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "targets", tuple(targets))
        for name, values in given.items():
            column = None if values is None else check_column(source, name, values, len(self.targets))
            object.__setattr__(self, name, column)
        if len(set(self.targets)) < len(self.targets):
            raise UsageError("a pair has two scores", where=f"the scores of {quote(source)}")

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def columns(self) -> dict[str, NDArray[Any] | None]:
        """All columns of numbers, in their order."""
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the columns that are there."""
        return tuple(name for name, column in self.columns.items() if column is not None)


def check_column(source: str, name: str, values: ArrayLike, length: int) -> NDArray[Any]:
    """Give a column as an array of its type; refuse what the database could not give back."""
    column = np.array(values)
    is_whole = column.dtype.kind in "iu" or column.size == 0
    fits = column.shape == (length,) and (is_whole or (column.dtype.kind == "f" and name != "n_examples"))
    if not fits or not np.isfinite(column).all():
        raise UsageError(
            f"{name} cannot be stored",
            where=f"the scores of {quote(source)}",
            got=f"{column.dtype} of shape {column.shape}" if not fits else "a number that is not finite",
            expected=f"{length:,} {'whole' if name == 'n_examples' else 'finite'} numbers",
        )
    found: NDArray[Any] = column.astype(COLUMNS[name])
    # SQLite has no minus zero: adding zero makes plain zeros of them.
    found += 0
    return found


def number_columns(rows: ScoreRows, numbers: Mapping[str, int]) -> tuple[int, dict[str, NDArray[Any] | None]]:
    """Give the source's number, and the columns with targets as numbers, in the order of targets.

    Raises
    ------
    UnknownTaskError
        If a task is not one of the run.
    """
    for name in (rows.source, *rows.targets):
        if name not in numbers:
            raise UnknownTaskError(name, list(numbers))
    targets = np.array([numbers[name] for name in rows.targets], dtype=np.int64)
    order = np.argsort(targets, kind="stable")
    columns = {name: None if column is None else column[order] for name, column in rows.columns.items()}
    return numbers[rows.source], {"target": targets[order], **columns}


def digest_scores(key: str, source: int, columns: Mapping[str, NDArray[Any] | None]) -> bytes:
    """Give the SHA-256 of a unit's scores, which no other unit's scores have."""
    encoded = key.encode()
    digest = hashlib.sha256(b"robusttc-scores-1")
    digest.update(len(encoded).to_bytes(8, "little") + encoded + source.to_bytes(8, "little", signed=True))
    for name in ("target", *COLUMNS):
        column = columns.get(name)
        content = b"" if column is None else column.astype(column.dtype.newbyteorder("<")).tobytes()
        digest.update(b"-" if column is None else b"+")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.digest()
