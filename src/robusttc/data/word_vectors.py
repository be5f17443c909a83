"""Word vectors from the text files of GloVe, word2vec and fastText.

One word per line, then its numbers, with single spaces between them; word2vec and fastText write a first line
with the number of words and of dimensions. The file (plain or gzipped) is streamed, and only the rows of the
words that were asked for are parsed: of the others it is checked that they are Unicode text and long enough.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robusttc.data.tokens import PADDING_WORD
from robusttc.errors import UsageError, WordVectorsError, quote

__all__ = ["WordVectors", "load_word_vectors", "unknown_word_vector"]

# Far more than any real row, so that a file without line ends cannot fill the memory.
MAX_LINE_BYTES = 2**20
# One number per word would be no vector, and its rows could not be told from a header. The upper bound keeps
# a file of something else from asking for all the memory.
MIN_DIMENSION, MAX_DIMENSION = 2, 2**14
UNKNOWN_SCALE = 0.25  # the usual one for this kind of network
LARGEST = float(np.finfo(np.float32).max)

HEADER = re.compile(rb"(\d{1,15}) (\d{1,15})")
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")

FORMAT = "a word, then its numbers, with single spaces between them"
TODO_DAMAGED = "the file may be damaged or truncated: download it again"
TODO_FORMAT = "use a GloVe or word2vec text file (the binary format of word2vec is not read)"


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """The vectors of a list of words.

    Attributes
    ----------
    matrix
        One vector per word, shape (number of words, dimension); read-only.
    found
        For every word, whether its vector is from the file; read-only.
    """

    matrix: NDArray[np.float32]
    found: NDArray[np.bool_]

    def __repr__(self) -> str:
        n_words, dimension = self.matrix.shape
        return f"WordVectors({n_words:,} words, {self.found.sum():,} found, dimension {dimension})"


def load_word_vectors(path: str | PathLike[str], words: Sequence[str]) -> WordVectors:
    r"""Read the vectors of some words.

    Call it with the `words` of a `Vocabulary`: row i of the matrix then belongs to word number i. The padding
    word gets zeros, whatever the file says; every other word that the file does not have, the unknown word
    among them, gets `unknown_word_vector`. Words are looked up as they are, case included; of a word that is
    there twice the first row counts.

    Parameters
    ----------
    path
        A text file of word vectors; gzipped ones are recognised by their content.
    words
        The words, each once.

    Raises
    ------
    UsageError
        If a word is not a string or occurs twice.
    WordVectorsError
        If the file cannot be read or is not a complete, well-formed file of word vectors.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small.txt"
    >>> _ = file.write_text("the 0.5 -1.0\nparcel 0.25 2\n")
    >>> vectors = load_word_vectors(file, ["<pad>", "<unk>", "parcel"])
    >>> vectors, vectors.found.tolist(), vectors.matrix[[0, 2]].tolist()
    (WordVectors(3 words, 1 found, dimension 2), [False, False, True], [[0.0, 0.0], [0.25, 2.0]])
    """
    row_of = rows_by_word(words)
    file = VectorFile(Path(path))
    vectors: dict[int, NDArray[np.float32]] = {}
    n_rows = 0
    for number, word, numbers in file.rows():
        n_rows += 1
        row = row_of.get(word)
        if row is not None and row not in vectors:
            vectors[row] = file.parse(number, numbers)
    if file.n_promised not in (None, n_rows):
        what = "the file does not hold as many vectors as its first line says"
        raise file.error(what, got=f"{n_rows:,} vectors", expected=f"{file.n_promised:,}")
    matrix = np.zeros((len(words), file.dimension), dtype=np.float32)
    for row, name in enumerate(words):
        if name != PADDING_WORD:
            matrix[row] = vectors[row] if row in vectors else unknown_word_vector(name, file.dimension)
    found = np.isin(np.arange(len(words)), list(vectors))
    matrix.flags.writeable = found.flags.writeable = False
    return WordVectors(matrix, found)


def unknown_word_vector(word: str, dimension: int) -> NDArray[np.float32]:
    """Return the vector of a word that no file has: uniform in [-0.25, 0.25], from a hash of the word alone.

    It is the same on every machine and in every version of Python and NumPy, and a shorter vector is the
    beginning of a longer one.

    Examples
    --------
    >>> unknown_word_vector("parcel", 3).astype(float).round(4).tolist()
    [-0.0038, 0.1921, 0.2091]
    """
    encoded = word.encode("utf-8", "surrogatepass")
    digest = hashlib.shake_128(b"robusttc-word-vector-1\0" + encoded).digest(4 * dimension)
    uniform = np.frombuffer(digest, dtype="<u4") / (2**32 - 1)  # in [0, 1], both ends included
    return ((2 * uniform - 1) * UNKNOWN_SCALE).astype(np.float32)


def rows_by_word(words: Sequence[str]) -> dict[bytes, int]:
    """Return the row of every word, by its UTF-8 bytes; the padding is not looked up."""
    if isinstance(words, str):
        raise UsageError("words is a single string", got=quote(words), expected="a list of words")
    row_of: dict[bytes, int] = {}
    for row, word in enumerate(words):
        # A lone surrogate cannot be in a file, but its word may still have an unknown word's vector.
        encoded = word.encode("utf-8", "surrogatepass") if isinstance(word, str) else None
        if encoded is None or encoded in row_of:
            what, expected = "a word cannot be looked up", "strings, each of them once"
            raise UsageError(what, where=f"word {row}", got=quote(word), expected=expected)
        row_of[encoded] = row
    row_of.pop(PADDING_WORD.encode(), None)
    return row_of


class VectorFile:
    """A file of word vectors; `n_promised` is the number of rows in its header, if it has one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dimension = 0
        self.n_promised: int | None = None

    def error(self, what: str, line: int | None = None, **details: Any) -> WordVectorsError:
        where = str(self.path) if line is None else f"{self.path}:{line}"
        return WordVectorsError(what, where=where, **{"todo": TODO_DAMAGED, **details})

    def rows(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the line number, the word and the numbers of every row; the first line has the dimension."""
        for number, line in self.lines():
            if number > 1 or not self.read_first(line):
                yield number, *self.split_row(number, line)
        if self.dimension == 0:
            raise self.error("the file is empty", expected=FORMAT, todo=TODO_FORMAT)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with their numbers, having checked that they are Unicode text."""
        number = 0
        try:
            with self.path.open("rb") as raw:
                magic = raw.peek(4)[:4]  # the format by the content, not by the name
                if magic == b"PK\x03\x04":
                    todo = "unpack it and use one of the files in it"
                    raise self.error("the file is a zip archive", todo=todo)
                with gzip.GzipFile(fileobj=raw) if magic.startswith(b"\x1f\x8b") else raw as stream:
                    lines = iter(lambda: stream.readline(MAX_LINE_BYTES), b"")
                    for number, line in enumerate(lines, start=1):
                        if len(line) == MAX_LINE_BYTES:
                            expected = f"less than {MAX_LINE_BYTES:,} bytes"
                            raise self.error("the line is too long for a row", number, expected=expected)
                        line.decode()
                        # word2vec ends its lines in a space, Windows in a carriage return.
                        content = line.rstrip(b" \r\n")
                        yield number, content.removeprefix(b"\xef\xbb\xbf") if number == 1 else content
        except WordVectorsError:
            raise
        except UnicodeDecodeError as error:
            got = quote(error.object[error.start : error.end])
            raise self.error("the line is not UTF-8 text", number, got=got, todo=TODO_FORMAT) from None
        except (OSError, EOFError, zlib.error, ValueError) as error:  # ValueError: a null byte in the path
            reason = quote(getattr(error, "strerror", None) or str(error))
            todo = "check the path" if number == 0 else TODO_DAMAGED
            what = "the file of word vectors cannot be read to its end"
            raise self.error(what, number + 1, got=reason, todo=todo) from error

    def read_first(self, line: bytes) -> bool:
        """Find the dimension from the first line; return whether the line is a header."""
        header = HEADER.fullmatch(line)
        if header is None:
            # The numbers at the end of a row whose word may itself have spaces, or be a number.
            fields = line.split(b" ")[1:]
            self.dimension = sum(1 for _ in takewhile(NUMBER.fullmatch, reversed(fields)))
        else:
            self.dimension, self.n_promised = int(header[2]), int(header[1])
        if not MIN_DIMENSION <= self.dimension <= MAX_DIMENSION:
            expected = f"{FORMAT}, {MIN_DIMENSION} to {MAX_DIMENSION:,} of them"
            what = "the file does not begin like a file of word vectors"
            raise self.error(what, 1, got=quote(line.decode()), expected=expected, todo=TODO_FORMAT)
        return header is not None

    def split_row(self, number: int, line: bytes) -> tuple[bytes, bytes]:
        """Return the word and the numbers of a row, which are counted but not parsed."""
        n_spaces = line.count(b" ")
        if n_spaces == self.dimension:
            word, _, numbers = line.partition(b" ")
            return word, numbers
        # Some files have words with spaces (". . ."): the numbers are the last ones.
        word = line.rsplit(b" ", self.dimension)[0]
        if n_spaces > self.dimension and not NUMBER.fullmatch(word.rpartition(b" ")[2]):
            return word, line[len(word) + 1 :]
        what = "the row has another number of dimensions"
        got = f"{n_spaces:,} numbers after {quote(line.partition(b' ')[0].decode())}"
        source = "row" if self.n_promised is None else "line"
        raise self.error(what, number, got=got, expected=f"{self.dimension:,}, as the first {source} says")

    def parse(self, number: int, numbers: bytes) -> NDArray[np.float32]:
        fields = numbers.split(b" ")
        # Python reads 1_000 as a number, and nan; no writer of vectors means that.
        wrong = [one for one in fields if not NUMBER.fullmatch(one) or abs(float(one)) > LARGEST]
        if wrong:
            got, expected = quote(wrong[0].decode()), "a finite number that fits into 32 bits"
            raise self.error("a number of the row cannot be used", number, got=got, expected=expected)
        return np.array(list(map(float, fields)), dtype=np.float32)
