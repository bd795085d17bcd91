"""What can be done from the browser, to runs and hosts; the server answers others meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending, is_alive
from tests.dispatch.sending import until as wait_until
from tests.lab.conftest import SECRET, Ask, entry, our_threads, until
from theseus.dispatch.registry import remember_hosts
from theseus.errors import UserError
from theseus.lab.tasks import Task, Tasks
from theseus.quick import QuickJob


async def done(ask: Ask, task: str, seconds: float = 60.0) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while not (told := await ask(f"tasks/{task}"))["done"]:
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    return dict(told)


@pytest.mark.slow
async def test_a_run_is_cancelled_once_and_its_files_are_fetched(
    ask: Ask, sending: Sending, jp_root_dir: Path
) -> None:
    run = await asyncio.to_thread(sending.submit, sending.spec(steps=2000, pause=0.05, child=True))
    await until(lambda: run.state == "running" and "child" in str(run.logs()))
    child = int(str(run.logs()).split("child ")[1].split()[0])
    began = time.monotonic()
    first = await ask(f"runs/{run.id}/cancel", {})
    second = await ask(f"runs/{run.id}/cancel", {})
    assert time.monotonic() - began < 2
    assert first == second  # a double click
    told = await done(ask, first["task"])
    assert (told["error"], told["message"]) == (None, "cancelled on me")
    assert not is_alive(child)
    assert (await ask(f"runs/{run.id}"))["can"] == ["fetch", "resubmit"]

    told = await done(ask, (await ask(f"runs/{run.id}/fetch", {"to": "here/it is"}))["task"])
    assert told["error"] is None
    assert told["result"] == {"path": "here/it is"}
    assert told["progress"]["done"] == told["progress"]["total"] > 0
    assert (jp_root_dir / "here/it is/metrics.jsonl").is_file()
    assert not (jp_root_dir / "here/it is/checkpoints").exists()
    told = await done(ask, (await ask(f"runs/{run.id}/fetch", {"checkpoints": True}))["task"])
    folder = jp_root_dir / told["result"]["path"]
    assert folder.name == Path(run.folder).name
    assert (folder / "checkpoints/step").is_file()

    # Its class is not known to another process, which says so.
    told = await done(ask, (await ask(f"runs/{run.id}/resubmit", {}))["task"])
    assert "no job that is known here" in told["error"]


async def test_files_are_fetched_only_below_the_servers_folder(
    ask: Ask, sending: Sending, jp_root_dir: Path, tmp_path: Path
) -> None:
    sending.registry.put(entry(state="finished"))
    (jp_root_dir / "out").symlink_to(tmp_path)
    for to in ("..", "../x", "a/../../x", "out", "out/x", "/../x", ".ssh", "a/.b"):
        code, told = await ask("runs/abcdef12/fetch", {"to": to})
        assert (code, bool(told["what_to_do"])) == (403, True), to
    for to in (3, ["a"], "a\0b"):
        assert (await ask("runs/abcdef12/fetch", {"to": to}))[0] == 400
    # What a host calls a folder leads nowhere either.
    sending.registry.put(entry(state="finished", folder="/somewhere/.."))
    assert (await ask("runs/abcdef12/fetch", {}))[0] == 403


@pytest.mark.slow
async def test_a_run_of_a_job_of_ours_is_submitted_again(
    ask: Ask, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THESEUS_CONFIG", str(sending.inventory))
    (sending.tmp / "some.txt").write_text("some text\n" * 50)
    recipe = QuickJob(sending.root).build("data/tokenize/text", "tokens")
    recipe.config.data.text.files = [str(sending.tmp / "some.txt")]
    run = await asyncio.to_thread(sending.submit, recipe.spec())
    assert await asyncio.to_thread(run.wait) == "finished"
    before = {name for name in sys.modules if name.partition(".")[0] in {"flax", "optax"}}
    told = await done(ask, (await ask(f"runs/{run.id}/resubmit", {}))["task"])
    assert told["error"] is None
    again = told["result"]["run"]
    assert again != run.id  # another run of what has finished
    assert told["message"] == f"submitted: {again} on me, attempt 1"
    assert {one["id"] for one in (await ask("runs"))["runs"]} == {run.id, again}
    after = {name for name in sys.modules if name.partition(".")[0] in {"flax", "optax"}}
    assert after == before  # what loads a model does so elsewhere
    found = sending.registry.get(again)
    assert found is not None
    await done(ask, (await ask(f"runs/{again}/cancel", {}))["task"])


def test_a_task_that_fails_says_why(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()

    def fail(error: Exception) -> Any:
        def work(_: Task) -> str:
            raise error

        return work

    mistaken = tasks.begin("a", "…", fail(UserError("no such host")))
    broken = tasks.begin("b", "…", fail(ZeroDivisionError("by zero")))
    end = time.monotonic() + 5
    while not (tasks.told(mistaken)["done"] and tasks.told(broken)["done"]):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert tasks.told(mistaken)["error"] == "no such host"
    assert tasks.told(broken)["error"] == "ZeroDivisionError: by zero"
    assert "b failed" in caplog.text


# Hosts


async def test_hosts_are_as_they_were_last_seen(
    ask: Ask, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [one["name"] for one in (await ask("hosts"))["hosts"]] == ["local"]
    sending.write_inventory(host=f"env: {{HF_TOKEN: {SECRET}}}")
    monkeypatch.setenv("THESEUS_CONFIG", str(sending.inventory))
    found = await ask("hosts")
    (host,) = found["hosts"]
    assert (host["name"], host["type"], host.get("probed")) == ("me", "local", None)
    assert found["inventory"] == str(sending.inventory)
    told = await done(ask, (await ask("hosts/refresh", {}))["task"])
    assert told["message"] == "one host was asked"
    found = await ask("hosts")
    assert found["hosts"][0]["fit"] == "now"
    assert found["now"] - found["hosts"][0]["probed"] < 60
    assert SECRET not in json.dumps(found)
    sending.inventory.write_text("hosts: {me: {type: locl}}")
    code, told = await ask("hosts")
    assert code == 400
    assert "did you mean 'local'" in told["message"]


@contextmanager
def silent_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the name of a host that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        config = folder / "ssh_config"
        config.write_text(f"Host silent\n  HostName 127.0.0.1\n  Port {port}\n  ConnectTimeout 2\n")
        monkeypatch.setenv("THESEUS_SSH_CONFIG", str(config))
        yield "silent"


@pytest.mark.slow
async def test_the_server_answers_while_hosts_are_asked_that_do_not_answer(
    ask: Ask, sending: Sending, stream: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with silent_host(tmp_path, monkeypatch) as alias:
        sending.write_inventory(more=f"  silent: {{ssh: {alias}, cluster: here, type: plain}}")
        monkeypatch.setenv("THESEUS_CONFIG", str(sending.inventory))
        sending.registry.put(
            entry(state="running", host="silent", kind="plain", handle={"pid": 1, "boot": "x"})
        )
        remember_hosts([])
        async with stream("events") as seen:
            await seen.until(lambda s: s.of("runs"))
            task = (await ask("hosts/refresh", {}))["task"]
            slowest, asked, end = 0.0, 0, time.monotonic() + 60
            while not (told := await ask(f"tasks/{task}"))["done"]:
                began = time.monotonic()
                assert [one["name"] for one in (await ask("hosts"))["hosts"]] == ["me", "silent"]
                assert [one["id"] for one in (await ask("runs"))["runs"]] == ["abcdef12"]
                slowest, asked = max(slowest, time.monotonic() - began), asked + 1
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            assert asked > 5
            assert slowest < 1.0
            assert told["error"] is None
            fits = {one["name"]: one["fit"] for one in (await ask("hosts"))["hosts"]}
            assert fits == {"me": "now", "silent": "unknown"}

            async def trouble() -> str:
                return str((await ask("runs"))["runs"][0]["connection"])

            while not await trouble():
                assert time.monotonic() < end
                await asyncio.sleep(0.1)
            assert "silent" in await trouble()
            assert (await ask("runs"))["runs"][0]["state"] == "running"  # nobody said otherwise
    await until(lambda: not [name for name in our_threads() if "reader" not in name])


@pytest.mark.slow
async def test_the_doctor_is_asked(ask: Ask) -> None:
    found = await ask("doctor")
    assert found["checks"][0]["what"] == "theseus"
    assert {one["level"] for one in found["checks"]} <= {"ok", "note", "broken"}
    assert found["broken"] == sum(one["level"] == "broken" for one in found["checks"])


# Whole servers


# What compiles a grammar for seconds while it is imported, for nothing that is asked for here.
_START = (
    "import sys; sys.modules['rfc3987_syntax'] = None;"
    "from jupyter_server.serverapp import main; main()"
)


_OTHERS = ("jupyterlab", "jupyter_lsp", "notebook_shim", "jupyter_server_terminals", "notebook")


class Server:
    """A Jupyter server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}/user/x/"
        enabled = {"theseus.lab": True} | dict.fromkeys(_OTHERS, False)
        words = [
            sys.executable, "-c", _START,
            "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0",
            "--IdentityProvider.token=token", "--ServerApp.base_url=/user/x/",
            f"--ServerApp.root_dir={folder}",
            f"--ServerApp.jpserver_extensions={enabled}",
        ]  # fmt: skip
        self.log = folder.parent / f"{folder.name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)

    def get(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": "token token"}
        request = urllib.request.Request(f"{self.base}theseus/api/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return bool(self.get("runs"))
        except urllib.error.URLError:
            return False


@pytest.mark.slow
def test_two_servers_show_one_registry_and_end_at_once(sending: Sending, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    servers = [Server(folder) for folder in folders]
    one, two = servers
    try:
        for server in servers:
            wait_until(server.ready, 60)
        run = sending.submit(sending.spec(steps=2000, pause=0.05))
        assert [len(server.get("runs")["runs"]) for server in servers] == [1, 1]
        opened = urllib.request.Request(
            f"{two.base}theseus/api/runs/{run.id}/stream", headers={"Authorization": "token token"}
        )
        with urllib.request.urlopen(opened, timeout=20) as streaming:
            assert b"stream of theseus" in streaming.readline()
            task = one.get(f"runs/{run.id}/cancel", {})["task"]
            wait_until(lambda: one.get(f"tasks/{task}")["done"])
            wait_until(lambda: two.get(f"runs/{run.id}")["state"] == "cancelled")
            began = time.monotonic()
            two.process.send_signal(signal.SIGTERM)
            assert two.process.wait(20) in {0, -signal.SIGTERM}
            assert time.monotonic() - began < 5
            text = b""
            while block := streaming.read1(65536):
                text += block
            assert b"event: card" in text
        assert "was destroyed but it is pending" not in two.log.read_text()
        assert "Traceback" not in two.log.read_text()
        assert one.get(f"runs/{run.id}")["state"] == "cancelled"
        # What loads a model is done elsewhere, whatever was asked for.
        QuickJob(tmp_path).build("data/tokenize/text", "x").spec().save(folders[0] / "out.yaml")
        cell = one.get("recipes/open", {"path": "out.yaml"})["notebook"]
        assert cell.startswith("%%theseus data/tokenize/text x")
        assert one.get("hosts")["hosts"]
        mapped = Path(f"/proc/{one.process.pid}/maps")
        assert "jaxlib" not in (mapped.read_text() if mapped.exists() else "")
    finally:
        for server in servers:
            server.process.kill()
            server.process.wait()
