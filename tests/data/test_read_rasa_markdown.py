from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from robusttc.data import LoadedTasks
from robusttc.errors import TaskFilesError

Read = Callable[..., LoadedTasks]

NLU = """\
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

EXPECTED = [
    ("hi", "greet"),
    ("hello Anna", "greet"),
    ("it's ten", "greet"),
    ("no space", "greet"),
    ("two\nlines", "bye bye"),
    ("ciao\u2028ciao", "bye bye"),
    ("who", "faq/ask"),
]


@pytest.mark.parametrize("name", ["acme.md", "acme.md.gz"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_intents_are_labels_and_the_rest_is_passed_over(
    read_file: Read, name: str, line_end: str, encoding: str
) -> None:
    task = read_file(name, NLU.replace("\n", line_end).encode(encoding)).tasks["acme"]
    assert list(zip(task.texts, task.labels.tolist(), strict=True)) == EXPECTED


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_lines_of_bad_examples(read_file: Read, line_end: str) -> None:
    content = NLU.replace("- hi\n", "-\n").replace("- who\n", "who\n").replace("\n", line_end)
    with pytest.raises(TaskFilesError) as caught:
        read_file("acme.md", content)
    assert [(problem.line, problem.what) for problem in caught.value.problems] == [
        (7, "the text is empty"),
        (23, "a line is neither an example nor a header"),
    ]


@pytest.mark.parametrize(
    "evil", ["<!--" * 200_000, "<!--x-->" * 100_000, "##" + " " * 100_000 + "x", "- " + "[" * 100_000 + "]"]
)
def test_the_time_is_linear(read_file: Read, evil: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(TaskFilesError):
        read_file("acme.md", f"## intent:a\n- x\n## intent:b\n- y\n{evil}\n")
    assert time.perf_counter() - start < 3
