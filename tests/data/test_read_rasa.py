"""Rasa NLU data in its three forms, and the mark-up of entities in its texts."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.data import LoadedTasks
from robusttc.data.rasa import remove_entities
from robusttc.errors import TaskFilesError

Read = Callable[..., LoadedTasks]

YAML = """\
version: "3.1"

nlu:
- intent: greet
  examples: |
    - hi
    - hello [Anna](name), it's [10:30](time:10:30)
    -   padded
    - say "it" - twice
- intent: yes
  examples: |  # the word, not the truth value
    - of course

    - sure
- synonym: LA
  examples: |
    - Los Angeles
- regex: zip
  examples: |
    - \\d{5}
- lookup: city
  examples: |
    - Rome
- intent: faq/ask_name
  examples:
  - text: |
      who are you
    metadata:
      sentiment: neutral
  - text: "- 5 degrees"
responses:
  utter_hi:
  - text: hi
stories: [{story: &s x}, *s]
"""

IN_YAML = [
    ("hi", "greet"),
    ("hello Anna, it's 10:30", "greet"),
    ("padded", "greet"),
    ('say "it" - twice', "greet"),
    ("of course", "yes"),
    ("sure", "yes"),
    ("who are you", "faq/ask_name"),
    ("- 5 degrees", "faq/ask_name"),
]

MARKDOWN = """\
# Training data

<!-- a comment
## intent:no
- of two lines -->
## intent:greet
- hi
* hello [Anna](name) <!-- inline -->
+ it's [ten](time:10:00)
-no space

