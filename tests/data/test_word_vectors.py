"""Word vectors: what is in the file is found, what is wrong with it is said, and nothing else is raised."""

from __future__ import annotations

import gzip
import hashlib
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robusttc.data import (
    PADDING_WORD,
    UNKNOWN_WORD,
    Task,
    TaskSet,
    Vocabulary,
    WordVectors,
    load_word_vectors,
    unknown_word_vector,
)
from robusttc.errors import RobustTCError, UsageError, WordVectorsError

REAL_FILE = Path(__file__).parents[3] / "shared" / "data" / "glove.6B.100d.subset.txt.gz"

GLOVE = "the 0.5 -1.25 2\n. . . 1e-2 .5 -3.\nparcel 0.25 2 +1\nzwölf 1 2 3\n2000 4 5 6\n"
WORDS = ["parcel", ". . .", "zwölf", "2000", "missing"]


def write(folder: Path, content: str | bytes, name: str = "vectors.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(vectors: WordVectors) -> list[list[float]]:
    return [row.astype(float).round(4).tolist() for row in vectors.matrix[vectors.found]]


EXPECTED = [[0.25, 2.0, 1.0], [0.01, 0.5, -3.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


class TestWellFormedFiles:
    def test_glove(self, tmp_path: Path) -> None:
        path = write(tmp_path, GLOVE)
        vectors = load_word_vectors(path, WORDS)
        assert rows_of(vectors) == EXPECTED
        assert vectors.found.tolist() == [True, True, True, True, False]
        assert vectors.matrix.dtype == np.float32
        assert vectors.matrix.shape == (5, 3)
        assert repr(vectors) == "WordVectors(5 words, 4 found, dimension 3)"

    @pytest.mark.parametrize(
        "content",
        [
            "5 3\n" + GLOVE,
            "5 3\n" + GLOVE.replace("\n", " \n"),  # word2vec's own writer ends every row in a space
            "\ufeff" + GLOVE,
            "\ufeff5 3\n" + GLOVE,
            GLOVE.replace("\n", "\r\n"),
            GLOVE.removesuffix("\n"),
            ". . . 1e-2 .5 -3.\n" + GLOVE,
        ],
        ids=[
            "header",
            "space at the end",
            "mark",
            "mark and header",
            "windows",
            "no last end",
            "spaces first",
        ],
    )
    def test_other_dialects(self, tmp_path: Path, content: str) -> None:
        assert rows_of(load_word_vectors(write(tmp_path, content), WORDS)) == EXPECTED

    @pytest.mark.parametrize("name", ["vectors.txt.gz", "vectors.txt"])
    def test_gzipped_under_any_name(self, tmp_path: Path, name: str) -> None:
        path = write(tmp_path, gzip.compress(GLOVE.encode()), name)
        assert rows_of(load_word_vectors(str(path), WORDS)) == EXPECTED

    def test_white_space_other_than_spaces_belongs_to_the_word(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a\xa0b 1 2\n\x85 3 4\n\u2028 5 6\n")
        assert rows_of(load_word_vectors(path, ["\u2028", "a\xa0b"])) == [[5.0, 6.0], [1.0, 2.0]]

    def test_the_first_row_of_a_word_counts(self, tmp_path: Path) -> None:
        vectors = load_word_vectors(write(tmp_path, "a 1 2\nb 3 4\na 5 6\nb 7 8\nc 1 1\nc 1 1\n"), ["a", "b"])
        assert rows_of(vectors) == [[1.0, 2.0], [3.0, 4.0]]

    def test_words_are_matched_as_they_stand(self, tmp_path: Path) -> None:
        assert load_word_vectors(write(tmp_path, "the 1 2\n"), ["The", "THE"]).found.tolist() == [
            False,
            False,
        ]

    def test_only_the_rows_that_are_needed_are_parsed(self, tmp_path: Path) -> None:
        assert load_word_vectors(write(tmp_path, "a 1 2\nb x y\n"), ["a"]).found.tolist() == [True]

    def test_no_words(self, tmp_path: Path) -> None:
        assert load_word_vectors(write(tmp_path, GLOVE), []).matrix.shape == (0, 3)

    def test_the_result_is_read_only(self, tmp_path: Path) -> None:
        vectors = load_word_vectors(write(tmp_path, GLOVE), WORDS)
        for values in (vectors.matrix, vectors.found):
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 1

    def test_the_real_file(self) -> None:
        if not REAL_FILE.exists():
            pytest.skip(f"the real word vectors {REAL_FILE} are not there")
        tasks = TaskSet([Task("a", ["The parcel is here, qzxqzx!"], ["x"])])
        vocabulary = Vocabulary.build(tasks)
        vectors = load_word_vectors(REAL_FILE, vocabulary.words)
        assert vectors.matrix.shape[1] == 100
        missing = [word for word, found in zip(vocabulary.words, vectors.found, strict=True) if not found]
        assert missing == [PADDING_WORD, UNKNOWN_WORD, "qzxqzx"]
        assert vectors.matrix[vocabulary.id_of("the"), 0] == np.float32(-0.03821)


class TestUnknownWords:
    def test_have_vectors_of_their_own_whatever_the_company(self, tmp_path: Path) -> None:
        path = write(tmp_path, GLOVE)
        first = load_word_vectors(path, ["new", "parcel", "other"])
        second = load_word_vectors(path, ["other", "more", "new"])
        assert np.array_equal(first.matrix[[0, 2]], second.matrix[[2, 0]])
        assert np.array_equal(first.matrix[0], unknown_word_vector("new", 3))
        assert len(np.unique(second.matrix)) == 9

    def test_vectors_are_those_of_the_first_version(self) -> None:
        many = np.concatenate([unknown_word_vector(f"word {n}", 100) for n in range(200)])
        digest = hashlib.sha256(many.astype("<f4").tobytes()).hexdigest()
        assert digest == "621f01ab498ea6649466b5aa51a9e3ae5464240b1ceabe13a1f8630d8bf219b7"

    def test_vectors_are_uniform_within_the_scale(self) -> None:
        many = np.concatenate([unknown_word_vector(f"word {n}", 100) for n in range(200)])
        assert np.abs(many).max() <= 0.25
        assert many.mean() == pytest.approx(0, abs=0.01)
        assert many.std() == pytest.approx(0.25 / np.sqrt(3), abs=0.005)

    def test_padding_is_zero_whatever_the_file_says(self, tmp_path: Path) -> None:
        path = write(tmp_path, f"{PADDING_WORD} 1 2\n{UNKNOWN_WORD} 3 4\n")
        vectors = load_word_vectors(path, [PADDING_WORD, UNKNOWN_WORD])
        assert vectors.matrix.tolist() == [[0.0, 0.0], [3.0, 4.0]]
        assert vectors.found.tolist() == [False, True]

    def test_word_that_is_not_unicode_text_has_a_vector(self, tmp_path: Path) -> None:
        assert load_word_vectors(write(tmp_path, GLOVE), ["\ud800"]).found.tolist() == [False]

    @pytest.mark.parametrize("words", ["text", ["a", "b", "a"], ["a", None], [PADDING_WORD, PADDING_WORD]])
    def test_wrong_words(self, tmp_path: Path, words: Any) -> None:
        with pytest.raises(UsageError, match=r"words is a single string|a word cannot be looked up"):
            load_word_vectors(write(tmp_path, GLOVE), words)


class TestWrongFiles:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "vectors.txt: the file is empty"),
            ("text,label\nhello,greet\n", "vectors.txt:1: the file does not begin like .*got 'text,label'"),
            ("hello there my friend\n", "vectors.txt:1: the file does not begin like"),
            ("\n\n", "vectors.txt:1: the file does not begin like"),
            ("the 0.5\n", "vectors.txt:1: the file does not begin like"),
            ("the\t1\t2\n", "vectors.txt:1: the file does not begin like"),
            ("5 1\na 1\n", "vectors.txt:1: the file does not begin like .*got '5 1'"),
            ("5 999999999\na 1 2\n", "vectors.txt:1: the file does not begin like"),
            (
                "5 16000\na 1 2\n",
                "vectors.txt:2: .* dimensions; got 2 numbers.*16,000, as the first line says",
            ),
            ("5 3\n", "vectors.txt: .* as many vectors .*got 0 vectors; expected 5"),
            ("2 2\na 1 2\n", "vectors.txt: .* as many vectors .*got 1 vectors; expected 2"),
            ("1 2\na 1 2\nb 1 2\n", "vectors.txt: .* as many vectors .*got 2 vectors; expected 1"),
            ("1 2\na 1 2 3\n", "vectors.txt:2: .* dimensions; got 3 numbers after 'a'; expected 2"),
            ("a 1 2\nb 1\n", "vectors.txt:2: .* dimensions; got 1 numbers after 'b'.*as the first row says"),
            ("a 1 2\nb 0.1 0.2 0.3\n", "vectors.txt:2: .* dimensions; got 3 numbers"),
            ("a 1 2\nb 0.1  0.3\n", "vectors.txt:2: .* dimensions"),
            ("a 1 2\n\nb 1 2\n", "vectors.txt:2: .* dimensions; got 0 numbers"),
            ("b 1 2\na 1 x\n", "vectors.txt:2: a number .*got 'x'"),
            ("b 1 2\na 1 nan\n", "vectors.txt:2: a number .*got 'nan'"),
            ("b 1 2\na -inf 1\n", "vectors.txt:2: a number .*got '-inf'"),
            ("b 1 2\na 1e39 1\n", "vectors.txt:2: a number .*got '1e39'; expected .* 32 bits"),
            ("b 1 2\na 1_0 1\n", "vectors.txt:2: a number .*got '1_0'"),
            ("b 1 2\na 1 ²\n", "vectors.txt:2: a number .*got '²'"),
            (b"b 1 2\n\xff\xfe 1 2\n", "vectors.txt:2: the line is not UTF-8 text"),
            (b"2 2\na \x00\x00\x80\x3f\x00\x00\x80\x3f", "vectors.txt:2: .*binary format of word2vec"),
            (
                gzip.compress(GLOVE.encode() * 99, mtime=0)[:-20],
                "vectors.txt:[0-9]+: .* cannot be read to its end",
            ),
            (
                gzip.compress(GLOVE.encode(), mtime=0)[:12] + b"\xff" * 40,
                "vectors.txt:1: .* cannot be read to its end",
            ),
            (b"\x1f\x8b", "vectors.txt:1: .* cannot be read to its end"),
            (gzip.compress(GLOVE.encode(), mtime=0) + b"junk", "vectors.txt:6: .* cannot be read to its end"),
            (b"a " + b"1" * 2**20, "vectors.txt:1: the line is too long"),
        ],
    )
    def test_say_what_is_wrong_and_where(self, tmp_path: Path, content: str | bytes, message: str) -> None:
        with pytest.raises(WordVectorsError, match=message) as caught:
            load_word_vectors(write(tmp_path, content), ["a", "parcel"])
        assert caught.value.todo

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("missing.txt", "No such file"),
            ("", "Is a directory"),
            ("null\0.txt", "null byte"),
            ("x" * 999, "too long"),
        ],
    )
    def test_that_cannot_be_opened(self, tmp_path: Path, name: str, reason: str) -> None:
        with pytest.raises(
            WordVectorsError, match=f"cannot be read to its end; got .*{reason}.*Check the path"
        ):
            load_word_vectors(tmp_path / name, ["a"])

    def test_zip_archive(self, tmp_path: Path) -> None:
        path = tmp_path / "glove.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("glove.txt", GLOVE)
        with pytest.raises(WordVectorsError, match=r"zip archive.*Unpack it"):
            load_word_vectors(path, ["a"])

    def test_dimension_is_believed_only_when_a_row_agrees(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise MemoryError

        monkeypatch.setattr(np, "zeros", refuse)
        with pytest.raises(WordVectorsError, match="another number of dimensions"):
            load_word_vectors(write(tmp_path, "5 16000\na 1 2\n"), ["a"])

    @pytest.mark.parametrize("seed", range(4))
    def test_damaged_at_random_load_or_say_so(self, tmp_path: Path, seed: int) -> None:
        generator = random.Random(seed)
        path = tmp_path / "vectors.txt"
        loaded = 0
        refusals: list[RobustTCError] = []
        for content in (GLOVE.encode(), b"5 3\n" + GLOVE.encode(), gzip.compress(GLOVE.encode())):
            for _ in range(150):
                path.write_bytes(damage(content, generator))
                try:
                    vectors = load_word_vectors(path, WORDS)
                except RobustTCError as error:
                    refusals.append(error)
                    continue
                loaded += 1
                assert np.isfinite(vectors.matrix).all()
                assert vectors.matrix.shape == (len(WORDS), vectors.matrix.shape[1])
        assert all(isinstance(error, WordVectorsError) and str(path) in str(error) for error in refusals)
        # Both ways out were taken, so the damage was neither nothing nor everything.
        assert loaded > 20
        assert len(refusals) > 100


def damage(content: bytes, generator: random.Random) -> bytes:
    """Change a file in one to three places: cut, overwrite, insert, delete, repeat a part, or cut it off."""
    damaged = bytearray(content)
    for _ in range(generator.randint(1, 3)):
        start = generator.randrange(len(damaged) + 1)
        end = min(len(damaged), start + generator.randint(0, 8))
        insert = generator.choice(
            [
                generator.randbytes(generator.randint(1, 4)),
                generator.choice(
                    [b" ", b"\n", b"\r\n", b"  ", b"nan", b"1e999", b"-", b".", b"\t", b"9", b"\0"]
                ),
                bytes(damaged[start:end]),
                b"",
            ]
        )
        damaged[start : generator.choice([start, end])] = insert
        if generator.random() < 0.1:
            del damaged[generator.randrange(len(damaged) + 1) :]
    return bytes(damaged)
