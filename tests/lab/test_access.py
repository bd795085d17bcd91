"""Who may ask: somebody who is known, from our own pages, and only for what is in the registry."""

from __future__ import annotations

import re
from http.cookies import SimpleCookie
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from jupyter_server.base.handlers import JupyterHandler
from tornado import web
from tornado.httpclient import HTTPClientError

from tests.dispatch.sending import Sending
from tests.lab.conftest import BASE, Ask, entry
from theseus.lab.base import Handler
from theseus.lab.routes import ROUTES

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
OURS = f"{BASE}theseus/"


class Site:
    """The server as a client with other credentials than the token sees it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.cookies: dict[str, str] = {}
        self.host = f"127.0.0.1:{client.get_http_port()}"

    async def status(self, path: str, verb: str = "GET", **headers: str) -> int:
        try:
            answer: Any = await self._client.fetch(
                path,
                method=verb,
                headers={"Cookie": self._cookie(), **headers},
                body=b"{}" if verb in {"POST", "PUT", "PATCH"} else None,
                follow_redirects=False,
                request_timeout=20,
            )
        except HTTPClientError as error:
            answer = error.response
        for line in answer.headers.get_list("Set-Cookie"):
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
        return int(answer.code)

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def log_in(self, token: str) -> None:
        """Get the cookies that a browser gets which opens the address with the token."""
        assert await self.status(f"{BASE}login") == 200
        assert await self.status(f"{BASE}api/status?token={token}") == 200
        assert "_xsrf" in self.cookies
        assert len(self.cookies) == 2


@pytest.fixture
def site(sending: Sending, http_server_client: Any) -> Site:
    return Site(http_server_client)


def ours(web_app: Any) -> list[tuple[str, type]]:
    """Return what the server answers below our address, from its own table."""
    found = []
    for rule in web_app.default_router.rules:
        for inner in rule.target.rules:
            pattern = getattr(inner.matcher, "regex", re.compile("")).pattern
            if pattern.startswith(OURS):
                found.append((pattern, inner.target))
    return found


def addresses(web_app: Any) -> list[tuple[str, str]]:
    """Return an address and a verb for everything that our handlers answer."""
    found = []
    for pattern, handler in ours(web_app):
        path = pattern.removesuffix("$").replace("([^/]+)", "abcdef12")
        for verb in VERBS:
            method = getattr(handler, verb.lower())
            if method is not getattr(web.RequestHandler, verb.lower()):
                found.append((path, verb))
    return found


async def admitted(site: Site, web_app: Any) -> list[tuple[str, str, int]]:
    """Return the endpoints that answer somebody whom nobody knows."""
    answers = [(*one, await site.status(*one)) for one in addresses(web_app)]
    return [one for one in answers if one[2] != 403]


async def admitted_across(site: Site, web_app: Any) -> list[tuple[str, str, int]]:
    """Return the endpoints that a page of another site can use with the user's cookies."""
    evil = {"Referer": "https://evil.example/page"}
    answers = [(*one, await site.status(*one, **evil)) for one in addresses(web_app)]
    origin = {"Origin": "https://evil.example", "X-XSRFToken": site.cookies["_xsrf"]}
    answers += [(*one, await site.status(*one, **origin)) for one in addresses(web_app)]
    return [one for one in answers if one[2] not in {403, 404}]


async def test_nobody_is_answered_who_is_not_known(site: Site, jp_web_app: Any) -> None:
    assert len(ours(jp_web_app)) == len(ROUTES)
    assert len(addresses(jp_web_app)) == len(ROUTES)  # each answers one verb
    assert await admitted(site, jp_web_app) == []


async def test_no_page_of_another_site_is_answered(
    site: Site, jp_web_app: Any, jp_serverapp: Any, sending: Sending
) -> None:
    sending.registry.put(entry(state="finished"))
    await site.log_in(jp_serverapp.identity_provider.token)
    assert await admitted_across(site, jp_web_app) == []


async def test_a_handler_without_protection_is_found(
    site: Site, jp_web_app: Any, jp_serverapp: Any
) -> None:
    class Open(JupyterHandler):
        def get(self) -> None:
            self.finish("anybody")

    class Unchecked(JupyterHandler):
        def check_xsrf_cookie(self) -> None:
            return

        @web.authenticated
        def post(self) -> None:
            self.finish("done")

    jp_web_app.add_handlers(".*$", [(f"{OURS}api/open", Open), (f"{OURS}api/act", Unchecked)])
    assert (f"{OURS}api/open", "GET", 200) in await admitted(site, jp_web_app)
    await site.log_in(jp_serverapp.identity_provider.token)
    assert (f"{OURS}api/act", "POST", 200) in await admitted_across(site, jp_web_app)


