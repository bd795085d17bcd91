"""Paths on a host: `~`, `~user` and `$NAME` are replaced by that host, once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from theseus.dispatch.transport.base import RemoteFileError

if TYPE_CHECKING:
    from theseus.dispatch.transport.shell import Shell

_TILDE = re.compile(r"~([A-Za-z0-9._][A-Za-z0-9._-]*)?(?=/|\Z)", re.ASCII)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))", re.ASCII)

# `$1` is `~`, `~user` or the name of a variable; each was checked to be a plain word before.
# A variable may be set in start-up files that only a login shell reads. That shell may be any, so
# it is told nothing but plain lists of words.
_EXPAND = r"""
case $1 in
"~") printf %s "$HOME" ;;
"~"*) eval "printf %s $1" ;;
*)
  eval "theseus_value=\${$1-}"
  if [ -z "$theseus_value" ] && [ -x "${SHELL-}" ]; then
    theseus_value=$(
      printf 'echo %s\nprintenv %s\necho %s\nexit\n' "$2" "$1" "$2" | "$SHELL" -l 2>/dev/null |
        sed -n "/^$2\$/,/^$2\$/p" | sed "/^$2\$/d"
    )
  fi
  printf %s "$theseus_value"
  ;;
esac
"""


def resolve(shell: Shell, path: str) -> str:
    """Return the absolute path on the host that `path` means there.

    Raises
    ------
    RemoteFileError
        When something in it cannot be replaced: nothing is ever created under a name with `~` or
        `$` in it, because a shell and a file transfer would disagree on what it means.
    """
    if not path or "\0" in path:
        raise RemoteFileError(shell.name, path, "is no path")
    tilde = _TILDE.match(path)
    if tilde:
        path = _expanded(shell, path, tilde[0]) + path[tilde.end() :]
    # What a variable holds is not looked at again.
    pieces: list[str] = []
    end = 0
    for found in _VARIABLE.finditer(path):
        pieces += [path[end : found.start()], _expanded(shell, path, found[1] or found[2])]
        end = found.end()
    whole = "".join(pieces) + path[end:]
    if "$" in whole or any(part.startswith("~") for part in whole.split("/")):
        message = (
            "still has a '~' or '$' in it after resolving: "
            "only ~, ~user and $NAME at their places are replaced; write the folder's full path"
        )
        raise RemoteFileError(shell.name, path, message)
    if not whole.startswith("/"):
        whole = f"{_expanded(shell, path, '~')}/{whole}"
    return whole


def _expanded(shell: Shell, path: str, word: str) -> str:
    from theseus.dispatch.transport.framing import Frame

    mark = Frame().first
    answer = shell.run(_EXPAND, word, f"theseus-{mark}")
    value = answer.out.decode("utf-8", "surrogateescape")
    if answer.status == 0 and value.startswith("/"):
        return value.rstrip("/") or "/"
    if word.startswith("~"):
        who = f"the user '{word[1:]}'" if word[1:] else "this account"
        message = f"cannot be resolved: {who} has no home folder there"
    elif value:
        message = f"cannot be resolved: ${word} is '{value}' there, not a full path"
    else:
        message = (
            f"cannot be resolved: ${word} is not set there (asked in a plain and in a login "
            "shell); write the folder's full path"
        )
    raise RemoteFileError(shell.name, path, message)
