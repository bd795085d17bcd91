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
from theseus.dispatch.inventory import Inventory, load_inventory
from theseus.dispatch.registry import recalled_hosts, remember_hosts
from theseus.errors import UserError
from theseus.runs import words


def listed(inventory: Path | None, asked: Asked, *, cached: bool, as_json: bool) -> str:
    """Return the hosts and what is free there."""
    known = load_inventory(inventory)
    if not cached:
        _ask_all(known, asked)
    seen = recalled_hosts()
    rows = [(name, known.hosts[name], seen.get(name, {})) for name in known.priority]
    if as_json:
        return json.dumps(
            [
                {"name": name, "type": host.type, "cluster": host.cluster.name,
                 "chips": dict(host.chips), **facts}
                for name, host, facts in rows
            ],
            indent=1,
        )  # fmt: skip
    from theseus._summary import aligned

    table = [
        (
            words.one_line(name),
            host.type,
            _chips(host.chips, facts),
            words.one_line(str(facts.get("reason") or "not asked yet")),
            _age(facts) if cached else "",
        )
        for name, host, facts in rows
    ]
    return "\n".join(aligned(table))


def _ask_all(known: Inventory, asked: Asked) -> None:
    from theseus.dispatch.reaching import reach
    from theseus.dispatch.solve import solve
    from theseus.hardware.resources import Resources

    wanted = Resources(chips=tuple(asked.chips), gpus=asked.gpus)
    remember_hosts(solve(known, wanted, connect=reach).verdicts)


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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
