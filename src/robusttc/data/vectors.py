"""Word vectors from the text files of GloVe, word2vec and fastText.

One word a line, then its numbers, with single spaces between them; word2vec and fastText write a first line
with the number of words and of dimensions. The file (plain or gzipped) is streamed, and only the rows of the
words that were asked for are turned into numbers: of the others it is checked that they are Unicode text and
long enough. A word that is not in the file gets a vector made from a hash of the word alone, so it is the
same in every run, whatever the other words are.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robusttc.data.tokens import PADDING_WORD
from robusttc.errors import UsageError, WordVectorsError, quote

__all__ = ["WordVectors", "load_word_vectors", "unknown_word_vector"]

# Far more than any real row, so that a file without line ends cannot fill the memory.
MAX_LINE_BYTES = 2**20

# One number a word would be no vector, and its rows could not be told from a header. The upper bound keeps a
# file of something else from asking for all the memory.
MIN_DIMENSION, MAX_DIMENSION = 2, 2**14

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"

HEADER = re.compile(rb"(\d{1,15}) (\d{1,15})")
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")

FORMAT = "a word, then its numbers, with single spaces between them"
TODO_DAMAGED = "the file may be damaged or cut short: fetch it again"
TODO_FORMAT = "give a GloVe or word2vec text file (the binary format of word2vec is not read)"


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """The vectors of a list of words, one row each, in the order of the list.

    Attributes
    ----------
    matrix
        One vector a word, shape (number of words, dimension); read-only.
    found
        For every word, whether its vector is from the file; read-only.
    path
        The file.
    n_rows
        How many vectors the file holds.
    n_duplicates
        How many of its rows repeat a word that was asked for; the first row of a word is the one that counts.
    """

    matrix: NDArray[np.float32]
    found: NDArray[np.bool_]
    path: Path
    n_rows: int
    n_duplicates: int

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return int(self.matrix.shape[1])

    @property
    def n_found(self) -> int:
        """How many of the words are in the file."""
        return int(np.count_nonzero(self.found))

    def __len__(self) -> int:
        return len(self.matrix)

    def __repr__(self) -> str:
        return f"WordVectors({len(self):,} words, {self.n_found:,} found, dimension {self.dimension})"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the start of a file tells.

    ``name`` is the file's, ``n_promised`` the number of rows that a header promises (None without a header).
    """

    name: str
    dimension: int
    n_promised: int | None


# A line number, counted from 1, and the line without its end.
Line = tuple[int, bytes]


def load_word_vectors(
    path: str | PathLike[str], words: Sequence[str], *, unknown_scale: float = 0.25
) -> WordVectors:
    r"""Read the vectors of some words.

    Call it with the `words` of a `Vocabulary`: row i of the matrix then belongs to word number i. The padding
    word gets zeros, whatever the file says; every other word that the file does not have, the unknown word
    among them, gets `unknown_word_vector`. Words are looked up exactly as they stand, case included.

    Parameters
    ----------
    path
        A text file of word vectors; gzipped ones are recognised by their content.
    words
        The words, each once.
    unknown_scale
        The largest absolute value in the vector of a word that is not in the file. The default is the usual
        one for this kind of network.

    Raises
    ------
    UsageError
        If a word is not a string or occurs twice, or the scale is not a finite number from 0 up.
    WordVectorsError
        If the file cannot be read or is not a whole, well-formed file of word vectors.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small.txt"
    >>> _ = file.write_text("the 0.5 -1.0\nparcel 0.25 2\n")
    >>> vectors = load_word_vectors(file, ["<pad>", "<unk>", "parcel"])
    >>> vectors, vectors.found.tolist(), vectors.matrix[[0, 2]].tolist()
    (WordVectors(3 words, 1 found, dimension 2), [False, False, True], [[0.0, 0.0], [0.25, 2.0]])
    """
    check_scale(unknown_scale)
    row_of = number_words(words)
    file = Path(path)
    layout, lines = read_layout(str(file), read_lines(file))
    matrix = np.zeros((len(words), layout.dimension), dtype=np.float32)
    found = np.zeros(len(words), dtype=np.bool_)
    n_rows = n_duplicates = 0
    for line in lines:
        n_rows += 1
        word, numbers = split_row(layout, line)
        row = row_of.get(word)
        if row is None:
            continue
        if found[row]:
            n_duplicates += 1
            continue
        matrix[row] = parse_numbers(layout, line, numbers)
        found[row] = True
    if layout.n_promised not in (None, n_rows):
        raise WordVectorsError(
            "the file does not hold as many vectors as its first line says",
            where=layout.name,
            got=f"{n_rows:,} vectors",
            expected=f"{layout.n_promised:,}",
            todo=TODO_DAMAGED,
        )
    for row in np.flatnonzero(~found).tolist():
        if words[row] != PADDING_WORD:
            matrix[row] = unknown_word_vector(words[row], layout.dimension, scale=unknown_scale)
    matrix.flags.writeable = False
    found.flags.writeable = False
    return WordVectors(matrix, found, file, n_rows, n_duplicates)


