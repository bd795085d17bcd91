"""Hosts, as the command line lists, adds and tries them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import typer

from theseus.cli.call import CallError, WorkError
from theseus.cli.options import Asked
from theseus.dispatch.asking import ask_all, last_seen
from theseus.dispatch.inventory import Inventory, load_inventory
from theseus.errors import UserError
from theseus.runs import words


def listed(inventory: Path | None, asked: Asked, *, cached: bool, as_json: bool) -> str:
    """Return the hosts and what is free there."""
    known = load_inventory(inventory)
    if not cached:
        _ask_all(known, asked)
    rows = last_seen(known)
    if as_json:
        return json.dumps(rows, indent=1)
    from theseus._summary import aligned

    table = [
        (
            words.one_line(facts["name"]),
            facts["type"],
            _chips(facts["chips"], facts),
            words.one_line(str(facts.get("reason") or "not asked yet")),
            _age(facts) if cached else "",
        )
        for facts in rows
    ]
    return "\n".join(aligned(table))


def _ask_all(known: Inventory, asked: Asked) -> None:
    from theseus.hardware.resources import Resources

    ask_all(known, Resources(chips=tuple(asked.chips), gpus=asked.gpus))


def _chips(named: Any, facts: dict[str, Any]) -> str:
    total, free = facts.get("total"), facts.get("free")
    if isinstance(total, dict) and total:
        free = free if isinstance(free, dict) else {}
        return ", ".join(
            f"{free.get(chip, 0)} of {count} {words.one_line(str(chip))}"
            for chip, count in total.items()
        )
    return ", ".join(f"{count} {chip}" for chip, count in named.items())


def _age(facts: dict[str, Any]) -> str:
    probed = facts.get("probed")
    if not isinstance(probed, int | float):
        return ""
    return f"{words.duration(max(time.time() - probed, 0))} ago"


def add(
    alias: str,
    inventory: Path | None,
    *,
    name: str | None,
    root: str | None,
    work: str | None,
    log: str | None,
    yes: bool,
) -> str:
    """Look at a host, show the entry, ask, and write it."""
    from theseus.dispatch import introduce
    from theseus.dispatch.inventory import path_to_write

    path = path_to_write(inventory)
    known = load_inventory(path) if path.exists() else None
    _say(f"looking at {alias}")
    try:
        found = introduce.look(alias)
    except UserError as error:
        raise WorkError(str(error)) from error
    given = {"root": root, "work": work, "log": log}
    answers = {}
    for question in introduce.questions(found):
        answer = given.get(question.key)
        if answer is None:
            answer = question.proposed if yes else _ask(question.text, question.proposed)
        answers[question.key] = answer
    folders = introduce.Folders(answers["root"], answers["work"], answers.get("log") or None)
    proposal = introduce.propose(alias, found, folders, name=name, inventory=known)
    for label, text in found.rows():
        _say(f"  {label}: {text}")
    for note in proposal.notes:
        _say(note)
    _say(proposal.text.rstrip("\n"))
    if not yes and not typer.confirm(f"write this to {path}?", default=True, err=True):
        raise WorkError("nothing was written")
    introduce.write_entry(path, proposal)
    return f"wrote '{proposal.host}' to {path}; `theseus hosts test {proposal.host}` tries it"


def _ask(text: str, proposed: str) -> str:
    if not sys.stdin or not sys.stdin.isatty():
        msg = f"say where its {text} go: --root, --work and --log, or --yes for '{proposed}'"
        raise CallError(msg)
    answer: str = typer.prompt(f"folder for {text}", default=proposed, err=True)
    return answer


def test(name: str, inventory: Path | None) -> None:
    """Try the whole way to a host, saying each step as it is done."""
    from theseus.dispatch.trial import rows, try_out, verdict
    from theseus.dispatch.trying import actions

    known = load_inventory(inventory)
    host = known.host(name)
    outcomes = []
    for outcome in try_out(host, actions(host, known, _say)):
        outcomes.append(outcome)
        for mark, title, text in rows([outcome]):
            print("  ".join(part for part in (mark or " ", title, text) if part), flush=True)
    told = verdict(host, outcomes)
    if any(outcome.result == "failed" for outcome in outcomes):
        raise WorkError(told)
    print(told)


def clean(name: str, inventory: Path | None, *, dry_run: bool, yes: bool, as_json: bool) -> str:
    """Show what no run needs on a host, ask, and delete it."""
    from theseus._summary import aligned
    from theseus.cli.remote import as_work
    from theseus.dispatch import cleaning
    from theseus.dispatch.bundle import size_text
    from theseus.dispatch.reaching import reach
    from theseus.dispatch.registry import Registry

    host = load_inventory(inventory).host(name)
    with as_work():
        transport = reach(host)
        lost = [one.id for one in Registry().entries() if one.state == "lost"]
        found = cleaning.survey(host, transport, lost=lost)
    unused = found.unused
    kept = len(found.items) - len(unused)
    total = size_text(sum(one.size for one in unused))
    if not as_json and unused:
        rows = [
            (one.kind, one.name.partition("/")[2][:20], size_text(one.size),
             f"last used {words.duration(one.age)} ago")
            for one in unused
        ]  # fmt: skip
        _say("\n".join(words.one_line(line) for line in aligned(rows)))
    deleted: tuple[cleaning.Item, ...] = ()
    if unused and not dry_run:
        question = f"delete these {len(unused)} ({total}) on {name}?"
        if not yes:
            if as_json or not sys.stdin or not sys.stdin.isatty():
                raise CallError("nobody can be asked here: --yes deletes, --dry-run only shows")
            if not typer.confirm(question, default=False, err=True):
                raise WorkError("nothing was deleted")
        with as_work():
            deleted = cleaning.clean(host, transport, found)
    if as_json:
        return json.dumps(
            {
                "unused": [{"name": one.name, "size": one.size, "age": one.age} for one in unused],
                "needed": [
                    {"name": one.name, "size": one.size, "by": list(one.needed_by)}
                    for one in found.items
                    if one.needed_by
                ],
                "deleted": [one.name for one in deleted],
            },
            indent=1,
        )
    rest = f"; {kept} that runs need stay" if kept else ""
    if not unused:
        return f"nothing on {name} can be deleted{rest}"
    if dry_run:
        return f"{len(unused)} ({total}) could be deleted on {name}{rest}"
    freed = size_text(sum(one.size for one in deleted))
    more = len(unused) - len(deleted)
    late = f"; {more} that a run has come to need stay" if more else ""
    return f"deleted {len(deleted)} ({freed}) on {name}{rest}{late}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
