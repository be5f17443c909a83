"""Baselines that learn every task from its own rows alone.

The paper's: a convolution of each task, and fastText. Today's: logistic regression, nearest neighbours and
prototypes on frozen sentence vectors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from robusttc.baselines.base import (
    AUTO,
    POSITIVE,
    Predictor,
    TaskBaseline,
    TaskModel,
    codes_of,
    linear_predictor,
    prepare_tasks,
    vectors_of,
)
from robusttc.data import Task, TaskSet
from robusttc.encoders import Encoder, FrozenInputs, PreparedTasks, WordInputs
from robusttc.errors import UsageError, quote
from robusttc.fewshot import few_shot_rows
from robusttc.models import (
    HEAD_C,
    NEVER,
    TrainingSettings,
    add_converged_head,
    fit_softmax,
    multiply_rows,
    train_model,
    training_rows,
)
from robusttc.params import Boolean, Choice, Constraint, Integer, check_param
from robusttc.progress import Progress, report
from robusttc.random import numpy_generator, run_seed

Floats = NDArray[np.float64]

# Candidates of a number that is chosen on validation rows; the first is the default where there are none.
LOGISTIC_GRID = (30.0, 1.0, 3.0, 10.0, 100.0, 300.0, 1000.0)
LOGISTIC_FEW_SHOT_GRID = (1000.0, 10.0, 30.0, 100.0, 300.0, 3000.0, 10_000.0)
NEIGHBOUR_GRID = (1, 3, 5, 10, 20)
FAST_TEXT_GRID = (10.0, 0.1, 0.3, 1.0, 3.0, 30.0, 100.0)
FAST_TEXT_FEW_SHOT_GRID = (100.0, 1.0, 3.0, 10.0, 30.0, 300.0, 1000.0)

# A large C on many labels takes more steps than the usual 200.
LOGISTIC_MAX_ITER = 1000
# A neighbour whose cosine is 0.1 lower has 1 / e of the vote: near ones count, and ties are rare.
VOTE_TEMPERATURE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """What a model is fitted to: the inputs and labels of some rows of a task, and the seed of the run."""

    name: str
    inputs: FrozenInputs
    codes: NDArray[np.int64]
    n_labels: int
    seed: int

    @classmethod
    def of(cls, task: Task, prepared: PreparedTasks, rows: NDArray[np.intp], seed: int) -> LabelledRows:
        """Take some rows of a task."""
        n_labels = len(task.label_names)
        return cls(task.name, prepared.inputs_of(task.name, rows), codes_of(task, rows), n_labels, seed)


@dataclass(repr=False, eq=False)
class OwnRowsBaseline(TaskBaseline):
    """Base of the baselines that learn every task from its own rows.

    They serve multi-task learning, by `fit` and `predict`, and few-shot learning, by `adapt`, which needs no
    source tasks. A number that the method leaves open (a penalty, a count of neighbours) is ``auto`` and
    chosen by `fit`, one value for all tasks, by the mean over tasks of the accuracy on their validation rows:
    chosen for every task by its own few rows it would be chosen by chance. `adapt` takes what `fit` chose,
    and without `fit` the first candidate. With `few_shot` on, `fit` only chooses, with the training rows of
    every task cut to one a label and 20 more.

    Attributes
    ----------
    value_
        The value that was chosen, or given.
    tuning_
        The mean accuracy on validation rows of every candidate; empty where there was nothing to choose.
    """

    few_shot = False  # a parameter where there is something to choose
    # The name of the number, what it may be, and its candidates with many rows and with few.
    _choice: ClassVar[tuple[str, Constraint, tuple[Any, ...], tuple[Any, ...]]]
    value_: Any = field(init=False)
    tuning_: dict[Any, float] = field(init=False)
    _encoder: Encoder = field(init=False)
    _seed: int = field(init=False)

    def _candidates(self) -> tuple[Any, ...]:
        """Check the parameters; return the values to choose from, the default one first."""
        name, constraint, grid, few_shot_grid = self._choice
        value = getattr(self, name)
        check_param(name, value, Choice(AUTO), constraint)
        for option in {"balanced", "bigrams"} & self.get_params(deep=False).keys():
            check_param(option, getattr(self, option), Boolean())
        return (few_shot_grid if self.few_shot else grid) if value == AUTO else (value,)

    @abstractmethod
    def _fit_rows(self, rows: LabelledRows, value: Any) -> Predictor:
        """Return the predictor of a task, fitted to some of its rows."""

    def fit(self, tasks: TaskSet, *, progress: Progress | None = None) -> Self:
        """Choose the value, and fit a model to every task; with `few_shot`, choose only.

        A task that may not be shared has no part in the choice.
        """
        candidates = self._candidates()
        self._encoder, self._seed = self._load_encoder(), run_seed(self.random_state)
        self.value_, self.tuning_ = candidates[0], {}
        shared = tasks.shareable()
        private = [TaskSet([task]) for task in tasks if not task.may_share]
        models: dict[str, TaskModel] = {}
        with threadpool_limits(limits=1):
            for group in [shared, *private] if len(shared) else private:
                prepared = prepare_tasks(self._encoder, group, progress=progress)
                if group is shared and len(candidates) > 1:
                    self._choose(group, prepared, candidates, progress)
                for task in () if self.few_shot else group:
                    models[task.name] = self._fit_task(self._encoder, prepared, task, self.value_, self._seed)
                    report(progress, "models", len(models), len(tasks), "tasks", task.name)
        self.models_ = {name: models[name] for name in tasks.names if name in models}
        return self

    def adapt(self, task: Task) -> TaskModel:
        """Return the model of one more task; `fit` need not have been called."""
        if hasattr(self, "value_"):
            encoder, value, seed = self._encoder, self.value_, self._seed
        else:
            value, seed = self._candidates()[0], run_seed(self.random_state)
            encoder = self._load_encoder()
        training_rows(task)  # raises before anything is encoded
        with threadpool_limits(limits=1):
            return self._fit_task(encoder, prepare_tasks(encoder, TaskSet([task])), task, value, seed)

    def _fit_task(
        self, encoder: Encoder, prepared: PreparedTasks, task: Task, value: Any, seed: int
    ) -> TaskModel:
        rows = LabelledRows.of(task, prepared, training_rows(task), seed)
        return TaskModel(task.label_names, encoder.for_new_texts(prepared), self._fit_rows(rows, value))

    def _choose(
        self, tasks: TaskSet, prepared: PreparedTasks, candidates: Sequence[Any], progress: Progress | None
    ) -> None:
        """Set `value_` to the candidate of the highest mean accuracy; of equal ones the first."""
        accuracies = []
        # By name: a mean is then the same to the last bit, whatever the order of the tasks.
        usable = [
            task
            for task in sorted(tasks, key=lambda task: task.name)
            if len(task.rows("valid")) and len(np.unique(task.label_codes[task.rows("train")])) > 1
        ]
        for number, task in enumerate(usable, start=1):
            valid = task.rows("valid")
            cut = few_shot_rows(task, random_state=self._seed) if self.few_shot else task.rows("train")
            rows = LabelledRows.of(task, prepared, cut, self._seed)
            queries, codes = prepared.inputs_of(task.name, valid), task.label_codes[valid]
            tables = [self._fit_rows(rows, value)(queries) for value in candidates]
            accuracies.append([float((table.argmax(axis=1) == codes).mean()) for table in tables])
            report(progress, "choosing", number, len(usable), "tasks", task.name)
        if accuracies:
            means = np.mean(accuracies, axis=0)
            self.tuning_ = dict(zip(candidates, means.tolist(), strict=True))
            self.value_ = candidates[int(means.argmax())]


@dataclass(repr=False, eq=False)
class SingleTaskBaseline(OwnRowsBaseline):
    """Single-task CNN (encoder ``cnn``), or a single-task layer on sentence vectors (``sentence``).

    The paper trains a convolution of window 5 and 200 filters for every task on its own, from GloVe vectors,
    with early stopping. Deviation: there is no early stopping, and a second classifier is fitted to
    convergence on the trained representation; on small tasks both are clearly better, and a weak baseline
    would make every gain an illusion (see `robusttc.models.training`).

    Parameters
    ----------
    encoder, vectors, model, device, random_state
        See `robusttc.baselines.base.Baseline`. A model depends on the seed and the task's own rows.
    settings
        How to train; None takes the default values of `TrainingSettings`.
    head_c
        The inverse strength of the penalty of the second classifier; None leaves it out.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> encoder = FeatureEncoder({"acme": np.eye(2)})
    >>> model = SingleTaskBaseline(encoder, settings=TrainingSettings(width=8)).adapt(task)
    >>> model.predict(np.eye(2, dtype=np.float32)).tolist()
    ['greet', 'leave']
    """

    encoder: str | Encoder = "cnn"
    _: KW_ONLY
    settings: TrainingSettings | None = None
    head_c: float | None = HEAD_C

    def _candidates(self) -> tuple[TrainingSettings]:
        settings = TrainingSettings() if self.settings is None else self.settings
        if not isinstance(settings, TrainingSettings):
            raise UsageError("settings cannot be used", got=quote(settings), expected="TrainingSettings")
        return (settings,)

    def _fit_rows(self, rows: LabelledRows, value: Any) -> Predictor:
        generator = numpy_generator(rows.seed, "model", [rows.name])
        model = train_model(
            rows.inputs, rows.codes, n_labels=rows.n_labels, settings=value, generator=generator
        )
        if self.head_c is not None:
            model = add_converged_head(model, rows.inputs, rows.codes, self.head_c, True)
        return model.probabilities


@dataclass(repr=False, eq=False)
class LogisticRegressionBaseline(OwnRowsBaseline):
    """Class-balanced softmax regression of every task on frozen vectors, fitted to convergence.

    It is not in the paper: it is what a user would have without any of it.

    Parameters
    ----------
    encoder
        One that returns a vector a row. The others are those of `robusttc.baselines.base.Baseline`.
    C
        The inverse strength of the penalty (that of `robusttc.models.softmax`), or ``auto``.
    balanced
        Whether every label counts alike.
    few_shot
        Whether C is for few-shot tasks, see `OwnRowsBaseline`.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> baseline = LogisticRegressionBaseline(FeatureEncoder({"acme": np.eye(2)})).fit(TaskSet([task]))
    >>> baseline.predict("acme", np.eye(2, dtype=np.float32)).tolist(), baseline.value_
    (['greet', 'leave'], 30.0)
    """

    _choice = ("C", POSITIVE, LOGISTIC_GRID, LOGISTIC_FEW_SHOT_GRID)
    _: KW_ONLY
    C: float | str = AUTO
    balanced: bool = True
    few_shot: bool = False

    def _fit_rows(self, rows: LabelledRows, value: Any) -> Predictor:
        fitted = fit_softmax(
            vectors_of(rows.inputs),
            rows.codes,
            n_labels=rows.n_labels,
            C=value,
            balanced=bool(self.balanced),
            max_iter=LOGISTIC_MAX_ITER,
        )
        return linear_predictor(fitted.weight, fitted.bias)


@dataclass(repr=False, eq=False)
class NearestNeighbourBaseline(OwnRowsBaseline):
    """The labels of the most similar training rows, by cosine, vote; nearer ones have more of a vote.

    It is not in the paper: it is the plainest use of sentence vectors, and the frozen form of its matching
    network.

    Parameters
    ----------
    encoder
        One that returns a vector a row. The others are those of `robusttc.baselines.base.Baseline`.
    n_neighbours
        How many vote, or ``auto``.
    few_shot
        Whether the number is for few-shot tasks, see `OwnRowsBaseline`.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> task = Task("acme", ["hi", "bye"], ["greet", "leave"])
    >>> model = NearestNeighbourBaseline(FeatureEncoder({"acme": np.eye(2)})).adapt(task)
    >>> model.predict(np.array([[0.2, 0.9]], dtype=np.float32)).tolist()
    ['leave']
    """

    _choice = ("n_neighbours", Integer(1), NEIGHBOUR_GRID, NEIGHBOUR_GRID)
    _: KW_ONLY
    n_neighbours: int | str = AUTO
    few_shot: bool = False

    def _fit_rows(self, rows: LabelledRows, value: Any) -> Predictor:
        return partial(vote, unit_rows(vectors_of(rows.inputs)), rows.codes, rows.n_labels, value)


@dataclass(repr=False, eq=False)
class PrototypeBaseline(OwnRowsBaseline):
    """The label whose prototype, the mean of its training rows, is most similar by cosine.

    It is not in the paper: it is the frozen form of prototypical networks. The softmax of ``scale`` times the
    cosines gives probabilities; the scale changes no prediction, and the probabilities are not calibrated.

    Parameters
    ----------
    encoder
        One that returns a vector a row. The others are those of `robusttc.baselines.base.Baseline`.
    scale
        What cosines are multiplied by, above 0.

    Examples
    --------
    >>> from robusttc.encoders import FeatureEncoder
    >>> task = Task("acme", ["hi", "hello", "bye"], ["greet", "greet", "leave"])
    >>> rows = np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]])
    >>> PrototypeBaseline(FeatureEncoder({"acme": rows})).adapt(task).predict(rows).tolist()
    ['greet', 'greet', 'leave']
    """

    _: KW_ONLY
    scale: float = 10.0

    def _candidates(self) -> tuple[float]:
        check_param("scale", self.scale, POSITIVE)
        return (float(self.scale),)

    def _fit_rows(self, rows: LabelledRows, value: Any) -> Predictor:
        units = unit_rows(vectors_of(rows.inputs))
        sums = np.zeros((rows.n_labels, units.shape[1]))
        np.add.at(sums, rows.codes, units)
        bias = np.where(np.bincount(rows.codes, minlength=rows.n_labels) > 0, 0.0, NEVER)
        return partial(compare_prototypes, unit_rows(sums.astype(np.float32)), bias, value)


@dataclass(repr=False, eq=False)
class FastTextBaseline(OwnRowsBaseline):
    r"""The mean of fixed word vectors, and word bi-grams, under a linear classifier: one a task.

    fastText (Joulin et al. 2016) maps a text to the mean of the vectors of its words and n-grams, and that to
    labels by a linear softmax classifier A. The paper's baseline is fastText "with fixed embeddings". Here:

    * the vectors of words are fixed; their mean is one part of the features;
    * n-grams have no pre-trained vectors. A learned vector :math:`z_g` acts through :math:`A z_g` only, which
      can be any vector of a number a label as long as there are at most as many labels as dimensions. So
      every bi-gram of the training rows has these numbers themselves: the shares of a text's bi-grams are the
      second part of the features. This makes the problem convex, and it is solved to convergence.

    Deviation: the package ``fasttext`` takes a fixed number of steps from random n-gram vectors, hashes
    n-grams to buckets that several may share, and takes one mean over words and n-grams; here every bi-gram
    has its own weights, words and bi-grams have a mean each, and there is a penalty, chosen on validation
    rows. The tokens are NLTK's, lower-cased.

    Parameters
    ----------
    encoder, vectors, model, device, random_state
        See `robusttc.baselines.base.Baseline`; the encoder returns words with vectors.
    C
        The inverse strength of the penalty, or ``auto``.
    bigrams
        Whether bi-grams are used.
    balanced
        Whether every label counts alike.
    few_shot
        Whether C is for few-shot tasks, see `OwnRowsBaseline`.

    Examples
    --------
    >>> task = Task("acme", ["hello you", "see you later"], ["greet", "leave"])
    >>> FastTextBaseline().adapt(task).predict(["hello", "later"]).tolist()
    ['greet', 'leave']
    """

    _choice = ("C", POSITIVE, FAST_TEXT_GRID, FAST_TEXT_FEW_SHOT_GRID)
    encoder: str | Encoder = "cnn"
    _: KW_ONLY
    C: float | str = AUTO
    bigrams: bool = True
    balanced: bool = True
    few_shot: bool = False

    def _fit_rows(self, rows: LabelledRows, value: Any) -> Predictor:
        known = np.unique(bigrams_of(rows.inputs)[1]) if self.bigrams else np.zeros(0, dtype=np.int64)
        balance = "balanced" if self.balanced else None
        # Where C is large, L-BFGS of the same cost stops far from the minimum.
        classifier = LogisticRegression(
            C=value, class_weight=balance, solver="newton-cg", tol=1e-6, max_iter=1000
        )
        classifier.fit(fast_text_features(rows.inputs, known), rows.codes)
        coefficients, intercept = classifier.coef_, classifier.intercept_
        if len(classifier.classes_) == 2:  # those of the second label; the first has logit 0
            coefficients, intercept = np.vstack([0 * coefficients, coefficients]), np.append(0.0, intercept)
        weight = np.zeros((coefficients.shape[1], rows.n_labels))
        bias = np.full(rows.n_labels, NEVER)
        weight[:, classifier.classes_], bias[classifier.classes_] = coefficients.T, intercept
        return partial(classify_words, known, weight, bias)


def vote(
    rows: NDArray[np.float32],
    codes: NDArray[np.int64],
    n_labels: int,
    n_neighbours: int,
    inputs: FrozenInputs,
) -> Floats:
    """Return the share of the vote of every label, by the nearest training rows (at length 1)."""
    cosines = multiply_rows(unit_rows(vectors_of(inputs)), rows.T)
    # Stable: of equally similar rows the first count.
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :n_neighbours]
    similarity = np.take_along_axis(cosines, nearest, axis=1).astype(np.float64)
    shares = np.zeros((len(cosines), n_labels))
    votes = softmax(similarity / VOTE_TEMPERATURE, axis=1)
    np.add.at(shares, (np.arange(len(cosines))[:, None], codes[nearest]), votes)
    return shares


def compare_prototypes(
    prototypes: NDArray[np.float32], bias: Floats, scale: float, inputs: FrozenInputs
) -> Floats:
    """Return the softmax of the scaled cosines of items and prototypes (at length 1)."""
    cosines = multiply_rows(unit_rows(vectors_of(inputs)), prototypes.T).astype(np.float64)
    return np.asarray(softmax(scale * cosines + bias, axis=1))


def classify_words(known: NDArray[np.int64], weight: Floats, bias: Floats, inputs: FrozenInputs) -> Floats:
    """Return the probabilities of a linear classifier on the features of fastText."""
    return np.asarray(softmax(fast_text_features(inputs, known) @ weight + bias, axis=1))


def fast_text_features(inputs: FrozenInputs, known: NDArray[np.int64]) -> sparse.csr_array:
    """Return the mean word vector of every item, and beside it the shares of `known`, sorted bi-grams."""
    items, bigrams = bigrams_of(inputs)
    words = words_of(inputs)
    tokens, vectors = words.tokens, words.vectors
    used, columns = np.unique(tokens.ids, return_inverse=True)
    weights = np.repeat(1.0 / np.maximum(tokens.lengths, 1), tokens.lengths)
    # A sparse product adds up the words of an item in their order, whatever the other items are.
    averaging = sparse.csr_array((weights, columns, tokens.offsets), shape=(len(inputs), len(used)))
    counts = np.maximum(np.bincount(items, minlength=len(inputs)), 1)
    is_known = np.isin(bigrams, known)
    items = items[is_known]
    places = np.searchsorted(known, bigrams[is_known])
    shares = sparse.csr_array((1.0 / counts[items], (items, places)), shape=(len(inputs), len(known)))
    means = averaging @ vectors[used].astype(np.float64)
    return sparse.csr_array(sparse.hstack([sparse.csr_array(means), shares]))


def bigrams_of(inputs: FrozenInputs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the item and the number of every bi-gram, one number for each pair of words."""
    words = words_of(inputs)
    ids = words.tokens.ids.astype(np.int64)
    items = np.repeat(np.arange(len(words)), words.tokens.lengths)
    inside = np.flatnonzero(items[1:] == items[:-1])
    return items[inside], ids[inside] * words.n_words + ids[inside + 1]


def words_of(inputs: FrozenInputs) -> WordInputs:
    """Return inputs that are words; raise a UsageError if they are vectors."""
    if not isinstance(inputs, WordInputs):
        raise UsageError("fastText needs words", got="one vector a text", todo="take encoder='cnn'")
    return inputs


def unit_rows(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to length 1; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, None]
    return np.asarray(matrix / np.where(lengths > 0, lengths, 1), dtype=np.float32)
