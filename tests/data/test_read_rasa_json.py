from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from robusttc.data import LoadedTasks
from robusttc.errors import TaskFilesError

Read = Callable[..., LoadedTasks]

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
EXPECTED = [("hi [Anna](name)", "greet"), ("two\nlines", "bye"), ("três", "greet"), ("old", "bye")]


@pytest.mark.parametrize("name", ["acme.json", "acme.json.gz"])
@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_examples_are_rows(
    read_file: Read, name: str, indent: int | None, line_end: str, encoding: str
) -> None:
    content = json.dumps(DATA, indent=indent, ensure_ascii=False).replace("\n", line_end)
    task = read_file(name, content.encode(encoding)).tasks["acme"]
    assert list(zip(task.texts, task.labels.tolist(), strict=True)) == EXPECTED


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_lines_of_bad_examples(read_file: Read, line_end: str) -> None:
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


def test_the_time_is_linear(read_file: Read) -> None:
    examples = [{"text": f"text {row}", "intent": "ab"[row % 2]} for row in range(30_000)]
    content = json.dumps({"rasa_nlu_data": {"common_examples": examples}}, indent=1)
    start = time.perf_counter()
    assert len(read_file("acme.json", content).tasks["acme"]) == 30_000
    assert time.perf_counter() - start < 5
