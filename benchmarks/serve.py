"""What the server takes, beside a plain one: an endpoint, `SentenceTransformer.encode`, a regression.

``make bench-serve`` prints the tables; `--only` chooses. Clients and servers share this machine, so the CPU
of the server for a request says more than requests a second. The parts:

* ``speed``: single-text requests over 32 connections, every text new (cold) or the same hundred again (warm).
* ``overload``: five times the connections that a small queue takes: latency of what is accepted, and how fast
  the rest is refused.
* ``tasks``: start-up, memory and the first answer of a cold task with 10 and more tasks of 12 labels.
* ``onboarding``: a new task of 12 labels and 32 examples, over HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.report import print_table
from robusttc.data import make_planted_tasks, write_tasks

PARTS = ("speed", "overload", "tasks", "onboarding")
PROGRAM = [sys.executable, "-c", "import sys; from robusttc.cli import main; sys.exit(main())"]
PORT, PLAIN_PORT, CONNECTIONS = 8181, 8182, 32
TASK = "task-0000"
PLAIN = """
import numpy as np, sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from robusttc.encoders.model_folder import default_model_folder
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
encoder = SentenceTransformer(str(default_model_folder()), device="cpu")
vectors = encoder.encode([f"text {n}" for n in range(48)])
head = LogisticRegression().fit(vectors, np.arange(48) % 12)
app = FastAPI()
class Question(BaseModel):
    text: str
@app.post("/predict")
def predict(question: Question) -> dict:
    shares = head.predict_proba(encoder.encode([question.text], show_progress_bar=False))[0]
    return {"label": int(shares.argmax()), "probabilities": shares.tolist()}
@app.get("/livez")
def livez() -> str:
    return "ok"
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
"""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Return the memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextmanager
def running(command: list[str], port: int) -> Iterator[tuple[int, float]]:
    """Start a server, and yield its process and the seconds until it was ready."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/livez", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                if process.poll() is not None:
                    sys.exit(f"{command[:4]} ended with {process.returncode}")
                time.sleep(0.05)
        yield process.pid, time.perf_counter() - start
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def serve(run: Path, *options: str) -> list[str]:
    """Return the command that serves a run."""
    return [*PROGRAM, "serve", str(run), "--port", str(PORT), *options]


async def ask(
    port: int, path: str, bodies: list[Any], connections: int
) -> tuple[float, list[float], list[int]]:
    """Send requests over so many connections; return wall seconds, latencies and status codes."""
    waiting = iter(bodies)
    seconds: list[float] = []
    codes: list[int] = []

    async def work(client: httpx.AsyncClient) -> None:
        for body in waiting:
            start = time.perf_counter()
            answer = await client.post(path, json=body)
            seconds.append(time.perf_counter() - start)
            codes.append(answer.status_code)

    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    address = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        start = time.perf_counter()
        await asyncio.gather(*(work(client) for _ in range(connections)))
        return time.perf_counter() - start, seconds, codes


def make_texts(n: int, *, seed: int) -> list[str]:
    """Return texts of the planted tasks, each made new by a number."""
    texts = [text for task in make_planted_tasks(8, random_state=seed).tasks for text in task.texts]
    return [f"{texts[number % len(texts)]} {seed} {number}" for number in range(n)]


