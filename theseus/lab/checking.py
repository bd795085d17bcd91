"""Checks of cells that need a job's class, in a process of their own: importing one imports JAX.

The process is started with the first question, answers one line of JSON with another, and ends when
nothing was asked for a while or when its standard input is closed, as it is when the server ends.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

IDLE = 600.0  # seconds after which it ends by itself
_START = 60.0  # seconds for its first answer to a job, which imports JAX
_KEPT = 64  # answers
_LONGEST = 100_000  # characters of a text that is checked


class Checker:
    """Asks the process; one question at a time, the same question once."""

    def __init__(self, idle: float = IDLE) -> None:
        self._idle = idle
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._answers: dict[str, list[dict[str, Any]]] = {}

    @property
    def pid(self) -> int | None:
        """The process that is at work, or None."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def ask(self, job: str, body: str, *, expand: bool = False) -> list[dict[str, Any]]:
        """Return the mistakes of a cell's body as `{"start", "end", "message"}`, in characters.

        None are known of a text that is very long, or where the process does not answer.
        """
        if len(body) > _LONGEST:
            return []
        question = json.dumps({"job": job, "body": body, "expand": expand})
        with self._lock:
            if question not in self._answers:
                answer = self._answer(question)
                if answer is None:
                    return []
                while len(self._answers) >= _KEPT:
                    self._answers.pop(next(iter(self._answers)))
                self._answers[question] = answer
            return self._answers[question]

    def close(self) -> None:
        """End the process, also in the midst of an answer."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _answer(self, question: str) -> list[dict[str, Any]] | None:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = _started(self._idle)
        assert process.stdin is not None
        assert process.stdout is not None
        # A text may be made so that reading it takes for ever: `*a` of `*b` of `*c` …
        clock = threading.Timer(_START, process.kill)
        clock.daemon = True
        clock.start()
        try:
            process.stdin.write(question + "\n")
            process.stdin.flush()
            found: list[dict[str, Any]] = json.loads(process.stdout.readline())
        except (OSError, ValueError):  # it has ended, and with it what it would have said
            process.kill()
            process.wait()
            return None
        finally:
            clock.cancel()
        return found


def _started(idle: float) -> subprocess.Popen[str]:
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "theseus.lab.checking", str(idle)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        # No device is touched, whatever the server was told to use.
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
    )


# In the other process


def mistakes(job: str, body: str, *, expand: bool) -> list[dict[str, Any]]:
    """Return what is wrong in a body, as configuration itself finds it."""
    from theseus import registry
    from theseus.config import build
    from theseus.notebook.cell import check

    configs: Any = getattr(registry.find("job", job), "configs", None)
    found = check(build(*configs()), body, expand=expand)
    return [{"start": one.start, "end": one.end, "message": one.message} for one in found]


def main(idle: float) -> None:
    """Answer questions until there are no more, or none for `idle` seconds."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever an import prints is no answer
    with os.fdopen(0, "rb", buffering=0, closefd=False) as questions:
        kept = b""
        while select.select([questions], [], [], idle)[0]:
            part = questions.read(1 << 16)
            if not part:
                return
            kept += part
            while b"\n" in kept:
                line, kept = kept.split(b"\n", 1)
                asked = json.loads(line)
                try:
                    found = mistakes(asked["job"], asked["body"], expand=asked["expand"])
                except Exception as error:  # noqa: BLE001 - one hostile text must not end it
                    sys.stderr.write(f"{type(error).__name__}: {error}\n")
                    found = []
                answers.write(json.dumps(found) + "\n")
                answers.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
