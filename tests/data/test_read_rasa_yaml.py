from __future__ import annotations

from collections.abc import Callable

import pytest

from robusttc.data import LoadedTasks
from robusttc.errors import TaskFilesError

Read = Callable[..., LoadedTasks]

NLU = """\
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

EXPECTED = [
    ("hi", "greet"),
    ("hello Anna, it's 10:30", "greet"),
    ("padded", "greet"),
    ('say "it" - twice', "greet"),
    ("of course", "yes"),
    ("sure", "yes"),
    ("who are you", "faq/ask_name"),
    ("- 5 degrees", "faq/ask_name"),
]


@pytest.mark.parametrize("name", ["acme.yml", "acme.yaml", "acme.yml.gz"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_intents_are_labels_and_the_rest_is_passed_over(
    read_file: Read, name: str, line_end: str, encoding: str
) -> None:
    task = read_file(name, NLU.replace("\n", line_end).encode(encoding)).tasks["acme"]
    assert list(zip(task.texts, task.labels.tolist(), strict=True)) == EXPECTED


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


def test_lines_of_bad_examples(read_file: Read) -> None:
    content = NLU.replace("    - hi\n", "    -\n").replace("    - sure\n", "    sure\n")
    content = content.replace('"- 5 degrees"', '""')
    assert lines_of(read_file, content) == [6, 14, 30]


def test_an_intent_with_only_bad_examples_is_counted_once(read_file: Read) -> None:
    content = NLU + "nlu2: []\n"
    bad = content.replace("    - of course\n\n    - sure\n", "    of course\n")
    loaded = read_file("acme.yml", bad, skip_bad_rows=True)
    assert (loaded.n_skipped, len(loaded.tasks["acme"])) == (1, 6)


def test_an_alias_outside_of_the_examples_is_nobodys_business(read_file: Read) -> None:
    assert "*s" in NLU
    content = NLU.replace("intent: greet", "intent: &name greet").replace("faq/ask_name", "*name")
    assert read_file("acme.yml", content).tasks["acme"].label_names == ("greet", "yes")


def test_a_bomb_of_aliases_is_refused_at_once(read_file: Read) -> None:
    content = (
        "nlu:\n- &i\n  intent: a\n  examples: &e\n  - &t {text: x}\n"
        + "  - *t\n" * 10_000
        + "- *i\n" * 10_000
    )
    with pytest.raises(TaskFilesError, match=r"acme\.yml:5: an alias repeats examples"):
        read_file("acme.yml", content)
