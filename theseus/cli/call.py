"""One call of the command line, made by a shell or by a magic: the same words, the same messages."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typer
from typer.main import get_command

from theseus.errors import STOPPED, UserError

WORK_FAILED, CALL_WRONG, WORK_STOPPED = 1, 2, STOPPED

# Newer versions of typer carry click inside, under a private name; its base class is public.
_ClickError: type[Exception] = next(
    cls
    for cls in typer.BadParameter.__mro__
    if cls.__name__ == "ClickException" and issubclass(cls, Exception)
)


class CallError(UserError):
    """The call itself is wrong: a word, an option or its value."""


class WorkError(UserError):
    """The call was right; the work it asked for did not succeed."""


class WorkStopped(WorkError):
    """The work was asked to end, has saved its state and can go on from there."""


_present: ContextVar[Callable[[object], None]] = ContextVar("present", default=typer.echo)


def present(thing: object) -> None:
    """Show what a command found: its text in a terminal, the thing itself in a notebook."""
    _present.get()(thing)


def is_presented() -> bool:
    """Return whether a notebook shows what is found, and not a terminal."""
    return _present.get() is not typer.echo


@contextmanager
def presenting(show: Callable[[object], None]) -> Iterator[None]:
    """Let `show` take what commands present, in place of its text going to the output."""
    token = _present.set(show)
    try:
        yield
    finally:
        _present.reset(token)


def call(arguments: Sequence[str], prog: str = "theseus") -> None:
    """Do what the words say, printing what they ask for.

    Raises
    ------
    UserError
        With the message to show: `WorkError` when the work failed, any other when the call is
        wrong.
    """
    from theseus.cli.app import app

    if read(app, arguments or ["--help"], prog):
        raise WorkError("interrupted")  # typer turns Ctrl-C into a status


def read(app: typer.Typer, arguments: Sequence[str], prog: str) -> Any:
    """Let `app` read the words and return what its command returns, or 0 when it showed a help.

    Raises
    ------
    CallError
        With what `app` has against the words, and how they should be.
    """
    try:
        return get_command(app).main(args=list(arguments), prog_name=prog, standalone_mode=False)
    except typer.Abort as error:
        raise WorkError("interrupted") from error
    except _ClickError as error:
        context = getattr(error, "ctx", None)
        usage = f"\n{context.get_usage()}" if context is not None else ""
        msg = f"{error.format_message()}{usage}"  # type: ignore[attr-defined]
        raise CallError(msg) from None


def execute(arguments: Sequence[str], prog: str = "theseus") -> int:
    """Do what the words say and return the exit status.

    0; 1 when the work failed, 2 when the call was wrong, 75 when the work was stopped and can go on.
    """
    try:
        call(arguments, prog)
    except WorkStopped as error:
        return _tell(error, WORK_STOPPED)
    except WorkError as error:
        return _tell(error, WORK_FAILED)
    except UserError as error:
        return _tell(error, CALL_WRONG)
    except KeyboardInterrupt:
        return _tell("interrupted", WORK_FAILED)
    except BrokenPipeError:
        # The reader (`head`, a pager) has gone; Python would complain again when it ends.
        sys.stdout = None
        return WORK_FAILED
    except Exception:  # noqa: BLE001 - the one place where a fault becomes an exit status
        traceback.print_exc()
        return WORK_FAILED
    return 0


def _tell(message: object, status: int) -> int:
    print(f"theseus: {message}", file=sys.stderr)
    return status