async def test_an_administrator_can_forbid_what_changes_something(
    ask: Ask, jp_web_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reading(Authorizer):
        def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
            return (action, resource) == ("read", "theseus")

    monkeypatch.setitem(jp_web_app.settings, "authorizer", Reading())
    assert (await ask("runs"))["runs"] == []
    assert (await ask("hosts/refresh", {}))[0] == 403


def test_every_handler_is_one_of_ours() -> None:
    assert all(issubclass(handler, Handler) for _, handler in ROUTES)


async def test_our_own_pages_are_answered(site: Site, jp_serverapp: Any) -> None:
    await site.log_in(jp_serverapp.identity_provider.token)
    path = f"{BASE}theseus/api/runs"
    assert await site.status(path) == 403  # it could be any page
    assert await site.status(path, Referer=f"http://{site.host}{BASE}lab") == 200
    assert await site.status(path, **{"X-XSRFToken": site.cookies["_xsrf"]}) == 200
    assert await site.status(f"{path}?_xsrf={site.cookies['_xsrf']}") == 200
    assert await site.status(path, **{"X-XSRFToken": "2|00|00|00"}) == 403
    own = {"Origin": f"http://{site.host}", "X-XSRFToken": site.cookies["_xsrf"]}
    assert await site.status(f"{BASE}theseus/api/hosts/refresh", "POST", **own) == 200
    assert await site.status(f"{BASE}theseus/api/hosts/refresh", "POST") == 403
    # Elsewhere than below the base URL there is nothing of ours.
    assert await site.status("/theseus/api/runs", **own) == 404


HOSTILE = (
    "..", "latest", "made", "abcdef", "ABCDEF12", "abcdef1/../abcdef12", "abcdef12\0", "a" * 300,
    "../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "abcdef12.json", "abcdef12%00", "<script>",
    "٠١٢٣٤٥٦٧",
)  # fmt: skip


async def test_only_ids_of_runs_lead_to_runs(ask: Ask, jp_fetch: Any, sending: Sending) -> None:
    sending.registry.put(entry(state="finished"))
    assert (await ask("runs/abcdef12"))["id"] == "abcdef12"
    for run in HOSTILE:
        quoted = run.replace("%", "%25").replace("/", "%2F")
        for path in ("", "/stream", "/log", "/metrics"):
            with pytest.raises(HTTPClientError) as caught:
                await jp_fetch("theseus/api/runs", f"{quoted}{path}")
            assert caught.value.code in {400, 404}, (run, path)
        for path in ("cancel", "fetch", "resubmit"):
            with pytest.raises(HTTPClientError) as caught:
                await jp_fetch("theseus/api/runs", quoted, path, method="POST", body="{}")
            assert caught.value.code in {400, 404}, (run, path)


async def test_entries_that_are_no_records_are_left_out(ask: Ask, sending: Sending) -> None:
    sending.registry.put(entry(state="finished", name="<script>alert(1)</script>\x1b[31m\n"))
    folder = sending.registry.folder
    (folder / "abcdef13.json").write_text("{")
    (folder / "abcdef14.json").write_text('{"v": 1, "id": "abcdef14"}')
    (folder / "abcdef15.json").write_text('{"v": 9}')
    (folder / "abcdef16.json").mkdir()
    (folder / "secret.json").write_text('{"v": 1}')
    found = await ask("runs")
    assert [one["id"] for one in found["runs"]] == ["abcdef12"]
    assert found["runs"][0]["name"] == "<script>alert(1)</script>\x1b[31m\n"
    for run in ("abcdef13", "abcdef14", "abcdef15", "abcdef16", "secret"):
        assert (await ask(f"runs/{run}"))[0] == 404


async def test_what_a_host_has_written_hides_no_other_run(
    ask: Ask, sending: Sending, stream: Any
) -> None:
    odd: list[Any] = [float("nan"), float("inf"), "x", [], {}, None, -1, {"done": "x"}, "\ud800"]
    odd += [{"done": 1, "total": one, "unit": "steps"} for one in ("x", [1], float("nan"))]
    odd += [{"done": 1, "total": 2, "unit": one} for one in (3, None)]
    odd += [{"step": 1, "value": "x"}, {"step": "x", "value": 1}, {"value": 2}]
    names = ("progress", "elapsed", "since", "latest", "best", "checkpoint", "attempt", "reason")
    for number, value in enumerate(odd):
        status = dict.fromkeys(names, value)
        status["latest"] = {"train/loss": value, "val/loss": 2.0, "other": value}
        made = entry(f"abcdef{number:02}", state="running", status=status, host="gone")
        sending.registry.put(made)
    for number, wrong in enumerate(
        ({"submitted": "x"}, {"name": 3}, {"folder": None}, {"nodes": []}, {"status": "x"})
    ):
        facts: dict[str, Any] = wrong
        sending.registry.put(entry(f"fedcba{number:02}", **facts))
    found = await ask("runs")
    assert {one["id"] for one in found["runs"]} == {f"abcdef{n:02}" for n in range(len(odd))}
    for one in found["runs"]:
        assert (await ask(f"runs/{one['id']}"))["card"]["id"] == one["id"]
        async with stream(f"runs/{one['id']}/stream?curves=1") as seen:
            await seen.until(lambda s: s.of("card"), 10)
    assert (await ask("runs/fedcba00"))[0] == 404


async def test_a_mistake_is_said_as_json_with_what_to_do(ask: Ask, sending: Sending) -> None:
    code, told = await ask("runs/abcdef12")
    assert code == 404
    assert told == {"message": "there is no run 'abcdef12' on this machine", "what_to_do": None}
    sending.registry.put(entry(state="running"))
    code, told = await ask("runs/abcdef12/resubmit", {})
    assert (code, told["what_to_do"]) == (409, "Cancel it first.")
    assert (await ask("runs/abcdef12/log", **{"from": "-1"}))[0] == 400
    assert (await ask("runs/abcdef12/log", rank="../../secret"))[0] == 404
    assert (await ask("runs/abcdef12/stream", rank="../../secret"))[0] == 404
    assert (await ask("runs/abcdef12/stream", log="0:x"))[0] == 400
    assert (await ask("tasks/nothing"))[0] == 404
    assert (await ask("cells/check", {"cell": 3}))[0] == 400
    assert (await ask("cells/hover", {"cell": "", "offset": -1}))[0] == 400
    assert (await ask("recipes/open", [1]))[0] == 400
