"""The commands about theseus itself: help, what Tab offers, and whether all is well."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from theseus.cli.call import CallError, WorkError, is_presented, present

app = typer.Typer()


@app.command(name="help")
def help_(
    context: typer.Context,
    commands: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Of which; all when left out.")
    ] = None,
) -> None:
    """Show what can be written, for all commands or for one."""
    from theseus.cli.call import call
    from theseus.errors import did_you_mean

    top = context.find_root()
    known = getattr(top.command, "commands", {})
    words = commands or []
    if words and words[0] not in known:
        msg = f"there is no command '{words[0]}'{did_you_mean(words[0], known)}"
        raise CallError(msg)
    call([*words, "--help"], prog=top.info_name or "theseus")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what is installed where, what is missing, and the fix."""
    import json

    from theseus.doctor import diagnose

    report = diagnose()
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=1))
    else:
        present(report)
    # In a notebook the table says it all; a red block below it would say it again.
    if report.broken and not is_presented():
        raise WorkError(report.verdict)


@app.command(
    hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
def complete(context: typer.Context) -> None:
    """Say what can be written at the cursor, as bash's `complete -o nospace -C` asks for it."""
    from theseus.completion import complete_command

    line = os.environ.get("COMP_LINE", "")
    # Bash counts bytes.
    before = os.fsencode(line)[: int(os.environ.get("COMP_POINT") or len(os.fsencode(line)))]
    text = os.fsdecode(before)
    word = context.args[1] if len(context.args) > 1 else ""
    for one in complete_command(text, len(text)):
        # What bash replaces may be less than what we do: to it, a word begins after `=` and `:`.
        kept = max(one.end - one.start - len(word), 0)
        typer.echo(one.text[kept:] + ("" if one.text.endswith(("=", "/")) else " "))
