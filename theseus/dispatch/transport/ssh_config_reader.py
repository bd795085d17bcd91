"""Reading an SSH configuration where there is no `ssh` program that could.

It follows what OpenSSH's manual says of `Host`, `Match`, `Include` and tokens. A `Match` that
cannot be judged (`exec`, `localnetwork`, a word that is not known) never matches: to apply its
settings to every host would be worse.
"""

from __future__ import annotations

import fnmatch
import getpass
import glob
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from theseus.dispatch.transport.base import TransportError
from theseus.dispatch.transport.ssh_config import (
    Settings,
    config_file,
    home,
    parse_jump,
    parse_settings,
    with_tokens,
)

_SYSTEM = Path("/etc/ssh/ssh_config")
_DEEPEST = 16
_MANY = {"identityfile", "certificatefile"}  # each line adds one; of all others, the first wins
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_DEFAULTS = {
    "userknownhostsfile": "~/.ssh/known_hosts ~/.ssh/known_hosts2",
    "globalknownhostsfile": "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",
}
_WITH_TOKENS = {"identityagent", "controlpath", *_DEFAULTS}


def read_without_ssh(
    host: str, destination: str, *, user: str | None, port: int | None
) -> Settings:
    """Return the settings with which `ssh DESTINATION` would connect; see `read_settings`."""
    parsed = parse_jump(destination)
    if parsed is None:
        message = f"`ssh: {destination}` is not something that ssh can connect to"
        raise TransportError(host, "unreachable", message)
    alias, given_user, given_port = parsed
    values: dict[str, list[str]] = {}
    if user or given_user:
        values["user"] = [user or given_user or ""]
    if port or given_port:
        values["port"] = [str(port or given_port)]
    own = config_file()
    paths = [own] if own else [home() / ".ssh/config", _SYSTEM]
    for path in paths:
        base = _SYSTEM.parent if path == _SYSTEM else home() / ".ssh"
        _apply(_lines(host, path, base, 0), alias, values)
    return _settings(alias, values)


def aliases() -> list[str]:
    """Return the names that the configuration gives hosts, in its order; patterns are left out."""
    own = config_file()
    path = own or home() / ".ssh/config"
    try:
        lines = list(_lines("", path, home() / ".ssh", 0))
    except TransportError:
        return []  # who connects is told what is wrong with it
    found = [word for key, words, _ in lines if key == "host" for word in words]
    return list(dict.fromkeys(word for word in found if not re.search(r"[*?!]", word)))


def _settings(alias: str, values: dict[str, list[str]]) -> Settings:
    hostname = values.get("hostname", ["%h"])[0].replace("%h", alias).replace("%n", alias)
    values["hostname"] = [hostname]
    values.setdefault("user", [getpass.getuser()])
    values.setdefault("port", ["22"])
    for key, value in _DEFAULTS.items():
        values.setdefault(key, [value])
    values.setdefault("identityfile", [f"~/.ssh/{name}" for name in _DEFAULT_KEYS])
    tokens = {"h": hostname, "n": alias, "p": values["port"][0], "r": values["user"][0]}
    for key in _WITH_TOKENS & set(values):  # as `ssh -G` replaces them, and in no others
        values[key] = [with_tokens(value, tokens) for value in values[key]]
    text = "\n".join(f"{key} {value}" for key, each in values.items() for value in each)
    return parse_settings(alias, text)


def _lines(host: str, path: Path, base: Path, depth: int) -> Iterator[tuple[str, list[str], str]]:
    """Yield each line as (key, words, rest of the line), with included files in their place.

    A `Host` or `Match` inside an included file ends with that file: what follows it belongs to the
    block around it again, which is said by the pseudo key `restore`.
    """
    try:
        text = path.read_text("utf-8", "surrogateescape")
    except OSError:
        return
    if depth > _DEEPEST:
        message = f"'{path}' includes itself, or is included too deeply"
        raise TransportError(host, "unreachable", message)
    for number, line in enumerate(text.splitlines(), start=1):
        match = re.fullmatch(r"\s*([A-Za-z]\w*)(?:\s*=\s*|\s+)(.*?)\s*", line)
        if match is None:
            continue
        key, rest = match[1].lower(), match[2]
        if key != "proxycommand":
            rest = re.sub(r"(^|\s)#.*", "", rest)
        try:
            words = shlex.split(rest, comments=False)
        except ValueError:
            message = f"'{path}', line {number}: a quote is not closed"
            raise TransportError(host, "unreachable", message) from None
        if key != "include":
            yield key, words, rest
            continue
        for word in words:
            pattern = home() / word[2:] if word.startswith("~/") else base / word
            for found in sorted(glob.glob(str(pattern))):  # noqa: PTH207 - an absolute pattern
                yield "begin", [], ""
                yield from _lines(host, Path(found), base, depth + 1)
                yield "restore", [], ""


def _apply(
    lines: Iterator[tuple[str, list[str], str]], alias: str, values: dict[str, list[str]]
) -> None:
    """Add what the lines say of `alias`."""
    active, around = True, [True]
    for key, words, rest in lines:
        if key == "begin":
            around.append(active)
        elif key == "restore":
            active = around.pop()
        elif key == "host":
            active = around[-1] and _matches(alias, words)
        elif key == "match":
            active = around[-1] and _match(alias, words, values)
        elif not active or not rest:
            continue
        elif key in _MANY:
            values.setdefault(key, []).append(_value(words, rest))
        else:
            values.setdefault(key, [rest if key == "proxycommand" else _value(words, rest)])


def _value(words: list[str], rest: str) -> str:
    return words[0] if len(words) == 1 else rest


def _matches(name: str, patterns: list[str]) -> bool:
    matched = False
    for pattern in patterns:
        if fnmatch.fnmatchcase(name.lower(), pattern.lower().removeprefix("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def _match(alias: str, words: list[str], values: dict[str, list[str]]) -> bool:
    """Return whether all criteria of a `Match` line hold."""
    rest = iter(words)
    hostname = values.get("hostname", [alias])[0].replace("%h", alias)
    subjects = {
        "host": hostname,
        "originalhost": alias,
        "user": values.get("user", [getpass.getuser()])[0],
        "localuser": getpass.getuser(),
    }
    matched = True
    for word in rest:
        criterion, equals, inline = word.partition("=")
        negated, criterion = criterion.startswith("!"), criterion.removeprefix("!").lower()
        if criterion in {"all", "final"}:  # final: a second reading of the same lines
            holds = True
        elif criterion == "canonical":
            holds = False
        elif criterion in subjects:
            pattern = inline if equals else next(rest, "")
            holds = _matches(subjects[criterion], pattern.split(","))
        else:
            return False
        matched = matched and holds != negated
    return matched
