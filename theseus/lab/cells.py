"""`%%theseus` cells for the editor: what can come, what is wrong, what a word means.

    complete(cell, offset) -> {"from", "to", "items": [{"text", "kind", "type", "default", "help"}]}
    check(cell)            -> {"mistakes": [{"from", "to", "message", "fix"}]}
    hover(cell, offset)    -> {"from", "to", "key", "type", "default", "help", "owner"} or None

where a fix is `{"text", "from", "to"}` or None. Offsets count UTF-16 units, as JavaScript does. No
text raises, whatever is in it, and nothing of it is run. JAX is imported by other processes alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from theseus import registry
from theseus._job_keys import keys_of_job
from theseus.config import MISSING, KeyRecord
from theseus.errors import UserError, did_you_mean, nearest
from theseus.lab.checking import Checker

MAGIC = "%%theseus"
# JupyterLab drops what comes later than a second; the work goes on for the next question.
_WAIT = 0.8
_MEANT = re.compile(r"did you mean '([^'\n]+)'\?")
_NAME = re.compile(r"[\w./-]+")
_LONGEST = 200_000  # characters of a cell that is looked at

checker = Checker()


def complete(cell: str, offset: int) -> dict[str, Any]:
    """Return what can stand at a place of a cell."""
    from theseus.completion import complete as candidates

    units = _Units(cell)
    cursor = units.index(offset)
    found = candidates(cell, cursor, wait=_WAIT) if len(cell) <= _LONGEST else None
    if not found:
        return {"from": units.offset(cursor), "to": units.offset(cursor), "items": []}
    items = []
    for one in found:
        type_, equals, default = one.detail.partition(" = ")
        is_key = one.type == "key"
        items.append(
            {
                "text": one.text,
                "kind": one.type,
                "type": type_,
                "default": default if is_key and equals else None,
                "help": one.help,
            }
        )
    return {"from": units.offset(found[0].start), "to": units.offset(found[0].end), "items": items}


def check(cell: str) -> dict[str, Any]:
    """Return what is wrong in a cell, with the same words as when it is run."""
    units = _Units(cell)
    told = []
    for start, end, message in _wrong(cell) if len(cell) <= _LONGEST else ():
        begin, stop = _visible(cell, start, end)
        meant = _MEANT.search(message)
        if meant:
            new = _replacement(cell[begin:stop], message, meant[1])
        else:
            new = _option_meant(cell[begin:stop], message)
        place = {"from": units.offset(begin), "to": units.offset(stop)}
        told.append(
            {**place, "message": message, "fix": None if new is None else {"text": new, **place}}
        )
    return {"mistakes": told}


def hover(cell: str, offset: int) -> dict[str, Any] | None:
    """Return what is known of the word at a place: a key of the body, a job or an option."""
    parts = _parts(cell) if len(cell) <= _LONGEST else None
    if parts is None:
        return None
    units = _Units(cell)
    index = units.index(offset)
    line_start, body_start = parts
    if index < body_start:
        found = _word_help(cell[line_start : body_start - 1], index - line_start)
        where = line_start
    else:
        found = _key_help(
            _job(cell[line_start : body_start - 1]), cell[body_start:], index - body_start
        )
        where = body_start
    if found is None:
        return None
    start, end, told = found
    return {"from": units.offset(where + start), "to": units.offset(where + end), **told}


def close() -> None:
    """End the process that checks."""
    checker.close()


class _Units:
    """Places in a text, in characters and in UTF-16 units."""

    def __init__(self, text: str) -> None:
        # A text without letters beyond the first plane counts the same in both.
        self._length = len(text)
        self._ends: list[int] | None = None
        if any(letter > "\uffff" for letter in text):
            self._ends = list(accumulate((1 + (one > "\uffff") for one in text), initial=0))

    def offset(self, index: int) -> int:
        return index if self._ends is None else self._ends[index]

    def index(self, offset: int) -> int:
        if self._ends is None:
            return max(0, min(offset, self._length))
        return min(bisect_left(self._ends, max(0, offset)), self._length)


def _parts(cell: str) -> tuple[int, int] | None:
    """Return where the words of the first line begin, and where the body does."""
    blank = len(cell) - len(cell.lstrip())
    start = blank + len(MAGIC)
    if not cell.startswith(MAGIC, blank) or cell[start : start + 1].strip():
        return None
    end = cell.find("\n", blank)
    return start, (len(cell) if end < 0 else end) + 1


def _job(line: str) -> str:
    from theseus.completion import job_of_line

    return job_of_line(line)


# What is wrong


def _wrong(cell: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and message of each mistake, in characters of the cell."""
    parts = _parts(cell)
    if parts is None:
        return
    start, body_start = parts
    line = cell[start : body_start - 1]
    for begin, end, message in _wrong_on_line(line):
        yield start + begin, start + end, message
    body = cell[body_start:]
    job = _job(line)
    words = [word.text for word in _split(line)]
    if job in registry.keys("job"):
        keys_of_job(job, wait=0)  # they will be wanted for completion
    if not body.strip():
        return
    if job in registry.keys("job"):
        found = checker.ask(job, body, expand="--expand" in words)
    else:  # a class of the notebook, of which the server knows nothing
        found = _not_yaml(body) if "--expand" not in words else []
    for one in found:
        yield body_start + one["start"], body_start + one["end"], one["message"]


