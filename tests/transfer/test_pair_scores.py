"""The scores of a source against slow and plain computations, on tiny tasks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from robusttc.data import Task, TaskSet
from robusttc.encoders import DenseInputs
from robusttc.encoders.features import FeatureEncoder
from robusttc.jobs import Result
from robusttc.models import TrainingSettings, train_model
from robusttc.random import numpy_generator
from robusttc.transfer import pair_scores
from robusttc.transfer.leave_one_out import leave_one_out_brier, leave_one_out_log_likelihood
from robusttc.transfer.measure import collect_scores
from robusttc.transfer.pair_scores import (
    TransferPlan,
    TransferSettings,
    discriminant_projection,
    make_plan,
    score_source,
    train_source,
)

TRAINING = TrainingSettings(width=7, epochs=6, min_steps=10, batch_size=8)
SEED = 5
TIE = 0.02  # how near the two best probabilities are where a classifier that is not exact may differ
Vectors = dict[str, NDArray[np.float32]]


def tiny_tasks(*, same_labels: bool, n_tasks: int = 3, n_rows: int = 36) -> tuple[TaskSet, Vectors]:
    """Make tasks that are hard enough for accuracies that differ; splits are mixed, test rows are there."""
    tasks: list[Task] = []
    vectors: Vectors = {}
    for number in range(n_tasks):
        generator = np.random.default_rng(number)
        n_labels = 3 if same_labels else 2 + number
        codes = generator.permutation(np.arange(n_rows) % n_labels)
        splits = generator.permutation(np.arange(n_rows) % 4)
        labels = [f"l{code}" if same_labels else f"{number}.{code}" for code in codes]
        name = f"t{number}"
        texts = [f"{name} {row}" for row in range(n_rows)]
        tasks.append(Task(name, texts, labels, [("train", "train", "valid", "test")[s] for s in splits]))
        noise = generator.normal(size=(n_rows, 5))
        vectors[name] = (noise + 1.2 * np.eye(5)[(codes + number) % 5]).astype(np.float32)
    return TaskSet(tasks), vectors


def plan_of(tasks: TaskSet, vectors: Vectors, settings: TransferSettings) -> TransferPlan:
    prepared = FeatureEncoder(vectors).prepare(tasks)
    return make_plan(tasks, prepared, settings=settings, seed=SEED)


def run_job(plan: TransferPlan, source: int, targets: list[int] | None = None) -> Result:
    others = [target for target in range(len(plan.rows)) if target != source] if targets is None else targets
    return score_source(plan, source, train_source(plan, source), np.array(others, dtype=np.int64))


def scores_of(plan: TransferPlan, source: int, targets: list[int] | None = None) -> Any:
    """Return the result of a job with its values and arrays as attributes."""
    result = run_job(plan, source, targets)
    return SimpleNamespace(**result.values, **result.arrays)


def rows_of(task: Task, vectors: Vectors, split: str) -> tuple[NDArray[np.float32], list[str]]:
    rows = [row for row in range(len(task)) if task.splits[row] == split]
    return vectors[task.name][rows], [str(task.labels[row]) for row in rows]


@pytest.mark.parametrize(
    ("same_labels", "label_sets"),
    [(True, "auto"), (True, "identical"), (True, "different"), (False, "auto"), (False, "different")],
)
def test_accuracy_equals_the_definition(same_labels: bool, label_sets: str) -> None:
    """The same rows are correct as with an exact classifier, but for near ties."""
    tasks, vectors = tiny_tasks(same_labels=same_labels)
    settings = TransferSettings(kind="accuracy", label_sets=label_sets, training=TRAINING)
    plan = plan_of(tasks, vectors, settings)
    seen: set[float] = set()
    n_exact = 0
    for i, source in enumerate(tasks):
        block = scores_of(plan, i)
        assert block.source == source.name
        assert list(block.targets) == [name for name in tasks.names if name != source.name]
        inputs, labels = rows_of(source, vectors, "train")
        names = sorted(set(labels))
        model = train_model(
            DenseInputs(inputs),
            [names.index(label) for label in labels],
            n_labels=len(names),
            settings=TRAINING,
            generator=numpy_generator(SEED, "model", [source.name]),
        )
        for place, name in enumerate(block.targets):
            target = tasks[name]
            train, train_labels = rows_of(target, vectors, "train")
            valid, valid_labels = rows_of(target, vectors, "valid")
            n_ties = 0
            if same_labels and label_sets != "different":
                codes = model.logits(DenseInputs(train)).argmax(axis=1)
                right = [names[code] == label for code, label in zip(codes, train_labels, strict=True)]
            else:
                classifier = LogisticRegression(C=1.0, tol=1e-9, max_iter=10_000)
                classifier.fit(model.layer.represent(DenseInputs(train)), train_labels)
                features = model.layer.represent(DenseInputs(valid))
                right = (classifier.predict(features) == np.array(valid_labels)).tolist()
                # A classifier stops before the minimum: rows that are a tie may go either way.
                best = np.sort(classifier.predict_proba(features), axis=1)[:, ::-1]
                n_ties = int((best[:, 0] - best[:, 1] < TIE).sum())
            assert abs(block.score[place] - np.mean(right)) <= n_ties / len(right) + 1e-12
            assert block.n_examples[place] == len(right)
            p = block.score[place]
            assert block.standard_error[place] == pytest.approx(np.sqrt(p * (1 - p) / len(right)))
            n_exact += n_ties == 0
            seen.add(float(p))
    assert n_exact >= 2
    assert len(seen) > 1


@pytest.mark.parametrize("kind", ["log_likelihood", "brier"])
@pytest.mark.parametrize("measure_width", [None, 1, 6])
def test_left_out_kinds_equal_their_parts(kind: str, measure_width: int | None) -> None:
    tasks, vectors = tiny_tasks(same_labels=False)
    plan = plan_of(tasks, vectors, TransferSettings(kind=kind, measure_width=measure_width))

    def pool(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
        parts = [rows_of(tasks[name], vectors, split) for split in ("train", "valid")]
        labels = parts[0][1] + parts[1][1]
        names = sorted(set(labels))
        codes = np.array([names.index(label) for label in labels])
        return np.concatenate([parts[0][0], parts[1][0]]), codes, len(names)

    for i, source in enumerate(tasks.names):
        block = scores_of(plan, i)
        features, codes, n_labels = pool(source)
        directions = np.eye(5, dtype=np.float32)
        if measure_width is not None:
            directions = discriminant_projection(
                features, codes, n_labels=n_labels, width=measure_width, shrinkage=0.9
            )
        for place, name in enumerate(block.targets):
            features, codes, n_labels = pool(name)
            narrow = features @ directions
            assert block.n_examples[place] == len(codes)
            rule = leave_one_out_brier if kind == "brier" else leave_one_out_log_likelihood
            scores = rule(narrow, codes, n_labels, 1.0)
            assert block.score[place] == pytest.approx(scores.mean(), rel=1e-4)
            assert block.standard_error[place] == pytest.approx(scores.std() / len(codes) ** 0.5, rel=1e-3)


@pytest.mark.parametrize("kind", ["log_likelihood", "brier", "accuracy"])
@pytest.mark.parametrize("same_labels", [True, False])
def test_halves_are_disjoint_and_make_up_the_score(kind: str, same_labels: bool) -> None:
    tasks, vectors = tiny_tasks(same_labels=same_labels, n_rows=41)
    plan = plan_of(tasks, vectors, TransferSettings(kind=kind, training=TRAINING))
    block = scores_of(plan, 0)
    n_first = block.n_examples // 2
    weighted = (n_first * block.first_half + (block.n_examples - n_first) * block.second_half) / (
        block.n_examples
    )
    np.testing.assert_allclose(weighted, block.score, rtol=1e-12)
    assert (block.first_half != block.second_half).any()


@pytest.mark.parametrize("kind", ["log_likelihood", "brier", "accuracy"])
def test_a_score_depends_on_its_two_tasks_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some targets of many, and all inputs encoded or only those needed, have the same bits."""
    tasks, vectors = tiny_tasks(same_labels=False, n_tasks=5)
    plan = plan_of(tasks, vectors, TransferSettings(kind=kind, training=TRAINING))
    whole = scores_of(plan, 1)
    for share in (0.0, 2.0):
        monkeypatch.setattr(pair_scores, "SHARE_FOR_ALL", share)
        for place, target in enumerate(whole.targets):
            one = scores_of(plan, 1, [tasks.names.index(target)])
            assert one.score[0] == whole.score[place]
            assert one.first_half[0] == whole.first_half[place]


