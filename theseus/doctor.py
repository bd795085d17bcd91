"""What is installed where, what is missing and the fix: `theseus doctor`.

`check` judges gathered facts and asks nobody; `Report` is shown in a terminal, in a notebook and as
JSON.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from theseus._doctor_facts import Facts, HostFacts, Jax, gather
from theseus._summary import aligned, size_text
from theseus.runs.words import one_line

Level = Literal["ok", "note", "broken"]

MARKS: dict[Level, str] = {"ok": "✓", "note": "•", "broken": "✗"}
_WORDS: dict[Level, str] = {"ok": "in order", "note": "to know", "broken": "broken"}

_LITTLE, _TOO_LITTLE = 5 * 1024**3, 512 * 1024**2  # bytes free


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes
    ----------
    what
        The thing.
    level
        `ok`; `note`, where nothing is wrong but something is left out; `broken`.
    found
        What was seen.
    fix
        What to do; empty when there is nothing to do.
    """

    what: str
    level: Level
    found: str
    fix: str = ""


@dataclass(frozen=True)
class Report:
    """All checks, in the order in which they were made."""

    checks: Sequence[Check]

    @property
    def broken(self) -> list[Check]:
        """What does not work as it is."""
        return [one for one in self.checks if one.level == "broken"]

    @property
    def verdict(self) -> str:
        """How it stands, in one line."""
        if self.broken:
            return f"broken: {', '.join(one.what for one in self.broken)}"
        notes = sum(one.level == "note" for one in self.checks)
        return f"all is well{f', {notes} to know' if notes else ''}"

    def __str__(self) -> str:
        rows = []
        for one in self.checks:
            rows.append((MARKS[one.level], one.what, one_line(one.found)))
            if one.fix:
                rows.append(("", "", f"→ {one_line(one.fix)}"))
        return "\n".join([*aligned(rows), self.verdict])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = 'style="text-align:left;vertical-align:top;padding:.15em 1.2em .15em 0"'
        body = "".join(
            f"<tr><td {cell}>{MARKS[one.level]} {_WORDS[one.level]}</td>"
            f'<th scope="row" {cell}>{html.escape(one.what)}</th>'
            f"<td {cell}>{html.escape(one_line(one.found))}"
            + (f"<br>→ {html.escape(one_line(one.fix))}" if one.fix else "")
            + "</td></tr>"
            for one in self.checks
        )
        return (
            f'<div class="theseus-card"><strong>{html.escape(self.verdict)}</strong>'
            f"<table>{body}</table></div>"
        )

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, for `--json`."""
        return {
            "broken": len(self.broken),
            "checks": [
                {"what": one.what, "level": one.level, "found": one.found, "fix": one.fix}
                for one in self.checks
            ],
        }


def diagnose() -> Report:
    """Look at this machine, and say how it stands."""
    return Report(check(gather()))


def check(facts: Facts) -> list[Check]:
    """Judge the facts."""
    return [
        Check("theseus", "ok", f"{facts.version} on Python {facts.python}, in {facts.prefix}"),
        *_packages(facts),
        *_notebook(facts),
        *_jax(facts.jax, facts),
        *_hosts(facts),
        *_disk(facts),
    ]


def _packages(facts: Facts) -> Iterator[Check]:
    for name, (least, version) in facts.unmet.items():
        found = f"{version}, and {least} or newer is needed" if version else "not installed"
        yield Check(name, "broken", found, _pip(facts, f"'{name}>={least}'"))
    if not facts.unmet:
        shown = [f"{name} {version}" for name, version in facts.packages.items() if version]
        yield Check("packages", "ok", ", ".join(shown))


def _pip(facts: Facts, what: str, prefix: str | None = None) -> str:
    python = facts.executable if prefix is None else f"{prefix}/bin/python"
    return f"{python} -m pip install {what}"


def _notebook(facts: Facts) -> Iterator[Check]:
    kernel = facts.packages.get("ipykernel")
    if kernel is None:
        yield Check(
            "kernel",
            "note",
            "ipykernel is not installed here: this Python cannot be a notebook's kernel",
            _pip(facts, "ipykernel"),
        )
    server = facts.server
    if server is None:
        found = (
            "the environment that Jupyter runs in was not found (another machine or user?)"
            if facts.in_kernel
            else "no Jupyter was found on the path"
        )
        fix = "run `theseus doctor` where Jupyter runs" if facts.in_kernel else ""
        yield Check("Jupyter", "note", found, fix or _pip(facts, "jupyterlab"))
        return
    shown = ", ".join(f"{name} {version}" for name, version in server.packages.items())
    if server.prefix == facts.prefix:
        yield Check("Jupyter", "ok", f"in the same environment: {shown}")
    else:
        yield Check(
            "Jupyter",
            "note",
            f"in another environment than this Python, {server.prefix}: {shown}; what shows "
            "widgets must be installed there, everything else here",
        )
    yield from _widgets(facts)


def _widgets(facts: Facts) -> Iterator[Check]:
    server = facts.server
    assert server is not None  # the caller has looked
    here = facts.packages.get("anywidget")
    there = server.extensions.get("anywidget")
    if here and there is None:
        fix = f"{_pip(facts, f'anywidget=={here}', server.prefix)}, then reload the page"
        found = "not installed where Jupyter runs: forms show as plain tables"
        yield Check("anywidget", "broken", found, fix)
    elif here and there and _minor(here) != _minor(there):
        fix = f"{_pip(facts, f'anywidget=={here}', server.prefix)}, then reload the page"
        found = f"{here} in the kernel and {there} where Jupyter runs do not fit together"
        yield Check("anywidget", "broken", found, fix)
    elif here and there:
        yield Check("anywidget", "ok", f"{here}, and {there} for the browser")
    manager = server.extensions.get("@jupyter-widgets/jupyterlab-manager")
    controls = facts.packages.get("ipywidgets")
    if controls and manager is None:
        fix = f"{_pip(facts, 'jupyterlab_widgets', server.prefix)}, then reload the page"
        found = "what shows them is not installed where Jupyter runs"
        yield Check("ipywidgets", "broken", found, fix)
    elif controls and manager and (_major(controls) >= 8) != (_major(manager) >= 5):
        what = "'jupyterlab_widgets>=3'" if _major(controls) >= 8 else "'jupyterlab_widgets<2'"
        fix = f"{_pip(facts, what, server.prefix)}, then reload the page"
        found = f"{controls} in the kernel does not fit the browser's part, {manager}"
        yield Check("ipywidgets", "broken", found, fix)
    elif controls and manager:
        yield Check("ipywidgets", "ok", f"{controls}, and {manager} for the browser")


def _minor(version: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", version)[:2])


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


def _jax(jax: Jax, facts: Facts) -> Iterator[Check]:
    if jax.error:
        fix = _pip(facts, "'theseus-jupyter[cpu]'")
        if facts.jax_platforms:
            fix = f"JAX_PLATFORMS is '{facts.jax_platforms}': unset it, or install what it names"
        yield Check("JAX", "broken", jax.error, fix)
        return
    kinds = {name: list(jax.devices).count(name) for name in dict.fromkeys(jax.devices)}
    shown = ", ".join(f"{count} × {name}" for name, count in kinds.items())
    found = f"{jax.backend}: {shown}"
    if facts.gpus and jax.backend == "cpu":
        gpus = f"{len(facts.gpus)} GPUs ({facts.gpus[0]} …)"
        if "cpu" in facts.jax_platforms:
            yield Check("JAX", "note", f"{found}; JAX_PLATFORMS keeps it from {gpus}")
            return
        yield Check(
            "JAX",
            "broken",
            f"{found}, and this machine has {gpus}",
            _pip(facts, "'theseus-jupyter[cuda13]'")
            + " (driver 580 or newer; cuda12 for an older one)",
        )
        return
    yield Check("JAX", "ok", found)


def _hosts(facts: Facts) -> Iterator[Check]:
    if facts.inventory_error:
        yield Check("inventory", "broken", facts.inventory_error, "mend the file")
        return
    if facts.inventory is None:
        yield Check(
            "inventory",
            "note",
            "none: runs go to this machine alone",
            "theseus hosts add ALIAS, for what `ssh ALIAS` reaches",
        )
        return
    names = ", ".join(f"{host.name} ({host.type})" for host in facts.hosts)
    yield Check("inventory", "ok", f"{facts.inventory}: {names}")
    remote = [host for host in facts.hosts if host.ssh]
    if remote and facts.ssh is None:
        openssh = [host.name for host in remote if host.transport == "openssh"]
        yield Check(
            "ssh",
            "broken" if openssh else "note",
            "the program is not on the path"
            + (f", and {', '.join(openssh)} has `transport: openssh`" if openssh else ""),
            "install OpenSSH's client",
        )
    elif remote:
        yield Check("ssh", "ok", str(facts.ssh))
    for host in remote:
        yield from _host(host)


def _host(host: HostFacts) -> Iterator[Check]:
    if host.lookup:
        yield Check(f"host {host.name}", "broken", host.lookup, "see ~/.ssh/config")
    elif host.key is False:
        yield Check(
            f"host {host.name}",
            "broken",
            "its key is not known yet",
            f"ssh {host.ssh}, once, and compare the fingerprint with its administrator's",
        )
    elif host.key:
        yield Check(f"host {host.name}", "ok", "its key is known; `theseus hosts test` goes there")


def _disk(facts: Facts) -> Iterator[Check]:
    for folder, free in facts.free.items():
        if free is None:
            fix = "change its owner or mode: runs and settings are written there"
            yield Check("folder", "broken", f"{folder} cannot be written", fix)
        elif free < _LITTLE:
            level: Level = "broken" if free < _TOO_LITTLE else "note"
            yield Check("disk", level, f"{size_text(free)} free in {folder}", "make room")
    least = min((free for free in facts.free.values() if free is not None), default=None)
    if least is not None and least >= _LITTLE:
        yield Check("disk", "ok", f"at least {size_text(least)} free")