def _wrong_on_line(line: str) -> Iterator[tuple[int, int, str]]:
    from theseus.cli import cell as cells
    from theseus.cli.call import read
    from theseus.notebook.mistakes import place

    words = _split(line)
    texts = [word.text for word in words]
    if not texts or words[-1].open_quote or {"--help", "-h", "help"} & set(texts):
        return
    try:
        asked = read(cells.app, texts, MAGIC)
    except UserError as error:
        message = str(error).split("\nUsage:", maxsplit=1)[0]
        begin, end = place(message, line) or (len(line) - len(line.lstrip()), len(line.rstrip()))
        yield begin, end, message
        return
    said = [_job_message(asked.job), *(_chip_message(name) for name in asked.asked.chips)]
    for message in filter(None, said):
        found = place(message, line)
        if found is not None:
            yield *found, message


def _job_message(job: str) -> str | None:
    known = registry.keys("job")
    # A notebook may have jobs of its own; only what looks like another's name is a mistake.
    if job in known or "/" not in job or nearest(job, known) is None:
        return None
    if job.rpartition("/")[0] in {one.rpartition("/")[0] for one in known}:
        name = job.rpartition("/")[2]
        if not did_you_mean(name, [one.rpartition("/")[2] for one in known]):
            return None
    return f"no job is registered as '{job}'{did_you_mean(job, known)}"


def _chip_message(name: str) -> str | None:
    from theseus.hardware.chips import chip

    try:
        chip(name)
    except UserError as error:
        return str(error)
    return None


def _not_yaml(body: str) -> list[dict[str, Any]]:
    import yaml

    try:
        yaml.compose(body, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        index = mark.index if mark else 0
        message = f"not YAML: {error.problem or error.context}"
    except yaml.reader.ReaderError as error:
        index, message = error.position, f"not YAML: {error.reason}"
    except RecursionError:
        index, message = 0, "not YAML: too many braces in one another"
    else:
        return []
    return [{"start": index, "end": index, "message": message}]


def _visible(cell: str, start: int, end: int) -> tuple[int, int]:
    """Return a range in which something can be underlined: within a line, not empty."""
    start = max(0, min(start, len(cell)))
    stop = cell.find("\n", start)
    end = min(max(end, start), len(cell) if stop < 0 else stop)
    end = start + len(cell[start:end].rstrip())
    if end > start:
        return start, end
    if start < len(cell) and cell[start] != "\n":
        return start, start + 1
    return max(0, start - 1), start


def _replacement(written: str, message: str, meant: str) -> str | None:
    """Return what mends a word; None where it stands somewhere else."""
    full, colon, _ = message.partition(": no such key")
    quote = written[:1] if written[:1] in "\"'" and written[-1:] == written[:1] else ""
    inner = written.strip("\"'")
    if not colon:
        if "=" in inner and inner.startswith("-"):
            return f"{inner.partition('=')[0]}={meant}"
        return f"{quote}{meant}{quote}"
    name = inner.replace("/", ".")
    above = full.removesuffix(name)
    if not full.endswith(name) or not meant.startswith(above):
        return None
    return f"{quote}{meant.removeprefix(above)}{quote}"


def _option_meant(written: str, message: str) -> str | None:
    from theseus.completion import options_of_cell

    if not message.startswith("No such option"):
        return None
    name, equals, value = written.partition("=")
    found = nearest(name, options_of_cell())
    return None if found is None else f"{found}{equals}{value}"


# What a word means


def _key_help(job: str, body: str, index: int) -> tuple[int, int, dict[str, Any]] | None:
    from theseus._complete_body import place

    word = next((one for one in _NAME.finditer(body) if one.start() <= index <= one.end()), None)
    if word is None or not job:
        return None
    found = place(body[: word.end()])
    if found is None or found.kind != "key":
        return None
    name = body[found.start : word.end()].strip("\"'").replace("/", ".")
    key = f"{found.path}.{name}" if found.path else name
    records = keys_of_job(job, wait=_WAIT)
    record = next((one for one in records if one.key == key), None)
    return None if record is None else (found.start, word.end(), _told(record))


def _told(record: KeyRecord) -> dict[str, Any]:
    from theseus._summary import value_text
    from theseus.cli.listing import type_text

    return {
        "key": record.key,
        "type": type_text(record),
        "default": None if record.default is MISSING else value_text(record.default),
        "help": record.help,
        "owner": ", ".join(record.owners),
    }


def _word_help(line: str, index: int) -> tuple[int, int, dict[str, Any]] | None:
    from theseus.completion import options_of_cell

    word = next((one for one in _split(line) if one.start <= index <= one.end), None)
    if word is None:
        return None
    entry = next((one for one in registry.entries("job") if one.key == word.text), None)
    if entry is not None:
        told = {"key": entry.key, "type": "job", "help": entry.help}
    else:
        option = options_of_cell().get(word.text.partition("=")[0])
        if option is None:
            return None
        told = {"key": max(option.opts, key=len), "type": "option", "help": option.help or ""}
    return word.start, word.end, {**told, "default": None, "owner": ""}


def _split(line: str) -> Any:
    from theseus._words import split

    return split(line)