def unknown_word_vector(word: str, dimension: int, *, scale: float = 0.25) -> NDArray[np.float32]:
    """Make the vector of a word that no file has: uniform in [-scale, scale], from a hash of the word alone.

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
    return ((2 * uniform - 1) * scale).astype(np.float32)


def check_scale(scale: float) -> None:
    """Refuse a scale that cannot bound the numbers of a vector."""
    is_number = isinstance(scale, int | float) and not isinstance(scale, bool)
    if not is_number or not 0 <= scale <= float(np.finfo(np.float32).max):
        raise UsageError(
            "unknown_scale cannot be used", got=quote(scale), expected="a finite number from 0 up"
        )


def number_words(words: Sequence[str]) -> dict[bytes, int]:
    """Give the row of every word that is looked for, by its UTF-8 bytes; the padding is not looked for."""
    if isinstance(words, str):
        raise UsageError("words is a single string", got=quote(words), expected="a list of words")
    row_of: dict[bytes, int] = {}
    for row, word in enumerate(words):
        # A lone surrogate cannot be in a file, but its word may still have an unknown word's vector.
        encoded = word.encode("utf-8", "surrogatepass") if isinstance(word, str) else None
        if encoded is None or encoded in row_of:
            raise UsageError(
                "a word cannot be looked up",
                where=f"word {row}",
                got=quote(word),
                expected="strings, each of them once",
            )
        row_of[encoded] = row
    row_of.pop(PADDING_WORD.encode(), None)
    return row_of


def read_lines(file: Path) -> Iterator[Line]:
    """Go through the lines of a file, plain or gzipped, checking that they are Unicode text."""
    gzipped = is_gzipped(file)
    line_number = 0
    try:
        with file.open("rb") as raw, gzip.GzipFile(fileobj=raw) if gzipped else raw as stream:
            for line_number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), start=1):
                check_line(file, line_number, line)
                # word2vec ends its lines in a space, Windows in a carriage return.
                yield line_number, line.rstrip(b" \r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise WordVectorsError(
            "the file cannot be read to its end",
            where=f"{file}:{line_number + 1}",
            got=quote(str(error)),
            todo=TODO_DAMAGED,
        ) from error


def is_gzipped(file: Path) -> bool:
    """Tell from the first bytes, not the name, whether a file is gzipped; refuse what cannot be opened."""
    try:
        with file.open("rb") as stream:
            magic = stream.read(len(ZIP_MAGIC))
    # A path with a null byte in it is a ValueError.
    except (OSError, ValueError) as error:
        raise WordVectorsError(
            "the file of word vectors cannot be opened",
            where=str(file),
            got=quote(getattr(error, "strerror", None) or str(error)),
            expected="a readable text file, plain or gzipped",
            todo="check the path",
        ) from error
    if magic == ZIP_MAGIC:
        raise WordVectorsError(
            "the file is a zip archive",
            where=str(file),
            expected="a text file, plain or gzipped",
            todo="unpack it and give one of the files in it",
        )
    return magic.startswith(GZIP_MAGIC)


def check_line(file: Path, line_number: int, line: bytes) -> None:
    """Refuse a line that is not Unicode text, or that is too long to be a row."""
    if len(line) == MAX_LINE_BYTES:
        raise WordVectorsError(
            "the line is too long for a word and its numbers",
            where=f"{file}:{line_number}",
            got=quote(line),
            expected=f"less than {MAX_LINE_BYTES:,} bytes",
            todo=TODO_FORMAT,
        )
    if line.isascii():
        return
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WordVectorsError(
            "the line is not UTF-8 text",
            where=f"{file}:{line_number}",
            got=quote(line[error.start : error.end]),
            todo=TODO_FORMAT,
        ) from None


def read_layout(name: str, lines: Iterator[Line]) -> tuple[Layout, Iterator[Line]]:
    """Learn the layout from the first line, and give the lines that hold vectors."""
    line_number, text = first = next(lines, (0, b""))
    if line_number == 0:
        raise WordVectorsError("the file is empty", where=name, expected=FORMAT, todo=TODO_FORMAT)
    header = HEADER.fullmatch(text.removeprefix(BYTE_ORDER_MARK))
    if header is None:
        first = (line_number, text.removeprefix(BYTE_ORDER_MARK))
        layout = Layout(name, count_numbers(first[1]), None)
    else:
        layout = Layout(name, int(header[2]), int(header[1]))
    if not MIN_DIMENSION <= layout.dimension <= MAX_DIMENSION:
        raise WordVectorsError(
            "the file does not begin like a file of word vectors",
            where=f"{name}:1",
            got=quote(text.decode("utf-8")),
            expected=f"{FORMAT}, {MIN_DIMENSION} to {MAX_DIMENSION:,} of them",
            todo=TODO_FORMAT,
        )
    if header is not None:
        first = next(lines, (0, b""))
        # Nothing after the header: the number of rows tells, once they are counted.
        if first[0] == 0:
            return layout, iter(())
        # The header may be wrong: no memory is asked for before a row agrees with it.
        split_row(layout, first)
    return layout, chain([first], lines)


def count_numbers(text: bytes) -> int:
    """Count the numbers at the end of a row whose word may itself have spaces, or be a number."""
    fields = text.split(b" ")[1:]
    return sum(1 for _ in takewhile(NUMBER.fullmatch, reversed(fields)))


def split_row(layout: Layout, line: Line) -> tuple[bytes, bytes]:
    """Part a row into its word and its numbers, which are counted but not parsed."""
    line_number, text = line
    n_spaces = text.count(b" ")
    if n_spaces == layout.dimension:
        word, _, numbers = text.partition(b" ")
        return word, numbers
    # Some files have words with spaces (". . ."): the numbers are the last ones.
    word = text.rsplit(b" ", layout.dimension)[0]
    if n_spaces > layout.dimension and not NUMBER.fullmatch(word.rpartition(b" ")[2]):
        return word, text[len(word) + 1 :]
    source = "row" if layout.n_promised is None else "line"
    raise WordVectorsError(
        "the row has another number of dimensions",
        where=f"{layout.name}:{line_number}",
        got=f"{n_spaces:,} numbers after {quote(text.partition(b' ')[0].decode('utf-8'))}",
        expected=f"{layout.dimension:,}, as the first {source} says",
        todo=TODO_DAMAGED,
    )


def parse_numbers(layout: Layout, line: Line, numbers: bytes) -> NDArray[np.float32]:
    """Turn the numbers of a row into a vector."""
    fields = numbers.split(b" ")
    try:
        # Python reads 1_000 as a number; no writer of vectors means that.
        values = list(map(float, fields)) if b"_" not in numbers else []
    except ValueError:
        values = []
    with np.errstate(over="ignore"):
        vector = np.array(values, dtype=np.float32)
    if len(vector) == len(fields) and np.isfinite(vector).all():
        return vector
    wrong = next(field for field in fields if not is_finite_number(field))
    raise WordVectorsError(
        "a number of the row cannot be used",
        where=f"{layout.name}:{line[0]}",
        got=quote(wrong.decode("utf-8")),
        expected="a finite number that fits into 32 bits",
        todo=TODO_DAMAGED,
    )


def is_finite_number(field: bytes) -> bool:
    """Tell whether a field is a number that a 32-bit float can hold."""
    return NUMBER.fullmatch(field) is not None and abs(float(field)) <= float(np.finfo(np.float32).max)
