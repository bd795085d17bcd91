"""A Jupyter server with our extension, under a base URL as a hub gives one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403 - fixtures and hooks, for this folder alone
from traitlets.config import Config

from tests.dispatch.sending import Sending

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
def jp_server_config() -> Config:
    return Config({"ServerApp": {"jpserver_extensions": {"theseus.lab": True}}})


@pytest.fixture
def jp_base_url() -> str:
    return "/user/x/"


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    (tmp_path / "sending").mkdir()
    return Sending(tmp_path / "sending", monkeypatch)


@pytest.fixture
def ask(sending: Sending, jp_fetch: Any) -> Ask:
    """Return what asks the server and gives the JSON of its answer."""

    async def asked(path: str, body: Any = None, **arguments: Any) -> Any:
        options = {} if body is None else {"method": "POST", "body": json.dumps(body)}
        answer = await jp_fetch("theseus/api", path, params=arguments, **options)
        assert answer.headers["Content-Type"] == "application/json"
        return json.loads(answer.body)

    return asked
