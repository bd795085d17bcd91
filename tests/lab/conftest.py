"""A Jupyter server with our extension, under a base URL as a hub gives one."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403 - fixtures and hooks, for this folder alone
from tornado.httpclient import HTTPClientError
from traitlets.config import Config

from tests.dispatch.sending import Sending
from theseus.dispatch.registry import Entry

SECRET = "hf_0123456789abcdefghij"
Ask = Callable[..., Awaitable[Any]]
BASE = "/user/x/"


@pytest.fixture
def jp_server_config() -> Config:
    return Config({"ServerApp": {"jpserver_extensions": {"theseus.lab": True}}})


@pytest.fixture
def jp_base_url() -> str:
    return BASE


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    (tmp_path / "sending").mkdir()
    return Sending(tmp_path / "sending", monkeypatch)


@pytest.fixture
def ask(sending: Sending, jp_fetch: Any) -> Ask:
    """Return what asks the server and gives the JSON of its answer, or `(status, JSON)` of an error."""

    async def asked(path: str, body: Any = None, **arguments: Any) -> Any:
        options = {} if body is None else {"method": "POST", "body": json.dumps(body)}
        code = 200
        try:
            answer = await jp_fetch("theseus/api", path, params=arguments, **options)
        except HTTPClientError as error:
            answer, code = error.response, error.code
        assert answer.headers["Content-Type"] == "application/json"
        told = json.loads(answer.body)
        return told if code == 200 else (code, told)

    return asked


class Stream:
    """What an event stream has sent by now."""

    def __init__(self) -> None:
        self.head = ""
        self._data = b""
        self.events: list[tuple[str, Any]] = []
        self.places: list[str] = []
        self.comments = 0
        self.ended = False

    def take(self, chunk: bytes) -> None:
        *whole, self._data = (self._data + chunk).split(b"\n\n")
        for one in map(bytes.decode, whole):
            if one.startswith(":"):
                self.comments += 1
                continue
            fields = dict(line.split(": ", 1) for line in one.split("\n"))
            self.events.append((fields["event"], json.loads(fields["data"])))
            if "id" in fields:
                self.places.append(fields["id"])

    def of(self, kind: str) -> list[Any]:
        return [data for event, data in self.events if event == kind]

    async def until(self, true: Callable[[Stream], Any], seconds: float = 60.0) -> Any:
        end = time.monotonic() + seconds
        while not (found := true(self)):
            assert time.monotonic() < end, (self.events[-5:], self.ended)
            await asyncio.sleep(0.02)
        return found


@pytest.fixture
def stream(sending: Sending, http_server_client: Any, jp_auth_header: Any) -> Any:
    """Return what opens a stream of events, and closes its connection at the end of its block."""

    @asynccontextmanager
    async def opened(path: str, **headers: str) -> AsyncIterator[Stream]:
        seen = Stream()
        port = http_server_client.get_http_port()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        # Of a client of HTTP/1.0 nothing has to be taken apart: the answer ends with the connection.
        lines = [f"GET {BASE}theseus/api/{path} HTTP/1.0", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in {**jp_auth_header, **headers}.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())

        async def read() -> None:
            seen.head = (await reader.readuntil(b"\r\n\r\n")).decode()
            while data := await reader.read(1 << 16):
                seen.take(data)
            seen.ended = True

        reading = asyncio.ensure_future(read())
        try:
            yield seen
        finally:
            writer.close()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    return opened


def entry(run: str = "abcdef12", **facts: Any) -> Entry:
    """Return the entry of a run that nobody has submitted."""
    given = {
        "name": "made", "project": "general", "group": "default", "job": "a/b", "base": run * 4,
        "host": "me", "cluster": "here", "kind": "local", "folder": f"/nowhere/made-{run}",
        "submitted": time.time(),
    }  # fmt: skip
    return Entry(run, **(given | facts))


async def until(true: Callable[[], Any], seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    return found


def our_threads() -> list[str]:
    names = [one.name for one in threading.enumerate()]
    return [name for name in names if name.startswith(("theseus lab", "theseus watch"))]
