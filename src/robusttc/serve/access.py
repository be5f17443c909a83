"""Who asks: nobody in particular on loopback, the holder of a key, or the page with its cookie."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass

from fastapi import HTTPException, Request
from fastapi.responses import Response

from robusttc.errors import UnknownTaskError
from robusttc.serve.keys import Key, KeyFile
from robusttc.serve.settings import ServeSettings

__all__ = ["CSRF_HEADER", "Access", "Caller"]

COOKIE = "robusttc_session"
CSRF_HEADER = "x-csrf-token"
SESSION_SECONDS = 12 * 3600
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: with `task`, for that task alone; without, for everything."""

    task: str | None = None
    csrf_token: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether everything may be asked."""
        return self.task is None

    def require(self, task: str) -> None:
        """Refuse another task than the caller's own, as one that does not exist is refused."""
        if self.task is not None and self.task != task:
            raise UnknownTaskError(task, ())


class Access:
    """Finds out who asks.

    Without a file of keys everybody may ask for everything: then the server listens on loopback only.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.keys = None if settings.key_file is None else KeyFile(settings.key_file)

    def find_caller(self, request: Request) -> Caller:
        """Return who asks; an HTTP error 401 if that is not known."""
        if self.keys is None:
            return Caller()
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            secret = request.headers.get("x-api-key", "")
        if secret:
            key = self.keys.find(secret.strip())
            if key is not None:
                return Caller(key.task)
        else:
            caller = self.find_session(request)
            if caller is not None:
                return caller
        raise HTTPException(401, "a key is needed", {"WWW-Authenticate": "Bearer"})

    def require_admin(self, request: Request) -> Caller:
        """Return who asks; an HTTP error 403 if it is the holder of a task's key."""
        caller = self.find_caller(request)
        if not caller.is_admin:
            raise HTTPException(403, "this needs the admin key")
        return caller

    def log_in(self, secret: str, response: Response, *, secure: bool) -> bool:
        """Set the page's cookie, if the key is an admin's."""
        key = self.keys.find(secret.strip()) if self.keys is not None else None
        if key is None or not key.is_admin:
            return False
        expires = str(int(time.time()) + SESSION_SECONDS)
        value = f"{key.id}.{expires}.{sign(key, 'session', expires)}"
        response.set_cookie(
            COOKIE, value, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=secure
        )
        return True

    def log_out(self, response: Response) -> None:
        """Take the cookie away."""
        response.delete_cookie(COOKIE)

    def find_session(self, request: Request) -> Caller | None:
        """Return who the page's cookie stands for; a change needs the token of the page as well."""
        cookie = request.cookies.get(COOKIE, "")
        key_id, _, rest = cookie.partition(".")
        expires, _, signature = rest.partition(".")
        key = self.keys.by_id(key_id) if self.keys is not None else None
        if key is None or not key.is_admin or not expires.isdigit() or int(expires) < time.time():
            return None
        if not hmac.compare_digest(signature, sign(key, "session", expires)):
            return None
        token = sign(key, "csrf", cookie)
        given = request.headers.get(CSRF_HEADER, "")
        if request.method not in SAFE_METHODS and not hmac.compare_digest(given, token):
            raise HTTPException(403, "the page is too old: load it again")
        return Caller(csrf_token=token)


def sign(key: Key, purpose: str, value: str) -> str:
    """Sign a value with what the server knows of a key; it ends with the key."""
    return hmac.new(key.sha256.encode(), f"{purpose}.{value}".encode(), hashlib.sha256).hexdigest()