def test_sources_in_any_order_and_one_row() -> None:
    tasks, vectors = tiny_tasks(same_labels=False)
    plan = plan_of(tasks, vectors, TransferSettings())
    results = [run_job(plan, source) for source in range(3)]
    assert collect_scores(plan, results[::-1]) == collect_scores(plan, results)
    assert scores_of(plan, 0, []).targets == []


def test_a_target_that_cannot_be_scored_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, vectors = tiny_tasks(same_labels=False)
    plan = plan_of(tasks, vectors, TransferSettings())
    original = pair_scores.score_pair

    def fail_on_t1(plan: Any, encoder: Any, rows: Any, features: Any) -> Any:
        if rows.name == "t1":
            raise ValueError("no such row")
        return original(plan, encoder, rows, features)

    monkeypatch.setattr(pair_scores, "score_pair", fail_on_t1)
    block = scores_of(plan, 0)
    assert block.targets == ["t2"]
    assert block.failed == [["t1", "ValueError: no such row"]]


def test_labels_of_valid_alone_are_never_right() -> None:
    """With different label sets a label that train lacks cannot be predicted."""
    tasks, vectors = tiny_tasks(same_labels=False, n_tasks=2)
    plan = plan_of(tasks, vectors, TransferSettings(kind="accuracy", training=TRAINING))
    rows = plan.rows[1]
    codes = rows.codes.copy()
    codes[rows.n_train :] = rows.n_labels
    strange = replace(plan, rows=(plan.rows[0], replace(rows, codes=codes, n_labels=rows.n_labels + 1)))
    assert scores_of(strange, 0).score.tolist() == [0.0]
