from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.data.rasa import remove_entities

# Rasa's own expression, but that the third form must hold objects: Rasa takes the second of any two words in
# square brackets away, which it does not mean.
REFERENCE = re.compile(
    r"\[(?P<text>[^\]]+?)\](\([^:)]+?(?:\:[^)]+)?\)|\{[^}]+?\}|\[\s*\{.*?\}\s*\])", re.DOTALL
)
PIECES = ["[", "]", "(", ")", "{", "}", ":", "a", " ", "[a]", "(b)", "(b:c)", '{"entity": "x"}', "[{", "}]"]


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ("no mark-up", "no mark-up"),
        ("to [Rome](city) now", "to Rome now"),
        ("to [the eternal city](city:Rome)", "to the eternal city"),
        ("at [10:30](time:10:30)", "at 10:30"),
        ('to [LA]{"entity": "city", "value": "Los Angeles", "role": "to"}', "to LA"),
        ('[new york][{"entity": "city"}, {"entity": "state", "value": "NY"}] now', "new york now"),
        ('[a][{"entity": "x"}] and [b][ {"entity": "y"} ]', "a and b"),
        ("[a](x)[b](y)", "ab"),
        ("[maybe] (not)", "[maybe] (not)"),
        ("[](city)", "[](city)"),
        ("[a]()", "[a]()"),
        ("[a](:b)", "[a](:b)"),
        ("[a](b:)", "[a](b:)"),
        ("[a]{}", "[a]{}"),
        ("[a][b](c)", "[a]b"),
        ("[a][b]", "[a][b]"),
        ("[[a](b)", "[a"),
        ("[a](b", "[a](b"),
        ("[", "["),
    ],
)
def test_entities_are_taken_out(example: str, text: str) -> None:
    assert remove_entities(example) == text


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_the_text_is_that_of_rasas_expression(example: str) -> None:
    assert remove_entities(example) == REFERENCE.sub(lambda match: match["text"], example)


@pytest.mark.parametrize(
    "piece",
    ["[", "[a", "[a](", "[a](b", "[a](:", "[a]{", "[a][{", "[a][ {}", "[a](b:", "]", "[]", "[a][{ } "],
)
@pytest.mark.parametrize("ending", ["", "]", ":)", ")", "}", "] "])
def test_the_time_is_linear(piece: str, ending: str) -> None:
    start = time.perf_counter()
    remove_entities(piece * 100_000 + ending)
    assert time.perf_counter() - start < 3
