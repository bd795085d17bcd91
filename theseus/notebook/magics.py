"""`%theseus` and `%%theseus`: the command line and the recipe as magics.

Loading them imports nothing else; what reads the words is imported when a magic is first used.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from theseus.errors import UserError
from theseus.notebook import mistakes, panel, threads
from theseus.notebook.mistakes import Written

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from theseus.cli.cell import CellCall
    from theseus.combobulation import Combobulation
    from theseus.quick import QuickJob

# A `%%` that is not on the first line of its cell reaches IPython as a line magic of this name.
_MISPLACED = "%theseus"


class MagicError(UserError):
    """A magic was written in a way that it cannot be read."""


@magics_class
class TheseusMagics(Magics):
    """The magics of theseus in one shell."""

    _root: Path | None = None

    @no_var_expand
    @line_cell_magic
    def theseus(self, line: str, cell: str | None = None) -> None:
        """Do what the command `theseus` does, or build a job from a cell.

        %theseus jobs [-v] [JOB]          list the jobs, with -v their configuration keys
        %theseus configure JOB FILE       write the recipe of a job to a file
        %theseus run NAME FILE ROOT       run the recipe in a file, here and now
        %theseus submit NAME FILE         send it to the first host that fits
        %theseus runs                     list the runs that were sent away
        %theseus status RUN               say where one stands
        %theseus watch RUN                show one while it works
        %theseus logs RUN -f              follow the log of one
        %theseus fetch RUN                bring its records, log and results here
        %theseus cancel RUN               end it
        %theseus hosts [add|test]         the machines, and what is free there
        %theseus doctor                   say what is missing here, and the fix
        %theseus help [COMMAND]           all options, as in a terminal

        %%theseus JOB NAME [--root FOLDER] [--chip CHIP --gpus N] [--run | --submit]
        architecture: {n_embd: 128}
        training.tokens: 32_768

        builds the job from the YAML, binds it to `q` and shows it; `%%theseus --help` has all
        options. Words are split as in a shell. Nothing is expanded: `$x`, `${a.b}` and `{a: 1}`
        arrive as written. With --expand, `${{x}}` below is the value of the Python expression x.
        """
        written = Written.of("%theseus" if cell is None else "%%theseus", line, self._typed())
        with mistakes.shown(written):
            words = _words(line)
        if cell is None:
            # What the command `run` runs is the user's own code: its errors are shown as they are.
            with mistakes.shown(written, faults=words[:1] != ["run"]):
                self._call(words)
            return
        with mistakes.shown(written):
            asked = self._read(words)
        if asked is None:
            return
        with mistakes.shown(written):
            recipe, spec = self._build(asked, cell)
            panel.show(recipe, spec)
        with mistakes.shown(faults=not asked.run):
            if asked.run:
                recipe.create()()
            elif asked.submit or asked.dry_run:
                self._send(spec, dry=asked.dry_run)

    def misplaced(self, line: str) -> None:
        """Explain where `%%theseus` goes."""
        with mistakes.shown(Written.of("%%theseus", line, self._typed())):
            raise MagicError(
                "'%%theseus' must be the first line of its cell; even comments come below it"
            )

    def _typed(self) -> str:
        """Return the cell that is being run, as it was typed."""
        history = getattr(self.shell, "history_manager", None)
        raw: list[str] = getattr(history, "input_hist_raw", None) or [""]
        return raw[-1]

    def _call(self, words: list[str]) -> None:
        from theseus import registry
        from theseus.cli.call import CallError, call, presenting

        try:
            with presenting(panel.display):
                call(words, prog="%theseus")
        except CallError as error:
            if words and words[0] in registry.keys("job"):
                msg = (
                    f"to build '{words[0]}', write %%theseus (two signs) on the first line of a "
                    "cell"
                )
                raise MagicError(msg) from error
            raise

    def _read(self, words: list[str]) -> CellCall | None:
        """Return what the first line asks for; None when it asked for help, which is then shown."""
        from theseus.cli import cell
        from theseus.cli.call import read

        if words[:1] == ["help"] and not words[1:]:
            words = []
        _refuse_commands(words)
        asked = read(cell.app, words or ["--help"], "%%theseus")
        return asked if isinstance(asked, cell.CellCall) else None

    def _build(self, asked: CellCall, text: str) -> tuple[QuickJob, Combobulation]:
        """Build the recipe, and bind it once nothing in the cell is wrong."""
        from theseus.notebook.cell import apply
        from theseus.quick import QuickJob, init

        root = asked.root or self._root
        if root is None:
            msg = "say where data and runs go: --root ./theseus (later cells remember it)"
            raise MagicError(msg)
        shell = self.shell
        assert shell is not None  # a magic is called by one
        names = shell.user_ns
        job = names.get(asked.job)
        recipe = init(root)
        try:
            recipe.build(
                job if isinstance(job, type) else asked.job,
                asked.name,
                asked.project,
                asked.group,
            )
            apply(recipe.config, text, names if asked.expand else None)
            spec = asked.asked.applied(recipe.spec())
        except BaseException:
            recipe.close()
            raise
        before = names.get(asked.bind)
        if isinstance(before, QuickJob):
            before.close()
        self._root = recipe.root
        names[asked.bind] = recipe
        return recipe, spec

    def _send(self, spec: Combobulation, *, dry: bool) -> None:
        if dry:
            from theseus.cli.remote import dry_run

            print(dry_run(spec, None, None, None, as_json=False))  # noqa: T201 - asked for
            return
        from theseus.notebook.run_card import RunCard

        panel.display(RunCard(spec.submit(root=self._root, tell=print)))


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        msg = f"cannot read the words on this line: {error}"
        raise MagicError(msg) from error


def _refuse_commands(words: list[str]) -> None:
    from theseus.cli.app import app

    commands = {
        one.name or one.callback.__name__ for one in app.registered_commands if one.callback
    } | {one.name for one in app.registered_groups}
    if words and words[0] in commands:
        msg = f"'{words[0]}' is a command: %theseus {shlex.join(words)} (one sign, no lines below)"
        raise MagicError(msg)


def _allow_an_empty_body(lines: list[str]) -> list[str]:
    """Give a cell that is `%%theseus …` alone a line below it; IPython refuses it otherwise."""
    if lines and lines[0].startswith("%%theseus") and not "".join(lines[1:]).strip():
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return lines


def load(shell: InteractiveShell) -> None:
    """Add the magics to a shell."""
    from theseus.notebook import completion

    completion.load(shell)
    magics = TheseusMagics(shell)
    shell.register_magics(magics)
    events: Any = shell.events
    events.register("pre_run_cell", threads.remember_cell)
    register: Any = shell.register_magic_function
    register(magics.misplaced, magic_kind="line", magic_name=_MISPLACED)
    if _allow_an_empty_body not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_allow_an_empty_body)


def unload(shell: InteractiveShell) -> None:
    """Take the magics away from a shell again."""
    from theseus.notebook import completion

    completion.unload(shell)
    events: Any = shell.events
    if threads.remember_cell in events.callbacks["pre_run_cell"]:
        events.unregister("pre_run_cell", threads.remember_cell)
    manager = shell.magics_manager
    for kind, name in (("line", "theseus"), ("cell", "theseus"), ("line", _MISPLACED)):
        manager.magics[kind].pop(name, None)
    manager.registry.pop(TheseusMagics.__name__, None)
    while _allow_an_empty_body in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(_allow_an_empty_body)
