"""Tokens are NLTK's to the letter, however they are come by; vocabularies do not depend on order."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from robusttc.data import (
    PADDING_ID,
    PADDING_WORD,
    UNKNOWN_ID,
    UNKNOWN_WORD,
    Task,
    TaskSet,
    TokenArray,
    Vocabulary,
    number_words,
    tokenize,
)
from robusttc.data import tokens as chunks_module
from robusttc.errors import DataError, UsageError

REAL_DATA = Path(__file__).parents[3] / "shared" / "data"
REAL_SETS = ("amazon69", "bots175", "clients1491", "diverse", "intents_classic")

# What NLTK's rules look at, each piece alone and in the company that makes a difference.
PIECES = [
    *"ab1SΣßé中²१_.,:;?!'\"`()[]{}<>«»“”„-*@#$%&\\/😀",
    *"\u2018\u2019\u0130\u0131\u017f\u2013\u2014",  # curly quotes, letters that change case oddly, dashes
    *" \n\t\r\x00\x1c\x1f\x85\xa0\u2028\u3000\ufeff",
    *(" ", " ", " ", " ", "  ", "''", "``", "--", "..", "...", ".)", ". )", ". '", "U.S."),
    *("n't", "N'T", "'s", "'S", "'m", "'d", "'ll", "'re", "'ve", "'tis", "'twas", "s'"),
    *("cannot", "CANNOT", "gimme", "gonna", "gotta", "lemme", "wanna", "d'ye", "more'n", "whatcha"),
]
hard_texts = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)
any_texts = st.text(max_size=30)

reference = NLTKWordTokenizer()


def tokens_by_chunks(texts: Iterable[str], *, lower: bool = False) -> list[list[str]]:
    """Tokenize in the fast way, and turn the numbers back into words."""
    vocabulary, rows = number_words(texts, lower=lower)
    return [[vocabulary.words[number] for number in row] for row in rows]


def make_tasks(**texts: list[str]) -> TaskSet:
    return TaskSet(Task(name, rows, ["x"] * len(rows)) for name, rows in texts.items())


class TestTokens:
    # Beside the 12,000 texts of the next test; here what fails is made small.
    @settings(max_examples=500, deadline=None)
    @given(st.lists(hard_texts | any_texts, min_size=1, max_size=4))
    def test_are_those_of_nltk(self, texts: list[str]) -> None:
        assert tokens_by_chunks(texts) == [reference.tokenize(text) for text in texts]

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_are_those_of_nltk_on_many_hard_texts(self, seed: int) -> None:
        generator = random.Random(seed)
        texts = ["".join(generator.choices(PIECES, k=generator.randint(1, 14))) for _ in range(4000)]
        assert tokens_by_chunks(texts) == [reference.tokenize(text) for text in texts]

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "\n\t ",
            '"Quoted" at both "ends"',
            '"',
            " \"leading space, then a quote'",
            "''double single'' quotes''",
            "the period is before the bracket. )",
            "the period is before the quote. '",
            "ends in a quote after an s's'",
            "ends in a quote after an s's' ",
            "an abbreviation U.S. inside, and at the end U.S.",
            "three dots... and two.. and one .",
            "two  spaces,  a\ttab and\na line.\n",
            "nul \x00 alone and in(\x00)side \x00",
            "wanna go? I wanna",
            "a,,b ,,, :: a:b 1,000 3:30,",
        ],
    )
    def test_are_those_of_nltk_at_the_edges(self, text: str) -> None:
        assert tokens_by_chunks([text, f"x {text}", f"{text} x"]) == [
            reference.tokenize(text),
            reference.tokenize(f"x {text}"),
            reference.tokenize(f"{text} x"),
        ]

    @pytest.mark.parametrize("name", REAL_SETS)
    def test_are_those_of_nltk_on_real_texts(self, name: str) -> None:
        path = REAL_DATA / name / "tasks.jsonl.gz"
        if not path.exists():
            pytest.skip(f"the real data set {path} is not there")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in islice(lines, 0, 100_000, 125)]
        assert len(texts) > 700
        assert tokens_by_chunks(texts) == [reference.tokenize(text) for text in texts]

    def test_are_lower_cased_one_by_one(self) -> None:
        texts = ["I CAN'T SEE ΟΔΟΣ. He said: 'STOP'", "İstanbul Straße"]
        expected = [[token.lower() for token in reference.tokenize(text)] for text in texts]
        assert tokens_by_chunks(texts, lower=True) == expected
        assert [tokenize(text) for text in texts] == expected
        assert [tokenize(text, lower=False) for text in texts] == tokens_by_chunks(texts)

    def test_do_not_depend_on_the_size_of_a_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        generator = random.Random(5)
        texts = ["".join(generator.choices(PIECES, k=12)) for _ in range(500)]
        expected = tokens_by_chunks(texts)
        monkeypatch.setattr(chunks_module, "BATCH_CHUNKS", 3)
        assert tokens_by_chunks(texts) == expected

    def test_of_a_chunk_are_looked_up_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        texts: list[str] = []

        def record(text: str) -> list[str]:
            texts.append(text)
            return list(reference.tokenize(text))

        monkeypatch.setattr(chunks_module, "load_nltk", lambda: record)
        tokens_by_chunks(["one two three four."] * 1000)
        assert len(texts) == 2  # the three words together, and the end of the text

    def test_that_take_nltk_too_long_are_a_data_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def give_up(text: str) -> list[str]:
            raise TimeoutError(text)

        monkeypatch.setattr(chunks_module, "load_nltk", lambda: give_up)
        with pytest.raises(DataError, match="takes too long to tokenize; got 5 characters"):
            tokenize("a lot")

    def test_load_nltk_only_when_they_are_needed(self) -> None:
        code = "import sys, robusttc.data.tokens, robusttc.data.word_vectors; sys.exit('nltk' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestVocabulary:
    def test_counts_words_and_orders_them_by_count_then_word(self) -> None:
        vocabulary = Vocabulary.build(make_tasks(a=["b a c", "B a"], b=["b d"]))
        assert vocabulary.words == (PADDING_WORD, UNKNOWN_WORD, "b", "a", "c", "d")
        assert len(vocabulary) == 6
        assert [vocabulary.id_of(word) for word in ("b", "d", "B", "new")] == [2, 5, UNKNOWN_ID, UNKNOWN_ID]
        assert (vocabulary.id_of(PADDING_WORD), vocabulary.id_of(UNKNOWN_WORD)) == (PADDING_ID, UNKNOWN_ID)
        assert "b" in vocabulary
        assert "B" not in vocabulary
        assert 3 not in vocabulary
        assert repr(vocabulary) == "Vocabulary(6 words, lower=True)"

    @settings(max_examples=50, deadline=None)
    @given(
        st.lists(
            st.lists(
                hard_texts.filter(lambda text: text.strip() and "\0" not in text), min_size=1, max_size=4
            ),
            min_size=1,
            max_size=4,
        ),
        st.randoms(use_true_random=False),
    )
    def test_is_that_of_a_plain_count_in_any_order_of_tasks(
        self, rows: list[list[str]], generator: random.Random
    ) -> None:
        tasks = [Task(f"task {number}", texts, ["x"] * len(texts)) for number, texts in enumerate(rows)]
        generator.shuffle(tasks)
        vocabulary = Vocabulary.build(TaskSet(tasks))
        counts = Counter(token for texts in rows for text in texts for token in tokenize(text))
        expected = sorted((-count, word) for word, count in counts.items())
        assert vocabulary.words[2:] == tuple(word for _, word in expected)

    def test_keeps_case_if_asked(self) -> None:
        vocabulary = Vocabulary.build(make_tasks(a=["Hello hello"]), lower=False)
        assert vocabulary.words[2:] == ("Hello", "hello")
        assert vocabulary.encode(["HELLO Hello"]).ids.tolist() == [UNKNOWN_ID, 2]

    def test_of_nothing(self) -> None:
        assert Vocabulary.build(TaskSet([])).words == (PADDING_WORD, UNKNOWN_WORD)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ((), "begin with the padding and the unknown word"),
            (("a", "b"), "begin with the padding and the unknown word"),
            ((PADDING_WORD, UNKNOWN_WORD, "a", "a"), "twice in the vocabulary; got 'a'"),
        ],
    )
    def test_refuses_words_that_cannot_be_numbered(self, words: tuple[str, ...], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            Vocabulary(words)

    def test_can_be_made_again_from_its_words(self) -> None:
        vocabulary = Vocabulary.build(make_tasks(a=["one two"]))
        assert Vocabulary(json.loads(json.dumps(vocabulary.words))) == vocabulary
        assert hash(Vocabulary(vocabulary.words)) == hash(vocabulary)
        assert Vocabulary(vocabulary.words, lower=False) != vocabulary
        assert pickle.loads(pickle.dumps(vocabulary)).id_of("two") == 3  # noqa: S301 - sent to a worker process

    def test_is_immutable(self) -> None:
        with pytest.raises(AttributeError):
            Vocabulary((PADDING_WORD, UNKNOWN_WORD)).words = ()  # type: ignore[misc]

    def test_encodes_every_task_as_it_encodes_its_texts(self) -> None:
        tasks = make_tasks(a=["one two", "two."], b=["'three'"], c=["one", "(four)", "five"])
        vocabulary = Vocabulary(Vocabulary.build(tasks).words[:6])
        encoded = vocabulary.encode_tasks(tasks)
        assert list(encoded) == ["a", "b", "c"]
        for task in tasks:
            expected = vocabulary.encode(task.texts)
            assert np.array_equal(encoded[task.name].ids, expected.ids)
            assert np.array_equal(encoded[task.name].offsets, expected.offsets)

    def test_gives_a_text_without_tokens_an_empty_row(self) -> None:
        vocabulary = Vocabulary.build(make_tasks(a=["one"]))
        encoded = vocabulary.encode(["", "one one", " \n "])
        assert encoded.lengths.tolist() == [0, 2, 0]
        assert encoded.ids.dtype == np.int32
        assert encoded.offsets.dtype == np.int64
        assert len(vocabulary.encode([])) == 0

    def test_refuses_texts_that_are_not_strings(self) -> None:
        vocabulary = Vocabulary.build(make_tasks(a=["one"]))
        with pytest.raises(UsageError, match="texts is a single string"):
            vocabulary.encode("one")
        with pytest.raises(DataError, match="row 1: a text is not a string; got None"):
            vocabulary.encode(["one", None])  # type: ignore[list-item]


class TestTokenArray:
    @given(st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=6), st.data())
    def test_is_a_list_of_rows(self, rows: list[list[int]], data: st.DataObject) -> None:
        array = TokenArray(np.array(sum(rows, [])), np.cumsum([0, *map(len, rows)]))  # noqa: RUF017
        assert len(array) == len(rows)
        assert [row.tolist() for row in array] == rows
        assert array.lengths.tolist() == [len(row) for row in rows]
        if rows:
            chosen = data.draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=8))
            assert [row.tolist() for row in array.take(chosen)] == [rows[row] for row in chosen]
            assert [array[row].tolist() for row in chosen] == [rows[row] for row in chosen]

    def test_cannot_be_changed_and_leaves_the_array_of_the_caller_alone(self) -> None:
        ids = np.arange(3, dtype=np.int32)
        array = TokenArray(ids, [0, 3])
        with pytest.raises(ValueError, match="read-only"):
            array[0][0] = 7
        ids[0] = 1
        assert repr(array) == "TokenArray(1 rows, 3 tokens)"

    @pytest.mark.parametrize("offsets", [[], [0], [0, 2], [1, 3], [0, 4, 3], [[0, 3]]])
    def test_refuses_offsets_that_do_not_cut_it(self, offsets: list[Any]) -> None:
        with pytest.raises(UsageError, match="do not cut the ids into rows"):
            TokenArray([1, 2, 3], offsets)

    @pytest.mark.parametrize("row", [2, -3])
    def test_refuses_rows_that_are_not_there(self, row: int) -> None:
        with pytest.raises(IndexError, match="out of range"):
            TokenArray([1, 2], [0, 1, 2])[row]
