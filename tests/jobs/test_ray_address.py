"""Which Ray clusters may be used; Ray itself is not needed here."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest

from robusttc.errors import UsageError
from robusttc.jobs.ray import RayExecutor, check_address, import_ray, is_loopback, prepare_environment

OPEN = ["10.0.0.5:6379", "head.example.org:6379", "0.0.0.0:6379", "[2001:db8::1]:6379", "192.168.1.2:6379"]
LOOPBACK = ["127.0.0.1:6379", "localhost:6379", "127.3.2.1:1", "[::1]:6379"]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("RAY_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("address", OPEN)
def test_open_cluster_is_refused_without_authentication(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"whoever reaches its ports can run code.*RAY_AUTH_MODE=token"):
        RayExecutor(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match="RAY_ADDRESS"):
        RayExecutor()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(UsageError, match="no authentication"):
        check_address(address)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    check_address(address)
    assert RayExecutor().address == address


@pytest.mark.parametrize("address", LOOPBACK)
def test_cluster_on_the_loopback_interface_may_be_used(address: str) -> None:
    check_address(address)
    assert RayExecutor(address).address == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1",
        "6379",
        "ray://127.0.0.1:10001",
        "http://localhost:1",
        "a:b",
        "127.0.0.1:6379/x",
        "[::1",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="expected host:port of its head node"):
        check_address(address)


def test_names_that_only_look_like_loopback() -> None:
    assert not is_loopback("127.0.0.1.example.org")
    assert not is_loopback("localhost.example.org")
    assert not is_loopback("")


def test_address_where_nobody_listens_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        closing(RayExecutor(f"127.0.0.1:{port}")) as executor,
        pytest.raises(UsageError, match=r"the Ray cluster does not answer.*refused.*unset RAY_ADDRESS"),
    ):
        executor.share(1)


def test_private_ray_has_a_token_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prepared: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", prepared)
    prepare_environment(is_private=True)
    assert prepared["RAY_AUTH_MODE"] == "token"
    assert len(prepared["RAY_AUTH_TOKEN"]) == 64
    assert prepared["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert prepared["RAY_USAGE_STATS_ENABLED"] == "0"
    token = prepared["RAY_AUTH_TOKEN"]
    prepare_environment(is_private=True)
    assert prepared["RAY_AUTH_TOKEN"] == token
    # Somebody who has a token of their own keeps it.
    prepared.clear()
    prepared["RAY_AUTH_TOKEN_PATH"] = str(tmp_path)
    prepare_environment(is_private=True)
    assert "RAY_AUTH_TOKEN" not in prepared


def test_missing_ray_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"Ray is not installed.*robusttc\[ray\]"):
        import_ray()


def test_wrong_number_of_workers_is_refused() -> None:
    with pytest.raises(UsageError, match="n_workers"):
        RayExecutor(n_workers=0)
