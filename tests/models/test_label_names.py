"""The words in the names of labels."""

from __future__ import annotations

import pytest

from robusttc.models import carries_words, label_words


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("faq/order_status", "faq order status"),
        ("greet", "greet"),
        ("bookFlight", "book flight"),
        ("BookFlightNow", "book flight now"),
        ("HTTPError", "http error"),
        ("ask-ETA", "ask eta"),
        ("GREET", "greet"),
        ("step2confirm", "step 2 confirm"),
        ("a.b:c|d+e", "a b c d e"),
        ("__chitchat__/ask_name", "chitchat ask name"),
        ("  two  words ", "two words"),
        ("größeÄndern", "größe ändern"),
        ("überSicht", "über sicht"),
        ("订单_状态", "订单 状态"),
        ("17", "17"),
        ("???", "???"),
        ("❤", "❤"),
    ],
)
def test_names_become_words(label: str, words: str) -> None:
    assert label_words(label) == words


@pytest.mark.parametrize(
    "names",
    [
        ["greet", "goodbye"],
        ["faq/order_status", "faq/opening_hours"],
        ["yes", "no"],
        ["positive", "negative", "0"],
        ["订单", "状态"],
        ["вопрос", "ответ"],
        ["step_1_name", "step_2_street"],
        ["rhythm", "strengths"],
        ["greet"],
        ["find_ABC_fees", "find_XYZ_fees", "find_ABC_dates"],
        ["find_DL203_fees", "find_DL205_fees", "find_DL203_dates", "find_DL205_dates"],
        ["movies_1", "movies_2", "movies_3", "hotels_1"],
    ],
)
def test_names_that_say_something(names: list[str]) -> None:
    assert carries_words(names)


@pytest.mark.parametrize(
    "names",
    [
        ["0", "1"],
        ["A17", "B2"],
        ["class_1", "class_2", "class_3"],
        ["label0", "label1"],
        ["intent_17", "intent_18"],
        ["movies_1", "movies_2", "movies_3"],
        ["x", "y"],
        ["qzxkvbw", "wrtkpsdfg"],
        ["-1", "1"],
        ["1.0", "2.0"],
        ["!", "?"],
        ["abc", "7", "8", "9", "10"],
        [],
        ["step_a", "step_b"],
        ["room 1", "room 2", "room 3"],
    ],
)
def test_names_that_say_nothing(names: list[str]) -> None:
    assert not carries_words(names)
