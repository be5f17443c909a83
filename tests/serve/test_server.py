"""The API of a real server: predictions, onboarding, versions, keys, errors."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from live_server import copy_of_run, serving

from robusttc.run import Run
from robusttc.serve.keys import issue_key, list_keys, revoke_key
from robusttc.serve.tenants import task_id

ID = task_id("task 0")
EXAMPLES = [
    {"text": f"{text} {number}", "label": label}
    for label, text in (("ship", "where is my parcel"), ("refund", "give my money back"))
    for number in range(4)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_run(tmp_path_factory.mktemp("served") / "run")


@pytest.fixture(scope="module")
def http(folder: Path) -> Iterator[httpx.Client]:
    with (
        serving(folder, max_texts=8, max_characters=100, max_examples=20) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


def put(http: httpx.Client, task: str, examples: Any = EXAMPLES, **headers: str) -> httpx.Response:
    return http.put(f"/v1/tasks/{task}", json={"examples": examples}, headers=headers)


def test_a_prediction_is_that_of_the_library_alone_and_in_a_mixed_batch(
    http: httpx.Client, folder: Path
) -> None:
    texts = ["where is my parcel now", "the sky is blue", "hello"]
    expected = Run(folder).predict("task 0", texts)
    alone = http.post(f"/v1/tasks/{ID}/predict", json={"texts": texts}).json()["predictions"]
    rows = [{"task": task_id(f"task {n}"), "text": text} for text in texts for n in range(2)]
    mixed = http.post("/v1/predict", json={"rows": rows}).json()["predictions"][::2]
    for found in (alone, mixed):
        table = [[one["probabilities"][label] for label in expected.label_names] for one in found]
        np.testing.assert_allclose(table, expected.probabilities, atol=1e-6)
        assert [one["label"] for one in found] == expected.labels.tolist()
        assert [one["in_scope"] for one in found] == expected.in_scope.tolist()
    assert mixed[0]["task"] == ID


def test_options_of_a_prediction(http: httpx.Client) -> None:
    asked = {"texts": ["where is my parcel now"], "top_k": 1, "abstain_below": 1.0, "nearest": True}
    [found] = http.post(f"/v1/tasks/{ID}/predict", json=asked).json()["predictions"]
    assert len(found["probabilities"]) == 1
    assert found["abstained"]
    assert found["label"] is None
    assert found["nearest_example"]["text"].startswith("where is my parcel")
    assert not found["truncated"]


def test_a_text_that_is_too_long_is_refused_or_cut(http: httpx.Client) -> None:
    long = {"texts": ["short", "x" * 101]}
    answer = http.post(f"/v1/tasks/{ID}/predict", json=long)
    assert answer.status_code == 413
    assert "texts.1" in answer.json()["detail"]
    cut = http.post(f"/v1/tasks/{ID}/predict", json={**long, "truncate": True}).json()
    assert [one["truncated"] for one in cut["predictions"]] == [False, True]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"texts": []}',
        b'{"texts": [""]}',
        b'{"texts": ["  "]}',
        b'{"texts": "hello"}',
        b'{"texts": [1]}',
        b'{"texts": ["a"], "texts": ["b"]}',
        b'{"texts": ["a"], "top_k": 0}',
        b'{"texts": ["a"], "abstain_below": NaN}',
        b'{"texts": ["a"], "unknown": 1}',
        b'{"texts": ["\\ud800"]}',
        b'{"texts": ["a", "a", "a", "a", "a", "a", "a", "a", "a"]}',
        b"\xff",
        b"[" * 10_000,
    ],
)
def test_a_bad_body_is_refused_with_its_place(http: httpx.Client, body: bytes) -> None:
    answer = http.post(f"/v1/tasks/{ID}/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 422


def test_a_new_client_is_learned_extended_rolled_back_and_gone(folder: Path, http: httpx.Client) -> None:
    made = put(http, "acme")
    assert made.status_code == 201
    first = made.json()["version"]
    assert made.headers["etag"] == f'"{first}"'
    assert made.json()["labels"] == ["refund", "ship"]
    low, high = made.json()["interval"]
    assert low <= made.json()["expected_accuracy"] <= high
    asked = {"texts": ["where is my parcel"]}
    before = http.post("/v1/tasks/acme/predict", json=asked).json()["predictions"]

    canary = "canary-7f3a bonjour"
    more = {"examples": [{"text": f"{canary} {n}", "label": "greet"} for n in range(3)]}
    assert http.post("/v1/tasks/acme/examples", json=more, headers={"If-Match": '"1"'}).status_code == 412
    extended = http.post("/v1/tasks/acme/examples", json=more, headers={"If-Match": f'"{first}"'})
    assert extended.json()["labels"] == ["greet", "refund", "ship"]
    assert http.get("/v1/tasks/acme").json()["n_rows"] == len(EXAMPLES) + 3

    versions = http.get("/v1/tasks/acme/versions").json()["versions"]
    assert [one["version"] for one in versions] == [first, first + 1]
    assert http.post("/v1/tasks/acme/rollback", json={"version": first}).status_code == 200
    assert http.post("/v1/tasks/acme/predict", json=asked).json()["predictions"] == before

    assert http.delete("/v1/tasks/acme").status_code == 204
    for path in ("/v1/tasks/acme", "/v1/tasks/acme/versions", "/v2/models/acme"):
        assert http.get(path).status_code == 404
    assert http.post("/v1/tasks/acme/predict", json=asked).status_code == 404
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert canary.encode() not in kept


def test_a_task_of_the_fit_stops_answering_at_once_and_its_models_are_trained_again(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    with serving(folder) as url, httpx.Client(base_url=url, timeout=300) as http:
        assert put(http, ID).status_code == 409
        answer = http.delete(f"/v1/tasks/{ID}")
        assert answer.status_code == 202
        assert http.get(f"/v1/tasks/{ID}").status_code == 404
        job = answer.json()["id"]
        while (state := http.get(f"/v1/jobs/{job}").json())["state"] == "running":
            time.sleep(0.2)
        assert state["state"] == "done", state
        assert http.get(f"/v1/tasks/{ID}").status_code == 404
        assert http.get(f"/v1/tasks/{task_id('task 1')}").status_code == 200
    assert "task 0" not in Run(folder).tasks.names


@pytest.mark.parametrize(
    "examples",
    [
        [],
        [{"text": "a", "label": "b"}],
        [{"text": "a", "label": ""}],
        [{"text": "a"}],
        [{"text": "x" * 101, "label": "a"}, {"text": "b", "label": "b"}],
        [{"text": str(n), "label": str(n % 2)} for n in range(21)],
    ],
)
def test_examples_that_cannot_be_learned_are_refused(http: httpx.Client, examples: Any) -> None:
    assert put(http, "bad", examples).status_code == 422
    assert http.get("/v1/tasks/bad").status_code == 404


def traversals() -> list[str]:
    """Ways out of a folder, and names that are no ids, as they stand in a URL."""
    ups = [
        "../",
        "..%2F",
        "%2e%2e/",
        "%2e%2e%2f",
        "%252e%252e%252f",
        "..%5C",
        "..%c0%af",
        "....//",
        "%EF%BC%8E%EF%BC%8E/",
    ]
    ends = [
        "etc/passwd",
        "etc%2Fpasswd",
        "current/summary.json",
        "owner.lock",
        "versions",
        "c:%5Cwindows",
        "%00",
        "~root",
    ]
    made = [up * depth + end for up in ups for depth in (1, 3) for end in ends]
    names = [
        "A",
        "-x",
        "_",
        "a" * 65,
        "t%00",
        "%C3%A4",
        "a%5Cb",
        "a b",
        "a%0Ab",
        "a;b",
        "%7E",
        "%E2%80%AE",
        "CON",
        "a.b",
        "a:b",
    ]
    return (
        made
        + names
        + [f"/{end}" for end in ends]
        + [f"%2F{end}" for end in ends]
        + [f"a%2F..%2F{end}" for end in ends]
    )


def test_no_name_leads_out_of_the_table_of_tasks(http: httpx.Client, folder: Path) -> None:
    before = sorted(folder.parent.rglob("*"))
    names = traversals()
    assert len(set(names)) >= 180
    places = [f"/v1/tasks/{name}" for name in names]
    places += [f"/v2/models/{name}" for name in names[::4]] + [f"/static/{name}" for name in names[::4]]
    places += [f"/v1/jobs/{name}" for name in names[::8]]
    for place in places:
        answer = http.request("GET", httpx.URL(str(http.base_url).rstrip("/") + place))
        assert answer.status_code in {307, 404, 405, 422}, place
        assert b"root:" not in answer.content
    for name in names[::6]:
        assert put(http, name).status_code in {307, 404, 405, 422}
        assert http.delete(f"/v1/tasks/{name}").status_code in {307, 404, 405, 422}
    assert sorted(folder.parent.rglob("*")) == before


@pytest.mark.parametrize("n", [12, pytest.param(500, marks=pytest.mark.slow)])
def test_concurrent_creations_do_not_mix(tmp_path: Path, n: int) -> None:
    folder = copy_of_run(tmp_path / "run")

    def create(number: int) -> dict[str, Any]:
        examples = [
            {"text": f"{word} {number} {row}", "label": f"{word}-{number}"}
            for word in ("yes", "no")
            for row in range(3)
        ]
        with httpx.Client(base_url=url, timeout=120) as http:
            answer = put(http, f"client-{number}", examples)
            while answer.status_code == 503:
                answer = put(http, f"client-{number}", examples)
            assert answer.status_code == 201
            found: dict[str, Any] = http.post(
                f"/v1/tasks/client-{number}/predict", json={"texts": ["yes", "no"]}
            ).json()
        return found

    with serving(folder) as url, ThreadPoolExecutor(6) as pool:
        for number, found in enumerate(pool.map(create, range(n))):
            labels = {label for one in found["predictions"] for label in one["probabilities"]}
            assert labels == {f"yes-{number}", f"no-{number}"}
    assert len(Run(folder).adapted_names) == n


def test_a_change_by_another_process_is_served_and_a_damaged_version_is_not(tmp_path: Path) -> None:
    folder = copy_of_run(tmp_path / "run")
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "".join(f"{one['text']},{one['label']}\n" for one in EXAMPLES))
    with serving(folder) as url, httpx.Client(base_url=url, timeout=60) as http:
        command = "from robusttc.cli import main; raise SystemExit(main())"
        arguments = ["adapt", str(folder), str(rows), "--name", "elsewhere"]
        subprocess.run([sys.executable, "-c", command, *arguments], check=True, capture_output=True)
        assert http.get("/v1/tasks/elsewhere").status_code == 200
        answered = http.get("/info").json()["run_version"]
        broken = folder / "versions" / f"{answered + 1:04}"
        broken.mkdir()
        (broken / "manifest.json").write_text("{")
        pointer = folder / "current"
        pointer.unlink()
        pointer.symlink_to(broken.relative_to(folder))
        assert http.get("/v1/tasks/elsewhere").status_code == 200
        assert http.get("/info").json()["run_version"] == answered
        assert "robusttc_refused_versions_total 1.0" in http.get("/metrics").text


def test_keys_open_what_they_are_for(tmp_path: Path) -> None:
    folder, file = copy_of_run(tmp_path / "run"), tmp_path / "keys.json"
    admin, own = issue_key(file, task=None), issue_key(file, task=ID)
    other = task_id("task 1")
    with serving(folder, key_file=file) as url, httpx.Client(base_url=url, timeout=60) as http:

        def status(path: str, key: str | None, method: str = "GET", **options: Any) -> int:
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            return http.request(method, path, headers=headers, **options).status_code

        for path in ("/v1/tasks", f"/v1/tasks/{ID}", "/metrics", "/info", f"/v2/models/{ID}"):
            assert status(path, None) == 401
            assert status(path, "rtc_000000000000_" + "a" * 43) == 401
            assert status(path, admin) == 200
        assert status("/livez", None) == 200
        assert status("/readyz", None) == 200
        assert status(f"/v1/tasks/{ID}", own) == 200
        for path in ("/v1/tasks", "/v1/clusters", "/metrics", f"/v1/tasks/{ID}/conflicts"):
            assert status(path, own) == 403
        unknown = http.get("/v1/tasks/nobody", headers={"X-API-Key": own})
        foreign = http.get(f"/v1/tasks/{other}", headers={"X-API-Key": own})
        assert (unknown.status_code, unknown.content) == (foreign.status_code, foreign.content)
        assert unknown.status_code == 404
        rows = {"rows": [{"task": ID, "text": "a"}, {"task": other, "text": "a"}]}
        assert status("/v1/predict", own, "POST", json=rows) == 404
        assert http.get(f"/v1/tasks/{ID}", headers={"X-API-Key": own}).json()["cluster"] is None
        mine = issue_key(file, task="acme")
        for key, n_least in ((mine, 0), (admin, 1)):
            made = put(http, "acme", Authorization=f"Bearer {key}")
            assert made.is_success
            # Neighbours are other clients: the holder of a task's key is not told their names.
            assert bool(made.json()["nearest_tasks"]) == bool(n_least)
        revoke_key(file, list_keys(file)[1].id)
        assert status(f"/v1/tasks/{ID}", own) == 401


def test_the_open_inference_protocol(http: httpx.Client) -> None:
    assert http.get("/v2/health/ready").json() == {"ready": True}
    assert http.get(f"/v2/models/{ID}").json()["inputs"][0]["datatype"] == "BYTES"
    texts = ["where is my parcel now", "hello"]
    tensor = {"name": "text", "shape": [2, 1], "datatype": "BYTES", "data": [[text] for text in texts]}
    found = http.post(f"/v2/models/{ID}/infer", json={"id": "7", "inputs": [tensor]}).json()
    native = http.post(f"/v1/tasks/{ID}/predict", json={"texts": texts}).json()["predictions"]
    assert found["id"] == "7"
    assert {one["name"]: one["data"] for one in found["outputs"]} == {
        name: [one[name] for one in native] for name in ("label", "probability", "out_of_scope")
    }
    wrong = {**tensor, "shape": [3]}
    assert http.post(f"/v2/models/{ID}/infer", json={"inputs": [wrong]}).status_code == 422


def test_what_is_served_is_listed(http: httpx.Client) -> None:
    page = http.get("/v1/tasks", params={"search": "TASK", "limit": 2}).json()
    assert (len(page["tasks"]), page["total"], page["next"]) == (2, 6, 2)
    details = http.get(f"/v1/tasks/{ID}").json()
    assert details["labels"] == ["greet", "refund", "track"]
    assert details["interval"][0] <= details["accuracy"] <= details["interval"][1]
    clusters = http.get("/v1/clusters").json()["clusters"]
    assert len(clusters) == 2
    assert ID in {task for one in clusters for task in one["tasks"]}
    assert "robusttc_batches_total" in http.get("/metrics").text
    assert http.get("/info").json()["limits"]["max_texts"] == 8


def test_a_prediction_is_explained(http: httpx.Client) -> None:
    found = http.post(f"/v1/tasks/{ID}/explain", json={"text": "where is my parcel now"}).json()
    assert {one["model"] for one in found["models"]} <= {"own", "shared", "cluster", "prior"}
    assert all(one["weight"] > 0 for one in found["models"])
    assert found["nearest_example"]["text"].startswith("where is my parcel")


def test_rows_are_read_and_their_problems_have_lines(http: httpx.Client) -> None:
    good = http.post(
        "/v1/read", json={"content": "utterance;intent\nhello;greet\nbye;leave\nhi;greet\n"}
    ).json()
    assert good["labels"] == {"greet": 2, "leave": 1}
    bad = http.post("/v1/read", json={"content": "text,label\nhello,greet\n,leave\n"}).json()
    assert bad["examples"] == []
    assert ":3:" in bad["problems"][0]


def test_no_text_that_was_asked_about_is_written(http: httpx.Client, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    http.post(f"/v1/tasks/{ID}/predict", json={"texts": ["secret-word-19"]})
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
