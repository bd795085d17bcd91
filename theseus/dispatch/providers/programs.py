"""The programs that run on a host, and the marked sections in which they answer."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theseus.dispatch.transport import Answer, Transport


@dataclass(frozen=True)
class Section:
    """What one command of a program printed, and its exit status."""

    name: str
    text: str
    status: int


@dataclass(frozen=True)
class Report:
    """What a program answered. `complaint` is what it printed to its error stream."""

    sections: tuple[Section, ...]
    complaint: str

    def __contains__(self, name: object) -> bool:
        return any(section.name == name for section in self.sections)

    def text(self, name: str) -> str:
        """Return what the section says; nothing when it is not there."""
        return next((section.text for section in self.sections if section.name == name), "")

    def each(self, name: str) -> Iterator[Section]:
        """Yield the sections of this name."""
        return (section for section in self.sections if section.name == name)

    def values(self, name: str) -> dict[str, str]:
        """Return a section of `key=value` lines."""
        pairs = (line.partition("=") for line in self.text(name).splitlines())
        return {key: value for key, mark, value in pairs if mark}


@cache
def program(*names: str) -> str:
    """Return the text of a program, made of these parts."""
    folder = files("theseus.dispatch.providers").joinpath("sh")
    return "\n".join(folder.joinpath(f"{name}.sh").read_text(encoding="utf-8") for name in names)


def ask(
    transport: Transport,
    parts: tuple[str, ...],
    *arguments: str | int,
    given: bytes = b"",
    timeout: float = 30.0,
) -> Report:
    """Run a program, made of these parts, and return what it answered.

    The mark around its sections is new each time, so nothing that a host's other users named
    (a process, a job) can be taken for a section.

    Raises
    ------
    TransportError
        When there is no answer.
    """
    mark = f"@{secrets.token_hex(8)}"
    answer = transport.run(
        program("common", *parts), mark, *map(str, arguments), input=given, timeout=timeout
    )
    return read_report(answer, mark)


def read_report(answer: Answer, mark: str) -> Report:
    """Return what a program answered in sections framed by `mark`."""
    return Report(_sections(answer.text, mark), answer.complaint)


def _sections(text: str, mark: str) -> tuple[Section, ...]:
    pattern = rf"^{mark} begin (\S+)\n(.*?)\n?\n{mark} end (\d+)$"
    return tuple(
        Section(found[1], found[2], int(found[3]))
        for found in re.finditer(pattern, text, re.MULTILINE | re.DOTALL)
    )
