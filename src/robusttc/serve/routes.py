"""The API of version 1."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from json import JSONDecodeError
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.routing import APIRoute

from robusttc.files import InvalidJSONError, decode_json
from robusttc.serve import schemas
from robusttc.serve.access import Caller
from robusttc.serve.service import Service
from robusttc.serve.tenants import ID_PATTERN

__all__ = ["StrictRoute", "find_caller", "find_service", "info_router", "router"]


class StrictRequest(Request):
    """A request whose JSON is read strictly: no key twice, no NaN."""

    async def json(self) -> Any:
        try:
            return decode_json((await self.body()).decode())
        except (InvalidJSONError, UnicodeDecodeError) as error:
            raise JSONDecodeError(str(error), "", 0) from None  # what FastAPI reports as 422


class StrictRoute(APIRoute):
    """A route with such requests."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what handles a request."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


def find_caller(request: Request) -> Caller:
    """Return who asks."""
    return request.app.state.access.find_caller(request)  # type: ignore[no-any-return]


def find_admin(request: Request) -> Caller:
    """Return who asks, if it is the admin."""
    return request.app.state.access.require_admin(request)  # type: ignore[no-any-return]


async def find_service(request: Request) -> Service:
    """Return what answers, from the version of the run that is current."""
    service: Service = request.app.state.service
    await service.catch_up()
    return service


def own_task(
    task: Annotated[str, Path(pattern=ID_PATTERN, description="The id of the task.")],
    caller: Annotated[Caller, Depends(find_caller)],
) -> str:
    """Return the id of a task that the caller may ask for."""
    caller.require(task)
    return task


Admin = Annotated[Caller, Depends(find_admin)]
Someone = Annotated[Caller, Depends(find_caller)]
Served = Annotated[Service, Depends(find_service)]
OwnTask = Annotated[str, Depends(own_task)]
IfMatch = Annotated[
    str | None,
    Header(
        pattern=r'^(\*|(W/)?"?[0-9]{1,9}"?)$',
        description="The version of the task that the change is for, as ETag has it; another one is refused.",
    ),
]

NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"description": "No such task."}}
CHANGES: dict[int | str, dict[str, Any]] = {
    **NOT_FOUND,
    412: {"description": "The task has another version."},
    503: {"description": "Another change of the run is under way."},
}
router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["v1"])


