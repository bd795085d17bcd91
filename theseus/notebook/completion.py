"""Tab in a notebook: the candidates of `theseus.completion`, handed to IPython's completer.

The matcher interface of IPython is marked provisional; all that depends on it is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# JupyterLab drops an answer that takes longer than a second.
_WAIT = 0.8
_NAME = "theseus"


def load(shell: InteractiveShell) -> None:
    """Let the completer of a shell ask theseus first."""
    unload(shell)
    from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

    @context_matcher(identifier=_NAME, priority=1000)  # type: ignore[untyped-decorator]
    def matcher(context: CompletionContext) -> Any:
        found = _complete(context, shell.user_ns)
        if found is None:
            return {"completions": [], "suppress": False}
        completions, fragment = found
        # Only an answer that is not empty keeps file names away. What is there already, offered
        # again, changes nothing.
        return {
            "completions": [SimpleCompletion(text, type=kind) for text, kind in completions]
            or [SimpleCompletion(fragment, type="")],
            "matched_fragment": fragment,
            "suppress": True,
        }

    completer: Any = shell.Completer
    completer.custom_matchers.append(matcher)


def unload(shell: InteractiveShell) -> None:
    """Take theseus out of the completer again."""
    completer: Any = shell.Completer
    completer.custom_matchers[:] = [
        one for one in completer.custom_matchers if getattr(one, "matcher_identifier", "") != _NAME
    ]


def _complete(context: Any, names: Mapping[str, Any]) -> tuple[list[tuple[str, str]], str] | None:
    text: str = context.full_text
    if "%theseus" not in text:
        return None
    from theseus.completion import complete

    before = sum(len(line) + 1 for line in text.split("\n")[: context.cursor_line])
    cursor = before + context.cursor_position
    found = complete(text, cursor, _jobs_in(names), wait=_WAIT)
    if found is None:
        return None
    start = found[0].start if found else cursor
    # The front end has one line for each: what a key takes is told where its type goes.
    return [(one.text, one.detail or one.type) for one in found], text[start:cursor]


def _jobs_in(names: Mapping[str, Any]) -> dict[str, type]:
    """Return the classes of the notebook that are jobs of its own."""
    from theseus.job import Job

    return {
        name: one
        for name, one in list(names.items())
        if isinstance(one, type)
        and issubclass(one, Job)
        and not name.startswith("_")
        and one.__module__ == "__main__"
    }
