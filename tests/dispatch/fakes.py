"""Small programs and a shell for tests: what a host would answer, without a host."""

import json
import os
import sys
from pathlib import Path

from theseus.dispatch.transport import shell as transport
from theseus.dispatch.transport.framing import COMMAND
from theseus.dispatch.transport.local import LocalConnection
from theseus.dispatch.transport.process import ChildProcess

NVIDIA_SMI = r"""#!/bin/sh
# Prints what lies in its folder; `delay` in it makes it slow.
state=${FAKE_NVIDIA_SMI:?}
[ ! -f "$state/delay" ] || sleep "$(cat "$state/delay")"
case $* in
*mig.mode.current*)
  if [ -f "$state/old" ]; then
    echo 'Field "mig.mode.current" is not a valid field to query.'
    exit 2
  fi
  cat "$state/gpus" ;;
*--query-gpu*) cut -d, -f1-6 "$state/gpus" ;;
*--query-compute-apps*) [ ! -f "$state/processes" ] || cat "$state/processes" ;;
esac
exit "$(cat "$state/status" 2>/dev/null || echo 0)"
"""


class Shell(transport.Shell):
    """This machine by the real local transport, with an environment of its own."""

    def __init__(self, *before: str, **environment: str) -> None:
        pairs = [f"{name}={value}" for name, value in environment.items()]
        command = [*before, "/usr/bin/env", *pairs, *COMMAND]
        super().__init__("here", lambda timeout: _Local(command))


class _Local(LocalConnection):
    def __init__(self, command: list[str]) -> None:
        self._command = command

    def start(self, timeout: float) -> ChildProcess:
        return ChildProcess(self._command)


def program(folder: Path, name: str, text: str) -> Path:
    """Put a program on a PATH folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


class Gpus:
    """A fake `nvidia-smi` and the GPUs that it shows."""

    def __init__(self, folder: Path, product: str = "NVIDIA H100 80GB HBM3", count: int = 4):
        self.bin, self.state = folder / "bin", folder / "gpus"
        self.state.mkdir(parents=True)
        program(self.bin, "nvidia-smi", NVIDIA_SMI)
        self.rows = [
            f"{i}, GPU-{i}, {product}, 81559, 4, 0, Disabled, Disabled" for i in range(count)
        ]
        self.show()

    def show(self, *rows: str) -> None:
        """Let it print these rows in place of idle GPUs."""
        (self.state / "gpus").write_text("".join(f"{row}\n" for row in rows or self.rows))

    def processes(self, *rows: str) -> None:
        (self.state / "processes").write_text("".join(f"{row}\n" for row in rows))

    def shell(self, *before: str, **more: str) -> Shell:
        path = f"{self.bin}:{os.environ['PATH']}"
        return Shell(*before, PATH=path, FAKE_NVIDIA_SMI=str(self.state), **more)


KUBECTL = r'''#!{python}
"""Keeps things as files `KIND.NAME` in its folder; what lies in `fail.VERB` is said instead."""
import json, os, pathlib, sys
state = pathlib.Path({state!r})
(state / "calls").open("a").write(json.dumps(sys.argv[1:]) + "\n")
words = [word for word in sys.argv[1:] if not word.startswith("-")]
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
verb = words[0]

def complain(text):
    print(text, file=sys.stderr)
    raise SystemExit(1)

def said(name):
    fault = state / ("fail." + name)
    if fault.exists():
        complain(fault.read_text())

said(verb)
if verb == "create":
    made = json.load(sys.stdin)
    kind = "pod" if made["kind"] == "Pod" else "jobs.batch.volcano.sh"
    path = state / (kind + "." + made["metadata"]["name"])
    if path.exists():
        complain('Error from server (AlreadyExists): error when creating "STDIN": already exists')
    if kind == "pod":
        made["status"] = {{"phase": "Running"}}
    path.write_text(json.dumps(made))
    said("after-create")
    print("created")
elif verb == "get" and words[1] == "pods":
    path = state / "pods"
    print(path.read_text() if path.exists() else ('{{"items": []}}' if options["output"] == "json" else ""))
elif verb in ("get", "delete"):
    said(verb + "." + words[1])
    path = state / (words[1] + "." + words[2])
    if not path.exists():
        if "ignore-not-found" in options:
            raise SystemExit
        complain('Error from server (NotFound): %s "%s" not found' % (words[1], words[2]))
    if verb == "delete":
        path.unlink()
    print(path.read_text() if verb == "get" else "deleted")
elif verb == "exec":
    after = sys.argv.index("--")
    os.execv("/bin/sh", sys.argv[after + 1:])
'''


class Kubectl:
    """A fake `kubectl` on PATH and the cluster that it shows."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.state = folder / "cluster"
        self.state.mkdir(parents=True)
        text = KUBECTL.format(python=sys.executable, state=str(self.state))
        program(folder / "kubectl-bin", "kubectl", text)
        monkeypatch.setenv("PATH", f"{folder}/kubectl-bin:{os.environ['PATH']}")

    def put(self, name: str, value: object) -> None:
        self.state.joinpath(name).write_text(value if isinstance(value, str) else json.dumps(value))

    def drop(self, name: str) -> None:
        self.state.joinpath(name).unlink()

    def jobs(self) -> list[str]:
        return sorted(path.name for path in self.state.glob("jobs.batch.volcano.sh.*"))

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.state / "calls").read_text().splitlines()]
