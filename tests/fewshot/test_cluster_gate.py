"""The gate that tells which clusters a new task is like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from robusttc import ClusterFewShot, Task, TaskSet
from robusttc.encoders import DenseInputs, FeatureEncoder
from robusttc.fewshot.episodes import SourceRows
from robusttc.fewshot.gate import PULL, Gate, Marks, cross_fit, find_evidence, fit_gate, make_marks
from robusttc.fewshot.protocol import make_few_shot
from robusttc.fewshot.spaces import Space


def draw_examples(seed: int, n: int = 40) -> list[tuple[np.ndarray, int]]:
    """Tasks whose own cluster has more of the second kind of evidence and less of the third."""
    generator = np.random.default_rng(seed)
    examples = []
    for _ in range(n):
        n_clusters, own = int(generator.integers(2, 6)), 0
        evidence = generator.normal(size=(n_clusters, 4))
        scores = 2.0 * evidence[:, 1] - 1.0 * evidence[:, 2] + generator.gumbel(size=n_clusters)
        own = int(scores.argmax())
        examples.append((evidence, own))
    return examples


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_strengths_are_the_maximum_of_the_penalised_likelihood(seed: int) -> None:
    examples = draw_examples(seed)

    def loss(strengths: np.ndarray) -> float:
        total = PULL * float(strengths @ strengths)
        for evidence, own in examples:
            scores = evidence @ strengths
            total -= float(scores[own] - np.logaddexp.reduce(scores))
        return total

    expected = minimize(loss, np.zeros(4), tol=1e-10).x
    gate = fit_gate(examples)
    assert gate is not None
    np.testing.assert_allclose(gate.strengths, expected, atol=1e-4)
    assert gate.strengths[1] > 1 > 0 > gate.strengths[2]


def test_weights_are_on_the_simplex_and_follow_the_clusters() -> None:
    generator = np.random.default_rng(0)
    evidence = generator.normal(size=(5, 4)) * 30
    gate = Gate((1.0, 2.0, -1.0, 0.5))
    weights = gate.weigh(evidence)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    order = generator.permutation(5)
    np.testing.assert_allclose(gate.weigh(evidence[order]), weights[order])
    # What all clusters have alike tells nothing.
    np.testing.assert_allclose(gate.weigh(evidence + 7.0), weights)


def test_few_tasks_teach_no_gate() -> None:
    assert fit_gate(draw_examples(0, n=5)) is None
    assert fit_gate([]) is None


def test_a_task_is_not_weighed_by_a_gate_that_it_taught() -> None:
    generator = np.random.default_rng(3)
    examples = [(f"task {number}", *one) for number, one in enumerate(draw_examples(3, n=20))]
    gates = cross_fit(examples, 0)
    assert set(gates) == {name for name, *_ in examples}
    for place in generator.permutation(20)[:5]:
        name, evidence, own = examples[place]
        changed = list(examples)
        changed[place] = (name, -5 * evidence, (own + 1) % len(evidence))
        assert cross_fit(changed, 0)[name] == gates[name]
        assert cross_fit(changed, 0) != gates


def test_evidence_is_what_it_says() -> None:
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=np.float32)
    inputs = DenseInputs(vectors)
    sources = [
        SourceRows("a", np.array([0, 1]), np.array([0, 1]), np.array([0, 1])),
        SourceRows("b", np.array([2, 2]), np.array([0, 1]), np.array([-1, -1])),
    ]
    marks = make_marks(Space(None), inputs, sources, {0: ["a"], 4: ["b", "gone"], 7: ["gone"]})
    assert sorted(marks.texts) == [0, 4]
    assert len(marks.names[4]) == 0
    read = inputs.take(np.array([0, 1]))
    found = find_evidence(Space(None), marks, {0: 0.25, 4: 0.75}, texts=read, names=read)
    np.testing.assert_allclose(found[0], [np.log(0.25), 10, 10, 0], atol=1e-5)
    np.testing.assert_allclose(found[1], [np.log(0.75), 0, 0, 0], atol=1e-5)
    bare = find_evidence(Space(None), marks, {0: 0.25, 4: 0.75}, texts=read, names=None)
    assert bare[:, 1].tolist() == [0, 0]
    again = Marks.from_arrays(marks.arrays())
    assert sorted(again.names) == sorted(marks.names)
    np.testing.assert_array_equal(again.texts[4], marks.texts[4])


def planted(seed: int, n_tasks: int) -> tuple[TaskSet, list[int], dict[str, np.ndarray]]:
    """Make two kinds of task: labels lie along other dimensions, and all texts a little to one side."""
    generator = np.random.default_rng(seed)
    tasks, kinds, rows = [], [], {}
    for number in range(n_tasks):
        kind = number % 2
        axes = generator.permutation(6)[:3] + 6 * kind
        codes = np.repeat(np.arange(3), 14)
        vectors = generator.normal(size=(42, 14)).astype(np.float32)
        vectors[:, 12 + kind] += 1.5
        vectors[np.arange(42), axes[codes]] += 2.5
        name = f"task {number}"
        rows[name] = vectors
        tasks.append(Task(name, [f"text {row}" for row in range(42)], [f"{number}.{code}" for code in codes]))
        kinds.append(kind)
    return TaskSet(tasks), kinds, rows


def test_the_gate_of_a_fit_is_kept_and_finds_the_kind(tmp_path: Path) -> None:
    tasks, kinds, rows = planted(0, 28)
    sources = tasks.subset(tasks.names[:24])
    learner = ClusterFewShot(FeatureEncoder(rows), clusters="always").fit(sources, kinds[:24])
    gate = learner._need().knowledge.gate
    assert gate is not None
    assert gate.strengths[2] > 0
    learner.save(tmp_path / "model")
    again = ClusterFewShot.load(tmp_path / "model")
    found = []
    for name in tasks.names[24:]:
        few = make_few_shot(tasks[name], random_state=0)
        picked = [int(text.split()[1]) for text in few.texts]
        model = learner.adapt(few, vectors=rows[name][picked])
        same = again.adapt(few, vectors=rows[name][picked])
        assert same.weights_ == model.weights_
        np.testing.assert_array_equal(same.predict_proba(rows[name]), model.predict_proba(rows[name]))
        found.append(model.weights_[tasks.names.index(name) % 2])
    assert min(found) > 0.7
