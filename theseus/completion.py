"""What can stand at the cursor: for Tab in a notebook, in a shell and in the JupyterLab extension.

`complete` takes the text of a cell and a position; `complete_command` takes a line of a terminal.
Both give candidates with the range that each replaces. No host is asked, no JAX is imported, and
nothing of what the text says is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from theseus import _complete_values as values
from theseus._complete_values import Offer
from theseus._words import Word, quoted, split

if TYPE_CHECKING:
    from theseus.config import KeyRecord

_LINE_MAGIC = re.compile(r"(?:.*[=(]\s*)?\s*%theseus(?=\s)")
_ENDS = "/._-"  # signs after which a part of a name begins


@dataclass(frozen=True)
class Candidate:
    """Something that can be written in place of `text[start:end]`.

    Attributes
    ----------
    text
        What is then there.
    type
        What it is: `job`, `key`, `value`, `option`, `command`, `chip`, `host`, `run`, `file` …
    detail
        A few words beside it: `int ≥ 1 = 768`.
    help
        A sentence about it: `embedding width`.
    """

    start: int
    end: int
    text: str
    type: str
    detail: str = ""
    help: str = ""


Offers = Iterable[Offer]


def complete(
    text: str, cursor: int, classes: Mapping[str, Any] | None = None, *, wait: float = 60.0
) -> list[Candidate] | None:
    """Return what can stand at the cursor of a cell, or None where theseus has nothing to say.

    Parameters
    ----------
    text, cursor
        The whole cell, and a position in it, in characters.
    classes
        Names that stand for classes in the notebook.
    wait
        How many seconds may be waited for the keys of a job that nobody has looked at yet.
    """
    text_before = text[:cursor]
    blank = len(text) - len(text.lstrip())
    if text[blank:].startswith("%%theseus"):
        first = text.find("\n", blank)
        first = len(text) if first < 0 else first
        words_from = blank + len("%%theseus")
        if cursor <= words_from or text[words_from : words_from + 1].strip():
            return None
        job = job_of_line(text[words_from:first])
        if cursor > first:
            body, where = text[first + 1 : cursor], first + 1
            keys = _keys(job, classes, wait)
            return _in_body(body, where, text[first + 1 :], keys)
        if job and text[words_from:cursor].split()[1:]:
            _keys(job, classes, 0)  # they will be wanted below
        line = text[words_from:cursor]
        return _on_line(line, words_from, _Call(_cell_command(), True, classes, wait))
    line_start = text_before.rfind("\n") + 1
    found = _LINE_MAGIC.match(text_before, line_start)
    if found is None:
        return None
    line = text_before[found.end() :]
    return _on_line(line, found.end(), _Call(_command(), False, classes, wait))


def complete_command(line: str, cursor: int) -> list[Candidate]:
    """Return what can stand at the cursor of a line in a terminal that begins with `theseus`."""
    words = split(line[:cursor])
    if not words or words[0].end == cursor:
        return []
    start = words[0].end
    return _on_line(line[start:cursor], start, _Call(_command(), False, None, 60.0))


# The words of a line


@dataclass
class _Call:
    """What was read of a line so far: the command it has come to, and what it was given."""

    command: Any
    in_cell: bool
    classes: Mapping[str, Any] | None
    wait: float

    def __post_init__(self) -> None:
        self.positionals: list[str] = []
        self.used: set[str] = set()
        self.waiting: Any = None  # an option whose value comes next
        self.only_words = False  # after `--`

    def read(self, word: str) -> None:
        if self.waiting is not None:
            self.waiting = None
        elif word == "--" and not self.only_words:
            self.only_words = True
        elif word.startswith("-") and len(word) > 1 and not self.only_words:
            name, equals, _ = word.partition("=")
            option = self.option(name)
            if option is not None:
                self.used.add(option.name)
                self.waiting = None if equals or option.is_flag else option
        elif (inner := getattr(self.command, "commands", {}).get(word)) is not None:
            self.command, self.positionals, self.used = inner, [], set()
        else:
            self.positionals.append(word)

    def option(self, name: str) -> Any:
        return next((one for one in self.options() if name in one.opts), None)

    def options(self) -> list[Any]:
        return [one for one in self.command.params if one.param_type_name == "option"]

    def argument(self) -> Any:
        """Return the argument that comes next, or None when all are there."""
        arguments = [one for one in self.command.params if one.param_type_name == "argument"]
        number = len(self.positionals)
        if arguments and number >= len(arguments):
            return arguments[-1] if arguments[-1].nargs == -1 else None
        return arguments[number] if arguments else None


def _on_line(line: str, where: int, call: _Call) -> list[Candidate]:
    """Return candidates for the end of a line; `where` is where it begins in the whole text."""
    words = split(line)
    last = words.pop() if words and words[-1].end == len(line) else Word("", len(line), len(line))
    for word in words:
        call.read(word.text)
    offers, skipped = _offers(call, last.text)
    # The part before the `=` of `--chip=h1` or `a.b=` stays as it is written.
    end = where + len(line)
    start = where + last.start if not skipped else end - (len(last.text) - skipped)
    return [
        Candidate(
            start,
            end,
            quoted(one.text, last.open_quote) + one.after,
            one.type,
            one.detail,
            one.help,
        )
        for one in _fitting(offers, last.text[skipped:])
    ]


def _offers(call: _Call, text: str) -> tuple[Offers, int]:
    """Return what may come, and how many letters of `text` stand before it."""
    if call.waiting is not None:
        return values.of_option(call.waiting, text), 0
    if text.startswith("-") and not call.only_words:
        name, equals, _ = text.partition("=")
        option = call.option(name) if equals else None
        if option is not None:
            at = len(name) + 1
            return values.of_option(option, text[at:]), at
        return _options(call), 0
    commands = getattr(call.command, "commands", None)
    if commands is not None and not call.positionals:
        shown = [one for one in commands.items() if not one[1].hidden]
        return [Offer(name, "command", help=_first_line(one.help)) for name, one in shown], 0
    argument = call.argument()
    if argument is not None and argument.metavar == "KEY=VALUE":
        keys = _keys(values.job_of(call.command.name, call.positionals), call.classes, call.wait)
        key, equals, _ = text.partition("=")
        if equals:
            return _values(keys, key.replace("/", ".")), len(key) + 1
        return [_key(one, one.key, "=") for one in keys], 0
    found: list[Offer] = []
    if argument is not None:
        classes = call.classes if call.in_cell else None
        found = list(values.of_argument(argument, call.command.name, text, classes))
    return found or (_options(call) if not text else []), 0


def _options(call: _Call) -> list[Offer]:
    offers = [
        Offer(max(one.opts, key=len), "option", help=_first_line(one.help))
        for one in call.options()
        if one.multiple or one.name not in call.used
    ]
    return [*offers, Offer("--help", "option", help="Show what can be written, and end.")]


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n")[0]


def job_of_line(line: str) -> str:
    """Return the job that the first line of a cell names; empty where it names none."""
    call = _Call(_cell_command(), True, None, 0)
    for word in split(line):
        call.read(word.text)
    return call.positionals[0] if call.positionals else ""


@cache
def _command() -> Any:
    from typer.main import get_command

    from theseus.cli.app import app

    return get_command(app)


@cache
def _cell_command() -> Any:
    from typer.main import get_command

    from theseus.cli.cell import app

    return get_command(app)


def options_of_cell() -> dict[str, Any]:
    """Return the options of a cell's first line by each of their names."""
    found = _Call(_cell_command(), True, None, 0).options()
    return {name: one for one in found for name in one.opts}


