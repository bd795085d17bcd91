"""Runs that work elsewhere, as the command line asks for them and shows them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theseus.cli.call import WorkError
from theseus.cli.options import Asked
from theseus.dispatch.registry import ENDED, Entry, Registry
from theseus.errors import UserError
from theseus.runs import words

if TYPE_CHECKING:
    from theseus.combobulation import Combobulation
    from theseus.dispatch.dispatched import DispatchedRun

_WEEK = 7 * 86400
_TAIL = 20  # lines of a log with which watching begins


# Submitting


def recipe(
    file: Path,
    assignments: Sequence[str],
    name: str,
    project: str | None,
    group: str | None,
    asked: Asked,
) -> Combobulation:
    """Return the recipe in a file, with what the call changes."""
    from dataclasses import replace

    from theseus.combobulation import Combobulation

    spec = asked.applied(Combobulation.load(file).named(name, project, group))
    if assignments:
        from theseus.config import override, to_plain

        # The class must be known to know its keys: here code that came with the file is run.
        if spec.job.travelling is not None:
            msg = (
                "this recipe brings its class along, which is loaded only where it runs, so its "
                "keys cannot be set here; set them in the notebook, or in the file"
            )
            raise UserError(msg)
        opened = spec.quick(Path("/nowhere"))
        override(opened.config, assignments)
        spec = replace(spec, values=to_plain(opened.config))
    return spec


def submit(
    spec: Combobulation,
    inventory: Path | None,
    hosts: Sequence[str] | None,
    limit: str | None,
    *,
    fresh: bool,
    quiet: bool,
) -> DispatchedRun:
    """Send a recipe, telling on the error stream what happens."""
    from theseus.dispatch.submission import submit as send

    meter = None if quiet else Meter("sending")
    try:
        with as_work():
            return send(
                spec,
                inventory=inventory,
                hosts=hosts or None,
                fresh=fresh,
                tell=None if quiet else tell,
                progress=meter,
                **_limit(limit),
            )
    finally:
        if meter:
            meter.close()


def _limit(limit: str | None) -> dict[str, Any]:
    from theseus.hardware.resources import parse_size

    return {} if limit is None else {"limit": parse_size(limit)}


def submitted(run: DispatchedRun, *, as_json: bool) -> str:
    """Return what is said about a run that was just submitted."""
    entry = run.entry
    if as_json:
        return json.dumps(entry.plain())
    name = words.one_line(entry.name)
    return (
        f"{_line(entry)}\n"
        f"  folder  {words.one_line(entry.folder)}\n"
        f"  log     theseus logs {entry.id} -f{_remark(name, entry)}"
    )


def _remark(name: str, entry: Entry) -> str:
    return f"    ({name}, attempt {entry.attempt})" if entry.attempt > 1 else ""


def dry_run(
    spec: Combobulation,
    inventory: Path | None,
    hosts: Sequence[str] | None,
    limit: str | None,
    *,
    as_json: bool,
) -> str:
    """Return what would be sent where, and what of it fits; no host is asked."""
    from theseus import sizing
    from theseus.dispatch.rehearsal import rehearse

    told = rehearse(spec, inventory=inventory, hosts=hosts or None, **_limit(limit))
    if as_json:
        return json.dumps({**told.plain(), "memory": sizing.plain(spec)}, indent=1)
    needs = sizing.told(spec)
    return f"{told}\n\n{needs}" if needs else str(told)


# Watching


def runs(*, refresh: bool, everything: bool, as_json: bool) -> str:
    """Return the list of runs, the newest first."""
    entries = Registry().entries()
    if refresh:
        entries = _refreshed(entries)
    if not everything:
        recent = time.time() - _WEEK
        entries = [one for one in entries if not one.ended or one.submitted > recent]
    if as_json:
        return json.dumps([one.plain() for one in entries], indent=1)
    if not entries:
        return "no run was submitted from this machine in the last week (`theseus runs --all`)"
    from theseus._summary import aligned

    rows = [
        (
            f"{_shape(one)} {one.state}",
            one.id,
            words.clipped(words.one_line(one.name), 40),
            words.one_line(one.host),
            one.chips,
            _position(one),
            f"{words.duration(max(time.time() - one.submitted, 0))} ago",
        )
        for one in entries
    ]
    return "\n".join(aligned(rows))


def _refreshed(entries: Sequence[Entry]) -> list[Entry]:
    """Ask all hosts at once about the runs that have not ended."""
    from concurrent.futures import ThreadPoolExecutor

    from theseus.dispatch.dispatched import DispatchedRun

    def asked(entry: Entry) -> Entry:
        if entry.ended and entry.state != "lost":
            return entry
        run = DispatchedRun(entry)
        state = run.look()
        if state.word == "unknown":
            tell(f"{words.one_line(entry.name)} ({entry.id}): {state}")
        return run.entry

    with ThreadPoolExecutor(max_workers=16) as pool:
        return list(pool.map(asked, entries))


def status(word: str, *, as_json: bool) -> str:
    """Return where a run stands."""
    from theseus.dispatch.dispatched import DispatchedRun

    run = DispatchedRun.find(word)
    state = run.look()
    entry = run.entry
    if as_json:
        return json.dumps({**entry.plain(), "state": state.word, "reason": state.reason})
    lines = [_line(entry, str(state))]
    lines += [f"  {line}" for line in (*_facts(run), f"folder  {words.one_line(entry.folder)}")]
    return "\n".join(lines)


def _facts(run: DispatchedRun) -> list[str]:
    summary = run.summary()
    parts = [summary.position]
    for fact in summary.facts():
        parts.append(fact.value if fact.label == "speed" else f"{fact.label} {fact.value}")
    parts.append(summary.remaining)
    line = "  ".join(part for part in parts if part)
    return [line] if line else []


def logs(word: str, *, follow: bool, rank: int | None, tail: int | None) -> None:
    """Write the log of a run to the output, as bytes.

    Raises
    ------
    WorkError
        When it was followed to its end, and that was no good one.
    """
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.logs import LogText, Notice

    run = DispatchedRun.find(word)
    out = getattr(sys.stdout, "buffer", None)
    text = LogText()
    log = run.logs(follow, rank=rank, tail=tail, tell=tell)
    try:
        with as_work():
            if len(log.ranks) > 1:
                for shown in log:
                    print(shown, end="", flush=True)
            for event in () if len(log.ranks) > 1 else log.events():
                if isinstance(event, Notice):
                    tell(event.text)
                elif out is not None:
                    out.write(event.data)
                    out.flush()
                else:  # a notebook's stream takes text alone
                    sys.stdout.write(text.feed(event))
    except KeyboardInterrupt:
        tell(f"the run goes on; `theseus logs {run.id} -f` shows the rest")
        return
    entry = run.entry
    if not follow:
        return
    tell(_line(entry, f"{entry.state}{f': {entry.reason}' if entry.reason else ''}"))
    if entry.ended and entry.state != "finished":
        msg = f"'{entry.name}' ({entry.id}) {entry.state}{f': {entry.reason}' if entry.reason else ''}"
        raise WorkError(msg)


CARDS = "theseus.notebook.run_card:watch"


def watch(names: Sequence[str]) -> None:
    """Show runs and follow their logs; in a notebook, show a card for each."""
    from theseus.cli.call import is_presented

    if is_presented():
        import importlib  # by name: a notebook knows the command line, which does not know it

        module, function = CARDS.split(":")
        getattr(importlib.import_module(module), function)(names)
        return
    for word in names:
        print(status(word, as_json=False), flush=True)
    if len(names) == 1:
        logs(names[0], follow=True, rank=None, tail=_TAIL)
    else:
        several_logs(names, follow=True, rank=None, tail=_TAIL)


def several_logs(names: Sequence[str], *, follow: bool, rank: int | None, tail: int | None) -> None:
    """Write the logs of several runs as they come, line by line, each with its run's name."""
    import threading

    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.logs import merged

    stop = threading.Event()
    chosen = [DispatchedRun.find(word) for word in names]
    width = max(len(run.name) for run in chosen)
    labels = {run.id: words.one_line(run.name).ljust(width) for run in chosen}

    def lines(run: DispatchedRun) -> Iterator[str]:
        rest = ""
        for text in run.logs(follow, rank=rank, tail=tail, stop=stop, tell=tell):
            *whole, rest = (rest + text).split("\n")
            yield from (f"{labels[run.id]} | {line}" for line in whole)
        if rest:
            yield f"{labels[run.id]} | {rest}"

    with as_work():
        try:
            together: Any = merged  # of any events
            for line in together([lines(run) for run in chosen], stop):
                print(line, flush=True)
        except KeyboardInterrupt:
            tell("the runs go on")


