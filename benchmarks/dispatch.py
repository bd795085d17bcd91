"""What sending and watching a run costs, over a real sshd on loopback.

    python -m benchmarks.dispatch [PAIRS]

Prints, as medians:

* submit to the job's first line on a warm host (its environment and unchanged code are there), from
  Python and from a terminal, the number of remote commands, and the ratio to seven bare `ssh host
  true` of the same machine;
* solving with 12 hosts of which 2 are dead, against the slowest host that answers;
* following a log: megabytes per second, seconds until a new byte is shown, CPU while it is idle;
* how long the commands that should begin at once take.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services.sshd import SshWorld, ssh_world
from theseus.dispatch import DispatchedRun, submit, transport
from theseus.dispatch.inventory import load_inventory
from theseus.dispatch.logs import Piece, follow
from theseus.dispatch.reaching import reach
from theseus.dispatch.solve import solve
from theseus.dispatch.transport.shell import Shell
from theseus.dispatch.worker.trial_job import Trial
from theseus.hardware.resources import Resources
from theseus.quick import QuickJob

MEGABYTES = 256


def main() -> None:
    """Measure, and print as it comes."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory(prefix="theseus-benchmark-") as folder, ssh_world() as world:
        place = Path(folder)
        os.environ |= {
            "XDG_STATE_HOME": folder,
            "THESEUS_SSH_CONFIG": str(world.config),
            "JAX_PLATFORMS": "cpu",
        }
        inventory = write_inventory(place, 10)
        project = place / "project"
        project.mkdir()
        (project / "main.py").write_text("")
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        os.chdir(project)
        sending(inventory, world, pairs)
        solving(inventory, pairs)
        logs(inventory, place)
        commands(inventory, place, pairs)
        transport.close_all()


def write_inventory(place: Path, living: int) -> Path:
    """Write an inventory of hosts that are this machine, and two that are nowhere."""
    hosts = "".join(
        f"  host{number}: {{ssh: box, cluster: here, type: plain, python: {sys.executable}}}\n"
        for number in range(living)
    )
    dead = "".join(
        f"  dead{number}: {{ssh: dead{number}, cluster: here, type: plain}}\n" for number in (1, 2)
    )
    path = place / "hosts.yaml"
    path.write_text(
        f"clusters:\n  here: {{root: {place}/root, work: {place}/work, log: {place}/log}}\n"
        f"hosts:\n{hosts}{dead}"
    )
    return path


def recipe(name: str) -> Any:
    return QuickJob("/nowhere").build(Trial, name).spec()


def sending(inventory: Path, world: SshWorld, pairs: int) -> None:
    """From `submit` to the first line of the log, on a host that has everything already."""
    run = submit(recipe("cold"), inventory=inventory, hosts=["host0"])
    run.wait(120)
    python, terminal, bare, counts = [], [], [], []
    for number in range(pairs):
        began = time.perf_counter()
        with counted() as count:
            run = submit(recipe(f"warm {number}"), inventory=inventory, hosts=["host0"])
        returned = time.perf_counter() - began
        first_line(run)
        python.append((returned, time.perf_counter() - began))
        counts.append(len(count))
        run.wait(120)

        recipe(f"terminal {number}").save("out.yaml")
        words = ["submit", f"terminal {number}", "out.yaml", "-d", str(inventory)]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "theseus", *words, "--host", "host0", "--json"],
            check=True, capture_output=True,
        )  # fmt: skip
        run = DispatchedRun.find(f"terminal {number}")
        first_line(run)
        terminal.append(time.perf_counter() - began)
        run.wait(120)

        began = time.perf_counter()
        for _ in range(7):
            subprocess.run(["ssh", "-F", str(world.config), "box", "true"], check=True)
        bare.append(time.perf_counter() - began)
    returned, first = (statistics.median(column) for column in zip(*python, strict=True))
    ssh = statistics.median(bare)
    print(f"submit returns after           {returned:.2f} s")
    print(f"first line of the log after    {first:.2f} s ({first / ssh:.1f} × seven bare ssh)")
    print(f"first line, from a terminal    {statistics.median(terminal):.2f} s")
    print(f"remote commands                {max(counts)}", flush=True)


def first_line(run: Any) -> None:
    """Wait for what the job itself writes first, not for the worker's word that it begins."""
    text = ""
    for piece in run.logs(follow=True):
        text += piece
        if "opened" in text:
            return