# The lines of a cell


def _in_body(before: str, where: int, body: str, keys: Sequence[KeyRecord]) -> list[Candidate]:
    from theseus._complete_body import place

    found = place(before)
    if found is None:
        return []
    written = before[found.start :]
    start, end = where + found.start, where + len(before)
    if found.kind == "value":
        opened = written.rfind("${")
        if opened >= 0 and "}" not in written[opened:]:
            names = [_key(one, one.key, "}") for one in keys]
            return _candidates(names, written[opened + 2 :], start + opened + 2, end)
        return _candidates(_values(keys, found.path), written, start, end)
    prefix = f"{found.path}." if found.path else ""
    colon = "" if body[len(before) :].lstrip(" ").startswith(":") else ": "
    line = before.count("\n")
    others = "\n".join(text for number, text in enumerate(body.split("\n")) if number != line)
    there = {key for key in _leaves(others) if key != prefix + written}
    names = [
        _key(one, one.key.removeprefix(prefix), colon)
        for one in keys
        if one.key.startswith(prefix) and one.key not in there
    ]
    return _candidates(names, written.replace("/", "."), start, end)


def _candidates(offers: Offers, written: str, start: int, end: int) -> list[Candidate]:
    fitting = _fitting(offers, written.lstrip("\"'"))
    return [
        Candidate(start, end, one.text + one.after, one.type, one.detail, one.help)
        for one in fitting
    ]


def _leaves(body: str) -> set[str]:
    """Return the keys that a body sets, as far as it can be read."""
    import yaml

    try:
        tree = yaml.compose(body, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return set()

    def below(node: Any, prefix: str) -> Iterator[str]:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = prefix + str(key.value).replace("/", ".")
                yield name
                yield from below(value, f"{name}.")

    return set(below(tree, ""))


# Keys and their values


def _keys(job: str, classes: Mapping[str, Any] | None, wait: float) -> list[KeyRecord]:
    from theseus._job_keys import keys_of_job

    return keys_of_job(job, classes, wait=wait) if job else []


def _key(record: KeyRecord, text: str, after: str) -> Offer:
    from theseus._summary import value_text
    from theseus.cli.listing import type_text
    from theseus.config import MISSING

    default = ", required" if record.default is MISSING else f" = {value_text(record.default)}"
    return Offer(text, "key", f"{type_text(record)}{default}", record.help, after)


def _values(keys: Sequence[KeyRecord], key: str) -> Iterator[Offer]:
    from theseus._summary import value_text
    from theseus.config import MISSING

    record = next((one for one in keys if one.key == key), None)
    if record is None:
        return
    default = "" if record.default is MISSING else value_text(record.default)
    parts = [part.strip() for part in record.type.split("|")]
    texts = [value_text(one) for one in record.choices or ()]
    texts += ["true", "false"] if "bool" in parts else []
    texts += ["null"] if "None" in parts else []
    if default and default not in texts and default != '""':
        texts.append(default)
    for text in dict.fromkeys(texts):
        yield Offer(text, "value", "the default" if text == default else "")


def _fitting(offers: Offers, written: str) -> list[Offer]:
    """Return the offers that go on as written; else those of which a part does, or that have it."""
    known, word = list(offers), written.lower()
    tests: tuple[Callable[[str], bool], ...] = (
        lambda text: text.startswith(word),
        lambda text: any(
            text[i - 1] in _ENDS and text.startswith(word, i) for i in range(1, len(text))
        ),
        lambda text: word in text,
    )
    for fits in tests:
        found = [one for one in known if fits(one.text.lower())]
        if found:
            return found
    return []
