"""The training of `robusttc.encoders.training` in plain torch: for GPUs, and as its reference.

It draws the same numbers in the same order, so up to rounding it makes the same model.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from robusttc.data import TokenArray
from robusttc.encoders.adam import BETA_1, BETA_2, EPSILON
from robusttc.encoders.convolution import ConvolutionLayer
from robusttc.encoders.convolution_encoding import count_before
from robusttc.encoders.dense import DenseLayer
from robusttc.encoders.inputs import FrozenInputs, WordInputs
from robusttc.encoders.layer import layer_from_parameters, new_layer
from robusttc.encoders.model import TrainedModel
from robusttc.encoders.residual import ResidualLayer
from robusttc.encoders.schedule import draw_batches, new_head
from robusttc.encoders.settings import TrainingSettings

__all__ = ["ConvolutionModule", "DenseModule", "ResidualModule", "pad_rows", "train_with_torch"]

Floats = NDArray[np.float32]


def train_with_torch(
    inputs: FrozenInputs,
    codes: NDArray[np.int64],
    *,
    n_labels: int,
    settings: TrainingSettings,
    generator: np.random.Generator,
    device: str = "cpu",
) -> TrainedModel:
    """Train a layer and a softmax classifier with torch; see `robusttc.encoders.training.train_model`.

    Examples
    --------
    >>> from robusttc.encoders.inputs import DenseInputs
    >>> from robusttc.random import numpy_generator
    >>> inputs, codes = DenseInputs(np.eye(2, dtype=np.float32)), np.array([0, 1])
    >>> settings, generator = TrainingSettings(width=8), numpy_generator(0, "train")
    >>> model = train_with_torch(inputs, codes, n_labels=2, settings=settings, generator=generator)
    >>> model.predict_codes(inputs).tolist()
    [0, 1]
    """
    layer = new_layer(inputs, settings=settings, generator=generator)
    weight, bias = new_head(layer.width, n_labels, generator)
    module = module_of(layer, inputs).to(device)
    head = linear_of(weight, bias).to(device)
    labels = torch.from_numpy(codes).to(device)
    words = module.embedding.weight if isinstance(module, ConvolutionModule) else None
    dense = [array for array in [*module.parameters(), *head.parameters()] if array is not words]
    optimiser = torch.optim.Adam(dense, lr=settings.learning_rate, betas=(BETA_1, BETA_2), eps=EPSILON)
    word_optimiser = (
        RowAdam(words, settings.learning_rate) if words is not None and words.requires_grad else None
    )
    batches = draw_batches(len(inputs), settings=settings, generator=generator, width=layer.width)
    for rows, kept in batches:
        batch = module.take(inputs, rows)
        representation = module(*batch)
        mask = torch.from_numpy(kept).to(device) / (1 - settings.dropout)
        loss = functional.cross_entropy(
            head(representation * mask), labels[torch.from_numpy(rows).to(device)]
        )
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if word_optimiser is not None:
            word_optimiser.step(torch.unique(batch[0]))
    trained = layer_from_parameters(module.to_parameters(), settings=settings)
    return TrainedModel(trained, to_numpy(head.weight.T), to_numpy(head.bias))


class ConvolutionModule(nn.Module):
    """A `ConvolutionLayer` in torch: embedding, convolution, masked maximum, ReLU."""

    def __init__(self, layer: ConvolutionLayer, vectors: Floats) -> None:
        super().__init__()
        window, width, dimension = layer.filters.shape
        self.padding = (count_before(window), window - 1 - count_before(window))
        self.embedding = nn.Embedding(
            len(vectors),
            dimension,
            padding_idx=0,
            _weight=torch.from_numpy(vectors.copy()),
            _freeze=layer.vectors is None,
        )
        self.convolution = nn.Conv1d(dimension, width, window)
        with torch.no_grad():
            self.convolution.weight.copy_(torch.from_numpy(layer.filters.transpose(1, 2, 0).copy()))
            self.convolution.bias.copy_(torch.from_numpy(layer.bias))  # type: ignore[union-attr]

    def take(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Give the padded word numbers of some rows, and which of them are positions of the text."""
        assert isinstance(inputs, WordInputs)  # noqa: S101 - the module was made for these inputs
        ids, lengths = pad_rows(inputs.tokens, rows)
        own = np.arange(ids.shape[1]) < np.maximum(lengths, 1)[:, None]
        device = self.embedding.weight.device
        return torch.from_numpy(ids).to(device), torch.from_numpy(own).to(device)

    def forward(self, ids: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Give the representation of padded texts."""
        embedded = functional.pad(self.embedding(ids).transpose(1, 2), self.padding)
        convolved = self.convolution(embedded).masked_fill(~own[:, None, :], -torch.inf)
        return functional.relu(convolved.max(dim=2).values)

    def to_parameters(self) -> dict[str, Floats]:
        """Give the parameters as those of a `ConvolutionLayer`."""
        assert self.convolution.bias is not None  # noqa: S101 - made with one
        parameters = {
            "filters": to_numpy(self.convolution.weight.permute(2, 0, 1)),
            "bias": to_numpy(self.convolution.bias),
        }
        if self.embedding.weight.requires_grad:
            parameters["vectors"] = to_numpy(self.embedding.weight)
        return parameters


class DenseModule(nn.Module):
    """A `DenseLayer` in torch."""

    def __init__(self, layer: DenseLayer) -> None:
        super().__init__()
        self.linear = linear_of(layer.weight, layer.bias)
        self.activation = layer.activation

    def take(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> tuple[torch.Tensor]:
        """Give the vectors of some rows."""
        assert not isinstance(inputs, WordInputs)  # noqa: S101 - the module was made for these inputs
        return (torch.from_numpy(inputs.matrix[rows]).to(self.linear.weight.device),)

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        """Give the representation of some vectors."""
        product: torch.Tensor = self.linear(matrix)
        return functional.relu(product) if self.activation == "relu" else product

    def to_parameters(self) -> dict[str, Floats]:
        """Give the parameters as those of a `DenseLayer`."""
        return {"weight": to_numpy(self.linear.weight.T), "bias": to_numpy(self.linear.bias)}


class ResidualModule(nn.Module):
    """A `ResidualLayer` in torch."""

    def __init__(self, layer: ResidualLayer) -> None:
        super().__init__()
        self.linear = linear_of(layer.weight, layer.bias)
        hidden, dimension = layer.output.shape
        self.output = nn.Linear(hidden, dimension, bias=False)
        with torch.no_grad():
            self.output.weight.copy_(torch.from_numpy(layer.output.T.copy()))

    def take(self, inputs: FrozenInputs, rows: NDArray[np.int64]) -> tuple[torch.Tensor]:
        """Give the vectors of some rows."""
        assert not isinstance(inputs, WordInputs)  # noqa: S101 - the module was made for these inputs
        return (torch.from_numpy(inputs.matrix[rows]).to(self.linear.weight.device),)

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        """Give the representation of some vectors."""
        corrected: torch.Tensor = matrix + self.output(functional.relu(self.linear(matrix)))
        return corrected

    def to_parameters(self) -> dict[str, Floats]:
        """Give the parameters as those of a `ResidualLayer`."""
        return {
            "weight": to_numpy(self.linear.weight.T),
            "bias": to_numpy(self.linear.bias),
            "output": to_numpy(self.output.weight.T),
        }


class RowAdam:
    """Adam for the rows of a matrix that a batch touched; see `robusttc.encoders.adam.Adam`."""

    def __init__(self, weight: torch.Tensor, learning_rate: float) -> None:
        self.weight = weight
        self.learning_rate = learning_rate
        self.n_steps = 0
        self.first = torch.zeros_like(weight)
        self.second = torch.zeros_like(weight)

    @torch.no_grad()
    def step(self, rows: torch.Tensor) -> None:
        """Move the given rows by the gradient that is there, and forget the gradient."""
        assert self.weight.grad is not None  # noqa: S101 - the loss was made of it
        self.n_steps += 1
        rows = rows[rows != 0]  # the padding stays zero
        gradient = self.weight.grad[rows]
        first = BETA_1 * self.first[rows] + (1 - BETA_1) * gradient
        second = BETA_2 * self.second[rows] + (1 - BETA_2) * gradient**2
        self.first[rows], self.second[rows] = first, second
        root = (second / (1 - BETA_2**self.n_steps)).sqrt() + EPSILON
        self.weight[rows] -= self.learning_rate * (first / (1 - BETA_1**self.n_steps)) / root
        self.weight.grad = None


def module_of(
    layer: ConvolutionLayer | DenseLayer | ResidualLayer, inputs: FrozenInputs
) -> ConvolutionModule | DenseModule | ResidualModule:
    """Make the torch module with a layer's parameters."""
    if isinstance(layer, DenseLayer):
        return DenseModule(layer)
    if isinstance(layer, ResidualLayer):
        return ResidualModule(layer)
    assert isinstance(inputs, WordInputs)  # noqa: S101 - the layer was made for these inputs
    return ConvolutionModule(layer, inputs.vectors if layer.vectors is None else layer.vectors)


def linear_of(weight: Floats, bias: Floats) -> nn.Linear:
    """Make a torch layer from a weight (inputs, outputs) and a bias."""
    linear = nn.Linear(*weight.shape)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(weight.T.copy()))
        linear.bias.copy_(torch.from_numpy(bias))
    return linear


def pad_rows(tokens: TokenArray, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the word numbers of some rows as a matrix, filled up with the padding word, and their lengths.

    Examples
    --------
    >>> ids, lengths = pad_rows(TokenArray([5, 6, 7], [0, 2, 3]), np.array([1, 0]))
    >>> ids.tolist(), lengths.tolist()
    ([[7, 0], [5, 6]], [1, 2])
    """
    taken = tokens.take(rows)
    lengths = taken.lengths
    ids = np.zeros((len(rows), max(1, int(lengths.max(initial=0)))), dtype=np.int64)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = taken.ids
    return ids, lengths


def to_numpy(tensor: torch.Tensor) -> Floats:
    """Copy a tensor into an array of its own."""
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float32, order="C")
