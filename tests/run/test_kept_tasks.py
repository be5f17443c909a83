"""A run keeps its tasks to the letter, and what completion made of the scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_run
from hypothesis import given, settings
from hypothesis import strategies as st

from robusttc.clustering import RobustTaskClustering
from robusttc.data import Task, TaskSet, load_tasks
from robusttc.errors import StoreError, UnknownTaskError
from robusttc.run.kept_tasks import KeptTasks
from robusttc.run.run import Run
from robusttc.run.similarity import Similarity, read_similarity, similarity_of, write_similarity

# Anything that a name and a text may be, with a letter at the end: what is blank is neither.
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9).map(lambda text: f"{text}x")
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(CHARACTERS, max_size=9).map(lambda text: f"{text}x")
ROWS = st.lists(st.tuples(TEXTS, NAMES, st.sampled_from(["train", "valid", "test", "old"])), min_size=1)


@settings(max_examples=30, deadline=None)
@given(name=NAMES, rows=ROWS, may_share=st.booleans(), drawn=st.booleans())
def test_any_task_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    rows: list[tuple[str, str, str]],
    may_share: bool,
    drawn: bool,
) -> None:
    columns = map(list, zip(*rows, strict=True))
    task = Task(name, *columns, other_splits=["old"], may_share=may_share, splits_drawn=drawn)
    kept = KeptTasks(tmp_path_factory.mktemp("run"))
    kept.write([task])
    assert kept.names() == [name]
    found = kept.read([name])[name]
    assert found == task
    assert (found.may_share, found.splits_drawn) == (may_share, drawn)


def test_a_task_is_written_once_and_replaced_by_its_name(tmp_path: Path) -> None:
    kept = KeptTasks(tmp_path)
    kept.write([Task("acme", ["hi"], ["greet"])])
    before = kept.place("acme").stat()
    kept.write([Task("acme", ["hi"], ["greet"])])
    assert kept.place("acme").stat().st_mtime_ns == before.st_mtime_ns
    kept.write([Task("acme", ["ho"], ["greet"])])
    assert list(kept.read()["acme"].texts) == ["ho"]


def test_a_removed_task_is_gone(tmp_path: Path) -> None:
    kept = KeptTasks(tmp_path)
    kept.write([Task("acme", ["hi"], ["greet"]), Task("blue", ["secret words"], ["greet"])])
    kept.remove(["blue", "never there"])
    assert kept.names() == ["acme"]
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(UnknownTaskError, match="blue"):
        kept.read(["blue"])
    kept.remove(["acme"])
    with pytest.raises(StoreError, match="keeps no tasks"):
        kept.read()


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    kept = KeptTasks(tmp_path)
    kept.write([Task("acme", ["hello there"] * 50, ["greet"] * 50)])
    place = kept.place("acme")
    content = bytearray(place.read_bytes())
    if damage == "cut":
        place.write_bytes(content[:-20])
    elif damage == "flipped":
        content[30] ^= 0xFF
        place.write_bytes(content)
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"text": ["hi"]}), place)
    with pytest.raises(StoreError, match=place.name):
        kept.read()


def test_a_finished_run_has_its_tasks_scores_and_similarities() -> None:
    opened = Run(tiny_run.finished_run())
    given = load_tasks(tiny_run.good_tasks()).keep_private(["task 5"])
    assert opened.tasks == TaskSet(sorted(given, key=lambda task: task.name))
    assert opened.scores is not None
    assert opened.similarity is not None
    again = RobustTaskClustering(2).fit(opened.scores)
    wanted = similarity_of(again)
    assert opened.similarity.task_names == wanted.task_names
    X = again.embedding_ @ again.embedding_.T
    np.testing.assert_allclose(opened.similarity.dense(), X, atol=1e-12)
    assert opened.similarity.between("task 0", "task 3") == pytest.approx(X[0, 3], abs=1e-12)
    np.testing.assert_allclose(opened.similarity.row("task 2"), X[2], atol=1e-12)
    pairs = again.pairs_
    np.testing.assert_allclose(opened.similarity.same_group[pairs.first, pairs.second], pairs.same_group)
    np.testing.assert_allclose(opened.similarity.outliers[pairs.second, pairs.first], pairs.outlier)
    assert opened.verdict == again.verdict_.as_dict()


def test_similarities_that_are_none_are_refused(tmp_path: Path) -> None:
    found = Run(tiny_run.finished_run()).similarity
    assert isinstance(found, Similarity)
    write_similarity(tmp_path, found)
    np.testing.assert_array_equal(read_similarity(tmp_path).dense(), found.dense())
    place = tmp_path / "similarity.safetensors"
    place.write_bytes(place.read_bytes()[:100])
    with pytest.raises(StoreError, match=r"similarity\.safetensors"):
        read_similarity(tmp_path)
    place.unlink()
    with pytest.raises(StoreError, match=r"similarity\.safetensors"):
        read_similarity(tmp_path)