def show_speed(runs: dict[str, Path], n: int) -> None:
    """Compare single-text requests with those of the plain server."""
    rows = []
    servers = [("plain", PLAIN_PORT, [sys.executable, "-c", PLAIN, str(PLAIN_PORT)])]
    servers += [(f"robusttc, {name}", PORT, serve(run)) for name, run in runs.items()]
    for name, port, command in servers:
        with running(command, port) as (pid, _):
            for state, texts in (
                ("cold", make_texts(n, seed=1)),
                ("warm", make_texts(100, seed=2) * (n // 100)),
            ):
                if port == PLAIN_PORT:
                    path = "/predict"
                    bodies: list[Any] = [{"text": text} for text in texts]
                else:
                    path, bodies = f"/v1/tasks/{TASK}/predict", [{"texts": [text]} for text in texts]
                asyncio.run(ask(port, path, bodies[:100], CONNECTIONS))
                before = cpu_seconds(pid)
                wall, seconds, codes = asyncio.run(ask(port, path, bodies, CONNECTIONS))
                cpu = (cpu_seconds(pid) - before) / len(bodies)
                assert set(codes) == {200}, codes
                quantiles = 1_000 * np.quantile(seconds, [0.5, 0.99])
                rows.append(
                    [
                        name,
                        state,
                        f"{len(bodies) / wall:.0f}",
                        f"{1_000 * cpu:.2f}",
                        *(f"{q:.0f}" for q in quantiles),
                    ]
                )
    print_table(["server", "texts", "requests/s", "CPU ms a request", "p50 ms", "p99 ms"], rows)


def show_overload(run: Path, n: int) -> None:
    """Show what happens at five times the load that a small queue takes."""
    path, rows = f"/v1/tasks/{TASK}/predict", []
    with running(serve(run, "--max-queued-tokens", "400", "--max-task-share", "1"), PORT) as _:
        for connections in (16, 80):
            bodies = [{"texts": [text]} for text in make_texts(n, seed=connections)]
            _, seconds, codes = asyncio.run(ask(PORT, path, bodies, connections))
            parts = {
                code: [s for s, c in zip(seconds, codes, strict=True) if c == code]
                for code in sorted(set(codes))
            }
            for code, some in parts.items():
                quantiles = 1_000 * np.quantile(some, [0.5, 0.99])
                rows.append([str(connections), str(code), str(len(some)), *(f"{q:.0f}" for q in quantiles)])
    print_table(["connections", "status", "requests", "p50 ms", "p99 ms"], rows)


def make_examples(number: int) -> list[dict[str, str]]:
    """Return 32 examples of 12 labels."""
    words = [
        "parcel",
        "refund",
        "invoice",
        "account",
        "weather",
        "music",
        "flight",
        "hotel",
        "doctor",
        "school",
        "garden",
        "engine",
    ]
    return [
        {"text": f"{words[row % 12]} question {number} {row}", "label": f"{words[row % 12]} {number}"}
        for row in range(32)
    ]


def show_onboarding(run: Path, n: int) -> None:
    """Show how long a new task takes."""
    with running(serve(run), PORT), httpx.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=120) as client:
        seconds = []
        for number in range(n):
            start = time.perf_counter()
            answer = client.put(f"/v1/tasks/onboarded-{number}", json={"examples": make_examples(number)})
            assert answer.status_code in {200, 201}, answer.text
            seconds.append(time.perf_counter() - start)
    quantiles = np.quantile(seconds[1:], [0.5, 0.95])
    print_table(
        ["new tasks", "first s", "p50 s", "p95 s"],
        [[str(n), f"{seconds[0]:.2f}", *(f"{q:.2f}" for q in quantiles)]],
    )


def show_tasks(run: Path, sizes: list[int]) -> None:
    """Show start-up and memory with more and more tasks, which are adapted ones."""
    from robusttc.data import Task
    from robusttc.run import Run

    rows, opened = [], Run(run)
    for size in sizes:
        while len(opened.task_names) < size:
            number = len(opened.task_names)
            pairs = make_examples(number)
            opened.adapt(
                Task(f"tenant-{number}", [one["text"] for one in pairs], [one["label"] for one in pairs])
            )
        names = list(opened.adapted_names)
        client = httpx.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=120)
        with running(serve(run, "--cached-vectors", "0"), PORT) as (pid, started), client:
            before, first = memory(pid), []
            for name in names:
                start = time.perf_counter()
                answer = client.post(f"/v1/tasks/{name}/predict", json={"texts": ["where is it"]})
                answer.raise_for_status()
                first.append(time.perf_counter() - start)
            grown = (memory(pid) - before) / max(len(names), 1)
        quantiles = 1_000 * np.quantile(first, [0.5, 0.95]) if first else [0, 0]
        rows.append(
            [str(size), f"{started:.1f}", f"{before:.0f}", f"{grown:.3f}", *(f"{q:.0f}" for q in quantiles)]
        )
    print_table(["tasks", "start s", "MB at start", "MB a task asked", "first answer p50 ms", "p95 ms"], rows)


def make_run(folder: Path, encoder: str) -> Path:
    """Fit planted tasks, unless they are there."""
    run, tasks = folder / f"run-{encoder}", folder / "tasks"
    if not (run / "current").exists():
        write_tasks(make_planted_tasks(10, rows=(60, 120), random_state=0).tasks, tasks)
        subprocess.run(
            [*PROGRAM, "fit", str(tasks), "--out", str(run), "--encoder", encoder, "--quiet"], check=False
        )
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "robusttc-bench-serve")
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--encoders", nargs="+", default=["sentence", "static"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[10, 200])
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    runs = {name: make_run(arguments.folder, name) for name in arguments.encoders}
    first = next(iter(runs.values()))
    if "speed" in arguments.only:
        show_speed(runs, arguments.requests)
    if "overload" in arguments.only:
        show_overload(first, arguments.requests)
    if "tasks" in arguments.only:
        show_tasks(first, arguments.sizes)
    if "onboarding" in arguments.only:
        show_onboarding(first, 20)


if __name__ == "__main__":
    main()
