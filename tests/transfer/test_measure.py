"""From tasks to scores: the same numbers on every way there, only train and valid seen, and clear errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robusttc.data import SPLITS, Task, TaskSet
from robusttc.encoders import Encoder, FeatureEncoder, PreparedTasks
from robusttc.errors import DataError, RobustTCError, UnknownTaskError, UsageError
from robusttc.models import TrainingSettings
from robusttc.progress import Progress, ProgressEvent
from robusttc.transfer import PairList, TransferScores, TransferSettings, measure_transfer

TRAINING = TrainingSettings(width=6, epochs=2, min_steps=6, batch_size=8)
SETTINGS = TransferSettings(training=TRAINING)
WORDS = ["pay", "bill", "card", "rain", "sun", "wind", "hello", "bye", "order", "pizza", "now", "please"]
KINDS = ("log_likelihood", "brier", "accuracy", "overlap")
Vectors = dict[str, NDArray[np.float32]]


def planted_tasks(
    seed: int = 0, *, n_tasks: int = 5, n_rows: int = 32, strength: float = 2.0
) -> tuple[TaskSet, FeatureEncoder]:
    """Make tasks of two families: even ones are about direction 0 of the vectors, odd ones about 1."""
    generator = np.random.default_rng(seed)
    tasks: list[Task] = []
    vectors: Vectors = {}
    for number in range(n_tasks):
        family, name = number % 2, f"t{number}"
        codes = np.arange(n_rows) // 4 % 2
        features = generator.normal(size=(n_rows, 6))
        features[:, family] += strength * (2 * codes - 1)
        labels = [f"{name}.{code}" for code in codes]
        splits = [("train", "valid", "test", "train")[row % 4] for row in range(n_rows)]
        shared = f"family {family}"
        texts = [f"{shared} {row}" if row % 3 else f"{name} {row}" for row in range(n_rows)]
        tasks.append(Task(name, texts, labels, splits))
        vectors[name] = features.astype(np.float32)
    return TaskSet(tasks), FeatureEncoder(vectors)


def word_tasks(n_tasks: int = 3, n_rows: int = 16) -> TaskSet:
    generator = np.random.default_rng(1)

    def task(number: int) -> Task:
        codes = np.arange(n_rows) % 2
        texts = [" ".join([WORDS[2 * number + code], *generator.choice(WORDS, size=3)]) for code in codes]
        splits = [("train", "train", "valid", "test")[row // 2 % 4] for row in range(n_rows)]
        return Task(f"w{number}", texts, [f"{number}.{code}" for code in codes], splits)

    return TaskSet(task(number) for number in range(n_tasks))


Measure = Callable[..., TransferScores]


def measurer(encoder: str) -> tuple[TaskSet, Measure]:
    """Give tasks, and how they are measured with a small encoder."""
    if encoder == "cnn":
        return word_tasks(), lambda tasks, **options: measure_transfer(
            tasks, **{"encoder": "cnn", "settings": SETTINGS, **options}
        )
    tasks, features = planted_tasks()
    return tasks, lambda tasks, **options: measure_transfer(
        tasks, **{"encoder": features, "settings": SETTINGS, **options}
    )


both_encoders = pytest.mark.parametrize("encoder", ["cnn", "features"])


@pytest.mark.parametrize(("encoder", "kind"), [("cnn", "accuracy"), ("features", "log_likelihood")])
def test_workers_change_nothing(encoder: str, kind: str) -> None:
    tasks, measure = measurer(encoder)
    alone = measure(tasks, kind=kind)
    together = measure(tasks, kind=kind, n_workers=2)
    assert together == alone
    assert together.content_hash == alone.content_hash


@both_encoders
@pytest.mark.parametrize("kind", KINDS)
def test_order_of_tasks_changes_nothing(encoder: str, kind: str) -> None:
    tasks, measure = measurer(encoder)
    scores = measure(tasks, kind=kind)
    assert scores.kind == kind
    assert len(scores) == len(tasks) * (len(tasks) - 1)
    moved = measure(tasks.subset(tasks.names[::-1]), kind=kind)
    assert moved.task_names == tasks.names[::-1]
    assert moved.subset(tasks.names) == scores
    assert measure(tasks, kind=kind) == scores


@both_encoders
@pytest.mark.parametrize("kind", ["log_likelihood", "accuracy"])
@pytest.mark.parametrize("embeddings", ["frozen", "pretrained"])
def test_other_tasks_change_nothing(encoder: str, kind: str, embeddings: str) -> None:
    tasks, measure = measurer(encoder)
    settings = SETTINGS.replace(kind=kind, training=TRAINING.replace(embeddings=embeddings))
    fewer = measure(tasks.subset(tasks.names[:2]), settings=settings)
    assert measure(tasks, settings=settings).subset(tasks.names[:2]) == fewer


@pytest.mark.parametrize("kind", KINDS)
def test_two_goes_are_one(kind: str) -> None:
    tasks, encoder = planted_tasks(n_tasks=6)
    options: dict[str, Any] = {"encoder": encoder, "kind": kind, "settings": SETTINGS}
    first = measure_transfer(tasks, pairs=6, **options)
    assert len(first) == 6
    grown = measure_transfer(tasks, pairs=20, measured=first, **options)
    assert len(grown) == 20
    assert grown == measure_transfer(tasks, pairs=20, **options)
    assert measure_transfer(tasks, measured=grown, **options) == measure_transfer(tasks, **options)
    # Scores of some tasks, in another order, and then more tasks.
    some = measure_transfer(tasks.subset(["t4", "t1", "t0"]), **options)
    assert measure_transfer(tasks, measured=some, **options) == measure_transfer(tasks, **options)


def test_nothing_left_to_measure() -> None:
    tasks, encoder = planted_tasks()
    scores = measure_transfer(tasks, encoder=encoder)
    events: list[ProgressEvent] = []
    again = measure_transfer(tasks, encoder="cnn", measured=scores, progress=events.append)
    assert again == scores
    assert not events
    backwards = tasks.names[::-1]
    assert measure_transfer(tasks, measured=scores.subset(backwards)) == scores
    four = measure_transfer(tasks.subset(tasks.names[:4]), encoder=encoder)
    enough = measure_transfer(tasks, measured=four, pairs=8)
    assert enough.task_names == tasks.names
    assert enough.subset(tasks.names[:4]) == four


def test_seed_decides() -> None:
    tasks = word_tasks()
    first, again, other = (
        measure_transfer(tasks, encoder="cnn", settings=SETTINGS, random_state=seed) for seed in (3, 3, 4)
    )
    assert first == again != other
    drawn = measure_transfer(tasks, encoder="cnn", settings=SETTINGS, random_state=np.random.default_rng(0))
    assert drawn != first


@both_encoders
def test_progress_arrives_and_nothing_is_printed(encoder: str, capfd: pytest.CaptureFixture[str]) -> None:
    tasks, measure = measurer(encoder)
    events: list[ProgressEvent] = []
    measure(tasks, progress=events.append)
    stages = list(dict.fromkeys(event.stage for event in events))
    assert stages == ["cnn vectors" if encoder == "cnn" else "features", "transfer"]
    for stage in stages:
        done = [event.done for event in events if event.stage == stage]
        totals = {event.total for event in events if event.stage == stage}
        assert done == sorted(done)
        assert done[0] == 0
        assert totals == {done[-1]}
    own = [event for event in events if event.stage == "transfer"]
    assert [event.done for event in own] == list(range(len(tasks) + 1))
    assert sorted(event.detail for event in own[1:]) == sorted(tasks.names)
    assert capfd.readouterr() == ("", "")


def change_test_rows(task: Task, way: str) -> Task:
    """Give the task with other rows in test, the rows of train and valid as they were."""
    texts, labels, splits = list(task.texts), task.labels.tolist(), task.splits.tolist()
    chosen = [row for row, split in enumerate(splits) if split == "test"]
    assert chosen
    for row in chosen:
        if way == "texts":
            texts[row] = "something quite different"
        elif way == "labels":
            labels[row] = labels[0]
        else:
            labels[row] = f"0 a new label {row}"  # before all others in their order
    return Task(task.name, texts, labels, splits)


@both_encoders
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["texts", "labels", "new labels"])
def test_test_rows_are_never_looked_at(encoder: str, kind: str, way: str) -> None:
    tasks, measure = measurer(encoder)
    changed = TaskSet(change_test_rows(task, way) for task in tasks)
    assert changed != tasks
    assert measure(changed, kind=kind) == measure(tasks, kind=kind)


def test_test_rows_do_not_decide_on_label_sets() -> None:
    tasks = word_tasks()
    alike = TaskSet(
        Task(task.name, task.texts, [label[-1] for label in task.labels], task.splits.tolist())
        for task in tasks
    )
    options: dict[str, Any] = {"encoder": "cnn", "kind": "accuracy", "settings": SETTINGS}
    scores = measure_transfer(alike, **options)
    changed = TaskSet([change_test_rows(alike["w0"], "new labels"), alike["w1"], alike["w2"]])
    assert measure_transfer(changed, **options) == scores
    apart = measure_transfer(alike, **{**options, "settings": SETTINGS.replace(label_sets="different")})
    assert apart.n_examples is not None
    assert scores.n_examples is not None
    assert (apart.n_examples < scores.n_examples).all()


def test_n_examples_counts_a_text_with_a_label_once() -> None:
    rows = [("hi", "x"), ("hi", "x"), ("hi", "y"), ("bye", "y"), ("sun", "x"), ("bye", "y")]
    texts, labels = zip(*rows, strict=True)
    splits = ["train", "train", "train", "train", "valid", "valid"]
    tasks = TaskSet([Task("a", texts, labels, splits), Task("b", texts[1:], labels[1:], splits[1:])])
    counts = {
        kind: measure_transfer(tasks, encoder="cnn", settings=SETTINGS, kind=kind).n_examples
        for kind in ("log_likelihood", "brier", "overlap")
    }
    assert {kind: [] if count is None else count.tolist() for kind, count in counts.items()} == {
        "log_likelihood": [4, 4],
        "brier": [4, 4],
        "overlap": [5, 6],
    }
    own_head = measure_transfer(tasks, encoder="cnn", settings=SETTINGS, kind="accuracy")
    assert own_head.n_examples is not None
    assert own_head.n_examples.tolist() == [3, 4]


@pytest.mark.parametrize("kind", ["log_likelihood", "brier", "overlap"])
@pytest.mark.parametrize("seed", range(3))
def test_tasks_of_one_family_score_higher(kind: str, seed: int) -> None:
    tasks, encoder = planted_tasks(seed, n_tasks=6, n_rows=60)
    scores = measure_transfer(tasks, encoder=encoder, kind=kind)
    is_same = scores.source % 2 == scores.target % 2
    for target in range(len(tasks)):
        own = scores.target == target
        assert scores.score[own & is_same].min() > scores.score[own & ~is_same].max()
    assert (scores.standard_error is None) is (kind == "overlap")
    assert (scores.first_half is None) is (kind == "overlap")


def test_accuracy_of_planted_tasks_is_above_chance() -> None:
    tasks, encoder = planted_tasks(n_tasks=4, n_rows=60, strength=4.0)
    scores = measure_transfer(tasks, encoder=encoder, kind="accuracy")
    is_same = scores.source % 2 == scores.target % 2
    assert scores.score[is_same].mean() > 0.9


@both_encoders
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_without_valid_rows(encoder: str, kind: str) -> None:
    tasks, measure = measurer(encoder)
    tasks = TaskSet(task.with_splits(["train"] * len(task)) for task in tasks)
    scores = measure(tasks, kind=kind)
    assert np.isfinite(scores.score).all()
    assert scores.n_examples is not None
    if kind == "accuracy":
        expected = [sum(max(1, n // 5) for n in np.bincount(task.label_codes)) for task in tasks]
        assert scores.n_examples.tolist() == [expected[target] for target in scores.target]


@pytest.mark.parametrize("kind", ["log_likelihood", "accuracy"])
def test_one_label_in_train_names_the_task(kind: str) -> None:
    poor = Task("poor", ["hi", "yo", "bye"], ["x", "x", "y"], ["train", "train", "valid"])
    with pytest.raises(DataError, match=r"task 'poor': the training rows .* fewer than two labels"):
        measure_transfer(TaskSet([*word_tasks(), poor]), encoder="cnn", settings=SETTINGS, kind=kind)


@pytest.mark.parametrize("kind", ["log_likelihood", "accuracy"])
def test_text_without_tokens_counts_as_one_padding_word(kind: str) -> None:
    """No text that a task takes is empty to the tokenizer, so one is put in past the checks."""
    first, second = tuple(word_tasks(2))
    texts = [" ", *list(first.texts)[1:]]
    blank = Task.from_codes("blank", texts, first.label_names, first.label_codes, SPLITS, first.split_codes)
    scores = measure_transfer(TaskSet([blank, second]), encoder="cnn", settings=SETTINGS, kind=kind)
    assert np.isfinite(scores.score).all()


def test_a_text_of_20000_words() -> None:
    first, second = tuple(word_tasks(2))
    long = " ".join(WORDS[number % 12] for number in range(20_000))
    task = Task("long", [long, *list(first.texts)[1:]], first.labels.tolist(), first.splits.tolist())
    settings = TransferSettings(training=TrainingSettings(width=4, epochs=1, min_steps=0))
    scores = measure_transfer(TaskSet([task, second]), encoder="cnn", settings=settings)
    assert np.isfinite(scores.score).all()


class LettersEncoder(Encoder):
    """An encoder of somebody else: counts of letters."""

    name = "letters"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = [[text.count(chr(code)) for code in range(ord("a"), ord("z") + 1)] for text in texts]
        return np.array(counts, dtype=np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_of_somebody_else(kind: str) -> None:
    scores = measure_transfer(word_tasks(), encoder=LettersEncoder(), settings=SETTINGS, kind=kind)
    assert len(scores) == 6
    assert np.isfinite(scores.score).all()


def test_texts_of_test_rows_do_not_even_reach_the_encoder() -> None:
    asked: list[Sequence[str] | None] = []

    class Asked(LettersEncoder):
        def prepare(
            self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
        ) -> PreparedTasks:
            asked.append(splits)
            return super().prepare(tasks, splits=splits, progress=progress)

    measure_transfer(word_tasks(), encoder=Asked())
    assert asked == [("train", "valid")]


def test_identical_label_sets_need_no_valid_rows() -> None:
    tasks = TaskSet(Task(name, WORDS, ["x", "y"] * 6) for name in "ab")
    scores = measure_transfer(tasks, encoder=LettersEncoder(), kind="accuracy", settings=SETTINGS)
    assert scores.n_examples is not None
    assert scores.n_examples.tolist() == [12, 12]


@pytest.mark.parametrize("measure_width", [1, None])
def test_widths(measure_width: int | None) -> None:
    tasks, encoder = planted_tasks(n_rows=60)
    scores = measure_transfer(tasks, encoder=encoder, settings=SETTINGS.replace(measure_width=measure_width))
    assert np.isfinite(scores.score).all()
    # Two labels have one direction.
    assert (scores == measure_transfer(tasks, encoder=encoder)) is (measure_width == 1)


BAD_CALLS: list[tuple[dict[str, Any], type[RobustTCError], str]] = [
    ({"encoder": "sentense"}, UsageError, r"no such encoder; got 'sentense'.*Did you mean 'sentence'"),
    ({"encoder": 3}, UsageError, r"this is not an encoder; got 3"),
    ({"kind": "bryer"}, UsageError, r"kind.*Did you mean 'brier'"),
    ({"pairs": "al"}, UsageError, r"pairs cannot be used; got 'al'.*[Dd]id you mean 'all'"),
    ({"pairs": 2}, UsageError, r"pairs cannot be used; got"),
    ({"pairs": 1000}, UsageError, r"pairs cannot be used; got"),
    ({"n_workers": 0}, UsageError, r"n_workers cannot be used"),
    ({"random_state": -1}, UsageError, r"random_state cannot be used"),
    ({"device": "gpu"}, UsageError, r"the device is not available; got 'gpu'"),
    ({"encoder": "cnn", "device": "cup"}, UsageError, r"Did you mean 'cpu'"),
    ({"vectors": "glove.txt"}, UsageError, r"takes no vectors"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_CALLS)
def test_bad_calls(options: dict[str, Any], error: type[RobustTCError], message: str) -> None:
    tasks, encoder = planted_tasks()
    with pytest.raises(error, match=message):
        measure_transfer(tasks, **{"encoder": encoder, **options})


@pytest.mark.parametrize("encoder", ["cnn", "sentence", "features"])
def test_a_device_that_is_not_there(encoder: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    tasks, features = planted_tasks()
    with pytest.raises(
        UsageError, match=r"the device is not available; got 'cuda'; expected auto or one of .*cpu"
    ):
        measure_transfer(tasks, encoder=features if encoder == "features" else encoder, device="cuda")


@pytest.mark.parametrize(("n_tasks", "words"), [(0, "0 tasks"), (1, "1 task$")])
def test_fewer_than_two_tasks(n_tasks: int, words: str) -> None:
    with pytest.raises(DataError, match=f"needs two tasks at least; got {words}"):
        measure_transfer(TaskSet(list(word_tasks())[:n_tasks]), encoder="cnn")


def test_measured_scores_that_do_not_fit() -> None:
    tasks, encoder = planted_tasks()
    brier = measure_transfer(tasks, encoder=encoder, kind="brier")
    with pytest.raises(UsageError, match=r"of another kind; got 'brier'; expected 'log_likelihood'"):
        measure_transfer(tasks, encoder=encoder, measured=brier)
    with pytest.raises(DataError, match=r"a task that is not among these; got 't2'.*subset"):
        measure_transfer(tasks.subset(["t0", "t1"]), encoder=encoder, measured=brier, kind="brier")
    bare = TransferScores(["t0", "t1"], source=[0, 1], target=[1, 0], score=[-1.0, -1.0], kind="brier")
    with pytest.raises(DataError, match="only one of the two has standard errors"):
        measure_transfer(tasks, encoder=encoder, measured=bare, kind="brier")


def test_vectors_that_do_not_fit() -> None:
    tasks, encoder = planted_tasks()
    assert isinstance(encoder.features, dict)
    vectors: dict[str, Any] = encoder.features
    with pytest.raises(DataError, match=r"task 't1': the vectors cannot be used.*\(32, dimensions\)"):
        measure_transfer(tasks, encoder=FeatureEncoder({**vectors, "t1": vectors["t1"][1:]}))
    with pytest.raises(DataError, match=r"vectors of different lengths; got 6 in task '.*' and 5 in task"):
        measure_transfer(tasks, encoder=FeatureEncoder({**vectors, "t3": vectors["t3"][:, 1:]}))


@pytest.mark.parametrize("kind", ["log_likelihood", "brier", "accuracy"])
def test_vectors_that_tell_nothing(kind: str) -> None:
    """All vectors equal: there is no direction to keep, and every score is that of knowing nothing."""
    tasks = TaskSet(Task(name, ["1", "2", "3", "4"], ["x", "y", "x", "y"]) for name in "ab")
    encoder = FeatureEncoder({name: np.full((4, 3), 0.5) for name in "ab"})
    scores = measure_transfer(tasks, encoder=encoder, kind=kind, settings=SETTINGS)
    assert np.isfinite(scores.score).all()
    assert scores.score[0] == scores.score[1]


def test_an_encoder_that_forgets_a_task() -> None:
    class Forgetful(LettersEncoder):
        def prepare(
            self, tasks: TaskSet, *, splits: Sequence[str] | None = None, progress: Progress | None = None
        ) -> PreparedTasks:
            return super().prepare(tasks.subset(tasks.names[1:]), splits=splits, progress=progress)

    with pytest.raises(UnknownTaskError, match="w0"):
        measure_transfer(word_tasks(), encoder=Forgetful())


def test_what_is_measured_is_kept_whatever_its_last_bits() -> None:
    """Of a pair measured one way only the other way is missing; scores of another machine differ a little."""
    tasks, encoder = planted_tasks()
    whole = measure_transfer(tasks, encoder=encoder, pairs="all", settings=SETTINGS)
    kept = np.arange(len(whole)) != 3
    columns: dict[str, Any] = {name: column[kept] for name, column in whole.columns.items()}
    columns["score"] = columns["score"] * (1 + 1e-13)
    part = TransferScores(whole.task_names, **columns, kind=whole.kind)
    again = measure_transfer(tasks, encoder=encoder, pairs="all", settings=SETTINGS, measured=part)
    assert again.score[kept].tolist() == part.score.tolist()
    assert again.score[3] == whole.score[3]
    assert part.merged_with(whole) == again


def test_pairs_that_are_named() -> None:
    tasks, encoder = planted_tasks()
    for kind in ("log_likelihood", "overlap"):
        options: dict[str, Any] = {"encoder": encoder, "kind": kind}
        first = measure_transfer(tasks, pairs=PairList([0], [1]), **options)
        more = measure_transfer(tasks, pairs=PairList([1], [2]), measured=first, **options)
        assert (more.source.tolist(), more.target.tolist()) == ([0, 1, 1, 2], [1, 0, 2, 1])


def test_a_list_is_not_a_task_set() -> None:
    task = next(iter(word_tasks()))
    with pytest.raises(UsageError, match=r"got list; expected a TaskSet.*TaskSet\(tasks\)"):
        measure_transfer([task, task])  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    tasks, encoder = planted_tasks()
    scores = measure_transfer(tasks, encoder=encoder, pairs=np.int64(8), n_workers=np.int64(1))  # type: ignore[arg-type]
    assert scores == measure_transfer(tasks, encoder=encoder, pairs=8)
