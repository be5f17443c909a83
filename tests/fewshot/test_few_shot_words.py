"""Few-shot learning from texts: convolutions over words, and names of labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import Task, TaskSet, make_planted_tasks
from robusttc.encoders import CnnEncoder, Encoder
from robusttc.errors import UsageError
from robusttc.fewshot import ClusterFewShot, FewShotModel, FewShotSettings, MetricSettings, make_few_shot
from robusttc.models import TrainingSettings, name_as_text

PAPER = FewShotSettings(
    metric=MetricSettings(loss="matching", names=0.0, steps=40, learning_rate=3e-3),
    layer=TrainingSettings(width=24, window=3, min_steps=40, epochs=5),
    draws=1,
)
BLEND = PAPER.replace(metric=MetricSettings(steps=40, learning_rate=3e-3))


SYLLABLES = ["ba", "ko", "li", "mu", "re", "so", "ti", "vu", "za", "ne"]


class WordSums(Encoder):
    """An encoder of its own kind: a text is the sum of random vectors of its words."""

    name = "sums"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [sum(word_vector(word) for word in text.split()) + np.zeros(16) for text in texts]
        return np.array(rows, dtype=np.float32)


def word_vector(word: str) -> Any:
    return np.random.default_rng(list(word.encode())).normal(size=16)


def make_tasks(n_tasks: int = 10, n_labels: int = 6) -> TaskSet:
    """Every label is a word, and each of its texts has that word among others."""
    generator = np.random.default_rng(0)
    tasks = []
    for number in range(n_tasks):
        words = [SYLLABLES[number] + SYLLABLES[place] + "ma" for place in range(n_labels)]
        texts, labels = [], []
        for row in range(n_labels * 12):
            word = words[row % n_labels]
            others = " ".join(f"other{value}" for value in generator.integers(200, size=3))
            texts.append(f"{word} {others} n{row}")
            labels.append(word)
        tasks.append(Task(f"task {number}", texts, labels))
    return TaskSet(tasks)


def accuracy(learner: ClusterFewShot, task: Task) -> float:
    few = make_few_shot(task, extra=0)
    model = learner.adapt(few)
    return float((model.predict(list(task.texts)) == task.labels).mean())


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    tasks = make_planted_tasks(9, 3, rows=(60, 90)).tasks
    words = sorted({word for task in tasks for text in task.texts for word in text.lower().split()})
    path = tmp_path / "vectors.txt"
    lines = [f"{word} {' '.join(f'{value:.4f}' for value in word_vector(word)[:12])}" for word in words]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_words_are_learned_saved_and_kept_private(glove: Path, tmp_path: Path, strategy: Any) -> None:
    planted = make_planted_tasks(9, 3, rows=(60, 90))
    names = planted.tasks.names
    target = planted.tasks[names[-1]]
    sources = planted.tasks.subset(names[:-1]).keep_private([names[0]])
    labels = planted.families[:-1]
    settings = PAPER if strategy == "paper" else BLEND
    answers = []
    for tasks in (sources, sources.subset(names[1:-1])):
        learner = ClusterFewShot(
            CnnEncoder(glove), strategy=strategy, settings=settings, cluster_models="always"
        )
        learner.fit(tasks, labels if len(tasks) == 8 else labels[1:])
        model = learner.adapt(make_few_shot(target))
        answers.append(model.predict_proba(list(target.texts)))
    # The texts of the private task change nothing, not even the vocabulary.
    assert (answers[0] == answers[1]).all()
    learner.save(tmp_path / "learner")
    model.save(tmp_path / "model")
    again = ClusterFewShot.load(tmp_path / "learner").adapt(make_few_shot(target))
    for other in (again, FewShotModel.load(tmp_path / "model")):
        assert (other.predict_proba(list(target.texts)) == answers[1]).all()
    chance = 1 / len(target.label_names)
    assert (model.predict(list(target.texts)) == target.labels).mean() > chance


def test_words_out_of_all_clusters_have_their_own_convolution(glove: Path) -> None:
    tasks = make_planted_tasks(9, 3, rows=(60, 90)).tasks
    learner = ClusterFewShot(CnnEncoder(glove), strategy="paper", settings=PAPER, threshold=1.0)
    learner.fit(tasks.subset(tasks.names[:-1]))
    few = make_few_shot(tasks[tasks.names[-1]])
    model = learner.adapt(few)
    assert model.out_of_cluster_
    rows = few.rows("train")
    assert (model.predict(list(few.texts_at(rows))) == few.labels[rows]).mean() > 0.5
    with pytest.raises(UsageError, match="vectors can be used only"):
        learner.adapt(few, vectors=np.eye(len(few)))


@pytest.mark.parametrize("seed", [0, 1])
def test_names_help_where_there_is_one_row_a_label(seed: int) -> None:
    tasks = make_tasks()
    settings = FewShotSettings(metric=MetricSettings(steps=30), draws=1)
    target, sources = tasks["task 9"], tasks.subset(tasks.names[:-1])
    scores = {}
    for use in (True, False):
        learner = ClusterFewShot(WordSums(), use_label_names=use, settings=settings, random_state=seed)
        scores[use] = accuracy(learner.fit(sources), target)
    assert scores[True] > scores[False]
    # With names, a label's only row can be judged.
    few = make_few_shot(target, extra=0)
    assert np.isnan(learner.adapt(few).support_accuracy_)
    named = ClusterFewShot(WordSums(), settings=settings, random_state=seed).fit(sources)
    assert named.adapt(few).support_accuracy_ > 0.5


def test_names_without_words_are_left_out() -> None:
    tasks = make_tasks(6)
    learner = ClusterFewShot(WordSums(), settings=FewShotSettings(metric=MetricSettings(steps=5))).fit(tasks)
    numbers = Task("numbers", ["p q", "r s", "p p", "s s"], ["0", "1", "0", "1"])
    words = Task("words", ["p q", "r s", "p p", "s s"], ["zero", "one", "zero", "one"])
    other = Task("numbers", ["p q", "r s", "p p", "s s"], ["7", "8", "7", "8"])
    tables = [learner.adapt(task).predict_proba(["p s", "q"]) for task in (numbers, other, words)]
    assert (tables[0] == tables[1]).all()
    assert not np.allclose(np.sort(tables[0]), np.sort(tables[2]))
    assert name_as_text("order_status") == "order status"
    assert name_as_text("A17") is None


def test_a_task_may_be_called_anything() -> None:
    tasks = make_tasks(6)
    taken = Task("names of labels", tasks["task 5"].texts, tasks["task 5"].labels.tolist())
    settings = FewShotSettings(metric=MetricSettings(steps=2))
    learner = ClusterFewShot(WordSums(), settings=settings).fit(TaskSet([*tasks, taken]))
    assert "names of labels" in learner.source_names_
    assert "names of labels'" not in learner.source_names_


def test_iterators_arrays_and_lists_give_the_same() -> None:
    learner = ClusterFewShot(WordSums(), settings=FewShotSettings(metric=MetricSettings(steps=2)))
    tasks = make_tasks(7)
    model = learner.fit(tasks.subset(tasks.names[:-1])).adapt(make_few_shot(tasks["task 6"]))
    texts = list(tasks["task 6"].texts[:9])
    expected = model.predict_with_scope(texts)
    for other in (iter(texts), np.array(texts), tuple(texts), (text for text in texts)):
        table, scope = model.predict_with_scope(other)
        assert np.array_equal(table, expected[0])
        assert scope is not None
        assert expected[1] is not None
        assert np.array_equal(scope, expected[1])
    with pytest.raises(UsageError, match="list of strings"):
        model.predict("one text")


@pytest.mark.parametrize("strategy", ["blend", "paper"])
def test_refit_on_all_rows_leaves_decisions_as_they_are(strategy: Any) -> None:
    tasks = TaskSet(
        task.with_splits([("train", "train", "valid", "test")[row % 4] for row in range(len(task))])
        for task in make_tasks(8)
    )
    settings = (
        PAPER.replace(draws=1)
        if strategy == "paper"
        else FewShotSettings(metric=MetricSettings(steps=5), draws=1)
    )
    learners = {
        refit: ClusterFewShot(WordSums(), strategy=strategy, settings=settings, refit=refit).fit(
            tasks, [0, 1] * 4
        )
        for refit in ("train", "valid", "all")
    }
    assert len({repr(one.verdict_) for one in learners.values()}) == 1
    assert len({one.metrics_.fingerprint for one in learners.values()}) == 3
    assert len({one.temperature_ for one in learners.values()}) == 1


def test_a_model_on_an_encoder_of_ones_own_cannot_be_saved(tmp_path: Path) -> None:
    learner = ClusterFewShot(WordSums(), settings=FewShotSettings(metric=MetricSettings(steps=2)))
    learner.fit(make_tasks(6))
    with pytest.raises(UsageError, match="cannot be saved"):
        learner.save(tmp_path / "learner")
