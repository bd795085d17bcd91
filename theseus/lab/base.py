"""What every handler has: who asks is known and allowed, and an error is JSON with what to do."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from theseus.errors import UserError

if TYPE_CHECKING:
    from theseus.lab.service import Service

_Method = TypeVar("_Method", bound=Callable[..., Awaitable[None]])


class RequestError(Exception):
    """A request that cannot be answered, with its HTTP status and what its author can do."""

    def __init__(self, status: int, message: str, what_to_do: str | None = None) -> None:
        super().__init__(message)
        self.status, self.what_to_do = status, what_to_do


class Handler(APIHandler):
    """The base of our handlers."""

    auth_resource = "theseus"
    # A panel that is left open asks again and again: that is no use of the server, which a hub may
    # stop when there is none.
    _track_activity = False

    @property
    def service(self) -> Service:
        """What this server keeps for us."""
        found: Service = self.settings["theseus_service"]
        return found

    async def prepare(self, **_: Any) -> None:
        """Refuse what another site's page asks for, reading included."""
        await super().prepare()
        if self.current_user and self.request.method in {"GET", "HEAD"}:
            self.check_xsrf_cookie()

    def root(self) -> Path:
        """Return the folder that the server shows; what is read or written for it stays inside."""
        return Path(self.settings["server_root_dir"]).expanduser().resolve()

    def answer(self, value: Any) -> None:
        """Answer with JSON."""
        self.set_header("Cache-Control", "no-store")
        self.finish(encoded(value))

    def body(self) -> dict[str, Any]:
        """Return the JSON object that was sent; an empty body is an empty one."""
        try:
            found = json.loads(self.request.body or b"{}")
        except ValueError as error:
            raise RequestError(400, f"the body is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise RequestError(400, "the body is a JSON object")
        return found

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return an argument of the address that is a count."""
        text = self.get_query_argument(name, "")
        if not text:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 18:
            raise RequestError(400, f"{name} is a count, not {text[:40]!r}")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return whether an argument of the address is 1."""
        return self.get_query_argument(name, "0") == "1"

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with what went wrong; what only a programmer understands goes to the log."""
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        message = responses.get(status_code, "an unknown error")
        if isinstance(error, web.HTTPError) and error.log_message:
            message = error.log_message % error.args if error.args else error.log_message
        self.set_status(status_code)
        self.answer({"message": message, "what_to_do": None})

    def refuse(self, error: RequestError) -> None:
        """Answer with a mistake of whoever asked."""
        self.set_status(error.status)
        self.answer({"message": str(error), "what_to_do": error.what_to_do})


def encoded(value: Any) -> bytes:
    """Return plain values as JSON that every browser reads, whatever a host has written.

    What is no finite number becomes null, and what is no character its escape.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None))
    return text.encode("utf-8", "backslashreplace")


def endpoint(method: _Method) -> _Method:
    """Make a method of a handler an endpoint: for those who may, with mistakes said as JSON."""

    @wraps(method)
    async def answered(self: Handler, *arguments: Any) -> None:
        try:
            await method(self, *arguments)
        except RequestError as error:
            self.refuse(error)
        except UserError as error:
            self.refuse(RequestError(400, str(error)))

    return web.authenticated(authorized(answered))  # type: ignore[return-value]
