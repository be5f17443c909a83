"""Which Ray to use, and whether it may be used: whoever reaches the ports of a Ray cluster runs code on it.

So a cluster is used only on the loopback interface of this machine, or with token authentication. A Ray that
we start has both: it listens on the loopback interface alone, and its token is known to this process and
its children alone.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from types import ModuleType
from urllib.parse import urlsplit

from robusttc.errors import UsageError, quote

__all__ = [
    "check_address",
    "check_connected",
    "check_reachable",
    "import_ray",
    "is_loopback",
    "prepare_own_ray",
    "set_quiet",
]

# Addresses by which Ray finds a cluster itself; where that is, is known afterwards.
FOUND_BY_RAY = ("auto",)
CONNECT_SECONDS = 5.0


def prepare_own_ray() -> None:
    """Set the environment for a Ray of our own; before Ray is imported, which reads some of it once."""
    # The only way to hold Ray to the loopback interface: it takes "127.0.0.1" for the machine's own address
    # and listens on all interfaces. On macOS and Windows this is its default.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    set_quiet()
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        # Else Ray would write one to the home folder, readable by everyone.
        if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def set_quiet() -> None:
    """Let Ray send no usage statistics, print nothing, and leave variables of graphics cards alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # It tells of every lost worker on the standard output, which is the commands'. We tell of it ourselves.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def import_ray() -> ModuleType:
    """Import Ray, which few people need.

    Raises
    ------
    UsageError
        If it is not installed.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UsageError(
            "Ray is not installed", todo="install it with `pip install 'robusttc[ray]'`, or work without it"
        ) from error
    found: ModuleType = ray
    return found


def check_address(address: str) -> None:
    """Refuse an address that cannot or must not be used.

    Parameters
    ----------
    address
        ``host:port`` of a cluster's head node, or ``auto``.

    Raises
    ------
    UsageError
        If it is no such address, or on another machine without token authentication.

    Examples
    --------
    >>> check_address("127.0.0.1:6379")
    """
    if address in FOUND_BY_RAY:
        return
    host, _ = split_address(address)
    if not is_loopback(host):
        refuse_open(address)


def check_connected(address: str) -> None:
    """Refuse a cluster, once connected, whose head node listens to other machines without authentication."""
    if not is_loopback(split_address(address)[0]):
        refuse_open(address)


def refuse_open(address: str) -> None:
    """Raise unless Ray demands a token."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return
    raise UsageError(
        "this Ray cluster is not on the loopback interface and has no authentication: "
        "whoever reaches its ports can run code on it and on this machine",
        where="RAY_ADDRESS",
        got=quote(address),
        expected="an address on the loopback interface, or token authentication",
        todo="start the cluster with RAY_AUTH_MODE=token, and set RAY_AUTH_MODE=token and the token here",
    )


def check_reachable(address: str) -> None:
    """Refuse an address where nobody listens, in seconds; Ray itself would try for minutes."""
    if address in FOUND_BY_RAY:
        return
    try:
        socket.create_connection(split_address(address), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise UsageError(
            "no Ray cluster can be reached",
            where="RAY_ADDRESS",
            got=f"{quote(address)} ({error.strerror or error})",
            todo="start it with `ray start --head`, or unset RAY_ADDRESS to use this machine alone",
        ) from error


def split_address(address: str) -> tuple[str, int]:
    """Give host and port of an address."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or parts.netloc != address:
        raise UsageError(
            "the address of a Ray cluster cannot be used",
            where="RAY_ADDRESS",
            got=quote(address),
            expected="host:port of its head node, for instance 127.0.0.1:6379; or auto",
        )
    return host, port


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine's loopback interface.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.5")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
