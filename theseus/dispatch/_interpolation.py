"""`${oc.env:NAME}` and `${oc.env:NAME,default}`: what this machine's environment adds to a text."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# OmegaConf's spelling; `\${` is a `${` that is meant literally, as there.
_RESOLVER = re.compile(r"(\\?)\$\{\s*([A-Za-z_][\w.]*)\s*:([^{}]*)\}", re.ASCII)


@dataclass(frozen=True)
class Interpolated:
    """A text with its variables replaced.

    Attributes
    ----------
    names
        The variables that it names.
    missing
        One that is not set here and has no default.
    problem
        What else is wrong with it.
    """

    text: str
    names: tuple[str, ...] = ()
    missing: str | None = None
    problem: str | None = None


def interpolated(text: str) -> Interpolated:
    """Replace what this machine's environment has; what a variable holds is not looked at again."""
    names: list[str] = []
    missing: list[str] = []
    problems: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        escaped, resolver, arguments = found.groups()
        if escaped:
            return found[0][1:]
        name, comma, default = (part.strip() for part in arguments.partition(","))
        if resolver != "oc.env":
            problems.append(
                f"'{found[0]}' is not known here: only ${{oc.env:NAME}} and "
                "${oc.env:NAME,default} are, and $NAME in folders is left to the host"
            )
        elif not VARIABLE.fullmatch(name):
            problems.append(f"'{found[0]}': '{name}' is no name of an environment variable")
        else:
            names.append(name)
            if name in os.environ:
                return os.environ[name]
            if comma:
                quoted = len(default) > 1 and default[0] == default[-1] and default[0] in "'\""
                return default[1:-1] if quoted else default
            missing.append(name)
        return ""

    whole = _RESOLVER.sub(replaced, text)
    if not problems and "${oc." in _RESOLVER.sub("", text).replace(" ", ""):
        problems.append(
            f"'{text}' cannot be read: write ${{oc.env:NAME}} or ${{oc.env:NAME,default}}, "
            "one not inside another"
        )
    return Interpolated(
        whole, tuple(names), missing[0] if missing else None, problems[0] if problems else None
    )


def unset(name: str) -> str:
    """Return what to do about a variable that is not set."""
    return f"${name} is not set here: export {name}=…, or write a default: ${{oc.env:{name},…}}"
