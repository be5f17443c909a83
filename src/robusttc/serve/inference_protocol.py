"""The Open Inference Protocol v2, so that clients and gateways of KServe and Triton work unchanged.

A task is a model with one input tensor ``text`` (BYTES) and the outputs ``label`` (BYTES), ``probability``
and ``out_of_scope`` (FP64; -1 where it is not known, since JSON has no NaN).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from robusttc.serve import schemas
from robusttc.serve.access import Caller
from robusttc.serve.routes import NOT_FOUND, StrictRoute, find_caller, find_service
from robusttc.serve.service import Service, refuse
from robusttc.serve.tenants import ID_PATTERN
from robusttc.version import __version__

__all__ = ["router"]

router = APIRouter(prefix="/v2", route_class=StrictRoute, tags=["Open Inference Protocol v2"])


class Tensor(BaseModel):
    """A tensor of texts."""

    model_config = ConfigDict(extra="ignore")
    name: str
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=2)]
    datatype: Literal["BYTES"]
    data: Annotated[list[Any], Field(description="Strings, nested as the shape says or flat.")]
    parameters: dict[str, Any] | None = None


class InferRequest(BaseModel):
    """A request for predictions."""

    model_config = ConfigDict(extra="ignore")
    id: Annotated[str | None, Field(max_length=200)] = None
    inputs: Annotated[list[Tensor], Field(min_length=1, max_length=1)]
    parameters: dict[str, Any] | None = None
    outputs: list[dict[str, Any]] | None = None


class OutputTensor(BaseModel):
    """A tensor of an answer."""

    name: str
    shape: list[int]
    datatype: str
    data: list[str] | list[float]


class InferResponse(BaseModel):
    """The predictions."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class TensorMetadata(BaseModel):
    """What a tensor looks like."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a task looks like as a model."""

    name: str
    versions: list[str]
    platform: str = "robusttc"
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


def find_model(
    model: Annotated[str, Path(pattern=ID_PATTERN)], caller: Annotated[Caller, Depends(find_caller)]
) -> str:
    """Return the id of a task that the caller may ask for."""
    caller.require(model)
    return model


Model = Annotated[str, Depends(find_model)]
Served = Annotated[Service, Depends(find_service)]


@router.get("")
async def describe_server() -> dict[str, Any]:
    """Return what the server is."""
    return {"name": "robusttc", "version": __version__, "extensions": []}


@router.get("/health/live")
async def is_live() -> dict[str, bool]:
    """Whether the process answers at all."""
    return {"live": True}


@router.get("/health/ready")
async def is_ready(request: Request) -> dict[str, bool]:
    """Whether predictions are made."""
    await request.app.state.service.probe()
    return {"ready": True}


@router.get("/models/{model}", responses=NOT_FOUND)
async def describe_model(model: Model, service: Served) -> ModelMetadata:
    """Return what a task takes and gives."""
    version = service.tenants.find(model).version
    return ModelMetadata(
        name=model,
        versions=[str(version)],
        inputs=[TensorMetadata(name="text", datatype="BYTES", shape=[-1])],
        outputs=[
            TensorMetadata(name="label", datatype="BYTES", shape=[-1]),
            TensorMetadata(name="probability", datatype="FP64", shape=[-1]),
            TensorMetadata(name="out_of_scope", datatype="FP64", shape=[-1]),
        ],
    )


@router.get("/models/{model}/ready", responses=NOT_FOUND)
async def is_model_ready(model: Model, service: Served) -> dict[str, Any]:
    """Whether a task answers."""
    service.tenants.find(model)
    return {"name": model, "ready": True}


@router.post("/models/{model}/infer", responses=NOT_FOUND)
async def infer(model: Model, asked: InferRequest, service: Served) -> InferResponse:
    """Predict the labels of some texts."""
    tensor = asked.inputs[0]
    texts = [text for row in tensor.data for text in (row if isinstance(row, list) else [row])]
    n = 1
    for size in tensor.shape:
        n *= size
    if n != len(texts) or not texts:
        raise refuse("inputs.0.data", f"{len(texts)} texts do not fill the shape {tensor.shape}")
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise refuse("inputs.0.data", "every element must be a text that is not empty")
    answers = await service.predict(model, schemas.Questions(texts=texts))
    found = answers.predictions
    columns: list[tuple[str, str, list[str] | list[float]]] = [
        ("label", "BYTES", [one.label or "" for one in found]),
        ("probability", "FP64", [one.probability for one in found]),
        ("out_of_scope", "FP64", [-1.0 if one.out_of_scope is None else one.out_of_scope for one in found]),
    ]
    return InferResponse(
        model_name=model,
        model_version=str(answers.version),
        id=asked.id,
        outputs=[
            OutputTensor(name=name, shape=[len(data)], datatype=kind, data=data)
            for name, kind, data in columns
        ],
    )