def cancel(word: str, *, as_json: bool) -> str:
    """End a run, and return how it ended."""
    from theseus.dispatch.dispatched import DispatchedRun

    run = DispatchedRun.find(word)
    with as_work():
        state = run.cancel(tell=tell)
    return json.dumps(run.entry.plain()) if as_json else _line(run.entry, state)


def fetch(word: str, to: Path | None, *, checkpoints: bool, as_json: bool) -> str:
    """Bring a run's folder here, and return where it is."""
    from theseus.dispatch.dispatched import DispatchedRun

    run = DispatchedRun.find(word)
    meter = None if as_json else Meter("fetching")
    try:
        with as_work():
            folder = run.fetch(to, checkpoints=checkpoints, progress=meter)
    finally:
        if meter:
            meter.close()
    return json.dumps({"id": run.id, "folder": str(folder)}) if as_json else str(folder)


# How it is said


@contextmanager
def as_work() -> Iterator[None]:
    """Turn what a host has against a call into work that failed: the call itself was right."""
    try:
        yield
    except UserError as error:
        from theseus.dispatch.dispatched import DispatchError
        from theseus.dispatch.fetching import FetchError
        from theseus.dispatch.providers.base import LaunchError
        from theseus.dispatch.remote import RemoteError
        from theseus.dispatch.submission import NoHostError
        from theseus.dispatch.transport.base import RemoteFileError, TransportError

        others = (DispatchError, FetchError, LaunchError, NoHostError, RemoteError, RemoteFileError)
        if isinstance(error, (TransportError, *others)):
            raise WorkError(str(error)) from error
        raise