##   intent : bye bye
# a title
- two\\nlines
- ciao\u2028ciao
## synonym:LA
- Los Angeles
## regex:zip
- \\d{5}
## lookup:city
cities.txt
## intent:faq/ask
- who
"""

IN_MARKDOWN = [
    ("hi", "greet"),
    ("hello Anna", "greet"),
    ("it's ten", "greet"),
    ("no space", "greet"),
    ("two\nlines", "bye bye"),
    ("ciao\u2028ciao", "bye bye"),
    ("who", "faq/ask"),
]

DATA = {
    "other": [{"a": "b"}, 1],
    "rasa_nlu_data": {
        "regex_features": [{"name": "zip", "pattern": "[0-9]{5}"}],
        "common_examples": [
            {"text": "hi [Anna](name)", "intent": "greet", "entities": []},
            {"text": "two\nlines", "intent": "bye"},
            {"text": "três", "intent": "greet", "entities": [{"start": 0, "end": 4, "entity": "number"}]},
        ],
        "entity_synonyms": [{"value": "LA", "synonyms": ["Los Angeles"]}],
        "intent_examples": [{"text": "old", "intent": "bye"}],
    },
}
IN_JSON = [("hi [Anna](name)", "greet"), ("two\nlines", "bye"), ("três", "greet"), ("old", "bye")]

# Rasa's own expression, but that the third form must hold objects: Rasa takes the second of any two words in
# square brackets away, which it does not mean.
REFERENCE = re.compile(
    r"\[(?P<text>[^\]]+?)\](\([^:)]+?(?:\:[^)]+)?\)|\{[^}]+?\}|\[\s*\{.*?\}\s*\])", re.DOTALL
)
PIECES = ["[", "]", "(", ")", "{", "}", ":", "a", " ", "[a]", "(b)", "(b:c)", '{"entity": "x"}', "[{", "}]"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("acme.yml", YAML, IN_YAML),
        ("acme.yaml", YAML, IN_YAML),
        ("acme.yml.gz", YAML, IN_YAML),
        ("acme.md", MARKDOWN, IN_MARKDOWN),
        ("acme.md.gz", MARKDOWN, IN_MARKDOWN),
        ("acme.json", json.dumps(DATA, ensure_ascii=False), IN_JSON),
        ("acme.json.gz", json.dumps(DATA, indent=2, ensure_ascii=False), IN_JSON),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_intents_are_labels_and_the_rest_is_skipped(
    read_file: Read, name: str, content: str, expected: list[tuple[str, str]], line_end: str, encoding: str
) -> None:
    task = read_file(name, content.replace("\n", line_end).encode(encoding)).tasks["acme"]
    assert list(zip(task.texts, task.labels.tolist(), strict=True)) == expected


def test_plain_words_are_taken_as_they_are_written(read_file: Read) -> None:
    intents = ["yes", "1", "1.50", "2024-01-01", "0x10", "TRUE", "=", "'null'"]
    content = "nlu:\n" + "".join(
        f"- intent: {intent}\n  examples: '- x{intent[0]}'\n" for intent in intents[:-1]
    )
    content += "- intent: 'null'\n  examples: '- n'\n"
    task = read_file("acme.yml", content).tasks["acme"]
    assert task.labels.tolist() == [*intents[:-1], "null"]


def lines_of(read_file: Read, content: str) -> list[int | None]:
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.yml", content)
    return [problem.line for problem in caught.value.problems]


def test_lines_of_bad_examples_in_yaml(read_file: Read) -> None:
    content = YAML.replace("    - hi\n", "    -\n").replace("    - sure\n", "    sure\n")
    content = content.replace('"- 5 degrees"', '""')
    assert lines_of(read_file, content) == [6, 14, 30]


def test_an_intent_with_only_bad_examples_is_counted_once(read_file: Read) -> None:
    content = YAML + "nlu2: []\n"
    bad = content.replace("    - of course\n\n    - sure\n", "    of course\n")
    loaded = read_file("acme.yml", bad, skip_bad_rows=True)
    assert (loaded.n_skipped, len(loaded.tasks["acme"])) == (1, 6)


def test_an_alias_outside_of_the_examples_is_nobodys_business(read_file: Read) -> None:
    assert "*s" in YAML
    content = YAML.replace("intent: greet", "intent: &name greet").replace("faq/ask_name", "*name")
    assert read_file("acme.yml", content).tasks["acme"].label_names == ("greet", "yes")


def test_a_bomb_of_aliases_is_refused_at_once(read_file: Read) -> None:
    content = (
        "nlu:\n- &i\n  intent: a\n  examples: &e\n  - &t {text: x}\n"
        + "  - *t\n" * 10_000
        + "- *i\n" * 10_000
    )
    with pytest.raises(TaskFilesError, match=r"acme\.yml:5: an alias repeats examples"):
        read_file("acme.yml", content)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_lines_of_bad_examples_in_markdown(read_file: Read, line_end: str) -> None:
    content = MARKDOWN.replace("- hi\n", "-\n").replace("- who\n", "who\n").replace("\n", line_end)
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.md", content)
    assert [(problem.line, problem.what) for problem in caught.value.problems] == [
        (7, "the text is empty"),
        (23, "a line is neither an example nor a header"),
    ]


@pytest.mark.parametrize(
    "evil", ["<!--" * 200_000, "<!--x-->" * 100_000, "##" + " " * 100_000 + "x", "- " + "[" * 100_000 + "]"]
)
def test_the_time_of_markdown_is_linear(read_file: Read, evil: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(TaskFilesError):
        read_file("acme.md", f"## intent:a\n- x\n## intent:b\n- y\n{evil}\n")
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_lines_of_bad_examples_in_json(read_file: Read, line_end: str) -> None:
    lines = [
        '{"rasa_nlu_data": {"common_examples":',
        '[{"text": "a", "intent": "x"}, {"text": "",',
        '  "intent": "x"},',
        '"no object", {"text": "b",',
        '"intent": null},',
        '{"text": "c", "intent": "y"}, {"text": "d"}]}}',
    ]
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.json", line_end.join(lines))
    assert [(problem.line, problem.what.split(":")[0]) for problem in caught.value.problems] == [
        (2, "the text is empty"),
        (4, "an example is not an object"),
        (4, "the label is empty"),
        (6, "missing label"),
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_place_of_broken_json(read_file: Read, line_end: str) -> None:
    content = line_end.join(['{"rasa_nlu_data":', '{"common_examples": [', '  {"text": "a" "intent"}]}}'])
    with pytest.raises(TaskFilesError, match=r"acme\.json:3:16: the file is not JSON"):
        read_file("acme.json", content)


def test_the_time_of_json_is_linear(read_file: Read) -> None:
    examples = [{"text": f"text {row}", "intent": "ab"[row % 2]} for row in range(30_000)]
    content = json.dumps({"rasa_nlu_data": {"common_examples": examples}}, indent=1)
    start = time.perf_counter()
    assert len(read_file("acme.json", content).tasks["acme"]) == 30_000
    assert time.perf_counter() - start < 5


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
def test_the_time_of_entities_is_linear(piece: str, ending: str) -> None:
    start = time.perf_counter()
    remove_entities(piece * 100_000 + ending)
    assert time.perf_counter() - start < 3