@contextmanager
def counted() -> Iterator[list[str]]:
    """Count the programs that are started on hosts."""
    programs: list[str] = []
    before = Shell.session

    def session(self: Shell, program: str, *rest: Any) -> Any:
        programs.append(program)
        return before(self, program, *rest)

    Shell.session = session  # type: ignore[method-assign]
    try:
        yield programs
    finally:
        Shell.session = before  # type: ignore[method-assign]


def solving(inventory: Path, pairs: int) -> None:
    """Ask 12 hosts, of which 2 are dead, and the living ones alone."""
    config = Path(os.environ["THESEUS_SSH_CONFIG"])
    text = config.read_text()
    dead = "".join(
        f"Host dead{number}\n  HostName 192.0.2.{number}\n  ConnectTimeout 20\n"
        for number in (1, 2)
    )
    config.write_text(dead + text)
    known = load_inventory(inventory)
    ratios = []
    for _ in range(pairs):
        transport.close_all()
        living = [name for name in known.priority if name.startswith("host")]
        began = time.perf_counter()
        solve(known, Resources(), hosts=living, connect=reach)
        slowest = time.perf_counter() - began
        transport.close_all()
        began = time.perf_counter()
        found = solve(known, Resources(), connect=reach)
        ratios.append((time.perf_counter() - began) / slowest)
        assert found.chosen is not None
    config.write_text(text)
    print(
        f"solve, 2 of 12 hosts dead      {statistics.median(ratios):.2f} × the living alone",
        flush=True,
    )


def logs(inventory: Path, place: Path) -> None:
    """Follow a log of many megabytes, then one to which a byte is added now and then."""
    host = load_inventory(inventory).host("host0")
    big = place / "big.log"
    line = b"x" * 127 + b"\n"
    big.write_bytes(line * (MEGABYTES * 2**20 // len(line)))
    began = time.perf_counter()
    read = sum(
        len(event.data)
        for event in follow(reach(host), {"0": str(big)}, place / "copy", once=True)
        if isinstance(event, Piece)
    )
    assert read == big.stat().st_size
    print(f"log follow                     {read / 1e6 / (time.perf_counter() - began):.0f} MB/s")

    small, stop = place / "small.log", threading.Event()
    small.write_bytes(b"")
    shown: list[tuple[bytes, float]] = []

    def read_along() -> None:
        for event in follow(reach(host), {"0": str(small)}, place / "other", stop=stop):
            if isinstance(event, Piece):
                shown.append((event.data, time.perf_counter()))

    thread = threading.Thread(target=read_along)
    thread.start()
    time.sleep(1)
    delays = []
    with small.open("ab", buffering=0) as file:
        for _ in range(20):
            time.sleep(0.31)
            written = time.perf_counter()
            count = len(shown)
            file.write(b"a\n")
            while len(shown) == count:
                time.sleep(0.002)
            delays.append(shown[-1][1] - written)
    print(
        f"a new byte is shown after      {max(delays):.2f} s at most, {statistics.median(delays):.2f} s"
    )
    used, began = time.process_time(), time.perf_counter()
    time.sleep(10)
    idle = (time.process_time() - used) / (time.perf_counter() - began)
    stop.set()
    thread.join()
    print(f"CPU here while it is idle      {100 * idle:.1f} %", flush=True)


def commands(inventory: Path, place: Path, pairs: int) -> None:
    """Start the commands that should begin at once."""
    from theseus.config import load  # the tutorial's model, whose fields must be read

    q = QuickJob(place / "root").build("gpt/train/pretrain", "train-gpt")
    load(q.config, {"architecture": {"n_embd": 128}})
    q.save(place / "gpt.yaml")
    words: dict[str, list[str]] = {
        "jobs": ["jobs"],
        "--help": ["--help"],
        "runs": ["runs"],
        "status": ["status", "warm 0"],
        "hosts --cached": ["hosts", "--cached", "-d", str(inventory)],
        "configure": ["configure", "gpt/train/pretrain", "c.yaml", "--force"],
        "submit --dry-run": ["submit", "x", str(place / "gpt.yaml"), "-d", str(inventory), "--dry-run"],
    }  # fmt: skip
    for name, call in words.items():
        print(f"theseus {name:<22} {timed(call, pairs):.2f} s", flush=True)


def timed(words: list[str], pairs: int) -> float:
    def once() -> float:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "theseus", *words], check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - began

    return statistics.median(once() for _ in range(pairs))


if __name__ == "__main__":
    main()