def tell(line: str) -> None:
    """Say something that is no part of the answer."""
    print(line, file=sys.stderr, flush=True)


class Meter:
    """How much has been sent: one line that moves on a terminal, nothing elsewhere."""

    def __init__(self, what: str) -> None:
        self._what, self._shown = what, 0.0
        self._moves = bool(getattr(sys.stderr, "isatty", lambda: False)())
        self._open = False

    def __call__(self, done: int, total: int | None) -> None:
        """Show that so many bytes of so many are done."""
        now = time.monotonic()
        if not self._moves or (now - self._shown < 0.1 and done != total):
            return
        from theseus.dispatch.bundle import size_text

        self._shown, self._open = now, True
        whole = f" of {size_text(total)}" if total else ""
        sys.stderr.write(f"\r\x1b[K{self._what} {size_text(done)}{whole}")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._open:
            sys.stderr.write("\n")
            self._open = False


def _shape(entry: Entry) -> str:
    from theseus.runs.summary import SHAPES

    return SHAPES.get(entry.state, "•")


def _line(entry: Entry, state: str | None = None) -> str:
    chips = f" ({entry.chips})" if entry.chips not in {"", "cpu"} else ""
    name = words.one_line(entry.name)
    return f"{_shape(entry)} {name} {entry.id}  {words.one_line(state or entry.state)} on {words.one_line(entry.host)}{chips}"


def _position(entry: Entry) -> str:
    progress = entry.status.get("progress")
    if not isinstance(progress, dict) or entry.state not in {"running", *ENDED}:
        return words.clipped(words.one_line(entry.reason or ""), 40)
    done, total, unit = progress.get("done"), progress.get("total"), progress.get("unit")
    if not isinstance(done, int | float):
        return ""
    whole = f"/{words.count(total)}" if isinstance(total, int | float) else ""
    return f"{words.count(done)}{whole} {words.one_line(str(unit or ''))}"
