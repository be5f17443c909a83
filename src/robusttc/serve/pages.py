"""The web page: made on the server, and alive through the same API that others use."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

import numpy as np
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from robusttc.errors import UnknownTaskError
from robusttc.serve.access import Caller
from robusttc.serve.routes import find_service
from robusttc.serve.task_map import place_tasks
from robusttc.serve.tenants import Tenants

__all__ = ["router"]

# Name in a URL -> package, file and type.
ASSETS = {
    "report.css": ("robusttc.report", "text/css"),
    "serve.css": ("robusttc.serve", "text/css"),
    "serve.js": ("robusttc.serve", "text/javascript"),
}
PAGE_TASKS = 50
MAX_DOTS = 3_000
N_HUES = 12
WIDTH = 1_000
NOTHING = "\N{EN DASH}"
KINDS = {
    "own": "Own model",
    "shared": "Model of all tasks",
    "cluster": "Model of its cluster",
    "served": "What serves",
}
SENTENCES = {
    "fitted": "It was a task of the fit.",
    "added": "It was added after the fit; the models of the others did not change.",
    "adapted": "It was learned from a handful of examples.",
}


def percent(share: float | None) -> str:
    """Return a share as people read it."""
    return NOTHING if share is None else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


@cache
def templates() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=PackageLoader("robusttc.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = percent
    return made


@cache
def read_asset(name: str) -> bytes:
    """Return a file that pages load."""
    return resources.files(ASSETS[name][0]).joinpath("assets", name).read_bytes()


def render(name: str, request: Request, caller: Caller, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page."""
    tenants = request.app.state.service.tenants
    common = {
        "root": root_of(request),
        "csrf_token": caller.csrf_token,
        "run_name": tenants.run.folder.name,
        "n_tasks": f"{len(tenants.by_id):,}",
        "version": tenants.version,
        "page": "",
    }
    return HTMLResponse(templates().get_template(name).render({**common, **values}), status)


router = APIRouter(include_in_schema=False)


def log_in_first(request: Request) -> Caller | Response:
    """Return who asks, or the way to the page where one logs in."""
    try:
        return request.app.state.access.require_admin(request)  # type: ignore[no-any-return]
    except HTTPException:
        return RedirectResponse(root_of(request) + "login", 303)


def root_of(request: Request) -> str:
    """Return the path under which the pages are, behind a proxy too."""
    return str(request.scope.get("root_path", "")) + "/"


@router.get("/")
async def show_tasks(request: Request, q: str = "", offset: int = 0) -> Response:
    caller = log_in_first(request)
    if isinstance(caller, Response):
        return caller
    service = await find_service(request)
    tenants, offset = service.tenants, max(0, offset)
    found = service.list_tasks(q[:200], offset, PAGE_TASKS)
    dots, height = draw_map(tenants)
    verdict = tenants.run.verdict
    return render(
        "tasks.html.j2",
        request,
        caller,
        page="tasks",
        q=q[:200],
        offset=offset,
        limit=PAGE_TASKS,
        tasks=found.tasks,
        total=found.total,
        next=found.next,
        dots=dots,
        height=height,
        radius=max(4, min(14, round(220 / max(len(dots), 1) ** 0.5))),
        clusters=any(dot["cluster"] is not None for dot in dots),
        verdict="" if verdict is None else verdict["sentence"],
    )


@router.get("/tasks/{task}")
async def show_task(request: Request, task: str) -> Response:
    caller = log_in_first(request)
    if isinstance(caller, Response):
        return caller
    service = await find_service(request)
    tenants = service.tenants
    try:
        details = service.show_task(task, for_admin=True)
    except UnknownTaskError:
        return render("error.html.j2", request, caller, 404)
    figures = tenants.figures.get(details.name)
    kinds = [] if figures is None else [(text, getattr(figures, kind)) for kind, text in KINDS.items()]
    return render(
        "task.html.j2",
        request,
        caller,
        page="tasks",
        task=details,
        sentence=SENTENCES[details.kind],
        alternatives=[(text, one) for text, one in kinds if one is not None],
        nearest=service.find_nearest(details.task),
        max_characters=service.settings.max_characters,
    )


@router.get("/new")
async def show_new(request: Request) -> Response:
    caller = log_in_first(request)
    if isinstance(caller, Response):
        return caller
    return render(
        "new.html.j2",
        request,
        caller,
        page="new",
        max_examples=f"{request.app.state.settings.max_examples:,}",
    )


@router.get("/login")
async def show_login(request: Request) -> Response:
    root = root_of(request)
    return HTMLResponse(templates().get_template("login.html.j2").render(root=root, failed=False))


@router.post("/login")
async def log_in(request: Request) -> Response:
    root = root_of(request)
    key = parse_qs((await request.body()).decode("utf-8", "replace")).get("key", [""])[0]
    response: Response = RedirectResponse(root, 303)
    if request.app.state.access.log_in(key, response, secure=request.url.scheme == "https"):
        return response
    return HTMLResponse(templates().get_template("login.html.j2").render(root=root, failed=True), 401)


@router.post("/logout")
async def log_out(request: Request) -> Response:
    response = RedirectResponse(root_of(request) + "login", 303)
    request.app.state.access.log_out(response)
    return response


@router.get("/static/{name}")
async def show_asset(name: str) -> Response:
    if name not in ASSETS:
        raise HTTPException(404, "there is no such file")
    return Response(read_asset(name), media_type=ASSETS[name][1], headers={"Cache-Control": "max-age=3600"})


def draw_map(tenants: Tenants) -> tuple[list[dict[str, Any]], int]:
    """Return the dots of the map, and its height."""
    found = tenants.run.similarity
    if found is None:
        return [], 0
    clusters, ids = tenants.run.clusters, {one.name: one.id for one in tenants.by_id.values()}
    rows = [row for row, name in enumerate(found.task_names) if name in ids][:MAX_DOTS]
    names = [found.task_names[row] for row in rows]
    labels = np.array([clusters.get(name, -1) for name in names], dtype=int)
    places = place_tasks(found.points[rows], labels)
    low = places.min(axis=0) - 0.03 if len(places) else np.zeros(2)
    high = places.max(axis=0) + 0.03 if len(places) else np.ones(2)
    scale = WIDTH / float((high - low)[0])
    xy = (places - low) * scale
    dots = [
        {
            "id": ids[name],
            "name": name,
            "x": f"{x:.1f}",
            "y": f"{y:.1f}",
            "hue": int(label) % N_HUES if label >= 0 else "none",
            "cluster": int(label) if label >= 0 else None,
        }
        for name, label, (x, y) in zip(names, labels, xy, strict=True)
    ]
    return dots, round(float((high - low)[1]) * scale)
