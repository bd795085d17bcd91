"""`%theseus` and `%%theseus`: the command line and the recipe as magics.

Loading them imports nothing else; what reads the words is imported when a magic is first used.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from theseus.errors import UserError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from theseus.cli.cell import CellCall
    from theseus.combobulation import Combobulation

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

        %theseus jobs                     list the jobs
        %theseus jobs -v JOB              with their configuration keys
        %theseus runs                     list the runs that were sent away
        %theseus logs RUN -f              follow the log of one
        %theseus --help                   all commands, as in a terminal

        %%theseus JOB NAME [--root FOLDER] [--chip CHIP --gpus N] [--run | --submit]
        architecture: {n_embd: 128}
        training.tokens: 32_768

        builds the job from the YAML, binds it to `q` and shows it; `%%theseus --help` has all
        options. Nothing on these lines is expanded by IPython: `$x`, `${a.b}` and `{a: 1}` arrive
        as written.
        """
        try:
            words = _words(line)
            if cell is None:
                self._call(words)
            else:
                self._cell(words, cell)
        except UserError as error:
            raise _shown_plainly(error) from None

    def misplaced(self, line: str) -> None:
        """Explain where `%%theseus` goes."""
        del line
        msg = "%%theseus must be the first line of its cell; even comments come below it"
        raise _shown_plainly(MagicError(msg))

    def _call(self, words: list[str]) -> None:
        from theseus import registry
        from theseus.cli.call import CallError, call

        try:
            call(words, prog="%theseus")
        except CallError as error:
            if words and words[0] in registry.keys("job"):
                msg = (
                    f"to build {words[0]}, write %%theseus (two signs) on the first line of a cell"
                )
                raise MagicError(msg) from error
            raise

    def _cell(self, words: list[str], text: str) -> None:
        from theseus.cli import cell
        from theseus.cli.call import read

        _refuse_commands(words)
        asked = read(cell.app, words or ["--help"], "%%theseus")
        if isinstance(asked, cell.CellCall):  # otherwise the help was shown
            self._build(asked, text)

    def _build(self, asked: CellCall, text: str) -> None:
        from theseus.notebook import panel
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
            apply(recipe.config, text)
            spec = asked.asked.applied(recipe.spec()) if asked.asked else None
        except BaseException:
            recipe.close()
            raise
        before = names.get(asked.bind)
        if isinstance(before, QuickJob):
            before.close()
        self._root = recipe.root
        names[asked.bind] = recipe
        panel.show(recipe, spec)
        if asked.run:
            recipe.create()()
        elif asked.submit or asked.dry_run:
            self._send(spec or recipe.spec(), dry=asked.dry_run)

    def _send(self, spec: Combobulation, *, dry: bool) -> None:
        if dry:
            from theseus.dispatch.rehearsal import rehearse

            print(rehearse(spec))  # noqa: T201 - what the user asked to see
            return
        _display(spec.submit(root=self._root, tell=print))


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


def _display(thing: object) -> None:
    from IPython.display import display

    show: Any = display  # IPython leaves it without types
    show(thing)


def _shown_plainly(error: UserError) -> UserError:
    """Let IPython show the message alone: the line it came from is the one just typed."""
    error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[method-assign]
    return error


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
    register: Any = shell.register_magic_function
    register(magics.misplaced, magic_kind="line", magic_name=_MISPLACED)
    if _allow_an_empty_body not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_allow_an_empty_body)


def unload(shell: InteractiveShell) -> None:
    """Take the magics away from a shell again."""
    from theseus.notebook import completion

    completion.unload(shell)
    manager = shell.magics_manager
    for kind, name in (("line", "theseus"), ("cell", "theseus"), ("line", _MISPLACED)):
        manager.magics[kind].pop(name, None)
    manager.registry.pop(TheseusMagics.__name__, None)
    while _allow_an_empty_body in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(_allow_an_empty_body)