@router.get("/tasks")
async def list_tasks(
    _: Admin,
    service: Served,
    search: Annotated[str, Query(max_length=200, description="A part of a name.")] = "",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> schemas.TaskPage:
    """List the tasks, sorted by name."""
    return service.list_tasks(search, offset, limit)


@router.get("/tasks/{task}", responses=NOT_FOUND)
async def show_task(
    task: OwnTask, caller: Someone, service: Served, response: Response
) -> schemas.TaskDetails:
    """Return what is known of a task."""
    details = service.show_task(task, for_admin=caller.is_admin)
    response.headers["ETag"] = f'"{details.version}"'
    return details


@router.get("/clusters")
async def list_clusters(_: Admin, service: Served) -> schemas.Clusters:
    """Return the clusters of tasks, and whether they are real."""
    return service.list_clusters()


@router.post("/tasks/{task}/predict", responses=NOT_FOUND)
async def predict(task: OwnTask, questions: schemas.Questions, service: Served) -> schemas.Answers:
    """Predict the labels of some texts."""
    return await service.predict(task, questions)


@router.post("/predict", responses=NOT_FOUND)
async def predict_rows(
    questions: schemas.MixedQuestions, caller: Someone, service: Served
) -> schemas.MixedAnswers:
    """Predict rows of different tasks, in one pass of the encoder."""
    for row in questions.rows:
        caller.require(row.task)
    return await service.predict_rows(questions)


@router.post("/tasks/{task}/explain", responses=NOT_FOUND)
async def explain(task: OwnTask, question: schemas.Question, service: Served) -> schemas.Explanation:
    """Explain a prediction: what each model says, and the nearest examples of the task."""
    return await service.explain(task, question)


@router.put("/tasks/{task}", status_code=201, responses={200: {"description": "Replaced."}, **CHANGES})
async def put_task(
    task: OwnTask,
    examples: schemas.Examples,
    caller: Someone,
    service: Served,
    response: Response,
    if_match: IfMatch = None,
) -> schemas.Adapted:
    """Learn a task from examples; one that was learned so before is replaced."""
    adapted, is_new = await service.put_task(task, examples, parse_version(if_match))
    response.status_code = 201 if is_new else 200
    response.headers["ETag"] = f'"{adapted.version}"'
    return hide_others(adapted, caller)


@router.post("/tasks/{task}/examples", responses=CHANGES)
async def add_examples(
    task: OwnTask,
    examples: schemas.Examples,
    caller: Someone,
    service: Served,
    response: Response,
    if_match: IfMatch = None,
) -> schemas.Adapted:
    """Learn a task again, with more examples."""
    adapted = await service.add_examples(task, examples, parse_version(if_match))
    response.headers["ETag"] = f'"{adapted.version}"'
    return hide_others(adapted, caller)


@router.delete(
    "/tasks/{task}",
    status_code=204,
    response_model=None,
    responses={
        202: {"description": "It no longer answers; a job retrains the models.", "model": schemas.JobState},
        **CHANGES,
    },
)
async def delete_task(
    task: OwnTask, service: Served, response: Response, if_match: IfMatch = None
) -> schemas.JobState | None:
    """Remove a task, with its texts and heads, before this returns.

    Of a task that others have learned from, the retraining of their models is a job: the task stops
    answering at once.
    """
    job = await service.delete_task(task, parse_version(if_match))
    response.status_code = 204 if job is None else 202
    return job


@router.get("/tasks/{task}/versions", responses=NOT_FOUND)
async def list_versions(task: OwnTask, service: Served) -> schemas.TaskVersions:
    """List the versions of a task."""
    return service.list_versions(task)


@router.post("/tasks/{task}/rollback", responses=CHANGES)
async def roll_back(
    task: OwnTask, wanted: schemas.Rollback, service: Served, if_match: IfMatch = None
) -> schemas.TaskVersions:
    """Let an earlier version of a task answer again."""
    return await service.roll_back(task, wanted.version, parse_version(if_match))


@router.get("/tasks/{task}/conflicts", responses=NOT_FOUND)
async def list_conflicts(
    task: Annotated[str, Path(pattern=ID_PATTERN)], _: Admin, service: Served
) -> schemas.Conflicts:
    """Compare the labels of a task with those of similar tasks; this takes seconds."""
    return await service.list_conflicts(task)


@router.post("/read")
async def read_rows(table: schemas.TableText, _: Someone, service: Served) -> schemas.ReadRows:
    """Read a table of examples as text, and report what is wrong with it line by line; nothing is kept."""
    return await service.read_rows(table)


@router.get("/jobs/{job}", responses={404: {"description": "No such job."}})
async def show_job(
    job: Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")], _: Admin, service: Served
) -> schemas.JobState:
    """Return how far a long job is."""
    return service.show_job(job)


def hide_others(adapted: schemas.Adapted, caller: Caller) -> schemas.Adapted:
    """Leave the names of other tasks out of what the holder of a task's key is told."""
    if not caller.is_admin:
        adapted.nearest_tasks = []
    return adapted


def parse_version(if_match: str | None) -> int | None:
    """Return the version in an ``If-Match`` header; None where any will do."""
    return None if if_match in {None, "*"} else int(str(if_match).removeprefix("W/").strip('"'))


info_router = APIRouter(tags=["v1"])


@info_router.get("/info")
async def show_info(_: Someone, service: Served) -> schemas.Info:
    """Return limits, versions, and what a task costs."""
    return service.info()
